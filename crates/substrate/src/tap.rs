//! Captures: taps on interfaces, their rings and the records in them.
//!
//! A tap has two rings. The eBPF programs write received frames, and frames sent by kicks, into a
//! BPF ring buffer. The switch cannot write into that buffer; it writes frames sent by sockets and
//! over links into shared memory. Both use the same clock for the times of records, so that a
//! reader can order them. `bpf/tap.h` has the same definitions in C.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use europa_pool::Mapping;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use nix::time::{ClockId, clock_gettime};

use crate::layout::{self, MAX_INTERFACES, MAX_TAPS};
use crate::substrate::{Doing, Error};
use crate::table::Table;

/// Bytes of a tap's BPF ring.
pub const RING_BYTES: u32 = 32 << 20;
/// Bytes of a tap's ring in the switch's memory, without its cursors.
const MEMORY_RING_BYTES: usize = 8 << 20;
/// Bytes of one tap in the switch's memory.
const STRIDE: usize = MEMORY_RING_BYTES + PAGE;
/// Bytes of the memory for all taps; only touched pages need room.
pub const MEMORY_BYTES: usize = STRIDE * MAX_TAPS as usize;
const PAGE: usize = 4096;
/// Bytes of a record's header.
const HEADER_BYTES: usize = 32;

/// The direction of a frame, seen from its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the router.
    In,
    /// From it.
    Out,
}

/// How a frame entered the pool or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From a port into the pool.
    Pool,
    /// Out by a kick.
    Live,
    /// Out by a socket.
    Socket,
    /// Over a link.
    Link,
    /// Into or out of the cage of a router's XDP program.
    Cage,
    /// The frame after a router's XDP program, if it does not leave by the kernel.
    Verdict,
}

/// The record of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Number of the interface.
    pub interface: u32,
    /// Bytes of the frame in the form that the router sees.
    pub length: u32,
    /// Bytes of it that were copied.
    pub captured: u32,
    /// Its direction.
    pub direction: Direction,
    /// 0: the frame passed. Otherwise, the number of its counter in [`layout::Counters`], or one of
    /// [`mod@line`].
    pub cause: u8,
    /// How it passed.
    pub way: Way,
    /// A number that all records of one frame share, for a kernel router's program; otherwise 0.
    pub frame: u64,
}

/// The number of a counter, as in records.
#[macro_export]
macro_rules! cause {
    ($counter:ident) => {
        (::std::mem::offset_of!($crate::layout::Counters, $counter) / 8) as u8
    };
}

/// Causes of drops that links count. Counters of interfaces have lower numbers.
pub mod line {
    /// The link loses some.
    pub const LOST: u8 = 0xf0;
    /// More packets waited for the transmitter than its limit allows.
    pub const LIMIT: u8 = 0xf1;
    /// The sender has used its whole share of packets in transit.
    pub const SHARE: u8 = 0xf2;
}

/// The meaning of a cause of a drop, in a few words.
pub fn cause_name(cause: u8) -> &'static str {
    const NAMES: [(u8, &str); 23] = [
        (line::LOST, "lost on the link"),
        (line::LIMIT, "link's queue full"),
        (line::SHARE, "sender's pool used up"),
        (cause!(rx_drop_ring), "receive ring full"),
        (cause!(rx_drop_slots), "no free slot"),
        (cause!(rx_drop_long), "too long for a slot"),
        (cause!(rx_drop_rate), "over the reserved rate in"),
        (cause!(rx_drop_program), "dropped by the XDP program"),
        (cause!(rx_drop_aborted), "XDP program aborted"),
        (cause!(rx_drop_target), "redirected to no device"),
        (cause!(tx_drop_source), "foreign source MAC address"),
        (cause!(tx_drop_address), "source address not bound"),
        (cause!(tx_drop_vlan), "VLAN tag not allowed"),
        (cause!(tx_drop_length), "bad length"),
        (cause!(tx_drop_pool), "pool gone"),
        (cause!(tx_drop_queue), "port queue full"),
        (cause!(tx_drop_device), "refused by the device"),
        (cause!(tx_drop_link), "link full"),
        (cause!(tx_drop_filter), "dropped by a filter"),
        (cause!(tx_drop_hops), "too many kernel routers in a row"),
        (cause!(tx_drop_live), "too long for a kernel router's link"),
        (cause!(rx_drop_fenced), "fenced: no lease"),
        (cause!(tx_drop_fenced), "fenced: no lease"),
    ];
    NAMES.iter().find(|(number, _)| *number == cause).map_or("unknown cause", |(_, name)| name)
}

