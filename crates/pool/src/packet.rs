//! The handle of one packet.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::arena::{Arena, Shared};
use crate::layout::{KEY_BYTES, Metadata, RESULT_BYTES, SLOT_METADATA_BYTES};

/// Bytes of annotations in the first cache line.
const HOT_ANNOTATIONS: usize = 24;
/// Bytes of Click's annotation area.
pub const ANNOTATION_BYTES: usize = 48;
/// A header offset that is not set.
const UNSET: u16 = u16::MAX;

/// Offsets in the annotation area, as Click has them.
pub mod annotation {
    /// IPv4 destination, 4 bytes in network order.
    pub const DST_IP: usize = 0;
    /// IPv6 destination, 16 bytes.
    pub const DST_IP6: usize = 0;
    /// Paint colour, 1 byte.
    pub const PAINT: usize = 16;
    /// Offset of the byte that an ICMP parameter problem points at, 1 byte.
    pub const ICMP_PARAMETER_PROBLEM: usize = 17;
    /// Whether `FixIPSrc` must write the source address, 1 byte.
    pub const FIX_IP_SRC: usize = 19;
    /// VLAN tag control information, 2 bytes in network order.
    pub const VLAN_TCI: usize = 20;
    /// Aggregate number, 4 bytes.
    pub const AGGREGATE: usize = 20;
    /// Number of packets that this one represents in addition to itself, 4 bytes.
    pub const EXTRA_PACKETS: usize = 24;
    /// Bytes missing from the end of the packet, 4 bytes.
    pub const EXTRA_LENGTH: usize = 28;
    /// Time of the first packet of a set, 8 bytes.
    pub const FIRST_TIMESTAMP: usize = 32;
    /// Number of the packet, 4 bytes.
    pub const PACKET_NUMBER: usize = 32;
    /// Sequence number, 4 bytes.
    pub const SEQUENCE_NUMBER: usize = 36;
    /// Value of a performance counter, 8 bytes.
    pub const PERFORMANCE_COUNTER: usize = 40;
}

/// The stations on its link that a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// For this host.
    #[default]
    Host = 0,
    /// For all.
    Broadcast = 1,
    /// For a group.
    Multicast = 2,
    /// For another host.
    OtherHost = 3,
    /// Made by this host, on its way out.
    Outgoing = 4,
    /// Sent to itself.
    Loopback = 5,
    /// Removed from the usual path.
    FastRoute = 6,
}

impl PacketType {
    /// The packet type of a frame with this destination address, for the host with the address
    /// `own`.
    pub fn of(destination: [u8; 6], own: [u8; 6]) -> PacketType {
        if destination == own {
            PacketType::Host
        } else if destination == [0xff; 6] {
            PacketType::Broadcast
        } else if destination[0] & 1 != 0 {
            PacketType::Multicast
        } else {
            PacketType::OtherHost
        }
    }
}

/// The owner of a buffer; see [`crate::arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Away, and not used so far: its entry is zero.
    Fresh = 0,
    /// On the arena's stack.
    Free,
    /// One packet exists.
    Live,
    /// The other side of a ring.
    Away,
}

/// The fields that forwarding uses: one cache line.
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// First byte of the packet, always in the buffer.
    data: NonNull<u8>,
    pub(crate) shared: NonNull<Shared>,
    /// Of the buffer in its arena.
    pub(crate) index: u32,
    /// Offset of `data` in the buffer; metadata_bytes <= offset, offset + length <= buffer_bytes.
    offset: u16,
    length: u16,
    /// Offsets of the headers in the buffer, or UNSET.
    mac: u16,
    network: u16,
    transport: u16,
    interface: u16,
    /// The slice's queue by which the packet leaves.
    queue: u16,
    packet_type: PacketType,
    pub(crate) state: State,
    /// Whether the entry in `Cold` belongs to this packet. If not, all its fields count as zero.
    cold: bool,
    /// Whether the slot's metadata has a key to look up, and whether it has a result.
    keyed: bool,
    answered: bool,
    annotations: [u8; HOT_ANNOTATIONS],
}

/// The rest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cold {
    annotations: [u8; ANNOTATION_BYTES - HOT_ANNOTATIONS],
    timestamp_ns: u64,
}

const _: () = assert!(size_of::<Hot>() == 64 && size_of::<Packet>() == 8);
// Arenas begin with zeroed memory.
const _: () = assert!(State::Fresh as u8 == 0);

