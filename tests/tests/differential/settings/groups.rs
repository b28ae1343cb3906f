//! Groups of settings: each has at least five.

use super::all;

/// Least number of settings of a group.
const LEAST: usize = 5;

/// Whether a command belongs to a group.
type Belongs = fn(&str) -> bool;

/// Groups: name, subject of the settings, and the commands among those of the subject.
const GROUPS: &[(&str, &str, Belongs)] = &[
    ("blackhole routes", "route", |set| set.contains("blackhole")),
    ("prohibited destinations", "route", |set| set.contains("prohibit")),
    ("routes with a locked MTU", "route", |set| set.contains("mtu lock")),
    ("routes with several next hops", "route", |set| {
        set.contains("nexthop via") || set.contains(" group ")
    }),
    ("next hop objects", "route", |set| set.contains("nexthop add")),
    ("encapsulations", "route", |set| set.contains("encap")),
    ("IPv4 rules with a device", "rule", |set| set.contains("iif") && !set.contains("-6 rule")),
    ("IPv6 rules with a device", "rule", |set| set.contains("iif") && set.contains("-6 rule")),
    ("IPv4 rules", "rule", |set| !set.contains("-6 rule")),
    ("IPv6 rules", "rule", |set| set.contains("-6 rule")),
    ("rules with a mark", "rule", |set| set.contains("fwmark")),
    ("rules with users", "rule", |set| set.contains("uidrange")),
    ("rules with a type of service", "rule", |set| set.contains(" tos ")),
    ("rules that prohibit a source", "rule", |set| {
        set.contains(" from ") && set.contains("prohibit")
    }),
    ("neighbours", "neighbour", |set| set.contains("neigh replace")),
    ("proxies for neighbours", "neighbour", |set| set.contains("prox")),
    ("addresses", "address", |_| true),
    ("state of links", "link", |set| set.contains("down") || set.contains("up")),
    ("MTUs", "link", |set| set.contains("mtu")),
    ("Ethernet addresses", "link", |set| set.contains("address")),
    ("macvlans", "master", |set| set.contains("type macv")),
    ("bridges", "master", |set| set.contains("type bridge")),
    ("VXLANs", "master", |set| set.contains("type vxlan")),
    ("VRFs", "master", |set| set.contains("type vrf")),
    ("GRE tunnels", "master", |set| set.contains("gre")),
    ("nftables filters", "nftables", |set| set.contains("type filter")),
    ("nftables translations", "nftables", |set| set.contains("type nat")),
    ("nftables changes of packets", "nftables", |set| set.contains(" set ")),
    ("nftables connections", "nftables", |set| set.contains(" ct ")),
    ("nftables sets", "nftables", |set| set.contains("set s {") || set.contains("map ")),
    ("iptables-legacy", "iptables", |_| true),
    ("xfrm", "xfrm", |set| !set.contains("state add")),
    ("ESP", "xfrm", |set| set.contains("state add")),
    ("tbf", "tc", |set| set.contains(" tbf ")),
    ("htb", "tc", |set| set.contains(" htb")),
    ("other qdiscs", "tc", |set| !set.contains(" tbf ") && !set.contains(" htb")),
    ("the label table", "label", |_| true),
    ("multicast routes", "multicast", |_| true),
    ("sysctls", "sysctl", |_| true),
];

#[test]
fn each_group_has_five_settings() {
    let mut all = all();
    for (name, kind, belongs) in GROUPS {
        let count = all.iter().filter(|one| one.kind == *kind && belongs(one.set)).count();
        assert!(count >= LEAST, "{name}: {count} settings");
    }
    let count = all.len();
    all.sort_by_key(|one| one.set);
    all.dedup_by_key(|one| one.set);
    assert_eq!(all.len(), count, "a setting is there twice");
}
