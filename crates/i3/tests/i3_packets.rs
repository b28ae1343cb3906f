//! The wire format: packets written by hand, round trips, and bytes of any kind.

use std::net::{Ipv6Addr, SocketAddrV4, SocketAddrV6};

use europa_i3::wire::{
    Address, Bucket, MOST_IDS, Packet, PacketOption, Trigger, TriggerUse, WireError,
};
use europa_i3::{Id, Key};
use proptest::prelude::*;

fn v4() -> impl Strategy<Value = SocketAddrV4> {
    any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddrV4::new(ip.into(), port))
}

fn id() -> impl Strategy<Value = Id> {
    any::<[u8; 32]>().prop_map(Id)
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        proptest::collection::vec(id(), 0..=MOST_IDS).prop_map(Address::Stack),
        v4().prop_map(Address::V4),
        any::<([u8; 16], u16)>().prop_map(|(ip, port)| Address::V6(SocketAddrV6::new(
            Ipv6Addr::from(ip),
            port,
            0,
            0
        ))),
        (v4(), v4(), v4()).prop_map(|(host, nat, server)| Address::Nat { host, nat, server }),
    ]
}

fn bucket() -> impl Strategy<Value = Bucket> {
    any::<(u8, u16, u16, u16)>().prop_map(|(kind, depth, rate, highest)| Bucket {
        kind,
        depth,
        rate,
        highest,
    })
}

fn trigger() -> impl Strategy<Value = Trigger> {
    let key = any::<[u8; 16]>();
    let parts =
        (id(), any::<u8>(), any::<u16>(), key, address(), key, proptest::option::of(bucket()));
    parts.prop_map(|(id, flags, prefix_bits, nonce, to, key, bucket)| {
        let flags = flags & !2 | if bucket.is_some() { 2 } else { 0 };
        let key = if matches!(to, Address::Stack(_)) { Key::default() } else { Key(key) };
        Trigger { id, flags, prefix_bits, nonce, to, key, bucket }
    })
}

fn option() -> impl Strategy<Value = PacketOption> {
    let purpose = prop_oneof![
        Just(TriggerUse::Insert),
        Just(TriggerUse::Challenge),
        Just(TriggerUse::Acknowledge),
        Just(TriggerUse::Remove),
        Just(TriggerUse::CacheAddress),
        Just(TriggerUse::ForceCacheAddress),
        Just(TriggerUse::ConstraintFailed),
        Just(TriggerUse::RouteBroken),
        Just(TriggerUse::CacheShortcut),
        Just(TriggerUse::CacheDestination),
    ];
    prop_oneof![
        address().prop_map(PacketOption::Sender),
        address().prop_map(PacketOption::Destination),
        (purpose, trigger()).prop_map(|(purpose, one)| PacketOption::Trigger(purpose, one)),
        id().prop_map(PacketOption::NotPresent),
        id().prop_map(PacketOption::RateExceeded),
        Just(PacketOption::RequestForCache),
        Just(PacketOption::RequestForShortcut),
        Just(PacketOption::RequestForShortcutIndirect),
        Just(PacketOption::LogPacket),
        Just(PacketOption::AppendTime),
    ]
}

proptest! {
    #[test]
    fn packets_come_back(
        data: bool,
        first_hop: bool,
        stack in proptest::collection::vec(id(), 0..=MOST_IDS),
        options in proptest::collection::vec(option(), 0..8),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let packet = Packet { data, first_hop, stack, options, wide: false, payload: &payload };
        let bytes = packet.bytes();
        prop_assert_eq!(Packet::read(&bytes), Ok(packet.clone()));
    }

    /// The length decides: a list that is valid both with wide and with narrow addresses is read as
    /// narrow.
    #[test]
    fn wide_addresses_are_understood(
        sender in v4(), to in v4(), nat in v4(), prefix_bits: u16, payload in "[a-z]{0,20}",
    ) {
        let mut one = Trigger::new(Id([1; 32]), Address::V4(to), Key([2; 16]));
        one.prefix_bits = prefix_bits;
        let behind = Address::Nat { host: to, nat, server: sender };
        let packet = Packet {
            stack: vec![one.id],
            options: vec![
                PacketOption::Sender(Address::V4(sender)),
                PacketOption::Trigger(TriggerUse::Insert, one),
                PacketOption::Destination(behind),
            ],
            wide: true,
            payload: payload.as_bytes(),
            ..Packet::default()
        };
        let bytes = packet.bytes();
        prop_assert_eq!(Packet::read(&bytes), Ok(packet.clone()));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(packet) = Packet::read(&bytes) {
            prop_assert!(Packet::read(&packet.bytes()).is_ok());
        }
    }

    /// The parser gets further with bytes that begin like a packet, and with damaged packets, than
    /// with random bytes.
    #[test]
    fn no_damage_panics(
        options in proptest::collection::vec(option(), 0..6),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end: prop::sample::Index,
    ) {
        let packet = Packet { stack: vec![Id([1; 32])], options, ..Packet::default() };
        let mut bytes = packet.bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        if let Ok(packet) = Packet::read(&bytes) {
            prop_assert!(Packet::read(&packet.bytes()).is_ok());
        }
    }
}

