//! # ICMPRewriter
//!
//! ## Synopsis
//! `ICMPRewriter(MAPS [, DST_ANNO, REPLY_ANNO])`
//!
//! ## Ports
//! One push input; outputs push.
//!
//! ## Description
//! Rewrites ICMP errors about packets that a rewriter has changed: their destination and the packet
//! inside get the original addresses of the flow. Errors about other flows, and other packets,
//! leave by output 1, or are dropped. The network header annotation must be set.
//!
//! ## Arguments
//! - MAPS: names of rewriters, separated by spaces. After a name, `:OFFSET` makes errors leave by
//!   the output OFFSET plus the output of the flow's replies; without it they leave by output 0.
//! - DST_ANNO (keyword): set the destination address annotation too; default true.
//! - REPLY_ANNO (keyword): as in the rewriters.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPRewriter`, `ICMPPingRewriter`, `ICMPError`

use europa_packet::checksum;

use super::core;
use super::flows::FlowId;
use crate::prelude::*;
use crate::shared::annotation::Annotation;
use crate::shared::fields::{be16, be32, is_first, network, network_mut, set};

/// Rewrites ICMP errors.
#[derive(Default)]
pub(crate) struct ICMPRewriter {
    /// Name, number, and offset of outputs.
    rewriters: Vec<(String, usize, Option<usize>)>,
    set_destination: bool,
    reply_annotation: Option<usize>,
}

impl Class for ICMPRewriter {
    const INFO: ClassInfo = ClassInfo::new("ICMPRewriter", "1-/1-").processing("h/h").inline();
}

/// The header of the packet that an error quotes.
struct Inner {
    protocol: u8,
    /// The id that a reply to that packet would have.
    reply: FlowId,
    /// Where the inner transport header starts in the message, and whether it has ports or an
    /// identifier.
    transport: usize,
    known: bool,
}

fn inner(packet: &Packet) -> Option<Inner> {
    let (header, message) = network(packet)?;
    if header.get(9) != Some(&1) || !matches!(message.first(), Some(3 | 4 | 5 | 11 | 12)) {
        return None;
    }
    let within = message.get(8..)?;
    let (first, protocol) = (*within.first()?, *within.get(9)?);
    let length = usize::from(first & 15) * 4;
    if first >> 4 != 4 || length < 20 || within.len() < 20 {
        return None;
    }
    let mut reply =
        FlowId { source: be32(within, 16)?, destination: be32(within, 12)?, ..FlowId::default() };
    let mut known = false;
    if is_first(within) {
        let ports = be16(within, length).zip(be16(within, length + 2));
        match protocol {
            6 | 17 | 33 if within.len() >= length + 8 => {
                (reply.destination_port, reply.source_port) = ports?;
                known = true;
            }
            1 if within.get(length) == Some(&8) && within.len() >= length + 6 => {
                reply.source_port = be16(within, length + 4)?;
                known = true;
            }
            _ => {}
        }
    }
    Some(Inner { protocol, reply, transport: 8 + length, known })
}

/// Changes 16 bits of a message, and checksums over them by difference.
fn change(message: &mut [u8], at: usize, new: u16, checks: &mut [u16]) {
    let Some(old) = be16(message, at) else { return };
    set(message, at, new.to_be_bytes());
    for check in checks {
        *check = checksum::update_u16(*check, old, new);
    }
}

impl ICMPRewriter {
    fn handle(&self, packet: &mut Packet, context: &mut Context<'_>) -> Option<usize> {
        let inner = inner(packet)?;
        let mut found = None;
        for (_, number, offset) in &self.rewriters {
            let Some(rewriter) = context.element(*number).and_then(core::of) else { continue };
            if let Some((index, back)) = rewriter.find_reply(inner.protocol, inner.reply)
                && let Some((new, output, annotation)) = rewriter.flow(index, |flow| {
                    (flow.rewritten(back), flow.output(back), flow.reply_annotation)
                })
            {
                found = Some((new, output, back, annotation, *offset));
                break;
            }
        }
        let (new, output, back, annotation, offset) = found?;
        let (header, _) = network(packet)?;
        if be32(header, 16) == Some(inner.reply.destination) {
            crate::shared::fields::set_address(packet, 16, new.destination.to_be_bytes());
            if self.set_destination {
                packet.set_dst_ip(new.destination);
            }
        }
        if let Some(at) = self.reply_annotation.filter(|_| back) {
            packet.set_annotation(at, [annotation]);
        }
        let (_, message) = network_mut(packet)?;
        // The packet inside goes in the opposite direction.
        let source = new.destination.to_be_bytes();
        let destination =
            if new.source == 0 { inner.reply.source } else { new.source }.to_be_bytes();
        let at = inner.transport;
        let check_at = match inner.protocol {
            6 => at + 16,
            17 => at + 6,
            _ => usize::MAX,
        };
        let segment = be16(message, check_at)
            .filter(|check| inner.known && (inner.protocol != 17 || *check != 0));
        let (ip, outer) = (be16(message, 18)?, be16(message, 2)?);
        let mut checks = [ip, segment.unwrap_or(0), outer];
        for (field, value) in [(20, source), (24, destination)] {
            let [a, b, c, d] = value;
            change(message, field, u16::from_be_bytes([a, b]), &mut checks);
            change(message, field + 2, u16::from_be_bytes([c, d]), &mut checks);
        }
        let [ip_check, mut segment_check, mut outer_check] = checks;
        let mut both = [segment_check, outer_check];
        change(message, 18, ip_check, both.get_mut(1..)?);
        if inner.known && inner.protocol != 1 {
            change(message, at, new.destination_port, &mut both);
            change(message, at + 2, new.source_port, &mut both);
        }
        [segment_check, outer_check] = both;
        if inner.known && inner.protocol == 1 {
            let mut own = [be16(message, at + 2)?, outer_check];
            change(message, at + 4, new.destination_port, &mut own);
            [segment_check, outer_check] = own;
            let mut last = [outer_check];
            change(message, at + 2, segment_check, &mut last);
            [outer_check] = last;
        } else if segment.is_some() {
            let mut last = [outer_check];
            change(message, check_at, segment_check, &mut last);
            [outer_check] = last;
        }
        set(message, 2, outer_check.to_be_bytes());
        // A number beyond all outputs means that the packet is dropped.
        Some(offset.map_or(0, |offset| offset.saturating_add(output)))
    }
}

