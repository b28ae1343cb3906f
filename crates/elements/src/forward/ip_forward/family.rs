//! The differences between IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_engine::Packet;
use europa_packet::EtherType;
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::neighbour::{Address, pair};

/// The differences between the families.
pub(crate) trait Family: Address + Default + 'static {
    const ETHER_TYPE: [u8; 2];
    /// The output for packets that the policy makes Linux forward.
    const POLICY_OUTPUT: u16;
    fn target(packet: &Packet) -> Self;
    /// The verdict for a packet of at most `mtu` bytes, if it fits.
    fn check(packet: &Packet, mtu: usize) -> Verdict;
    fn count_down(packet: &mut Packet);
    fn parse(text: &str) -> Option<Self>;
    fn show(self) -> String;
    fn pair(text: &str) -> Option<(Self, [u8; 6])>;
}

/// The verdict for a packet whose neighbour is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Host,
    TooLong,
}

impl Family for u32 {
    const ETHER_TYPE: [u8; 2] = EtherType::IPV4.0;
    const POLICY_OUTPUT: u16 = 3;

    #[inline(always)]
    fn target(packet: &Packet) -> u32 {
        packet.dst_ip()
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<20>) else {
            return Verdict::Host;
        };
        match (header[8], packet.is_longer_than(mtu), header[6] & 0x40 != 0) {
            (0 | 1, ..) | (_, true, true) => Verdict::Host,
            (_, true, false) => Verdict::TooLong,
            _ => Verdict::Good,
        }
    }

    #[inline(always)]
    fn count_down(packet: &mut Packet) {
        let header = packet.network_header_mut().and_then(<[u8]>::first_chunk_mut::<20>);
        let Some([_, _, _, _, _, _, _, _, ttl, _, high, low, ..]) = header else { return };
        *ttl = ttl.saturating_sub(1);
        // As in `DecIPTTL` (RFC 1624 equation 3).
        let sum = u32::from(u16::from_be_bytes([*high, *low])) + 0x0100;
        [*high, *low] = ((sum + (sum >> 16)) as u16).to_be_bytes();
    }

    fn parse(text: &str) -> Option<u32> {
        text.parse::<Ipv4Addr>().ok().map(u32::from)
    }

    fn show(self) -> String {
        Ipv4Addr::from(self).to_string()
    }

    fn pair(text: &str) -> Option<(u32, [u8; 6])> {
        pair::<Ipv4Addr>(text).map(|(address, mac)| (address.into(), mac))
    }
}

impl Family for u128 {
    const ETHER_TYPE: [u8; 2] = EtherType::IPV6.0;
    const POLICY_OUTPUT: u16 = 2;

    #[inline(always)]
    fn target(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.annotation(DST_IP6))
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<40>) else {
            return Verdict::Host;
        };
        if header[7] <= 1 || packet.is_longer_than(mtu) { Verdict::Host } else { Verdict::Good }
    }

    #[inline(always)]
    fn count_down(packet: &mut Packet) {
        if let Some(hops) = packet.network_header_mut().and_then(|header| header.get_mut(7)) {
            *hops = hops.saturating_sub(1);
        }
    }

    fn parse(text: &str) -> Option<u128> {
        text.parse::<Ipv6Addr>().ok().map(u128::from)
    }

    fn show(self) -> String {
        Ipv6Addr::from(self).to_string()
    }

    fn pair(text: &str) -> Option<(u128, [u8; 6])> {
        pair::<Ipv6Addr>(text).map(|(address, mac)| (address.into(), mac))
    }
}
