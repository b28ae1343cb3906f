use std::net::Ipv4Addr;
use std::time::Duration;

use europa_packet::MacAddr;
use ipnet::{Ipv4Net, Ipv6Net};

use super::*;

/// Reads one argument and prints what came out.
fn read<T: FromArg + std::fmt::Debug>(text: &str) -> String {
    match T::from_arg(text) {
        Ok(value) => format!("{value:?}"),
        Err(BadArg::Malformed) => "malformed".to_owned(),
        Err(BadArg::OutOfRange(bound)) => format!("bound {bound}"),
        Err(BadArg::Refused(reason)) => reason,
    }
}

#[test]
fn integers() {
    let table = [
        ("5", "5"),
        ("+5", "5"),
        ("0x1F", "31"),
        ("017", "15"),
        ("0b101", "5"),
        ("1_0", "10"),
        ("0", "0"),
        ("-5", "malformed"),
        ("256", "bound 255"),
        ("99999999999999999999999999999999999999999999", "bound 255"),
        ("0x", "malformed"),
        ("08", "malformed"),
        ("1_", "malformed"),
        ("_1", "malformed"),
        ("", "malformed"),
        ("+", "malformed"),
        ("5 ", "malformed"),
        ("٣", "malformed"),
    ];
    for (text, want) in table {
        assert_eq!(read::<u8>(text), want, "{text}");
    }
    for (text, want) in [("-128", "-128"), ("-129", "bound -128"), ("128", "bound 127")] {
        assert_eq!(read::<i8>(text), want, "{text}");
    }
    assert_eq!(read::<u64>("0xffffffffffffffff"), u64::MAX.to_string());
}

#[test]
fn numbers_and_truth() {
    for (text, want) in [
        ("1.5", "1.5"),
        ("-2e3", "-2000.0"),
        ("inf", "malformed"),
        ("1e999", "bound 1.7976931348623157e308"),
        (" 1", "malformed"),
    ] {
        assert_eq!(read::<f64>(text), want, "{text}");
    }
    for (text, want) in [("true", "true"), ("n", "false"), ("yes", "true"), ("TRUE", "malformed")] {
        assert_eq!(read::<bool>(text), want, "{text}");
    }
}

#[test]
fn times() {
    let table = [
        ("2.5", Some(2_500_000_000)),
        ("10ms", Some(10_000_000)),
        ("10 ms", Some(10_000_000)),
        ("1us", Some(1_000)),
        ("1ns", Some(1)),
        ("0.4ns", Some(0)),
        ("0.5ns", Some(1)),
        ("1s", Some(1_000_000_000)),
        ("1sec", Some(1_000_000_000)),
        ("2min", Some(120_000_000_000)),
        ("2m", Some(120_000_000_000)),
        ("1h", Some(3_600_000_000_000)),
        ("1day", Some(86_400_000_000_000)),
        ("1e-3", Some(1_000_000)),
        (".5", Some(500_000_000)),
        ("1e30", None),
        ("-1", None),
        ("s", None),
        ("1.2.3", None),
        ("1e99999999999", None),
    ];
    for (text, want) in table {
        let got = Duration::from_arg(text).ok();
        assert_eq!(got, want.map(Duration::from_nanos), "{text}");
    }
}

#[test]
fn bandwidths() {
    let table = [
        ("1Gbps", Some((125_000_000, false))),
        ("100kBps", Some((100_000, false))),
        ("1.5Mbps", Some((187_500, false))),
        ("8 bps", Some((1, false))),
        ("1000", Some((1000, true))),
        ("10MB/s", Some((10_000_000, false))),
        ("9600baud", Some((1200, false))),
        ("1Tbps", None),
        ("1e99Gbps", None),
    ];
    for (text, want) in table {
        let got = Bandwidth::from_arg(text).ok();
        assert_eq!(got.map(|b| (b.bytes_per_second, b.unitless)), want, "{text}");
    }
}

#[test]
fn addresses() {
    for (text, want) in [
        ("18.26.4.15", "18.26.4.15"),
        ("18.26.4", "malformed"),
        ("18.26.4.256", "malformed"),
        ("18.26.4.15.1", "malformed"),
        ("", "malformed"),
    ] {
        assert_eq!(read::<Ipv4Addr>(text), want, "{text}");
    }
    for (text, want) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "10.1.2.3/8"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("18.26.4/24", "18.26.4.0/24"),
        ("0/0", "0.0.0.0/0"),
        ("18.26/24", "malformed"),
        ("10.0.0.0/33", "malformed"),
        ("10.0.0.0/255.0.255.0", "netmask has gaps"),
        ("10.0.0.0", "malformed"),
    ] {
        assert_eq!(read::<Ipv4Net>(text), want, "{text}");
    }
    for (text, want) in [
        ("2001:db8::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
        ("2001:db8::/129", "malformed"),
        ("2001:db8::/ffff:ffff::", "2001:db8::/32"),
    ] {
        assert_eq!(read::<Ipv6Net>(text), want, "{text}");
    }
}

