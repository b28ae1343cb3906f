//! # HostEtherFilter
//!
//! ## Synopsis
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, OFFSET])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Works like a network card with address ETHER: sets each packet's type annotation by its Ethernet
//! destination, and passes frames for ETHER, for a group or for all. Other packets leave by output
//! 1, or are dropped.
//!
//! ## Arguments
//! - ETHER: Ethernet address.
//! - DROP_OWN: filter packets that come from ETHER; default false.
//! - DROP_OTHER: filter packets for other hosts; default true.
//! - OFFSET (keyword): where the Ethernet header starts, default 0.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `EtherEncap`, `SetPacketType`, `DropBroadcasts`

use europa_engine::PacketType;

use crate::prelude::*;
use crate::shared::fields::bytes;

/// Passes the frames that a host would receive.
#[derive(Default)]
pub(crate) struct HostEtherFilter {
    address: [u8; 6],
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl Class for HostEtherFilter {
    const INFO: ClassInfo = ClassInfo::new("HostEtherFilter", "1/1-2").processing("a/ah").inline();
}

impl HostEtherFilter {
    fn passes(&self, packet: &mut Packet) -> bool {
        let (Some(destination), Some(source)) = (
            bytes(packet.data(), self.offset),
            bytes::<6>(packet.data(), self.offset.saturating_add(6)),
        ) else {
            return false;
        };
        let kind = PacketType::of(destination, self.address);
        packet.set_packet_type(kind);
        !(self.drop_own && source == self.address
            || self.drop_other && kind == PacketType::OtherHost)
    }
}

impl Element for HostEtherFilter {
    arguments! { this, given;
        mandatory "ETHER": [u8; 6] => this.address;
        positional "DROP_OWN": bool = false => this.drop_own;
        positional "DROP_OTHER": bool = true => this.drop_other;
        keyword "OFFSET": usize = 0 => this.offset;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(|packet| self.passes(packet), |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn own_and_other_packets_can_be_filtered() {
        for (arguments, destination, source, output) in [
            (&["2:2:2:2:2:2"][..], 2, 4, 0),
            (&["2:2:2:2:2:2"], 4, 6, 1),
            (&["2:2:2:2:2:2"], 0xff, 2, 0),
            (&["2:2:2:2:2:2", "true"], 0xff, 2, 1),
            (&["2:2:2:2:2:2", "false", "false"], 4, 6, 0),
        ] {
            let frame = [[destination; 6], [source; 6]].concat();
            let mut bench = Bench::new("HostEtherFilter", arguments);
            assert_eq!(bench.push(0, &[&frame, b"short"]), {
                let mut expected = vec![(output, frame), (1, b"short".to_vec())];
                expected.sort_by_key(|(output, _)| std::cmp::Reverse(*output));
                if output == 1 { expected } else { vec![expected[0].clone(), expected[1].clone()] }
            });
        }
    }
}
