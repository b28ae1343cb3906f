//! Tests every kind of mistake: message and place.

use europa_api::{Source, parse};

/// Parses `text` and returns "line:column message" of each mistake.
fn problems(text: &str) -> Vec<String> {
    let text = text.to_owned();
    match parse(&[Source { path: "t.yaml".into(), text }]) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            let rendered = problems.render(false);
            for problem in problems.iter() {
                let (line, column) = problem.line_column();
                assert!(rendered.contains(&format!("t.yaml:{line}:{column}")), "{rendered}");
            }
            problems
                .iter()
                .map(|problem| {
                    let (line, column) = problem.line_column();
                    format!("{line}:{column} {problem}")
                })
                .collect()
        }
    }
}

/// Lines 1 to 8, before each router of the table below.
const NODE: &str = "\
kind: port
name: left
device: eth1
mtu: 1500
---
kind: slice
name: red
---
";

fn router(interfaces: &str, rest: &str) -> String {
    format!("{NODE}kind: router\nname: r1\nslice: red\ninterfaces:\n{interfaces}{rest}")
}

const BUILTIN: &str = "fast_path: {builtin: ipv4}\n";

#[test]
fn documents() {
    for (text, wanted) in [
        ("", &[] as &[&str]),
        ("# nothing\n---\n---\n", &[]),
        ("a: [1, 2", &["1:4 this bracket is never closed"]),
        ("a: 1\na: 2\n", &["2:1 `a` is written twice"]),
        ("name: x\n", &["1:1 a document needs a `kind`"]),
        ("kind: ruter\nname: x\n", &["1:7 \"ruter\" is no kind of document"]),
        ("- 1\n", &["1:1 expected a document with `kind` and `name`, found a list"]),
        ("kind: 5\nname: x\n", &["1:7 expected a kind of document, found the number 5"]),
        ("kind:\nname: x\n", &["1:1 `kind` has no value"]),
        ("kind: slice\n", &["1:1 a slice needs `name`"]),
        ("kind: slice\nname:\n", &["2:1 `name` has no value"]),
        ("kind: slice\nname: 12\n", &["2:7 expected a name, found the number 12"]),
        (
            "kind: slice\nname: Red\n",
            &["2:7 \"Red\" is not a name: a name begins with a lower-case letter"],
        ),
        ("kind: slice\nname: red\ncolor: 1\n", &["3:1 a slice has no field \"color\""]),
        (
            "kind: slice\nname: red\n---\nkind: slice\nname: red\n",
            &["5:7 there are two slices \"red\""],
        ),
        (
            "kind: port\nname: a\ndevice: e\n---\nkind: port\nname: b\ndevice: e\n",
            &["7:9 device \"e\" has two users"],
        ),
        (
            "kind: port\nname: a\ndevice: e/1\nrate: 10\nmtu: 67\n",
            &[
                "3:9 \"e/1\" cannot be a Linux device",
                "4:7 expected a rate, found the number 10",
                "5:6 an MTU is 68 to 9216, not 67",
            ],
        ),
        (
            "kind: port\nname: a\ndevice: e\n---\nkind: host\nname: h\n\
             interfaces: {x: {device: e}, y: {device: lo}}\n",
            &["7:26 device \"e\" has two users", "7:42 a `lo` stays in its namespace"],
        ),
        (
            "kind: port\nname: a\ndevice: e\nnamespace: n\n---\nkind: host\nname: h\n\
             interfaces: {x: {device: e}}\n",
            &[],
        ),
        (
            "kind: slice\nname: a\nlinks: {ipv4: 10.0.0.0/32, ipv6: \"ff02::/16\"}\n---\n\
             kind: slice\nname: b\nlinks: {ipv4: 10.0.0.1/24}\n",
            &[
                "3:15 10.0.0.0/32 has no room for a link",
                "3:34 links can have no addresses of ff02::/16",
                "7:15 10.0.0.1/24 has bits after its prefix length",
            ],
        ),
        (
            "kind: slice\nname: a\nlinks: {ipv4: 10.0.0.0/31}\n---\n\
             kind: router\nname: r\nslice: a\ninterfaces: {x: {link: l}, y: {link: m}}\n\
             fast_path: {builtin: ipv4}\n---\n\
             kind: host\nname: h\ninterfaces: {x: {link: l}, y: {link: m}}\n",
            &["3:15 10.0.0.0/31 has no room for link \"m\""],
        ),
        // Documents are parsed separately, so a syntax error hides no other mistake.
        (
            "kind: slice\nname: [\n---\nkind: port\nname: left\ndevise: e\n",
            &["2:7 this bracket is never closed", "6:1 a port has no field \"devise\""],
        ),
        ("kind: link\nname: core\ndelay: 1ms\n", &["2:7 no interface names link \"core\""]),
        ("kind: link\nname: core\n", &["2:7 no interface names link \"core\""]),
    ] {
        assert_eq!(problems(text), wanted, "{text}");
    }
}

