//! Tests of `ip_routes`.

use crate::testing::Bench;

const ROUTES: &[&str] = &["10.0.0.0/8 0", "10.1.0.0/255.255.0.0 1.2.3.4 1", "0/x - 2"];

#[test]
fn packets_follow_the_longest_prefix() {
    for class in ["RadixIPLookup", "DirectIPLookup", "StaticIPLookup"] {
        let routes = ["10.0.0.0/8 0", "10.1.0.0/255.255.0.0 1.2.3.4 1", "11.0.0.0/8 - 2"];
        let mut bench = Bench::new(class, &routes);
        let cases: [(u32, Option<(usize, u32)>); 5] = [
            (0x0a02_0000, Some((0, 0x0a02_0000))),
            (0x0a01_ffff, Some((1, 0x0102_0304))),
            (0x0b00_0000, Some((2, 0x0b00_0000))),
            (0x0c00_0000, None),
            (0x0a00_0000, Some((0, 0x0a00_0000))),
        ];
        let packets = cases.map(|(address, _)| {
            let mut packet = bench.arena.packet(b"x").unwrap();
            packet.set_dst_ip(address);
            packet
        });
        bench.push_packets(0, packets.into());
        let mut out: Vec<_> = bench.out.iter().map(|(o, p)| (*o, p.dst_ip())).collect();
        let mut expected: Vec<_> = cases.iter().filter_map(|(_, result)| *result).collect();
        out.sort();
        expected.sort();
        assert_eq!(out, expected);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        assert_eq!(bench.router.read("e.lookup", "10.1.0.9"), Ok("1 1.2.3.4".into()));
        assert_eq!(bench.router.read("e.lookup", "12.0.0.0"), Ok("-1".into()));
    }
}

#[test]
fn changes_happen_all_or_not_at_all() {
    let mut bench = Bench::new("RadixIPLookup", &["10.0.0.0/8 0", "10.1.0.0/16 1.2.3.4 1"]);
    let table = bench.router.read("e.table", "").unwrap();
    for (handler, value, works) in [
        ("add", "10.0.0.0/8 1", false),
        ("add", "12.0.0.0/8 4", false),
        ("remove", "12.0.0.0/8", false),
        ("remove", "10.0.0.0", false),
        ("add", "12.0.0.0/8", false),
        ("ctrl", "add 12.0.0.0/8 1\nremove 10.0.0.0/8\nset 10.1.0.0/16 3\nadd 12.0.0.0/8 2", false),
        ("ctrl", "add 12.0.0.0/8 1\nfrob", false),
        ("ctrl", "add 12.0.0.0/8 1\n\nremove 12.0.0.0/8\n", true),
    ] {
        let result = bench.router.write(&format!("e.{handler}"), value);
        assert_eq!(result.is_ok(), works, "{handler} {value}");
        assert_eq!(bench.router.read("e.table", "").as_ref(), Ok(&table));
    }
    bench.router.write("e.set", "10.0.0.0/8 9.9.9.9 3").unwrap();
    assert_eq!(bench.router.read("e.lookup", "10.2.0.0"), Ok("3 9.9.9.9".into()));
    bench.router.write("e.remove", "10.1.0.0/16").unwrap();
    assert_eq!(bench.router.read("e.lookup", "10.1.0.0"), Ok("3 9.9.9.9".into()));
    bench.router.write("e.flush", "").unwrap();
    assert_eq!(bench.router.read("e.table", ""), Ok(String::new()));
    assert!(bench.router.write("e.lookup", "1.1.1.1").is_err());
}

#[test]
fn a_part_of_the_table_is_read() {
    let routes = ["0.0.0.0/0 2", "10.0.0.0/8 0", "10.1.0.0/16 1", "11.0.0.0/8 2"];
    let mut bench = Bench::new("RadixIPLookup", &routes);
    for (within, wanted) in [
        ("10.0.0.0/8", Ok("10.0.0.0/8\t-\t0\n10.1.0.0/16\t-\t1\n")),
        ("10.1.0.0/16", Ok("10.1.0.0/16\t-\t1\n")),
        ("12.0.0.0/8", Ok("")),
        ("12.0.0.0/40", Err(())),
        ("x", Err(())),
    ] {
        let found = bench.router.read("e.table", within).map_err(drop);
        assert_eq!(found, wanted.map(str::to_owned), "{within}");
    }
    assert_eq!(bench.router.read("e.count", ""), Ok("4".into()));
}

#[test]
fn loading_goes_on_after_a_bad_line() {
    let mut bench = Bench::new("RadixIPLookup", &["10.0.0.0/8 0"]);
    bench.router.write("e.load", "set 11.0.0.0/8 1.1.1.1 1\nremove 10.0.0.0/8\n").unwrap();
    assert_eq!(bench.router.read("e.table", ""), Ok("11.0.0.0/8\t1.1.1.1\t1\n".into()));
    let bad = "set 12.0.0.0/8 9\nset 13.0.0.0/8 - 2\nfrob\nremove 99.0.0.0/8\n";
    let error = bench.router.write("e.load", bad).unwrap_err().to_string();
    assert!(error.contains("2 lines not done, the first: there is no output 9"), "{error}");
    assert_eq!(bench.router.read("e.lookup", "13.0.0.1"), Ok("2".into()));
}

#[test]
fn flows_are_spread_by_weight_and_stay_together() {
    let mut bench = Bench::new("RadixIPLookup", &["0.0.0.0/0 9.9.9.1 0 *3 | 9.9.9.2 1"]);
    let ports = (0..400u16).map(|port| {
        let bytes = europa_packet::Frame::bare().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
        bytes.udp(port, 53, b"x")
    });
    let packets: Vec<Vec<u8>> = ports.flat_map(|packet| [packet.clone(), packet]).collect();
    let mut first: [Vec<Vec<u8>>; 2] = Default::default();
    for some in packets.chunks(200) {
        let some: Vec<_> = some.iter().map(|data| bench.arena.packet(data).unwrap()).collect();
        for (output, data) in bench.push_packets(0, some) {
            first[output].push(data);
        }
    }
    let [most, few] = first.map(|packets| packets.len());
    assert_eq!((most % 2, few % 2, most + few), (0, 0, 800), "flows stay together");
    assert!((500..700).contains(&most), "{most} of 800, 600 wanted");
    assert_eq!(bench.router.read("e.lookup", "1.1.1.1"), Ok("0 9.9.9.1 | 1 9.9.9.2".into()));
}

#[test]
fn next_hop_numbers_are_used_again() {
    let mut bench = Bench::new("RadixIPLookup", &["0.0.0.0/0 0"]);
    for gateway in 1u32..70_000 {
        let gateway = std::net::Ipv4Addr::from(gateway);
        bench.router.write("e.set", &format!("10.0.0.0/8 {gateway} 1")).unwrap();
    }
}

#[test]
fn bad_routes_are_shown() {
    let wanted = "expected 'ADDRESS/MASK [GATEWAY] OUTPUT', found";
    for (bad, error) in [
        ("10.0.0.0/8", format!("{wanted} '10.0.0.0/8'")),
        ("10.0.0.0/33 1", format!("{wanted} '10.0.0.0/33 1'")),
        ("10.0.0.0/8 4", "there is no output 4, found '10.0.0.0/8 4'".into()),
    ] {
        assert_eq!(Bench::error("StaticIPLookup", &[bad]), error);
    }
    assert!(Bench::error("RadixIPLookup", ROUTES).contains("0/x"));
}
