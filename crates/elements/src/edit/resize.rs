//! # Resize
//!
//! ## Synopsis
//! `Resize([HEAD, TAIL])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Adds HEAD bytes in front of each packet and TAIL bytes behind it, or removes bytes if the number
//! is negative. Bytes that are restored at the front have their former contents, as with `Unstrip`,
//! as far as there is room. All other new bytes are zero. A packet that would be too long is
//! dropped.
//!
//! ## Arguments
//! - HEAD, TAIL: bytes, default 0.
//!
//! ## Handlers
//! - `head`, `tail` (read, write): see the arguments.
//!
//! ## See also
//! `Strip`, `Truncate`, `Pad`

use crate::prelude::*;
use crate::shared::fields::{grow_front, grow_tail};

/// Adds or removes bytes at both ends.
#[derive(Default)]
pub(crate) struct Resize {
    head: i32,
    tail: i32,
}

impl Class for Resize {
    const INFO: ClassInfo = ClassInfo::new("Resize", "1/1").inline();
}

impl Resize {
    fn resize(&self, packet: &mut Packet) -> Option<()> {
        let bytes = self.head.unsigned_abs() as usize;
        match self.head {
            0 => (),
            1.. if bytes <= packet.headroom() => drop(packet.push(bytes)?),
            1.. => drop(grow_front(packet, bytes)?),
            _ => packet.pull(bytes.min(packet.len()))?,
        }
        let bytes = self.tail.unsigned_abs() as usize;
        match self.tail {
            0 => Some(()),
            1.. => grow_tail(packet, bytes),
            _ => packet.take(bytes.min(packet.len())),
        }
    }
}

impl Element for Resize {
    arguments! { this, given;
        positional "HEAD": i32 = 0 => this.head;
        positional "TAIL": i32 = 0 => this.tail;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.resize(packet).is_some());
    }

    handlers! { this, context, value; both "head" => this.head; both "tail" => this.tail; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn both_ends_move() {
        for (arguments, expected) in [
            (["0", "2"], Some(&b"abc\0\0"[..])),
            (["-1", "-1"], Some(b"b")),
            (["-2", "-2"], Some(b"")),
            (["100000", "0"], None),
            (["0", "0"], Some(b"abc")),
        ] {
            let mut bench = Bench::new("Resize", &arguments);
            let out = bench.push(0, &[b"abc"]);
            assert_eq!(out.first().map(|(_, data)| &data[..]), expected, "{arguments:?}");
        }
        let mut bench = Bench::new("Resize", &["2"]);
        let mut packet = bench.arena.packet(b"abc").unwrap();
        packet.pull(2).unwrap();
        assert_eq!(bench.push_packets(0, vec![packet]), [(0, b"abc".to_vec())]);
    }
}