impl Record {
    /// Now, on the clock of records.
    pub fn now_ns() -> u64 {
        // Cannot fail for this clock.
        clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.time_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.captured.to_ne_bytes());
        bytes[20] = match self.direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        bytes[21] = self.cause;
        bytes[22] = match self.way {
            Way::Pool => 0,
            Way::Live => 1,
            Way::Socket => 2,
            Way::Link => 3,
            Way::Cage => 4,
            Way::Verdict => 5,
        };
        bytes[24..].copy_from_slice(&self.frame.to_ne_bytes());
        bytes
    }

    /// `None` for other data.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Record> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        Some(Record {
            time_ns: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            interface: word(8)?,
            length: word(12)?,
            captured: word(16)?,
            direction: match bytes[20] {
                1 => Direction::In,
                2 => Direction::Out,
                _ => return None,
            },
            cause: bytes[21],
            way: match bytes[22] {
                0 => Way::Pool,
                1 => Way::Live,
                2 => Way::Socket,
                3 => Way::Link,
                4 => Way::Cage,
                5 => Way::Verdict,
                _ => return None,
            },
            frame: u64::from_ne_bytes(bytes.get(24..)?.try_into().ok()?),
        })
    }
}

/// The node's side: turns taps on and off.
pub struct Taps {
    interfaces: Table<layout::Interface>,
    state: Table<layout::Tap>,
    rings: MapHandle,
}

/// Frames that a tap has not copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// They exceeded its rate.
    pub rate: u64,
    /// The reader was too slow.
    pub room: u64,
}

impl Taps {
    /// Opens the taps of the substrate whose pins are in `directory`.
    ///
    /// # Errors
    /// The kernel's error; there may be no substrate yet.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let map = |name: &str| {
            MapHandle::from_pinned_path(directory.join(name))
                .doing(format!("opening the map {name}"))
        };
        let mapped = "mapping a table";
        Ok(Self {
            interfaces: Table::new(map("interfaces")?, MAX_INTERFACES).doing(mapped)?,
            state: Table::new(map("tap_state")?, MAX_TAPS).doing(mapped)?,
            rings: map("tap_rings")?,
        })
    }

    /// Prepares tap `number`, which is on no interface yet. Returns the programs' ring.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(&self, number: u32, snaplen: u32, rate: u32) -> Result<OwnedFd, Error> {
        self.set(number, &[]);
        let mut tap = layout::Tap { snaplen, rate, ..Default::default() };
        for side in [&mut tap.received, &mut tap.sent] {
            side.tokens = i64::from(rate / 8) + 1024;
            side.refilled_ns = Record::now_ns();
        }
        self.state.set(number, tap);
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let ring = MapHandle::create(MapType::RingBuf, Some("tap"), 0, 0, RING_BYTES, &options)
            .doing("making a capture's ring")?;
        self.rings
            .update(&number.to_ne_bytes(), &ring.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .doing("entering a capture's ring into its table")?;
        ring.as_fd().try_clone_to_owned().doing("duplicating a descriptor")
    }

    /// Puts tap `number` on these interfaces, and removes it from all others.
    pub fn set(&self, number: u32, interfaces: &[u32]) {
        let bit = 1 << number;
        for id in 0..MAX_INTERFACES {
            let taps = self.interfaces.atomic_u32(id, offset_of!(layout::Interface, taps));
            let (is, wanted) = (taps.load(Ordering::Relaxed) & bit != 0, interfaces.contains(&id));
            if wanted && !is {
                taps.fetch_or(bit, Ordering::Relaxed);
            } else if is && !wanted {
                taps.fetch_and(!bit, Ordering::Relaxed);
            }
        }
    }

    /// The losses of tap `number`.
    pub fn lost(&self, number: u32) -> Lost {
        let layout::Tap { received, sent, .. } = self.state.get(number);
        Lost {
            rate: received.lost_rate + sent.lost_rate,
            room: received.lost_room + sent.lost_room,
        }
    }

    /// Removes tap `number` from all interfaces and frees its ring.
    pub fn end(&self, number: u32) {
        self.set(number, &[]);
        // An error means that the ring does not exist: the capture did not begin.
        let _ = self.rings.delete(&number.to_ne_bytes());
    }
}

