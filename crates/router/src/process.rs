//! The router process: orders from the node, rounds of the engine, and sleep.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError, Served};
use europa_engine::{Interest, Router};
use europa_pool::{Idle, Mapping, Pace, PoolView, Preemption, Rest, Waker};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::sched_yield;
use nix::unistd::{read, write};

use crate::graph::{self, More};
use crate::orders::{Answer, Order, START_DESCRIPTORS, Start};
use crate::running::{Running, answer_by, standard_error};

/// Interval at which a busy router checks for orders.
const ORDERS_EVERY: Duration = Duration::from_millis(1);
/// Bytes of the status page.
const STATUS_BYTES: usize = 4096;

/// Why a router process ends.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The node's end of the channel.
    #[error("orders: {0}")]
    Channel(#[from] ChannelError),
    /// The first message is not [`Order::Start`], or lacks descriptors.
    #[error("the first order must be to start, with {} descriptors", START_DESCRIPTORS.len())]
    Start,
    /// The pool.
    #[error(transparent)]
    Pool(#[from] europa_pool::ViewError),
    /// The configuration is invalid; the node has received the reason.
    #[error("{0}")]
    Configuration(String),
    /// The kernel.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        error: nix::Error,
    },
}

/// Runs a router that takes its orders from `control` and, when that node has ended, from the next
/// one. It runs until it is killed. `more` adds elements to those of Europa.
///
/// # Errors
/// The reason why the router ends. If the node ends before it has sent the settings, the router
/// ends without a message.
pub fn run(control: OwnedFd, more: More) -> Result<(), RouterError> {
    let mut orders: Channel<Answer, Order> = Channel::new(control);
    let (start, mut descriptors) = loop {
        match orders.receive() {
            Ok((Order::Start(start), descriptors)) => break (start, descriptors),
            Ok((Order::Check(start), grants)) => {
                let answer = match graph::check(&start, grants, more) {
                    Ok(warnings) => Answer::Done(warnings),
                    Err(why) => Answer::Refused(why),
                };
                answer_by(|answer| orders.send(answer, &[]), &answer)?;
            }
            Ok(_) => return Err(RouterError::Start),
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    };
    if descriptors.len() != START_DESCRIPTORS.len() + start.grants.len() {
        return Err(RouterError::Start);
    }
    let grants = descriptors.split_off(START_DESCRIPTORS.len());
    let listener = descriptors.pop().ok_or(RouterError::Start)?;
    let mut process = match Process::start(*start, descriptors, grants, more) {
        Ok(process) => process,
        Err(error) => {
            orders.send(&Answer::Refused(error.to_string()), &[])?;
            return Err(error);
        }
    };
    let mut orders = Served::new(orders, listener);
    orders.send(&Answer::Done(String::new()), &[])?;
    process.serve(&mut orders)
}

struct Process {
    running: Running,
    waker: Waker,
    wake: OwnedFd,
    doorbell: OwnedFd,
    status: Mapping,
    worker: u32,
    busy: bool,
    /// Number of packets that may gather while it naps.
    gathers: u64,
    /// The second source of orders: the mirror of the slow path.
    admitted: Option<Channel<Answer, Order>>,
}

impl Process {
    fn start(
        start: Start,
        descriptors: Vec<OwnedFd>,
        grants: Vec<OwnedFd>,
        more: More,
    ) -> Result<Self, RouterError> {
        let Ok([pool, waker, wake, doorbell, status]) =
            <[OwnedFd; START_DESCRIPTORS.len() - 1]>::try_from(descriptors)
        else {
            return Err(RouterError::Start);
        };
        let view = PoolView::open(pool, start.geometry())?;
        let running = Running::new(&start, view, grants, standard_error(), more)?;
        let mapping = |error| RouterError::System { what: "mapping", error };
        Ok(Self {
            running,
            waker: Waker::new(waker).map_err(mapping)?,
            wake,
            doorbell,
            status: Mapping::read_only(status, 0, STATUS_BYTES).map_err(mapping)?,
            worker: start.worker,
            busy: start.busy,
            gathers: u64::from(start.slots / 4).min(256),
            admitted: None,
        })
    }

    fn serve(&mut self, orders: &mut Served<Answer, Order>) -> Result<(), RouterError> {
        let mut looked = Instant::now();
        let mut idle = Idle::new(self.gathers);
        let mut preemption = Preemption::default();
        let mut seen = 0;
        while !self.running.router.is_stopped() {
            let now = Instant::now();
            if now.duration_since(looked) >= ORDERS_EVERY {
                looked = now;
                self.obey(orders)?;
                self.look();
            }
            let now_ns = self.running.ns_at(now);
            let worked = self.running.round(now);
            self.tell_switch();
            let endpoint = &mut self.running.devices.endpoint;
            let was_out = endpoint.is_out_of_stock();
            endpoint.balance();
            // A source that found no slot before can find one now.
            let is_refilled = was_out && !endpoint.is_out_of_stock();
            if worked || is_refilled || self.running.router.is_busy() {
                let received = self.running.devices.endpoint.received();
                idle.worked(received - seen);
                seen = received;
                continue;
            }
            let rest = if self.running.devices.endpoint.is_congested() {
                // The switch needs the core more than a router that only checks for its progress.
                idle.give_way(now, self.pace())
            } else {
                idle.rest(now, self.pace())
            };
            match rest {
                Rest::Nap(time) => preemption.nap(time),
                Rest::Sleep if !self.busy => {
                    preemption.sleeps();
                    let asleep = Instant::now();
                    if self.sleep(orders, now_ns)? {
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
        Ok(())
    }

    /// The pace that the switch has set.
    fn pace(&self) -> Pace {
        let words = self.status.words(self.worker as usize * 64, 2);
        let bits = words.and_then(|words| words.get(1));
        bits.map_or(Pace::default(), |bits| Pace::from_bits(bits.load(Ordering::Relaxed)))
    }

    /// Rings the doorbell if packets were sent and the switch sleeps.
    fn tell_switch(&mut self) {
        if !std::mem::take(&mut self.running.devices.sent) {
            return;
        }
        // The words have been published; the flag is read after that.
        fence(Ordering::SeqCst);
        self.wake_switch();
    }

    fn wake_switch(&self) {
        let flag = self.status.words(self.worker as usize * 64, 1).and_then(|words| words.first());
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
            // If the doorbell is already ringing, the write has no effect.
            let _ = write(&self.doorbell, &[1]);
        }
    }

    /// Sleeps until a packet arrives, a timer is due, or the node sends an order. Returns whether
    /// an order has arrived.
    fn sleep(&mut self, orders: &Served<Answer, Order>, now_ns: u64) -> Result<bool, RouterError> {
        let mut ordered = false;
        let until_timer = self.running.router.next_timer_ns().map(|at| at.saturating_sub(now_ns));
        // Sources wait for slots that return.
        let out_of_stock = self.running.devices.endpoint.is_out_of_stock().then_some(1_000_000);
        let timeout = match until_timer.into_iter().chain(out_of_stock).min() {
            None => PollTimeout::NONE,
            // The time is rounded up: a timer that is not yet due must not make the loop run again
            // at once.
            Some(ns) => PollTimeout::try_from(ns.div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX),
        };
        let due = self.running.router.fall_asleep();
        // A sender with unsent packets checks for room again.
        let blocked = self.running.devices.blocked;
        if !self.running.devices.endpoint.fall_asleep() && !due && !blocked {
            let mut wait = vec![
                PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
                PollFd::new(orders.as_fd(), PollFlags::POLLIN),
                PollFd::new(
                    self.admitted.as_ref().map_or(orders.as_fd(), AsFd::as_fd),
                    PollFlags::POLLIN,
                ),
            ];
            let own = wait.len();
            wait.extend(watched(&self.running.router));
            match poll(&mut wait, timeout) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(RouterError::System { what: "sleeping", error }),
            }
            if wait[0].any() == Some(true) {
                // Received packets usually leave again, and a core wakes up slowly. So the switch's
                // core is woken now, while the router handles the packet.
                self.wake_switch();
            }
            ordered = wait[2].any() == Some(true) || wait[3].any() == Some(true);
            if wait[1].any() == Some(true) {
                // This does not block: the pipe was opened in this mode.
                let _ = read(&self.wake, &mut [0; 4096]);
            }
            self.waker.clear();
            let ready = ready(&self.running.router, wait.get(own..).unwrap_or_default());
            self.tell(&ready);
        }
        self.running.devices.endpoint.wake_up();
        self.running.router.wake_up();
        Ok(ordered)
    }

    /// Reports ready descriptors to elements, without waiting.
    fn look(&mut self) {
        if self.running.router.watched().is_empty() {
            return;
        }
        let mut wait: Vec<PollFd<'_>> = watched(&self.running.router).collect();
        if poll(&mut wait, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            let ready = ready(&self.running.router, &wait);
            self.tell(&ready);
        }
    }

    fn tell(&mut self, ready: &[(usize, u32, Interest)]) {
        for (element, token, interest) in ready {
            self.running.router.descriptor_ready(
                *element,
                *token,
                *interest,
                &mut self.running.devices,
            );
        }
    }

    /// Carries out one order. Only one at a time, so that packets are handled between two orders.
    fn obey(&mut self, orders: &mut Served<Answer, Order>) -> Result<(), RouterError> {
        if let Some((order, descriptors)) = orders.try_receive()? {
            let answer = match order {
                Order::Admit => match descriptors.into_iter().next() {
                    Some(socket) => {
                        self.admitted = Some(Channel::new(socket));
                        Answer::Done(String::new())
                    }
                    None => Answer::Refused("there is no socket".into()),
                },
                order => self.running.carry_out(order, descriptors),
            };
            answer_by(|answer| orders.send(answer, &[]), &answer)?;
        }
        self.obey_admitted();
        Ok(())
    }

    /// Carries out one order, which may take as long as a batch of packets; the next order waits
    /// for its turn. The sender of orders may close the channel at any time.
    fn obey_admitted(&mut self) {
        let Some(mut admitted) = self.admitted.take() else { return };
        let done = match admitted.try_receive() {
            Ok(None) => Ok(()),
            Ok(Some((order, _))) => {
                let answer = self.running.carry_out(order, Vec::new());
                answer_by(|answer| admitted.send(answer, &[]), &answer)
            }
            Err(error) => Err(error),
        };
        if done.is_ok() {
            self.admitted = Some(admitted);
        }
    }
}

/// The descriptors that elements wait for.
fn watched(router: &Router) -> impl Iterator<Item = PollFd<'_>> {
    router.watched().iter().map(|watched| {
        let events = match watched.interest {
            Interest::Read => PollFlags::POLLIN,
            Interest::Write => PollFlags::POLLOUT,
        };
        PollFd::new(watched.as_fd(), events)
    })
}

/// The ready descriptors, by element and token.
fn ready(router: &Router, polled: &[PollFd<'_>]) -> Vec<(usize, u32, Interest)> {
    let all = router.watched().iter().zip(polled);
    all.filter(|(_, poll)| poll.any() == Some(true))
        .map(|(watched, _)| (watched.element, watched.token, watched.interest))
        .collect()
}
