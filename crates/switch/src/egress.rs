//! Checks on a private copy of each frame that leaves, and the headers added to it.
//!
//! The C twin, for live frames, is `bpf/egress.h`.

use std::net::IpAddr;

use europa_substrate::layout::{self, ANY_SOURCE, BOUND, MAX_ENCAP, STRIP_VLAN, TAGS, VXLAN};
use ipnet::IpNet;

/// The frames that an interface may send.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Source addresses; empty for any. Only looked at if the interface is bound.
    pub bound: Vec<IpNet>,
}

/// Why a frame may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than a header or longer than the interface may send.
    Length,
    /// A source MAC address that is not the interface's.
    Source,
    /// A VLAN tag it may not send.
    Vlan,
    /// A source address it is not bound to.
    Address,
    /// Its node has no lease.
    Fenced,
}

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn address_at<const N: usize>(bytes: &[u8], at: usize) -> Option<IpAddr>
where
    IpAddr: From<[u8; N]>,
{
    let octets: [u8; N] = bytes.get(at..at + N)?.try_into().ok()?;
    Some(octets.into())
}

impl Policy {
    /// Whether an interface may send `frame`, a copy that only the switch can write.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, interface: &layout::Interface, frame: &[u8]) -> Result<(), Refusal> {
        if frame.len() < 14 || frame.len() > interface.max_frame as usize {
            return Err(Refusal::Length);
        }
        if interface.flags & VXLAN != 0 {
            return Ok(());
        }
        if interface.flags & ANY_SOURCE == 0 && frame.get(6..12) != Some(&interface.mac[..]) {
            return Err(Refusal::Source);
        }
        let kind = u16_at(frame, 12).unwrap_or_default();
        // Checked inside the interface's own VLAN too: a switch with that native VLAN removes the
        // outer tag, and the inner tag would then choose the VLAN.
        if VLAN.contains(&kind) && interface.flags & TAGS == 0 {
            return Err(Refusal::Vlan);
        }
        if interface.flags & BOUND == 0 {
            return Ok(());
        }
        let source = match kind {
            IPV4 => address_at::<4>(frame, 26),
            // The sender's protocol address.
            ARP => address_at::<4>(frame, 28),
            IPV6 => address_at::<16>(frame, 22),
            _ => None,
        };
        match source {
            Some(source) if self.bound.iter().any(|prefix| prefix.contains(&source)) => Ok(()),
            _ => Err(Refusal::Address),
        }
    }
}

/// Bytes before, or inserted into, a frame.
pub(crate) fn before_frame(interface: &layout::Interface, encap: &layout::Encap) -> usize {
    if interface.flags & VXLAN != 0 {
        encap.bytes.min(MAX_ENCAP) as usize
    } else if interface.flags & STRIP_VLAN != 0 {
        4
    } else {
        0
    }
}

/// Completes a frame after `before` bytes of room in `buffer`: adds the VLAN tag or the outer
/// headers.
pub(crate) fn finish(
    interface: &layout::Interface,
    encap: &layout::Encap,
    buffer: &mut [u8],
    before: usize,
) {
    if interface.flags & VXLAN != 0 {
        encapsulate(encap, buffer, before);
    } else if before == 4 && buffer.len() >= 16 {
        buffer.copy_within(4..16, 0);
        buffer[12..14].copy_from_slice(&VLAN[0].to_be_bytes());
        buffer[14..16].copy_from_slice(&interface.vlan.to_be_bytes());
    }
}