/// The switch's side: records of frames that the programs do not see.
pub struct MemoryTaps {
    state: Table<layout::Tap>,
    memory: Mapping,
}

impl MemoryTaps {
    /// Takes the descriptors of the table `tap_state` and of memory of [`MEMORY_BYTES`].
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(state: impl AsFd, memory: impl AsFd) -> nix::Result<Self> {
        let memory = Mapping::new(memory, MEMORY_BYTES)?;
        Ok(Self { state: Table::new(state, MAX_TAPS)?, memory })
    }

    /// Adds a record for every tap in the mask `taps`. `fill` copies the frame; its arguments are
    /// the place in the memory and the length, `record.captured`.
    #[cold]
    pub fn record(
        &self,
        taps: u32,
        mut record: Record,
        fill: impl Fn(&Mapping, usize, usize) -> bool,
    ) {
        let there = record.captured;
        let side = side(record.direction);
        for number in (0..MAX_TAPS).filter(|number| taps & 1 << number != 0) {
            let count = |offset| {
                self.state.atomic_u64(number, side + offset).fetch_add(1, Ordering::Relaxed);
            };
            if !self.allows(number, side, record.time_ns) {
                count(offset_of!(layout::TapSide, lost_rate));
                continue;
            }
            record.captured = there.min(self.state.get(number).snaplen);
            if !self.append(number, &record, &fill) {
                count(offset_of!(layout::TapSide, lost_room));
            }
        }
    }

    /// The same as `tap_allows` in `bpf/tap.h`.
    fn allows(&self, number: u32, side: usize, now_ns: u64) -> bool {
        let refilled =
            self.state.atomic_u64(number, side + offset_of!(layout::TapSide, refilled_ns));
        let tokens = self.state.atomic_u64(number, side + offset_of!(layout::TapSide, tokens));
        // Another CPU may have refilled the bucket since this one read the clock.
        let since = now_ns.saturating_sub(refilled.load(Ordering::Relaxed));
        let mut left = tokens.load(Ordering::Relaxed).cast_signed();
        if since > 1_000_000 {
            let rate = u64::from(self.state.get(number).rate);
            let most = (rate / 8 + 1024).cast_signed();
            let fresh =
                if since > 1_000_000_000 { rate } else { (since / 1000) * rate / 1_000_000 };
            left = left.saturating_add_unsigned(fresh).min(most);
            refilled.store(now_ns, Ordering::Relaxed);
        }
        if left > 0 {
            left -= 1;
            tokens.store(left.cast_unsigned(), Ordering::Relaxed);
            return true;
        }
        tokens.store(left.cast_unsigned(), Ordering::Relaxed);
        false
    }

