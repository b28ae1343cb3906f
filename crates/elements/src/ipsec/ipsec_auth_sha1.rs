//! # IPsecAuthSHA1
//!
//! ## Synopsis
//! `IPsecAuthSHA1(VERIFY)`
//!
//! ## Ports
//! One input, push or pull; one output of the same kind. An optional second push output gets
//! packets with a wrong digest; else they are dropped.
//!
//! ## Description
//! Adds the first 12 bytes of a packet's SHA-1 digest behind it, or checks and removes them.
//! Without a key this detects damage, not forgery.
//!
//! ## Arguments
//! - VERIFY: 0 to add a digest, 1 to check and remove it.
//!
//! ## Handlers
//! - `drops` (read): packets whose digest is wrong, or that cannot have one.
//!
//! ## See also
//! `IPsecESPEncap`, `IPsecAES`, `RadixIPsecLookup`

use sha1::{Digest, Sha1};

use super::{DIGEST, authenticate, direction};
use crate::prelude::*;
use crate::shared::common::part;

/// Adds and checks digests.
#[derive(Default)]
pub(crate) struct IPsecAuthSHA1 {
    verifies: bool,
    drops: u64,
}

impl Class for IPsecAuthSHA1 {
    const INFO: ClassInfo = ClassInfo::new("IPsecAuthSHA1", "1/1-2").processing("a/ah");
}

/// The digest of the first bytes of a packet.
fn digest(packet: &Packet, length: usize) -> Option<[u8; DIGEST]> {
    Sha1::digest(packet.data().get(..length)?).first_chunk().copied()
}

impl Element for IPsecAuthSHA1 {
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
    use crate::testing::Bench;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // FIPS 180, the message "abc".
        let digest = [0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81, 0x6a, 0xba, 0x3e, 0x25, 0x71];
        let mut bench = Bench::new("IPsecAuthSHA1", &["0"]);
        let signed = [&b"abc"[..], &digest].concat();
        assert_eq!(bench.push(0, &[b"abc"]), [(0, signed.clone())]);
        let mut bench = Bench::new("IPsecAuthSHA1", &["1"]);
        bench.log();
        assert_eq!(bench.push(0, &[&signed]), [(0, b"abc".to_vec())]);
        assert_eq!(bench.push(0, &[b"short"]), [(1, b"short".to_vec())]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