impl Hot {
    /// An entry without a packet.
    pub(crate) fn unused(
        shared: NonNull<Shared>,
        index: u32,
        data: NonNull<u8>,
        state: State,
    ) -> Hot {
        Hot {
            data,
            shared,
            index,
            offset: 0,
            length: 0,
            mac: UNSET,
            network: UNSET,
            transport: UNSET,
            interface: 0,
            queue: 0,
            packet_type: PacketType::Host,
            state,
            cold: false,
            keyed: false,
            answered: false,
            annotations: [0; HOT_ANNOTATIONS],
        }
    }

    /// Starts a new packet here.
    #[inline(always)]
    pub(crate) fn start(&mut self, data: NonNull<u8>, offset: u16, length: u16) {
        *self = Hot {
            data,
            shared: self.shared,
            index: self.index,
            offset,
            length,
            mac: UNSET,
            network: UNSET,
            transport: UNSET,
            interface: 0,
            queue: 0,
            packet_type: PacketType::Host,
            state: State::Live,
            cold: false,
            keyed: false,
            answered: false,
            annotations: [0; HOT_ANNOTATIONS],
        }
    }
}

/// The place of a packet in its pool, for a ring's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the slot in the pool.
    pub slot: u32,
    /// Start of the packet in the slot, in bytes.
    pub offset: u16,
    /// Length of the packet, in bytes.
    pub length: u16,
    /// The slice's queue by which the packet leaves.
    pub queue: u16,
    /// Whether its metadata has a key to look up.
    pub keyed: bool,
}

/// One packet: the only handle to its buffer, 8 bytes. Dropping it frees the buffer.
///
/// Positions of headers are offsets in the buffer, so they stay valid when bytes are pushed or
/// pulled. A header may lie before the packet's first byte, for example after `Strip`.
pub struct Packet(pub(crate) NonNull<Hot>);

impl Packet {
    #[inline(always)]
    fn hot(&self) -> &Hot {
        // SAFETY: this handle is live, so the entry exists, and no other code changes it.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn hot_mut(&mut self) -> &mut Hot {
        // SAFETY: as in `hot`, and this handle is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }

    #[inline(always)]
    fn shared(&self) -> &Shared {
        // SAFETY: an arena's memory exists as long as the arena has a live packet.
        unsafe { self.hot().shared.as_ref() }
    }

    /// The packet's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        let hot = self.hot();
        // SAFETY: offset and length lie in the buffer, which is initialised and owned by this
        // handle.
        unsafe { std::slice::from_raw_parts(hot.data.as_ptr(), usize::from(hot.length)) }
    }

