//! # ToIPSummaryDump
//!
//! ## Synopsis
//! `ToIPSummaryDump(FILENAME [, FIELDS, HEADER, VERBOSE, BANNER, BINARY, MULTIPACKET, BAD_PACKETS, CAREFUL_TRUNC, EXTRA_LENGTH])`
//!
//! ## Ports
//! One input, push or pull; one optional push output, by which the packets leave.
//!
//! ## Description
//! Writes a line about each packet to a file: the values of FIELDS. Use it for traces only: it
//! allocates memory and writes on the packet path.
//!
//! Fields: `timestamp`, `ts_sec`, `ts_usec`, `first_timestamp`, `count`, `link`, `direction`,
//! `aggregate`, `wire_len`; `eth_src`, `eth_dst`, `eth_type`; `ip_src`, `ip_dst`, `ip_tos`,
//! `ip_dscp`, `ip_ecn`, `ip_ttl`, `ip_frag`, `ip_fragoff`, `ip_id`, `ip_sum`, `ip_proto`, `ip_hl`,
//! `ip_len`, `ip_capture_len`, `ip_opt`; `sport`, `dport`; `tcp_seq`, `tcp_ack`, `tcp_off`,
//! `tcp_flags`, `tcp_window`, `tcp_urp`, `tcp_opt`, `tcp_ntopt`, `tcp_sack`; `udp_len`;
//! `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`, `icmp_seq`,
//! `icmp_nextmtu`; `payload`, `payload_len`, `payload_md5`, `payload_md5_hex`. The `ip_` in front
//! may be left out. A field that a packet does not have is `-`.
//!
//! ## Arguments
//! - FILENAME: the file; `-` is standard output.
//! - FIELDS (keyword): names separated by spaces; default `src dst`. CONTENTS is another name for
//!   it.
//! - HEADER (keyword): begin the file with lines that describe the fields; default true.
//! - VERBOSE (keyword): these lines also name the host and the time; default false.
//! - BANNER (keyword): a text that is added to these lines.
//! - BINARY (keyword): write records, not lines; default false.
//! - MULTIPACKET (keyword): if a packet stands for several packets, write a line for each of them;
//!   default false.
//! - BAD_PACKETS (keyword): write a separate line for each mistake of a packet; default false.
//! - CAREFUL_TRUNC (keyword): a packet that is shorter than its IP length counts as such a mistake;
//!   default true.
//! - EXTRA_LENGTH (keyword): count the extra length annotation; default true.
//!
//! ## Handlers
//! - `flush` (write): writes the buffered data to the file.
//!
//! ## See also
//! `FromIPSummaryDump`, `ToDump`, `IPPrint`

use std::io::Write;

use super::field::{Field, Width};
use super::write::{self, Options, quote};
use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::files;
use crate::shared::values::Time;

/// Writes a line a packet.
#[derive(Default)]
pub(crate) struct ToIPSummaryDump {
    name: String,
    file: Option<Box<dyn Write>>,
    fields: Vec<Field>,
    options: Option<Options>,
    header: bool,
    verbose: bool,
    banner: Option<String>,
    binary: bool,
    multipacket: bool,
    bad_packets: bool,
    /// The text that is written before the next packet.
    line: String,
    record: Vec<u8>,
}

impl Class for ToIPSummaryDump {
    const INFO: ClassInfo = ClassInfo::new("ToIPSummaryDump", "1/0-1")
        .processing("a/h")
        .not_inline("waits for a file")
        .consumes();
}

