//! One interface and its sockets: receives, sends, and gives frames to Linux.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

use europa_engine::{Arena, Batch, Interface, Packet, PacketType, Refused};
use europa_port::{
    Device, Frame, open_listener, open_queued, open_socket, prepare_listener, receive,
    set_promiscuous,
};
use europa_substrate::{Given, Kept};
use nix::sys::socket::{MsgFlags, send, sendmsg, setsockopt, sockopt};

use super::names::Wanted;
use super::segment::{Segments, complete};

/// The kernel's packet type of frames that this machine sends.
const OUTGOING: u8 = 4;
/// Size of the buffer, in bytes, for frames that arrive during other work, such as a replacement.
/// The system's default has room for 270 short frames.
const WAITING_BYTES: usize = 4 << 20;
/// Bytes of the longest frame: 64 KiB of merged segments with their headers.
const FRAME_BYTES: usize = 65536 + 256;
/// Length of a frame's two addresses; the VLAN tag follows them.
const ADDRESSES: usize = 12;
/// Bytes before each sent frame: the description of work that is left to the device.
const HEADER_BYTES: usize = 10;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A device's result for sent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// Its queue is full.
    Full,
}

/// One interface and its sockets.
pub(super) struct Open {
    pub(super) interface: Interface,
    /// The names of the interface in the configuration.
    pub(super) names: Vec<String>,
    device: Device,
    pub(super) socket: OwnedFd,
    wanted: Wanted,
    frame: Vec<u8>,
    /// The remaining segments of a frame, with their common part.
    rest: Option<(Segments, Frame)>,
    /// The socket that gives frames to Linux, and its present mark.
    host: Option<(OwnedFd, u32)>,
    kept: Option<Kept>,
    refused: Refused,
    /// Received frames that were longer than any buffer.
    pub(super) too_long: u64,
}

impl Open {
    /// Opens an interface, and keeps its frames from Linux if requested.
    pub(super) fn new(device: Device, names: Vec<String>, wanted: Wanted) -> Result<Open, String> {
        // A socket that no element reads would fill with frames.
        let opened = if wanted.receives { open_listener(&device) } else { open_socket(&device) };
        let socket = opened.map_err(|error| error.to_string())?;
        let prepared = prepare_listener(&socket, &device, Given::common());
        prepared.map_err(|error| error.to_string())?;
        if wanted.promiscuous {
            set_promiscuous(&socket, &device, true).map_err(|error| error.to_string())?;
        }
        // If the process has no right to do this, it has the default.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &WAITING_BYTES);
        let interface = Interface {
            name: device.name.clone(),
            mac: device.mac,
            mtu: device.mtu,
            address: None,
        };
        let mut open = Open {
            interface,
            names,
            device,
            socket,
            wanted,
            frame: vec![0; FRAME_BYTES],
            rest: None,
            host: None,
            kept: None,
            refused: Refused::default(),
            too_long: 0,
        };
        open.keep()?;
        Ok(open)
    }

    /// Keeps frames from Linux, or opens a socket to give it some, as requested.
    fn keep(&mut self) -> Result<(), String> {
        if !self.wanted.alone && !self.wanted.gives {
            return Ok(());
        }
        let said = |error: String| format!("{}: {error}", self.interface.name);
        let kept = Kept::attach(self.device.index, self.wanted.alone);
        self.kept = Some(kept.map_err(|error| said(error.to_string()))?);
        if self.wanted.gives {
            let socket = open_queued(&self.device).map_err(|error| error.to_string())?;
            self.host = Some((socket, 0));
        }
        Ok(())
    }

    /// Whether an element receives the interface's frames.
    pub(super) fn receives(&self) -> bool {
        self.wanted.receives
    }

