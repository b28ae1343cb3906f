//! Tests of values and their texts.

use super::*;

fn read<T: Value>(text: &str) -> Option<T> {
    let mut names = Names::default();
    names.entry("eth0").mac = Some([1, 2, 3, 4, 5, 6]);
    names.entry("eth0").ipv4 = Some(Ipv4Addr::new(10, 0, 0, 1));
    names.entry("eth0").ipv4_prefix = Some((Ipv4Addr::new(10, 0, 0, 1), 8));
    names.entry("lan").ipv4_prefix = Some((Ipv4Addr::new(10, 0, 0, 0), 8));
    names.entry("ppp0").gateway = Some(Ipv4Addr::new(10, 9, 9, 9));
    T::parse(text, &names)
}

#[test]
fn integers_are_read_in_three_bases() {
    for (text, value) in [
        ("255", Some(255)),
        ("0xff", Some(255)),
        ("0377", Some(255)),
        ("+1", Some(1)),
        ("256", None),
        ("-1", None),
        ("", None),
        ("0x", None),
        ("+-1", None),
        ("1 ", None),
    ] {
        assert_eq!(read::<u8>(text), value, "{text}");
    }
    assert_eq!(read::<i32>("-0x10"), Some(-16));
    assert_eq!(read::<u64>("18446744073709551615"), Some(u64::MAX));
}

#[test]
fn addresses_may_be_names() {
    assert_eq!(read("eth0"), Some([1, 2, 3, 4, 5, 6]));
    assert_eq!(read("0:1:2:a:b:ff"), Some([0, 1, 2, 10, 11, 255]));
    for bad in ["0:1:2:3:4", "0:1:2:3:4:5:6", "0:1:2:3:4:100", "eth1", "+1:2:3:4:5:6"] {
        assert_eq!(read::<[u8; 6]>(bad), None, "{bad}");
    }
    for (text, address) in [
        ("eth0:ip", Some([10, 0, 0, 1])),
        ("eth0:bcast", Some([10, 255, 255, 255])),
        ("eth0:gw", Some([10, 0, 0, 1])),
        ("lan:gw", Some([10, 0, 0, 1])),
        ("ppp0:gw", Some([10, 9, 9, 9])),
        ("lan", None),
        ("ppp0", None),
    ] {
        assert_eq!(read(text), address.map(Ipv4Addr::from), "{text}");
    }
    let prefix = |length| Some(Ipv4Prefix { address: Ipv4Addr::new(10, 0, 0, 1), length });
    for (text, expected) in [
        ("10.0.0.1", prefix(32)),
        ("10.0.0.1/0", prefix(0)),
        ("10.0.0.1/255.255.0.0", prefix(16)),
        ("eth0:ipnet", prefix(8)),
        ("lan", Some(Ipv4Prefix { address: Ipv4Addr::new(10, 0, 0, 0), length: 8 })),
        ("eth0", prefix(32)),
        ("10/8", Some(Ipv4Prefix { address: Ipv4Addr::new(10, 0, 0, 0), length: 8 })),
        ("0/0", Some(Ipv4Prefix { address: Ipv4Addr::UNSPECIFIED, length: 0 })),
        ("10.0", None),
        ("10.0.0.1/33", None),
        ("10.0.0.1/255.0.255.0", None),
    ] {
        assert_eq!(read::<Ipv4Prefix>(text), expected, "{text}");
    }
    assert_eq!(prefix(8).map(Ipv4Prefix::network), Some(10 << 24));
    assert_eq!(prefix(0).map(Ipv4Prefix::network), Some(0));
}

#[test]
fn strings_lose_their_quotes() {
    for (text, expected) in [
        ("plain", Some(&b"plain"[..])),
        (r#""a\n\"b""#, Some(b"a\n\"b")),
        (r"'a\n'", Some(b"a\\n")),
        (r"\<00 0a ff>", Some(b"\x00\x0a\xff")),
        (r#""x\<41>y""#, Some(b"xAy")),
        (r"\<0>", None),
        ("\\<00 // a > b\n ff /* > */ 01>", Some(b"\x00\xff\x01")),
        ("\\<00 // a>", None),
        ("\\<00 /* a>", None),
        (r#""\a\x414\101\1\\""#, Some(b"\x07\x14A\x01\\")),
        ("\"open", None),
    ] {
        assert_eq!(unquote(text).as_deref(), expected, "{text}");
    }
    assert_eq!(read("1.5"), Some(Duration::from_millis(1500)));
    assert_eq!(read("20ms"), Some(Duration::from_millis(20)));
    assert_eq!(read::<Duration>("-1"), None);
}

#[test]
fn values_have_a_text_that_reads_as_them() {
    fn again<T: Value + PartialEq + std::fmt::Debug>(value: T, text: &str) {
        assert_eq!(value.text().as_deref(), Some(text));
        assert_eq!(T::parse(text, &Names::default()), Some(value), "{text}");
    }
    again(7u8, "7");
    again(-7i64, "-7");
    again(true, "true");
    again(1.5, "1.5");
    again("a b\"".to_owned(), r#""a b\"""#);
    again(Duration::from_millis(1500), "1500ms");
    again(Duration::from_secs(60), "60s");
    again(Duration::ZERO, "0s");
    again([0, 1, 2, 0xa, 0xb, 0xff], "00:01:02:0a:0b:ff");
    again(Ipv4Addr::new(10, 0, 0, 1), "10.0.0.1");
    again(Ipv6Addr::LOCALHOST, "::1");
}
