//! Tests hosts and links: correct documents, and the messages for wrong ones.

use europa_api::{Documents, Source, parse};

fn read(text: &str) -> Result<Documents, Vec<String>> {
    let source = Source { path: "t.yaml".into(), text: text.to_owned() };
    parse(&[source]).map_err(|problems| problems.iter().map(|p| p.message.clone()).collect())
}

/// Two hosts with a router between them; `link` contains further fields of the first link, `host`
/// of the first host.
fn line(link: &str, host: &str) -> String {
    format!(
        "kind: slice\nname: s\n---\nkind: link\nname: l\n{link}\n---\n\
         kind: host\nname: h\ninterfaces:\n  \
         eth0: {{link: l, addresses: [10.0.0.2/24, \"fd00::2/64\"]}}\n  \
         eth1: {{port: p, addresses: [10.1.0.2/24, 10.2.0.0/31]}}\n{host}\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {{builtin: ipv4}}\n\
         interfaces: {{e0: {{link: l}}, e1: {{port: p}}}}\n"
    )
}

#[test]
fn links_and_hosts_that_are_right() {
    for (link, host) in [
        ("", ""),
        ("delay: 10ms\njitter: 1ms\ndistribution: pareto\nloss: 0.1%\nreorder: 5%", ""),
        ("rate: 10Mb/s\nlimit: 100", ""),
        ("rate: 10Mb/s\nlimit: 64kB\nseed: 7", ""),
        ("loss: {begin: 1%, end: 20%, bad: 80%, good: 0.1%}", ""),
        ("a: s/r\na_to_b: {delay: 10ms}\nb_to_a: {rate: 1Mb/s}", ""),
        ("a: h\ndelay: 5ms\na_to_b: {jitter: 1ms}", ""),
        ("", "gateway: 10.0.0.1"),
        ("", "gateway: [10.0.0.1, \"fd00::1\"]"),
        ("", "gateway: [\"fd00::\", 10.0.0.0]"),
        ("", "routes: [{to: 10.0.0.0/8, via: 10.1.0.1}, {to: \"fd00::/8\", interface: eth0}]"),
        ("", "routes: [{to: 10.0.0.0/8, via: 10.1.0.1, interface: eth1}]"),
        ("", "routes: [{to: 10.0.0.0/8, via: 10.2.0.1}]"),
        ("", "routes: [{to: \"::/0\", via: \"fe80::1\", interface: eth0}]"),
        // A next hop outside of all subnets, with an earlier route to it.
        ("", "routes: [{to: 10.9.9.9/32, interface: eth0}]\ngateway: 10.9.9.9"),
        (
            "",
            "routes: [{to: 10.9.9.0/24, interface: eth0}, {to: 10.8.0.0/16, via: 10.9.9.9}, \
             {to: 10.7.0.0/16, via: 10.9.9.9, interface: eth0}]",
        ),
        (
            "",
            "routes: [{to: \"fd09::9/128\", interface: eth0}, {to: \"fd08::/64\", via: \"fd09::9\"}]",
        ),
        // The subnets of an existing namespace are unknown.
        ("", "namespace: blue\ngateway: 10.99.0.1"),
        ("", "container: web\nroutes: [{to: 10.7.0.0/16, via: 10.99.0.1}]"),
        ("", "sysctls: {net.ipv4.ip_forward: 1}\nrun: [\"iperf3 -s &\"]\nenv: {A: b, N: 1}"),
        ("", "namespace: blue"),
        ("", "pid: 17"),
        ("", "container: web"),
    ] {
        if let Err(problems) = read(&line(link, host)) {
            panic!("{link:?} {host:?}: {problems:?}");
        }
    }
}

#[test]
fn variables_and_parameters_are_the_characters_that_are_written() {
    let host = "env: {A: 01, B: NO, C: 1.10, D: 007, E: 1e3, F: true, G: \"0x10\", H: 0x10}\n\
                sysctls: {net.ipv4.ip_forward: 01}";
    let documents = read(&line("", host)).expect("right");
    let texts: Vec<&str> =
        documents.hosts[0].env.0.iter().map(|(_, text)| text.value.as_str()).collect();
    assert_eq!(texts, ["01", "NO", "1.10", "007", "1e3", "true", "0x10", "0x10"]);
    assert_eq!(documents.hosts[0].sysctls.0[0].1.value, "01");
    let problems = read(&line("", "env: {A: ~}")).expect_err("nothing is no text");
    assert!(problems[0].contains("expected a text or a number"), "{problems:?}");
}

/// A host whose only interface has the addresses of its link.
fn bare(gateway: &str, other: &str) -> String {
    format!(
        "kind: slice\nname: s\nlinks: {{ipv4: 10.9.0.0/31}}\n---\n\
         kind: host\nname: h\ninterfaces: {{eth0: {{link: l}}}}\ngateway: {gateway}\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {{builtin: ipv4}}\n\
         interfaces: {{e0: {{link: l{other}}}}}\n"
    )
}