    fn append(
        &self,
        number: u32,
        record: &Record,
        fill: &impl Fn(&Mapping, usize, usize) -> bool,
    ) -> bool {
        let base = number as usize * STRIDE;
        let (Some(head), Some(tail)) =
            (cursor(&self.memory, base), cursor(&self.memory, base + 64))
        else {
            return false;
        };
        let bytes = HEADER_BYTES + record.captured as usize;
        let whole = 8 + bytes.next_multiple_of(8);
        let mut at = tail.load(Ordering::Relaxed);
        let end = MEMORY_RING_BYTES - at as usize % MEMORY_RING_BYTES;
        let skipped = if whole > end { end } else { 0 };
        let used = at.wrapping_sub(head.load(Ordering::Acquire)) as usize;
        if used + skipped + whole > MEMORY_RING_BYTES {
            return false;
        }
        let place = |at: u64| base + PAGE + at as usize % MEMORY_RING_BYTES;
        if skipped > 0 {
            self.memory.copy_in(place(at), &u64::MAX.to_ne_bytes());
            at += skipped as u64;
        }
        let to = place(at);
        self.memory.copy_in(to, &(bytes as u64).to_ne_bytes());
        self.memory.copy_in(to + 8, &record.encode());
        if !fill(&self.memory, to + 8 + HEADER_BYTES, record.captured as usize) {
            return false;
        }
        tail.store(at + whole as u64, Ordering::Release);
        true
    }
}

/// The index in a tap of the data for frames of this direction.
fn side(direction: Direction) -> usize {
    match direction {
        Direction::In => offset_of!(layout::Tap, received),
        Direction::Out => offset_of!(layout::Tap, sent),
    }
}

fn cursor(memory: &Mapping, offset: usize) -> Option<&AtomicU64> {
    memory.words(offset, 1)?.first()
}

/// The reader's side of the switch's ring.
pub struct MemoryRing {
    memory: Mapping,
    base: usize,
}

impl MemoryRing {
    /// Opens tap `number`'s ring in the switch's memory, and drops its present contents.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(memory: impl AsFd, number: u32) -> nix::Result<Self> {
        let memory = Mapping::new(memory, MEMORY_BYTES)?;
        let base = (number % MAX_TAPS) as usize * STRIDE;
        if let (Some(head), Some(tail)) = (cursor(&memory, base), cursor(&memory, base + 64)) {
            head.store(tail.load(Ordering::Acquire), Ordering::Release);
        }
        Ok(Self { memory, base })
    }

    /// Takes all present records.
    pub fn read(&self, mut take: impl FnMut(Record, &[u8])) {
        let (Some(head), Some(tail)) =
            (cursor(&self.memory, self.base), cursor(&self.memory, self.base + 64))
        else {
            return;
        };
        let mut buffer = Vec::new();
        let mut at = head.load(Ordering::Relaxed);
        let end = tail.load(Ordering::Acquire).min(at.saturating_add(MEMORY_RING_BYTES as u64));
        while at < end {
            let offset = at as usize % MEMORY_RING_BYTES;
            let mut word = [0; 8];
            self.memory.copy_out(self.base + PAGE + offset, &mut word);
            let bytes = u64::from_ne_bytes(word);
            if bytes == u64::MAX {
                at += (MEMORY_RING_BYTES - offset) as u64;
                continue;
            }
            // A process with fewer rights than this one writes the length, so it is checked.
            if bytes > MEMORY_RING_BYTES as u64 {
                break;
            }
            buffer.resize(bytes as usize, 0);
            if !self.memory.copy_out(self.base + PAGE + offset + 8, &mut buffer) {
                break;
            }
            take_one(&buffer, &mut take);
            at += 8 + bytes.next_multiple_of(8);
        }
        head.store(end, Ordering::Release);
    }
}

/// The reader's side of the programs' ring.
pub struct ProgramRing {
    consumer: Mapping,
    /// The writer's position; then the data, which is mapped twice so that no record is cut.
    producer: Mapping,
}

