//! The switch: started, adopted, and started again when it ends.
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
use std::os::fd::BorrowedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use europa_plan::RouterId;
use europa_sandbox::Child;
use europa_sandbox::cgroup::{Group, Limits};
use europa_substrate::Substrate;

pub(crate) use self::lasting::Lasting;
pub(crate) use self::process::{Starting, Switch, unless_gone};
use self::revival::Revival;
use crate::NodeError;
use crate::context::Context;

/// CPU weight of the switch, of ten routers: all of them wait for it.
const WEIGHT: u64 = 1000;

/// Until a switch is looked for again that is being started, or whose rules are on their way.
const LOADING: Duration = Duration::from_millis(20);

/// A step that waits for a switch hears within this time why it was not started.
const HEARD: Duration = Duration::from_secs(1);

/// See the file.
#[derive(Default)]
pub(crate) struct Switching {
    running: Option<Switch>,
    begun: Begin,
    /// Why the start that a step waits for has failed, and when.
    refused: Option<(NodeError, Instant)>,
    group: Option<Group>,
    revival: Revival,
    /// None before it is needed for the first time.
    lasting: Option<Lasting>,
}

/// A switch that was begun.
#[derive(Default)]
enum Begin {
    /// None.
    #[default]
    No,
    /// A thread starts it, for a step of a change or to replace one that has ended.
    Starts(JoinHandle<()>, ForStep),
    /// Its rules and ways are on their way.
    Loads(Begun),
}

/// Whether a step waits for a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForStep {
    /// A step of a change waits for it.
    Yes,
    /// It replaces one that has ended.
    No,
}

/// A switch whose rules and ways are on their way.
pub(crate) struct Begun {
    pub(crate) switch: Switch,
    /// Routers that have come since it was begun: ways may have led to none.
    pub(crate) come: HashSet<RouterId>,
    /// Whether a step waits for it.
    pub(crate) for_step: ForStep,
}

impl Switching {
    /// The switch that runs and has been told everything.
    pub(crate) fn get(&mut self) -> Option<&mut Switch> {
        self.running.as_mut()
    }

    /// The same, or one whose rules are on their way.
    pub(crate) fn any(&mut self) -> Option<&mut Switch> {
        let begun = match &mut self.begun {
            Begin::Loads(begun) => Some(&mut begun.switch),
            Begin::No | Begin::Starts(..) => None,
        };
        self.running.as_mut().or(begun)
    }