#[test]
fn routers() {
    for (interfaces, rest, wanted) in [
        ("  in: {port: left, addresses: [10.0.0.1/24]}\n", BUILTIN, &[] as &[&str]),
        (
            "  in: {port: left, match: {vlan: 10, mac: auto}, addresses: [10.0.0.1/24]}\n",
            BUILTIN,
            &[],
        ),
        ("  in: {port: lefd}\n", BUILTIN, &["13:14 there is no port \"lefd\""]),
        ("  in: {}\n", BUILTIN, &["13:7 an interface has either `port` or `link`"]),
        (
            "  in: {port: left, link: x}\n",
            BUILTIN,
            &["13:20 an interface has either `port` or `link`"],
        ),
        (
            "  a-long-interface: {port: left}\n",
            BUILTIN,
            &[
                "13:3 \"a-long-interface\" is not an interface's name: an interface's name has at most 15 characters, as in Linux; this one has 16",
            ],
        ),
        // A link with only one end is useless, but its other end may come later.
        ("  up: {link: core}\n", BUILTIN, &[]),
        (
            "  a: {link: core}\n  b: {link: core}\n  c: {link: core}\n",
            BUILTIN,
            &["15:13 link \"core\" joins two interfaces, not 3"],
        ),
        (
            "  a: {link: core, match: {vlan: 1}}\n  b: {link: core}\n",
            BUILTIN,
            &["13:26 an interface on a link has no `match`"],
        ),
        (
            "  a: {port: left, match: {vlan: 7, inner_tags: true}, addresses: [10.0.0.1/24]}\n",
            BUILTIN,
            &[],
        ),
        (
            "  a: {port: left, match: {inner_tags: true}}\n  b: {port: left, match: {vlan: 7, inner_tags: 9}}\n",
            BUILTIN,
            &[
                "13:27 `inner_tags` needs `vlan`",
                "14:48 expected true or false, found the number 9",
            ],
        ),
        (
            "  a: {port: left, mac: \"02:00:00:00:00:01\"}\n  b: {port: left, mac: \"02:00:00:00:00:01\"}\n",
            BUILTIN,
            &["14:24 two interfaces of port \"left\" match the Ethernet address 02:00:00:00:00:01"],
        ),
        (
            "  a: {port: left, mac: \"02:00:00:00:00:01\"}\n  b: {port: left, mac: \"02:00:00:00:00:01\", match: {vlan: 1}, addresses: [10.0.0.1/24]}\n",
            BUILTIN,
            &[],
        ),
        (
            "  a: {port: left, match: {prefix: [10.0.0.0/8, 10.1.0.0/16]}}\n  b: {port: left, match: {prefix: [10.1.0.0/16]}}\n",
            BUILTIN,
            &["14:36 two interfaces of port \"left\" match the prefix 10.1.0.0/16"],
        ),
        (
            "  a: {port: left, match: {udp: [53]}}\n  b: {port: left, match: {udp: [53, 0]}}\n",
            BUILTIN,
            &[
                "14:33 two interfaces of port \"left\" match UDP port 53",
                "14:37 there is no UDP port 0",
            ],
        ),
        (
            "  a: {port: left, match: {mpls: [3]}}\n  b: {port: left, match: {mpls: [1048576]}}\n",
            BUILTIN,
            &[
                "13:34 an MPLS label is 16 to 1048575, not 3",
                "14:34 an MPLS label is 16 to 1048575, not 1048576",
            ],
        ),
        (
            "  a: {port: left, match: {all: true}}\n  b: {port: left}\n",
            BUILTIN,
            &["14:3 port \"left\" belongs to one interface as a whole"],
        ),
        (
            "  a: {port: left, match: {all: true}}\n  b: {port: left, match: {all: true}}\n",
            BUILTIN,
            &["13:26 port \"left\" belongs to one interface as a whole"],
        ),
        (
            "  a: {port: left, match: {all: true, vlan: 5}}\n  b: {port: left, match: {all: true, vlan: 5}}\n",
            BUILTIN,
            &["14:26 two interfaces of port \"left\", VLAN 5 match everything"],
        ),
        (
            "  a: {port: left, match: {all: true, vlan: 5}}\n  b: {port: left, addresses: [10.0.0.1/24]}\n",
            BUILTIN,
            &[],
        ),
        (
            "  a: {port: left, match: {udp: [53], mpls: [100]}}\n",
            BUILTIN,
            &["13:38 a match has one kind beside `vlan`"],
        ),
        (
            "  a: {port: left, match: {udp: []}}\n",
            BUILTIN,
            &["13:27 `udp` is empty and matches nothing"],
        ),
        (
            "  a: {port: left, match: {udp: 53}}\n",
            BUILTIN,
            &["13:32 expected a list, found the number 53"],
        ),
        (
            "  a: {port: left, match: {vlan: 4095}}\n",
            BUILTIN,
            &["13:33 a VLAN is 1 to 4094, not 4095"],
        ),
        (
            "  a: {port: left, match: {udp: [53]}, mac: \"02:00:00:00:00:01\"}\n",
            BUILTIN,
            &["13:44 an interface with a `udp` match uses the port's Ethernet address"],
        ),
        (
            "  a: {port: left, match: {mac: \"02:00:00:00:00:02\"}, mac: \"02:00:00:00:00:01\"}\n",
            BUILTIN,
            &["13:32 an interface has one Ethernet address"],
        ),
        (
            "  a: {port: left, mac: \"03:00:00:00:00:01\"}\n",
            BUILTIN,
            &["13:24 03:00:00:00:00:01 is a multicast address, it cannot be one station's own"],
        ),
        (
            "  a: {port: left, match: {prefix: [10.0.0.1/8]}, bind: [10.0.0.1]}\n",
            BUILTIN,
            &[
                "13:36 10.0.0.1/8 has bits after its prefix length",
                "13:57 \"10.0.0.1\" is not an address with a prefix length",
            ],
        ),
        (
            "  a: {port: left, match: {vxlan: {vni: 16777216, local: 192.0.2.1, remote: \"fd00::1\"}}}\n",
            BUILTIN,
            &[
                "13:40 a VNI is 0 to 16777215, not 16777216",
                "13:76 a tunnel's two ends have addresses of one family",
            ],
        ),
        (
            "  a: {port: left, bind: [10.0.0.0/8], match: {vlan: 10, vxlan: {vni: 1, local: 192.0.2.1, remote: 192.0.2.2}}}\n",
            BUILTIN,
            &[
                "13:26 source addresses in a VXLAN are not checked",
                "13:53 a VXLAN inside a VLAN is not supported",
            ],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.0/24, 10.0.0.255/24, 224.0.0.1/8, 10.0.0.0/31]}\n",
            BUILTIN,
            &[
                "13:31 10.0.0.0 cannot be an interface's address",
                "13:44 10.0.0.255 cannot be an interface's address",
                "13:59 224.0.0.1 cannot be an interface's address",
                "13:72 the router has 10.0.0.0 twice",
            ],
        ),
        (
            "  a: {port: left, bind: [10.0.0.0/16, \"fd00::/64\", 10.0.0.0/16]}\n",
            BUILTIN,
            &["13:52 the interface is bound to 10.0.0.0/16 twice"],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24], bind: []}\n",
            BUILTIN,
            &["13:45 `bind` is empty"],
        ),
        (
            "  a: {link: l, mac: \"02:00:00:00:00:01\", addresses: [10.0.0.1/24]}\n  b: {link: l, mac: \"02:00:00:00:00:01\"}\n",
            BUILTIN,
            &["14:21 both ends of link \"l\" have the Ethernet address 02:00:00:00:00:01"],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24]}\n",
            "fast_path:\n  builtin: ipv4\n  routes:\n  - {to: 10.1.0.0/16, via: 10.0.0.2}\n  - {to: 10.1.0.0/16, via: 10.0.0.3}\n  - {to: 10.2.0.0/16, via: 10.0.0.1}\n  - {to: 10.3.0.0/16, via: 10.0.0.0}\n  - {to: 10.4.0.0/16, via: 10.0.0.255}\n  neighbours:\n  - {address: 10.0.0.9, mac: \"02:00:00:00:00:01\", interface: a}\n  - {address: 10.0.0.9, mac: \"02:00:00:00:00:02\", interface: a}\n",
            &[
                "18:10 the router has two routes to 10.1.0.0/16",
                "19:28 10.0.0.1 cannot be a next hop",
                "20:28 10.0.0.0 cannot be a next hop",
                "21:28 10.0.0.255 cannot be a next hop",
                "24:15 the router has neighbour 10.0.0.9 twice",
            ],
        ),
        (
            "  a: {port: left, addresses: [\"fd00::1/64\"], mtu: 1279}\n  b: {port: left, mtu: 1501}\n",
            BUILTIN,
            &["13:51 an MTU of 1279 is too small for IPv6", "14:24 the port's MTU is only 1500"],
        ),
        ("  a: {port: left}\n", "", &["9:1 a router needs `fast_path`"]),
        (
            "  a: {port: left}\n",
            "fast_path: {}\n",
            &["14:12 a fast path is one of builtin, click, click_file, program, xdp"],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: bridge, click: \"\"}\n",
            &["14:30 a fast path is one of builtin, click, click_file, program, xdp"],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: bridge, routes: []}\n",
            &["14:30 `routes` belongs to `builtin: ipv4`"],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: ipv5}\n",
            &["14:22 \"ipv5\" is not a built-in fast path"],
        ),
        ("  a: {port: left}\n", "fast_path: {program: []}\n", &["14:13 `program` needs a command"]),
        (
            "  a: {port: left}\n",
            "fast_path: {program: [./mine, --fast]}\n",
            &["14:23 \"./mine\" is no path from the root"],
        ),
        (
            "  a: {port: left}\n",
            "grants: [{write: /x}]\nfast_path: {program: [/mine]}\n",
            &["14:10 grants are for elements of `click:` and `click_file:`"],
        ),
        (
            "  a: {port: left}\n",
            "grants: [{write: x}, {read: /a, write: /b}, {listen: tcp 80}, {open: /x}]\n\
             fast_path: {click: Idle}\n",
            &[
                "14:18 expected a path from the root, found 'x'",
                "14:33 a grant is one of read, write, listen, connect",
                "14:54 expected ADDRESS:PORT, found '80'",
                "14:63 a grant is one of read, write, listen, connect",
                "14:64 a grant has no field \"open\"",
            ],
        ),
        ("  a: {port: left}\n", BUILTIN, &["14:22 no interface has an address"]),
        // Other mistakes come first.
        ("  a: {port: lift}\n", BUILTIN, &["13:13 there is no port \"lift\""]),
        (
            "  a: {port: left, match: {vlan: 3, all: true}}\n  b: {port: left, match: {vlan: 4}}\n",
            "fast_path: {builtin: bridge}\n",
            &["14:26 interface \"b\" of a bridge sends from one address only"],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: bridge}\n",
            &["13:6 interface \"a\" of a bridge sends from one address only"],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: ipv4}\nrun: kernel\n",
            &["14:12 a router that runs in the kernel has an XDP program"],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24]}\n",
            "fast_path: {builtin: ipv4}\ninline: {budget: 20us}\n",
            &["15:9 `inline:` is for routers that run inside the switch"],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24]}\n",
            "fast_path: {builtin: ipv4}\nrun: inline\ninline: {budget: 1s, memory: 1kB}\ncpu: [1]\n",
            &[
                "16:18 a budget is 1us to 10ms, not 1s",
                "16:30 a quota of memory is 64kB to 1GB, not 1kB",
                "17:7 a router that runs inside the switch has no CPU of its own",
            ],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {program: [/bin/true]}\nrun: inline\n",
            &["14:23 a router that runs inside the switch cannot be a program"],
        ),
        (
            "  a: {port: left, mtu: 1767}\n",
            "fast_path: {builtin: ipv4}\npool: {slots: 100, slot_bytes: 2048}\n",
            &[
                "13:24 the port's MTU is only 1500",
                "13:24 frames of this MTU do not fit into slots of 2048 bytes",
                "15:15 100 slots are not a power of two",
            ],
        ),
        (
            "  a: {port: left}\n",
            "fast_path: {builtin: ipv4}\npool: {slots: 131072, slot_bytes: 4096}\npoll: lazy\n",
            &[
                "15:15 a pool's number of slots is 64 to 65536, not 131072",
                "15:35 a slot has auto, 2048 or 16384 bytes, not the number 4096",
                "16:7 \"lazy\" is not a way to poll",
            ],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24, \"fd00::1/64\"]}\n",
            "fast_path:\n  builtin: ipv4\n  routes:\n  - {to: 0.0.0.0/0, via: 10.0.1.2}\n  - {to: 10.2.0.0/16, via: \"fd00::2\"}\n  - {to: 10.3.0.0/16, interface: b}\n  - {to: 10.4.0.0/16}\n",
            // The last route has a wrong form; the others are checked once it is corrected.
            &["20:5 a route needs `via` or `interface`"],
        ),
        (
            "  a: {port: left, addresses: [10.0.0.1/24, \"fd00::1/64\"]}\n",
            "fast_path:\n  builtin: ipv4\n  routes:\n  - {to: 0.0.0.0/0, via: 10.0.1.2}\n  - {to: 10.2.0.0/16, via: \"fd00::2\"}\n  - {to: 10.3.0.1/16, interface: b}\n  - {to: \"::/0\", via: \"fe80::1\"}\n  - {to: \"::/1\", via: \"fe80::1\", interface: a}\n  neighbours:\n  - {address: 10.9.0.1, mac: \"02:00:00:00:00:01\", interface: a}\n",
            &[
                "17:26 10.0.1.2 is on no subnet of the interface",
                "18:28 destination and next hop are of different families",
                "19:10 10.3.0.1/16 has bits after its prefix length",
                "19:34 the router has no interface \"b\"",
                "20:23 a link-local next hop needs `interface`",
                "23:15 10.9.0.1 is on no subnet of the interface",
            ],
        ),
    ] {
        let text = router(interfaces, rest);
        assert_eq!(problems(&text), wanted, "{text}");
    }
}

