//! # DropBroadcasts
//!
//! ## Synopsis
//! `DropBroadcasts`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Lets packets pass that were addressed to one host on their link. Packets that came as link-level
//! broadcast or multicast leave by output 1, or are dropped: a router does not forward them (RFC
//! 1812 section 5.3.4).
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets that did not pass.
//!
//! ## See also
//! `FromDevice`

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, PacketType, Verdict, handlers,
};

/// Keeps link-level broadcasts from being forwarded.
#[derive(Default)]
pub(crate) struct DropBroadcasts {
    drops: u64,
}

impl Class for DropBroadcasts {
    const INFO: ClassInfo =
        ClassInfo::new("DropBroadcasts", "1/1-2").processing("a/ah").inline().keeps_long();
}

impl Each for DropBroadcasts {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if !matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast) {
            return Verdict::ON;
        }
        self.refuse()
    }
}

impl DropBroadcasts {
    #[cold]
    #[inline(never)]
    fn refuse(&mut self) -> Verdict {
        self.drops += 1;
        Verdict::out(1)
    }
}

impl Element for DropBroadcasts {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch
            .filter(|packet| self.each(packet, 0) == Verdict::ON, |packet| context.push(1, packet));
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_engine::PacketType;

    #[test]
    fn only_unicast_passes() {
        let mut bench = Bench::new("DropBroadcasts", &[]);
        let types =
            [PacketType::Host, PacketType::Broadcast, PacketType::Multicast, PacketType::OtherHost];
        let packets = types.map(|kind| {
            let mut packet = bench.arena.packet(&[kind as u8]).unwrap();
            packet.set_packet_type(kind);
            packet
        });
        let out = bench.push_packets(0, packets.into());
        assert_eq!(out, [(1, vec![1]), (1, vec![2]), (0, vec![0]), (0, vec![3])]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
    }
}
