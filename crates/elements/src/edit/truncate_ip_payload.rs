//! # TruncateIPPayload
//!
//! ## Synopsis
//! `TruncateIPPayload([LENGTH, TRANSPORT, EXTRA_LENGTH])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Cuts the payload of IP packets to at most LENGTH bytes. Packets without a network header
//! annotation are cut to LENGTH bytes.
//!
//! ## Arguments
//! - LENGTH: bytes, default 0.
//! - TRANSPORT: whether the payload starts behind the TCP, UDP or ICMP header; if false, it starts
//!   behind the IP header; default true.
//! - EXTRA_LENGTH (keyword): add the bytes cut off to the extra length annotation; default true.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Truncate`, `EraseIPPayload`

use super::transport_header_len;
use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Cuts payload.
#[derive(Default)]
pub(crate) struct TruncateIPPayload {
    length: usize,
    transport: bool,
    extra: bool,
}

impl Class for TruncateIPPayload {
    const INFO: ClassInfo = ClassInfo::new("TruncateIPPayload", "1/1").inline();
}

impl Element for TruncateIPPayload {
    arguments! { this, given;
        positional "LENGTH": usize = 0 => this.length;
        positional "TRANSPORT": bool = true => this.transport;
        keyword "EXTRA_LENGTH": bool = true => this.extra;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let transport = if self.transport { transport_header_len(packet) } else { 0 };
            let headers = match (packet.network_offset(), packet.transport_offset()) {
                (Some(_), Some(start)) => start + transport as isize,
                _ => 0,
            };
            let keep = usize::try_from(headers).unwrap_or(0).saturating_add(self.length);
            let count = packet.len().saturating_sub(keep);
            if count > 0 && packet.take(count).is_some() && self.extra {
                packet.set_extra_length(packet.extra_length().saturating_add(count as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn headers_stay() {
        for (arguments, length) in [(["2", "true"], 30), (["2", "false"], 22), (["99", "true"], 38)]
        {
            let mut bench = Bench::new("TruncateIPPayload", &arguments);
            let mut packet = bench.arena.packet(&ip_packet(1, 2, 3, &[0; 18])).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet])[0].1.len(), length);
        }
    }
}
