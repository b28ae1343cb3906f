//! Segments of a TCP stream that leave as one packet.
//!
//! A device that segments TCP (TSO) accepts consecutive segments as one packet with the segment
//! size, and sends the same segments. A receiver on this machine gets it uncut, as if it had merged
//! them itself (GRO). This is the gain: the kernel does its work for a packet, and for an
//! acknowledgement, once for forty segments.
//!
//! The rules are those of the kernel's own merging (`tcp_gro_receive`). Only segments that cutting
//! restores are merged, and only with correct checksums, as the packet gets a new checksum, which
//! would hide an error.

use europa_packet::checksum::{self, Sum};
use europa_packet::{
    EtherType, EthernetHeader, Header, IpProtocol, Ipv4Header, Ipv6Header, TcpHeader, tcp,
};

/// Most bytes of headers: Ethernet, IPv6, and TCP with all options it can have.
pub(crate) const MAX_HEADERS: usize = 14 + 40 + 60;

/// Bytes before each frame on a packet socket: `struct virtio_net_hdr`.
pub(crate) const OFFLOAD_BYTES: usize = 10;

/// Longest packet: a device's default (`gso_max_size` is 65,536, exclusive).
const MAX_BYTES: usize = 65_535;

/// Least payload of a segment that is merged with the next one: no sender of a stream makes shorter
/// ones (`TCP_MIN_SND_MSS`).
pub(crate) const MIN_PAYLOAD: usize = 48;

pub(crate) const NETWORK: usize = EthernetHeader::LEN;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum's field holds that of the pseudo-header only.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and `_TCPV6`: the protocol to segment.
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;

/// Whether a frame of `length` bytes that begins with `head` is IPv4, and the offset of its TCP
/// header. `None` unless TCP follows a plain IP header.
pub(crate) fn protocols(head: &[u8], length: usize) -> Option<(bool, usize)> {
    let (ethernet, rest) = EthernetHeader::parse(head)?;
    match ethernet.ether_type {
        EtherType::IPV4 => {
            let (ip, _) = Ipv4Header::parse(rest)?;
            let plain = ip.version_ihl == 0x45 && !ip.is_fragment();
            let whole = NETWORK + usize::from(ip.total_len.get()) == length;
            (plain && whole && ip.protocol == IpProtocol::TCP).then_some(())?;
            Some((true, NETWORK + Ipv4Header::LEN))
        }
        EtherType::IPV6 => {
            let (ip, _) = Ipv6Header::parse(rest)?;
            let transport = NETWORK + Ipv6Header::LEN;
            let whole = transport + usize::from(ip.payload_len.get()) == length;
            (ip.version() == 6 && whole && ip.next_header == IpProtocol::TCP).then_some(())?;
            Some((false, transport))
        }
        _ => None,
    }
}

/// The sum over the pseudo-header of a frame with `bytes` of TCP.
pub(crate) fn pseudo(ipv4: bool, frame: &[u8], bytes: usize) -> Option<Sum> {
    Some(if ipv4 {
        let ip = Ipv4Header::at(frame, NETWORK)?;
        let (source, destination) = (ip.source_addr(), ip.destination_addr());
        checksum::pseudo_v4(source, destination, IpProtocol::TCP, u16::try_from(bytes).ok()?)
    } else {
        let ip = Ipv6Header::at(frame, NETWORK)?;
        let (source, destination) = (ip.source.into(), ip.destination.into());
        checksum::pseudo_v6(source, destination, IpProtocol::TCP, u32::try_from(bytes).ok()?)
    })
}

/// The header before a packet on the socket that the device must cut.
pub(crate) fn offload(
    ipv4: bool,
    headers: usize,
    segment: usize,
    transport: usize,
) -> [u8; OFFLOAD_BYTES] {
    let mut offload = [0; OFFLOAD_BYTES];
    offload[..2].copy_from_slice(&[NEEDS_CHECKSUM, if ipv4 { TCP_IPV4 } else { TCP_IPV6 }]);
    let numbers = [headers, segment, transport, tcp::CHECKSUM_OFFSET];
    for (field, number) in offload[2..].chunks_exact_mut(2).zip(numbers) {
        field.copy_from_slice(&(number as u16).to_ne_bytes());
    }
    offload
}

/// A TCP segment that may be merged with those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    ipv4: bool,
    /// Bytes before the TCP header.
    transport: usize,
    /// Bytes of all headers.
    headers: usize,
    payload: usize,
    sequence: u32,
    /// Whether the sender requests immediate delivery: later segments are not merged with it.
    push: bool,
}

