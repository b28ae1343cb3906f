//! # IPsecAuthHMACSHA1
//!
//! ## Synopsis
//! `IPsecAuthHMACSHA1(VERIFY)`
//!
//! ## Ports
//! One input, push or pull; one output of the same kind. An optional second push output gets
//! packets with a wrong digest; else they are dropped.
//!
//! ## Description
//! Adds the first 12 bytes of an HMAC with SHA-1 behind packets (RFC 2404), or checks and removes
//! them. The key is that of the tunnel that `RadixIPsecLookup` has found.
//!
//! ## Arguments
//! - VERIFY: 0 to add a digest, 1 to check and remove it.
//!
//! ## Handlers
//! - `drops` (read): packets whose digest is wrong, or that cannot have one.
//!
//! ## See also
//! `IPsecESPEncap`, `IPsecAES`, `RadixIPsecLookup`

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::{DIGEST, association, authenticate, direction};
use crate::prelude::*;
use crate::shared::common::part;

/// Adds and checks digests.
#[derive(Default)]
pub(crate) struct IPsecAuthHMACSHA1 {
    verifies: bool,
    drops: u64,
}

impl Class for IPsecAuthHMACSHA1 {
    const INFO: ClassInfo = ClassInfo::new("IPsecAuthHMACSHA1", "1/1-2").processing("a/ah");
}

/// The digest of the first bytes of a packet.
fn digest(packet: &Packet, length: usize) -> Option<[u8; DIGEST]> {
    let association = association(packet)?;
    let key = association.borrow().authentication;
    let mut hmac = <Hmac<Sha1> as KeyInit>::new_from_slice(&key).ok()?;
    hmac.update(packet.data().get(..length)?);
    hmac.finalize().into_bytes().first_chunk().copied()
}

impl Element for IPsecAuthHMACSHA1 {
    arguments! { this, given;
        mandatory "VERIFY": "0 or 1", by direction => this.verifies;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let verifies = self.verifies;
        let drops = part(batch, context, |packet| authenticate(packet, verifies, digest).is_some());
        if drops > 0 && self.drops == 0 {
            context.log("Invalid SHA1 authentication digest");
        }
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{packet, shared};
    use crate::testing::Bench;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // RFC 2202, test case 1, but the last four bytes of the key are zeros, which HMAC adds
        // anyway.
        let association = shared();
        association.borrow_mut().authentication = [0x0b; 16];
        let mut bench = Bench::new("IPsecAuthHMACSHA1", &["0"]);
        let out = bench.push_packets(0, vec![packet(b"Hi There", &association)]);
        assert_eq!(out[0].1.len(), 20);
        let signed = out[0].1.clone();
        let mut bench = Bench::new("IPsecAuthHMACSHA1", &["1"]);
        bench.log();
        let out = bench.push_packets(0, vec![packet(&signed, &association)]);
        assert_eq!(out, [(0, b"Hi There".to_vec())]);
        let mut changed = signed.clone();
        changed[0] ^= 1;
        let out = bench.push_packets(0, vec![packet(&changed, &association)]);
        assert_eq!(out, [(1, changed)]);
        association.borrow_mut().authentication = [0x0c; 16];
        assert_eq!(bench.push_packets(0, vec![packet(&signed, &association)])[0].0, 1);
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
    }
}
