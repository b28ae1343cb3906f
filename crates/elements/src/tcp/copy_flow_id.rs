//! # CopyFlowID
//!
//! ## Synopsis
//! `CopyFlowID()`
//!
//! ## Ports
//! Two inputs, two outputs, push or pull: input n to output n.
//!
//! ## Description
//! Remembers the addresses and ports of the first packet on path 0, and writes them into all packets
//! on path 1. Packets need the IP header annotation; checksums are left as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `reset` (write): forgets it.
//!
//! ## See also
//! `TCPConn`, `TCPAck`

use super::Flow;
use crate::prelude::*;

/// Copies from packets of one path to those of another.
#[derive(Default)]
pub(crate) struct CopyFlowID {
    flow: Option<Flow>,
}

impl Class for CopyFlowID {
    const INFO: ClassInfo = ClassInfo::new("CopyFlowID", "2/2").flow("#/#");
}

impl CopyFlowID {
    fn work(&mut self, port: usize, batch: &mut Batch) {
        if port == 0 {
            for packet in batch.iter() {
                if self.flow.is_none() {
                    self.flow = Flow::of(packet);
                }
            }
        } else if let Some(flow) = self.flow {
            for packet in batch {
                // A packet without these headers passes unchanged.
                let _ = flow.write(packet);
            }
        }
    }
}

impl Element for CopyFlowID {
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.work(port, batch);
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        self.work(port, &mut own);
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value; button "reset" => this.flow = None; }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::super::{Flow, SYN, Segment};
    use crate::testing::Bench;

    #[test]
    fn the_first_flow_is_copied() {
        let flow = |n| Flow { addresses: [[n; 4], [n + 1; 4]], ports: [n.into(), 80] };
        let mut bench = Bench::new("CopyFlowID", &[]);
        for n in [1, 5] {
            bench.push_packets(0, vec![packet(flow(n), 1, SYN, b"")]);
        }
        bench.push_packets(1, vec![packet(flow(9), 7, SYN, b"x")]);
        let (port, out) = &bench.out[0];
        assert_eq!((*port, Flow::of(out)), (1, Some(flow(1))));
        assert_eq!(Segment::of(out).unwrap().sequence, 7);
        bench.router.write("e.reset", "").unwrap();
        bench.push_packets(1, vec![packet(flow(9), 7, SYN, b"x")]);
        assert_eq!(Flow::of(&bench.out[0].1), Some(flow(9)));
    }
}
