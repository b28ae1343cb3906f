//! Tests of the table.

use super::*;

fn uplink(router: &str, number: u32) -> Uplink {
    let slice = router.split('/').next().unwrap_or_default().to_owned();
    Uplink { router: router.to_owned(), slice, number, is_made: true }
}

#[test]
fn slices_keep_their_ports() {
    let old = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 1)]);
    let new = number(&old, ["b", "c", "d", "c"].into_iter()).expect("room");
    let wanted = [("b", 1), ("c", 0), ("d", 2)].map(|(slice, at)| (slice.to_owned(), at));
    assert_eq!(new, BTreeMap::from(wanted));
    assert_eq!((ports(0), ports(1)), ((1024, 1535), (1536, 2047)));
    assert!(ports(RANGES - 1).1 < 32_768, "before the ports of programs");
    let names: Vec<String> = (0..=RANGES).map(|n| format!("s{n:02}")).collect();
    let most = names.iter().map(String::as_str);
    assert_eq!(number(&BTreeMap::new(), most.clone().skip(1)).map(|all| all.len()), Ok(62));
    assert_eq!(number(&BTreeMap::new(), most), Err("s62".to_owned()));
}

#[test]
fn chains_of_slices_stay_with_their_connections() {
    let slices = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 1)]);
    let uplinks = [uplink("a/r", 7), uplink("b/r", 9)];
    let forward = |port, addresses: &[std::net::IpAddr], inside| Forward {
        protocol: europa_api::PortProtocol::Tcp,
        port,
        addresses: addresses.to_vec(),
        router: "b/r".into(),
        inside,
    };
    let forwards = [forward(8080, &[], 80), forward(22, &["192.0.2.1".parse().unwrap()], 23)];
    let first = script("europa_x", &uplinks, &slices, &forwards, &Found::default());
    for part in [
        "\tchain slice-a {\n\t\tct count over 1024 counter drop\n",
        "iifname . ip saddr { \"europa-7\" . 100.127.224.15, \"europa-9\" . 100.127.224.19 } accept",
        "ip saddr { 100.127.224.19 } meta l4proto { tcp, udp } masquerade to :1536-2047",
        "iifname { \"europa-7\" } jump slice-a",
        "meta nfproto ipv4 fib daddr type local tcp dport 8080 dnat ip to 100.127.224.19:80\n",
        "meta nfproto ipv6 fib daddr type local tcp dport 8080 dnat ip6 to [fd65:7572:6f70::13]:80\n",
        "ip daddr != 127.0.0.0/8 fib daddr type local tcp dport 8080 dnat ip to 100.127.224.19:80\n",
        "\t\tip daddr { 192.0.2.1 } tcp dport 22 dnat ip to 100.127.224.19:23\n",
        "ct state new oifname { \"europa-9\" } jump slice-b",
    ] {
        assert!(first.contains(part), "{part}:\n{first}");
    }
    assert!(!first.contains("flush") && !first.contains("delete"), "{first}");

    // As if the table existed; `b` is removed, and `c` has lost its rule.
    let mut found = Found::default();
    for chain in chains(&uplinks, &slices, &[]) {
        found.rules.insert(chain.name, chain.rules.len());
    }
    assert!(found.is_whole(&uplinks, &slices, &[]));
    assert!(!found.is_whole(&uplinks, &slices, &forwards));
    found.rules.insert("slice-c".into(), 0);
    assert!(!found.is_whole(&uplinks, &slices, &[]));
    let slices = BTreeMap::from([("a".to_owned(), 0), ("c".to_owned(), 2)]);
    let next = script("europa_x", &[uplink("a/r", 7), uplink("c/r", 3)], &slices, &[], &found);
    assert!(!next.contains("chain slice-a {") && !next.contains("x slice-a\n"), "{next}");
    for part in [
        "flush chain inet europa_x forward\n",
        "flush chain inet europa_x slice-b\n",
        "delete chain inet europa_x slice-b\n",
        "\tchain slice-c {\n\t\tct count over",
    ] {
        assert!(next.contains(part), "{part}:\n{next}");
    }
}

#[test]
fn what_nft_prints_is_read() {
    let text = r#"{"nftables": [{"metainfo": {}}, {"table": {"name": "t"}},
        {"chain": {"name": "input"}}, {"chain": {"name": "slice-a"}},
        {"rule": {"chain": "input", "expr": [{"counter": {"packets": 3}}]}},
        {"rule": {"chain": "slice-a", "expr": [{"counter": {"packets": 7}}, {"drop": null}]}},
        {"rule": {"chain": "input"}}]}"#;
    let rules = BTreeMap::from([("input".to_owned(), 2), ("slice-a".to_owned(), 1)]);
    let refused = BTreeMap::from([("a".to_owned(), 7)]);
    assert_eq!(Found::parse(text), Found { rules, refused });
    assert_eq!(Found::parse("nonsense"), Found::default());
}
