//! The compiled programs, with the loaders and types that libbpf-cargo generates.

#[allow(missing_docs, unreachable_pub, unused_imports, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod receive {
    include!(concat!(env!("OUT_DIR"), "/receive.skel.rs"));
}

#[allow(missing_docs, unreachable_pub, unused_imports, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod receive_tc {
    include!(concat!(env!("OUT_DIR"), "/receive_tc.skel.rs"));
}

#[allow(missing_docs, unreachable_pub, unused_imports, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod transmit {
    include!(concat!(env!("OUT_DIR"), "/transmit.skel.rs"));
}

#[allow(missing_docs, unreachable_pub, unused_imports, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod drained {
    include!(concat!(env!("OUT_DIR"), "/drained.skel.rs"));
}

#[allow(missing_docs, unreachable_pub, unused_imports, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod keep {
    include!(concat!(env!("OUT_DIR"), "/keep.skel.rs"));
}

pub(crate) use drained::DrainedSkelBuilder;
pub(crate) use keep::KeepSkelBuilder;
pub(crate) use receive::ReceiveSkelBuilder;
pub(crate) use receive_tc::ReceiveTcSkelBuilder;
pub(crate) use transmit::{OpenTransmitSkel, TransmitSkelBuilder};

/// The data that programs share with the switch: the structs of `bpf/substrate.h`, generated from
/// the programs' type information, and its constants.
pub mod layout {
    pub use super::receive::types::{
        europa_counters as Counters, europa_encap as Encap, europa_exact as Exact,
        europa_fence as Fence, europa_hint as Hint, europa_interface as Interface,
        europa_meter as Meter, europa_pool_state as PoolState, europa_port as Port,
        europa_prefix4 as Prefix4, europa_prefix6 as Prefix6, europa_receiver as Receiver,
        europa_tap as Tap, europa_tap_side as TapSide, europa_transmit as Transmit,
        europa_worker as Worker,
    };

    /// No interface.
    pub const NONE: u32 = u32::MAX;
    /// Pools of one node.
    pub const MAX_POOLS: u32 = 4096;
    /// Interfaces of one node.
    pub const MAX_INTERFACES: u32 = 4096;
    /// The maximum number of ports of a node, and the number of entries of the port table.
    pub const MAX_PORTS: u32 = 1024;
    /// Places in the table of hints.
    pub const HINTS: u32 = 8192;
    /// Number of meters; 0 means none.
    pub const MAX_METERS: u32 = 4096;
    /// The number of entries of the port table in which one device may be.
    pub const PORT_PROBES: u32 = 4;
    /// The distance between these entries: devices of a namespace usually have consecutive numbers.
    pub const PORT_STRIDE: u32 = 167;
    /// Entries of one worker's transmit list.
    pub const TRANSMIT_LIST: u32 = 4096;
    /// Captures of one node at a time.
    pub const MAX_TAPS: u32 = 8;
    /// Workers of one node.
    pub const MAX_WORKERS: u32 = 64;
    /// Longest live frame, in bytes.
    pub const MAX_LIVE_FRAME: u32 = 3408;
    /// Longest headers before a frame, in bytes.
    pub const MAX_ENCAP: u32 = 72;

    /// `Port::flags`: received frames may have partial checksums.
    pub const PORT_LOCAL_SENDER: u32 = 1;
    /// `Port::flags`: at least one interface matches by MPLS label.
    pub const PORT_HAS_MPLS: u32 = 2;
    /// `Port::flags`: at least one interface matches by VXLAN network identifier.
    pub const PORT_HAS_VXLAN: u32 = 4;
    /// `Port::flags`: at least one interface matches by UDP port.
    pub const PORT_HAS_UDP: u32 = 8;
    /// `Port::flags`: at least one interface matches by IP prefix.
    pub const PORT_HAS_PREFIX: u32 = 16;
    /// `Port::flags`: at least one interface takes a whole VLAN or the whole port.
    pub const PORT_HAS_ALL: u32 = 32;

    /// `Interface::pool`: this pool uses the second of the two cursors.
    pub const POOL_ODD: u32 = 0x8000_0000;

    impl Interface {
        /// The number of its pool.
        pub fn pool_id(&self) -> u32 {
            self.pool & !POOL_ODD
        }

        /// Whether the interface's pool uses the second of the two cursors.
        pub fn is_odd(&self) -> bool {
            self.pool & POOL_ODD != 0
        }
    }

