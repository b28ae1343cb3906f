//! The cipher of WEP, which is broken, but which old networks use.

use crate::prelude::*;

/// Bytes of a key behind the initialisation vector.
pub(super) const KEY: usize = 16;
/// The initialisation vector and the number of the key.
pub(super) const HEADER: usize = 4;
/// The checksum behind the payload.
pub(super) const CHECK: usize = 4;

/// RC4.
pub(super) struct Cipher {
    order: [u8; 256],
    i: u8,
    j: u8,
}

impl Cipher {
    /// A cipher with the key that begins with an initialisation vector.
    pub(super) fn new(vector: [u8; 3], key: &[u8]) -> Cipher {
        let mut order: [u8; 256] = std::array::from_fn(|at| at as u8);
        let whole = vector.iter().chain(key).copied().cycle();
        let mut j = 0_u8;
        for (i, byte) in (0..256).zip(whole) {
            j = j.wrapping_add(order[i]).wrapping_add(byte);
            order.swap(i, usize::from(j));
        }
        Cipher { order, i: 0, j: 0 }
    }

    /// Encrypts bytes, or decrypts them.
    pub(super) fn apply(&mut self, data: &mut [u8]) {
        for byte in data {
            self.i = self.i.wrapping_add(1);
            let one = self.order[usize::from(self.i)];
            self.j = self.j.wrapping_add(one);
            let other = self.order[usize::from(self.j)];
            self.order.swap(usize::from(self.i), usize::from(self.j));
            *byte ^= self.order[usize::from(one.wrapping_add(other))];
        }
    }
}

/// A key and its number, as `WepEncap` and `WepDecap` have them.
#[derive(Default)]
pub(super) struct Key {
    pub(super) key: Vec<u8>,
    pub(super) number: u8,
}

impl Key {
    pub(super) fn set(&mut self, key: Vec<u8>) -> Result<(), String> {
        if key.len() > KEY {
            return Err(format!("KEY: expected at most {KEY} bytes"));
        }
        self.key = key;
        Ok(())
    }

    /// Sets the key from the value of a handler.
    pub(super) fn write(&mut self, value: &str) -> Result<(), HandlerError> {
        self.set(parse("key", value)?).map_err(HandlerError::Other)
    }

    /// For a handler.
    pub(super) fn text(&self) -> String {
        let digits: String = self.key.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("\\<{digits}>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_cipher_is_known() {
        // The start of a key only: packets carry the rest.
        let mut data = *b"Plaintext";
        Cipher::new(*b"Key", b"").apply(&mut data);
        assert_eq!(data, [0xbb, 0xf3, 0x16, 0xe8, 0xd9, 0x40, 0xaf, 0x0a, 0xd3]);
    }
}
