//! Records for captures of frames that leave by sockets and over links; the programs record the
//! rest. Without a capture it costs only a look at a word of the interface's row.

use europa_pool::Mapping;
use europa_substrate::cause;
use europa_substrate::tap::{Direction, Record, Way};

use crate::tables::Shared;

/// A departing frame in private memory.
pub(crate) struct Leaving<'a> {
    pub(crate) taps: u32,
    pub(crate) interface: u32,
    /// Including the added headers.
    pub(crate) bytes: &'a [u8],
    /// Bytes of outer headers, which the router does not see.
    pub(crate) outer: usize,
    /// Whether it has a VLAN tag that the router does not see.
    pub(crate) tagged: bool,
    /// 0, or the number of the counter of its drop.
    pub(crate) cause: u8,
    /// When it left.
    pub(crate) time_ns: u64,
}

/// Records a frame that leaves by a socket, or that may not.
#[cold]
pub(crate) fn leaving(shared: &Shared, frame: &Leaving<'_>) {
    let inner = frame.bytes.get(frame.outer..).unwrap_or_default();
    let (first, rest) = match inner {
        [..] if frame.tagged && inner.len() >= 16 => (&inner[..12], &inner[16..]),
        _ => (inner, &[][..]),
    };
    let length = (first.len() + rest.len()) as u32;
    let record = Record {
        time_ns: frame.time_ns,
        interface: frame.interface,
        length,
        captured: length,
        direction: Direction::Out,
        cause: frame.cause,
        way: Way::Socket,
        frame: 0,
    };
    shared.record(frame.taps, record, |to, offset, bytes| {
        let head = &first[..bytes.min(first.len())];
        let tail = &rest[..bytes - head.len()];
        to.copy_in(offset, head) && to.copy_in(offset + head.len(), tail)
    });
}

/// A frame that a link does not pass on.
pub(crate) struct Lost<'a> {
    /// Its interface, with its taps.
    pub(crate) interface: u32,
    pub(crate) taps: u32,
    /// Whether that one sent it.
    pub(crate) direction: Direction,
    /// The memory that contains it.
    pub(crate) memory: &'a Mapping,
    pub(crate) offset: usize,
    pub(crate) length: u32,
    pub(crate) cause: u8,
}

/// Records a frame that a link does not pass on.
#[cold]
pub(crate) fn lost(shared: &Shared, frame: &Lost<'_>) {
    let record = Record {
        time_ns: Record::now_ns(),
        interface: frame.interface,
        length: frame.length,
        captured: frame.length,
        direction: frame.direction,
        cause: frame.cause,
        way: Way::Link,
        frame: 0,
    };
    shared.record(frame.taps, record, |to, offset, bytes| {
        frame.memory.copy_to(frame.offset, to, offset, bytes)
    });
}

/// A frame on a link.
pub(crate) struct Crossing<'a> {
    /// Interfaces and their taps.
    pub(crate) from: (u32, u32),
    pub(crate) to: (u32, u32),
    /// The memory that contains it.
    pub(crate) memory: &'a Mapping,
    pub(crate) offset: usize,
    pub(crate) length: u32,
    /// 0, or the number of the counter of its drop.
    pub(crate) cause: u8,
}

/// Records a frame that crosses a link, or fails to, for both ends.
#[cold]
pub(crate) fn crossing(shared: &Shared, frame: &Crossing<'_>) {
    let nowhere = frame.cause == cause!(tx_drop_length);
    let mut record = Record {
        time_ns: Record::now_ns(),
        interface: frame.from.0,
        length: frame.length,
        // A frame with a bad length is not inside its slot.
        captured: if nowhere { 0 } else { frame.length },
        direction: Direction::Out,
        cause: if frame.cause == 0 || nowhere { frame.cause } else { cause!(tx_drop_link) },
        way: Way::Link,
        frame: 0,
    };
    let fill = |to: &Mapping, offset: usize, bytes: usize| {
        frame.memory.copy_to(frame.offset, to, offset, bytes)
    };
    shared.record(frame.from.1, record, fill);
    if nowhere {
        return;
    }
    record.interface = frame.to.0;
    record.direction = Direction::In;
    record.cause = frame.cause;
    shared.record(frame.to.1, record, fill);
}

/// Records a frame from another machine, for the captures of the interface that it is for.
#[cold]
pub(crate) fn arriving(shared: &Shared, interface: u32, taps: u32, frame: &[u8], cause: u8) {
    let length = frame.len() as u32;
    let record = Record {
        time_ns: Record::now_ns(),
        interface,
        length,
        captured: length,
        direction: Direction::In,
        cause,
        way: Way::Link,
        frame: 0,
    };
    shared.record(taps, record, |to, offset, bytes| {
        frame.get(..bytes).is_some_and(|part| to.copy_in(offset, part))
    });
}
