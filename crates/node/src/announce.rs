//! Tells a LAN where the addresses of a router are that has come to a port there, perhaps from
//! another node: stations replace their entries, and bridges learn the port.
//!
//! Each address is announced at 0, 1 and 2 s: by ARP announcements (RFC 5227 section 2.3) and
//! unsolicited neighbour advertisements (RFC 4861 section 7.2.6).

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use europa_packet::{IpProtocol, checksum};
use europa_plan::InterfacePlan;
use europa_port::{Device, open_socket};
use europa_substrate::layout::{self, FENCED};
use europa_substrate::{Fence, Substrate};
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendmsg};

use crate::{Doing, NodeError};

/// Times that each address is announced, and the time between them.
const TIMES: u32 = 3;
const EVERY: Duration = Duration::from_secs(1);
/// Bytes before each frame: an empty `struct virtio_net_hdr`.
const OFFLOAD_BYTES: usize = 10;

const BROADCAST: [u8; 6] = [0xff; 6];
/// All nodes, as an IPv6 address and as its Ethernet address (RFC 2464 section 7).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// From a router, and it replaces the known link-layer address (RFC 4861 section 4.4).
const ROUTER_OVERRIDE: [u8; 4] = [0xa0, 0, 0, 0];

/// Announces the addresses of an interface that has come to a port, if another node may have had it
/// before. A thread does it.
///
/// # Errors
/// The kernel refuses a socket or a thread.
pub(crate) fn announce(
    substrate: &Substrate,
    device: &Device,
    interface: &InterfacePlan,
) -> Result<(), NodeError> {
    let spec = &interface.spec;
    // Inside a tunnel, only its other end sees them.
    if spec.flags & FENCED == 0 || interface.tunnel.is_some() || interface.addresses.is_empty() {
        return Ok(());
    }
    let addresses = interface.addresses.iter().map(ipnet::IpNet::addr);
    let frames: Vec<Vec<u8>> = addresses.map(|one| frame(spec.mac, spec.vlan, one)).collect();
    let socket = open_socket(device)?;
    let fence = Fence::new(substrate.share("fence")?).doing("mapping the fence")?;
    let work = move || run(&socket, &fence, &frames);
    thread::Builder::new().name("announce".into()).spawn(work).doing("announcing addresses")?;
    Ok(())
}

fn run(socket: &OwnedFd, fence: &Fence, frames: &[Vec<u8>]) {
    let fenced = layout::Interface { flags: FENCED, ..layout::Interface::default() };
    for time in 0..TIMES {
        if time > 0 {
            thread::sleep(EVERY);
        }
        if fence.holds(&fenced) {
            continue;
        }
        for frame in frames {
            let parts = [IoSlice::new(&[0; OFFLOAD_BYTES]), IoSlice::new(frame)];
            // A frame that a full device does not take is sent again a second later.
            let _ = sendmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &parts,
                &[],
                MsgFlags::MSG_DONTWAIT,
                None,
            );
        }
    }
}

/// The announcement of an address at an Ethernet address; VLAN 0 for none.
fn frame(mac: [u8; 6], vlan: u16, address: IpAddr) -> Vec<u8> {
    let (to, kind, payload) = match address {
        IpAddr::V4(address) => (BROADCAST, 0x0806_u16, arp(mac, address)),
        IpAddr::V6(address) => (ALL_NODES_MAC, 0x86dd, advertisement(mac, address)),
    };
    let mut frame = [to, mac].concat();
    if vlan != 0 {
        frame.extend([0x8100_u16, vlan].map(u16::to_be_bytes).concat());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A request for the sender's own address (RFC 826; RFC 5227 section 2.3).
fn arp(mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0, 1, 0x08, 0, 6, 4, 0, 1];
    packet.extend(mac);
    packet.extend(address.octets());
    packet.extend([0; 6]);
    packet.extend(address.octets());
    packet
}

/// A neighbour advertisement with the target's link-layer address (RFC 4861 sections 4.4 and 4.6.1).
fn advertisement(mac: [u8; 6], address: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0];
    message.extend(ROUTER_OVERRIDE);
    message.extend(address.octets());
    message.extend([2, 1]);
    message.extend(mac);
    let bytes = message.len() as u16;
    let pseudo = checksum::pseudo_v6(address, ALL_NODES, IpProtocol::ICMP6, bytes.into());
    let check = (pseudo + checksum::sum(&message)).checksum();
    message[2..4].copy_from_slice(&check.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(bytes.to_be_bytes());
    packet.extend([IpProtocol::ICMP6.0, 255]);
    packet.extend(address.octets());
    packet.extend(ALL_NODES.octets());
    packet.extend(message);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    #[test]
    fn an_arp_announcement_in_a_vlan() {
        let mut wanted = vec![0xff; 6];
        wanted.extend([2, 0, 0, 0, 0, 9, 0x81, 0, 0, 10, 8, 6]);
        wanted.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 9, 0, 1]);
        wanted.extend([0, 0, 0, 0, 0, 0, 10, 9, 0, 1]);
        assert_eq!(frame(MAC, 10, Ipv4Addr::new(10, 9, 0, 1).into()), wanted);
    }

    #[test]
    fn an_advertisement_with_a_right_checksum() {
        let address: Ipv6Addr = "fd09::1".parse().unwrap();
        let frame = frame(MAC, 0, address.into());
        assert_eq!(frame.len(), 14 + 40 + 32);
        assert_eq!(frame[..14], [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd]);
        assert_eq!((frame[14 + 6], frame[14 + 7]), (58, 255));
        let message = &frame[54..];
        let pseudo = checksum::pseudo_v6(address, ALL_NODES, IpProtocol::ICMP6, 32);
        assert!((pseudo + checksum::sum(message)).is_valid());
        assert_eq!(message[..2], [136, 0]);
        assert_eq!(message[4..8], ROUTER_OVERRIDE);
        assert_eq!(message[8..24], address.octets());
        assert_eq!(message[24..], [2, 1, 2, 0, 0, 0, 0, 9]);
    }
}