#[test]
fn gateways_on_addresses_that_nobody_has_written() {
    // The host's name sorts first, so it has 10.9.0.0.
    for (gateway, other, wanted) in [
        ("10.9.0.1", "", None),
        ("10.9.0.0", "", Some("10.9.0.0 cannot be a next hop")),
        ("10.9.0.2", "", Some("10.9.0.2 is on no subnet of host \"h\"")),
        // Only one end has configured addresses, so the other one gets none.
        ("10.9.0.1", ", addresses: [10.9.0.1/24]", Some("10.9.0.1 is on no subnet of host")),
    ] {
        let found = read(&bare(gateway, other)).err().unwrap_or_default();
        match wanted {
            None => assert_eq!(found, [""; 0], "{gateway}"),
            Some(wanted) => {
                let [only] = found.as_slice() else { panic!("{gateway}: {found:?}") };
                assert!(only.contains(wanted), "{wanted}: {only}");
            }
        }
    }
}

#[test]
fn a_link_may_have_one_end() {
    let with = |link: &str, rest: &str| {
        let slice = "kind: slice\nname: s\n---\n";
        let router = "kind: router\nname: r\nslice: s\nfast_path: {builtin: ipv4}\n\
                      interfaces: {e0: {link: l}}\n---\n";
        format!("{slice}{router}kind: link\nname: {link}\n---\n{rest}")
    };
    let host = "kind: host\nname: h\ninterfaces: {eth0: {link: l}}\n---\n";
    let other = "kind: host\nname: g\ninterfaces: {eth0: {link: m}}\n";
    for (link, rest, wanted) in [
        ("l", "", None),
        ("l\ndelay: 1ms", "", None),
        ("l\na: s/r\na_to_b: {delay: 1ms}", "", None),
        ("l\na: h\na_to_b: {delay: 1ms}", host, None),
        // A single host may still wait for a router.
        ("m\ndelay: 1ms", other, None),
        // The object that `a` names must exist, and be an end.
        ("l\na: h\na_to_b: {delay: 1ms}", "", Some("link \"l\" does not end at \"h\"")),
        ("l\na: s/x\na_to_b: {delay: 1ms}", "", Some("did you mean \"s/r\"? its only end is s/r")),
        ("l\na: g\na_to_b: {delay: 1ms}", other, Some("not one of its ends")),
        ("k\ndelay: 1ms", "", Some("did you mean \"l\"?")),
        ("kernel\ndelay: 1ms", "", Some("the interfaces that it joins say `link: kernel`")),
    ] {
        let text = with(link, rest);
        let source = Source { path: "t.yaml".into(), text: text.clone() };
        match (parse(&[source]), wanted) {
            (Ok(_), None) => {}
            (Err(problems), Some(wanted)) => {
                let report = problems.render(false);
                assert!(report.contains(wanted), "{wanted}: {report}");
            }
            (Ok(_), Some(wanted)) => panic!("{wanted}: {text}"),
            (Err(problems), None) => panic!("{}", problems.render(false)),
        }
    }
}

