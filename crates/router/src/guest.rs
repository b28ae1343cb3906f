//! A router that runs inside the switch's worker with other routers: within a time budget for each
//! of its turns and a memory quota, and with its panics caught.
//!
//! This protects configurations of Europa's own elements from each other. It is no isolation,
//! because they share a process. The engine checks the time after each batch of each element, so a
//! turn may exceed its budget by one element's work on one batch.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use europa_channel::{Channel, Served};
use europa_engine::{Interest, Stock};
use europa_pool::account::{self, Account};
use europa_pool::{PoolView, ticks};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use crate::devices::PoolDevices;
use crate::graph::none;
use crate::orders::{Answer, Inline, Order};
use crate::running::{Log, Running, answer_by};

/// A turn is far too long if it exceeds this number of budgets, and also [`GROSS`].
const GROSS_BUDGETS: u64 = 16;
/// Waiting time that other routers can accept.
const GROSS: Duration = Duration::from_millis(2);
/// The router ends after this number of successive turns that are far too long. If the machine
/// takes the core away for some time, that lengthens one turn, but not the next ones.
const STRIKES: u32 = 8;
/// Number of other turns that compensate for a turn that is far too long: a turn that is cut may
/// end before the slow element runs.
const MAKE_UP: u32 = 4;
/// Most bytes of a router's tables of routes: these are addresses, most of them without memory.
const TABLE_BYTES: i64 = 512 << 20;
/// Lines that a router's log accepts in a second.
const LINES: u32 = 100;
/// Most orders that are carried out before packets have their turn.
const MOST_ORDERS: usize = 16;

/// The counters of a router inside the switch, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestStats {
    /// Its limits.
    pub budget_ns: u64,
    /// Turns.
    pub turns: u64,
    /// Time of all turns.
    pub spent_ns: u64,
    /// The longest turn.
    pub longest_ns: u64,
    /// Turns that ended because the router's budget was used up.
    pub cut: u64,
    /// Turns that were far too long.
    pub overruns: u64,
    /// Packets received.
    pub packets: u64,
    /// Bytes of memory without its pool; of tables of routes, only the filled part counts.
    pub memory_bytes: u64,
    /// Limit of its bytes.
    pub quota_bytes: u64,
    /// Bytes of addresses that its tables of routes reserve; only written pages have memory.
    pub table_bytes: u64,
}

/// A router inside the switch.
pub struct Guest {
    orders: Served<Answer, Order>,
    /// The second source of orders: the mirror of the slow path.
    admitted: Option<Channel<Answer, Order>>,
    pool: PoolView,
    log: Log,
    lines: Rc<Cell<u32>>,
    lines_since: Instant,
    running: Option<Running>,
    bounds: Inline,
    account: Account,
    stats: GuestStats,
    spent: u64,
    longest: u64,
    /// Turns that were far too long, [`MAKE_UP`] for each, minus compensated ones.
    strikes: u32,
    /// Whether the last turn found no work.
    idle: bool,
    next_timer_ns: Option<u64>,
    /// Descriptors of elements that the worker has been told of.
    watches: u64,
}

impl Guest {
    /// A router that takes its orders from `orders`, on the packet pool `pool`. The first order
    /// contains its settings.
    pub fn new(orders: Served<Answer, Order>, pool: PoolView, log: OwnedFd) -> Self {
        let lines = Rc::new(Cell::new(LINES));
        Self {
            orders,
            admitted: None,
            pool,
            log: bounded(File::from(log), lines.clone()),
            lines,
            lines_since: Instant::now(),
            running: None,
            bounds: Inline { budget_ns: 0, memory_bytes: 0 },
            account: Account::default(),
            stats: GuestStats::default(),
            spent: 0,
            longest: 0,
            strikes: 0,
            idle: true,
            next_timer_ns: None,
            watches: 0,
        }
    }

    /// Whether an element waits for another descriptor since the last call: then the worker asks
    /// [`Guest::waits_for`] again.
    pub fn waits_anew(&mut self) -> bool {
        let watches = self.running.as_ref().map_or(0, |running| running.router.watches());
        std::mem::replace(&mut self.watches, watches) != watches
    }

    /// The descriptors that become readable for an order, or for an element. They may change after
    /// each order.
    pub fn waits_for(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let admitted = self.admitted.as_ref().map(AsFd::as_fd);
        let watched = self.running.iter().flat_map(|running| running.router.watched());
        let watched = watched.filter(|one| one.interest == Interest::Read).map(AsFd::as_fd);
        std::iter::once(self.orders.as_fd()).chain(admitted).chain(watched)
    }

    /// Whether a turn would find work.
    pub fn wants_turn(&self, now: Instant) -> bool {
        let Some(running) = &self.running else { return false };
        let PoolDevices { endpoint, blocked, .. } = &running.devices;
        !self.idle
            || ((*blocked || endpoint.has_input()) && !endpoint.is_congested())
            || self.next_timer_ns.is_some_and(|at| at <= running.ns_at(now))
    }

