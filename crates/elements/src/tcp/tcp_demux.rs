//! # TCPDemux
//!
//! ## Synopsis
//! `TCPDemux()`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Passes packets of flows that a `TCPConn` behind it has opened, and drops others. If several
//! flows fit, the most specific one is used: addresses and ports of both ends; address and port of
//! this end; its port; its address; any. Packets need the IP header annotation.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets of no flow.
//! - `flows` (read): number of flows.
//!
//! ## See also
//! `TCPConn`, `TCPBuffer`

use std::collections::HashSet;

use super::Flow;
use crate::prelude::*;
use crate::shared::common::retain;

/// Passes packets of known flows.
#[derive(Default)]
pub(crate) struct TCPDemux {
    /// From this end to the other.
    flows: HashSet<Flow>,
    drops: u64,
}

impl Class for TCPDemux {
    const INFO: ClassInfo = ClassInfo::new("TCPDemux", "1/1").processing("h/h");
}

impl TCPDemux {
    /// Adds a flow in the direction from this end. `false` if it already exists.
    pub(super) fn add(&mut self, flow: Flow) -> bool {
        self.flows.insert(flow)
    }

    pub(super) fn remove(&mut self, flow: Flow) {
        self.flows.remove(&flow);
    }

    /// Whether a packet is of a flow.
    fn knows(&self, packet: &Packet) -> bool {
        let Some(flow) = Flow::of(packet).map(Flow::reverse) else { return false };
        let ([own, _], [port, _]) = (flow.addresses, flow.ports);
        let (none, any) =
            ([0; 4], |address, port| Flow { addresses: [address, [0; 4]], ports: [port, 0] });
        let wanted = [flow, any(own, port), any(none, port), any(own, 0), any(none, 0)];
        wanted.iter().any(|flow| self.flows.contains(flow))
    }
}

impl Element for TCPDemux {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += retain(batch, |packet| self.knows(packet));
        context.forward(0, batch);
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
        read "flows" => this.flows.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::super::{ACK, Flow};
    use super::TCPDemux;
    use crate::testing::Bench;

    #[test]
    fn packets_of_no_flow_are_dropped() {
        let flow = |a, b, c, d| Flow { addresses: [[a; 4], [b; 4]], ports: [c, d] };
        for (known, passes) in [
            (flow(1, 2, 3, 4), true),
            (flow(1, 2, 3, 5), false),
            (flow(1, 0, 3, 0), true),
            (flow(0, 0, 3, 0), true),
            (flow(1, 0, 0, 0), true),
            (flow(0, 0, 0, 0), true),
            (flow(2, 0, 3, 0), false),
        ] {
            let mut bench = Bench::new("TCPDemux", &[]);
            assert!(bench.element::<TCPDemux>().add(known));
            let back = packet(flow(2, 1, 4, 3), 1, ACK, b"");
            assert_eq!(bench.push_packets(0, vec![back]).len(), usize::from(passes), "{known:?}");
            assert!(!bench.element::<TCPDemux>().add(known));
            bench.element::<TCPDemux>().remove(known);
            assert_eq!(bench.router.read("e.flows", ""), Ok("0".into()));
        }
    }
}
