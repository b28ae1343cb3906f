//! # ToDump
//!
//! ## Synopsis
//! `ToDump(FILENAME [, SNAPLEN, ENCAP, EXTRA_LENGTH, NANO, UNBUFFERED])`
//!
//! ## Ports
//! One input, push or pull; one optional output of the same kind, by which the packets leave.
//!
//! ## Description
//! Writes packets to a capture file, as tcpdump does. Packets without a time get the current time.
//!
//! ## Arguments
//! - FILENAME: the file; `-` is standard output.
//! - SNAPLEN: most bytes of a packet, default 2000; 0 for all.
//! - ENCAP: the header type of packets: `ETHER` (default), `IP`, `PPP`, `FDDI`, `SLL`, `802_11` and
//!   others.
//! - EXTRA_LENGTH (keyword): add the extra length annotation to a packet's length; default true.
//! - NANO (keyword): write times in nanoseconds, not microseconds; default true.
//! - UNBUFFERED (keyword): write each packet at once; default false.
//!
//! ## Handlers
//! - `count` (read): packets written.
//! - `filename` (read): FILENAME.
//! - `reset_counts` (write): sets `count` to zero.
//! - `flush` (write): writes the buffered data to the file.
//!
//! ## See also
//! `FromDump`, `ToIPSummaryDump`

use std::io::Write;

use super::pcap;
use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::files;

/// Writes a capture file.
#[derive(Default)]
pub(crate) struct ToDump {
    name: String,
    file: Option<Box<dyn Write>>,
    snap_length: u32,
    link_type: u32,
    extra_length: bool,
    nano: bool,
    unbuffered: bool,
    count: u64,
}

impl Class for ToDump {
    const INFO: ClassInfo = ClassInfo::new("ToDump", "1/0-1")
        .processing("a/a")
        .not_inline("waits for a file")
        .consumes();
}

impl ToDump {
    fn write_packet(&mut self, packet: &Packet, wall_ns: u64) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let time_ns = match packet.timestamp_ns() {
            0 => wall_ns,
            time_ns => time_ns,
        };
        let extra = if self.extra_length { packet.extra_length() } else { 0 };
        // A packet has at most 65535 bytes.
        let length = packet.len() as u32;
        let captured = length.min(self.snap_length);
        let header =
            pcap::record_header(time_ns, self.nano, captured, length.saturating_add(extra));
        file.write_all(&header)?;
        file.write_all(packet.data().get(..captured as usize).unwrap_or_default())?;
        self.count += 1;
        if self.unbuffered { file.flush() } else { Ok(()) }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            // There is no handler left that could report an error.
            let _ = file.flush();
        }
    }
}

impl Element for ToDump {
    arguments! { this, given;
        mandatory "FILENAME": String => this.name;
        positional "SNAPLEN": u32 = 2000, with |length| if length == 0 { u32::MAX } else { length }
            => this.snap_length;
        let encap = positional "ENCAP": String = "ETHER".to_owned();
        keyword "EXTRA_LENGTH": bool = true => this.extra_length;
        keyword "UNBUFFERED": bool = false => this.unbuffered;
        keyword "NANO": bool = true => this.nano;
        then {
            let link_type = pcap::link_type(&encap);
            this.link_type = link_type.ok_or_else(|| ConfigError::other("bad encapsulation type"))?;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let mut file = files::create(&self.name, context)?;
        let header = pcap::file_header(self.nano, self.snap_length, self.link_type);
        let failed = |_| ConfigError::other(format!("{}: unable to write file header", self.name));
        file.write_all(&header).map_err(failed)?;
        self.file = Some(file);
        if context.is_pull(0) && context.outputs() == 0 {
            context.add_task(1024);
        }
        Ok(())
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let wall_ns = context.wall_ns();
        for packet in batch.iter() {
            if let Err(error) = self.write_packet(packet, wall_ns) {
                // Reports the error once: a full disk stays full.
                context.log(&format!("ToDump({}): {error}", self.name));
                self.file = None;
            }
        }
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = context.pull(0, 1, &mut batch);
        self.process(&mut batch, context);
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "filename" => this.name;
        button "reset_counts" => this.count = 0;
        button "flush" => this.flush();
    }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        self.flush();
    }
}