/// Outer headers: UDP source port from the addresses inside (RFC 7348 section 5),
/// lengths, IPv4 checksum.
fn encapsulate(encap: &layout::Encap, buffer: &mut [u8], before: usize) {
    let length = buffer.len() - before;
    let [Some(to), Some(from)] = [u16_at(buffer, before + 4), u16_at(buffer, before + 10)] else {
        return;
    };
    let flow = u32::from(to.swap_bytes()) * 31 + u32::from(from.swap_bytes());
    let source = 0xc000 | ((flow ^ (flow >> 14)) & 0x3fff) as u16;
    buffer[..before].copy_from_slice(&encap.header[..before]);
    let udp = match before {
        50 => {
            let total = (length + 36) as u16;
            buffer[16..18].copy_from_slice(&total.to_be_bytes());
            let mut sum: u32 =
                (14..34).step_by(2).filter_map(|at| u16_at(buffer, at)).map(u32::from).sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            buffer[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
            34
        }
        70 => {
            buffer[18..20].copy_from_slice(&((length + 16) as u16).to_be_bytes());
            54
        }
        _ => return,
    };
    buffer[udp..udp + 2].copy_from_slice(&source.to_be_bytes());
    buffer[udp + 4..udp + 6].copy_from_slice(&((length + 16) as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn frame(source: [u8; 6], kind: u16, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(source);
        frame.extend(kind.to_be_bytes());
        frame.extend(rest);
        frame
    }

    fn ipv4(source: [u8; 4]) -> Vec<u8> {
        let mut header = vec![0; 20];
        header[12..16].copy_from_slice(&source);
        header
    }

    #[test]
    fn verdicts() {
        let other = [2, 0, 0, 0, 0, 8];
        let bound =
            Policy { bound: vec!["10.1.0.0/16".parse().unwrap(), "fd01::/64".parse().unwrap()] };
        let mut arp = vec![0; 28];
        arp[14..18].copy_from_slice(&[10, 1, 0, 5]);
        let mut ipv6 = vec![0; 40];
        ipv6[8..10].copy_from_slice(&[0xfd, 1]);
        for (what, flags, frame, verdict) in [
            ("plain", 0, frame(MAC, IPV4, &ipv4([1, 2, 3, 4])), Ok(())),
            ("foreign source", 0, frame(other, IPV4, &[]), Err(Refusal::Source)),
            ("whole port", ANY_SOURCE, frame(other, IPV4, &[]), Ok(())),
            ("tag", 0, frame(MAC, 0x8100, &[0; 4]), Err(Refusal::Vlan)),
            ("service tag", 0, frame(MAC, 0x88a8, &[0; 4]), Err(Refusal::Vlan)),
            ("tag on a whole port", TAGS, frame(MAC, 0x8100, &[0; 4]), Ok(())),
            ("tag in a VLAN", STRIP_VLAN, frame(MAC, 0x8100, &[0; 4]), Err(Refusal::Vlan)),
            ("service tag in a VLAN", STRIP_VLAN, frame(MAC, 0x88a8, &[0; 4]), Err(Refusal::Vlan)),
            ("allowed tag in a VLAN", STRIP_VLAN | TAGS, frame(MAC, 0x8100, &[0; 4]), Ok(())),
            ("bound", BOUND, frame(MAC, IPV4, &ipv4([10, 1, 9, 9])), Ok(())),
            ("not bound", BOUND, frame(MAC, IPV4, &ipv4([10, 2, 9, 9])), Err(Refusal::Address)),
            ("bound ARP", BOUND, frame(MAC, ARP, &arp), Ok(())),
            ("foreign ARP", BOUND, frame(MAC, ARP, &[0; 28]), Err(Refusal::Address)),
            ("bound IPv6", BOUND, frame(MAC, IPV6, &ipv6), Ok(())),
            ("cut IPv6", BOUND, frame(MAC, IPV6, &ipv6[..20]), Err(Refusal::Address)),
            ("other protocol", BOUND, frame(MAC, 0x8847, &[0; 20]), Err(Refusal::Address)),
            ("short", 0, MAC.to_vec(), Err(Refusal::Length)),
            ("long", 0, frame(MAC, IPV4, &[0; 200]), Err(Refusal::Length)),
            ("inside a VXLAN", VXLAN, frame(other, 0x8100, &[]), Ok(())),
        ] {
            let interface =
                layout::Interface { flags, mac: MAC, max_frame: 200, ..Default::default() };
            assert_eq!(bound.check(&interface, &frame), verdict, "{what}");
        }
    }

    #[test]
    fn a_tag_goes_between_addresses_and_type() {
        let interface = layout::Interface { flags: STRIP_VLAN, vlan: 10, ..Default::default() };
        let inner = frame(MAC, IPV4, &[1, 2, 3, 4]);
        let mut buffer = vec![0; 4];
        buffer.extend(&inner);
        finish(&interface, &layout::Encap::default(), &mut buffer, 4);
        let mut wanted = inner[..12].to_vec();
        wanted.extend([0x81, 0, 0, 10]);
        wanted.extend(&inner[12..]);
        assert_eq!(buffer, wanted);
    }
}