/// Words separated by spaces; some may be in quotes.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match (letter, quote) {
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (letter, None) if letter.is_whitespace() => words.push(String::new()),
            (letter, _) => {
                if let Some(word) = words.last_mut() {
                    word.push(letter);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

impl ToIPSummaryDump {
    /// The header before the first packet.
    fn head(&self, wall_ns: u64) -> String {
        let mut text = "!IPSummaryDump 1.3\n".to_owned();
        if let Some(banner) = &self.banner {
            text += "!creator ";
            quote(banner.as_bytes(), &mut text);
            text.push('\n');
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                text += &format!("!host {}\n", host.trim());
            }
            text += &format!("!runtime {}\n", Time::of(wall_ns));
        }
        let names = self.fields.iter().map(|field| match field {
            Field::NanoTimestamp if !self.binary => "timestamp",
            field => field.name(),
        });
        text += &format!("!data {}\n", names.collect::<Vec<_>>().join(" "));
        if self.binary {
            text += "!binary\n";
        }
        text
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn write_one(&mut self, packet: &Packet) -> std::io::Result<()> {
        let Some(options) = self.options else { return Ok(()) };
        let (mut line, mut record) =
            (std::mem::take(&mut self.line), std::mem::take(&mut self.record));
        line.clear();
        record.clear();
        let bad = match self.binary {
            false => write::line(&self.fields, packet, options, &mut line),
            true => write::record(&self.fields, packet, options, &mut record),
        };
        if let Some(bad) = bad.filter(|_| self.bad_packets) {
            let bad = format!("!bad {bad}\n");
            if self.binary {
                self.put(&((bad.len() as u32 + 4) | (1 << 31)).to_be_bytes())?;
            }
            self.put(bad.as_bytes())?;
        }
        let result = if self.binary { self.put(&record) } else { self.put(line.as_bytes()) };
        (self.line, self.record) = (line, record);
        result
    }

    /// A line, or one for each packet that this one represents.
    fn write_packet(&mut self, packet: &mut Packet) -> std::io::Result<()> {
        let (extra, end_ns) = (packet.extra_packets(), packet.timestamp_ns());
        if !self.multipacket || extra == 0 {
            return self.write_one(packet);
        }
        let (count, length) = (u64::from(extra) + 1, packet.len() as u64);
        let noted = packet.extra_length();
        let mut total = (length + u64::from(noted)).max(count * length);
        let first_ns = packet.first_timestamp_ns();
        let step_ns =
            if first_ns == 0 { 0 } else { end_ns.saturating_sub(first_ns) / u64::from(extra) };
        packet.set_extra_packets(0);
        for left in (1..=count).rev() {
            let time_ns = if first_ns == 0 || left == 1 {
                end_ns
            } else {
                first_ns + step_ns * (count - left)
            };
            packet.set_timestamp_ns(time_ns);
            // If the division leaves a rest, some packets are a byte longer than others.
            let this = total / left;
            total -= this;
            packet.set_extra_length(u32::try_from(this - length).unwrap_or(u32::MAX));
            self.write_one(packet)?;
        }
        packet.set_extra_packets(extra);
        packet.set_extra_length(noted);
        Ok(())
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            // There is no handler left that could report an error.
            let _ = file.flush();
        }
    }
}

impl Element for ToIPSummaryDump {
    arguments! { this, given;
        mandatory "FILENAME": String => this.name;
        let fields = keyword "FIELDS" | "CONTENTS" | "DATA": String = "src dst".to_owned();
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "HEADER": bool = true => this.header;
        keyword "BANNER": String => this.banner;
        keyword "MULTIPACKET": bool = false => this.multipacket;
        keyword "BAD_PACKETS": bool = false => this.bad_packets;
        keyword "BINARY": bool = false => this.binary;
        let careful = keyword "CAREFUL_TRUNC": bool = true;
        let extra_length = keyword "EXTRA_LENGTH": bool = true;
        then {
            this.options = Some(Options { careful, extra_length });
            for word in words(&fields) {
                match Field::find(&word) {
                    Some(field) if this.binary && field.width() == Width::Text => {
                        given
                            .error(ConfigError::other(format!("cannot use field {word} with BINARY")));
                    }
                    Some(field) => this.fields.push(field),
                    None => {
                        given.error(ConfigError::other(format!("unknown content type '{word}'")))
                    }
                }
            }
            if fields.trim().is_empty() {
                return Err(ConfigError::other("no contents specified"));
            }
            this.multipacket &= !this.fields.contains(&Field::Count);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.file = Some(files::create(&self.name, context)?);
        if self.header {
            let head = self.head(0);
            self.put(head.as_bytes())
                .map_err(|error| ConfigError::other(format!("{}: {error}", self.name)))?;
        }
        if context.is_pull(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter_mut() {
            if let Err(error) = self.write_packet(packet) {
                // Reports the error once: a full disk stays full.
                context.log(&format!("{}: {error}", self.name));
                self.file = None;
            }
        }
        context.forward(0, batch);
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = context.pull(0, 1, &mut batch);
        self.push(0, &mut batch, context);
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value; button "flush" => this.flush(); }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        self.flush();
    }
}
