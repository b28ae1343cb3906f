//! The Internet checksum over a message (RFC 2205, section 3.1.1).

/// The complement of the ones' complement sum; 0 for a message that includes its own checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn a_message_with_its_checksum_sums_to_zero() {
        let table: [&[u8]; 3] = [&[0x10, 1, 0, 0, 64, 0, 0, 8], &[0xff; 12], &[0; 8]];
        for bytes in table {
            let mut bytes = bytes.to_vec();
            bytes[2..4].copy_from_slice(&[0, 0]);
            let sum = checksum(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(checksum(&bytes), 0);
        }
    }
}