impl Element for ICMPRewriter {
    arguments! { this, given;
        let words = mandatory "MAPS": String;
        keyword "DST_ANNO": bool = true => this.set_destination;
        keyword "REPLY_ANNO": Annotation<1>, with |at| at.map(Annotation::at)

            => this.reply_annotation;
        then {
            for word in words.split_whitespace() {
                let (name, offset) = match word.split_once(':') {
                    Some((name, offset)) => (name, Some(given.value("MAPS", 0, offset)?)),
                    None => (word, None),
                };
                this.rewriters.push((name.to_owned(), 0, offset));
            }
            if this.rewriters.is_empty() {
                return Err(ConfigError::other("no IP rewriters supplied"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (name, number, _) in &mut self.rewriters {
            let found = context.find(name);
            let is_rewriter =
                found.and_then(|number| context.element(number)).and_then(core::of).is_some();
            *number = found
                .filter(|_| is_rewriter)
                .ok_or_else(|| ConfigError::at(0, format!("{name} not an IP rewriter")))?;
        }
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for mut packet in batch.drain() {
            let output = self.handle(&mut packet, context).unwrap_or(1);
            context.push(output, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr, checksum};

    use crate::testing::{Bench, part};

    #[test]
    fn errors_find_their_way_back() {
        let mut graph = Graph::default();
        let rewriter = graph.add("rw", "IPRewriter", &["pattern 1.0.0.1 1024# - - 0 0"]);
        let errors = graph.add("e", "ICMPRewriter", &["rw"]);
        let sink = graph.add("sink", "TestSink", &[]);
        for (number, to) in [(0, rewriter), (1, errors)] {
            let source = graph.add(&format!("source{number}"), "TestSource", &[]);
            graph.connect(source, 0, to, 0);
        }
        graph.connect(rewriter, 0, sink, 0);
        graph.connect(errors, 0, sink, 1);
        graph.connect(errors, 1, sink, 2);
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        let frame = |from: [u8; 4], to: [u8; 4]| {
            Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4(from, to)
        };
        let strip = |frame: Vec<u8>| frame[EthernetHeader::LEN..].to_vec();
        let mut push = |number: usize, bytes: &[u8]| {
            let mut packet = arena.packet(bytes).unwrap();
            packet.set_network_header(0, 20);
            part::source(&mut router, number, [packet]);
            router.run_once(0, &mut NoDevices);
            part::sink(&mut router)
                .into_iter()
                .map(|(o, p)| (o, p.data().to_vec()))
                .collect::<Vec<_>>()
        };
        let original = strip(frame([10, 0, 0, 1], [2, 0, 0, 2]).udp(5, 80, b"payload"));
        let sent = push(0, &original).remove(0).1;
        let error = |about: &[u8], to: [u8; 4]| {
            let message = [&[3, 3, 0, 0, 0, 0, 0, 0], about].concat();
            strip(frame([9, 9, 9, 9], to).icmp(&message))
        };
        let back = push(1, &error(&sent, [1, 0, 0, 1]));
        assert_eq!(back, [(1, error(&original, [10, 0, 0, 1]))]);
        assert!(checksum::verify(&back[0].1[20..]));
        let other = strip(frame([1, 0, 0, 1], [7, 7, 7, 7]).udp(5, 80, b""));
        assert_eq!(push(1, &error(&other, [1, 0, 0, 1]))[0].0, 2);
    }
}
