//! # TCPConn
//!
//! ## Synopsis
//! `TCPConn()`
//!
//! ## Ports
//! Push input and output 0 for packets that come in; pull input and output 1 for packets that go
//! out; push output 2 for SYNs.
//!
//! ## Description
//! Opens a TCP connection and gives packets that go out its addresses, ports and sequence numbers.
//! They can be pulled once the connection is open. The `TCPDemux` before input 0 learns its flow.
//! Packets need the IP header annotation; checksums are left as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `ctrl` (write): `connect SRC SPORT DST DPORT` sends a SYN. `listen SRC SPORT` accepts packets
//!   to this address and port, but drops them: accepting connections is not implemented.
//! - `reset` (write): forgets the connection.
//! - `state` (read): `closed`, `listen`, `connecting` or `established`.
//!
//! ## See also
//! `TCPDemux`, `TCPAck`, `TCPBuffer`

use std::any::Any;
use std::net::Ipv4Addr;

use super::tcp_demux::TCPDemux;
use super::{ACK, Flow, SYN, Segment, make, nearest, set_sequence};
use crate::prelude::*;
use crate::shared::random::Random;
use crate::shared::values::Port;

/// The state of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Listen,
    Connecting,
    Established,
}

/// Opens a connection.
#[derive(Default)]
pub(crate) struct TCPConn {
    demux: usize,
    state: State,
    flow: Flow,
    next: u32,
}

impl Class for TCPConn {
    const INFO: ClassInfo = ClassInfo::new("TCPConn", "2/3").processing("hl/hlh").flow("xy/xyz");
}

impl TCPConn {
    /// Accesses the `TCPDemux`.
    fn demux<R>(
        &self,
        context: &mut Context<'_>,
        change: impl FnOnce(&mut TCPDemux) -> R,
    ) -> Option<R> {
        let element: &mut dyn Any = context.element(self.demux)?;
        element.downcast_mut::<TCPDemux>().map(change)
    }

    fn reset(&mut self, context: &mut Context<'_>) {
        if self.state != State::Closed {
            let flow = self.flow;
            self.demux(context, |demux| demux.remove(flow));
            self.state = State::Closed;
        }
    }

