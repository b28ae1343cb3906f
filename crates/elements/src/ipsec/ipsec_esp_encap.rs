//! # IPsecESPEncap
//!
//! ## Synopsis
//! `IPsecESPEncap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an ESP header before packets. It pads them so that their length, with the two bytes of the
//! trailer, is a multiple of 8 (RFC 2406). The tunnel is the one that `RadixIPsecLookup` has found.
//! The next header is the protocol of the IP header, if the packet has that annotation.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets without a tunnel or room.
//!
//! ## See also
//! `IPsecESPUnencap`, `IPsecAES`, `IPsecAuthHMACSHA1`, `RadixIPsecLookup`

use super::{HEADER, association};
use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{grow_front, grow_tail, set};
use crate::shared::random::Random;

/// The length of a packet is padded to a multiple of this number of bytes.
const BLOCK: usize = 8;
/// Bytes of the trailer: length of the padding, next header.
const TRAILER: usize = 2;

/// Puts packets into ESP.
#[derive(Default)]
pub(crate) struct IPsecESPEncap {
    drops: u64,
}

impl Class for IPsecESPEncap {
    const INFO: ClassInfo = ClassInfo::new("IPsecESPEncap", "1/1");
}

fn encapsulate(packet: &mut Packet) -> Option<()> {
    let association = association(packet)?;
    let next = packet.network_header().and_then(|header| header.get(9)).copied().unwrap_or(0);
    let length = packet.len();
    let padding = (BLOCK - (length + TRAILER) % BLOCK) % BLOCK;
    grow_tail(packet, padding + TRAILER)?;
    let tail = packet.data_mut().get_mut(length..)?;
    for (byte, number) in tail.iter_mut().zip(1..=padding as u8) {
        *byte = number;
    }
    set(tail, padding, [padding as u8, next]);
    let header = grow_front(packet, HEADER)?;
    let mut association = association.borrow_mut();
    set(header, 0, association.spi.to_be_bytes());
    set(header, 4, association.take_number().to_be_bytes());
    for at in [8, 12] {
        set(header, at, (Random.next() >> 2).to_ne_bytes());
    }
    Some(())
}

impl Element for IPsecESPEncap {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.drops += retain(batch, |packet| encapsulate(packet).is_some());
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{packet, shared};
    use crate::testing::Bench;

    #[test]
    fn the_header_and_the_padding_are_as_the_standard_has_them() {
        let association = shared();
        let mut bench = Bench::new("IPsecESPEncap", &[]);
        for (data, tail) in [(&b"abcde"[..], &[1, 1, 0][..]), (b"abcdef", &[0, 0])] {
            let number = association.borrow().next;
            let out = bench.push_packets(0, vec![packet(data, &association)]);
            let (header, body) = out[0].1.split_at(16);
            assert_eq!(header[..8], [[0, 0, 0, 7], number.to_be_bytes()].concat());
            assert_eq!(body, [data, tail].concat());
        }
        bench.push(0, &[b"no tunnel"]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