    /// The time of the router's next work, if no event happens before.
    pub fn next_due(&self) -> Option<Instant> {
        self.running.as_ref()?.instant_of(self.next_timer_ns?)
    }

    /// Runs one turn: a round of the graph, which is cut when its budget is used up. Returns
    /// whether it found work. It uses the batches of `stock`.
    ///
    /// # Errors
    /// The reason why the router cannot continue. It must be dropped.
    pub fn turn(&mut self, now: Instant, stock: &mut Stock) -> Result<bool, String> {
        let begun = ticks::now();
        let worked = self.guarded(|running| {
            running.router.lend(stock);
            let worked = running.round(now);
            running.router.give_back(stock);
            running.devices.endpoint.balance();
            worked || running.router.is_busy()
        })?;
        self.within_quota()?;
        self.idle = !worked;
        self.stats.turns += 1;
        self.charge(ticks::now().saturating_sub(begun))?;
        if now.duration_since(self.lines_since) >= Duration::from_secs(1) {
            (self.lines_since, _) = (now, self.lines.replace(LINES));
        }
        Ok(worked)
    }

    /// Adds the time of a turn to the router's account.
    fn charge(&mut self, counts: u64) -> Result<(), String> {
        self.spent += counts;
        self.longest = self.longest.max(counts);
        let Some(running) = &self.running else { return Ok(()) };
        self.stats.cut += u64::from(running.router.was_cut());
        let gross = ticks::of_ns(self.bounds.budget_ns * GROSS_BUDGETS);
        if counts <= gross.max(ticks::of_ns(GROSS.as_nanos() as u64)) {
            self.strikes = self.strikes.saturating_sub(1);
            return Ok(());
        }
        self.stats.overruns += 1;
        self.strikes += MAKE_UP;
        if self.strikes < STRIKES * MAKE_UP {
            return Ok(());
        }
        let (took, may) = (ticks::to_ns(counts) / 1000, self.bounds.budget_ns / 1000);
        Err(format!("its turns take {took} us, and may take {may} us"))
    }

    /// Carries out waiting orders. Returns whether there may be more.
    ///
    /// # Errors
    /// The reason why the router cannot continue. It must be dropped.
    pub fn hear(&mut self) -> Result<bool, String> {
        for _ in 0..MOST_ORDERS {
            // The order's memory counts towards the quota as well, because the code that carries it
            // out drops it.
            let received = counted(&mut self.account, || self.orders.try_receive())?
                .map_err(|error| format!("orders: {error}"))?;
            let Some((order, descriptors)) = received else {
                let more = self.look()?;
                return Ok(self.hear_admitted()? || more);
            };
            let answer = match order {
                Order::Start(start) if self.running.is_none() => {
                    let begun = self.begin(&start);
                    counted(&mut self.account, || drop(start))?;
                    if let Err(why) = begun {
                        let refused = Answer::Refused(why.clone());
                        let _ = answer_by(|answer| self.orders.send(answer, &[]), &refused);
                        return Err(why);
                    }
                    Answer::Done(String::new())
                }
                Order::Admit => match descriptors.into_iter().next() {
                    Some(socket) => {
                        self.admitted = Some(Channel::new(socket));
                        Answer::Done(String::new())
                    }
                    None => Answer::Refused("there is no socket".into()),
                },
                order => self.carry_out(order, descriptors)?,
            };
            let mut send =
                |answer: Answer| answer_by(|answer| self.orders.send(answer, &[]), &answer);
            counted(&mut self.account, || send(answer))?
                .map_err(|error| format!("orders: {error}"))?;
            self.within_quota()?;
        }
        Ok(true)
    }

