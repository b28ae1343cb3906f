//! Sending of super-packets: unsegmented packets of TCP.
//!
//! A super-packet is in a long slot, where its router may write at any time, and so is the size of
//! its segments. The switch copies the headers to private memory, checks them there, and writes
//! from the copy the header for the kernel: kind, size of a segment, place of the checksum. Only
//! payload is read from the slot. A router that lies harms only its own packets.
//!
//! A device that segments accepts it uncut, and so does a router at the other end of a link that
//! takes super-packets (`link`). For every other output the switch cuts it here, into slots of the same
//! pool, so that all later stages get frames as on a wire.

use europa_packet::checksum::{self, Sum};
use europa_packet::{Header, Ipv4Header, Ipv6Header, TcpHeader, tcp};
use europa_pool::layout::{RX_OFFSET_BYTES, SEGMENT_OFFSET_BYTES, rx_offset};
use europa_pool::{PoolView, Word};

use crate::queue::Queued;
use crate::tables::Shared;
use crate::train::{MAX_HEADERS, MIN_PAYLOAD, NETWORK, OFFLOAD_BYTES, offload, protocols, pseudo};

/// `VIRTIO_NET_HDR_GSO_ECN`: only the first segment has CWR.
const ECN: u8 = 0x80;

/// Bytes of payload that are copied and summed up at a time: an even number.
const PIECE: usize = 1024;

/// A super-packet by its checked headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Long {
    ipv4: bool,
    /// Bytes before the TCP header.
    transport: usize,
    /// Bytes of all headers.
    pub(crate) headers: usize,
    /// Bytes behind them.
    payload: usize,
    /// Bytes of payload of each segment except the last one.
    segment: usize,
}

impl Long {
    /// The super-packet of `length` bytes that begins with `head`, with an announced segment size
    /// of `segment` bytes. `None` if it is not valid. `head` is its first [`MAX_HEADERS`] bytes.
    pub(crate) fn parse(head: &[u8], length: usize, segment: usize) -> Option<Self> {
        let (ipv4, transport) = protocols(head, length)?;
        let tcp = TcpHeader::at(head, transport)?;
        let headers = transport + tcp.header_len();
        let once = tcp::flag::SYN | tcp::flag::RST | tcp::flag::URG;
        let payload = length.checked_sub(headers)?;
        let plain = tcp.flags & once == 0 && tcp.header_len() >= TcpHeader::LEN;
        let several = segment >= MIN_PAYLOAD && payload > segment;
        let whole = headers <= head.len();
        (plain && several && whole).then_some(Self { ipv4, transport, headers, payload, segment })
    }

    /// Reads the super-packet of a word; `head` gets the private copy of its first bytes. `None` if
    /// it is not valid.
    pub(crate) fn read(view: &PoolView, word: Word, head: &mut [u8; MAX_HEADERS]) -> Option<Self> {
        let (offset, length) = (usize::from(word.offset()), usize::from(word.length()));
        let is_inside = offset + length <= view.slot_bytes(word.slot());
        if !is_inside || length < MAX_HEADERS {
            return None;
        }
        let place = view.slot_offset(word.slot(), word.offset().into());
        let mut segment = [0; 2];
        let at = view.slot_offset(word.slot(), SEGMENT_OFFSET_BYTES);
        let copied =
            view.mapping().copy_out(place, head) && view.mapping().copy_out(at, &mut segment);
        Self::parse(head, length, u16::from_ne_bytes(segment).into()).filter(|_| copied)
    }

    /// Number of its frames.
    pub(crate) fn frames(&self) -> u64 {
        self.payload.div_ceil(self.segment) as u64
    }

    /// Bytes of the longest one.
    pub(crate) fn longest(&self) -> usize {
        self.headers + self.segment
    }

