//! Hosts and links: what is right, and what is said of what is not.

use europa_api::{Documents, Source, parse};

fn read(text: &str) -> Result<Documents, Vec<String>> {
    let source = Source { path: "t.yaml".into(), text: text.to_owned() };
    parse(&[source]).map_err(|problems| problems.iter().map(|p| p.message.clone()).collect())
}

/// Two hosts with a router between them; `link` is more about the first link, `host` more
/// about the first host.
fn line(link: &str, host: &str) -> String {
    format!(
        "kind: slice\nname: s\n---\nkind: link\nname: l\n{link}\n---\n\
         kind: host\nname: h\ninterfaces: {{eth0: {{link: l}}, eth1: {{port: p}}}}\n{host}\n---\n\
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
        ("", "routes: [{to: 10.0.0.0/8, via: 10.1.0.1}, {to: \"fd00::/8\", interface: eth0}]"),
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
        ("", "sysctls: {kernel.hostname: x}", "no parameter of a network namespace"),
        ("", "pid: 1\nrun: [ls]", "`run` is for hosts that Europa makes"),
        ("", "pid: 1\ncontainer: web", "one of `namespace`, `pid`, `container`"),
    ] {
        let problems = read(&line(link, host)).expect_err(wanted);
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted}: {problems:?}");
    }
    for (text, wanted) in [
        ("kind: host\nname: h\ninterfaces: {e: {link: l}}", "link \"l\" has one end"),
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
