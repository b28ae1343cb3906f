//! Policies as texts, from the facts about a namespace.

use super::*;

/// Two interfaces, eth0 and eth1, and a policy that hinders nothing.
fn usual() -> (Policy, Links) {
    let mut links = Links::new(vec!["eth0".into(), "eth1".into()]);
    for (index, name) in [(7, "eth0"), (8, "eth1")] {
        links.add(Link {
            index,
            name: name.into(),
            up: true,
            running: true,
            mac: Some([2, 0, 0, 0, 0, index as u8]),
            mtu: 1500,
            ..Link::default()
        });
    }
    let mut policy = Policy { rules: rules::usual(), ..Policy::default() };
    for (family, device) in [(2, 7), (2, 8), (10, u32::MAX)] {
        policy.settings.hear(&netconf(family, device, &[(2, 1)]), false);
    }
    (policy, links)
}

/// A message about settings of a device.
fn netconf(family: u8, device: u32, values: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![family, 0, 0, 0];
    for (kind, value) in [(1, device)].iter().chain(values) {
        bytes.extend(8u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

fn gate(policy: &mut Policy, links: &Links, number: usize) -> String {
    policy.told.clear();
    let path = format!("gate{number}.policy");
    let told = policy.compose(links);
    told.writes.into_iter().find(|(to, _)| *to == path).map(|(_, text)| text).unwrap()
}

#[test]
fn what_is_told_once_is_not_told_again() {
    let (mut policy, links) = usual();
    let told = policy.compose(&links);
    assert_eq!(told.writes.len(), 6);
    assert_eq!(told.reasons, BTreeSet::new());
    assert_eq!(policy.compose(&links), Told::default());
    policy.hooks.v4 = Some("nftables has a forward hook");
    let told = policy.compose(&links);
    assert_eq!(told.writes.len(), 2);
    assert_eq!(told.reasons, BTreeSet::from(["IPv4: nftables has a forward hook".into()]));
}

#[test]
fn a_device_that_is_not_read_yet_is_not_down() {
    let links = Links::new(vec!["eth0".into()]);
    let mut policy = Policy::closed("because");
    assert_eq!(gate(&mut policy, &links, 0), "all because\n");
    policy.closed = None;
    assert_eq!(gate(&mut policy, &links, 0), "down\n");
}

#[test]
fn each_decision_of_linux_has_its_line() {
    const MAC: &str = "mac 02:00:00:00:00:07\nlongest 1518\n";
    type Change = fn(&mut Policy, &mut Links);
    fn device(links: &mut Links, change: fn(&mut Link)) {
        let mut link = links.interface(0).cloned().unwrap();
        change(&mut link);
        links.add(link);
    }
    fn upper(links: &mut Links, kind: &str, takes_all: bool) {
        let name = "upper".into();
        let kind = kind.into();
        links.add(Link { index: 9, name, kind, takes_all, lower: Some(7), ..Link::default() });
    }
    let cases: [(&str, Change, &str); 20] = [
        ("nothing", |_, _| {}, ""),
        ("not read yet", |p, _| p.closed = Some("because"), "all because\n"),
        ("a hook", |p, _| p.hooks.v6 = Some("a hook"), "ip6 a hook\n"),
        ("an ingress hook", |p, _| p.hooks.sees_foreign = true, "foreign\n"),
        (
            "a local prefix",
            |p, _| p.own.extend(["10.9.0.0/16".parse::<Ipv4Net>().unwrap()]),
            "from 10.9.0.0/16 its source is an address of the router\n",
        ),
        (
            "too many local prefixes",
            |p, _| p.own.extend("10.9.0.0/16".parse::<Ipv4Net>().unwrap().subnets(24).unwrap()),
            "ip4 Linux has too many own addresses\n",
        ),
        ("a legacy table", |p, _| p.polled.legacy = [true, false], "ip4 iptables has a table\n"),
        ("IPsec", |p, _| p.ipsec.v4 = true, "ip4 xfrm has a policy\n"),
        (
            "no rules",
            |p, _| p.rules = Rules::default(),
            "ip4 an ip rule asks for more than its destination\n\
             ip6 an ip rule asks for more than its destination\n",
        ),
        (
            "rp_filter",
            |p, _| p.settings.hear(&netconf(2, u32::MAX, &[(3, 1)]), false),
            "ip4 rp_filter is on\n",
        ),
        (
            "no forwarding",
            |p, _| p.settings.hear(&netconf(2, 7, &[(2, 0)]), false),
            "ip4 forwarding is off\n",
        ),
        (
            "no IPv6 forwarding",
            |p, _| p.settings.hear(&netconf(10, u32::MAX, &[(2, 0)]), false),
            "ip6 forwarding is off\n",
        ),
        (
            "XDP",
            |_, l| device(l, |link| link.has_program = true),
            "foreign\nall an eBPF program sees frames first\n",
        ),
        (
            "a label",
            |p, _| assert!(p.hear_label(Some(100), false)),
            "mpls Linux has a label table\n",
        ),
        ("down", |_, l| device(l, |link| link.up = false), "down\n"),
        ("a sniffer", |_, l| device(l, |link| link.promiscuous = true), "foreign\n"),
        ("a macvlan", |_, l| upper(l, "macvlan", false), "foreign\n"),
        ("a VLAN", |_, l| upper(l, "vlan", false), ""),
        (
            "an ipvlan",
            |_, l| upper(l, "ipvlan", true),
            "foreign\nall a device on top takes its frames\n",
        ),
        (
            "a bridge",
            |_, l| {
                let (name, kind) = ("br0".into(), "bridge".into());
                l.add(Link { index: 9, name, kind, ..Link::default() });
                device(l, |link| link.master = Some(9));
            },
            "foreign\nall a bridge has the interface\n",
        ),
    ];
    for (what, change, wanted) in cases {
        let (mut policy, mut links) = usual();
        change(&mut policy, &mut links);
        let wanted = if wanted == "down\n" { wanted.into() } else { format!("{MAC}{wanted}") };
        assert_eq!(gate(&mut policy, &links, 0), wanted, "{what}");
    }
}

#[test]
fn labels_and_encapsulations_are_reasons_as_long_as_they_are_there() {
    let (mut policy, links) = usual();
    policy.encapsulates = [false, true];
    assert!(policy.hear_label(Some(100), false) && !policy.hear_label(Some(101), false));
    assert_eq!(
        policy.compose(&links).reasons,
        BTreeSet::from([
            "MPLS: Linux has a label table".to_owned(),
            "IPv6 to destinations of routes with an encap: Linux puts a header in front".to_owned()
        ])
    );
    assert!(!policy.hear_label(Some(101), true) && policy.hear_label(Some(100), true));
    policy.encapsulates = [false; 2];
    assert_eq!(policy.compose(&links).reasons, BTreeSet::new());
}

#[test]
fn what_leaves_has_the_mtu_and_the_address_of_the_device() {
    let (mut policy, mut links) = usual();
    let mut link = links.interface(1).cloned().unwrap();
    (link.mtu, link.mac) = (1300, Some([2, 0, 0, 0, 0, 9]));
    links.add(link);
    let told = policy.compose(&links);
    let found = |path: &str| told.writes.iter().find(|(to, _)| to == path).unwrap().1.clone();
    assert_eq!(found("forward1.policy"), "mac 02:00:00:00:00:09\nmtu 1300\n");
    let wanted = format!("mac 02:00:00:00:00:09\nmtu 1300\nsame 1 {REDIRECT}\n");
    assert_eq!(found("forward6_1.policy"), wanted);
}
