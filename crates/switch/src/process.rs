//! The switch process: orders from the node, rounds of the worker, and sleep.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError, Served};
use europa_pool::{Idle, Mapping, Pace, Preemption, Rest};
use europa_substrate::layout::{MAX_INTERFACES, MAX_POOLS, MAX_WORKERS, TRANSMIT_LIST};
use europa_substrate::tap::MemoryTaps;
use europa_substrate::{Kicker, Table};
use nix::sched::sched_yield;

use crate::STATUS_BYTES;
use crate::batching::MAX_KICK_FRAMES;
use crate::guests::Guests;
use crate::held::{HELD_BYTES, Held};
use crate::live::Live;
use crate::orders::{Answer, Order, START_DESCRIPTORS};
use crate::sleeper::Sleeper;
use crate::tables::Shared;
use crate::worker::Worker;

/// A busy worker looks for orders this often.
const ORDERS_EVERY: Duration = Duration::from_millis(1);

/// It counts so often how many routers are busy.
const COUNT_EVERY: Duration = Duration::from_millis(4);
/// However many are, the switch naps no longer.
const LONGEST_NAP: Duration = Duration::from_micros(800);

/// Why a switch process ends.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The node's end of the channel.
    #[error("orders: {0}")]
    Channel(#[from] ChannelError),
    /// A first message other than [`Order::Start`], or without all descriptors.
    #[error("the first order must be to start, with {} descriptors", START_DESCRIPTORS.len())]
    Start,
    /// The kernel.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        error: nix::Error,
    },
}

/// Runs a switch that takes its orders from `control`, and, when that node has gone, from the
/// next one. It goes on until it is killed.
///
/// # Errors
/// What ended it. A node that goes before it has told who this switch is ends it silently.
pub fn run(control: OwnedFd) -> Result<(), SwitchError> {
    let mut orders: Channel<Answer, Order> = Channel::new(control);
    let (first, mut descriptors) = match orders.receive() {
        Err(ChannelError::Closed) => return Ok(()),
        other => other?,
    };
    let listener = descriptors.pop().ok_or(SwitchError::Start)?;
    let mut switch = Switch::start(first, descriptors)?;
    let mut orders = Served::new(orders, listener);
    orders.send(&Answer::Done, &[])?;
    switch.serve(&mut orders)
}

struct Switch {
    worker: Worker,
    number: u32,
    cores: u32,
    status: Mapping,
    busy: bool,
}

impl Switch {
    fn start(order: Order, descriptors: Vec<OwnedFd>) -> Result<Self, SwitchError> {
        let Order::Start { worker, counter_rows, cores, busy } = order else {
            return Err(SwitchError::Start);
        };
        let Ok(
            [
                program,
                interfaces,
                encap,
                pool_state,
                counters,
                list,
                workers,
                tap_state,
                status,
                held,
                doorbell,
                tap_memory,
            ],
        ) = <[OwnedFd; START_DESCRIPTORS.len() - 1]>::try_from(descriptors)
        else {
            return Err(SwitchError::Start);
        };
        let mapping = |error| SwitchError::System { what: "mapping a table", error };
        let shared = Shared::new(
            Table::new(interfaces, MAX_INTERFACES).map_err(mapping)?,
            Table::new(encap, MAX_INTERFACES).map_err(mapping)?,
            Table::new(pool_state, MAX_POOLS).map_err(mapping)?,
            Table::new(counters, MAX_INTERFACES * counter_rows).map_err(mapping)?,
            counter_rows,
            Held::new(Mapping::new(held, HELD_BYTES).map_err(mapping)?),
            MemoryTaps::new(tap_state, tap_memory).map_err(mapping)?,
        );
        let live = Live::new(
            worker,
            Kicker::new(program),
            Table::new(list, TRANSMIT_LIST * MAX_WORKERS).map_err(mapping)?,
            Table::new(workers, MAX_WORKERS).map_err(mapping)?,
        );
        let status = Mapping::new(status, STATUS_BYTES).map_err(mapping)?;
        let sleeper = Sleeper::new(doorbell)
            .map_err(|error| SwitchError::System { what: "preparing to sleep", error })?;
        let guests = Guests::new()
            .map_err(|error| SwitchError::System { what: "preparing for routers", error })?;
        let worker_of = Worker::new(shared, live, sleeper, guests);
        let switch = Self { worker: worker_of, number: worker, cores, status, busy };
        switch.set_asleep(false);
        Ok(switch)
    }

