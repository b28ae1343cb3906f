//! The MD5 message digest (RFC 1321). It names contents; it protects nothing.

/// By round: how far to rotate.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

fn block(state: &mut [u32; 4], words: &[u32; 16]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64usize {
        let (mix, word) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (d & b | !d & c, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        // RFC 1321 section 3.4: the integer part of 2^32 times the sine.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let shift =
            SHIFTS.get(step / 16).and_then(|round| round.get(step % 4)).copied().unwrap_or(0);
        let word = words.get(word % 16).copied().unwrap_or(0);
        let sum = a.wrapping_add(mix).wrapping_add(constant).wrapping_add(word);
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(shift)));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

/// The digest of a message.
pub(crate) fn digest(message: &[u8]) -> [u8; 16] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() < message.len() + 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded.truncate(end);
    padded.extend((message.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for chunk in padded.as_chunks::<64>().0 {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(chunk.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        block(&mut state, &words);
    }
    let mut out = [0; 16];
    for (place, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_le_bytes();
    }
    out
}

/// A digest as 32 hexadecimal digits.
pub(crate) fn hex(digest: [u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest as 22 letters of six bits each, the lowest bits first.
pub(crate) fn letters(digest: [u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = u128::from_le_bytes(digest);
    (0..22).map(|n| char::from(LETTERS[(bits >> (6 * n)) as usize & 63])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, appendix A.5.
    #[test]
    fn digests_are_those_of_the_rfc() {
        for (message, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(digest(message.as_bytes())), expected);
        }
        assert_eq!(letters(digest(b"")), "u3bJz@iaYsq6aMaMSJVq_b");
        assert_eq!(letters(digest(b"hi there\n")), "sy@Uze03MHB84qQruJ_zma");
    }
}