impl Segment {
    /// The segment in a frame of `length` bytes that begins with `head`; `None` if it may not be
    /// merged. `head` is the whole frame or at least [`MAX_HEADERS`].
    pub(crate) fn parse(head: &[u8], length: usize) -> Option<Self> {
        let (ipv4, transport) = protocols(head, length)?;
        let tcp = TcpHeader::at(head, transport)?;
        let headers = transport + tcp.header_len();
        let plain = tcp.flags & !tcp::flag::PSH == tcp::flag::ACK && tcp.data_offset & 0xf == 0;
        (plain && tcp.header_len() >= TcpHeader::LEN && headers < length).then_some(Self {
            ipv4,
            transport,
            headers,
            payload: length - headers,
            sequence: tcp.sequence.get(),
            push: tcp.flags & tcp::flag::PSH != 0,
        })
    }

    /// Whether `next` is the next segment by its headers, and may be merged.
    pub(crate) fn is_followed_by(&self, head: &[u8], next: &Self, next_head: &[u8]) -> bool {
        !self.push
            && next.sequence == self.sequence.wrapping_add(self.payload as u32)
            && next.payload <= self.payload
            && self.is_like(head, next, next_head)
    }

    /// Whether headers are equal except for the fields that differ between segments.
    fn is_like(&self, head: &[u8], other: &Self, other_head: &[u8]) -> bool {
        let Self { ipv4, transport, headers, .. } = *self;
        if (other.ipv4, other.transport, other.headers) != (ipv4, transport, headers) {
            return false;
        }
        // Total length, identification, checksum; payload length.
        let ip: &[(usize, usize)] =
            if ipv4 { &[(0, 2), (6, 10), (12, 20)] } else { &[(0, 4), (6, 40)] };
        // Sequence number, flags (looked at already), checksum.
        let tcp = [(0, 4), (8, 13), (14, 16), (18, headers - transport)];
        let same = |from: usize, (begin, end): (usize, usize)| {
            head.get(from + begin..from + end) == other_head.get(from + begin..from + end)
        };
        same(0, (0, NETWORK))
            && ip.iter().all(|part| same(NETWORK, *part))
            && tcp.iter().all(|part| same(transport, *part))
    }

    /// Sum over its pseudo-header, with `bytes` of TCP.
    fn pseudo(&self, frame: &[u8], bytes: usize) -> Option<Sum> {
        pseudo(self.ipv4, frame, bytes)
    }

    /// Whether the checksums of its headers `head`, and of the bytes behind them, are right.
    fn is_intact(&self, head: &[u8], payload: &[u8]) -> bool {
        let Some(tcp) = head.get(self.transport..self.headers) else { return false };
        let ip =
            !self.ipv4 || Ipv4Header::at(head, NETWORK).is_some_and(Ipv4Header::checksum_is_valid);
        let pseudo = self.pseudo(head, tcp.len() + payload.len());
        ip && pseudo
            .is_some_and(|sum| (sum + checksum::sum(tcp) + checksum::sum(payload)).is_valid())
    }
}

/// Successive segments of one stream with joined payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    first: Segment,
    /// Whether the first one's checksums have been checked.
    intact: bool,
    last: Segment,
    pub(crate) segments: u16,
}

impl Train {
    /// Begins with a frame, if later ones may be merged with it.
    pub(crate) fn begin(frame: &[u8]) -> Option<Self> {
        let first = Segment::parse(frame, frame.len())?;
        Some(Self { first, intact: false, last: first, segments: 1 })
    }

    /// Bytes of the headers of each of its segments.
    pub(crate) fn headers(&self) -> usize {
        self.first.headers
    }

    /// The payload of a frame of `length` bytes that begins with `head`, if it is the next one of
    /// the stream: only this is appended. `frame` is the present train.
    pub(crate) fn next(&mut self, frame: &[u8], head: &[u8], length: usize) -> Option<Segment> {
        let next = Segment::parse(head, length)?;
        let follows = self.last.is_followed_by(frame, &next, head)
            // Only the last segment may be shorter.
            && self.last.payload == self.first.payload
            && self.first.payload >= MIN_PAYLOAD
            && frame.len() + next.payload <= MAX_BYTES
            && self.is_numbered(frame, head);
        if follows && !self.intact {
            let (head, payload) = frame.split_at_checked(self.first.headers)?;
            self.intact = self.first.is_intact(head, payload);
        }
        (follows && self.intact).then_some(next)
    }

