use std::os::fd::OwnedFd;

use europa_pool::layout::{LONG_SLOT, LONG_SLOT_BYTES};
use europa_pool::{Geometry, Layout};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;

const SLOTS: u32 = 2048;

fn pool() -> PoolView {
    let geometry = Geometry { slots: SLOTS, slot_bytes: 2048, interfaces: 2 };
    let bytes = Layout::new(geometry).unwrap().memory_bytes().next_multiple_of(4096);
    let file: OwnedFd = memfd_create(c"pool", MFdFlags::MFD_CLOEXEC).unwrap();
    nix::unistd::ftruncate(&file, bytes as i64).unwrap();
    let pool = PoolView::open(&file, geometry).unwrap();
    pool.format(&[]);
    pool
}

/// Headers of a super-packet with a payload of `payload` bytes.
fn headers(ipv4: bool, options: usize, payload: usize, flags: u8) -> Vec<u8> {
    let bytes = TcpHeader::LEN + options + payload;
    let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if ipv4 {
        head.extend([8, 0]);
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let tcp = europa_packet::IpProtocol::TCP;
        let mut ip = Ipv4Header::new(from, to, tcp, bytes).unwrap();
        ip.id.set(u16::MAX);
        ip.flags_fragment.set(0x4000);
        ip.checksum.set(0);
        let sum = checksum::checksum(ip.as_bytes());
        ip.checksum.set(sum);
        head.extend(ip.as_bytes());
    } else {
        head.extend([0x86, 0xdd]);
        let (from, to) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let tcp = europa_packet::IpProtocol::TCP;
        head.extend(Ipv6Header::new(from, to, tcp, bytes).unwrap().as_bytes());
    }
    let mut tcp = TcpHeader::default();
    tcp.sequence.set(u32::MAX - 3000);
    tcp.data_offset = (((TcpHeader::LEN + options) / 4) << 4) as u8;
    tcp.flags = flags;
    // Any value, as the switch writes another one.
    tcp.checksum.set(0xbeef);
    head.extend(tcp.as_bytes());
    head.extend((0..options).map(|at| at as u8));
    head
}

/// Whether a frame's checksums are right.
fn is_intact(ipv4: bool, frame: &[u8]) -> bool {
    let transport = NETWORK + if ipv4 { 20 } else { 40 };
    let tcp = &frame[transport..];
    let ip = !ipv4 || Ipv4Header::at(frame, NETWORK).unwrap().checksum_is_valid();
    ip && (pseudo(ipv4, frame, tcp.len()).unwrap() + checksum::sum(tcp)).is_valid()
}