#[test]
fn at_most_64_interfaces() {
    let interfaces = |count: usize| -> String {
        (0..count)
            .map(|i| format!("  e{i}: {{port: left, addresses: [10.0.{i}.1/24]}}\n"))
            .collect()
    };
    assert_eq!(problems(&router(&interfaces(64), BUILTIN)), [""; 0]);
    let found = problems(&router(&interfaces(65), BUILTIN));
    assert_eq!(found, ["77:3 a router has at most 64 interfaces, not 65"]);
}

#[test]
fn a_broken_document_is_not_missed_elsewhere() {
    let text = "kind: port\nname: left\n---\nkind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\ninterfaces:\n  a: {port: left}\n  b: {link: core}\nfast_path: {builtin: ipv4}\n";
    // The port has no device, but it exists; the link's other end may be in an unreadable document.
    assert_eq!(problems(text), ["1:1 a port needs `device`"]);
}

/// A port and a slice with a reservation, and a router with an interface.
fn queued(port: &str, reservation: &str, interface: &str) -> String {
    format!(
        "kind: port\nname: p\ndevice: eth1\n{port}---\n\
         kind: slice\nname: red\nreservation: {{{reservation}}}\n---\n\
         kind: slice\nname: blue\nreservation: {{ports: {{p: {{guarantee: 600Mb/s}}}}}}\n---\n\
         kind: router\nname: r1\nslice: red\ninterfaces: {{a: {{port: p{interface}}}}}\n\
         fast_path: {{click: \"Idle -> Discard\"}}\n"
    )
}

