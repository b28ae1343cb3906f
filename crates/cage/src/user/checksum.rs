//! Internet checksums as the kernel computes them.

/// Ones'-complement sum of two numbers of 32 bits.
fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u32::from(carry)
}

/// Ones'-complement sum of words of 32 bits, in the machine's order.
fn partial(bytes: &[u8], seed: u32) -> u32 {
    let mut sum = u64::from(seed);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        // 2^16 words at most: no overflow.
        sum += u64::from(u32::from_le_bytes(*word));
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_le_bytes(last));
    add(sum as u32, (sum >> 32) as u32)
}

/// `bpf_csum_diff` as Linux 6.13 and later answers it: 16 bits.
pub(super) fn difference(from: &[u8], to: &[u8], seed: u32) -> u64 {
    let sum = match (from.is_empty(), to.is_empty()) {
        (false, false) => add(partial(to, seed), !partial(from, 0)),
        (true, false) => partial(to, seed),
        (false, true) => !partial(from, !seed),
        (true, true) => seed,
    };
    let folded = (sum >> 16) + (sum & 0xffff);
    u64::from((folded + (folded >> 16)) & 0xffff)
}