    /// The packet's bytes, to change.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let hot = self.hot();
        // SAFETY: as in `data`; the handle is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(hot.data.as_ptr(), usize::from(hot.length)) }
    }

    /// `N` bytes from byte `at` on, if the packet has them. Costs one comparison; a slice of
    /// [`Packet::data`] costs three.
    #[inline(always)]
    pub fn bytes<const N: usize>(&self, at: u32) -> Option<&[u8; N]> {
        let hot = self.hot();
        if at as usize + N > usize::from(hot.length) {
            return None;
        }
        // SAFETY: at + N <= length, and as in `data`.
        unsafe { Some(hot.data.add(at as usize).cast().as_ref()) }
    }

    /// Length, in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "an empty packet is nothing special")]
    pub fn len(&self) -> usize {
        usize::from(self.hot().length)
    }

    /// Bytes that can be pushed.
    #[inline(always)]
    pub fn headroom(&self) -> usize {
        usize::from(self.hot().offset) - SLOT_METADATA_BYTES as usize
    }

    /// Bytes that can be put.
    #[inline(always)]
    pub fn tailroom(&self) -> usize {
        let hot = self.hot();
        usize::from(self.shared().buffer_bytes) - usize::from(hot.offset) - usize::from(hot.length)
    }

    /// Adds `count` bytes with arbitrary contents at the front and returns them. If the headroom is
    /// too small, returns `None` and changes nothing.
    #[inline(always)]
    pub fn push(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.headroom() {
            return None;
        }
        let hot = self.hot_mut();
        hot.offset -= count as u16;
        hot.length += count as u16;
        // SAFETY: the new offset is still behind the metadata, so it is inside the buffer.
        hot.data = unsafe { hot.data.sub(count) };
        self.data_mut().get_mut(..count)
    }

    /// Adds `bytes` at the front. If the headroom is too small, returns `None` and changes nothing.
    #[inline(always)]
    pub fn push_bytes<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        const { assert!(N <= u8::MAX as usize) };
        let hot = self.hot_mut();
        if usize::from(hot.offset) < SLOT_METADATA_BYTES as usize + N {
            return None;
        }
        hot.offset -= N as u16;
        hot.length += N as u16;
        // SAFETY: the new offset is still behind the metadata, so it is inside the buffer, which
        // this handle owns. There are N bytes before the old `data`.
        unsafe {
            hot.data = hot.data.sub(N);
            hot.data.cast().write_unaligned(*bytes);
        }
        Some(())
    }

    /// Removes `count` bytes at the front. If there are fewer, returns `None` and changes nothing.
    #[inline(always)]
    pub fn pull(&mut self, count: usize) -> Option<()> {
        let hot = self.hot_mut();
        if count > usize::from(hot.length) {
            return None;
        }
        hot.offset += count as u16;
        hot.length -= count as u16;
        // SAFETY: the packet had this many bytes, so the address is at most its end.
        hot.data = unsafe { hot.data.add(count) };
        Some(())
    }

    /// Adds `count` bytes with arbitrary contents at the end and returns them. If the tailroom is
    /// too small, returns `None` and changes nothing.
    #[inline(always)]
    pub fn put(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.tailroom() {
            return None;
        }
        let length = self.len();
        self.hot_mut().length += count as u16;
        self.data_mut().get_mut(length..)
    }

    /// Removes `count` bytes at the end. If there are fewer, returns `None` and changes nothing.
    #[inline(always)]
    pub fn take(&mut self, count: usize) -> Option<()> {
        let hot = self.hot_mut();
        hot.length = hot.length.checked_sub(u16::try_from(count).ok()?)?;
        Some(())
    }

    /// Moves the contents so that the headroom becomes `headroom` bytes, and moves headers too. If
    /// the packet would not fit, returns `None` and changes nothing. Costs a copy of the packet.
    pub fn set_headroom(&mut self, headroom: usize) -> Option<()> {
        let old = self.headroom();
        if headroom + self.len() > old + self.len() + self.tailroom() {
            return None;
        }
        let length = self.len();
        let hot = self.hot_mut();
        // SAFETY: both places lie in the buffer, which this handle owns; `copy` allows overlap.
        unsafe {
            let to = hot.data.sub(old).add(headroom);
            std::ptr::copy(hot.data.as_ptr(), to.as_ptr(), length);
            hot.data = to;
        }
        let offset = SLOT_METADATA_BYTES as usize + headroom;
        let previous = hot.offset;
        for header in [&mut hot.mac, &mut hot.network, &mut hot.transport] {
            // A header before the packet was not moved, so it is unset.
            *header = match header.checked_sub(previous) {
                Some(distance) if *header != UNSET => offset as u16 + distance,
                _ => UNSET,
            };
        }
        hot.offset = offset as u16;
        Some(())
    }

    /// The bytes from a header's position in the buffer to the end of the packet.
    #[inline(always)]
    fn header(&self, place: u16) -> Option<&[u8]> {
        let hot = self.hot();
        let length = (hot.offset + hot.length).checked_sub(place)?;
        // SAFETY: place <= offset + length <= buffer_bytes. The whole buffer is initialised and
        // owned by this handle, and `data - offset` is its start.
        unsafe {
            let start = hot.data.sub(usize::from(hot.offset)).add(usize::from(place));
            Some(std::slice::from_raw_parts(start.as_ptr(), usize::from(length)))
        }
    }

    #[inline(always)]
    fn header_mut(&mut self, place: u16) -> Option<&mut [u8]> {
        let hot = self.hot();
        let length = (hot.offset + hot.length).checked_sub(place)?;
        // SAFETY: as in `header`; the handle is borrowed exclusively.
        unsafe {
            let start = hot.data.sub(usize::from(hot.offset)).add(usize::from(place));
            Some(std::slice::from_raw_parts_mut(start.as_ptr(), usize::from(length)))
        }
    }

    /// Position of byte `at` of the packet in the buffer; UNSET if the packet is shorter.
    #[inline(always)]
    fn place(&self, at: usize) -> u16 {
        if at <= self.len() { self.hot().offset + at as u16 } else { UNSET }
    }

    /// Distance of a header from the packet's first byte; negative if the header begins before it.
    #[inline(always)]
    fn distance(&self, place: u16) -> Option<isize> {
        (place != UNSET).then(|| place as isize - self.hot().offset as isize)
    }

    /// The bytes from the link header to the end of the packet; `None` if the position is not set.
    #[inline(always)]
    pub fn mac_header(&self) -> Option<&[u8]> {
        self.header(self.hot().mac)
    }

    /// The bytes from the network header to the end of the packet; `None` if the position is not
    /// set.
    #[inline(always)]
    pub fn network_header(&self) -> Option<&[u8]> {
        self.header(self.hot().network)
    }

    /// The bytes from the transport header to the end of the packet; `None` if the position is not
    /// set.
    #[inline(always)]
    pub fn transport_header(&self) -> Option<&[u8]> {
        self.header(self.hot().transport)
    }

    /// See [`Packet::mac_header`].
    #[inline(always)]
    pub fn mac_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.hot().mac)
    }

    /// See [`Packet::network_header`].
    #[inline(always)]
    pub fn network_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.hot().network)
    }

    /// See [`Packet::transport_header`].
    #[inline(always)]
    pub fn transport_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.hot().transport)
    }

    /// The first `N` bytes of the network header; `None` if its position is not set or the packet
    /// is shorter.
    #[inline(always)]
    pub fn network_bytes<const N: usize>(&self) -> Option<&[u8; N]> {
        let hot = self.hot();
        // UNSET lies behind the end of any buffer.
        if usize::from(hot.network) + N > usize::from(hot.offset) + usize::from(hot.length) {
            return None;
        }
        // SAFETY: network + N <= offset + length, and as in `header`.
        unsafe {
            let start = hot.data.sub(usize::from(hot.offset)).add(usize::from(hot.network));
            Some(start.cast().as_ref())
        }
    }

    /// See [`Packet::network_bytes`].
    #[inline(always)]
    pub fn network_bytes_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let hot = self.hot();
        if usize::from(hot.network) + N > usize::from(hot.offset) + usize::from(hot.length) {
            return None;
        }
        // SAFETY: as in `network_bytes`; the handle is borrowed exclusively.
        unsafe {
            let start = hot.data.sub(usize::from(hot.offset)).add(usize::from(hot.network));
            Some(start.cast().as_mut())
        }
    }

    /// Number of bytes from the network header to the end of the packet; 0 if its position is not
    /// set.
    #[inline(always)]
    pub fn network_len(&self) -> usize {
        let hot = self.hot();
        let end = usize::from(hot.offset) + usize::from(hot.length);
        end.saturating_sub(usize::from(hot.network))
    }

    /// Offset of the link header from the packet's first byte; negative if it begins before it.
    #[inline(always)]
    pub fn mac_offset(&self) -> Option<isize> {
        self.distance(self.hot().mac)
    }

    /// Offset of the network header from the packet's first byte; negative if it begins before it.
    #[inline(always)]
    pub fn network_offset(&self) -> Option<isize> {
        self.distance(self.hot().network)
    }

    /// Offset of the transport header from the packet's first byte; negative if it begins before
    /// it.
    #[inline(always)]
    pub fn transport_offset(&self) -> Option<isize> {
        self.distance(self.hot().transport)
    }

    /// Sets the link header at byte `at`; unsets it if that is after the end of the packet.
    #[inline(always)]
    pub fn set_mac_header(&mut self, at: usize) {
        let place = self.place(at);
        self.hot_mut().mac = place;
    }

    /// Sets the network header at byte `at` and the transport header `length` bytes later; unsets
    /// them if they are after the end of the packet.
    #[inline(always)]
    pub fn set_network_header(&mut self, at: usize, length: usize) {
        let (network, transport) = (self.place(at), self.place(at + length));
        let hot = self.hot_mut();
        hot.network = network;
        hot.transport = transport;
    }

    /// Marks an IP packet at byte `at`: its header has `header_length` bytes, the whole packet has
    /// `length`. Later bytes are cut off. If the packet is shorter, returns `None` and changes
    /// nothing.
    #[inline(always)]
    pub fn set_ip_packet(&mut self, at: usize, header_length: usize, length: usize) -> Option<()> {
        let hot = self.hot_mut();
        let end = at + length;
        if end > usize::from(hot.length) || header_length > length {
            return None;
        }
        hot.length = end as u16;
        // The offset is inside the packet, and so inside the buffer: 16 bits are enough.
        hot.network = hot.offset + at as u16;
        hot.transport = hot.network + header_length as u16;
        Some(())
    }

    /// Sets the transport header at byte `at`; unsets it if that is after the end.
    #[inline(always)]
    pub fn set_transport_header(&mut self, at: usize) {
        let place = self.place(at);
        self.hot_mut().transport = place;
    }

    /// The stations on its link that the packet is for.
    #[inline(always)]
    pub fn packet_type(&self) -> PacketType {
        self.hot().packet_type
    }

    /// Sets which stations on its link the packet is for.
    #[inline(always)]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.hot_mut().packet_type = packet_type;
    }

    /// Number of the input interface.
    #[inline(always)]
    pub fn interface(&self) -> u16 {
        self.hot().interface
    }

    /// Number of the slice's queue at a port; 0 for the interface's own.
    #[inline]
    pub fn queue(&self) -> u16 {
        self.hot().queue
    }

    /// Sets the number of the slice's queue at a port.
    #[inline]
    pub fn set_queue(&mut self, queue: u16) {
        self.hot_mut().queue = queue;
    }

    /// The key to look up among the slice's rules when the packet is sent.
    #[inline]
    pub fn filter_key(&self) -> Option<&[u8; KEY_BYTES]> {
        self.hot().keyed.then(|| &self.metadata().key)
    }

    /// Sets a key that is looked up in the slice's rules when the packet is sent; missing bytes are
    /// zero.
    #[inline]
    pub fn set_filter_key(&mut self, key: &[u8]) {
        let place = &mut self.metadata_mut().key;
        let (own, rest) = place.split_at_mut(key.len().min(KEY_BYTES));
        own.copy_from_slice(&key[..own.len()]);
        rest.fill(0);
        self.hot_mut().keyed = true;
    }

    /// A rule's result for the key with which the packet was sent here, or sent back.
    #[inline]
    pub fn filter_result(&self) -> Option<&[u8; RESULT_BYTES]> {
        self.hot().answered.then(|| &self.metadata().result)
    }

    /// Sets whether the metadata has a rule's result.
    #[inline]
    pub fn set_answered(&mut self, answered: bool) {
        self.hot_mut().answered = answered;
    }

    /// Sets the number of the input interface.
    #[inline(always)]
    pub fn set_interface(&mut self, interface: u16) {
        self.hot_mut().interface = interface;
    }

    /// Time of reception, in nanoseconds since 1970; 0 if unknown.
    pub fn timestamp_ns(&self) -> u64 {
        self.cold().timestamp_ns
    }

    /// Sets the time of reception, in nanoseconds since 1970. This uses one more cache line.
    pub fn set_timestamp_ns(&mut self, timestamp_ns: u64) {
        self.cold_mut().timestamp_ns = timestamp_ns;
    }

    fn cold(&self) -> Cold {
        if !self.hot().cold {
            return Cold::default();
        }
        // SAFETY: the arena has as many cold entries as hot ones.
        unsafe { *self.shared().cold.add(self.hot().index as usize).as_ptr() }
    }

    fn cold_mut(&mut self) -> &mut Cold {
        let (fresh, index) = (!self.hot().cold, self.hot().index);
        // SAFETY: as in `cold`; the entry belongs to this packet, borrowed exclusively.
        let cold = unsafe { &mut *self.shared().cold.add(index as usize).as_ptr() };
        if fresh {
            *cold = Cold::default();
            self.hot_mut().cold = true;
        }
        cold
    }

    /// `N` bytes of the annotation area from `offset` on, if they are in its first half. That half
    /// is in the packet's cache line.
    #[inline(always)]
    pub fn near_annotation<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        (offset < (HOT_ANNOTATIONS + 1).saturating_sub(N)).then(|| {
            let hot = self.hot();
            // SAFETY: offset + N <= HOT_ANNOTATIONS.
            unsafe { *hot.annotations.as_ptr().add(offset).cast() }
        })
    }

    /// `N` bytes of the annotation area from `offset` on; bytes beyond its end are zero. See
    /// [`annotation`].
    #[inline(always)]
    pub fn annotation<const N: usize>(&self, offset: usize) -> [u8; N] {
        // One comparison for the usual case.
        if let Some(near) = self.near_annotation(offset) {
            return near;
        }
        let cold = self.cold();
        std::array::from_fn(|i| {
            // Any offset is allowed, even one near the end of the address space: it lies beyond the
            // area.
            let at = offset.saturating_add(i);
            let hot = self.hot().annotations.get(at);
            hot.or_else(|| cold.annotations.get(at - HOT_ANNOTATIONS)).copied().unwrap_or(0)
        })
    }

    /// Writes `N` bytes of the annotation area from `offset` on, as far as the area reaches.
    #[inline(always)]
    pub fn set_annotation<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        if offset < (HOT_ANNOTATIONS + 1).saturating_sub(N) {
            let hot = self.hot_mut();
            // SAFETY: offset + N <= HOT_ANNOTATIONS.
            unsafe { *hot.annotations.as_mut_ptr().add(offset).cast() = value };
            return;
        }
        for (i, byte) in value.into_iter().enumerate() {
            let place = match offset.saturating_add(i).checked_sub(HOT_ANNOTATIONS) {
                None => self.hot_mut().annotations.get_mut(offset.saturating_add(i)),
                Some(at) => self.cold_mut().annotations.get_mut(at),
            };
            if let Some(place) = place {
                *place = byte;
            }
        }
    }

    /// IPv4 destination annotation, in host order.
    #[inline(always)]
    pub fn dst_ip(&self) -> u32 {
        u32::from_be_bytes(self.annotation(annotation::DST_IP))
    }

    /// Sets the IPv4 destination annotation, in host order.
    #[inline(always)]
    pub fn set_dst_ip(&mut self, address: u32) {
        self.set_annotation(annotation::DST_IP, address.to_be_bytes());
    }

    /// Paint annotation.
    #[inline(always)]
    pub fn paint(&self) -> u8 {
        let [paint] = self.annotation(annotation::PAINT);
        paint
    }

    /// Sets the paint annotation.
    #[inline(always)]
    pub fn set_paint(&mut self, colour: u8) {
        self.set_annotation(annotation::PAINT, [colour]);
    }

    /// Clears all annotations, headers, type, interface, queue and time.
    pub fn clear_annotations(&mut self) {
        let hot = self.hot_mut();
        let (data, offset, length) = (hot.data, hot.offset, hot.length);
        hot.start(data, offset, length);
    }

    /// Copies all annotations, packet type, interface, queue and time from another packet. Header
    /// positions are not copied: contents may be at other positions.
    pub fn copy_annotations(&mut self, from: &Packet) {
        let hot = self.hot_mut();
        let other = from.hot();
        hot.annotations = other.annotations;
        hot.packet_type = other.packet_type;
        hot.interface = other.interface;
        hot.queue = other.queue;
        hot.cold = false;
        if other.cold {
            *self.cold_mut() = from.cold();
        }
    }

    /// A copy in a buffer of the same arena, with contents, headers and annotations. `None` if no
    /// buffer is free.
    pub fn try_clone(&self) -> Option<Packet> {
        let mut copy = self.shared().alloc()?;
        self.shared().copied.set(self.shared().copied.get() + 1);
        let from = self.hot();
        // Headers may lie before the packet.
        let first = [from.mac, from.network, from.transport, from.offset];
        let first = first.into_iter().min().unwrap_or(from.offset);
        let count = usize::from(from.offset - first) + usize::from(from.length);
        // SAFETY: the two buffers are different and of the same size; first .. offset + length lies
        // in both. `data - offset` is the start of a buffer.
        unsafe {
            let source = from.data.sub(usize::from(from.offset - first));
            let to = copy.hot_mut();
            let start = to.data.sub(usize::from(to.offset));
            start.add(usize::from(first)).copy_from_nonoverlapping(source, count);
            to.data = start.add(usize::from(from.offset));
            to.offset = from.offset;
            to.length = from.length;
            (to.mac, to.network, to.transport) = (from.mac, from.network, from.transport);
        }
        copy.copy_annotations(self);
        if self.is_long() {
            let Metadata { segment, excess, .. } = *self.metadata();
            let metadata = copy.metadata_mut();
            (metadata.segment, metadata.excess) = (segment, excess);
        }
        if from.keyed || from.answered {
            *copy.metadata_mut() = *self.metadata();
            let to = copy.hot_mut();
            (to.keyed, to.answered) = (from.keyed, from.answered);
        }
        Some(copy)
    }

    /// An empty packet of the same arena; `None` if no buffer is free. For a super-packet the
    /// result is always `None`, because the new packet would be a super-packet too.
    pub fn alloc_sibling(&self) -> Option<Packet> {
        if self.is_long() { None } else { self.shared().alloc() }
    }

    /// Whether the packet is a super-packet: an unsegmented TCP packet. Each segment gets a correct
    /// checksum, independent of this packet's field.
    #[inline(always)]
    pub fn is_long(&self) -> bool {
        self.shared().is_long()
    }

    /// Number of bytes by which the packet is longer than its longest frame: 0 unless it is a
    /// super-packet.
    pub fn excess(&self) -> usize {
        if self.is_long() { usize::from(self.metadata().excess).min(self.len()) } else { 0 }
    }

    /// Whether one of the packet's frames is longer than `bytes`, counted from the packet's first
    /// byte.
    #[inline(always)]
    pub fn is_longer_than(&self, bytes: usize) -> bool {
        self.len() > bytes && self.len() - self.excess() > bytes
    }

    /// Whether one of the packet's frames is longer than `bytes`, counted from the network header.
    #[inline(always)]
    pub fn is_network_longer_than(&self, bytes: usize) -> bool {
        let length = self.network_len();
        length > bytes && length.saturating_sub(self.excess()) > bytes
    }

    /// Number of the packet's frames: 1 unless it is a super-packet.
    #[inline(always)]
    pub fn frames(&self) -> u64 {
        if !self.is_long() {
            return 1;
        }
        let Metadata { segment, excess, .. } = *self.metadata();
        1 + u64::from(excess).div_ceil(u64::from(segment.max(1)))
    }

    /// Bytes of all its frames.
    pub fn wire_bytes(&self) -> u64 {
        let segment = if self.is_long() { usize::from(self.metadata().segment) } else { 0 };
        let headers = (self.len() - self.excess()).saturating_sub(segment) as u64;
        self.len() as u64 + (self.frames() - 1) * headers
    }

    fn metadata(&self) -> &Metadata {
        let hot = self.hot();
        // SAFETY: every buffer starts with its metadata, which is initialised and owned by this
        // handle.
        unsafe { &*hot.data.sub(usize::from(hot.offset)).as_ptr().cast() }
    }

    fn metadata_mut(&mut self) -> &mut Metadata {
        let hot = self.hot();
        // SAFETY: as in `metadata`; the handle is borrowed exclusively.
        unsafe { &mut *hot.data.sub(usize::from(hot.offset)).as_ptr().cast() }
    }

    /// Number of the slot in its pool.
    pub fn slot(&self) -> u32 {
        self.shared().first_slot + self.hot().index
    }

    /// Gives the packet's slot to the other side of a ring: returns its place, and frees nothing.
    #[inline(always)]
    pub fn release(self) -> Place {
        let mut packet = ManuallyDrop::new(self);
        Arena::note_away(packet.shared());
        let slot = packet.slot();
        let hot = packet.hot_mut();
        hot.state = State::Away;
        let (offset, length, queue, keyed) = (hot.offset, hot.length, hot.queue, hot.keyed);
        Place { slot, offset, length, queue, keyed }
    }
}

