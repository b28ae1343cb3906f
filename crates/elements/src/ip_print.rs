//! # IPPrint
//!
//! ## Synopsis
//! `IPPrint([LABEL, CONTENTS, PAYLOAD, MAXLENGTH, ID, TTL, TOS, LENGTH, TIMESTAMP, AGGREGATE, PAINT, ACTIVE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each IPv4 packet to the router's log: addresses, protocol, ports, flags.
//! The IP header annotation must be set; packets without are passed silently. It is for trying
//! things out: it allocates and writes on the packet path.
//!
//! ## Arguments
//! - LABEL: text in front.
//! - CONTENTS, PAYLOAD (keywords): print the bytes of the packet, or of what follows the IP header,
//!   as `HEX` or `ASCII`; default `NONE`.
//! - MAXLENGTH (keyword): most bytes to print, default 1500; negative means all.
//! - ID, TTL, TOS, LENGTH, AGGREGATE, PAINT (keywords): print those too; default false.
//! - TIMESTAMP (keyword): print the time of reception; default true.
//! - ACTIVE (keyword): whether to print; default true.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//!
//! ## See also
//! `Print`, `CheckIPHeader`

use std::fmt::Write as _;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, Handler,
    HandlerError, Packet,
};

use crate::common::parse;

use europa_packet::{Header, Ipv4Header};

use crate::print::{Contents, seconds};

/// Writes IPv4 packets to the log.
#[derive(Default)]
pub(crate) struct IPPrint {
    label: String,
    contents: Option<Contents>,
    payload: Option<Contents>,
    max_length: Option<usize>,
    id: bool,
    ttl: bool,
    tos: bool,
    length: bool,
    timestamp: bool,
    aggregate: bool,
    paint: bool,
    active: bool,
}

impl Class for IPPrint {
    const INFO: ClassInfo = ClassInfo::new("IPPrint", "1/1");
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|field| u16::from_be_bytes(*field))
}

/// Addresses, protocol and what the transport header says.
fn describe(header: &Ipv4Header, transport: &[u8], out: &mut String) {
    let (from, to) = (header.source_addr(), header.destination_addr());
    let ports =
        be16(transport, 0).zip(be16(transport, 2)).filter(|_| header.fragment_offset() == 0);
    // Writing to a String cannot fail.
    let _ = match (header.protocol.0, ports) {
        (6, Some((source, destination))) => {
            let flags = transport.get(13).copied().unwrap_or(0);
            let set: String = "FSRPAUEC"
                .chars()
                .enumerate()
                .filter(|(bit, _)| flags >> bit & 1 != 0)
                .map(|(_, c)| c)
                .collect();
            let field = |at| {
                transport
                    .get(at..)
                    .and_then(<[u8]>::first_chunk)
                    .map_or(0, |f| u32::from_be_bytes(*f))
            };
            write!(
                out,
                "{from}.{source} > {to}.{destination}: {} {} ack {} win {}",
                if set.is_empty() { "." } else { &set },
                field(4),
                field(8),
                be16(transport, 14).unwrap_or(0)
            )
        }
        (17, Some((source, destination))) => {
            write!(
                out,
                "{from}.{source} > {to}.{destination}: udp {}",
                be16(transport, 4).unwrap_or(0)
            )
        }
        (1, Some(_)) => {
            let (kind, code) = (transport.first().unwrap_or(&0), transport.get(1).unwrap_or(&0));
            let numbers = be16(transport, 4).zip(be16(transport, 6)).unwrap_or_default();
            match kind {
                0 => write!(out, "{from} > {to}: icmp echo-reply {numbers:?}"),
                8 => write!(out, "{from} > {to}: icmp echo {numbers:?}"),
                _ => write!(out, "{from} > {to}: icmp type {kind} code {code}"),
            }
        }
        (protocol, _) => write!(out, "{from} > {to}: ip-proto-{protocol}"),
    };
}

