//! A worker's loop: rounds while there is work, orders between them, sleep.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use europa_channel::Served;
use europa_pool::{Idle, Mapping, Pace, Preemption, Rest, look_on};
use nix::sched::sched_yield;

use crate::batching::MAX_KICK_FRAMES;
use crate::crew::{Crew, Desk};
use crate::orders::{Answer, Order};
use crate::peer::Peer;
use crate::process::SwitchError;
use crate::worker::Worker;

/// A busy worker looks for orders this often.
const ORDERS_EVERY: Duration = Duration::from_millis(1);

/// Interval at which it counts busy routers.
const COUNT_EVERY: Duration = Duration::from_millis(4);
/// However many are, the switch naps no longer.
const LONGEST_NAP: Duration = Duration::from_micros(800);

/// The source of a worker's orders.
pub(crate) enum Orders {
    /// The node: the first worker's.
    Node(Served<Answer, Order>, Crew),
    /// The first worker.
    Desk(Desk),
}

impl Orders {
    /// Readable if there is one; a desk rings the doorbell instead.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Node(orders, _) => Some(orders.as_fd()),
            Self::Desk(_) => None,
        }
    }

    fn obey(&mut self, worker: &mut Worker) -> Result<(), SwitchError> {
        match self {
            Self::Node(orders, crew) => {
                while let Some((order, descriptors)) = orders.try_receive()? {
                    if matches!(order, Order::TunnelSockets) {
                        let all = worker.tables.tunnels.sockets();
                        let (at, sockets): (Vec<_>, Vec<_>) =
                            all.map(|(local, socket)| (local, socket.as_fd())).unzip();
                        orders.send(&Answer::Sockets(at), &sockets)?;
                        continue;
                    }
                    let answer = crew.obey(worker, order, descriptors);
                    orders.send(&answer, &[])?;
                }
            }
            Self::Desk(desk) => desk.obey(worker),
        }
        Ok(())
    }
}

/// A worker at work.
pub(crate) struct Turning {
    pub(crate) worker: Worker,
    pub(crate) number: u32,
    /// All workers.
    pub(crate) peers: Arc<[Arc<Peer>]>,
    /// Cores for routers and one worker.
    pub(crate) cores: u32,
    pub(crate) status: Arc<Mapping>,
}

impl Turning {
    /// Runs until a failure.
    pub(crate) fn serve(&mut self, mut orders: Orders) -> Result<(), SwitchError> {
        self.set_asleep(false);
        let mut looked = Instant::now();
        let mut counted = looked;
        let mut pace = Pace::default();
        let mut idle = Idle::new(MAX_KICK_FRAMES.into());
        let mut preemption = Preemption::default();
        loop {
            let now = Instant::now();
            if self.is_ordered() || now.duration_since(looked) >= ORDERS_EVERY {
                looked = now;
                self.obey(&mut orders)?;
                if now.duration_since(counted) >= COUNT_EVERY {
                    counted = now;
                    pace = self.count_routers();
                    self.tell_pace(pace);
                    self.worker.set_slots_aside();
                }
            }
            if let Some(packets) = self.worker.round(now) {
                idle.worked(packets);
                continue;
            }
            match idle.rest(now, pace.at_most(LONGEST_NAP)) {
                Rest::Nap(time) => preemption.nap(time),
                Rest::Sleep if !self.worker.tables.busy => {
                    preemption.sleeps();
                    let asleep = Instant::now();
                    if self.sleep(&orders)? {
                        self.obey(&mut orders)?;
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

    fn peer(&self) -> Option<&Peer> {
        self.peers.get(self.number as usize).map(|peer| &**peer)
    }

    /// Whether another worker has an order for this one.
    #[inline]
    fn is_ordered(&self) -> bool {
        self.number > 0 && self.peer().is_some_and(Peer::is_ordered)
    }

    fn obey(&mut self, orders: &mut Orders) -> Result<(), SwitchError> {
        orders.obey(&mut self.worker)?;
        if !self.worker.guests.is_empty() {
            self.worker.hear_guests();
        }
        Ok(())
    }

    /// The routers' yield setting, from the counts of all workers.
    fn count_routers(&self) -> Pace {
        let (active, busy) = self.worker.count_routers();
        self.peer().into_iter().for_each(|peer| peer.count(active, busy));
        let (active, busy) = self
            .peers
            .iter()
            .map(|peer| peer.routers())
            .fold((0, 0), |(active, busy), (more_active, more_busy)| {
                (active + more_active, busy + more_busy)
            });
        Pace::among(active, busy, self.cores)
    }

    /// Writes the yield setting for routers.
    fn tell_pace(&self, pace: Pace) {
        let words = self.status.words(self.number as usize * 64, 2);
        if let Some(word) = words.and_then(|words| words.get(1)) {
            word.store(pace.to_bits(), Ordering::Relaxed);
        }
    }

    /// Announces this worker's next action to routers and the other workers.
    fn set_asleep(&self, asleep: bool) {
        let blocked = asleep && self.worker.is_blocked();
        self.peer().into_iter().for_each(|peer| peer.set_asleep(asleep, blocked));
        // One cache line a worker.
        let words = self.status.words(self.number as usize * 64, 1);
        if let Some(word) = words.and_then(|words| words.first()) {
            word.store(asleep.into(), Ordering::SeqCst);
        }
    }

    /// Sleeps until one of these events: a router rings or is woken, the node has an order, a
    /// packet is received for a relay or a router inside this switch, a router's timer is due, a
    /// packet arrives over a link with a delay or may leave by a port with a rate, or another
    /// worker hands packets over. Returns whether there is an order.
    fn sleep(&mut self, orders: &Orders) -> Result<bool, SwitchError> {
        let mut ordered = false;
        self.set_asleep(true);
        for (pool, _) in self.worker.own_pools() {
            pool.asleep().store(1, Ordering::SeqCst);
        }
        self.worker.sleeper.forget_wakes();
        // A router publishes a word and then reads the flag; this side sets the flag and then
        // checks the words: one of the two sees the other's write.
        fence(Ordering::SeqCst);
        let told = self.is_ordered();
        let worker = &self.worker;
        // Receive programs have no fence in between, see `look_on`; routers have.
        let is_received_for = worker.own_pools().next().is_some();
        let has_work =
            if is_received_for { look_on(|| worker.has_work()) } else { worker.has_work() };
        if !told && !has_work {
            self.worker.stats.sleeps += 1;
            let due = self.worker.next_due();
            let time = due.map(|due| due.saturating_duration_since(Instant::now()));
            let guests = self.worker.guests.as_fd();
            ordered = self
                .worker
                .sleeper
                .sleep([orders.as_fd().unwrap_or(guests), guests], time)
                .map_err(|error| SwitchError::System { what: "sleeping", error })?;
        }
        for (pool, waker) in self.worker.own_pools() {
            pool.asleep().store(0, Ordering::SeqCst);
            waker.clear();
        }
        self.set_asleep(false);
        Ok(ordered || told || self.is_ordered())
    }
}