    fn control(&mut self, text: &str, context: &mut Context<'_>) -> Result<(), HandlerError> {
        let other = |message: &str| HandlerError::Other(message.to_owned());
        if self.state != State::Closed {
            return Err(other("TCPConn already active"));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let names = context.address_names();
        let address = |text: &str| -> Result<[u8; 4], HandlerError> {
            let address = <Ipv4Addr as europa_engine::Value>::parse(text, names);
            let wanted = || HandlerError::value("ctrl", text, "IP address");
            Ok(address.ok_or_else(wanted)?.octets())
        };
        let port = |text: &str| -> Result<u16, HandlerError> {
            let port = <Port as europa_engine::Value>::parse(text, names);
            port.map(|port| port.0).ok_or_else(|| HandlerError::value("ctrl", text, "TCP port"))
        };
        let (flow, state) = match words.as_slice() {
            ["connect", source, from, destination, to] => (
                Flow {
                    addresses: [address(source)?, address(destination)?],
                    ports: [port(from)?, port(to)?],
                },
                State::Connecting,
            ),
            ["listen", source, from, ..] => (
                Flow { addresses: [address(source)?, [0; 4]], ports: [port(from)?, 0] },
                State::Listen,
            ),
            _ => return Err(other("action must be connect or listen")),
        };
        if self.demux(context, |demux| demux.add(flow)) != Some(true) {
            return Err(other("cannot connect: the flow is in use"));
        }
        (self.flow, self.state, self.next) = (flow, state, Random.next());
        if state == State::Connecting {
            self.send_syn(context);
        }
        Ok(())
    }

    fn send_syn(&mut self, context: &mut Context<'_>) {
        let Some(mut packet) = make(context, SYN, b"") else { return };
        let written = self.flow.write(&mut packet);
        if written.and_then(|()| set_sequence(&mut packet, self.next)).is_some() {
            context.push(2, packet);
        }
    }
}

impl Element for TCPConn {
    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let me = context.index();
        let found = context.with_context(|context| nearest(me, "TCPDemux", false, context));
        let missing = || ConfigError::other("need at least 1 upstream TCPDemux");
        self.demux = found.ok_or_else(missing)?;
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if self.state == State::Listen {
            return batch.clear();
        }
        for packet in batch.iter() {
            if self.state == State::Connecting
                && Segment::of(packet).is_some_and(|segment| segment.has(SYN | ACK))
            {
                self.state = State::Established;
                self.next = self.next.wrapping_add(1);
            }
        }
        context.forward(0, batch);
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if self.state != State::Established {
            return;
        }
        let mut own = context.take_batch();
        context.pull(1, max, &mut own);
        own.retain(|packet| {
            let Some(segment) = Segment::of(packet) else { return false };
            let written = self.flow.write(packet);
            let written = written.and_then(|()| set_sequence(packet, self.next));
            self.next = self.next.wrapping_add(segment.span());
            written.is_some()
        });
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value;
        write "ctrl" => this.control(value, context)?;
        button "reset" => this.reset(context);
        read "state" => match this.state {
            State::Closed => "closed",
            State::Listen => "listen",
            State::Connecting => "connecting",
            State::Established => "established",
        };
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
        let demux = graph.add("demux", "TCPDemux", &[]);
        let conn = graph.add("conn", "TCPConn", &[]);
        let queue = graph.add("queue", "Queue", &[]);
        let unqueue = graph.add("u", "Unqueue", &[]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.connect(inward, 0, demux, 0);
        graph.connect(demux, 0, conn, 0);
        graph.connect(outward, 0, queue, 0);
        graph.connect(queue, 0, conn, 1);
        graph.connect(conn, 0, sink, 0);
        graph.connect(conn, 1, unqueue, 0);
        graph.connect(unqueue, 0, sink, 1);
        graph.connect(conn, 2, sink, 2);
        let registry = Bench::registry();
        let arena = Arena::heap(64, 2048);
        Router::build(&graph.resolved(&registry), &registry, &arena, &NoDevices, 0).unwrap()
    }

    #[test]
    fn a_connection_is_opened_and_used() {
        let mut router = router();
        let run = |router: &mut Router| while router.run_once(0, &mut NoDevices) {};
        part::source(&mut router, 1, [packet(Flow::default(), 0, ACK, b"abc")]);
        run(&mut router);
        assert!(part::sink(&mut router).is_empty(), "nothing goes before it is open");
        router.write("conn.ctrl", "connect 1.1.1.1 10 2.2.2.2 20").unwrap();
        run(&mut router);
        let syn = part::sink(&mut router);
        let flow = Flow { addresses: [[1; 4], [2; 4]], ports: [10, 20] };
        assert_eq!((syn[0].0, Flow::of(&syn[0].1)), (2, Some(flow)));
        let first = Segment::of(&syn[0].1).unwrap();
        assert_eq!(first.flags, SYN);
        part::source(&mut router, 0, [packet(flow.reverse(), 5, SYN | ACK, b"")]);
        run(&mut router);
        assert_eq!(router.read("conn.state", ""), Ok("established".into()));
        let out = part::sink(&mut router);
        assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 1]);
        let sent = Segment::of(&out[1].1).unwrap();
        assert_eq!(
            (Flow::of(&out[1].1), sent.sequence),
            (Some(flow), first.sequence.wrapping_add(1))
        );
        let again = router.write("conn.ctrl", "connect 1.1.1.1 10 2.2.2.2 20").unwrap_err();
        assert_eq!(again.to_string(), "TCPConn already active");
        router.write("conn.reset", "").unwrap();
        assert_eq!(router.read("demux.flows", ""), Ok("0".into()));
        assert!(router.write("conn.ctrl", "fly 1.1.1.1 10").is_err());
    }
}