#[test]
fn links_and_hosts_that_are_wrong() {
    for (link, host, wanted) in [
        ("jitter: 1ms", "", "`jitter` needs `delay`"),
        ("delay: 1ms\ndistribution: normal", "", "`distribution` needs `jitter`"),
        ("reorder: 1%", "", "`reorder` needs `delay`"),
        ("limit: 10", "", "`limit` needs `rate`"),
        ("loss: 1", "", "expected a share of packets, found the number 1"),
        ("loss: 120%", "", "at most 100%"),
        ("loss: {begin: 1%}", "", "a loss in bursts needs `end`"),
        ("loss: {begin: 1%, end: 0%}", "", "a link that is bad stays bad"),
        ("delay: 5 parsecs", "", "a time is a number and one of us, ms, s"),
        ("dealy: 5ms", "", "a link has no field \"dealy\""),
        ("a_to_b: {delay: 1ms}", "", "which end is `a`?"),
        ("a: s/x\na_to_b: {delay: 1ms}", "", "does not end at \"s/x\""),
        ("", "gateway: [10.0.0.1, 10.0.0.2]", "one gateway of each family"),
        ("", "routes: [{to: 10.1.0.1/16, via: 10.0.0.1}]", "bits after its prefix length"),
        ("", "routes: [{to: 10.0.0.0/8}]", "needs `via` or `interface`"),
        ("", "routes: [{to: 10.0.0.0/8, via: \"fd00::1\"}]", "of another family"),
        ("", "routes: [{to: 10.0.0.0/8, interface: eth7}]", "no interface \"eth7\""),
        ("", "routes: [{to: \"fd00::/8\", via: \"fe80::1\"}]", "link-local next hop"),
        ("", "gateway: \"fe80::1\"", "a link-local gateway needs an interface"),
        ("", "gateway: 10.9.9.9", "10.9.9.9 is on no subnet of host \"h\""),
        ("", "gateway: \"fd09::9\"", "fd09::9 is on no subnet of host \"h\""),
        ("", "gateway: [10.0.0.1, \"fd09::9\"]", "fd09::9 is on no subnet of host \"h\""),
        ("", "routes: [{to: 10.7.0.0/16, via: 10.9.9.9}]", "10.9.9.9 is on no subnet of host"),
        (
            "",
            "routes: [{to: 10.7.0.0/16, via: 10.1.0.1, interface: eth0}]",
            "10.1.0.1 is on no subnet of interface \"eth0\"",
        ),
        // Two routes do not help: one has another next hop, the other comes later.
        (
            "",
            "routes: [{to: 10.9.0.0/16, via: 10.0.0.1}, {to: 10.7.0.0/16, via: 10.9.9.9}]",
            "10.9.9.9 is on no subnet of host",
        ),
        (
            "",
            "routes: [{to: 10.7.0.0/16, via: 10.9.9.9}, {to: 10.9.9.9/32, interface: eth0}]",
            "10.9.9.9 is on no subnet of host",
        ),
        (
            "",
            "routes: [{to: 10.9.9.9/32, interface: eth0}, \
             {to: 10.7.0.0/16, via: 10.9.9.9, interface: eth1}]",
            "10.9.9.9 is on no subnet of interface \"eth1\"",
        ),
        ("", "gateway: 10.0.0.2", "10.0.0.2 cannot be a next hop"),
        ("", "gateway: \"fd00::2\"", "fd00::2 cannot be a next hop"),
        ("", "gateway: 10.0.0.255", "10.0.0.255 cannot be a next hop"),
        ("", "sysctls: {kernel.hostname: x}", "no parameter of a network namespace"),
        ("", "pid: 1\nrun: [ls]", "`run` is for hosts that Europa makes"),
        ("", "pid: 1\ncontainer: web", "one of `namespace`, `pid`, `container`"),
    ] {
        let problems = read(&line(link, host)).expect_err(wanted);
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted}: {problems:?}");
    }
    for (text, wanted) in [
        ("kind: host\nname: h\ninterfaces: {e: {}}", "one of `link`, `port` and `device`"),
        ("kind: host\nname: h\ninterfaces: {e: {port: p, link: l}}", "one of `link`"),
        ("kind: host\nname: h\ninterfaces: {lo: {port: p}}", "a `lo` of its own"),
        ("kind: host\nname: h\ninterfaces: {e: {port: p, mtu: 10}}", "an MTU of 10"),
        (
            "kind: link\nname: l\ndelay: 1ms\n---\nkind: host\nname: a\ninterfaces: {e: {link: l}}\n\
             ---\nkind: host\nname: b\ninterfaces: {e: {link: l}}",
            "a link between two hosts is a plain cable",
        ),
        (
            "kind: host\nname: a\ninterfaces: {e: {link: l, addresses: [10.0.0.1/24]}}\n---\n\
             kind: host\nname: b\ninterfaces: {e: {link: l, addresses: [10.0.0.1/24]}}",
            "both ends of link \"l\" have the address 10.0.0.1",
        ),
        (
            "kind: port\nname: p\ndevice: d\n---\nkind: host\nname: h\ninterfaces: {e: {port: p}}",
            "there are two ports \"p\"",
        ),
    ] {
        let problems = read(text).expect_err(wanted);
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted}: {problems:?}");
    }
}

/// A router with the end of a link, and the fields of its tunnel.
fn tunnel(fields: &str) -> String {
    let keys = "send_key: \"0123456789abcdef\", receive_key: \"fedcba9876543210\"";
    let tunnel = fields.replace("KEYS", keys);
    format!(
        "kind: slice\nname: s\n---\nkind: link\nname: l\nrate: 1Mb/s\ntunnel: {{{tunnel}}}\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {{builtin: ipv4}}\n\
         interfaces: {{e0: {{link: l, addresses: [10.0.0.1/24]}}}}\n"
    )
}

const USUAL: &str = "local: 192.0.2.1, remote: 192.0.2.2, id: 7, KEYS";

