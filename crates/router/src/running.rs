//! A graph on a packet pool, which carries out the node's orders: in its own process, or inside the
//! switch.

use std::cell::RefCell;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use europa_channel::ChannelError;
use europa_engine::{Arena, Limit, Router};
use europa_pool::{Endpoint, PoolView, ticks};

use crate::devices::PoolDevices;
use crate::grants::Grants;
use crate::graph::{self, More};
use crate::orders::{Answer, Inline, Order, Start};
use crate::process::RouterError;

/// The maximum number of rounds in which a graph may finish its packets before another graph
/// replaces it. A graph in which packets circulate never finishes.
const MOST_ROUNDS: usize = 64;
/// The same limit inside the switch, where other routers wait.
const MOST_ROUNDS_INLINE: usize = 16;

/// Writes lines to the router's log. A full log does not end the router.
pub(crate) type Log = Rc<RefCell<dyn FnMut(&str)>>;

/// The log of a process.
pub(crate) fn standard_error() -> Log {
    Rc::new(RefCell::new(|text: &str| drop(std::io::stderr().write_all(text.as_bytes()))))
}

/// Lets the elements of a router write to the log.
fn lend(log: &Log, router: &mut Router) {
    let log = log.clone();
    router.set_log(Box::new(move |line| (log.borrow_mut())(&format!("{line}\n"))));
}

/// Enables super-packets if all elements of a graph keep them; otherwise logs the reason why no
/// super-packets arrive.
fn tell_long(log: &Log, devices: &PoolDevices, router: &Router) {
    let prevented_by = router.first_to_cut();
    devices.endpoint.set_takes_long(prevented_by.is_none());
    if let Some(element) = prevented_by {
        let line = format!("packets of TCP come in segments, as {element} keeps no longer ones\n");
        (log.borrow_mut())(&line);
    }
}

pub(crate) struct Running {
    pub(crate) router: Router,
    pub(crate) devices: PoolDevices,
    started: Instant,
    arena: Arena,
    /// Names of its grants.
    granted: Vec<String>,
    /// The bounds of a graph that runs inside the switch; `None` in a process of its own.
    inline: Option<Inline>,
    log: Log,
    more: More,
}

impl Running {
    /// Builds the graph of `start` on the pool.
    pub(crate) fn new(
        start: &Start,
        view: PoolView,
        grants: Vec<OwnedFd>,
        log: Log,
        more: More,
    ) -> Result<Self, RouterError> {
        view.check()?;
        let macs = start.interfaces.iter().map(|interface| interface.mac).collect();
        let endpoint = Endpoint::new(view, macs);
        let arena = endpoint.arena().clone();
        let interfaces = start.interfaces.iter().map(graph::interface).collect();
        let mut devices = PoolDevices::new(endpoint, interfaces);
        devices.grants = Grants::new(&start.grants, grants);
        let started = Instant::now();
        let inline = start.inline;
        let text = (start.configuration.as_str(), start.file.as_str());
        let (mut router, warnings) =
            graph::build(text, inline.is_some(), &arena, &devices, 0, more)
                .map_err(RouterError::Configuration)?;
        (log.borrow_mut())(&warnings);
        tell_long(&log, &devices, &router);
        lend(&log, &mut router);
        router.set_wall_offset_ns(wall_offset_ns(started));
        let granted = start.grants.clone();
        Ok(Self { router, devices, started, arena, granted, inline, log, more })
    }

    /// Time of the graph.
    pub(crate) fn ns_at(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_nanos() as u64
    }

    /// The graph's time at `at_ns` nanoseconds of the system's clock.
    pub(crate) fn instant_of(&self, at_ns: u64) -> Option<Instant> {
        self.started.checked_add(Duration::from_nanos(at_ns))
    }

    /// Runs one round of the graph, within its budget if it has one. Returns whether the graph
    /// found work.
    pub(crate) fn round(&mut self, now: Instant) -> bool {
        let now_ns = self.ns_at(now);
        self.devices.blocked = false;
        let Some(inline) = self.inline else {
            return self.router.run_once(now_ns, &mut self.devices);
        };
        let until = ticks::now().saturating_add(ticks::of_ns(inline.budget_ns));
        self.router.run_within(now_ns, &mut self.devices, Limit { clock: ticks::now, until })
    }

    /// Builds another graph while the present one runs, and then runs the new one instead.
    fn swap(
        &mut self,
        configuration: &str,
        file: &str,
        grants: Vec<OwnedFd>,
    ) -> Result<(), String> {
        self.devices.grants = Grants::new(&self.granted, grants);
        let now_ns = self.ns_at(Instant::now());
        let text = (configuration, file);
        let before = self.arena.freed();
        let built = graph::build(
            text,
            self.inline.is_some(),
            &self.arena,
            &self.devices,
            now_ns,
            self.more,
        );
        // Packets that elements made while they were initialised, and that a failed build dropped.
        let replaced = self.arena.freed() - before;
        let (mut new, warnings) = match built {
            Ok(built) => built,
            Err(why) => {
                self.router.note_replaced(replaced);
                return Err(why);
            }
        };
        (self.log.borrow_mut())(&warnings);
        lend(&self.log, &mut new);
        // The old graph finishes its packets first.
        for _ in 0..self.inline.map_or(MOST_ROUNDS, |_| MOST_ROUNDS_INLINE) {
            if !self.router.is_busy() {
                break;
            }
            self.round(Instant::now());
        }
        let before = self.arena.freed();
        tell_long(&self.log, &self.devices, &new);
        new.take_state(&mut self.router);
        new.set_wall_offset_ns(wall_offset_ns(self.started));
        self.router = new;
        self.router.note_replaced(replaced + self.arena.freed() - before);
        Ok(())
    }

    /// Carries out an order of a permitted sender.
    pub(crate) fn carry_out(&mut self, order: Order, grants: Vec<OwnedFd>) -> Answer {
        self.router.set_now_ns(self.ns_at(Instant::now()));
        match order {
            Order::Start(_) | Order::Check(_) => Answer::Refused("already started".into()),
            Order::Swap { configuration, file } => match self.swap(&configuration, &file, grants) {
                Ok(()) => Answer::Done(String::new()),
                Err(why) => Answer::Refused(why),
            },
            Order::Grant(names) => {
                self.devices.grants = Grants::new(&names, grants);
                Answer::Done(String::new())
            }
            Order::Admit => Answer::Refused("only the node lets others in".into()),
            Order::Read { path, parameter } => match self.router.read(&path, &parameter) {
                Ok(text) => Answer::Done(text),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Order::Ledger => match serde_json::to_string(&self.ledger()) {
                Ok(text) => Answer::Done(text),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Order::Write { path, value } => match self.router.write(&path, &value) {
                Ok(()) => Answer::Done(String::new()),
                Err(error) => Answer::Refused(error.to_string()),
            },
        }
    }
}

/// The difference between time since `started` and nanoseconds since 1970.
fn wall_offset_ns(started: Instant) -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.saturating_sub(started.elapsed()).as_nanos() as u64
}

/// Sends an answer, or an error if it is too long for a message.
pub(crate) fn answer_by(
    mut send: impl FnMut(&Answer) -> Result<(), ChannelError>,
    answer: &Answer,
) -> Result<(), ChannelError> {
    match (send(answer), answer) {
        (Err(ChannelError::TooLong), Answer::Done(text) | Answer::Refused(text)) => {
            send(&Answer::TooLong(text.len()))
        }
        (sent, _) => sent,
    }
}
