//! # NumberPacket
//!
//! ## Synopsis
//! `NumberPacket([OFFSET, NET_ORDER])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a number of 64 bits into each packet. The number counts up from 0. A packet that is too
//! short gets zeros at its end; the length field of its IPv4 header, if it has one, is adjusted.
//!
//! ## Arguments
//! - OFFSET: where the number stands, default 40.
//! - NET_ORDER (keyword): write it in network byte order, instead of the machine's; default false.
//!
//! ## Handlers
//! - `count` (read): packets numbered.
//!
//! ## See also
//! `RecordTimestamp`, `TimestampDiff`

use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{grow_tail, network_mut, set};

/// Bytes of a number.
const BYTES: usize = 8;

/// Numbers packets.
#[derive(Default)]
pub(crate) struct NumberPacket {
    offset: usize,
    pub(super) network_order: bool,
    count: u64,
}

impl Class for NumberPacket {
    const INFO: ClassInfo = ClassInfo::new("NumberPacket", "1/1");
}

/// Extends a packet to at least this length. `false` if there is no room.
fn lengthen(packet: &mut Packet, length: usize) -> bool {
    let missing = length.saturating_sub(packet.len());
    if missing == 0 {
        return true;
    }
    if grow_tail(packet, missing).is_none() {
        return false;
    }
    let total = packet.network_offset().map_or(0, |at| packet.len().saturating_add_signed(-at));
    if let Some((header, _)) = network_mut(packet)
        && let Ok(total) = u16::try_from(total)
    {
        set(header, 2, total.to_be_bytes());
    }
    true
}

impl Element for NumberPacket {
    arguments! { this, given;
        positional "OFFSET": usize = 40 => this.offset;
        keyword "NET_ORDER": bool = false => this.network_order;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        retain(batch, |packet| {
            if !lengthen(packet, self.offset + BYTES) {
                return false;
            }
            let number = self.count;
            self.count += 1;
            let bytes = match self.network_order {
                true => number.to_be_bytes(),
                false => number.to_ne_bytes(),
            };
            set(packet.data_mut(), self.offset, bytes)
        });
    }

    handlers! { this, context, value; read "count" => this.count; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn numbers_count_up() {
        let mut bench = Bench::new("NumberPacket", &["2", "NET_ORDER true"]);
        let out = bench.push(0, &[b"abcdefghijkl", b"ab"]);
        assert_eq!(out[0].1, b"ab\0\0\0\0\0\0\0\0kl");
        assert_eq!(out[1].1, b"ab\0\0\0\0\0\0\0\x01");
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
    }
}
