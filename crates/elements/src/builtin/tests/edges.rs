//! Rare cases of the built-in router: tags, subnets on one link, small pools.

use super::*;

/// The same frame with a VLAN tag.
fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let [high, low] = tci.to_be_bytes();
    [&frame[..12], &[0x81, 0, high, low], &frame[12..]].concat()
}

#[test]
fn priority_tags_are_no_vlans() {
    let arp = ArpPacket::request(A, HOST_A.into(), OWN_A.into());
    for (name, frame) in [
        ("IPv4", v4(HOST_A, HOST_B, 64, 9)),
        ("IPv6", v6(HOST_A6, HOST_B6, 64, 9)),
        ("ARP", Frame::new(A, MacAddr::BROADCAST).arp(&arp)),
    ] {
        let wanted = model().receive(0, std::slice::from_ref(&frame));
        assert_eq!(wanted.len(), 1, "{name}");
        for (tci, passes) in [(0, true), (0xa000, true), (0xa001, false)] {
            let out = model().receive(0, &[tagged(&frame, tci)]);
            assert_eq!(out, if passes { wanted.clone() } else { vec![] }, "{name} {tci:#x}");
        }
        assert_eq!(model().receive(0, &[tagged(&frame, 0)[..16].to_vec()]), [], "{name}, short");
    }
}

#[test]
fn redirects_name_neighbours_of_the_sender() {
    let mut description = description();
    description.interfaces[0].addresses.push("10.8.0.1/24".parse().unwrap());
    let next = |to: &str, address: &str| Route {
        to: to.parse().unwrap(),
        next: Next::Via { address: address.parse().unwrap(), interface: None },
    };
    description.routes.push(next("10.9.0.0/16", "10.8.0.2"));
    for (address, mac) in [("10.8.0.2", B), ("10.8.0.9", A)] {
        let address = address.parse().unwrap();
        description.neighbours.push(Neighbour { address, mac, interface: 0 });
    }
    let text = router_text(&description).unwrap();
    let other = [10, 8, 0, 9];
    for (name, frame, wanted) in [
        ("shorter way", v4(HOST_A, [10, 2, 3, 4], 64, 9), vec![(5, 1, "10.0.0.1")]),
        (
            "shorter way in the second subnet",
            v4(other, [10, 9, 0, 7], 64, 9),
            vec![(5, 1, "10.8.0.1")],
        ),
        ("by a router of another subnet", v4(HOST_A, [10, 9, 0, 7], 64, 9), vec![]),
        ("to a host of another subnet", v4(HOST_A, other, 64, 9), vec![]),
        ("no longer than here", v4(HOST_A, [10, 2, 3, 4], 1, 9), vec![(11, 0, "10.0.0.1")]),
    ] {
        let mut model = Model::new(&text, &["eth0", "eth1"]);
        let out = model.receive(0, &[frame]);
        let told = out.iter().filter(|(_, frame)| frame[23] == 1).map(|(_, frame)| error(frame));
        let told: Vec<_> = told.collect();
        let told: Vec<_> = told.iter().map(|(kind, code, from)| (*kind, *code, &**from)).collect();
        assert_eq!(told, wanted, "{name}");
    }
}

#[test]
fn who_waits_for_nobody_leaves_room_for_others() {
    let mut model = model();
    let frames: Vec<Vec<u8>> = (100..120)
        .flat_map(|host| {
            let frame = v4(HOST_A, [10, 1, 0, host], 64, 9);
            let frame6 = v6(HOST_A6, &format!("2001:db8:1::{host}"), 64, 9);
            [vec![frame; 32], vec![frame6; 32]].concat()
        })
        .collect();
    for frames in frames.chunks(64) {
        model.receive(0, frames);
    }
    let kept = SLOTS as usize - model.arena.free();
    assert_eq!(kept, SLOTS as usize / 8);
    // A neighbour that answers is still resolved.
    let frame = v4(HOST_A, [10, 1, 0, 77], 64, 9);
    assert_eq!(model.receive(0, &[frame]).len(), 1);
}

#[test]
fn what_is_own_is_announced_and_told_to_switches() {
    let mut model = model();
    assert_eq!(model.receive(0, &[]), []);
    model.now_ns = 10_000_000;
    let out = model.receive(0, &[]);
    let count = |interface, bytes: &[u8]| {
        out.iter().filter(|(i, frame)| *i == interface && frame.starts_with(bytes)).count()
    };
    for (interface, own) in [(0, OWN_A), (1, OWN_B)] {
        let mac = OWN[interface];
        let announced = ArpPacket::request(mac, own.into(), own.into());
        let announced = Frame::new(mac, MacAddr::BROADCAST).arp(&announced);
        assert_eq!(count(interface, &announced), 1);
        // Two addresses and one report to ff02::16.
        assert_eq!(count(interface, &[0x33, 0x33, 0, 0, 0, 1]), 2);
        assert_eq!(count(interface, &[0x33, 0x33, 0, 0, 0, 0x16]), 1);
    }
    assert_eq!(out.len(), 8);
    model.now_ns = 3_000_000_000;
    model.receive(0, &[]);

    // A switch's query, version 2, that wants an answer at once.
    let (from, to) = (address(LOCAL_A6), address("ff02::1"));
    let mut query = vec![130, 0, 0, 0, 0, 0, 0, 0];
    query.extend([0; 16]);
    query.extend([2, 125, 0, 0]);
    let sum = checksum::pseudo_v6(from, to, IpProtocol::ICMP6, query.len() as u32);
    let sum = sum + checksum::sum(&query);
    query[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let payload = [&[58, 0, 5, 2, 0, 0, 1, 0], &query[..]].concat();
    let frame = Frame::new(A, multicast_mac(to)).ipv6(from, to).ttl(1);
    let out = model.receive(0, &[frame.transport(IpProtocol::HOP_BY_HOP, &payload)]);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].0, &out[0].1[..6]), (0, &[0x33, 0x33, 0, 0, 0, 0x16][..]));
}
