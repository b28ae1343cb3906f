//! # BufferConverter
//!
//! ## Synopsis
//! `BufferConverter(MTU)`
//!
//! ## Ports
//! Pull input 0 for TCP packets that come in, push input 1 for messages about the path's MTU, which
//! are dropped; one push output for TCP packets.
//!
//! ## Description
//! Makes TCP packets of text that is written to a handler. Reading the handler returns the contents
//! of packets that come in. The packets have no addresses, ports, sequence numbers and checksums
//! yet.
//!
//! ## Arguments
//! - MTU: most bytes of data in a packet.
//!
//! ## Handlers
//! - `data` (read): contents of the next packet that has data.
//! - `data` (write): sends this text, in as many packets as necessary.
//!
//! ## See also
//! `TCPConn`, `TCPBuffer`

use super::{PSH, Segment, make};
use crate::prelude::*;
use crate::shared::fields::network;

/// Most packets without data that are skipped for one with data.
const MOST: usize = 1024;

/// Makes packets of text, and text of packets.
#[derive(Default)]
pub(crate) struct BufferConverter {
    mtu: usize,
}

impl Class for BufferConverter {
    const INFO: ClassInfo =
        ClassInfo::new("BufferConverter", "2/1").processing("lh/h").flow("xy/z");
}

/// The data of a packet.
fn data(packet: &Packet) -> Option<&[u8]> {
    let segment = Segment::of(packet)?;
    let (_, rest) = network(packet)?;
    rest.get(segment.offset..segment.offset + segment.length)
}

impl BufferConverter {
    fn next(&self, context: &mut Context<'_>) -> String {
        let mut batch = context.take_batch();
        let mut text = String::new();
        for _ in 0..MOST {
            if context.pull(0, 1, &mut batch) == 0 {
                break;
            }
            let packet = batch.pop();
            if let Some(data) = packet.as_ref().and_then(data).filter(|data| !data.is_empty()) {
                text = String::from_utf8_lossy(data).into_owned();
                break;
            }
        }
        context.give_batch(batch);
        text
    }

    fn send(&self, text: &str, context: &mut Context<'_>) -> Result<(), HandlerError> {
        for part in text.as_bytes().chunks(self.mtu) {
            let none = || HandlerError::Other("no buffers".to_owned());
            let packet = make(context, PSH, part).ok_or_else(none)?;
            context.push(0, packet);
        }
        Ok(())
    }
}

impl Element for BufferConverter {
    arguments! { this, given;
        mandatory "MTU": usize => this.mtu;
        then {
            if !(1..=65000).contains(&this.mtu) {
                return Err(ConfigError::other("MTU must be between 1 and 65000"));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        batch.clear();
    }

    handlers! { this, context, value;
        both "data" [RAW] => this.next(context), set this.send(value, context)?;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use super::super::tests::packet;
    use super::super::{ACK, Flow};
    use crate::testing::{Bench, part};

    #[test]
    fn text_becomes_packets_and_packets_text() {
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let idle = graph.add("source1", "TestSource", &[]);
        let queue = graph.add("queue", "Queue", &[]);
        let converter = graph.add("c", "BufferConverter", &["4"]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.connect(source, 0, queue, 0);
        graph.connect(queue, 0, converter, 0);
        graph.connect(idle, 0, converter, 1);
        graph.connect(converter, 0, sink, 0);
        let (registry, arena) = (Bench::registry(), Arena::heap(64, 2048));
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        router.write("c.data", "abcdef").unwrap();
        router.run_once(0, &mut NoDevices);
        let out = part::sink(&mut router);
        let parts: Vec<&[u8]> = out.iter().map(|(_, packet)| &packet.data()[40..]).collect();
        assert_eq!(parts, [&b"abcd"[..], b"ef"]);
        let flow = Flow::default();
        part::source(&mut router, 0, [packet(flow, 1, ACK, b""), packet(flow, 1, ACK, b"hello")]);
        router.run_once(0, &mut NoDevices);
        assert_eq!(router.read("c.data", ""), Ok("hello".into()));
        assert_eq!(router.read("c.data", ""), Ok(String::new()));
        assert_eq!(Bench::error("BufferConverter", &["0"]), "MTU must be between 1 and 65000");
    }
}