    /// Whether one runs and has been told everything.
    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Whether one is being started, or its rules are on their way.
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.begun, Begin::No)
    }

    /// Why the start that a step waits for has failed. This is told once, and not to the step of a
    /// later change.
    pub(crate) fn take_refusal(&mut self) -> Option<NodeError> {
        self.refused.take().filter(|(_, at)| at.elapsed() < HEARD).map(|(error, _)| error)
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

    /// Times that it was started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.revival.restarts()
    }

    /// The memory and descriptors that outlive a process, if there was one.
    pub(crate) fn lasting(&self) -> Option<&Lasting> {
        self.lasting.as_ref()
    }

    /// The memory and descriptors that outlive a process, and the switch that runs.
    pub(crate) fn with_lasting(&mut self) -> Result<(&Lasting, Option<&mut Switch>), NodeError> {
        let lasting = self.lasting.as_ref().ok_or_else(not_up)?;
        Ok((lasting, self.running.as_mut()))
    }

    /// Has what outlives a process be there.
    pub(crate) fn have_lasting(&mut self, context: &Context) -> Result<(), NodeError> {
        if self.lasting.is_none() {
            self.lasting = Some(Lasting::open(&context.kept, context.settings.workers)?);
        }
        Ok(())
    }

    /// All that a thread needs to start a process.
    pub(crate) fn prepare(
        &mut self,
        context: &Context,
        substrate: &Substrate,
    ) -> Result<Starting, NodeError> {
        self.group = self.group.take().or_else(|| context.group("switch"));
        if let Some(group) = &self.group {
            group.set(&Limits { cpu_weight: Some(WEIGHT), ..Limits::default() })?;
        }
        let log = context.log("switch")?;
        let lasting = self.lasting.as_ref().ok_or_else(not_up)?;
        Starting::new(substrate, lasting, &context.kept, log, self.group.clone(), &context.cores)
    }

    /// A thread starts a process.
    pub(crate) fn starts(&mut self, thread: JoinHandle<()>, for_step: ForStep) {
        self.refused = None;
        self.begun = Begin::Starts(thread, for_step);
    }

    /// The thread has started a process, or not. Returns whether a step waits for it.
    pub(crate) fn has_started(&mut self) -> ForStep {
        match std::mem::take(&mut self.begun) {
            Begin::Starts(_, for_step) => for_step,
            Begin::No | Begin::Loads(_) => ForStep::No,
        }
    }

    /// A start has failed. A step that waits for it learns why; otherwise it is tried again.
    pub(crate) fn refuses(&mut self, error: NodeError, for_step: ForStep) {
        match for_step {
            ForStep::Yes => self.refused = Some((error, Instant::now())),
            ForStep::No => self.failed(&error),
        }
    }

    /// Keeps a process whose rules are on their way.
    pub(crate) fn wait_with(&mut self, switch: Switch, for_step: ForStep) {
        self.begun = Begin::Loads(Begun { switch, come: HashSet::new(), for_step });
    }

    /// The process whose rules were on their way.
    pub(crate) fn take_begun(&mut self) -> Option<Begun> {
        match std::mem::take(&mut self.begun) {
            Begin::Loads(begun) => Some(begun),
            other => {
                self.begun = other;
                None
            }
        }
    }

    /// A router has come: ways to it may have been told before.
    pub(crate) fn note_come(&mut self, router: &RouterId) {
        if let Begin::Loads(begun) = &mut self.begun {
            begun.come.insert(router.clone());
        }
    }

    /// Works with a process that has been told everything.
    pub(crate) fn finish(
        &mut self,
        context: &Context,
        mut switch: Switch,
    ) -> Result<&mut Switch, NodeError> {
        switch.note_complete(&context.kept, self.revival.restarts())?;
        context.events.note("switch", "", "Started", format!("process {}", switch.pid()));
        Ok(self.running.insert(switch))
    }

    /// When there will be one.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.revival.due().or(self.is_begun().then(|| Instant::now() + LOADING))
    }

    /// The time of its next start.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.revival.due()
    }

    /// It is started again now.
    pub(crate) fn counts_as_started(&mut self) {
        self.revival.is_started();
    }

    /// Its start needs programs that a thread loads.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.revival.put_off(now + LOADING);
    }

    /// It ended while it was started: it is tried again soon.
    pub(crate) fn try_again(&mut self) {
        self.revival.try_again(Instant::now());
    }

    /// It could not be started.
    pub(crate) fn failed(&mut self, error: &NodeError) {
        tracing::error!("starting the switch: {error}");
        self.revival.failed(Duration::ZERO, Instant::now());
    }

    /// Notes that its process has ended, and when to start it again.
    pub(crate) fn bury(&mut self, context: &Context) {
        let Some(switch) = &mut self.running else { return };
        let Some(exit) = switch.ended() else { return };
        let message = format!("{exit}; it is started again");
        context.events.warn("switch", "", "Ended", message);
        self.revival.failed(switch.age(), Instant::now());
        switch.forget(&context.kept);
        self.running = None;
    }

    /// Lets its processes go, which are still to be waited for.
    pub(crate) fn take_down(&mut self) -> Vec<Child> {
        let begun = match std::mem::take(&mut self.begun) {
            Begin::Loads(begun) => Some(begun.switch),
            // Its record is there when the thread has ended.
            Begin::Starts(thread, _) => {
                let _ = thread.join();
                None
            }
            Begin::No => None,
        };
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
