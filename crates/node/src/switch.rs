//! The switch: starts and adopts it, and starts it again when it ends.
//!
//! | file      | concern                                                           |
//! |-----------|-------------------------------------------------------------------|
//! | `process` | a process: its start, and orders to it                            |
//! | `lasting` | memory and descriptors that outlive a process                     |
//! | `revival` | when it is started again                                          |
//! | `adopt`   | takes over the switch of a killed node                            |
//!
//! `objects` has the orders about ports, routers and relays.

mod adopt;
mod lasting;
mod process;
mod revival;

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use europa_plan::RouterId;
use europa_sandbox::Child;
use europa_sandbox::cgroup::{Group, Limits};
use europa_substrate::Substrate;

pub(crate) use self::lasting::Lasting;
pub(crate) use self::process::{Switch, unless_gone};
use self::revival::Revival;
use crate::NodeError;
use crate::context::Context;

/// The CPU weight of the switch, as much as that of ten routers: all of them wait for it.
const WEIGHT: u64 = 1000;

/// The interval at which a switch is checked while its rules are being sent.
const LOADING: Duration = Duration::from_millis(20);

/// See the file.
#[derive(Default)]
pub(crate) struct Switching {
    running: Option<Switch>,
    begun: Option<Begun>,
    group: Option<Group>,
    revival: Revival,
    /// `None` before the first use.
    lasting: Option<Lasting>,
}

/// A switch whose rules and ways are being sent.
pub(crate) struct Begun {
    pub(crate) switch: Switch,
    /// Routers that were added since then: ways may have led to none.
    pub(crate) come: HashSet<RouterId>,
}

impl Switching {
    /// The running switch, if it has got all objects.
    pub(crate) fn get(&mut self) -> Option<&mut Switch> {
        self.running.as_mut()
    }

    /// The same, or a switch whose rules are being sent.
    pub(crate) fn any(&mut self) -> Option<&mut Switch> {
        self.running.as_mut().or(self.begun.as_mut().map(|begun| &mut begun.switch))
    }

    /// Whether a switch runs and has got all objects.
    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the rules of a switch are being sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Readable when its process ends.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(Switch::fd)
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Switch::pid)
    }

    /// Its control group.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// The number of restarts of the switch.
    pub(crate) fn restarts(&self) -> u64 {
        self.revival.restarts()
    }

    /// The memory and descriptors that outlive a switch process, if there was one.
    pub(crate) fn lasting(&self) -> Option<&Lasting> {
        self.lasting.as_ref()
    }

    /// The memory and descriptors that outlive a switch process, and the running switch.
    pub(crate) fn with_lasting(&mut self) -> Result<(&Lasting, Option<&mut Switch>), NodeError> {
        let lasting = self.lasting.as_ref().ok_or_else(not_up)?;
        Ok((lasting, self.running.as_mut()))
    }

    /// Ensures that the memory and descriptors exist that outlive a switch process.
    pub(crate) fn have_lasting(&mut self, context: &Context) -> Result<(), NodeError> {
        if self.lasting.is_none() {
            self.lasting = Some(Lasting::open(&context.kept, context.settings.workers)?);
        }
        Ok(())
    }

    /// Starts a switch process, which has no objects yet.
    pub(crate) fn begin(
        &mut self,
        context: &Context,
        substrate: &Substrate,
    ) -> Result<Switch, NodeError> {
        self.group = self.group.take().or_else(|| context.group("switch"));
        if let Some(group) = &self.group {
            group.set(&Limits { cpu_weight: Some(WEIGHT), ..Limits::default() })?;
        }
        let log = context.log("switch")?;
        let lasting = self.lasting.as_ref().ok_or_else(not_up)?;
        let (group, cores) = (self.group.as_ref(), &context.cores);
        Switch::start(substrate, lasting, &context.kept, log.as_fd(), group, cores)
    }

    /// Keeps a switch process whose rules are being sent.
    pub(crate) fn wait_with(&mut self, switch: Switch) {
        self.begun = Some(Begun { switch, come: HashSet::new() });
    }

    /// Takes the switch process whose rules were being sent.
    pub(crate) fn take_begun(&mut self) -> Option<Begun> {
        self.begun.take()
    }

    /// Notes a new router: ways to it may have been sent before.
    pub(crate) fn note_come(&mut self, router: &RouterId) {
        if let Some(begun) = &mut self.begun {
            begun.come.insert(router.clone());
        }
    }

    /// Begins to use a switch process that has got all objects.
    pub(crate) fn finish(
        &mut self,
        context: &Context,
        mut switch: Switch,
    ) -> Result<&mut Switch, NodeError> {
        switch.note_complete(&context.kept, self.revival.restarts())?;
        context.events.note("switch", "", "Started", format!("process {}", switch.pid()));
        Ok(self.running.insert(switch))
    }

    /// When a switch will run again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.revival.due().or(self.begun.as_ref().map(|_| Instant::now() + LOADING))
    }

    /// The time of its next start.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.revival.due()
    }

    /// Whether the switch must be started again now. Only the first call returns true.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.revival.is_due(now)
    }

    /// The switch ended during its start: it is started again soon.
    pub(crate) fn try_again(&mut self) {
        self.revival.try_again(Instant::now());
    }

    /// Notes that the switch could not be started.
    pub(crate) fn failed(&mut self, error: &NodeError) {
        tracing::error!("starting the switch: {error}");
        self.revival.failed(Duration::ZERO, Instant::now());
    }

    /// Notes that the switch's process has ended, and when to start it again.
    pub(crate) fn bury(&mut self, context: &Context) {
        let Some(switch) = &mut self.running else { return };
        let Some(exit) = switch.ended() else { return };
        let message = format!("{exit}; it is started again");
        context.events.warn("switch", "", "Ended", message);
        self.revival.failed(switch.age(), Instant::now());
        switch.forget(&context.kept);
        self.running = None;
    }

    /// Drops the switch. Returns its processes; the caller must wait for their ends.
    pub(crate) fn take_down(&mut self) -> Vec<Child> {
        let begun = self.begun.take().map(|begun| begun.switch);
        self.running.take().into_iter().chain(begun).map(Switch::into_child).collect()
    }

    /// Lets everything go.
    pub(crate) fn close(&mut self) {
        self.running = None;
        self.lasting = None;
    }
}

fn not_up() -> NodeError {
    NodeError::Refused("this node is not up".into())
}