impl Drop for Packet {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this is the only handle, and it no longer exists after this.
        unsafe { Shared::give_back(self.0) };
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet: slot {}, {} bytes", self.slot(), self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_packet_has_default_headroom() {
        let arena = Arena::heap(1, 2048);
        let packet = arena.packet(b"abc").unwrap();
        assert_eq!((packet.headroom(), packet.tailroom(), packet.len()), (128, 1853, 3));
    }

    #[test]
    fn annotations_are_new_with_each_packet() {
        let arena = Arena::heap(1, 512);
        let mut packet = arena.packet(b"abc").unwrap();
        packet.set_annotation(22, *b"12345678");
        packet.set_timestamp_ns(7);
        packet.set_paint(3);
        assert_eq!(packet.annotation(22), *b"12345678");
        assert_eq!((packet.annotation(46), packet.timestamp_ns(), packet.paint()), ([0; 4], 7, 3));
        packet.set_annotation(46, [1; 4]);
        assert_eq!(packet.annotation(45), [0, 1, 1, 0]);
        packet.set_annotation(usize::MAX, [1; 4]);
        assert_eq!(packet.annotation(usize::MAX - 1), [0; 4]);
        drop(packet);
        let packet = arena.packet(b"abc").unwrap();
        assert_eq!((packet.annotation(0), packet.timestamp_ns()), ([0; 48], 0));
    }

    #[test]
    fn a_clone_has_headers_before_the_packet() {
        let arena = Arena::heap(2, 512);
        let mut packet = arena.packet(b"macnetwork").unwrap();
        packet.set_mac_header(0);
        packet.pull(3).unwrap();
        packet.set_network_header(0, 3);
        packet.set_paint(9);
        let copy = packet.try_clone().unwrap();
        assert!(packet.try_clone().is_none());
        drop(packet);
        assert_eq!(copy.data(), b"network");
        assert_eq!(copy.mac_header(), Some(&b"macnetwork"[..]));
        assert_eq!(copy.transport_header(), Some(&b"work"[..]));
        assert_eq!((copy.mac_offset(), copy.paint()), (Some(-3), 9));
    }

    #[test]
    fn keys_and_results_go_with_a_clone_and_end_with_the_packet() {
        let arena = Arena::heap(2, 512);
        let mut packet = arena.packet(b"abc").unwrap();
        packet.set_filter_key(&[9; KEY_BYTES]);
        packet.set_filter_key(&[1, 2]);
        let copy = packet.try_clone().unwrap();
        let key = copy.filter_key().unwrap();
        assert_eq!((&key[..3], key[KEY_BYTES - 1]), (&[1, 2, 0][..], 0));
        assert_eq!((copy.filter_result(), copy.data()), (None, &b"abc"[..]));
        assert!(packet.release().keyed);
        drop(copy);
        assert_eq!(arena.alloc().unwrap().filter_key(), None);
    }

    #[test]
    fn set_headroom_moves_contents_and_headers() {
        let arena = Arena::heap(1, 512);
        let mut packet = arena.packet(b"macnetwork").unwrap();
        packet.set_mac_header(0);
        packet.pull(3).unwrap();
        packet.set_network_header(0, 3);
        assert_eq!(packet.set_headroom(442), None);
        packet.set_headroom(441).unwrap();
        assert_eq!(packet.network_header(), Some(&b"network"[..]));
        assert_eq!((packet.mac_header(), packet.tailroom()), (None, 0));
        packet.set_headroom(0).unwrap();
        assert_eq!((packet.data(), packet.headroom()), (&b"network"[..], 0));
        packet.set_filter_key(&[1; KEY_BYTES]);
        assert_eq!(packet.data(), b"network");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Pull(usize),
        Put(usize),
        Take(usize),
        Mark(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0usize..300, 0..5).prop_map(|(n, kind)| match kind {
            0 => Step::Push(n),
            1 => Step::Pull(n),
            2 => Step::Put(n),
            3 => Step::Take(n),
            _ => Step::Mark(n),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..Default::default() })]
        #[test]
        fn moving_the_ends_is_like_moving_indices(steps in prop::collection::vec(step(), 1..40)) {
            let arena = Arena::heap(1, 512);
            let mut packet = arena.alloc().unwrap();
            let (mut start, mut end) = (192usize, 192usize);
            let mut mark = None;
            let mut next = 0u8;
            let mut bytes = [0u8; 512];
            for step in steps {
                next = next.wrapping_add(1);
                match step {
                    Step::Push(n) => {
                        let fits = n <= start - 64;
                        let new = packet.push(n);
                        prop_assert_eq!(new.is_some(), fits);
                        if let Some(new) = new {
                            new.fill(next);
                            bytes[start - n..start].fill(next);
                            start -= n;
                        }
                    }
                    Step::Pull(n) => {
                        let fits = n <= end - start;
                        prop_assert_eq!(packet.pull(n).is_some(), fits);
                        start += if fits { n } else { 0 };
                    }
                    Step::Put(n) => {
                        let fits = n <= 512 - end;
                        let new = packet.put(n);
                        prop_assert_eq!(new.is_some(), fits);
                        if let Some(new) = new {
                            new.fill(next);
                            bytes[end..end + n].fill(next);
                            end += n;
                        }
                    }
                    Step::Take(n) => {
                        let fits = n <= end - start;
                        prop_assert_eq!(packet.take(n).is_some(), fits);
                        end -= if fits { n } else { 0 };
                    }
                    Step::Mark(n) => {
                        packet.set_network_header(n, 0);
                        mark = (n <= end - start).then_some(start + n);
                    }
                }
                prop_assert_eq!(packet.data(), &bytes[start..end]);
                let header = mark.and_then(|mark| bytes.get(mark..end));
                prop_assert_eq!(packet.network_header(), header);
                if let Some(header) = packet.network_header_mut() {
                    header.fill(next);
                    if let Some(mark) = mark {
                        bytes[mark..end].fill(next);
                    }
                }
            }
        }
    }
}
