//! The node's process: one loop over children, requests, jobs and timers.
//!
//! Each field of [`Node`] is a part, which owns its state: only its own folder can write it. The loop
//! waits, and passes messages on to the parts.
//!
//! | file        | concern                                                    |
//! |-------------|------------------------------------------------------------|
//! | `run`       | a node from its start to its end                           |
//! | `parts`     | parts, borrowed apart                                      |
//! | `machine`   | the machine, as the engine of `control` has it             |
//! | `steps`     | steps from the actual to the desired state                 |
//! | `switch`    | a switch is started, and told all objects                  |
//! | `filters`   | what the actor of filters asks the loop for                |
//! | `follow`    | queues, meters and watches follow documents and devices    |
//! | `adopt`     | takes over the processes of a killed node                  |
//! | `restore`   | starts the stored objects again                            |
//! | `show`      | descriptions and counters of all objects                   |
//! | `logins`    | logins by SSH: permitted or not                            |
//! | `take_down` | the end of everything                                      |
//! | `turns`     | how long turns of the loop take                            |

mod adopt;
mod filters;
mod follow;
pub(crate) mod logins;
mod machine;
mod parts;
mod restore;
mod run;
mod show;
mod steps;
mod switch;
mod take_down;
mod turns;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use europa_api::rest::{ProblemDetails, Said};
use europa_control::{Outcome, Submission};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

pub(crate) use self::run::listen_at;
pub use self::run::run;
use self::turns::{Turn, Turns};
use crate::cages::Cages;
use crate::capture::Captures;
use crate::change::Change;
use crate::context::Context;
use crate::control::{Inbox, Reply};
use crate::filters::Filtering;
use crate::hosts::Hosts;
use crate::kernel::Kernel;
use crate::link_tunnels::LinkTunnels;
use crate::meters::Meters;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::queues::PortsQueues;
use crate::relays::Relays;
use crate::routers::Routers;
use crate::signallers::Signallers;
use crate::slices::SliceGroups;
use crate::slow_path::SlowPaths;
use crate::store::StoreThread;
use crate::switch::Switching;
use crate::{Doing, NodeError};

/// The state of a node. One thread has it; others send work: see `control`.
pub(crate) struct Node {
    pub(crate) context: Rc<Context>,
    pub(crate) kernel: Kernel,
    pub(crate) pools: Pools,
    pub(crate) ports: Ports,
    pub(crate) routers: Routers,
    pub(crate) relays: Relays,
    pub(crate) tunnels: LinkTunnels,
    pub(crate) switch: Switching,
    pub(crate) hosts: Hosts,
    pub(crate) slow_paths: SlowPaths,
    pub(crate) filters: Filtering,
    pub(crate) cages: Cages,
    pub(crate) queues: PortsQueues,
    pub(crate) meters: Meters,
    pub(crate) slices: SliceGroups,
    pub(crate) signallers: Signallers,
    pub(crate) captures: Captures,
    pub(crate) change: Change,
    /// Submissions that wait for the look at ports of this number.
    submitted: VecDeque<(u64, Submission, Reply<Outcome>)>,
    turns: Turns,
    /// The request for the end.
    farewell: Option<Farewell>,
}

/// A request for the end, and where its answer goes.
type Farewell = Reply<Result<Said, ProblemDetails>>;

impl Node {
    fn new(context: Context, store: StoreThread) -> Result<Self, NodeError> {
        let control = &context.control;
        Ok(Self {
            kernel: Kernel::default(),
            pools: Pools::start(control.clone())?,
            ports: Ports::start(control.clone())?,
            submitted: VecDeque::new(),
            routers: Routers::default(),
            relays: Relays::default(),
            tunnels: LinkTunnels::default(),
            switch: Switching::default(),
            hosts: Hosts::start(&context)?,
            slow_paths: SlowPaths::default(),
            filters: Filtering::start(&context)?,
            cages: Cages::default(),
            queues: PortsQueues::default(),
            meters: Meters::default(),
            slices: SliceGroups::default(),
            signallers: Signallers::default(),
            captures: Captures::start(&context.instance)?,
            change: Change::start(control.clone(), store)?,
            turns: Turns::default(),
            farewell: None,
            context: Rc::new(context),
        })
    }

