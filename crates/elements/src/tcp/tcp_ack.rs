//! # TCPAck
//!
//! ## Synopsis
//! `TCPAck([DELAY])`
//!
//! ## Ports
//! Input and output 0 for packets that come in, 1 for packets that go out, push or pull; push
//! output 2 for acknowledgements without a packet that could carry them.
//!
//! ## Description
//! Acknowledges TCP packets up to the first gap in the `TCPBuffer` behind output 0. It writes the
//! acknowledgement number into the next packet that goes out. If none goes out within DELAY, it
//! sends an empty acknowledgement, without addresses, ports and sequence number. Before the first
//! SYN ACK it drops all packets. Packets need the IP header annotation; checksums are left as they
//! are.
//!
//! ## Arguments
//! - DELAY (keyword): seconds that an acknowledgement waits, default 0.02.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `TCPBuffer`, `TCPConn`, `CopyFlowID`, `CopyTCPSeq`

use std::any::Any;
use std::time::Duration;

use super::tcp_buffer::TCPBuffer;
use super::{ACK, FIN, RST, SYN, Segment, make, nearest};
use crate::prelude::*;
use crate::shared::fields::{network_mut, set};
use crate::shared::neighbour::nanoseconds;

/// Acknowledges packets.
#[derive(Default)]
pub(crate) struct TCPAck {
    delay_ns: u64,
    buffer: usize,
    /// The next sequence number, once a SYN ACK has passed.
    next: Option<u32>,
    needed: bool,
    scheduled: bool,
}

impl Class for TCPAck {
    const INFO: ClassInfo = ClassInfo::new("TCPAck", "2/3").processing("aa/aah").flow("xy/xyz");
}

impl TCPAck {
    /// Handles an arriving packet. `false` if it is dropped.
    fn comes(&mut self, packet: &Packet, context: &mut Context<'_>) -> bool {
        let Some(segment) = Segment::of(packet) else { return false };
        if self.next.is_none() && segment.has(SYN | ACK) {
            self.next = Some(segment.sequence.wrapping_add(1));
        }
        let Some(next) = self.next else { return false };
        if segment.flags & (SYN | FIN | RST) != 0 {
            return true;
        }
        if segment.sequence == next {
            let after = next.wrapping_add(segment.span());
            let buffer = context.element(self.buffer).map(|element| element as &mut dyn Any);
            let buffer = buffer.and_then(|buffer| buffer.downcast_mut::<TCPBuffer>());
            self.next = Some(buffer.and_then(|buffer| buffer.missing(after)).unwrap_or(after));
        }
        self.needed = true;
        if !std::mem::replace(&mut self.scheduled, true) {
            context.schedule(0, context.now_ns().saturating_add(self.delay_ns));
        }
        true
    }

    /// Handles a departing packet. `false` if it is dropped.
    fn goes(&mut self, packet: &mut Packet) -> bool {
        let Some(segment) = Segment::of(packet) else { return false };
        if segment.has(SYN | ACK) {
            self.next = Some(segment.acknowledged);
        }
        let Some(next) = self.next else { return false };
        self.needed = false;
        network_mut(packet).is_some_and(|(_, segment)| set(segment, 8, next.to_be_bytes()))
    }

    fn sift(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        batch.retain(|packet| match port {
            0 => self.comes(packet, context),
            _ => self.goes(packet),
        });
    }
}

impl Element for TCPAck {
    arguments! { this, given;
        keyword "DELAY": Duration = Duration::from_millis(20), with nanoseconds => this.delay_ns;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let me = context.index();
        let found = context.with_context(|context| nearest(me, "TCPBuffer", true, context));
        let missing = || ConfigError::other("need at least 1 downstream TCPBuffer");
        self.buffer = found.ok_or_else(missing)?;
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.sift(port, batch, context);
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        self.sift(port, &mut own, context);
        batch.append(&mut own);
        context.give_batch(own);
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.scheduled = false;
        if !std::mem::take(&mut self.needed) {
            return;
        }
        let Some(next) = self.next else { return };
        if let Some(mut packet) = make(context, ACK, b"") {
            if let Some((_, segment)) = network_mut(&mut packet) {
                set(segment, 8, next.to_be_bytes());
            }
            context.push(2, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use super::super::tests::packet;
    use super::super::{ACK, Flow, SYN, Segment};
    use crate::testing::{Bench, part};

    fn router() -> Router {
        let mut graph = Graph::default();
        let inward = graph.add("source0", "TestSource", &[]);
        let outward = graph.add("source1", "TestSource", &[]);
        let ack = graph.add("ack", "TCPAck", &["DELAY 1"]);
        let buffer = graph.add("buffer", "TCPBuffer", &[]);
        let unqueue = graph.add("u", "Unqueue", &[]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.connect(inward, 0, ack, 0);
        graph.connect(outward, 0, ack, 1);
        graph.connect(ack, 0, buffer, 0);
        graph.connect(buffer, 0, unqueue, 0);
        graph.connect(unqueue, 0, sink, 0);
        graph.connect(ack, 1, sink, 1);
        graph.connect(ack, 2, sink, 2);
        let registry = Bench::registry();
        let arena = Arena::heap(64, 2048);
        Router::build(&graph.resolved(&registry), &registry, &arena, &NoDevices, 0).unwrap()
    }

    /// Outputs and acknowledgement numbers of the sent segments.
    fn out(router: &mut Router) -> Vec<(usize, u32)> {
        let acknowledged = |p: &_| Segment::of(p).unwrap().acknowledged;
        part::sink(router).iter().map(|(port, packet)| (*port, acknowledged(packet))).collect()
    }

    #[test]
    fn acknowledgements_go_with_packets_or_alone() {
        let mut router = router();
        let flow = Flow::default();
        let step = |router: &mut Router, now_ns| while router.run_once(now_ns, &mut NoDevices) {};
        part::source(&mut router, 0, [packet(flow, 50, ACK, b"early")]);
        step(&mut router, 1);
        assert!(out(&mut router).is_empty(), "nothing passes before the SYN ACK");
        let all = [packet(flow, 100, SYN | ACK, b""), packet(flow, 101, ACK, b"abc")];
        part::source(&mut router, 0, all);
        step(&mut router, 2);
        assert_eq!(out(&mut router).len(), 2);
        part::source(&mut router, 1, [packet(flow, 1, ACK, b"x")]);
        step(&mut router, 3);
        assert_eq!(out(&mut router), [(1, 104)]);
        step(&mut router, 2_000_000_000);
        assert!(out(&mut router).is_empty(), "it went with a packet");
        part::source(&mut router, 0, [packet(flow, 104, ACK, b"de")]);
        step(&mut router, 2_000_000_001);
        step(&mut router, 4_000_000_000);
        assert_eq!(out(&mut router), [(0, 0), (2, 106)]);
    }

    #[test]
    fn a_buffer_is_needed() {
        assert_eq!(Bench::error("TCPAck", &[]), "need at least 1 downstream TCPBuffer");
    }
}