proptest! {
    /// The segments have all of the payload, in order, with right headers and checksums.
    #[test]
    fn segments_are_those_of_a_device(
        ipv4: bool, words in 0..=10_usize, segment in MIN_PAYLOAD..1500, payload in 3000..20_000_usize,
        cwr: bool, fin: bool,
    ) {
        let ends = tcp::flag::PSH | if fin { tcp::flag::FIN } else { 0 };
        let flags = tcp::flag::ACK | ends | if cwr { tcp::flag::CWR } else { 0 };
        let pool = pool();
        let head = headers(ipv4, words * 4, payload, flags);
        let bytes: Vec<u8> = (0..payload).map(|at| (at * 7 % 251) as u8).collect();
        let word = Word::frame(LONG_SLOT | 3, 192, (head.len() + payload) as u16, 0);
        let place = pool.slot_offset(word.slot(), 192);
        pool.mapping().copy_in(place, &[&head[..], &bytes].concat());
        let at = pool.slot_offset(word.slot(), SEGMENT_OFFSET_BYTES);
        pool.mapping().copy_in(at, &(segment as u16).to_ne_bytes());
        let mut own = [0; MAX_HEADERS];
        let long = Long::read(&pool, word, &mut own).unwrap();
        prop_assert_eq!(long.headers, head.len());
        let (mut joined, mut wire): (Vec<u8>, u64) = (Vec::new(), 0);
        let count = long.frames() as usize;
        for number in 0..count {
            let length = segment.min(payload - number * segment);
            let to = pool.slot_offset(7, 192);
            let source = (long.payload(&pool, word).0 + number * segment, length);
            prop_assert!(long.write(&pool, &own, number, source, to));
            let mut frame = vec![0; head.len() + length];
            pool.mapping().copy_out(to, &mut frame);
            prop_assert!(is_intact(ipv4, &frame), "segment {number}");
            let tcp = TcpHeader::at(&frame, long.transport).unwrap();
            let sequence = (u32::MAX - 3000).wrapping_add((number * segment) as u32);
            prop_assert_eq!(tcp.sequence.get(), sequence);
            prop_assert_eq!(tcp.flags & ends, if number + 1 == count { ends } else { 0 });
            prop_assert_eq!(tcp.flags & tcp::flag::CWR != 0, cwr && number == 0);
            if let Some(ip) = Ipv4Header::at(&frame, NETWORK).filter(|_| ipv4) {
                prop_assert_eq!(ip.id.get(), u16::MAX.wrapping_add(number as u16));
            }
            wire += frame.len() as u64;
            joined.extend(&frame[head.len()..]);
        }
        prop_assert_eq!(wire, long.wire_bytes());
        prop_assert_eq!(joined, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// For any word, metadata and headers from a router: the switch reads only that slot of the
    /// router's pool, and the kernel gets only places inside the packet.
    #[test]
    fn no_lie_leads_out_of_the_slot(
        slot in 0..1_u32 << 20, offset in 0..1_u16 << 10, length: u16, segment: u16, ipv4: bool,
        words in 0..=11_usize, flags: u8, true_length: bool, noise in prop::collection::vec((0..114_usize, any::<u8>()), 0..3),
    ) {
        thread_local!(static POOL: PoolView = pool());
        POOL.with(|pool| {
            let word = Word::frame(slot, offset, length, 0);
            let options = words * 4;
            let payload = usize::from(length).saturating_sub(14 + if ipv4 { 40 } else { 60 } + options);
            let claimed = if true_length { payload } else { 1000 };
            let claimed = claimed.min(65_000 - options);
            let mut head = headers(ipv4, options, claimed, flags);
            for (at, byte) in noise {
                if let Some(place) = head.get_mut(at) {
                    *place = byte;
                }
            }
            let place = pool.slot_offset(word.slot(), word.offset().into());
            pool.mapping().copy_in(place, &head);
            let at = pool.slot_offset(word.slot(), SEGMENT_OFFSET_BYTES);
            pool.mapping().copy_in(at, &segment.to_ne_bytes());
            let mut own = [0; MAX_HEADERS];
            let Some(long) = Long::read(pool, word, &mut own) else { return Ok(()) };
            let begin = pool.slot_offset(word.slot(), 0);
            let end = begin + pool.slot_bytes(word.slot());
            prop_assert!(end <= pool.mapping().bytes());
            let is_long = pool.mask(word.slot()) & LONG_SLOT != 0;
            prop_assert_eq!(end - begin, if is_long { LONG_SLOT_BYTES as usize } else { 2048 });
            let (from, bytes) = long.payload(pool, word);
            prop_assert!(from >= begin && from + bytes <= end);
            prop_assert_eq!(long.headers + bytes, usize::from(length));
            prop_assert!(long.headers <= MAX_HEADERS && long.frames() >= 2 && long.frames() <= 1365);
            let offload = long.finish(&mut own[..long.headers]).unwrap();
            let number = |at: usize| usize::from(u16::from_ne_bytes([offload[at], offload[at + 1]]));
            prop_assert_eq!(number(2), long.headers);
            prop_assert!(number(4) >= MIN_PAYLOAD && number(4) < bytes);
            prop_assert!(number(6) + number(8) + 2 <= long.headers);
            prop_assert_eq!((offload[0], offload[1] & !ECN), (1, if own[12] == 8 { 1 } else { 4 }));
            Ok(())
        })?;
    }
}
