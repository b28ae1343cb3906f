//! The far ends of a router's interfaces: they answer for every neighbour, and record all other
//! frames.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use europa_packet::{ArpPacket, EtherType, Frame, Header, MacAddr};
use europa_port::{Device, open_listener, set_promiscuous};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

/// The Ethernet address of a neighbour on an interface, by the last octet of its IP address.
pub(crate) fn mac(interface: usize, octet: u8) -> MacAddr {
    MacAddr([2, 0x10, interface as u8, 0, 0, octet])
}

/// One far end.
pub(crate) struct Far {
    socket: Arc<OwnedFd>,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Far {
    /// Opens a far end at a device of a namespace that sends nothing by itself.
    pub(crate) fn new(namespace: &str, device: &str, interface: usize) -> Far {
        let namespace = europa_port::Namespace::named(namespace).expect("a namespace");
        let device = Device::open(&namespace, device).expect("a device");
        let socket = Arc::new(open_listener(&device).expect("a packet socket"));
        set_promiscuous(&socket, &device, true).expect("promiscuous");
        let (heard, stop) = (Arc::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (socket, heard, stop) =
                (Arc::clone(&socket), Arc::clone(&heard), Arc::clone(&stop));
            std::thread::spawn(move || listen(&socket, interface, &heard, &stop))
        };
        Far { socket, heard, stop, thread: Some(thread) }
    }

    /// Opens a far end that only sends.
    pub(crate) fn sender(namespace: &str, device: &str) -> Sender {
        let namespace = europa_port::Namespace::named(namespace).expect("a namespace");
        let device = Device::open(&namespace, device).expect("a device");
        Sender(open_listener(&device).expect("a packet socket"))
    }

    /// Sends a frame. The frame is lost while the other end of the line is down.
    pub(crate) fn send(&self, frame: &[u8]) {
        // If the device has no room, the frame is sent again. A line without carrier reports the
        // same error.
        for _ in 0..20 {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Err(Errno::ENOBUFS | Errno::EAGAIN) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(error) => panic!("a frame is not sent: {error}"),
                Ok(_) => return,
            }
        }
    }

    /// Frames that have arrived since the last call.
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn forget(&self) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Sends frames, and discards received ones.
pub(crate) struct Sender(OwnedFd);

impl Sender {
    /// Sends a frame; returns whether there was room for it.
    pub(crate) fn try_send(&self, frame: &[u8]) -> bool {
        send(self.0.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT).is_ok()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(socket: &OwnedFd, interface: usize, heard: &Mutex<Vec<Vec<u8>>>, stop: &AtomicBool) {
    let mut buffer = [0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut wait = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut wait, PollTimeout::from(50u8));
        while let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            let frame = &buffer[..length];
            if let Some(answer) = answer(frame, interface) {
                let _ = send(socket.as_raw_fd(), &answer, MsgFlags::empty());
            } else if let Some(frame) = normal(frame) {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
            }
        }
    }
}

/// The answer to a question for a neighbour: every neighbour exists.
fn answer(frame: &[u8], interface: usize) -> Option<Vec<u8>> {
    let from = MacAddr(*frame.get(6..)?.first_chunk()?);
    match frame.get(12..14)? {
        [8, 6] => {
            let (arp, _) = ArpPacket::parse(frame.get(14..)?)?;
            let own = mac(interface, arp.target().octets()[3]);
            let is_probe = arp.sender().is_unspecified() || arp.sender() == arp.target();
            (arp.operation.get() == 1 && !is_probe)
                .then(|| Frame::new(own, from).arp(&arp.reply(own)))
        }
        [0x86, 0xdd] if frame.get(20) == Some(&58) && frame.get(54) == Some(&135) => {
            let source: [u8; 16] = *frame.get(22..)?.first_chunk()?;
            let target: [u8; 16] = *frame.get(62..)?.first_chunk()?;
            if source == [0; 16] {
                return None;
            }
            let own = mac(interface, target[15]);
            // Flags solicited and override; the option with the Ethernet address.
            let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
            message.extend(target);
            message.extend([2, 1]);
            message.extend(own.0);
            Some(Frame::new(own, from).ipv6(target, source).ttl(255).icmp6(&message))
        }
        _ => None,
    }
}

/// A frame without the fields that may differ between two equal routers. `None` for frames that may
/// be missing: ARP, Neighbor Discovery, and messages of routers about groups.
pub(crate) fn normal(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    let ether_type = EtherType(*frame.get(12..)?.first_chunk()?);
    let (protocol, header) = match ether_type {
        EtherType::IPV4 => {
            let header = usize::from(frame.get(14)? & 15) * 4;
            // The packet's number, and the checksum over it.
            frame.get_mut(18..20)?.fill(0);
            frame.get_mut(24..26)?.fill(0);
            (*frame.get(23)?, 14 + header)
        }
        EtherType::IPV6 => {
            // Senders choose flow labels freely.
            let label = frame.get_mut(15..18)?;
            label[0] &= 0xf0;
            label[1..].fill(0);
            (*frame.get(20)?, 54)
        }
        EtherType::ARP => return None,
        _ => return Some(frame),
    };
    let kind = frame.get(header).copied();
    match (protocol, kind) {
        (2, _) | (58, Some(130..=136 | 143)) => return None,
        // Redirects: the time of the next one depends on the time of the last one
        // (`ip_rt_send_redirect` and `ndisc_send_redirect` in the kernel).
        (1, Some(5)) | (58, Some(137)) => return None,
        // ESP numbers packets of all flows together (RFC 4303 section 2.2).
        (50, _) => frame.get_mut(header + 4..header + 8)?.fill(0),
        // Local senders leave TCP checksums to devices.
        (6, _) => frame.get_mut(header + 16..header + 18)?.fill(0),
        (17, _) => frame.get_mut(header + 6..header + 8)?.fill(0),
        (0, _) if ether_type == EtherType::IPV6 => return None,
        _ => {}
    }
    Some(frame)
}
