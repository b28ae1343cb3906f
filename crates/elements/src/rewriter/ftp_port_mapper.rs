//! # FTPPortMapper
//!
//! ## Synopsis
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Looks for `PORT` commands in the control connections of FTP. These pass it before they come to
//! CONTROL_REWRITER. The address and port that a command names get a flow in DATA_REWRITER, from
//! the server's data port (one below its control port), as if a packet of it had come by input
//! DATA_REWRITER_INPUT. The command is changed to the rewritten address of that flow. As it may
//! become longer or shorter, CONTROL_REWRITER adjusts the sequence numbers that follow. So the
//! control connection must already have a flow there.
//!
//! ## Arguments
//! - CONTROL_REWRITER: a `TCPRewriter`.
//! - DATA_REWRITER: any rewriter of TCP flows, perhaps the same.
//! - DATA_REWRITER_INPUT: number of one of its inputs.
//!
//! ## Handlers
//! - `count` (read): commands changed.
//!
//! ## See also
//! `TCPRewriter`, `IPRewriter`

use std::any::Any;

use europa_packet::checksum;

use super::core;
use super::flows::FlowId;
use super::tcp_rewriter::TCPRewriter;
use crate::prelude::*;
use crate::shared::fields::{be16, be32, grow_tail, network, network_mut, segment_checksum, set};

/// Adds mappings for FTP's data connections.
#[derive(Default)]
pub(crate) struct FTPPortMapper {
    names: [String; 2],
    /// Numbers of the rewriters.
    control: usize,
    data: usize,
    input: usize,
    count: u64,
}

impl Class for FTPPortMapper {
    const INFO: ClassInfo = ClassInfo::new("FTPPortMapper", "1/1").inline();
}

/// A command in a segment.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    address: u32,
    port: u16,
    /// Start and end of its numbers.
    start: usize,
    end: usize,
}

/// The command at the start of `bytes`.
fn command(bytes: &[u8]) -> Option<Command> {
    let (word, rest) = bytes.split_at_checked(5)?;
    if !word.eq_ignore_ascii_case(b"PORT ") {
        return None;
    }
    let start = 5 + rest.iter().take_while(|byte| **byte == b' ').count();
    let numbers = bytes.get(start..)?;
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    let end = start + numbers.iter().take_while(|byte| is_number(byte)).count();
    if !matches!(bytes.get(end), Some(b'\r' | b'\n')) {
        return None;
    }
    let text = std::str::from_utf8(bytes.get(start..end)?).ok()?;
    let numbers: Option<Vec<u8>> = text.split(',').map(|number| number.parse().ok()).collect();
    let [a, b, c, d, high, low] = *numbers? else { return None };
    let (address, port) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
    Some(Command { address, port, start, end })
}