    /// Tells elements that their descriptors are readable. Returns whether any was.
    fn look(&mut self) -> Result<bool, String> {
        let Some(running) = &self.running else { return Ok(false) };
        let watched = running.router.watched();
        if watched.is_empty() {
            return Ok(false);
        }
        let wait = watched.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN));
        let mut wait: Vec<PollFd<'_>> = wait.collect();
        if !poll(&mut wait, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            return Ok(false);
        }
        let ready = watched
            .iter()
            .zip(&wait)
            .filter(|(one, poll)| one.interest == Interest::Read && poll.any() == Some(true));
        let ready: Vec<(usize, u32)> = ready.map(|(one, _)| (one.element, one.token)).collect();
        self.guarded(|running| {
            running.router.set_now_ns(running.ns_at(Instant::now()));
            for (element, token) in &ready {
                let devices = &mut running.devices;
                running.router.descriptor_ready(*element, *token, Interest::Read, devices);
            }
        })?;
        self.idle = false;
        self.within_quota()?;
        Ok(!ready.is_empty())
    }

    /// Carries out one order, which may take as long as a batch of packets; the next order waits
    /// for its turn. The sender of orders may close the channel at any time.
    fn hear_admitted(&mut self) -> Result<bool, String> {
        let Some(mut admitted) = self.admitted.take() else { return Ok(false) };
        match counted(&mut self.account, || admitted.try_receive())? {
            Ok(None) => {
                self.admitted = Some(admitted);
                Ok(false)
            }
            Ok(Some((order, _))) => {
                let answer = self.carry_out(order, Vec::new())?;
                let send = |answer: Answer| answer_by(|answer| admitted.send(answer, &[]), &answer);
                if counted(&mut self.account, || send(answer))?.is_ok() {
                    self.admitted = Some(admitted);
                }
                self.within_quota()?;
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }

    fn carry_out(&mut self, order: Order, granted: Vec<OwnedFd>) -> Result<Answer, String> {
        if self.running.is_none() {
            return Ok(Answer::Refused("it has not been started".into()));
        }
        let answer = self.guarded(|running| running.carry_out(order, granted));
        self.idle = false;
        answer
    }

    fn begin(&mut self, start: &crate::orders::Start) -> Result<(), String> {
        self.bounds = start.inline.ok_or("it is not to run inside the switch")?;
        (self.stats.budget_ns, self.stats.quota_bytes) =
            (self.bounds.budget_ns, self.bounds.memory_bytes);
        if !start.grants.is_empty() {
            return Err("inside the switch nothing is granted".into());
        }
        if start.geometry() != self.pool.layout().geometry {
            return Err("its pool is another one".into());
        }
        let (pool, log) = (self.pool.clone(), self.log.clone());
        let built =
            counted(&mut self.account, || Running::new(start, pool, Vec::new(), log, none))?;
        self.running = Some(built.map_err(|error| error.to_string())?);
        self.idle = false;
        self.within_quota()
    }

    /// Does work with the router that may panic, and charges it to the router's account.
    fn guarded<R>(&mut self, work: impl FnOnce(&mut Running) -> R) -> Result<R, String> {
        let Some(running) = &mut self.running else { return Err("it has not been started".into()) };
        let done = counted(&mut self.account, || work(running));
        if done.is_err() {
            self.forget();
            return done;
        }
        if running.router.is_stopped() {
            return Err("it has stopped itself".into());
        }
        self.next_timer_ns = running.router.next_timer_ns();
        done
    }

    fn within_quota(&self) -> Result<(), String> {
        if self.running.is_none() {
            return Ok(());
        }
        let (bytes, may) = (self.account.bytes, self.bounds.memory_bytes);
        if u64::try_from(bytes).is_ok_and(|bytes| bytes > may) {
            return Err(format!("it takes {bytes} bytes of memory, and may take {may}"));
        }
        if self.account.table_bytes > TABLE_BYTES {
            return Err(format!("its tables are longer than {} MiB", TABLE_BYTES >> 20));
        }
        Ok(())
    }

    /// Drops the router, in any state.
    fn forget(&mut self) {
        let running = self.running.take();
        let _ = counted(&mut self.account, || drop(running));
    }

    /// Sends the node the reason why the router ends.
    pub fn tell_end(&mut self, why: &str) {
        let _ = self.orders.send(&Answer::Ended(why.to_owned()), &[]);
    }

    /// Its counters.
    pub fn stats(&self) -> GuestStats {
        let packets = self.running.as_ref().map_or(0, |r| r.devices.endpoint.received());
        GuestStats {
            packets,
            spent_ns: ticks::to_ns(self.spent),
            longest_ns: ticks::to_ns(self.longest),
            memory_bytes: u64::try_from(self.account.bytes).unwrap_or_default(),
            table_bytes: u64::try_from(self.account.table_bytes).unwrap_or_default(),
            ..self.stats
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Does work that may panic, and accounts its memory.
fn counted<R>(account: &mut Account, work: impl FnOnce() -> R) -> Result<R, String> {
    let outer = account::enter(*account);
    // A panic may leave the router's own state inconsistent, but that state is then dropped.
    let done = catch_unwind(AssertUnwindSafe(work));
    *account = account::enter(outer);
    done.map_err(|panic| format!("it panicked: {}", message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

/// A log with a limit of lines until the next order: other routers wait while it is written.
fn bounded(mut file: File, lines: Rc<Cell<u32>>) -> Log {
    Rc::new(RefCell::new(move |text: &str| {
        let last = match lines.get() {
            0 => return,
            1 => "(more is not written in this second)\n",
            _ => "",
        };
        lines.set(lines.get() - 1);
        let _ = file.write_all(text.as_bytes()).and_then(|()| file.write_all(last.as_bytes()));
    }))
}

#[cfg(test)]
pub(crate) mod tests;
