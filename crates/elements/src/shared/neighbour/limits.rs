//! Limits and times of tables of neighbours, from arguments.

use std::time::Duration;

use europa_engine::{ArgumentSet, Arguments, ConfigError, arguments};

/// Highest limits of entries and packets that a table accepts.
pub(crate) const MOST: usize = 1 << 18;

/// Bounds and times of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most entries.
    pub(crate) entries: usize,
    /// Most packets that wait, in all.
    pub(crate) packets: usize,
    /// Most packets that wait for one neighbour.
    pub(crate) packets_each: usize,
    /// Time for which an answer is valid without a new request.
    pub(crate) fresh_ns: u64,
    /// Time after that until an unused entry is removed.
    pub(crate) expire_ns: u64,
    /// Time from the first use of an old entry to the first probe.
    pub(crate) delay_ns: u64,
    /// Time between questions.
    pub(crate) retransmit_ns: u64,
    /// Number of questions.
    pub(crate) tries: u8,
    /// Only packets cause requests, as in Click: at most one in 100 ms, and after ten without an
    /// answer one in 2 s. No timer repeats a request. Entries are removed when they expire.
    pub(crate) on_demand: bool,
    /// The fraction of the waiting packets that is dropped to make room; 0 if none is.
    pub(crate) slim: usize,
}

impl Limits {
    /// Limits of an empty table before its configuration.
    pub(crate) const NONE: Limits = Limits {
        entries: 0,
        packets: 0,
        packets_each: 0,
        fresh_ns: 0,
        expire_ns: 0,
        delay_ns: 0,
        retransmit_ns: 0,
        tries: 0,
        on_demand: false,
        slim: 1,
    };
}

/// The limits in an element's arguments (0 means none, except that memory is always bounded), and
/// its TIMEOUT.
#[derive(Debug, Default)]
pub(crate) struct LimitArguments {
    packets: Option<usize>,
    entries: Option<usize>,
    packets_each: Option<usize>,
    slim: Option<usize>,
    timeout: Option<Duration>,
}

impl ArgumentSet for LimitArguments {
    arguments! { set this, given;
        keyword "CAPACITY": "number of packets", by bound => this.packets;
        keyword "ENTRY_CAPACITY": "number of entries", by bound => this.entries;
        keyword "ENTRY_PACKET_CAPACITY": "number of packets", by bound => this.packets_each;
        keyword "CAPACITY_SLIM_FACTOR": usize => this.slim;
        keyword "TIMEOUT": Duration => this.timeout;
        then {
            if this.slim == Some(0) {
                return Err(ConfigError::other("CAPACITY_SLIM_FACTOR cannot be zero"));
            }
        }
    }
}

/// A bound.
fn bound(name: &'static str, given: &mut Arguments<'_>) -> Result<Option<usize>, ConfigError> {
    match given.keyword::<usize>(name)? {
        Some(0) => Ok(Some(MOST)),
        Some(value) if value > MOST => Err(ConfigError::other(format!("{name}: at most {MOST}"))),
        value => Ok(value),
    }
}

impl LimitArguments {
    /// These limits; those that are not given are the usual ones.
    pub(crate) fn or(self, usual: Limits) -> Limits {
        let expire_ns = match self.timeout {
            Some(Duration::ZERO) => u64::MAX,
            Some(time) => nanoseconds(time),
            None => usual.expire_ns,
        };
        Limits {
            packets: self.packets.unwrap_or(usual.packets),
            entries: self.entries.unwrap_or(usual.entries),
            packets_each: self.packets_each.unwrap_or(usual.packets_each),
            slim: self.slim.unwrap_or(usual.slim),
            expire_ns,
            ..usual
        }
    }
}

/// A time as nanoseconds, 584 years at most.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An age as Click writes it: seconds with six places.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}