impl FTPPortMapper {
    /// Changes a packet that contains a command.
    fn map(&mut self, packet: &mut Packet, context: &mut Context<'_>) -> Option<()> {
        let (header, segment) = network(packet)?;
        let offset = usize::from(segment.get(12)? >> 4) * 4;
        let payload = segment.get(offset..).filter(|_| header.get(9) == Some(&6))?;
        let found = command(payload)?;
        let (length, sequence) = (payload.len(), be32(segment, 4)?);
        let before = packet.len() - payload.len();
        let id = FlowId {
            source: be32(header, 12)?,
            source_port: be16(segment, 0)?,
            destination: be32(header, 16)?,
            destination_port: be16(segment, 2)?,
        };
        let data_id = FlowId {
            source: found.address,
            source_port: found.port,
            destination_port: id.destination_port.wrapping_sub(1),
            ..id
        };
        let (control, back, annotation) =
            context.with_element(self.control, |element, context| {
                let rewriter = core::of(element)?;
                let (index, back) = rewriter.connection(id, None, packet, context)?;
                Some((index, back, rewriter.flow(index, |flow| flow.reply_annotation)?))
            })??;
        let new = context.with_element(self.data, |element, context| {
            let rewriter = core::of(element)?;
            let (index, back) = rewriter.connection(data_id, Some(self.input), packet, context)?;
            rewriter.flow(index, |flow| {
                // Data connections get the annotation of the control connection, too.
                flow.reply_annotation = annotation;
                flow.rewritten(back)
            })
        })??;
        let [a, b, c, d] = new.source.to_be_bytes();
        let [high, low] = new.source_port.to_be_bytes();
        let text = format!("{a},{b},{c},{d},{high},{low}");
        let old = found.end - found.start;
        // The rest of the segment follows the six numbers of the command.
        let tail = packet.data().get(before + found.end..)?.to_vec();
        match text.len().checked_sub(old) {
            Some(more) => grow_tail(packet, more)?,
            None => packet.take(old - text.len())?,
        }
        let place = packet.data_mut().get_mut(before + found.start..)?;
        for (to, from) in place.iter_mut().zip(text.bytes().chain(tail)) {
            *to = from;
        }
        let by = text.len() as i32 - old as i32;
        context.with_element(self.control, |element, _| {
            let rewriter = core::of(element)?;
            // The numbers of later segments change; this segment keeps its own.
            let from = sequence.wrapping_add(length as u32);
            rewriter.flow(control, |flow| {
                flow.deltas.get_or_insert_default().add(back, from, by);
            })
        })??;
        let (header, segment) = network_mut(packet)?;
        let total = (header.len() + segment.len()) as u16;
        let (old_total, check) = (be16(header, 2)?, be16(header, 10)?);
        set(header, 2, total.to_be_bytes());
        set(header, 10, checksum::update_u16(check, old_total, total).to_be_bytes());
        set(segment, 16, [0; 2]);
        let check = segment_checksum(header, segment);
        set(segment, 16, check.to_be_bytes());
        self.count += 1;
        Some(())
    }
}

impl Element for FTPPortMapper {
    arguments! { this, given;
        mandatory "CONTROL_REWRITER": String => this.names[0];
        mandatory "DATA_REWRITER": String => this.names[1];
        mandatory "DATA_REWRITER_INPUT": usize => this.input;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let [control, data] = &self.names;
        let missing = |name: &String, what| ConfigError::other(format!("'{name}' is no {what}"));
        let index = context.find(control);
        let found = index.and_then(|index| context.element(index));
        let is_tcp = found.is_some_and(|element| (element as &mut dyn Any).is::<TCPRewriter>());
        let index = index.filter(|_| is_tcp);
        self.control = index.ok_or_else(|| missing(control, "TCPRewriter"))?;
        let index = context.find(data);
        let rewriter = index.and_then(|index| context.element(index)).and_then(core::of);
        let inputs = rewriter.map(|rewriter| rewriter.inputs());
        let (Some(index), Some(inputs)) = (index, inputs) else {
            return Err(missing(data, "rewriter"));
        };
        self.data = index;
        match self.input < inputs {
            true => Ok(()),
            false => Err(ConfigError::at(2, "DATA_REWRITER_INPUT out of range")),
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter_mut() {
            self.map(packet, context);
        }
    }

    handlers! { this, context, value; read "count" => this.count; }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found() {
        let good = |start, end| Some(Command { address: 0x0a00_0102, port: 0x0304, start, end });
        for (text, expected) in [
            (&b"PORT 10,0,1,2,3,4\r\n"[..], good(5, 17)),
            (b"port   10,0,1,2,3,4\nX", good(7, 19)),
            (b"PORT 10,0,1,2,3,4", None),
            (b"PORT 10,0,1,2,3\r\n", None),
            (b"PORT 10,0,1,2,3,256\r\n", None),
            (b"PORT 10,0,1,2,,4\r\n", None),
            (b"PORT x\n", None),
            (b"PORT", None),
        ] {
            assert_eq!(command(text), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }
}