    /// Whether an IPv4 packet has the identification that cutting would give it; ignored if it may
    /// not be fragmented (RFC 6864).
    fn is_numbered(&self, frame: &[u8], head: &[u8]) -> bool {
        if !self.first.ipv4 {
            return true;
        }
        let ids = [frame, head].map(|bytes| Ipv4Header::at(bytes, NETWORK));
        let [Some(first), Some(next)] = ids else { return false };
        first.dont_fragment() || next.id.get() == first.id.get().wrapping_add(self.segments)
    }

    /// Takes the segment that [`Self::next`] has found, with headers `head`, if it is intact.
    pub(crate) fn take(&mut self, next: Segment, head: &[u8], payload: &[u8]) -> bool {
        let intact = next.is_intact(head, payload);
        if intact {
            self.last = next;
            self.segments += 1;
        }
        intact
    }

    /// Makes one packet of it: sets lengths and checksums of `frame`. Returns the header before it
    /// on the socket.
    pub(crate) fn finish(&self, frame: &mut [u8]) -> [u8; OFFLOAD_BYTES] {
        let Self { first, last, segments, .. } = self;
        let bytes = frame.len() - first.transport;
        let Some(pseudo) = first.pseudo(frame, bytes).filter(|_| *segments > 1) else {
            return [0; OFFLOAD_BYTES];
        };
        if let Some(ip) = Ipv4Header::at_mut(frame, NETWORK).filter(|_| first.ipv4) {
            let (old, new) = (ip.total_len.get(), (bytes + Ipv4Header::LEN) as u16);
            ip.total_len.set(new);
            ip.checksum.set(checksum::update_u16(ip.checksum.get(), old, new));
        } else if let Some(ip) = Ipv6Header::at_mut(frame, NETWORK) {
            ip.payload_len.set(bytes as u16);
        }
        if let Some(tcp) = TcpHeader::at_mut(frame, first.transport) {
            tcp.flags |= if last.push { tcp::flag::PSH } else { 0 };
            tcp.checksum.set(pseudo.fold());
        }
        offload(first.ipv4, first.headers, first.payload, first.transport)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    /// A stream as its sender cuts it.
    #[derive(Clone, Debug)]
    struct Stream {
        ipv4: bool,
        may_be_fragmented: bool,
        options: usize,
        segment: usize,
        segments: usize,
        /// Length of the last segment.
        last: usize,
        push: bool,
        sequence: u32,
        identification: u16,
    }

    const PLAIN: Stream = Stream {
        ipv4: true,
        may_be_fragmented: false,
        options: 12,
        segment: 100,
        segments: 3,
        last: 100,
        push: false,
        sequence: u32::MAX - 150,
        identification: u16::MAX,
    };

    impl Stream {
        fn transport(&self) -> usize {
            NETWORK + if self.ipv4 { Ipv4Header::LEN } else { Ipv6Header::LEN }
        }

        /// The frames, with all checksums.
        fn frames(&self) -> Vec<Vec<u8>> {
            let mut frames: Vec<_> = (0..self.segments).map(|index| self.frame(index)).collect();
            frames.iter_mut().for_each(|frame| self.complete(frame));
            frames
        }

        fn frame(&self, index: usize) -> Vec<u8> {
            let is_last = index + 1 == self.segments;
            let payload = if is_last { self.last } else { self.segment };
            let bytes = TcpHeader::LEN + self.options + payload;
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            if self.ipv4 {
                frame.extend(EtherType::IPV4.0);
                let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
                let mut ip = Ipv4Header::new(from, to, IpProtocol::TCP, bytes).unwrap();
                ip.id.set(self.identification.wrapping_add(index as u16));
                ip.flags_fragment.set(if self.may_be_fragmented { 0 } else { 0x4000 });
                frame.extend(ip.as_bytes());
            } else {
                frame.extend(EtherType::IPV6.0);
                let (from, to) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
                let ip = Ipv6Header::new(from, to, IpProtocol::TCP, bytes).unwrap();
                frame.extend(ip.as_bytes());
            }
            let mut tcp = TcpHeader::default();
            tcp.source.set(5201);
            tcp.destination.set(40000);
            tcp.sequence.set(self.sequence.wrapping_add((index * self.segment) as u32));
            tcp.acknowledgement.set(77);
            tcp.data_offset = (((TcpHeader::LEN + self.options) / 4) << 4) as u8;
            tcp.flags = tcp::flag::ACK | if is_last && self.push { tcp::flag::PSH } else { 0 };
            tcp.window.set(500);
            frame.extend(tcp.as_bytes());
            frame.extend((0..self.options).map(|at| at as u8));
            frame.extend((0..payload).map(|at| (at * 7 + index * 3) as u8));
            frame
        }

        /// Sets the checksums for the rest of a frame.
        fn complete(&self, frame: &mut [u8]) {
            if self.ipv4 {
                let ip = Ipv4Header::at_mut(frame, NETWORK).unwrap();
                ip.checksum.set(0);
                let sum = checksum::checksum(ip.as_bytes());
                ip.checksum.set(sum);
            }
            let (headers, tcp) = frame.split_at_mut(self.transport());
            let pseudo = if self.ipv4 {
                let ip = Ipv4Header::at(headers, NETWORK).unwrap();
                let length = tcp.len() as u16;
                checksum::pseudo_v4(ip.source_addr(), ip.destination_addr(), ip.protocol, length)
            } else {
                let ip = Ipv6Header::at(headers, NETWORK).unwrap();
                let length = tcp.len() as u32;
                checksum::pseudo_v6(ip.source.into(), ip.destination.into(), ip.next_header, length)
            };
            tcp[tcp::CHECKSUM_OFFSET..][..2].fill(0);
            let sum = (pseudo + checksum::sum(tcp)).checksum();
            tcp[tcp::CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
        }

        /// A device's segments of a packet: `tcp_gso_segment` of the kernel.
        fn cut(&self, offload: [u8; OFFLOAD_BYTES], packet: &[u8]) -> Vec<Vec<u8>> {
            let number = |at| usize::from(u16::from_ne_bytes([offload[at], offload[at + 1]]));
            let (headers, segment, transport) = (number(2), number(4), number(6));
            assert_eq!(offload[..2], [NEEDS_CHECKSUM, if self.ipv4 { TCP_IPV4 } else { TCP_IPV6 }]);
            assert_eq!((transport, number(8)), (self.transport(), tcp::CHECKSUM_OFFSET));
            let (head, payload) = packet.split_at(headers);
            let count = payload.len().div_ceil(segment);
            let pieces = payload.chunks(segment).enumerate().map(|(index, piece)| {
                let mut frame = [head, piece].concat();
                let bytes = (frame.len() - NETWORK) as u16;
                if self.ipv4 {
                    let ip = Ipv4Header::at_mut(&mut frame, NETWORK).unwrap();
                    ip.total_len.set(bytes);
                    ip.id.set(ip.id.get().wrapping_add(index as u16));
                } else {
                    let ip = Ipv6Header::at_mut(&mut frame, NETWORK).unwrap();
                    ip.payload_len.set(bytes - Ipv6Header::LEN as u16);
                }
                let tcp = TcpHeader::at_mut(&mut frame, transport).unwrap();
                tcp.sequence.set(tcp.sequence.get().wrapping_add((index * segment) as u32));
                if index + 1 < count {
                    tcp.flags &= !tcp::flag::PSH;
                }
                self.complete(&mut frame);
                frame
            });
            pieces.collect()
        }
    }

    /// Merges as much as possible; the packets with the headers before them.
    fn merge(frames: &[Vec<u8>]) -> Vec<([u8; OFFLOAD_BYTES], Vec<u8>, u16)> {
        let mut packets: Vec<(Option<Train>, Vec<u8>)> = Vec::new();
        for frame in frames {
            let head = &frame[..frame.len().min(MAX_HEADERS)];
            if let Some((Some(train), packet)) = packets.last_mut()
                && let Some(next) = train.next(packet, head, frame.len())
                && let (head, payload) = frame.split_at(train.headers())
                && train.take(next, head, payload)
            {
                packet.extend(payload);
            } else {
                packets.push((Train::begin(frame), frame.clone()));
            }
        }
        let finish = |(train, mut packet): (Option<Train>, Vec<u8>)| match train {
            Some(train) => (train.finish(&mut packet), packet, train.segments),
            None => ([0; OFFLOAD_BYTES], packet, 1),
        };
        packets.into_iter().map(finish).collect()
    }

    fn streams() -> impl Strategy<Value = Stream> {
        let kinds = (any::<bool>(), any::<bool>(), 0..=10_usize, any::<bool>());
        let sizes = (MIN_PAYLOAD..2000, 2..20_usize, 1..=100_usize);
        (kinds, sizes, any::<u32>(), any::<u16>()).prop_map(
            |((ipv4, may_be_fragmented, words, push), (segment, segments, part), sequence, id)| {
                Stream {
                    ipv4,
                    may_be_fragmented,
                    options: words * 4,
                    segment,
                    segments,
                    last: (segment * part).div_ceil(100),
                    push,
                    sequence,
                    identification: id,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn cutting_gives_back_what_was_merged(stream in streams()) {
            let frames = stream.frames();
            let merged = merge(&frames);
            prop_assert_eq!(merged.len(), 1);
            let (offload, packet, segments) = &merged[0];
            prop_assert_eq!(usize::from(*segments), frames.len());
            if stream.ipv4 {
                prop_assert!(Ipv4Header::at(packet, NETWORK).unwrap().checksum_is_valid());
            }
            prop_assert_eq!(stream.cut(*offload, packet), frames);
        }

        #[test]
        fn a_damaged_segment_stays_alone(
            stream in streams(), at in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let mut frames = stream.frames();
            frames.truncate(2);
            let damaged = at.index(frames[1].len());
            frames[1][damaged] ^= 1 << bit;
            let merged = merge(&frames);
            prop_assert_eq!(merged.len(), 2);
            prop_assert_eq!(&merged[1].1, &frames[1]);
            // A first segment is sent unchanged.
            frames.swap(0, 1);
            prop_assert_eq!(&merge(&frames)[0].1, &frames[0]);
        }

        #[test]
        fn any_bytes_are_looked_at_without_harm(
            mut frame in prop::collection::vec(any::<u8>(), 0..200), ipv4 in any::<bool>(),
        ) {
            if let Some(kind) = frame.get_mut(12..15) {
                kind.copy_from_slice(if ipv4 { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] });
            }
            prop_assert_eq!(merge(&[frame.clone(), frame]).len(), 2);
        }
    }

    #[test]
    fn only_what_cutting_gives_back_is_merged() {
        // In the second frame, with checksums corrected afterwards.
        let tcp = PLAIN.transport();
        let changes: [(&str, usize, u8); 14] = [
            ("destination", 0, 4),
            ("type of service", NETWORK + 1, 1),
            ("time to live", NETWORK + 8, 1),
            ("source address", NETWORK + 15, 1),
            ("port", tcp + 1, 1),
            ("sequence number, a gap", tcp + 7, 1),
            ("acknowledgement", tcp + 11, 1),
            ("reserved bits", tcp + 12, 1),
            ("FIN", tcp + 13, tcp::flag::FIN),
            ("SYN", tcp + 13, tcp::flag::SYN),
            ("URG", tcp + 13, tcp::flag::URG),
            ("CWR", tcp + 13, tcp::flag::CWR),
            ("window", tcp + 15, 1),
            ("an option", tcp + 25, 1),
        ];
        for (what, at, bits) in changes {
            let mut frames = PLAIN.frames();
            frames[1][at] ^= bits;
            PLAIN.complete(&mut frames[1]);
            assert_eq!(merge(&frames).len(), 3, "{what}");
        }
        // Identification matters only in packets that may be fragmented.
        for (may_be_fragmented, packets) in [(true, 3), (false, 1)] {
            let stream = Stream { may_be_fragmented, ..PLAIN };
            let mut frames = stream.frames();
            frames[1][NETWORK + 5] ^= 4;
            stream.complete(&mut frames[1]);
            assert_eq!(merge(&frames).len(), packets, "{may_be_fragmented}");
        }
    }

    #[test]
    fn a_pushed_or_a_short_segment_ends_a_train() {
        let pushed = Stream { push: true, ..PLAIN };
        let short = Stream { last: 60, ..PLAIN };
        for stream in [pushed, short] {
            let behind = Stream {
                sequence: stream.sequence.wrapping_add(200 + stream.last as u32),
                ..PLAIN
            };
            let frames = [stream.frames(), behind.frames()].concat();
            let segments: Vec<u16> = merge(&frames).iter().map(|packet| packet.2).collect();
            assert_eq!(segments, [3, 3], "{stream:?}");
        }
        // Too small for a gain, and padded to more than the packet.
        let tiny = Stream { segment: MIN_PAYLOAD - 1, last: 1, ..PLAIN };
        assert_eq!(merge(&tiny.frames()).len(), 3);
        let mut padded = PLAIN.frames();
        padded.iter_mut().for_each(|frame| frame.resize(200, 0));
        assert_eq!(merge(&padded).len(), 3);
    }

    #[test]
    fn a_train_is_no_longer_than_a_device_takes() {
        let stream = Stream { segment: 1448, last: 1448, segments: 60, ..PLAIN };
        let frames = stream.frames();
        let merged = merge(&frames);
        assert_eq!(merged.iter().map(|packet| packet.2).collect::<Vec<_>>(), [45, 15]);
        assert!(merged.iter().all(|packet| packet.1.len() <= MAX_BYTES));
        let again: Vec<_> = merged.iter().flat_map(|(o, p, _)| stream.cut(*o, p)).collect();
        assert_eq!(again, frames);
    }
}
