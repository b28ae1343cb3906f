//! # IPsecDES
//!
//! ## Synopsis
//! `IPsecDES(ENCRYPT)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Encrypts or decrypts the bytes between the ESP header and the digest with DES in CBC mode, with
//! the header's initialisation vector. The key is the first 8 bytes of the key of the tunnel that
//! `RadixIPsecLookup` has found. DES is not secure; the element exists for configurations that use
//! it.
//!
//! ## Arguments
//! - ENCRYPT: 1 to encrypt, 0 to decrypt.
//!
//! ## Handlers
//! - `drops` (read): packets without a tunnel, or too short.
//!
//! ## See also
//! `IPsecESPEncap`, `IPsecAuthHMACSHA1`, `RadixIPsecLookup`

use des::Des;
use des::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use super::{DIGEST, HEADER, VECTOR, association, direction};
use crate::prelude::*;
use crate::shared::common::retain;

/// Bytes of a block, and of a key.
const BLOCK: usize = 8;

/// Encrypts and decrypts with DES.
#[derive(Default)]
pub(crate) struct IPsecDES {
    encrypts: bool,
    drops: u64,
}

impl Class for IPsecDES {
    const INFO: ClassInfo = ClassInfo::new("IPsecDES", "1/1");
}

impl Element for IPsecDES {
    arguments! { this, given;
        mandatory "ENCRYPT": "0 or 1", by direction => this.encrypts;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let encrypts = self.encrypts;
        self.drops += retain(batch, |packet| work(packet, encrypts).is_some());
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

/// Adds the previous block to a block (exclusive or).
fn add(block: &mut [u8; BLOCK], other: [u8; BLOCK]) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

/// Encrypts or decrypts a packet. `None` if it has no tunnel or is too short.
fn work(packet: &mut Packet, encrypts: bool) -> Option<()> {
    let association = association(packet)?;
    let key: [u8; BLOCK] = *association.borrow().encryption.first_chunk()?;
    let cipher = Des::new_from_slice(&key).ok()?;
    let length = packet.len().checked_sub(HEADER + DIGEST)?;
    let (header, body) = packet.data_mut().split_at_mut_checked(HEADER)?;
    let mut vector: [u8; BLOCK] = *header.get(VECTOR)?.first_chunk()?;
    for block in body.get_mut(..length)?.as_chunks_mut::<BLOCK>().0 {
        let before = *block;
        if encrypts {
            add(block, vector);
            cipher.encrypt_block((&mut *block).into());
            vector = *block;
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
        let association = shared();
        let key = [0x13, 0x34, 0x57, 0x79, 0x9b, 0xbc, 0xdf, 0xf1];
        association.borrow_mut().encryption[..8].copy_from_slice(&key);
        let plain = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let secret = [0x85, 0xe8, 0x13, 0x54, 0x0f, 0x0a, 0xb4, 0x05];
        for (argument, from, to) in [("1", plain, secret), ("0", secret, plain)] {
            let mut bench = Bench::new("IPsecDES", &[argument]);
            let data = [&[0; 16][..], &from, &[0; 12]].concat();
            let out = bench.push_packets(0, vec![packet(&data, &association)]);
            assert_eq!(out[0].1[16..24], to);
        }
        let mut bench = Bench::new("IPsecDES", &["1"]);
        bench.push(0, &[b"no tunnel"]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
