//! IP datagrams of protocol 46: reads arriving ones, makes departing ones.

use std::net::{IpAddr, Ipv6Addr};

use europa_label::Datagram;
use europa_packet::{Ipv4Packet, checksum};

/// RSVP.
pub(super) const RSVP: u8 = 46;
/// Hop-by-hop options (RFC 8200).
const HOP_BY_HOP: u8 = 0;
/// RFC 2113: the Router Alert option of IPv4.
const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
/// RFC 2711: a hop-by-hop header with the Router Alert option of IPv6 for RSVP, and its padding.
const ALERT_V6: [u8; 8] = [RSVP, 0, 5, 2, 0, 1, 1, 0];
/// Class selector 6, internetwork control, and an ECN field of 0.
const CONTROL: u8 = 0xc0;

/// Source, TTL and payload of a whole datagram of protocol 46; `None` for other packets.
pub(super) fn read(packet: &[u8]) -> Option<(IpAddr, u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let whole = Ipv4Packet::parse(packet).ok()?;
            let header = whole.header;
            if header.is_fragment() || !whole.checksum_is_valid() || *packet.get(9)? != RSVP {
                return None;
            }
            Some((header.source_addr().into(), *packet.get(8)?, whole.payload))
        }
        6 => {
            let (header, rest) = packet.split_first_chunk::<40>()?;
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let payload = rest.get(..length)?;
            let source: [u8; 16] = header.get(8..24)?.try_into().ok()?;
            let payload = match header[6] {
                RSVP => payload,
                HOP_BY_HOP if *payload.first()? == RSVP => {
                    payload.get((usize::from(*payload.get(1)?) + 1) * 8..)?
                }
                _ => return None,
            };
            Some((Ipv6Addr::from(source).into(), header[7], payload))
        }
        _ => None,
    }
}

/// The header of a datagram; `None` if source and destination are of different families or it is
/// too long. Returns a buffer and the number of used bytes.
pub(super) fn header(datagram: &Datagram) -> Option<([u8; 48], usize)> {
    let mut bytes = [0; 48];
    let length = datagram.bytes.len();
    let used = match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let used = if datagram.router_alert { 24 } else { 20 };
            let total = u16::try_from(used + length).ok()?;
            let [high, low] = total.to_be_bytes();
            let fixed =
                [0x40 | (used / 4) as u8, CONTROL, high, low, 0, 0, 0, 0, datagram.ttl, RSVP];
            let parts: [&[u8]; 5] =
                [&fixed, &[0, 0], &source.octets(), &destination.octets(), &ALERT_V4];
            fill(&mut bytes, &parts);
            let check = checksum::checksum(bytes.get(..used)?).to_be_bytes();
            bytes.get_mut(10..12)?.copy_from_slice(&check);
            used
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let alert: &[u8] = if datagram.router_alert { &ALERT_V6 } else { &[] };
            let next = if datagram.router_alert { HOP_BY_HOP } else { RSVP };
            let [high, low] = u16::try_from(alert.len() + length).ok()?.to_be_bytes();
            let fixed = [0x60 | CONTROL >> 4, CONTROL << 4, 0, 0, high, low, next, datagram.ttl];
            let parts: [&[u8]; 4] = [&fixed, &source.octets(), &destination.octets(), alert];
            fill(&mut bytes, &parts)
        }
        _ => return None,
    };
    Some((bytes, used))
}

fn fill(bytes: &mut [u8], parts: &[&[u8]]) -> usize {
    let mut used = 0;
    for (to, from) in bytes.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
        used += 1;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(source: &str, destination: &str, router_alert: bool) -> Datagram {
        let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
        Datagram {
            interface: 0,
            via: destination,
            source,
            destination,
            ttl: 9,
            router_alert,
            bytes: b"message".to_vec(),
        }
    }

    #[test]
    fn what_is_made_is_read_again() {
        for (source, destination, alert, length) in [
            ("10.0.0.1", "10.0.0.2", false, 20),
            ("10.0.0.1", "10.0.0.2", true, 24),
            ("2001:db8::1", "2001:db8::2", false, 40),
            ("2001:db8::1", "2001:db8::2", true, 48),
        ] {
            let made = datagram(source, destination, alert);
            let (bytes, used) = header(&made).unwrap();
            assert_eq!(used, length);
            let packet = [&bytes[..used], &made.bytes].concat();
            assert_eq!(read(&packet), Some((made.source, 9, &b"message"[..])));
            for cut in 0..packet.len() {
                assert_eq!(read(&packet[..cut]), None, "{source} cut at {cut}");
            }
        }
        assert_eq!(header(&datagram("10.0.0.1", "::1", false)), None);
    }

    #[test]
    fn fragments_and_other_protocols_are_none() {
        let made = datagram("10.0.0.1", "10.0.0.2", true);
        let (bytes, used) = header(&made).unwrap();
        for (at, value) in [(6, 0x20), (7, 1), (9, 17)] {
            let mut packet = [&bytes[..used], &made.bytes].concat();
            packet[at] = value;
            packet[10..12].fill(0);
            let check = checksum::checksum(&packet[..used]).to_be_bytes();
            packet[10..12].copy_from_slice(&check);
            assert_eq!(read(&packet), None, "{at}");
        }
    }
}
