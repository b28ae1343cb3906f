//! # IPsecESPUnencap
//!
//! ## Synopsis
//! `IPsecESPUnencap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the ESP header, the padding and the trailer of packets (RFC 2406). It drops packets
//! whose sequence number was seen before or is too old, and packets with other padding than
//! `IPsecESPEncap` makes. The tunnel is the one that `RadixIPsecLookup` has found.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `IPsecESPEncap`, `RadixIPsecLookup`

use super::{HEADER, association};
use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::be32;

/// Takes packets out of ESP.
#[derive(Default)]
pub(crate) struct IPsecESPUnencap {
    drops: u64,
}

impl Class for IPsecESPUnencap {
    const INFO: ClassInfo = ClassInfo::new("IPsecESPUnencap", "1/1");
}

fn unencapsulate(packet: &mut Packet) -> Option<()> {
    let association = association(packet)?;
    let number = be32(packet.data(), 4)?;
    if !association.borrow_mut().accepts(number) {
        return None;
    }
    packet.pull(HEADER)?;
    let [.., length, _next] = packet.data() else { return None };
    let padding = usize::from(*length);
    let body = packet.len().checked_sub(padding + 2)?;
    let pad = packet.data().get(body..body + padding)?;
    if !pad.iter().zip(1u8..).all(|(byte, wanted)| *byte == wanted) {
        return None;
    }
    packet.take(padding + 2)
}

impl Element for IPsecESPUnencap {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.drops += retain(batch, |packet| unencapsulate(packet).is_some());
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{packet, shared};
    use crate::testing::Bench;

    #[test]
    fn packets_come_out_once_and_whole() {
        let association = shared();
        let mut bench = Bench::new("IPsecESPUnencap", &[]);
        let mut esp = |number: u8, tail: &[u8]| {
            let data = [&[0, 0, 0, 7, 0, 0, 2, number][..], &[9; 8], b"abcde", tail].concat();
            bench.push_packets(0, vec![packet(&data, &association)])
        };
        assert_eq!(esp(1, &[1, 1, 0]), [(0, b"abcde".to_vec())]);
        assert!(esp(1, &[1, 1, 0]).is_empty(), "seen");
        assert!(esp(2, &[5, 1, 0]).is_empty(), "other padding");
        assert!(esp(3, &[1, 200, 0]).is_empty(), "more padding than there is");
        assert_eq!(bench.router.read("e.drops", ""), Ok("3".into()));
        bench.push(0, &[b"no tunnel", b""]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("5".into()));
    }
}
