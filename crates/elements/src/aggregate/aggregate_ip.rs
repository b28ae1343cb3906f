//! # AggregateIP
//!
//! ## Synopsis
//! `AggregateIP(FIELD [, INCREMENTAL, UNSHIFT_IP_ADDR])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Sets each packet's aggregate annotation to a field of its IP header, or of its TCP or UDP
//! header. Packets that do not have the field leave by output 1, or are dropped. The network header
//! annotation must be set.
//!
//! ## Arguments
//! - FIELD: `ip src`, `ip dst`, `ip proto`, `ip id`, `ip tos`, `ip ttl`, `ip len`, `sport`,
//!   `dport`, perhaps with `/BITS` for the highest bits only: `ip dst/24`.
//! - INCREMENTAL (keyword): shift the packet's present aggregate left and add these bits behind
//!   it; default false.
//! - UNSHIFT_IP_ADDR (keyword): leave the highest bits of an address where they are; default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AggregateCounter`, `AggregateLength`, `AggregatePaint`

use crate::prelude::*;
use crate::shared::fields::{Annotations, be16, be32, is_first, network};

/// The position of a field.
#[derive(Clone, Copy, Debug)]
struct Field {
    transport: bool,
    at: usize,
    /// In bits.
    length: u32,
}

/// Aggregates by a field.
#[derive(Default)]
pub(crate) struct AggregateIP {
    field: Option<Field>,
    bits: u32,
    incremental: bool,
    unshift: bool,
}

impl Class for AggregateIP {
    const INFO: ClassInfo = ClassInfo::new("AggregateIP", "1/1-2").processing("a/ah");
}

const FIELDS: &[(&str, Field)] = &[
    ("src", Field { transport: false, at: 12, length: 32 }),
    ("dst", Field { transport: false, at: 16, length: 32 }),
    ("proto", Field { transport: false, at: 9, length: 8 }),
    ("id", Field { transport: false, at: 4, length: 16 }),
    ("tos", Field { transport: false, at: 1, length: 8 }),
    ("ttl", Field { transport: false, at: 8, length: 8 }),
    ("len", Field { transport: false, at: 2, length: 16 }),
    ("sport", Field { transport: true, at: 0, length: 16 }),
    ("dport", Field { transport: true, at: 2, length: 16 }),
];

impl AggregateIP {
    fn value(&self, packet: &Packet) -> Option<u32> {
        let (field, (header, rest)) = (self.field?, network(packet)?);
        if field.transport && !(is_first(header) && matches!(header.get(9), Some(6 | 17))) {
            return None;
        }
        let data = if field.transport { rest } else { header };
        let value = match field.length {
            8 => (*data.get(field.at)?).into(),
            16 => be16(data, field.at)?.into(),
            _ => be32(data, field.at)?,
        };
        let drop = field.length - self.bits;
        Some(if self.unshift { value >> drop << drop } else { value >> drop })
    }
}

impl Element for AggregateIP {
    arguments! { this, given;
        let text = mandatory "FIELD": String;
        keyword "INCREMENTAL": bool = false => this.incremental;
        keyword "UNSHIFT_IP_ADDR": bool = false => this.unshift;
        then {
            let (name, bits) =
                text.split_once('/').map_or((text.as_str(), None), |(name, bits)| (name, Some(bits)));
            let word = name.split_whitespace().last().unwrap_or("");
            let known = FIELDS.iter().find(|(name, _)| *name == word).map(|(_, field)| *field);
            let field = known.ok_or_else(|| ConfigError::at(0, format!("unknown field '{name}'")))?;
            this.bits = bits.map_or(Some(field.length), |bits| bits.trim().parse().ok()).unwrap_or(0);
            if this.bits == 0 || this.bits > field.length {
                return Err(ConfigError::at(0, format!("bits: expected 1 to {}", field.length)));
            }
            this.field = Some(field);
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let set = |packet: &mut Packet| {
            let Some(value) = self.value(packet) else { return false };
            // A shift by all bits leaves nothing.
            let front = packet.aggregate().checked_shl(self.bits).unwrap_or(0);
            packet.set_aggregate(if self.incremental { front | value } else { value });
            true
        };
        batch.filter(set, |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn fields_are_aggregates() {
        for (arguments, expected) in [
            (&["ip dst"][..], Some(0x0a01_0203)),
            (&["ip dst/16"], Some(0x0a01)),
            (&["ip dst/16", "UNSHIFT_IP_ADDR true"], Some(0x0a01_0000)),
            (&["ip ttl", "INCREMENTAL true"], Some(0x540)),
            (&["dport"], Some(7)),
            (&["ip proto"], Some(17)),
        ] {
            let mut bench = Bench::new("AggregateIP", arguments);
            let mut packet =
                bench.arena.packet(&ip_packet(1, 0x0a01_0203, 64, b"\0\x05\0\x07")).unwrap();
            packet.set_network_header(0, 20);
            packet.set_aggregate(5);
            let none = bench.arena.packet(b"x").unwrap();
            let out = bench.push_packets(0, vec![packet, none]);
            assert_eq!(out.iter().map(|(output, _)| *output).max(), Some(1));
            let found =
                bench.out.iter().find(|(output, _)| *output == 0).map(|(_, p)| p.aggregate());
            assert_eq!(found, expected, "{arguments:?}");
        }
        assert_eq!(Bench::error("AggregateIP", &["ip nothing"]), "unknown field 'ip nothing'");
    }
}