#[test]
fn ethernet_addresses() {
    for (text, want) in [
        ("0:a0:c9:9c:fd:9c", "00:a0:c9:9c:fd:9c"),
        ("0-A0-C9-9C-FD-9c", "00:a0:c9:9c:fd:9c"),
        ("0:a0:c9:9c:fd", "malformed"),
        ("0:a0:c9:9c:fd:9c:1", "malformed"),
        ("0:a0-c9:9c:fd:9c", "malformed"),
        ("0:a0:c9:9c:fd:+c", "malformed"),
        ("0:a0:c9:9c:fd:", "malformed"),
        ("0:a0:c9:9c:fd:123", "malformed"),
    ] {
        assert_eq!(read::<MacAddr>(text), want, "{text}");
    }
}

#[test]
fn text_and_names() {
    for (text, want) in [
        ("abc", "abc"),
        ("\"a b\"", "a b"),
        ("a\"b\"c", "abc"),
        ("'a\\n'", "a\\n"),
        ("\"a\\n\\x41\\101\"", "a\nAA"),
        ("\\<48 45 4c /* x */ 4C 4f>", "HELLO"),
        ("'\\<48>'", "\\<48>"),
    ] {
        assert_eq!(String::from_arg(text).as_deref(), Ok(want), "{text}");
    }
    assert_eq!(Vec::from_arg("\"\\xff\""), Ok(vec![0xff]));
    for (text, valid) in [("a/b@1", true), ("a/", false), ("", false), ("a b", false)] {
        assert_eq!(ElementName::from_arg(text).is_ok(), valid, "{text}");
    }
}

/// Reads `A` (required), `B` (optional), keyword `K` and required keyword `R`.
fn signature(config: &str) -> String {
    let (mut a, mut b, mut k, mut r) = (0u8, 9u8, None::<bool>, 0u16);
    let result = Args::new(config)
        .required("A", &mut a)
        .optional("B", &mut b)
        .keyword("K", &mut k)
        .required_keyword("R", &mut r)
        .complete();
    match result {
        Ok(()) => format!("{a} {b} {k:?} {r}"),
        Err(errors) => {
            let list: Vec<String> = errors.iter().map(ArgError::click_message).collect();
            list.join("; ")
        }
    }
}

#[test]
fn order_of_arguments() {
    let table = [
        ("1, R 7", "1 9 None 7"),
        ("1, 2, R 7, K true", "1 2 Some(true) 7"),
        ("R 7, A 1", "1 9 None 7"),
        ("1, B 3, R 7", "1 3 None 7"),
        ("1, R 7, R 8", "1 9 None 8"),
        ("1, R 7,", "1 9 None 7"),
        ("R 7", "A: parse error; R: required argument missing"),
        ("", "A: required argument missing; R: required argument missing"),
        ("1, 2, 3, R 7", "too many arguments"),
        ("1, R 7, X 3, Y 4", "X: unknown argument; Y: unknown argument"),
        ("300, R x, K maybe", "A: out of range, bound 255; K: parse error; R: parse error"),
    ];
    for (config, want) in table {
        assert_eq!(signature(config), want, "{config}");
    }
}

#[test]
fn errors_point_into_the_configuration() {
    let config = "64, /* c */ LIMIT  many";
    let (mut capacity, mut limit) = (0u32, 0u32);
    let errors = Args::new(config)
        .optional("CAPACITY", &mut capacity)
        .keyword("LIMIT", &mut limit)
        .complete()
        .unwrap_err();
    let error = errors.iter().next().unwrap();
    assert_eq!(&config[error.span.start..error.span.end], "many");
    assert_eq!(
        error.to_string(),
        "LIMIT: parse error: found 'many', wanted an integer from 0 to 4294967295"
    );
}

#[test]
fn repeated_and_remaining() {
    let (mut ports, mut rest) = (Vec::<u16>::new(), Vec::new());
    Args::new("12/0800, PORT 1, 12/0806, PORT 2, -")
        .keyword_all("PORT", &mut ports)
        .rest(&mut rest)
        .complete()
        .unwrap();
    assert_eq!(ports, [1, 2]);
    let rest: Vec<&str> = rest.iter().map(|a| a.text.as_str()).collect();
    assert_eq!(rest, ["12/0800", "12/0806", "-"]);
}