    fn serve(&mut self, orders: &mut Served<Answer, Order>) -> Result<(), SwitchError> {
        let mut looked = Instant::now();
        let mut counted = looked;
        let mut pace = Pace::default();
        let mut idle = Idle::new(MAX_KICK_FRAMES.into());
        let mut preemption = Preemption::default();
        loop {
            let now = Instant::now();
            if now.duration_since(looked) >= ORDERS_EVERY {
                looked = now;
                self.obey(orders)?;
                if now.duration_since(counted) >= COUNT_EVERY {
                    counted = now;
                    let (active, busy) = self.worker.count_routers();
                    pace = Pace::among(active, busy, self.cores);
                    self.tell_pace(pace);
                }
            }
            if let Some(packets) = self.worker.round(now) {
                idle.worked(packets);
                continue;
            }
            match idle.rest(now, pace.at_most(LONGEST_NAP)) {
                Rest::Nap(time) => preemption.nap(time),
                Rest::Sleep if !self.busy => {
                    preemption.sleeps();
                    let asleep = Instant::now();
                    if self.sleep(orders)? {
                        self.obey(orders)?;
                        looked = Instant::now();
                    }
                    idle.woken(asleep.elapsed());
                }
                Rest::Look => std::hint::spin_loop(),
                Rest::Yield | Rest::Sleep => {
                    let _ = sched_yield();
                }
            }
        }
    }

    fn obey(&mut self, orders: &mut Served<Answer, Order>) -> Result<(), SwitchError> {
        while let Some((order, descriptors)) = orders.try_receive()? {
            let answer = self.worker.obey(order, descriptors);
            orders.send(&answer, &[])?;
        }
        if !self.worker.guests.is_empty() {
            self.worker.hear_guests();
        }
        Ok(())
    }

    /// Tells routers what they owe each other.
    fn tell_pace(&self, pace: Pace) {
        let words = self.status.words(self.number as usize * 64, 2);
        if let Some(word) = words.and_then(|words| words.get(1)) {
            word.store(pace.to_bits(), Ordering::Relaxed);
        }
    }

    fn set_asleep(&self, asleep: bool) {
        // One cache line a worker.
        let word: Option<&AtomicU64> =
            self.status.words(self.number as usize * 64, 1).and_then(|words| words.first());
        if let Some(word) = word {
            word.store(asleep.into(), Ordering::SeqCst);
        }
    }

    /// Sleeps until a router rings or is woken, the node has an order, something is
    /// received for a relay or a router inside this switch, a timer of one is due, a packet arrives over a link with a delay, or may leave by a port
    /// with a rate. Whether the node has an order.
    fn sleep(&mut self, orders: &Served<Answer, Order>) -> Result<bool, SwitchError> {
        let mut ordered = false;
        self.set_asleep(true);
        for (pool, _) in self.worker.own_pools() {
            pool.asleep().store(1, Ordering::SeqCst);
        }
        self.worker.sleeper.forget_wakes();
        // A router publishes a word and then reads the flag; we set the flag and then
        // look at the words: one of us sees the other.
        fence(Ordering::SeqCst);
        if !self.worker.has_work() {
            self.worker.stats.sleeps += 1;
            let due = self.worker.next_due();
            let time = due.map(|due| due.saturating_duration_since(Instant::now()));
            ordered = self
                .worker
                .sleeper
                .sleep([orders.as_fd(), self.worker.guests.as_fd()], time)
                .map_err(|error| SwitchError::System { what: "sleeping", error })?;
        }
        for (pool, waker) in self.worker.own_pools() {
            pool.asleep().store(0, Ordering::SeqCst);
            waker.clear();
        }
        self.set_asleep(false);
        Ok(ordered)
    }
}