    /// Whether a part of the last frame has not been taken yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.rest.is_some()
    }

    /// Takes over the socket of the same interface, and its frames.
    pub(super) fn take_socket(&mut self, old: &mut Open) {
        // A socket that does not receive holds no frames.
        if !self.wanted.receives || !old.wanted.receives {
            return;
        }
        std::mem::swap(&mut self.socket, &mut old.socket);
        std::mem::swap(&mut self.frame, &mut old.frame);
        self.rest = old.rest.take();
        let wanted = self.wanted.promiscuous;
        if wanted != old.wanted.promiscuous {
            // A removed device delivers no frames anyway.
            let _ = set_promiscuous(&self.socket, &self.device, wanted);
        }
    }

    /// Receives up to `max` packets of interface number `number`.
    pub(super) fn receive(&mut self, number: u16, batch: &mut Batch, max: usize, arena: &Arena) {
        let room = max.min(batch.room());
        // Skipped frames count too, so that a round ends.
        let mut left = room;
        while left > 0 {
            left -= 1;
            let packet = match self.rest.take() {
                Some((segments, frame)) => self.next_segment(segments, frame, arena),
                None => match self.next_frame(arena) {
                    Ok(packet) => packet,
                    Err(_) => return,
                },
            };
            if let Some((mut packet, kind)) = packet {
                packet.set_interface(number);
                if kind == OUTGOING {
                    packet.set_packet_type(PacketType::Outgoing);
                } else if let Some(to) = packet.data().first_chunk() {
                    packet.set_packet_type(PacketType::of(*to, self.interface.mac));
                }
                let _ = batch.push(packet);
            }
        }
    }

    /// The next frame as a packet, or the first of its segments; `None` if it is not for the
    /// router.
    fn next_frame(&mut self, arena: &Arena) -> io::Result<Option<(Packet, u8)>> {
        let frame = receive(&self.socket, &mut self.frame)?;
        if frame.kind == OUTGOING && !self.wanted.outbound {
            return Ok(None);
        }
        let Some(data) = self.frame.get_mut(..frame.length) else {
            self.too_long += 1;
            return Ok(None);
        };
        if let Some((merged, partial)) = frame.merged.zip(frame.partial)
            && let Some(segments) = Segments::new(data, merged, partial)
        {
            return Ok(self.next_segment(segments, frame, arena));
        }
        if let Some(partial) = frame.partial {
            // If the place lies outside the frame, there is no checksum.
            complete(data, partial);
        }
        let packet = make(data, &[], frame.tag, arena);
        self.too_long += u64::from(packet.is_none());
        Ok(packet.map(|packet| (packet, frame.kind)))
    }

    fn next_segment(
        &mut self,
        mut segments: Segments,
        frame: Frame,
        arena: &Arena,
    ) -> Option<(Packet, u8)> {
        let data = self.frame.get(..frame.length)?;
        let made = segments.next(data, |head, body| make(head, body, frame.tag, arena))?;
        self.rest = Some((segments, frame));
        self.too_long += u64::from(made.is_none());
        made.map(|packet| (packet, frame.kind))
    }

    /// Sends packets from the front of a batch, as many as the device takes.
    pub(super) fn send(&mut self, batch: &mut Batch) -> Sent {
        let (mut done, mut sent) = (0, Sent::All);
        for packet in batch.iter() {
            // The header before the frame: no work is left to the device.
            let parts = [IoSlice::new(&[0; HEADER_BYTES]), IoSlice::new(packet.data())];
            let flags = MsgFlags::MSG_DONTWAIT;
            match sendmsg::<()>(self.socket.as_raw_fd(), &parts, &[], flags, None) {
                Ok(_) => done += 1,
                Err(nix::Error::EAGAIN | nix::Error::ENOBUFS) => {
                    sent = Sent::Full;
                    break;
                }
                // The device refuses the frame permanently.
                Err(error) => {
                    done += 1;
                    self.refused.frames += 1;
                    self.refused.errno = error as i32;
                }
            }
        }
        batch.drain_front(done);
        sent
    }

    /// Gives packets to Linux, or to programs that capture on the interface.
    pub(super) fn give(&mut self, batch: &mut Batch, sniffers: bool) {
        let Some((socket, mark)) = &mut self.host else { return batch.clear() };
        for packet in batch.drain() {
            let given = match sniffers {
                true => Given::Sniffers,
                false => Given::Host(kind_of(packet.packet_type())),
            };
            if *mark != given.mark() && setsockopt(socket, sockopt::Mark, &given.mark()).is_ok() {
                *mark = given.mark();
            }
            // Without the mark, the frame would leave by the device.
            let taken = *mark == given.mark()
                && send(socket.as_raw_fd(), packet.data(), MsgFlags::MSG_DONTWAIT).is_ok();
            self.refused.frames += u64::from(!taken);
        }
    }

    pub(super) fn take_refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}

/// The kernel's packet type; packets from this machine count as addressed to it.
fn kind_of(packet_type: PacketType) -> u8 {
    match packet_type {
        PacketType::Broadcast => 1,
        PacketType::Multicast => 2,
        PacketType::OtherHost => 3,
        _ => 0,
    }
}

/// A packet from a frame in two parts, with the VLAN tag that the kernel has removed.
fn make(head: &[u8], body: &[u8], tag: Option<[u16; 2]>, arena: &Arena) -> Option<Packet> {
    let mut packet = arena.alloc()?;
    let mut add = |bytes: &[u8]| -> Option<()> {
        packet.put(bytes.len())?.copy_from_slice(bytes);
        Some(())
    };
    match tag.zip(head.split_at_checked(ADDRESSES)) {
        Some(([kind, value], (addresses, rest))) if rest.len() >= ETHERNET - ADDRESSES => {
            add(addresses)?;
            add(&kind.to_be_bytes())?;
            add(&value.to_be_bytes())?;
            add(rest)?;
        }
        _ => add(head)?,
    }
    add(body)?;
    Some(packet)
}