    /// `Interface::flags`: the tag of the interface's VLAN is removed from received frames and
    /// added to sent ones.
    pub const STRIP_VLAN: u32 = 2;
    /// `Interface::flags`: may send with any source MAC address.
    pub const ANY_SOURCE: u32 = 4;
    /// `Interface::flags`: source addresses are checked.
    pub const BOUND: u32 = 8;
    /// `Interface::flags`: uses the port's own MAC address.
    pub const SHARES_MAC: u32 = 16;
    /// `Interface::flags`: frames travel in VXLAN.
    pub const VXLAN: u32 = 32;
    /// `Interface::flags`: may send VLAN tags inside that of [`STRIP_VLAN`].
    pub const TAGS: u32 = 64;
    /// `Interface::flags`: port, VLAN and MAC address of the interface are an exact match.
    pub const BY_MAC: u32 = 128;

    /// `Interface::flags`: its router's program is in the table of cages.
    pub const CAGED: u32 = 256;
    /// `Interface::flags`: one end of a link of a kernel router.
    pub const WIRE: u32 = 512;
    /// `Interface::flags`: carries frames until the deadline of the fence only.
    pub const FENCED: u32 = 1024;
    /// The number of devices that the program of a router can name, plus one.
    pub const CAGE_DEVICES: u32 = 64;

    /// `Exact::kind`: VLAN and destination MAC address.
    pub const MATCH_MAC: u8 = 1;
    /// `Exact::kind`: all frames of a VLAN.
    pub const MATCH_VLAN: u8 = 2;
    /// `Exact::kind`: UDP destination port.
    pub const MATCH_UDP: u8 = 3;
    /// `Exact::kind`: VXLAN network identifier.
    pub const MATCH_VXLAN: u8 = 4;
    /// `Exact::kind`: MPLS label.
    pub const MATCH_MPLS: u8 = 5;
}

#[cfg(test)]
mod tests {
    use super::layout::*;
    use crate::pool::{Kind, USUAL_ELEMENTS};

    /// Compares the constants above with those in `bpf/substrate.h`.
    #[test]
    fn constants_are_those_of_the_header() {
        let header =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/substrate.h"))
                .unwrap();
        for (name, value) in [
            ("MAX_POOLS", MAX_POOLS),
            ("MAX_INTERFACES_TOTAL", MAX_INTERFACES),
            ("MAX_PORTS", MAX_PORTS),
            ("HINTS", HINTS),
            ("MAX_METERS", MAX_METERS),
            ("PORT_PROBES", PORT_PROBES),
            ("PORT_STRIDE", PORT_STRIDE),
            ("TRANSMIT_LIST", TRANSMIT_LIST),
            ("MAX_WORKERS", MAX_WORKERS),
            ("MAX_TAPS", MAX_TAPS),
            ("MAX_LIVE_FRAME", MAX_LIVE_FRAME),
            ("PORT_LOCAL_SENDER", PORT_LOCAL_SENDER),
            ("PORT_HAS_MPLS", PORT_HAS_MPLS),
            ("PORT_HAS_VXLAN", PORT_HAS_VXLAN),
            ("PORT_HAS_UDP", PORT_HAS_UDP),
            ("PORT_HAS_PREFIX", PORT_HAS_PREFIX),
            ("PORT_HAS_ALL", PORT_HAS_ALL),
            ("POOL_ODD", POOL_ODD),
            ("POOL_SMALL", Kind::Small as u32),
            ("POOL_LARGE", Kind::Large as u32),
            ("POOL_USUAL", Kind::Usual as u32),
            ("USUAL_ELEMENTS", USUAL_ELEMENTS),
            ("IF_STRIP_VLAN", STRIP_VLAN),
            ("IF_ANY_SOURCE", ANY_SOURCE),
            ("IF_BOUND", BOUND),
            ("IF_SHARES_MAC", SHARES_MAC),
            ("IF_BY_MAC", BY_MAC),
            ("IF_VXLAN", VXLAN),
            ("IF_TAGS", TAGS),
            ("IF_CAGED", CAGED),
            ("IF_WIRE", WIRE),
            ("IF_FENCED", FENCED),
            ("CAGE_DEVICES", CAGE_DEVICES),
            ("MATCH_MAC", MATCH_MAC.into()),
            ("MATCH_VLAN", MATCH_VLAN.into()),
            ("MATCH_UDP", MATCH_UDP.into()),
            ("MATCH_VXLAN", MATCH_VXLAN.into()),
            ("MATCH_MPLS", MATCH_MPLS.into()),
        ] {
            let names = |line: &&str| line.split(' ').nth(1) == Some(&format!("EUROPA_{name}"));
            let said = header.lines().find(names).and_then(|line| line.split(' ').nth(2));
            let same = [value.to_string(), format!("{value:#x}")];
            assert!(
                said.is_some_and(|said| same.iter().any(|one| one == said)),
                "{name}: {said:?}"
            );
        }
    }
}
