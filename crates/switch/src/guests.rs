//! Routers that run inside this worker.
//!
//! Each has a packet pool and rings as if it had a process. The worker gives it a turn when its
//! receive rings have packets or a timer is due, and intake finds its packets in its transmit rings
//! in the same round. A router that ends (it panicked, exceeded a limit, or got an impossible
//! order) sends the reason to the node; its pool stays until the node removes it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use europa_channel::{Channel, Served};
use europa_pool::PoolView;
use europa_router::{Guest, Stock};
use nix::Result;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::orders::InlineStats;

/// Routers with orders that are heard at once.
const MOST_EVENTS: usize = 64;

/// So many routers have their turn before their packets leave, while these are in the caches
/// (measured, 1000 routers: 2.3 times the rate).
const TURNS: u32 = 64;

/// Batches for each turn: as many as a graph usually needs.
const BATCHES: usize = 24;

pub(crate) struct Guests {
    all: Vec<(u32, Guest)>,
    /// Ready when a node, or another permitted sender, has an order for one of them.
    orders: Epoll,
    /// Pools of routers that may have more orders.
    again: Vec<u32>,
    /// Batches that they work with, one after the other.
    stock: Stock,
    /// The first one in the next round.
    next: usize,
}

impl Guests {
    pub(crate) fn new() -> Result<Self> {
        let orders = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { all: Vec::new(), orders, again: Vec::new(), stock: Stock::default(), next: 0 })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The descriptors that a sleeper waits for.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.orders.0.as_fd()
    }

    /// Takes in the router of a pool, which is `view`. `orders` and `listener` are its control
    /// sockets.
    pub(crate) fn add(
        &mut self,
        pool: u32,
        view: PoolView,
        [orders, listener, log]: [OwnedFd; 3],
    ) -> Result<()> {
        // A later node that connects is served as well.
        self.watch(pool, listener.as_fd())?;
        let guest = Guest::new(Served::new(Channel::new(orders), listener), view, log);
        self.remove(pool);
        self.all.push((pool, guest));
        self.watch_again(self.all.len() - 1)
    }

    /// Drops the router of a pool, if there is one.
    pub(crate) fn remove(&mut self, pool: u32) {
        self.all.retain(|(other, _)| *other != pool);
    }

    /// Later packets are reported, and the present ones once.
    fn watch(&self, pool: u32, fd: BorrowedFd<'_>) -> Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, u64::from(pool));
        match self.orders.add(fd, event) {
            Err(Errno::EEXIST) => Ok(()),
            other => other,
        }
    }

    /// A router may wait for another socket after an order.
    fn watch_again(&self, index: usize) -> Result<()> {
        let Some((pool, guest)) = self.all.get(index) else { return Ok(()) };
        guest.waits_for().try_for_each(|fd| self.watch(*pool, fd))
    }

    /// Gives a turn to routers with work, a limited number if they are many. Returns their pools,
    /// and whether any found work.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant, mut had_turn: impl FnMut(u32)) -> bool {
        let mut worked = false;
        let mut index = self.next;
        let (mut asked, mut turns) = (0, 0);
        while asked < self.all.len() && turns < TURNS {
            asked += 1;
            if index >= self.all.len() {
                index = 0;
            }
            let Some((pool, guest)) = self.all.get_mut(index) else { break };
            if guest.wants_turn(now) {
                turns += 1;
                had_turn(*pool);
                // Refill the shared stock outside any guest's quota, also after a guest has
                // panicked with some of the batches.
                self.stock.fill(BATCHES);
                match guest.turn(now, &mut self.stock) {
                    Ok(did) => worked |= did,
                    Err(why) => {
                        self.end(index, &why);
                        continue;
                    }
                }
            }
            index += 1;
        }
        self.next = index;
        worked
    }

    /// Carries out received orders, and returns the pools of the guests concerned.
    pub(crate) fn hear(&mut self, mut heard: impl FnMut(u32)) {
        let mut events = [EpollEvent::empty(); MOST_EVENTS];
        let count = self.orders.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let come = events.iter().take(count).map(|event| event.data() as u32);
        for pool in std::mem::take(&mut self.again).into_iter().chain(come) {
            heard(pool);
            self.hear_one(pool);
        }
    }

    fn hear_one(&mut self, pool: u32) {
        // It may have been removed meanwhile.
        let Some(index) = self.all.iter().position(|(other, _)| *other == pool) else { return };
        let Some((_, guest)) = self.all.get_mut(index) else { return };
        match guest.hear() {
            Ok(more) => {
                // Not now: packets are handled in between.
                self.again.extend(more.then_some(pool));
                if let Err(error) = self.watch_again(index) {
                    self.end(index, &format!("waiting for orders: {error}"));
                }
            }
            Err(why) => self.end(index, &why),
        }
    }

    #[cold]
    fn end(&mut self, index: usize, why: &str) {
        if index < self.all.len() {
            // Others keep their order: turns are in order.
            let (pool, mut guest) = self.all.remove(index);
            tracing::warn!("the router inside the switch on pool {pool} has ended: {why}");
            guest.tell_end(why);
        }
    }

    /// Whether one of them has work now.
    pub(crate) fn has_work(&self, now: Instant) -> bool {
        !self.again.is_empty() || self.all.iter().any(|(_, guest)| guest.wants_turn(now))
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|(_, guest)| guest.next_due()).min()
    }

    pub(crate) fn pools(&self) -> Vec<u32> {
        self.all.iter().map(|(pool, _)| *pool).collect()
    }

    pub(crate) fn stats(&self) -> Vec<InlineStats> {
        let all = self.all.iter();
        all.map(|(pool, guest)| InlineStats { pool: *pool, router: guest.stats() }).collect()
    }
}
