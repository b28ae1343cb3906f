//! Constraints of triggers: the targets that an id may have.
//!
//! A trigger (x, y) is accepted if the key of x is the left hash of y, or, if x is private, if the
//! key of y is the right hash of x. The key of a host's address is the key in the trigger. So only
//! a client that knows the unhashed key can make triggers for an id. The hashes and their two AES
//! keys are those of the public code (`i3_trigger.c`, `aeshash.c`): `E(in) xor in` with AES-128.

use std::sync::LazyLock;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use crate::id::{Id, Key};
use crate::wire::{Address, Trigger};

const LEFT: [u8; 16] = [
    0x23, 0xce, 0x45, 0x19, 0xc5, 0xb6, 0xb5, 0x82, 0x19, 0x14, 0x36, 0x26, 0xa4, 0xe0, 0x9c, 0xa2,
];
const RIGHT: [u8; 16] = [
    0x20, 0xce, 0x49, 0x19, 0xc5, 0xb6, 0xd5, 0xe2, 0xb6, 0x1d, 0xf6, 0x56, 0xa5, 0xef, 0xfc, 0xe2,
];

/// Which of the two hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left hash of the target gives the key of the trigger's id.
    Left,
    /// The right hash of the trigger's id gives the key of the target.
    Right,
}

/// The hash of a key.
pub fn of_key(side: Side, key: &Key) -> Key {
    static CIPHERS: LazyLock<[Aes128; 2]> =
        LazyLock::new(|| [LEFT, RIGHT].map(|key| Aes128::new(&key.into())));
    let cipher = match side {
        Side::Left => &CIPHERS[0],
        Side::Right => &CIPHERS[1],
    };
    let mut block = key.0.into();
    cipher.encrypt_block(&mut block);
    let mut out = key.0;
    out.iter_mut().zip(block).for_each(|(out, encrypted)| *out ^= encrypted);
    Key(out)
}

/// The hash of an id: the first 8 bytes of the hash of its first half, then the last 8 bytes of the
/// hash of its second half.
pub fn of_id(side: Side, id: &Id) -> Key {
    let half = |from: usize| {
        let mut key = [0; 16];
        key.copy_from_slice(&id.0[from..from + 16]);
        of_key(side, &Key(key))
    };
    let (mut mixed, second) = (half(0), half(16));
    mixed.0[8..].copy_from_slice(&second.0[8..]);
    of_key(side, &mixed)
}

/// Whether a trigger may be inserted.
pub fn holds(trigger: &Trigger) -> bool {
    let (left, target) = match &trigger.to {
        Address::Stack(ids) => match ids.first() {
            Some(first) => (of_id(Side::Left, first), first.key()),
            None => return false,
        },
        _ => (of_key(Side::Left, &trigger.key), trigger.key),
    };
    trigger.id.key() == left || !trigger.id.is_public() && target == of_id(Side::Right, &trigger.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers() {
        let host = Address::from(std::net::SocketAddr::from(([10, 0, 0, 1], 1)));
        let key = Key([7; 16]);
        let public = Id([3; 32]).with_public(true);
        let private = Id([3; 32]).with_public(false);
        let left = |id: Id| id.with_key(of_key(Side::Left, &key));
        let next = Id([9; 32]);
        let stack = |id: Id| Address::Stack(vec![id, Id([1; 32])]);
        let cases = [
            (Trigger::new(left(public), host.clone(), key), true),
            (Trigger::new(left(public), host.clone(), Key([8; 16])), false),
            (Trigger::new(public, host.clone(), key), false),
            (Trigger::new(private, host.clone(), of_id(Side::Right, &private)), true),
            (Trigger::new(public, host, of_id(Side::Right, &public)), false),
            (Trigger::new(public.with_key(of_id(Side::Left, &next)), stack(next), key), true),
            (Trigger::new(public, stack(next), key), false),
            (Trigger::new(private, stack(next.with_key(of_id(Side::Right, &private))), key), true),
            (Trigger::new(private, Address::Stack(Vec::new()), key), false),
        ];
        for (number, (trigger, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(holds(&trigger), wanted, "{number}: {trigger:?}");
        }
    }

    // FIPS 197, appendix B, with another key: the cipher is AES, and its input is added to its
    // output.
    #[test]
    fn hash_is_aes_and_xor() {
        let cipher = Aes128::new(&LEFT.into());
        let mut block = [5; 16].into();
        cipher.encrypt_block(&mut block);
        let wanted: Vec<u8> = block.iter().map(|byte| byte ^ 5).collect();
        assert_eq!(of_key(Side::Left, &Key([5; 16])).0.to_vec(), wanted);
        assert_ne!(of_key(Side::Right, &Key([5; 16])), of_key(Side::Left, &Key([5; 16])));
    }
}