#[test]
fn reservations_and_queues() {
    let rate = "rate: 1Gb/s\n";
    for (port, reservation, interface, wanted) in [
        (
            rate,
            "ports: {p: {guarantee: 400Mb/s, weight: 3, cap: 1Gb/s}}, queues: 2",
            "",
            &[] as &[&str],
        ),
        (
            rate,
            "ports: {p: {guarantee: 300Mb/s}}",
            ", queues: {1: {guarantee: 300Mb/s, policy: codel, ecn: true}, 0: {packets: 9}}",
            &[],
        ),
        (
            rate,
            "ports: {p: {guarantee: 500Mb/s}}",
            "",
            &[
                "12:38 slice \"blue\" wants 600Mb/s of port \"p\", and 500Mb/s of its 1Gb/s are left",
            ],
        ),
        ("", "", "", &["11:38 port \"p\" has no rate of which something can be guaranteed"]),
        (rate, "ports: {p: {rate_in: 900Mb/s}}", "", &[]),
        (
            rate,
            "ports: {p: {rate_in: 1.1Gb/s}, q: {rate_in: 1kb/s}}",
            "",
            &[
                "8:36 slice \"red\" wants 1100Mb/s of what comes in by port \"p\", and 1Gb/s of its 1Gb/s are left",
                "8:46 there is no port \"q\"",
                "8:59 a rate of less than 8kb/s cannot be policed",
            ],
        ),
        (
            rate,
            "ports: {p: {weight: 0, cap: 1Mb/s, guarantee: 2Mb/s}, q: {}}, queues: 70000",
            "",
            &[
                "8:35 a weight of 0 lets nothing through",
                "8:43 a cap of 1Mb/s is below the guarantee",
                "8:69 there is no port \"q\"",
                "8:85 a slice has at most 65535 queues",
            ],
        ),
        (
            rate,
            "ports: {p: {guarantee: 100Mb/s}}",
            ", queues: {1: {guarantee: 60Mb/s}, 2: {guarantee: 60Mb/s}}",
            &["17:75 of slice \"red\"'s 100Mb/s on port \"p\", 40Mb/s are left"],
        ),
        (
            rate,
            "",
            ", queues: {1: {guarantee: 60Mb/s}}",
            &["17:51 slice \"red\" has no guarantee on port \"p\" to give"],
        ),
        (rate, "cpu: 0.25, memory: 1.5GB, slots: 8192", "", &[]),
        (rate, "memory: 3kB", "", &["8:23 no router runs in 3kB of memory"]),
        (
            rate,
            "cpu: 0.1, memory: 7, slots: 8191",
            "",
            &[
                "8:20 0.1 is no number of CPU cores from 0.2 to 10000",
                "8:33 expected a number of bytes, found the number 7",
                "15:7 router \"r1\" wants a pool of 8192 slots, and 8191 of slice \"red\"'s 8191 are left",
            ],
        ),
        (
            rate,
            "queues: 1",
            ", queues: {1: {}, 2: {}}",
            &["17:43 slice \"red\" has more queues than it may have: 1"],
        ),
        (
            rate,
            "",
            ", queues: {70000: {}, x: {}, 3: {packets: 0, bytes: 0kB, polcy: red}}",
            &[
                "17:36 70000 is out of range: 0 to 65535",
                "17:47 expected a whole number, found the text \"x\"",
                "17:67 a queue of 0 lets nothing through",
                "17:77 \"0kB\" is not a number of bytes: a queue without room lets nothing through",
                "17:82 a queue has no field \"polcy\"",
            ],
        ),
        (
            rate,
            "",
            ", queues: {1: {ecn: true, target: 1ms}, 2: {policy: red, min: 9kB, max: 9kB}}",
            &[
                "17:45 `ecn` is for `policy: red` or `codel`",
                "17:59 `target` is for `policy: codel`",
                "17:97 `max` is not above `min`",
            ],
        ),
        (
            rate,
            "",
            "}, b: {port: p, match: {vlan: 2}, queues: {1: {}}}, c: {link: l, queues: {1: {}}}, d: {link: l",
            &["17:99 slice \"red\" has two queues 1", "17:99 an interface on a link has no queues"],
        ),
    ] {
        let mut found = problems(&queued(port, reservation, interface));
        found.sort();
        let mut wanted: Vec<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
        wanted.sort();
        assert_eq!(found, wanted, "{}", queued(port, reservation, interface));
    }
}
