//! Sending: frames are copied from their slots into private memory after the header of each packet,
//! and sent in one system call.

use std::io::IoSlice;
use std::os::fd::AsRawFd;

use europa_pool::PoolView;
use europa_substrate::tap::Record;
use europa_tunnel::MOST_PARTS;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};

use super::Tunnel;
use crate::queue::Queued;
use crate::tables::{Shared, count};
use crate::tap::{Leaving, leaving};

/// Packets of one system call; all parts of a frame are sent in one.
const BATCH: usize = MOST_PARTS as usize;
/// Room for all packets of one system call: two of the longest frames, or more shorter ones.
const OUTBOX_BYTES: usize = 256 << 10;
/// Room that a frame and its headers may take.
const FRAME_BYTES: usize = (64 << 10) + BATCH * europa_tunnel::MOST_HEADER_BYTES;
/// Payloads for an underlay whose kernel refuses longer ones: IPv6's least MTU (RFC 8200 section
/// 5), then the length that every host takes (RFC 1122 section 3.3.2), minus the headers.
const SMALLER_BYTES: [usize; 2] = [1280 - 48, 576 - 28];

/// A packet with the end of a frame, or with another part of one.
#[derive(Clone, Copy)]
struct Packet {
    start: usize,
    end: usize,
    /// The frame whose last packet this is.
    ends: Option<Frame>,
}

#[derive(Clone, Copy)]
struct Frame {
    interface: u32,
    bytes: u64,
}

/// Packets that are copied and wait to be sent: of one tunnel at a time.
#[derive(Default)]
pub(super) struct Outbox(Option<Memory>);

struct Memory {
    bytes: Box<[u8]>,
    packets: Vec<Packet>,
    headers: MultiHeaders<SockaddrStorage>,
}

impl Memory {
    fn new() -> Self {
        Self {
            bytes: vec![0; OUTBOX_BYTES].into(),
            packets: Vec::with_capacity(BATCH),
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }

    fn end(&self) -> usize {
        self.packets.last().map_or(0, |packet| packet.end)
    }
}

impl Outbox {
    /// Copies a frame; false if it cannot leave, which is counted. Its slot is not needed any more.
    pub(super) fn add(
        &mut self,
        shared: &Shared,
        tunnel: &mut Tunnel,
        view: &PoolView,
        packet: Queued,
    ) -> bool {
        let length = usize::from(packet.word.length());
        let offset = view.slot_offset(packet.word.slot(), packet.word.offset().into());
        let slot_end =
            view.slot_offset(packet.word.slot(), 0) + view.layout().geometry.slot_bytes as usize;
        let parts = tunnel.sender.packets(length);
        let is_frame = length >= 14 && offset + length <= slot_end;
        let Some(parts) = parts.filter(|_| is_frame) else {
            count!(shared, packet.interface, tx_drop_length, 1);
            return false;
        };
        let memory = self.0.get_or_insert_with(Memory::new);
        if memory.packets.len() + usize::from(parts) > BATCH
            || memory.end() + FRAME_BYTES > memory.bytes.len()
        {
            send(memory, shared, tunnel);
        }
        let taps = shared.taps_of(packet.interface);
        if taps != 0 {
            record(memory, shared, view, (offset, length), (packet.interface, taps));
        }
        let Some(sent) = tunnel.sender.send(length) else { return false };
        for (header, range) in sent.packets() {
            let start = memory.end();
            let place = memory.bytes.get_mut(start..).unwrap_or_default();
            let Some(head) = header.write(place) else { break };
            let end = start + head + range.len();
            let Some(copy) = memory.bytes.get_mut(start + head..end) else { break };
            view.mapping().copy_out(offset + range.start, copy);
            let frame = Frame { interface: packet.interface, bytes: length as u64 };
            let ends = (range.end == length).then_some(frame);
            memory.packets.push(Packet { start, end, ends });
        }
        true
    }

    /// Sends all copies.
    pub(super) fn send(&mut self, shared: &Shared, tunnel: &mut Tunnel) {
        if let Some(memory) = &mut self.0 {
            send(memory, shared, tunnel);
        }
    }
}

/// Records a frame for captures.
#[cold]
fn record(
    memory: &mut Memory,
    shared: &Shared,
    view: &PoolView,
    (offset, length): (usize, usize),
    (interface, taps): (u32, u32),
) {
    let start = memory.end();
    let Some(copy) = memory.bytes.get_mut(start..start + length) else { return };
    view.mapping().copy_out(offset, copy);
    let (time_ns, outer, tagged, cause) = (Record::now_ns(), 0, false, 0);
    leaving(shared, &Leaving { taps, interface, bytes: copy, outer, tagged, cause, time_ns });
}

/// Sends all copies. If the kernel refuses a packet, its frame is lost, and counted once.
fn send(memory: &mut Memory, shared: &Shared, tunnel: &mut Tunnel) {
    let Memory { bytes, packets, headers } = memory;
    let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|index| {
        let range = packets.get(index).map_or(0..0, |packet| packet.start..packet.end);
        [IoSlice::new(bytes.get(range).unwrap_or_default())]
    });
    let addresses: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
    let (mut from, mut told, mut is_broken) = (0, false, false);
    let mut settle = |packet: &Packet, refused: bool, tunnel: &mut Tunnel| {
        is_broken |= refused;
        tunnel.sent.tx_packets += u64::from(!refused);
        let Some(frame) = packet.ends else { return };
        if is_broken {
            count!(shared, frame.interface, tx_drop_device, 1);
        } else {
            count!(shared, frame.interface, tx_packets, 1);
            count!(shared, frame.interface, tx_bytes, frame.bytes);
            tunnel.sent.tx_frames += 1;
            tunnel.sent.tx_bytes += frame.bytes;
        }
        is_broken = false;
    };
    while from < packets.len() {
        let result = sendmmsg(
            tunnel.socket.as_raw_fd(),
            headers,
            &slices[from..packets.len()],
            &addresses[from..packets.len()],
            [],
            MsgFlags::MSG_DONTWAIT,
        );
        match result {
            Ok(results) => {
                let taken = results.count().max(1);
                for packet in packets.iter().skip(from).take(taken) {
                    settle(packet, false, tunnel);
                }
                (from, told) = (from + taken, false);
            }
            Err(Errno::EINTR) => {}
            // An earlier packet was not taken at the other machine: this one was not looked at.
            Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH) if !told => told = true,
            Err(why) => {
                if why == Errno::EMSGSIZE {
                    shrink(tunnel);
                    tunnel.sent.too_long += 1;
                } else {
                    tunnel.sent.refused += 1;
                }
                if let Some(packet) = packets.get(from) {
                    settle(packet, true, tunnel);
                }
                from += 1;
            }
        }
    }
    packets.clear();
}

/// The underlay's MTU has decreased: packets are shorter until the node reports a new one.
#[cold]
fn shrink(tunnel: &mut Tunnel) {
    let now = tunnel.sender.most_bytes();
    if let Some(smaller) = SMALLER_BYTES.into_iter().find(|smaller| *smaller < now) {
        tunnel.sender.set_most_bytes(smaller);
    }
}