/// Flag bits of a record's first word in a BPF ring buffer.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl ProgramRing {
    /// Takes the descriptor that [`Taps::begin`] returned.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(ring: impl AsFd) -> nix::Result<Self> {
        let consumer = Mapping::new(&ring, PAGE)?;
        let producer = Mapping::read_only(&ring, PAGE, PAGE + 2 * RING_BYTES as usize)?;
        Ok(Self { consumer, producer })
    }

    /// Takes all present records.
    pub fn read(&self, mut take: impl FnMut(Record, &[u8])) {
        let (Some(head), Some(tail)) = (cursor(&self.consumer, 0), cursor(&self.producer, 0))
        else {
            return;
        };
        let mut buffer = Vec::new();
        let mut at = head.load(Ordering::Relaxed);
        while at < tail.load(Ordering::Acquire) {
            let offset = PAGE + at as usize % RING_BYTES as usize;
            let Some(word) = cursor(&self.producer, offset) else { break };
            let length = word.load(Ordering::Acquire) as u32;
            if length & BUSY != 0 {
                break;
            }
            let bytes = length & !DISCARDED;
            if length & DISCARDED == 0 {
                buffer.resize(bytes as usize, 0);
                self.producer.copy_out(offset + 8, &mut buffer);
                take_one(&buffer, &mut take);
            }
            at += 8 + u64::from(bytes).next_multiple_of(8);
            head.store(at, Ordering::Release);
        }
    }
}

fn take_one(bytes: &[u8], take: &mut impl FnMut(Record, &[u8])) {
    let Some((header, data)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    if let Some(record) = Record::decode(header)
        && let Some(data) = data.get(..record.captured as usize)
    {
        take(record, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    fn memory(bytes: usize) -> OwnedFd {
        let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, bytes as i64).unwrap();
        file
    }

    #[test]
    fn what_the_switch_records_is_read_in_order_around_the_end() {
        let (state, shared) = (memory(4096), memory(MEMORY_BYTES));
        let taps = MemoryTaps::new(&state, &shared).unwrap();
        for number in [2, 5] {
            let tap = layout::Tap { snaplen: 9000, rate: 1 << 30, ..Default::default() };
            taps.state.set(number, tap);
        }
        let ring = MemoryRing::new(&shared, 5).unwrap();
        let record = Record {
            time_ns: 2_000_000_000,
            interface: 7,
            length: 0,
            captured: 0,
            direction: Direction::Out,
            cause: cause!(tx_drop_vlan),
            way: Way::Link,
            frame: 0,
        };
        let (mut sent, mut seen) = (0u32, 0u32);
        for round in 0..4000u32 {
            for length in [64, 9014, 1500 + round % 13] {
                let data = vec![sent as u8; length as usize];
                let record = Record { length, captured: length, ..record };
                taps.record(1 << 5 | 1 << 2, record, |to, offset, bytes| {
                    to.copy_in(offset, &data[..bytes])
                });
                sent += 1;
            }
            ring.read(|found, data| {
                assert_eq!(found.captured, found.length.min(9000));
                assert_eq!(data.len(), found.captured as usize);
                assert!(data.iter().all(|byte| *byte == seen as u8), "record {seen}");
                assert_eq!((found.interface, found.cause), (7, record.cause));
                seen += 1;
            });
        }
        assert_eq!(sent, seen);
        // The other record has not been read.
        assert!(taps.state.get(2).sent.lost_room > 0);
        assert_eq!(taps.state.get(5).sent.lost_room, 0);
    }

    #[test]
    fn a_tap_copies_no_more_than_its_rate() {
        let (state, shared) = (memory(4096), memory(MEMORY_BYTES));
        let taps = MemoryTaps::new(&state, &shared).unwrap();
        let mut tap = layout::Tap { rate: 1000, ..Default::default() };
        tap.received.refilled_ns = 5;
        taps.state.set(0, tap);
        let side = side(Direction::In);
        let passed = |now: u64| (0..5000).filter(|_| taps.allows(0, side, now)).count();
        assert_eq!(passed(5), 0);
        assert_eq!(passed(10_000_005), 10);
        assert_eq!(passed(10_000_005), 0);
        assert_eq!(passed(60_000_000_000), 1000);
    }
}