    /// Serves until a signal or a request ends it.
    fn serve(&mut self, inbox: &Inbox, signals: &SignalFd) -> Result<(), NodeError> {
        let mut told = false;
        loop {
            // The stored state from before this start is up again, as far as possible.
            if !told && self.change.is_settled() {
                told = true;
                if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
                    tracing::warn!("telling systemd: {error}");
                }
            }
            if self.wait(inbox, signals)? {
                return Ok(());
            }
            let mut turn = Turn::begin();
            self.take_turn(inbox, &mut turn);
            self.turns.note(&turn);
            if self.farewell.is_some() {
                return Ok(());
            }
        }
    }

    /// Waits until something has happened. Whether that was a signal.
    fn wait(&self, inbox: &Inbox, signals: &SignalFd) -> Result<bool, NodeError> {
        let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut wait = vec![of(signals.as_fd()), of(inbox.as_fd())];
        wait.extend(self.switch.fd().map(of));
        let mut places = Vec::new();
        for (end, says) in self.routers.fds() {
            wait.extend(end.map(of));
            places.push(wait.len());
            wait.push(of(says));
        }
        wait.extend(self.signallers.fds().map(of));
        wait.extend(self.change.fd().map(of));
        match poll(&mut wait, self.next_timeout()) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error).doing("waiting"),
        }
        let said = |place: usize| wait.get(place).and_then(PollFd::any);
        self.routers.note_said(places.into_iter().map(|place| said(place) != Some(false)));
        Ok(said(0) == Some(true))
    }

    /// Passes messages on, and does the work that is due.
    fn take_turn(&mut self, inbox: &Inbox, turn: &mut Turn) {
        // Answers before ends: a router that refuses its configuration says why and goes.
        self.routers.hear(&self.context, &mut self.change);
        let (routers, mut around) = self.with_routers();
        routers.hear_successors(&mut around);
        self.signallers.hear(&self.context.events);
        turn.did("answers");
        self.hosts.bury(&self.context);
        self.switch.bury(&self.context);
        self.routers.bury(&self.context, &mut self.change, self.switch.due());
        self.revive_switch();
        let (routers, mut around) = self.with_routers();
        routers.revive(&mut around);
        turn.did("ended processes");
        self.work();
        turn.did("the current change");
        self.follow();
        turn.did("queues and meters");
        self.follow_tunnels();
        self.watch();
        turn.did("the watch");
        inbox.open();
        while let Some(work) = inbox.next() {
            let name = work.name;
            work.run(self);
            turn.did(name);
            if turn.is_enough() {
                inbox.leave();
                break;
            }
        }
        // Last, as it takes its time.
        self.refill_pools();
        turn.did("pools");
    }

    /// Has spare pools made, when there is nothing else to do.
    fn refill_pools(&mut self) {
        let is_idle = self.change.is_settled() && self.routers.starting() == 0;
        if is_idle && self.kernel.substrate().is_some() {
            self.pools.refill(self.routers.iter().map(|router| router.plan.geometry));
        }
    }

    fn next_timeout(&self) -> PollTimeout {
        let stored = !self.change.accepted().stored.is_empty();
        let all = [
            self.routers.due(),
            self.switch.next_due(),
            self.signallers.next_due(),
            self.tunnels_due(),
            stored.then(|| self.ports.watch_due()),
            self.change.due(),
            self.slices.are_behind().then(Instant::now),
        ];
        match all.into_iter().flatten().min() {
            None => PollTimeout::NONE,
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                // Rounded up: else the loop would turn until the time has come.
                PollTimeout::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    /// Ends the loop; `reply` is called when everything is gone.
    pub(crate) fn end(&mut self, reply: Farewell) {
        self.farewell = Some(reply);
    }
}
