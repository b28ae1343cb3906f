//! # IPsecAES
//!
//! ## Synopsis
//! `IPsecAES(ENCRYPT)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Encrypts or decrypts the bytes between the ESP header and the digest with AES of 128 bits, in
//! blocks of 16 bytes. As in Click, 8 bytes of the previous block are added to each block; the
//! first block gets the header's initialisation vector. If the last block is half full, the
//! digest's first 8 bytes fill it. The key is that of the tunnel that `RadixIPsecLookup` has found.
//!
//! ## Arguments
//! - ENCRYPT: 1 to encrypt, 0 to decrypt.
//!
//! ## Handlers
//! - `drops` (read): packets without a tunnel, or too short.
//!
//! ## See also
//! `IPsecESPEncap`, `IPsecAuthHMACSHA1`, `RadixIPsecLookup`

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use super::{DIGEST, HEADER, VECTOR, association, direction};
use crate::prelude::*;
use crate::shared::common::retain;

/// Bytes of a block, and of the bytes that are added to it.
const BLOCK: usize = 16;
const ADDED: usize = 8;

/// Encrypts and decrypts with AES.
#[derive(Default)]
pub(crate) struct IPsecAES {
    encrypts: bool,
    drops: u64,
}

impl Class for IPsecAES {
    const INFO: ClassInfo = ClassInfo::new("IPsecAES", "1/1");
}

impl Element for IPsecAES {
    arguments! { this, given;
        mandatory "ENCRYPT": "0 or 1", by direction => this.encrypts;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let encrypts = self.encrypts;
        self.drops += retain(batch, |packet| work(packet, encrypts).is_some());
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

/// Adds the vector to the start of a block.
fn add(block: &mut [u8; BLOCK], vector: [u8; ADDED]) {
    for (byte, other) in block.iter_mut().zip(vector) {
        *byte ^= other;
    }
}

/// Encrypts or decrypts a packet. `None` if it has no tunnel or is too short.
fn work(packet: &mut Packet, encrypts: bool) -> Option<()> {
    let association = association(packet)?;
    let cipher = Aes128::new_from_slice(&association.borrow().encryption).ok()?;
    let mut length = packet.len().checked_sub(HEADER + DIGEST)?;
    if !length.is_multiple_of(BLOCK) {
        // The digest fills half of the last block.
        length += ADDED;
    }
    let (header, body) = packet.data_mut().split_at_mut_checked(HEADER)?;
    let mut vector: [u8; ADDED] = *header.get(VECTOR)?.first_chunk()?;
    for block in body.get_mut(..length)?.as_chunks_mut::<BLOCK>().0 {
        let before: [u8; ADDED] = *block.first_chunk()?;
        if encrypts {
            add(block, vector);
            cipher.encrypt_block((&mut *block).into());
            vector = *block.first_chunk()?;
        } else {
            cipher.decrypt_block((&mut *block).into());
            add(block, vector);
            vector = before;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{packet, shared};
    use crate::testing::Bench;

    #[test]
    fn a_block_is_that_of_the_standard() {
        // FIPS 197, appendix C.1; a vector of zeros changes nothing.
        let association = shared();
        let key = std::array::from_fn(|n| n as u8);
        association.borrow_mut().encryption = key;
        let plain: [u8; 16] = std::array::from_fn(|n| 0x11 * n as u8);
        let secret = [
            0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4,
            0xc5, 0x5a,
        ];
        for (argument, from, to) in [("1", plain, secret), ("0", secret, plain)] {
            let mut bench = Bench::new("IPsecAES", &[argument]);
            let data = [&[0; 16][..], &from, &[0; 12]].concat();
            let out = bench.push_packets(0, vec![packet(&data, &association)]);
            assert_eq!(out[0].1[16..32], to);
        }
        let mut bench = Bench::new("IPsecAES", &["1"]);
        bench.push_packets(0, vec![packet(b"short", &association)]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        assert_eq!(Bench::error("IPsecAES", &["2"]), "ENCRYPT must be 0 or 1");
    }
}