#[test]
fn tunnels_that_are_right() {
    for fields in [
        USUAL,
        "local: \"2001:db8::1\", remote: \"2001:db8::2\", id: 16777215, port: 1, KEYS",
        "local: 192.0.2.1, remote: 192.0.2.2, id: 0, epoch: 18446744073709551615, KEYS",
    ] {
        let documents = read(&tunnel(fields)).unwrap_or_else(|p| panic!("{fields}: {p:?}"));
        assert_eq!(documents.warnings(), [""; 0], "{fields}");
        // The stored form means the same after it is read again.
        let link = documents.links.first().expect("a link");
        let stored = serde_json::to_string(&link).expect("JSON");
        let rest = tunnel(fields).split_once("---\n").expect("a router").1.to_owned();
        let router = rest.split_once("---\n").expect("a router").1.to_owned();
        let again =
            format!("kind: slice\nname: s\n---\nkind: link\n{}\n---\n{router}", yaml(&stored));
        assert_eq!(read(&again).expect("right").links, documents.links);
    }
    // Numbers need to be unique only for each pair of nodes.
    let other = "kind: link\nname: m\ntunnel: {local: 192.0.2.1, remote: 192.0.2.3, id: 7, \
                 send_key: \"0000000000000001\", receive_key: \"0000000000000002\"}\n---\n\
                 kind: host\nname: h\ninterfaces: {e: {link: m}}\n---\n";
    if let Err(problems) = read(&(other.to_owned() + &tunnel(USUAL))) {
        panic!("{problems:?}");
    }
}

/// The fields of a JSON object as YAML, one a line.
fn yaml(json: &str) -> String {
    let value: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).expect("an object");
    value.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

#[test]
fn tunnels_that_are_wrong() {
    for (fields, wanted) in [
        ("local: 192.0.2.1, remote: \"2001:db8::2\", id: 7, KEYS", "addresses of one family"),
        ("local: 192.0.2.1, remote: 192.0.2.1, id: 7, KEYS", "have two addresses"),
        ("local: 0.0.0.0, remote: 192.0.2.2, id: 7, KEYS", "cannot end at 0.0.0.0"),
        ("local: 192.0.2.1, remote: 224.0.0.1, id: 7, KEYS", "cannot end at 224.0.0.1"),
        ("local: \"fe80::1\", remote: \"2001:db8::2\", id: 7, KEYS", "cannot end at fe80::1"),
        ("local: \"::ffff:192.0.2.1\", remote: \"2001:db8::2\", id: 7, KEYS", "cannot end at"),
        ("local: 192.0.2.1/24, remote: 192.0.2.2, id: 7, KEYS", "is not an IP address"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 16777216, KEYS", "0 to 16777215"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 7, port: 0, KEYS", "no UDP port 0"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 7, port: 65536, KEYS", "out of range"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 7, epoch: -1, KEYS", "out of range"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 7", "needs `send_key`"),
        ("local: 192.0.2.1, id: 7, KEYS", "needs `remote`"),
        ("local: 192.0.2.1, remote: 192.0.2.2, id: 7, vni: 7, KEYS", "no field \"vni\""),
        (
            "local: 192.0.2.1, remote: 192.0.2.2, id: 7, send_key: \"1\", \
             receive_key: \"fedcba9876543210\"",
            "a key is 16 hexadecimal digits",
        ),
        (
            "local: 192.0.2.1, remote: 192.0.2.2, id: 7, send_key: 1111111111111111, \
             receive_key: \"fedcba9876543210\"",
            "expected a key, found the number",
        ),
        (
            "local: 192.0.2.1, remote: 192.0.2.2, id: 7, send_key: \"fedcba9876543210\", \
             receive_key: \"fedcba9876543210\"",
            "both directions of the tunnel have one key",
        ),
    ] {
        let problems = read(&tunnel(fields)).expect_err(wanted);
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted}: {problems:?}");
    }
    let other = tunnel(USUAL).replace("name: l\n", "name: m\n").replace("rate: 1Mb/s\n", "");
    let other = other.split("---\n").nth(1).expect("a link").to_owned();
    let host = "kind: host\nname: h\ninterfaces: {e: {link: m}}\n";
    let here = "kind: host\nname: h\ninterfaces: {e: {link: l}}\n";
    let kernel = tunnel(USUAL)
        .replace("name: s\n---", "name: s\nprograms: operator\n---")
        .replace("fast_path: {builtin: ipv4}", "run: kernel\nfast_path: {xdp: {object: x.o}}");
    for (text, wanted) in [
        (format!("{}---\n{other}---\n{host}", tunnel(USUAL)), "two links have the number 7"),
        (format!("{}---\n{here}", tunnel(USUAL)), "both ends of link \"l\" are here"),
        (tunnel(USUAL).replace("{e0: {link: l, ", "{e0: {link: k, "), "no interface names link"),
        (kernel, "kernel router s/r has no tunnel"),
    ] {
        let problems = read(&text).expect_err(wanted);
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted}: {problems:?}");
    }
}
