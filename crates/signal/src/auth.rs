//! Authentication (RFC 2747, RFC 3097): keys, digests, and received sequence numbers.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};

use crate::wire::integrity_at;

/// A key shared with the neighbours of an interface.
#[derive(Clone)]
pub struct Key {
    /// 48 bits that name it.
    pub id: u64,
    /// The digest.
    pub algorithm: Algorithm,
    /// The secret.
    pub secret: Vec<u8>,
    /// Whether an unknown neighbour must answer a challenge first (RFC 2747, section 4.3).
    pub has_handshake: bool,
}

impl fmt::Debug for Key {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, algorithm, .. } = self;
        f.debug_struct("Key").field("id", id).field("algorithm", algorithm).finish_non_exhaustive()
    }
}

/// Keyed digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-MD5, which every implementation supports (RFC 2747, section 2).
    Md5,
    /// HMAC-SHA1.
    Sha1,
    /// HMAC-SHA256.
    Sha256,
}

impl Algorithm {
    /// Bytes of the digest.
    pub const fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

impl Key {
    fn digest(&self, parts: &[&[u8]]) -> Vec<u8> {
        fn run<M: Mac + KeyInit>(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
            // HMAC accepts keys of any length; the error exists for MACs that do not.
            let Ok(mut mac) = <M as KeyInit>::new_from_slice(secret) else { return Vec::new() };
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }
        match self.algorithm {
            Algorithm::Md5 => run::<Hmac<md5::Md5>>(&self.secret, parts),
            Algorithm::Sha1 => run::<Hmac<sha1::Sha1>>(&self.secret, parts),
            Algorithm::Sha256 => run::<Hmac<sha2::Sha256>>(&self.secret, parts),
        }
    }

    /// The digest of a message, computed with zeros in the digest's place (RFC 2747, section 4.1).
    fn of_message(&self, bytes: &[u8], at: &std::ops::Range<usize>) -> Vec<u8> {
        let zeros = vec![0; at.len()];
        self.digest(&[&bytes[..at.start], &zeros, &bytes[at.end..]])
    }

    /// Fills in the digest of a message whose first object is INTEGRITY.
    pub(crate) fn sign(&self, bytes: &mut [u8]) {
        if let Some(at) = integrity_at(bytes) {
            let digest = self.of_message(bytes, &at);
            if digest.len() == at.len() {
                bytes[at].copy_from_slice(&digest);
            }
        }
    }

    /// Whether the digest is right.
    pub(crate) fn verify(&self, bytes: &[u8]) -> bool {
        let Some(at) = integrity_at(bytes) else { return false };
        let wanted = self.of_message(bytes, &at);
        let found = &bytes[at];
        // Every byte is compared, so that the time does not reveal how many are right.
        wanted.len() == found.len()
            && wanted.iter().zip(found).fold(0, |different, (one, other)| different | (one ^ other))
                == 0
    }
}

/// Received sequence numbers of a sender: the highest, and a bit for each of the 64 numbers before
/// it (RFC 2747, section 4.2: messages may be reordered, and each is accepted once).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    highest: u64,
    seen: u64,
}

impl Window {
    pub(crate) fn new(first: u64) -> Self {
        Self { highest: first, seen: 1 }
    }

    /// Whether a number was not received before; it counts as received from then on.
    pub(crate) fn take(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.seen = if ahead < 64 { self.seen << ahead | 1 } else { 1 };
            self.highest = sequence;
            return true;
        }
        let behind = self.highest - sequence;
        let is_new = behind < 64 && self.seen & 1 << behind == 0;
        if is_new {
            self.seen |= 1 << behind;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Challenge, Integrity, Kind, Message, Object};

    fn key(algorithm: Algorithm) -> Key {
        Key { id: 7, algorithm, secret: b"secret".to_vec(), has_handshake: true }
    }

    #[test]
    fn every_bit_of_a_message_is_covered() {
        for algorithm in [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256] {
            let key = key(algorithm);
            let digest = vec![0; algorithm.length()];
            let objects = vec![
                Object::Integrity(Integrity { flags: 0, key: 7, sequence: 9, digest }),
                Object::Challenge(Challenge { key: 7, cookie: vec![1, 2, 3, 4] }),
            ];
            let mut bytes = Message::new(Kind::ChallengeResponse, objects).encode();
            key.sign(&mut bytes);
            assert!(key.verify(&bytes));
            for bit in 0..bytes.len() * 8 {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.verify(&other), "{algorithm:?}, bit {bit}");
            }
            let other = Key { secret: b"Secret".to_vec(), ..key };
            assert!(!other.verify(&bytes));
        }
    }

    #[test]
    fn digests_are_those_of_rfc_2202() {
        // RFC 2202, test case 2 of each.
        let table = [
            (Algorithm::Md5, "750c783e6ab0b503eaa86e310a5db738"),
            (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ];
        for (algorithm, wanted) in table {
            let key = Key { secret: b"Jefe".to_vec(), ..key(algorithm) };
            let digest = key.digest(&[b"what do ya want ", b"for nothing?"]);
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_number_is_taken_once() {
        let mut window = Window::new(100);
        let table = [
            (100, false),
            (99, true),
            (99, false),
            (103, true),
            (101, true),
            (102, true),
            (102, false),
            (40, true),
            (39, false),
            (1000, true),
            (103, false),
            (999, true),
            (u64::MAX, true),
            (1000, false),
        ];
        for (sequence, wanted) in table {
            assert_eq!(window.take(sequence), wanted, "{sequence}");
        }
    }
}
