//! The packets between submission and arrival.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::jitter::delay_ns;
use crate::loss::is_lost;
use crate::random::Random;
use crate::settings::Settings;

/// Why a packet did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The link loses packets.
    Loss,
    /// More packets wait for the transmitter than the limit allows.
    Limit,
    /// The caller has no room for more packets in transit.
    Share,
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// The submitted token.
    pub packet: T,
    /// It arrives twice.
    pub twice: bool,
    /// The wrong bit of the frame, counted from the lowest bit of its first byte.
    pub wrong_bit: Option<u32>,
}

/// Counters of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Packets that entered.
    pub packets: u64,
    /// Packets that the link has lost, as configured.
    pub lost: u64,
    /// Packets that found the transmitter's queue full.
    pub over_limit: u64,
    /// Packets for which the sender's share of its pool had no room.
    pub over_share: u64,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets with a wrong bit.
    pub corrupted: u64,
    /// Packets in transit.
    pub waiting: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    due_ns: u64,
    packet: Due<T>,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Impairment<T> {
    settings: Settings,
    random: Random,
    /// State of the loss model.
    bad: bool,
    /// Time at which the transmitter has sent all submitted packets.
    idle_ns: u64,
    /// For each packet that waits for the transmitter, the time when it will have been sent.
    departures: VecDeque<u64>,
    /// Both queues are sorted by time of arrival. Two are enough, because no packet overtakes
    /// another one of its own queue.
    delayed: VecDeque<Waiting<T>>,
    express: VecDeque<Waiting<T>>,
    capacity: usize,
    statistics: Statistics,
}

impl<T: Copy> Impairment<T> {
    /// A direction with at most `capacity` packets in transit.
    pub fn new(settings: Settings, capacity: usize) -> Self {
        let mut new = Self {
            settings,
            random: Random::new(settings.seed),
            bad: false,
            idle_ns: 0,
            departures: VecDeque::new(),
            delayed: VecDeque::with_capacity(capacity),
            express: VecDeque::new(),
            capacity,
            statistics: Statistics::default(),
        };
        new.reserve();
        new
    }

    /// Continues the counts of another instance.
    #[must_use]
    pub fn continuing(mut self, statistics: Statistics) -> Self {
        self.statistics = statistics;
        self
    }

    /// Allocates memory for the settings, so that submitting never allocates.
    fn reserve(&mut self) {
        let express = self.settings.reorder > 0.0;
        let sent = self.settings.rate_bits.is_some();
        let room = |queue: usize, wanted: bool| {
            if wanted { self.capacity.saturating_sub(queue) } else { 0 }
        };
        let (express, sent) =
            (room(self.express.len(), express), room(self.departures.len(), sent));
        self.express.reserve(express);
        self.departures.reserve(sent);
    }

    /// Changes the settings. Packets in transit keep their time of arrival; the sequence of random
    /// numbers continues unless the seed changes.
    pub fn change(&mut self, settings: Settings) {
        if settings.seed != self.settings.seed {
            self.random = Random::new(settings.seed);
        }
        self.settings = settings;
        self.reserve();
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Accepts a packet of `length` bytes that the sender submits at `now_ns`. Times must not
    /// decrease.
    ///
    /// # Errors
    /// The reason why the packet is lost. The caller keeps the packet.
    pub fn submit(&mut self, now_ns: u64, length: u32, packet: T) -> Result<(), Cause> {
        self.statistics.packets += 1;
        let settings = &self.settings;
        let random = &mut self.random;
        if is_lost(&settings.loss, &mut self.bad, random) {
            self.statistics.lost += 1;
            return Err(Cause::Loss);
        }
        if self.delayed.len() + self.express.len() >= self.capacity {
            self.statistics.over_share += 1;
            return Err(Cause::Share);
        }
        let mut sent_ns = now_ns;
        if let Some(rate) = settings.rate_bits {
            while self.departures.front().is_some_and(|sent| *sent <= now_ns) {
                self.departures.pop_front();
            }
            let ahead_ns = self.idle_ns.saturating_sub(now_ns);
            let bytes = u128::from(ahead_ns) * u128::from(rate) / 8_000_000_000;
            let full = self.departures.len() >= settings.limit.packets as usize
                || bytes + u128::from(length) > u128::from(settings.limit.bytes);
            if full && !self.departures.is_empty() {
                self.statistics.over_limit += 1;
                return Err(Cause::Limit);
            }
            let takes_ns = u64::from(length) * 8_000_000_000 / rate.max(1);
            sent_ns = self.idle_ns.max(now_ns) + takes_ns;
            self.idle_ns = sent_ns;
            self.departures.push_back(sent_ns);
        }
        let twice = random.happens(settings.duplicate);
        self.statistics.duplicated += u64::from(twice);
        let wrong_bit = random.happens(settings.corrupt).then(|| random.below((length * 8).max(1)));
        self.statistics.corrupted += u64::from(wrong_bit.is_some());
        let (queue, due_ns) = if random.happens(settings.reorder) {
            self.statistics.reordered += 1;
            (&mut self.express, sent_ns)
        } else {
            (&mut self.delayed, sent_ns.saturating_add(delay_ns(settings, random)))
        };
        // A packet that is faster than its predecessor waits for it.
        let due_ns = queue.back().map_or(due_ns, |last| due_ns.max(last.due_ns));
        queue.push_back(Waiting { due_ns, packet: Due { packet, twice, wrong_bit } });
        Ok(())
    }

    /// When the next packet arrives.
    pub fn next_due_ns(&self) -> Option<u64> {
        let due = |queue: &VecDeque<Waiting<T>>| queue.front().map(|waiting| waiting.due_ns);
        match (due(&self.delayed), due(&self.express)) {
            (Some(delayed), Some(express)) => Some(delayed.min(express)),
            (one, other) => one.or(other),
        }
    }

    /// Removes and returns the next packet that has arrived by `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Due<T>> {
        let due = self.next_due_ns().filter(|due| *due <= now_ns)?;
        let from_express = self.express.front().is_some_and(|waiting| waiting.due_ns == due);
        let queue = if from_express { &mut self.express } else { &mut self.delayed };
        queue.pop_front().map(|waiting| waiting.packet)
    }

    /// Number of packets in transit.
    pub fn len(&self) -> usize {
        self.delayed.len() + self.express.len()
    }

    /// Whether no packet is in transit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a packet for which the caller had no room.
    pub fn refuse(&mut self) {
        self.statistics.packets += 1;
        self.statistics.over_share += 1;
    }

    /// Removes and returns all packets, arrived or not.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.departures.clear();
        self.delayed.drain(..).chain(self.express.drain(..)).map(|waiting| waiting.packet.packet)
    }

    /// The present counters of packets.
    pub fn statistics(&self) -> Statistics {
        Statistics { waiting: self.len() as u64, ..self.statistics }
    }
}
