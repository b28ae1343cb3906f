//! Sending by sockets: frames are copied into private memory, checked there, and handed to the
//! device in one system call. For small batches, for frames too long for live ones, for streams of
//! TCP, and for devices without live frames.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};

use europa_pool::PoolView;
use europa_substrate::cause;
use europa_substrate::layout::VXLAN;
use europa_substrate::tap::Record;

use crate::egress::{Policy, Refusal, before_frame, finish};
use crate::long::Long;
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Shared, count};
use crate::tap::{Leaving, leaving};
use crate::train::{MAX_HEADERS, OFFLOAD_BYTES, Train};

/// Packets of one system call.
pub(crate) const BATCH: usize = 64;
/// Room for one frame and its outer headers.
const FRAME_BYTES: usize = 16384 + 128;
/// Room for all packets of one system call, small enough for the core's cache.
const OUTBOX_BYTES: usize = 512 << 10;

/// A packet socket bound to a port's device.
pub(crate) struct Socket(OwnedFd);

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Whether all that was sent by it has left it.
    pub(crate) fn is_out(&self) -> bool {
        europa_port::is_out(&self.0)
    }
}

/// Packets that are copied and wait to be sent; one for all ports of a worker.
pub(crate) struct Outbox {
    memory: Box<[u8]>,
    packets: Vec<Copied>,
    /// The last packet, if the next segment of its stream may be merged with it.
    train: Option<Train>,
    headers: MultiHeaders<SockaddrStorage>,
}

/// A packet for the socket: its changes, and the frame.
struct Copied {
    start: usize,
    /// Length of the frame.
    length: usize,
    /// Number of frames in it.
    frames: u64,
    interface: u32,
    counted_bytes: u64,
    taps: u32,
    /// Bytes of outer headers, and whether there is a tag that the router does not see.
    outer: usize,
    tagged: bool,
    /// The rest of a super-packet, in its slot.
    rest: Option<Rest>,
}

/// Payload that the kernel copies from the pool: offset and bytes, and the holder of the slot.
#[derive(Clone, Copy)]
struct Rest {
    offset: usize,
    bytes: usize,
    packet: Queued,
}

impl Copied {
    fn frame(&self) -> Range<usize> {
        self.start + OFFLOAD_BYTES..self.end()
    }

    fn end(&self) -> usize {
        self.start + OFFLOAD_BYTES + self.length
    }
}