impl IPPrint {
    fn line(&self, packet: &Packet) -> Option<String> {
        let bytes = packet.network_header()?;
        let mut line = self.label.clone();
        if !line.is_empty() {
            line += ": ";
        }
        if self.timestamp {
            line = line + &seconds(packet.timestamp_ns()) + ": ";
        }
        if self.aggregate {
            let _ = write!(line, "#{}: ", u32::from_ne_bytes(packet.annotation(20)));
        }
        if self.paint {
            let _ = write!(line, "paint {}: ", packet.paint());
        }
        let Some((header, _)) = Ipv4Header::parse(bytes) else {
            return Some(line + "truncated-ip");
        };
        for (wanted, name, value) in [
            (self.id, "id", u32::from(header.id.get())),
            (self.ttl, "ttl", u32::from(header.ttl)),
            (self.tos, "tos", u32::from(header.tos)),
            (self.length, "length", u32::from(header.total_len.get())),
        ] {
            if wanted {
                let _ = write!(line, "{name} {value} ");
            }
        }
        let end = usize::from(header.total_len.get()).min(bytes.len());
        let transport = bytes.get(header.header_len()..end).unwrap_or_default();
        describe(header, transport, &mut line);
        if header.is_fragment() {
            let more = if header.more_fragments() { "+" } else { "" };
            let (id, offset) = (header.id.get(), header.fragment_offset());
            let _ = write!(line, " (frag {id}:{}@{offset}{more})", transport.len());
        }
        for (contents, bytes) in [(self.contents, packet.data()), (self.payload, transport)] {
            if let Some(contents) = contents.filter(|contents| *contents != Contents::None) {
                let count = self.max_length.unwrap_or(usize::MAX).min(bytes.len());
                line += "\n  ";
                contents.dump(bytes.get(..count).unwrap_or_default(), &mut line);
            }
        }
        Some(line)
    }
}

impl Element for IPPrint {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.label = arguments.positional("LABEL")?.unwrap_or_default();
        self.contents = Contents::read("CONTENTS", arguments)?;
        self.payload = Contents::read("PAYLOAD", arguments)?;
        if self.contents.is_some() && self.payload.is_some() {
            return Err(ConfigError::other("give CONTENTS or PAYLOAD, not both"));
        }
        let length = arguments.keyword::<i64>("MAXLENGTH")?.unwrap_or(1500);
        self.max_length = usize::try_from(length).ok();
        for (name, field) in [
            ("ID", &mut self.id),
            ("TTL", &mut self.ttl),
            ("TOS", &mut self.tos),
            ("LENGTH", &mut self.length),
            ("AGGREGATE", &mut self.aggregate),
            ("PAINT", &mut self.paint),
        ] {
            *field = arguments.keyword(name)?.unwrap_or(false);
        }
        self.timestamp = arguments.keyword("TIMESTAMP")?.unwrap_or(true);
        self.active = arguments.keyword("ACTIVE")?.unwrap_or(true);
        arguments.finish()
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if self.active {
            for line in batch.iter().filter_map(|packet| self.line(packet)) {
                context.log(&line);
            }
        }
    }

    fn handlers(&self) -> &'static [Handler] {
        const { &[Handler::both("active").with(Flags::CHECKBOX)] }
    }

    fn read(&mut self, _: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(self.active.to_string())
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        _: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.active = parse(handler, value)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn lines_say_who_and_what() {
        let udp = ip_packet(0x0a00_0001, 0x0a00_0002, 64, &[0, 5, 0, 6, 0, 8, 0, 0]);
        let mut icmp = ip_packet(0x0a00_0001, 0x0a00_0002, 64, &[8, 0, 0, 0, 0, 1, 0, 2]);
        icmp[9] = 1;
        let mut other = udp.clone();
        (other[6], other[9]) = (0x20, 99);
        for (arguments, packet, line) in [
            (&["TIMESTAMP false"][..], &udp, "10.0.0.1.5 > 10.0.0.2.6: udp 8"),
            (
                &["x", "TIMESTAMP false", "TTL true"],
                &udp,
                "x: ttl 64 10.0.0.1.5 > 10.0.0.2.6: udp 8",
            ),
            (&["x"], &icmp, "x: 0.000000: 10.0.0.1 > 10.0.0.2: icmp echo (1, 2)"),
            (&["TIMESTAMP false"], &other, "10.0.0.1 > 10.0.0.2: ip-proto-99 (frag 0:8@0+)"),
            (
                &["TIMESTAMP 0", "PAYLOAD HEX"],
                &udp,
                "10.0.0.1.5 > 10.0.0.2.6: udp 8\n  00050006 00080000",
            ),
        ] {
            let mut bench = Bench::new("IPPrint", arguments);
            let log = bench.log();
            let mut packet = bench.arena.packet(packet).unwrap();
            packet.set_network_header(0, 20);
            bench.push_packets(0, vec![packet]);
            bench.push(0, &[b"no header"]);
            assert_eq!(*log.borrow(), [line]);
        }
    }
}