/// A trigger's insertion, as the public code's client builds it for 32 bits.
#[test]
fn an_insertion_byte_by_byte() {
    let mut bytes = vec![0x10, 0x60, 1];
    bytes.extend([0xaa; 32]);
    let list = 2 + (1 + 1 + 4 + 2) + (1 + 1 + 32 + 2 + 16 + 1 + 4 + 2 + 16);
    bytes.extend([0, list]);
    bytes.extend([0x01, 0x20, 10, 1, 0, 2, 0x27, 0x10]);
    bytes.extend([0x02, 0x00]);
    bytes.extend([0xaa; 32]);
    bytes.extend([0, 192]);
    bytes.extend([0x0f; 16]);
    bytes.extend([0x20, 10, 1, 0, 2, 0x27, 0x10]);
    bytes.extend([0x77; 16]);
    let host = Address::V4("10.1.0.2:10000".parse().expect("an address"));
    let trigger = Trigger {
        prefix_bits: 192,
        nonce: [0x0f; 16],
        ..Trigger::new(Id([0xaa; 32]), host.clone(), Key([0x77; 16]))
    };
    let packet = Packet {
        first_hop: true,
        stack: vec![Id([0xaa; 32])],
        options: vec![
            PacketOption::Sender(host),
            PacketOption::Trigger(TriggerUse::Insert, trigger),
        ],
        ..Packet::default()
    };
    assert_eq!(Packet::read(&bytes), Ok(packet.clone()));
    assert_eq!(packet.bytes(), bytes);
}

/// The bucket of the public code on a little-endian machine: only 16 bits of each number are valid.
#[test]
fn a_bucket_byte_by_byte() {
    let bucket = Bucket { kind: 1, depth: 0x1234, rate: 7, highest: 9 };
    let mut one = Trigger::new(Id([1; 32]), Address::Stack(vec![Id([2; 32])]), Key::default());
    one.bucket = Some(bucket);
    let packet = Packet::control(vec![PacketOption::Trigger(TriggerUse::Insert, one)]);
    let wanted = [1, 0x12, 0x34, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0];
    assert!(packet.bytes().ends_with(&wanted));
}

#[test]
fn mistakes_are_named() {
    let short = |what, needed, found| WireError::Short { what, needed, found };
    for (bytes, wanted) in [
        (&[][..], short("the version", 1, 0)),
        (&[0x11, 0, 0], WireError::Version(0x11)),
        (&[0x10, 0x80, 0], WireError::Flags(0x80)),
        (&[0x10, 0x10, 16], WireError::Stack(16)),
        (&[0x10, 0x10, 1, 5], short("an id", 32, 1)),
        (&[0x10, 0x20, 0, 0, 1], WireError::List { length: 1, left: 2 }),
        (&[0x10, 0x20, 0, 0, 9, 7], WireError::List { length: 9, left: 3 }),
        (&[0x10, 0x20, 0, 0, 3, 0xee], WireError::Option(0xee)),
        (&[0x10, 0x20, 0, 0, 4, 1, 0x50], WireError::Address(0x50)),
    ] {
        assert_eq!(Packet::read(bytes), Err(wanted), "{bytes:?}");
    }
}
