//! Tests of the module above.

use super::link::*;
use super::route::*;
use super::*;

/// A message: fixed part and attributes.
fn message(head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    for (kind, value) in attributes {
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

#[test]
fn routes_that_the_fast_path_cannot_follow_are_linux_s() {
    const HEAD: [u8; 12] = [INET, 24, 0, 0, 254, 0, 0, RTN_UNICAST, 0, 0, 0, 0];
    let via = [&[INET6, 0][..], &[0; 15], &[9]].concat();
    let mtu = message(&[], &[(RTAX_MTU, &1300u32.to_ne_bytes())]);
    let hops = message(&[], &[(10, &[4, 0, 0, 0][..])]);
    let labelled = message(
        &[28, 0, 0, 0, 7, 0, 0, 0],
        &[(RTA_ENCAP, &message(&[], &[(1, &[0, 6, 65, 0][..])])[..]), (21, &[1, 0][..])],
    );
    let hop = |gateway| Way::Hops(vec![Hop { gateway, device: 7, weight: 1 }]);
    for (what, attribute, way) in [
        ("a gateway", (RTA_GATEWAY, &[10, 0, 0, 9][..]), hop(Gateway::Own(0x0a00_0009))),
        ("an IPv6 gateway", (RTA_VIA, &via[..]), hop(Gateway::V6(9))),
        ("an MTU", (RTA_METRICS, &mtu[..]), Way::Host),
        ("a number of hops", (RTA_METRICS, &hops[..]), hop(Gateway::None)),
        ("an encapsulation", (RTA_ENCAP, &[][..]), Way::Encapsulated),
        ("a label on one of several ways", (RTA_MULTIPATH, &labelled[..]), Way::Encapsulated),
    ] {
        let attributes = [(RTA_DST, &[10, 0, 0, 0][..]), (RTA_OIF, &[7, 0, 0, 0][..]), attribute];
        let route = Route::<u32>::parse(&message(&HEAD, &attributes)).unwrap();
        assert_eq!((route.way, route.narrow), (way, false), "{what}");
    }
    let mut narrow = HEAD;
    narrow[2] = 8;
    assert!(Route::<u32>::parse(&message(&narrow, &[])).unwrap().narrow, "a source");
}

#[test]
fn labels_are_read() {
    // `ip -f mpls route add 100 as 200 via inet 10.0.0.2 dev eth1`.
    const HEAD: [u8; 12] = [MPLS, 20, 0, 0, 254, 4, 0, RTN_UNICAST, 0, 0, 0, 0];
    let swap = message(
        &HEAD,
        &[
            (RTA_DST, &[0, 6, 65, 0][..]),
            (19, &[0, 12, 129, 0][..]),
            (RTA_VIA, &[INET, 0, 10, 0, 0, 2][..]),
            (RTA_OIF, &[8, 0, 0, 0][..]),
        ],
    );
    assert_eq!(label(&swap), Some(100));
    assert_eq!(label(&message(&HEAD, &[])), None);
    let ip = [&[INET, 32][..], &HEAD[2..]].concat();
    assert_eq!(label(&message(&ip, &[(RTA_DST, &[0, 6, 65, 0])])), None);
}

#[test]
fn a_next_hop_object_with_an_encapsulation_is_linux_s() {
    let id = (1, &[5, 0, 0, 0][..]);
    let object = message(&[INET, 0, 0, 0, 0, 0, 0, 0], &[id, (8, &[][..])]);
    assert_eq!(Object::parse(&object), Some((5, Object::Encapsulated)));
}

#[test]
fn devices_are_read() {
    let head = [&[0; 4][..], &7u32.to_ne_bytes(), &(IFF_UP | IFF_RUNNING).to_ne_bytes(), &[0; 4]];
    let kind = message(&[], &[(IFLA_INFO_KIND, b"ipvlan\0")]);
    let program = message(&[], &[(IFLA_XDP_ATTACHED, &[2])]);
    let attributes: [(u16, &[u8]); 7] = [
        (IFLA_IFNAME, b"eth0\0"),
        (IFLA_ADDRESS, &[2, 0, 0, 0, 0, 7]),
        (IFLA_MTU, &1300u32.to_ne_bytes()),
        (IFLA_MASTER, &9u32.to_ne_bytes()),
        (IFLA_LINK, &8u32.to_ne_bytes()),
        (IFLA_LINKINFO, &kind),
        (IFLA_XDP, &program),
    ];
    let link = Link::parse(&message(&head.concat(), &attributes)).unwrap();
    let wanted = Link {
        index: 7,
        name: "eth0".into(),
        up: true,
        running: true,
        mac: Some([2, 0, 0, 0, 0, 7]),
        mtu: 1300,
        master: Some(9),
        lower: Some(8),
        kind: "ipvlan".into(),
        takes_all: true,
        promiscuous: false,
        has_program: true,
    };
    assert_eq!(link, wanted);
    // The other end of a veth in another namespace does not count as a device below it.
    let far = [
        (IFLA_IFNAME, &b"eth0\0"[..]),
        (IFLA_LINK, &[8, 0, 0, 0][..]),
        (IFLA_LINK_NETNSID, &[0; 4][..]),
    ];
    assert_eq!(Link::parse(&message(&head.concat(), &far)).unwrap().lower, None);
}
