//! The live way: entries of the transmit list, and kicks.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use europa_substrate::{KickError, Kicker, Table, layout};

use crate::queue::Queued;
use crate::tables::{Shared, count};

const ENTRIES: u32 = layout::TRANSMIT_LIST;

/// One worker's transmit list. Its cursors are in a map: a new switch continues where the old one
/// stopped.
pub(crate) struct Live {
    worker: u32,
    kicker: Kicker,
    list: Table<layout::Transmit>,
    workers: Table<layout::Worker>,
    tail: u32,
    longest: u32,
}

impl Live {
    /// Continues with the published entries of a killed switch.
    pub(crate) fn new(
        worker: u32,
        kicker: Kicker,
        list: Table<layout::Transmit>,
        workers: Table<layout::Worker>,
        shared: &Shared,
    ) -> Self {
        let tail =
            workers.atomic_u32(worker, offset_of!(layout::Worker, tail)).load(Ordering::Acquire);
        let mut live = Self { worker, kicker, list, workers, tail, longest: 0 };
        live.settle(shared);
        if live.pending() > 0 {
            live.longest = layout::MAX_LIVE_FRAME;
        }
        live
    }

    #[inline]
    fn cursor(&self, offset: usize) -> u32 {
        self.workers.atomic_u32(self.worker, offset).load(Ordering::Acquire)
    }

    #[inline]
    fn head(&self) -> u32 {
        self.cursor(offset_of!(layout::Worker, head))
    }

    /// Entries that no kick has taken yet.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.tail.wrapping_sub(self.head())
    }

    /// Entries that can be added.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        ENTRIES - self.pending()
    }

    /// Adds an entry, with `before` bytes before its frame; there must be room.
    #[inline]
    pub(crate) fn add(&mut self, packet: Queued, before: u32) {
        let place = self.worker * ENTRIES + self.tail % ENTRIES;
        self.list.set(
            place,
            layout::Transmit {
                word: packet.word.bits(),
                interface: packet.interface,
                pool: packet.pool,
            },
        );
        self.tail = self.tail.wrapping_add(1);
        self.longest = self.longest.max(before + u32::from(packet.word.length()));
    }

    /// Sends the added frames; returns the number of frames taken.
    pub(crate) fn kick(&mut self, shared: &Shared) -> Result<u32, KickError> {
        self.workers
            .atomic_u32(self.worker, offset_of!(layout::Worker, tail))
            .store(self.tail, Ordering::Release);
        self.settle(shared);
        let pending = self.pending();
        let result = self.kicker.kick(pending, self.longest);
        let taken = pending - self.pending();
        if self.pending() == 0 {
            self.longest = 0;
        }
        result.map(|()| taken)
    }

    /// Notes that slots of published entries are no longer held: the list has them, even for the
    /// next switch. Call it before the kick, which returns them: from then on the worker of their
    /// router may take them again.
    fn settle(&mut self, shared: &Shared) {
        let mut at = self.cursor(offset_of!(layout::Worker, settled));
        while at != self.tail {
            let entry = self.list.get(self.worker * ENTRIES + at % ENTRIES);
            if let Some(word) = europa_pool::Word::from_bits(entry.word) {
                shared.held.give(entry.pool, word.slot());
            }
            at = at.wrapping_add(1);
        }
        self.workers
            .atomic_u32(self.worker, offset_of!(layout::Worker, settled))
            .store(self.tail, Ordering::Release);
    }

    /// Interface, pool and word of every entry that no kick has taken.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, u32, europa_pool::Word)> + '_ {
        let head = self.head();
        (0..self.pending()).filter_map(move |ahead| {
            let place = head.wrapping_add(ahead) % ENTRIES;
            let entry = self.list.get(self.worker * ENTRIES + place);
            Some((entry.interface, entry.pool, europa_pool::Word::from_bits(entry.word)?))
        })
    }

    /// Removes all entries that no kick has taken, and counts them as lost. Returns pool and word
    /// of each.
    pub(crate) fn abandon(&mut self, shared: &Shared) -> Vec<(u32, europa_pool::Word)> {
        let lost = |(interface, pool, word)| {
            count!(shared, interface, tx_drop_pool, 1);
            (pool, word)
        };
        let left = self.waiting().map(lost).collect();
        for cursor in [offset_of!(layout::Worker, head), offset_of!(layout::Worker, settled)] {
            self.workers.atomic_u32(self.worker, cursor).store(self.tail, Ordering::Release);
        }
        left
    }
}
