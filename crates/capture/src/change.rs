//! An element's changes of a packet, field by field.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::line::mac;

/// A field of a header: name, first byte, bytes, and how it is written.
type Field = (&'static str, usize, usize, fn(&[u8]) -> String);

fn number(bytes: &[u8]) -> String {
    bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn v4(bytes: &[u8]) -> String {
    <[u8; 4]>::try_from(bytes).map_or_else(|_| hex(bytes), |b| Ipv4Addr::from(b).to_string())
}

fn v6(bytes: &[u8]) -> String {
    <[u8; 16]>::try_from(bytes).map_or_else(|_| hex(bytes), |b| Ipv6Addr::from(b).to_string())
}

const ETHERNET: &[Field] = &[
    ("destination MAC", 0, 6, |b| mac(b)),
    ("source MAC", 6, 6, |b| mac(b)),
    ("ethertype", 12, 2, hex),
];
const IPV4: &[Field] = &[
    ("version and header length", 0, 1, hex),
    ("TOS", 1, 1, hex),
    ("total length", 2, 2, number),
    ("identification", 4, 2, number),
    ("fragment", 6, 2, hex),
    ("TTL", 8, 1, number),
    ("protocol", 9, 1, number),
    ("header checksum", 10, 2, hex),
    ("source", 12, 4, v4),
    ("destination", 16, 4, v4),
];
const IPV6: &[Field] = &[
    ("version, class and flow", 0, 4, hex),
    ("payload length", 4, 2, number),
    ("next header", 6, 1, number),
    ("hop limit", 7, 1, number),
    ("source", 8, 16, v6),
    ("destination", 24, 16, v6),
];
const ARP: &[Field] = &[
    ("operation", 6, 2, number),
    ("sender MAC", 8, 6, |b| mac(b)),
    ("sender", 14, 4, v4),
    ("target MAC", 18, 6, |b| mac(b)),
    ("target", 24, 4, v4),
];
const PORTS: &[Field] = &[("source port", 0, 2, number), ("destination port", 2, 2, number)];
const UDP: &[Field] = &[("UDP length", 4, 2, number), ("UDP checksum", 6, 2, hex)];
const TCP: &[Field] = &[("TCP checksum", 16, 2, hex)];
const ICMP: &[Field] =
    &[("ICMP type", 0, 1, number), ("ICMP code", 1, 1, number), ("ICMP checksum", 2, 2, hex)];

/// Headers of a packet: the start of each, and its fields.
fn headers(data: &[u8]) -> Vec<(usize, &'static [Field])> {
    let mut found = Vec::new();
    let ip = if is_ip(data) {
        0
    } else {
        found.push((0, ETHERNET));
        match data.get(12..14) {
            Some([0x08, 0x06]) => {
                found.push((14, ARP));
                return found;
            }
            Some([0x81, 0x00]) => 18,
            _ => 14,
        }
    };
    let Some(rest) = data.get(ip..).filter(|rest| is_ip(rest)) else { return found };
    let (header, protocol) = if rest.first().is_some_and(|byte| byte >> 4 == 4) {
        found.push((ip, IPV4));
        (usize::from(rest.first().map_or(0, |byte| byte & 15)) * 4, rest.get(9))
    } else {
        found.push((ip, IPV6));
        (40, rest.get(6))
    };
    let transport = ip + header;
    match protocol {
        Some(6) => found.extend([(transport, PORTS), (transport, TCP)]),
        Some(17) => found.extend([(transport, PORTS), (transport, UDP)]),
        Some(1 | 58) => found.push((transport, ICMP)),
        _ => {}
    }
    found
}

/// Whether a packet begins with an IP header, not with an Ethernet header.
fn is_ip(data: &[u8]) -> bool {
    match data {
        [first, _, high, low, ..] if first >> 4 == 4 && first & 15 >= 5 => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            length >= 20 && !matches!(data.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
        }
        [first, ..] if first >> 4 == 6 => {
            data.len() >= 40 && data.get(12..14) != Some(&[0x86, 0xdd])
        }
        _ => false,
    }
}

/// One line of text for a packet that begins with an Ethernet header or with an IP header.
pub fn summary(data: &[u8]) -> String {
    if is_ip(data)
        && let Some(line) = crate::line::ip(data)
    {
        return line;
    }
    crate::line::frame(data)
}

/// The first bytes of a header that was added before a packet, or removed.
fn shifted(long: &[u8], short: &[u8]) -> Option<usize> {
    // The number of added bytes is the shift at which the remaining recorded bytes are equal.
    (1..=long.len().min(80)).find(|by| {
        let rest = long.get(*by..).unwrap_or_default();
        let same = rest.len().min(short.len());
        same >= 20 && rest.get(..same) == short.get(..same)
    })
}

/// Whether two headers are of the same kind.
fn same(one: &[Field], other: &[Field]) -> bool {
    one.iter().map(|field| field.0).eq(other.iter().map(|field| field.0))
}

/// The differences, a line each.
pub fn changes(before: &[u8], after: &[u8]) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    if let Some(by) = shifted(before, after) {
        return vec![format!("{by} bytes taken off: {}", hex(&before[..by]))];
    }
    if let Some(by) = shifted(after, before) {
        return vec![format!("{by} bytes put before it: {}", hex(&after[..by]))];
    }
    // An element that forwards also changes the header behind the one that it adds.
    let framed = match (headers(before).first(), headers(after).get(..2)) {
        (Some((0, old)), Some([_, (at, new)])) if *at > 0 && same(old, new) => Some(*at),
        _ => None,
    };
    if let Some(at) = framed {
        // The part of the packet that is recorded both before and after.
        let recorded = before.len().min(after.len() - at);
        let mut lines = changes(&before[..recorded], &after[at..at + recorded]);
        lines.push(format!("{at} bytes put before it: {}", hex(&after[..at])));
        return lines;
    }
    let mut lines = Vec::new();
    let mut told = vec![false; before.len().max(after.len())];
    if before.len() != after.len() {
        lines.push(format!("length: {} to {} bytes", before.len(), after.len()));
    }
    for (start, fields) in headers(after) {
        for (name, at, bytes, write) in fields {
            let range = start + at..start + at + bytes;
            if let (Some(old), Some(new)) = (before.get(range.clone()), after.get(range.clone()))
                && old != new
            {
                lines.push(format!("{name}: {} to {}", write(old), write(new)));
                told[range].fill(true);
            }
        }
    }
    // The rest as bytes, in runs.
    let differs =
        |at: usize| at < before.len().min(after.len()) && before[at] != after[at] && !told[at];
    let mut at = 0;
    while at < before.len().min(after.len()) {
        let end = (at..before.len()).find(|at| !differs(*at)).unwrap_or(before.len());
        if end > at {
            let most = end.min(at + 16).min(after.len());
            let more = if end > most { "..." } else { "" };
            lines.push(format!(
                "bytes {at} to {}: {}{more} to {}{more}",
                end - 1,
                hex(&before[at..most]),
                hex(&after[at..most])
            ));
        }
        at = end + 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(ttl: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 1, 2], [10, 0, 2, 2], ttl)
            .udp(1, 2)
            .write(&mut bytes, &[7; 40])
            .unwrap();
        bytes
    }

    const FRAMED: &str = "14 bytes put before it: 0x0200000000020200000000010800";

    #[test]
    fn changes_have_names() {
        let (old, new) = (frame(64), frame(63));
        let mut addressed = new.clone();
        addressed[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        let forwarded = ["TTL: 64 to 63", "header checksum: 0x23a6 to 0x24a6", FRAMED];
        let mut spoilt = new.clone();
        spoilt[50] = 8;
        for (before, after, lines) in [
            (&old[..], &old[..], &[][..]),
            (&old[14..], &new[14..], &["TTL: 64 to 63", "header checksum: 0x23a6 to 0x24a6"]),
            (&old, &new, &["TTL: 64 to 63", "header checksum: 0x23a6 to 0x24a6"]),
            (&old, &old[14..], &["14 bytes taken off: 0x0200000000020200000000010800"]),
            (&old[14..], &old, &[FRAMED]),
            (&old[14..], &new, &forwarded),
            (&new, &addressed, &["destination MAC: 02:00:00:00:00:02 to 02:00:00:00:00:09"]),
            (&new, &spoilt, &["bytes 50 to 50: 0x07 to 0x08"]),
        ] {
            assert_eq!(changes(before, after), lines);
        }
        assert!(summary(&old).starts_with("02:00"));
        assert!(summary(&old[14..]).starts_with("IP 10.0.1.2.1 > 10.0.2.2.2: UDP"));
    }
}
