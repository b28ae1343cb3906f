//! Challenges without state: a nonce is a keyed hash of its purpose.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::id::Id;
use crate::wire::Address;

/// A nonce is valid in its epoch and the next one.
const EPOCH: Duration = Duration::from_secs(64);

/// Makes and checks nonces with a secret.
#[derive(Clone)]
pub struct Nonces {
    keyed: Hmac<Sha256>,
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces")
    }
}

impl Nonces {
    /// Nonces of a secret.
    pub fn new(secret: &[u8; 32]) -> Nonces {
        // HMAC takes keys of any length.
        let keyed = <Hmac<Sha256> as KeyInit>::new_from_slice(secret);
        Nonces { keyed: keyed.unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")) }
    }

    /// The nonce for pointing `id` to `to`. Only a program that receives packets at `to` can know
    /// it.
    pub fn of(&self, now: Duration, id: &Id, to: &Address) -> [u8; 16] {
        self.of_epoch(now.as_secs() / EPOCH.as_secs(), id, to)
    }

    fn of_epoch(&self, epoch: u64, id: &Id, to: &Address) -> [u8; 16] {
        let mut mac = self.keyed.clone();
        mac.update(&epoch.to_be_bytes());
        mac.update(&id.0);
        let mut bytes = Vec::with_capacity(64);
        to.write(false, &mut bytes);
        mac.update(&bytes);
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        nonce
    }

    /// Whether a nonce belongs to the present epoch or the former one.
    pub fn is_valid(&self, now: Duration, id: &Id, to: &Address, nonce: &[u8; 16]) -> bool {
        let epoch = now.as_secs() / EPOCH.as_secs();
        // All bytes are compared, so that the time reveals nothing about the first difference.
        let equal = |epoch: u64| {
            let wanted = self.of_epoch(epoch, id, to);
            wanted.iter().zip(nonce).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
        };
        equal(epoch) || epoch > 0 && equal(epoch - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_for_one_id_and_address_and_expire() {
        let nonces = Nonces::new(&[1; 32]);
        let to = |last: u8| Address::from(std::net::SocketAddr::from(([10, 0, 0, last], 1)));
        let (id, start) = (Id([1; 32]), Duration::from_secs(100));
        let nonce = nonces.of(start, &id, &to(1));
        for (secs, id, last, wanted) in [
            (100, id, 1, true),
            (160, id, 1, true),
            (192, id, 1, false),
            (100, Id([2; 32]), 1, false),
            (100, id, 2, false),
        ] {
            let now = Duration::from_secs(secs);
            assert_eq!(nonces.is_valid(now, &id, &to(last), &nonce), wanted, "{secs} {id} {last}");
        }
        assert!(!Nonces::new(&[2; 32]).is_valid(start, &id, &to(1), &nonce));
    }
}