/// The results for the packets of an outbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Frames that the device took.
    pub(crate) frames: u64,
    /// Whether it accepted merged segments.
    pub(crate) merged: bool,
    /// Whether it refused some. A device without segmentation does, and one whose link is down.
    pub(crate) merged_refused: bool,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![0; OUTBOX_BYTES].into(),
            packets: Vec::with_capacity(BATCH),
            train: None,
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= BATCH || self.end() + FRAME_BYTES > self.memory.len()
    }

    fn end(&self) -> usize {
        self.packets.last().map_or(0, Copied::end)
    }

    /// Copies a frame, checks the copy and keeps it for sending, merged with the former one if
    /// possible; counts a refusal. Afterwards the slot is not needed.
    pub(crate) fn add(
        &mut self,
        shared: &Shared,
        view: &PoolView,
        policy: &Policy,
        packet: Queued,
        merge: bool,
    ) {
        let length = usize::from(packet.word.length());
        let offset = view.slot_offset(packet.word.slot(), packet.word.offset().into());
        let slot_end =
            view.slot_offset(packet.word.slot(), 0) + view.layout().geometry.slot_bytes as usize;
        let is_inside = offset + length <= slot_end;
        if is_inside && self.merge(view, packet.interface, offset, length) {
            return;
        }
        self.close();
        let interface = shared.interfaces.get(packet.interface);
        let encap = shared.encap.get(packet.interface);
        let before = before_frame(&interface, &encap);
        let start = self.end();
        let from = start + OFFLOAD_BYTES;
        let verdict = match self.memory.get_mut(from..from + before + length) {
            Some(copy) if is_inside => {
                view.mapping().copy_out(offset, &mut copy[before..]);
                let verdict = match shared.fence.holds(&interface) {
                    true => Err(Refusal::Fenced),
                    false => policy.check(&interface, &copy[before..]),
                };
                if verdict.is_ok() {
                    finish(&interface, &encap, copy, before);
                }
                verdict
            }
            _ => Err(Refusal::Length),
        };
        let tunnel = interface.flags & VXLAN != 0;
        match verdict {
            Ok(()) => {
                self.memory[start..from].fill(0);
                self.packets.push(Copied {
                    start,
                    length: before + length,
                    frames: 1,
                    interface: packet.interface,
                    counted_bytes: length as u64,
                    taps: interface.taps,
                    outer: if tunnel { before } else { 0 },
                    tagged: !tunnel && before > 0,
                    rest: None,
                });
                // A capture shows frames as the router sent them.
                if merge && before == 0 && interface.taps == 0 {
                    self.train = Train::begin(self.copy(from, length));
                }
            }
            Err(Refusal::Length) => count!(shared, packet.interface, tx_drop_length, 1),
            Err(Refusal::Source) => count!(shared, packet.interface, tx_drop_source, 1),
            Err(Refusal::Vlan) => count!(shared, packet.interface, tx_drop_vlan, 1),
            Err(Refusal::Address) => count!(shared, packet.interface, tx_drop_address, 1),
            Err(Refusal::Fenced) => count!(shared, packet.interface, tx_drop_fenced, 1),
        }
        if let Err(refusal) = verdict
            && interface.taps != 0
        {
            let (cause, bytes) = match refusal {
                Refusal::Length => (cause!(tx_drop_length), &[][..]),
                Refusal::Source => (cause!(tx_drop_source), self.copy(from + before, length)),
                Refusal::Vlan => (cause!(tx_drop_vlan), self.copy(from + before, length)),
                Refusal::Address => (cause!(tx_drop_address), self.copy(from + before, length)),
                Refusal::Fenced => (cause!(tx_drop_fenced), self.copy(from + before, length)),
            };
            let time_ns = Record::now_ns();
            let (taps, interface) = (interface.taps, packet.interface);
            let (outer, tagged) = (0, false);
            leaving(shared, &Leaving { taps, interface, bytes, outer, tagged, cause, time_ns });
        }
    }

    /// Copies the headers of a super-packet, checks the copy and keeps it to be sent; the slot is
    /// needed until then. If not, a refusal is counted.
    pub(crate) fn add_long(
        &mut self,
        shared: &Shared,
        view: &PoolView,
        policy: &Policy,
        packet: Queued,
    ) -> bool {
        self.close();
        let mut head = [0; MAX_HEADERS];
        let long = Long::read(view, packet.word, &mut head);
        let interface = shared.interfaces.get(packet.interface);
        let encap = shared.encap.get(packet.interface);
        let fits = |long: &Long| {
            long.longest() <= interface.max_frame as usize && before_frame(&interface, &encap) == 0
        };
        let Some(long) = long.filter(fits) else {
            count!(shared, packet.interface, tx_drop_length, 1);
            return false;
        };
        let head = &mut head[..long.headers];
        let verdict = match shared.fence.holds(&interface) {
            true => Err(Refusal::Fenced),
            false => policy.check(&interface, head),
        };
        match verdict {
            Ok(()) => {}
            Err(Refusal::Length) => count!(shared, packet.interface, tx_drop_length, long.frames()),
            Err(Refusal::Source) => count!(shared, packet.interface, tx_drop_source, long.frames()),
            Err(Refusal::Vlan) => count!(shared, packet.interface, tx_drop_vlan, long.frames()),
            Err(Refusal::Address) => {
                count!(shared, packet.interface, tx_drop_address, long.frames());
            }
            Err(Refusal::Fenced) => count!(shared, packet.interface, tx_drop_fenced, long.frames()),
        }
        let Some(offload) = long.finish(head).filter(|_| verdict.is_ok()) else { return false };
        let start = self.end();
        let from = start + OFFLOAD_BYTES;
        self.memory[start..from].copy_from_slice(&offload);
        self.memory[from..from + head.len()].copy_from_slice(head);
        let (offset, bytes) = long.payload(view, packet.word);
        self.packets.push(Copied {
            start,
            length: head.len(),
            frames: long.frames(),
            interface: packet.interface,
            counted_bytes: long.wire_bytes(),
            // With a capture it would have been cut.
            taps: 0,
            outer: 0,
            tagged: false,
            rest: Some(Rest { offset, bytes, packet }),
        });
        true
    }

    /// Appends a frame's payload to the last packet, if it is the next segment of its stream. It
    /// needs no separate check, as its headers are those of the first one.
    fn merge(&mut self, view: &PoolView, interface: u32, offset: usize, length: usize) -> bool {
        let Self { memory, packets, train: Some(train), .. } = self else { return false };
        let Some(last) = packets.last_mut().filter(|last| last.interface == interface) else {
            return false;
        };
        let mut head = [0; MAX_HEADERS];
        let head = &mut head[..length.min(MAX_HEADERS)];
        view.mapping().copy_out(offset, head);
        let (frames, free) = memory.split_at_mut(last.end());
        let Some(next) = train.next(&frames[last.frame()], head, length) else { return false };
        let headers = train.headers();
        let Some(payload) = free.get_mut(..length - headers) else { return false };
        view.mapping().copy_out(offset + headers, payload);
        if !train.take(next, &head[..headers], payload) {
            return false;
        }
        last.length += payload.len();
        last.frames += 1;
        last.counted_bytes += length as u64;
        true
    }

    /// Ends merging with the last packet.
    fn close(&mut self) {
        if let (Some(train), Some(last)) = (self.train.take(), self.packets.last()) {
            let offload = train.finish(&mut self.memory[last.frame()]);
            self.memory[last.start..][..OFFLOAD_BYTES].copy_from_slice(&offload);
        }
    }

    fn copy(&self, start: usize, length: usize) -> &[u8] {
        self.memory.get(start..start + length).unwrap_or_default()
    }

    /// Records a frame for the captures of its interface.
    fn tap(&self, shared: &Shared, index: usize, cause: u8, time_ns: u64) {
        let Some(packet) = self.packets.get(index).filter(|packet| packet.taps != 0) else {
            return;
        };
        let Copied { interface, taps, outer, tagged, .. } = *packet;
        let bytes = &self.memory[packet.frame()];
        leaving(shared, &Leaving { taps, interface, bytes, outer, tagged, cause, time_ns });
    }

    /// Sends all copies. Those that the device does not accept are lost and counted. Returns the
    /// slots of super-packets.
    pub(crate) fn send(&mut self, shared: &Shared, pools: &Pools, socket: &Socket) -> Sent {
        self.close();
        let packets = &self.packets;
        let parts: [[IoSlice<'_>; 2]; BATCH] = std::array::from_fn(|index| {
            let packet = packets.get(index);
            let bytes = packet.map_or(0..0, |packet| packet.start..packet.end());
            let rest = packet.and_then(|packet| packet.rest.as_ref()).and_then(|rest| {
                pools.get(&rest.packet.pool)?.view.mapping().io_slice(rest.offset, rest.bytes)
            });
            [IoSlice::new(&self.memory[bytes]), rest.unwrap_or(IoSlice::new(&[]))]
        });
        let slices: [&[IoSlice<'_>]; BATCH] = std::array::from_fn(|index| {
            let parts = &parts[index];
            let is_long = packets.get(index).is_some_and(|packet| packet.rest.is_some());
            if is_long { &parts[..] } else { &parts[..1] }
        });
        let addresses: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
        let mut sent = Sent::default();
        let mut from = 0;
        // Before they are sent, as an answer may arrive before the call returns.
        let tapped = packets.iter().any(|packet| packet.taps != 0).then(Record::now_ns);
        while from < packets.len() {
            let result = sendmmsg(
                socket.0.as_raw_fd(),
                &mut self.headers,
                &slices[from..packets.len()],
                &addresses[from..packets.len()],
                [],
                MsgFlags::MSG_DONTWAIT,
            );
            match result {
                Ok(results) => {
                    let taken = results.count().max(1);
                    for packet in packets.iter().skip(from).take(taken) {
                        count!(shared, packet.interface, tx_packets, packet.frames);
                        count!(shared, packet.interface, tx_bytes, packet.counted_bytes);
                        sent.frames += packet.frames;
                        sent.merged |= packet.frames > 1;
                    }
                    if let Some(time_ns) = tapped {
                        (from..from + taken).for_each(|at| self.tap(shared, at, 0, time_ns));
                    }
                    from += taken;
                }
                Err(Errno::EINTR) => {}
                // The first packet was refused: the others may still be sent.
                Err(why) => {
                    let packet = &packets[from];
                    count!(shared, packet.interface, tx_drop_device, packet.frames);
                    if let Some(time_ns) = tapped {
                        self.tap(shared, from, cause!(tx_drop_device), time_ns);
                    }
                    sent.merged_refused |= packet.frames > 1 && why == Errno::ENOBUFS;
                    from += 1;
                }
            }
        }
        for rest in self.packets.iter().filter_map(|packet| packet.rest.as_ref()) {
            pools.give_back(shared, &rest.packet);
        }
        self.packets.clear();
        sent
    }
}