    /// Bytes of all.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.frames() * self.headers as u64 + self.payload as u64
    }

    /// The receiver's metadata: bytes of payload of a segment, and of those beyond one segment.
    /// See `europa_pool::layout::Metadata`.
    pub(crate) fn metadata(&self) -> [u8; 4] {
        let [a, b] = (self.segment as u16).to_ne_bytes();
        let [c, d] = ((self.payload - self.segment) as u16).to_ne_bytes();
        [a, b, c, d]
    }

    /// Where its payload lies in the pool, for the socket: offset and bytes.
    pub(crate) fn payload(&self, view: &PoolView, word: Word) -> (usize, usize) {
        let start = view.slot_offset(word.slot(), word.offset().into());
        (start + self.headers, self.payload)
    }

    /// Makes `head` the headers of one packet for a device that cuts it. Returns the header before it
    /// on the socket.
    pub(crate) fn finish(&self, head: &mut [u8]) -> Option<[u8; OFFLOAD_BYTES]> {
        let Self { ipv4, transport, headers, payload, segment } = *self;
        let sum = pseudo(ipv4, head, headers - transport + payload)?;
        let tcp = TcpHeader::at_mut(head, transport)?;
        tcp.checksum.set(sum.fold());
        let has_cwr = tcp.flags & tcp::flag::CWR != 0;
        let mut offload = offload(ipv4, headers, segment, transport);
        if let Some(kind) = offload.get_mut(1).filter(|_| has_cwr) {
            *kind |= ECN;
        }
        Some(offload)
    }

    /// Makes a copy of `head` the headers of segment `number`, which has `bytes` of payload, without
    /// the checksum of TCP. Returns the sum of pseudo-header and TCP header.
    fn segment_headers(&self, head: &mut [u8], number: usize, bytes: usize) -> Option<Sum> {
        let Self { ipv4, transport, headers, segment, .. } = *self;
        let is_last = number as u64 + 1 == self.frames();
        let size = headers - transport + bytes;
        if ipv4 {
            let ip = Ipv4Header::at_mut(head, NETWORK)?;
            let old = (ip.total_len.get(), ip.id.get());
            let new = ((size + Ipv4Header::LEN) as u16, old.1.wrapping_add(number as u16));
            ip.total_len.set(new.0);
            ip.id.set(new.1);
            let sum = checksum::update_u16(ip.checksum.get(), old.0, new.0);
            ip.checksum.set(checksum::update_u16(sum, old.1, new.1));
        } else {
            Ipv6Header::at_mut(head, NETWORK)?.payload_len.set(size as u16);
        }
        let tcp = TcpHeader::at_mut(head, transport)?;
        tcp.sequence.set(tcp.sequence.get().wrapping_add((number * segment) as u32));
        tcp.flags &= match (number, is_last) {
            (0, true) => u8::MAX,
            (0, false) => !(tcp::flag::FIN | tcp::flag::PSH),
            (_, true) => !tcp::flag::CWR,
            (_, false) => !(tcp::flag::FIN | tcp::flag::PSH | tcp::flag::CWR),
        };
        tcp.checksum.set(0);
        let sum = pseudo(ipv4, head, size)?;
        Some(sum + checksum::sum(head.get(transport..headers)?))
    }

    /// Cuts it into frames, each in a separate slot of the same pool, which the switch holds.
    /// Returns the number of frames without a slot. The long slot is unchanged.
    pub(crate) fn cut(
        &self,
        shared: &Shared,
        view: &PoolView,
        packet: Queued,
        head: &[u8; MAX_HEADERS],
        mut each: impl FnMut(Queued),
    ) -> u64 {
        let mut lost = 0;
        for number in 0..self.frames() as usize {
            let from = number * self.segment;
            let bytes = self.segment.min(self.payload - from);
            let fits = self.headers + bytes <= view.layout().max_frame_bytes() as usize;
            let slot = if fits { shared.hold_free(view, packet.pool) } else { None };
            let Some(slot) = slot else {
                lost += 1;
                continue;
            };
            let offset = rx_offset(slot);
            let length = (self.headers + bytes) as u16;
            let word = Word::frame(slot, offset as u16, length, 0);
            let source = self.payload(view, packet.word).0 + from;
            if self.write(view, head, number, (source, bytes), view.slot_offset(slot, offset)) {
                each(Queued { word, ..packet });
            } else {
                shared.give_back(view, packet.pool, word);
                lost += 1;
            }
        }
        lost
    }

    /// Writes segment `number` to byte `to` of the pool. Its payload is at `source`, offset and
    /// bytes.
    fn write(
        &self,
        view: &PoolView,
        head: &[u8; MAX_HEADERS],
        number: usize,
        (source, bytes): (usize, usize),
        to: usize,
    ) -> bool {
        let mut own = *head;
        let Some(mut sum) = self.segment_headers(&mut own, number, bytes) else { return false };
        let mut piece = [0; PIECE];
        let mut at = 0;
        while at < bytes {
            let part = &mut piece[..PIECE.min(bytes - at)];
            if !view.mapping().copy_out(source + at, part) {
                return false;
            }
            sum = sum + checksum::sum(part);
            view.mapping().copy_in(to + self.headers + at, part);
            at += part.len();
        }
        let Some(tcp) = TcpHeader::at_mut(&mut own, self.transport) else { return false };
        tcp.checksum.set(sum.checksum());
        own.get(..self.headers).is_some_and(|own| view.mapping().copy_in(to, own))
    }
}

// A received super-packet begins there; its end fits into its slot then.
const _: () = assert!(RX_OFFSET_BYTES < 1024);

#[cfg(test)]
mod tests;
