//! Processes of routers and programs of slow paths: starts, ends, and messages.

use std::cmp::Reverse;
use std::time::Duration;

use europa_api::Router;
use europa_control::{Taken, Ticket};
use europa_plan::slow_path_change::Action;
use europa_plan::{RouterId, RouterPlan, slow_path_change};

use super::{Event, ORDER, START, SimMachine};
use crate::faults::Fault;
use crate::plant::Plant;
use crate::world::Process;

impl SimMachine {
    /// A router's process ends, and starts again.
    pub(crate) fn end_process(&mut self, name: &str) {
        let run = self.world.next_run();
        let Some(router) = self.world.routers.get_mut(name) else { return };
        router.run = run;
        let wait = Duration::from_millis(200);
        router.process = Process::Ended(self.now + wait);
        let (name, run) = (RouterId::new(name), router.run);
        self.later(wait, Event::Restart(name, run));
    }

    /// A router's process begins.
    pub(super) fn begin(&mut self, name: &RouterId, fault: Option<Fault>) {
        let run = self.world.next_run();
        let Some(router) = self.world.routers.get_mut(name) else { return };
        router.process = Process::Starting;
        router.run = run;
        // The process's first configuration is known.
        (router.astray, router.refuses) = (false, false);
        let (run, name) = (router.run, name.clone());
        let (wait, outcome) = match fault {
            Some(Fault::Late) => (Duration::from_secs(20), Ok(())),
            Some(Fault::Silent) => (START, Err("it does not answer".into())),
            Some(Fault::RefusedLater) => (self.soon(50), Err("it refuses".into())),
            _ => (self.soon(300), Ok(())),
        };
        self.later(wait, Event::Started(name, run, outcome));
    }

    /// A message of a process has arrived. Returns whether it concerns the present process.
    pub(crate) fn started(&mut self, name: &str, run: u64, outcome: &Result<(), String>) -> bool {
        let Some(router) = self.world.routers.get_mut(name).filter(|r| r.run == run) else {
            return false;
        };
        match outcome {
            Ok(()) if router.plan.is_inline() && !self.world.switch => {
                self.end_process(name);
                return false;
            }
            Ok(()) => (router.process, router.refuses) = (Process::Ready, false),
            Err(_) => {
                (router.refuses, self.failed) = (true, true);
                self.end_process(name);
            }
        }
        true
    }

    /// Restarts a router that has ended, unless it runs in a switch that is missing.
    pub(crate) fn restart(&mut self, name: &RouterId, run: u64) {
        let Some(router) = self.world.routers.get(name).filter(|router| router.run == run) else {
            return;
        };
        if router.plan.is_inline() && !self.world.switch {
            let (name, wait) = (name.clone(), Duration::from_secs(1));
            return self.later(wait, Event::Restart(name, run));
        }
        self.begin(name, None);
    }

    /// A router has answered an update. Returns whether the answer concerns the present process.
    pub(crate) fn updated(&mut self, name: &str, run: u64, outcome: &Result<(), String>) -> bool {
        let Some(router) = self.world.routers.get_mut(name).filter(|r| r.run == run) else {
            return false;
        };
        if outcome.is_err() {
            router.astray = true;
            self.failed = true;
            if self.plant == Some(Plant::AstrayForgotten) {
                self.lies.sound.insert(RouterId::new(name));
            }
            self.remember();
        }
        true
    }

    /// A router's process gets an update.
    pub(super) fn tell(&mut self, to: &RouterPlan, fault: Option<Fault>, ticket: Ticket) -> Taken {
        let Some(router) = self.world.routers.get(&to.name) else { return Taken::Done };
        let (name, run) = (to.name.clone(), router.run);
        let begins = router.process == Process::Starting;
        if matches!(router.process, Process::Ended(_)) {
            // The process tries its new configuration at once.
            self.begin(&name, fault);
            return Taken::Begun;
        }
        let (wait, outcome) = match fault {
            Some(Fault::Late) => (Duration::from_secs(4), Ok(())),
            Some(Fault::Silent) => (ORDER, Err("it does not answer".into())),
            Some(Fault::RefusedLater) => (self.soon(20), Err("it refuses".into())),
            _ => (self.soon(20), Ok(())),
        };
        // A router answers in order, even after an order that it has not answered in time.
        let former = self.timers.iter().filter_map(|Reverse((at, _, event))| match event {
            Event::Updated(of, its_run, ..) if (of, *its_run) == (&name, run) => Some(*at),
            _ => None,
        });
        let wait = former.max().map_or(wait, |at| wait.max(at.saturating_sub(self.now)));
        self.later(wait, Event::Updated(name, run, ticket.0, outcome));
        Taken::Told { updates: 1, begins }
    }

    /// Slow paths whose programs must reload their files.
    pub(super) fn reloads(&self) -> Vec<RouterId> {
        let tools = self.world.actual().tools;
        let is_reloaded = |name: &RouterId, made: &Router| {
            self.world.programs.get(name).is_some_and(|read| {
                let actions = slow_path_change::of_routers(read, made, tools);
                actions.values().any(|action| matches!(action, Action::Reload(_)))
            })
        };
        let all = self.world.slow_paths.iter();
        all.filter(|(name, made)| is_reloaded(name, made)).map(|(name, _)| name.clone()).collect()
    }

    /// Programs begin to read their files again.
    pub(super) fn reload(
        &mut self,
        all: Vec<RouterId>,
        fault: Option<Fault>,
        ticket: Ticket,
    ) -> Taken {
        let count = all.len();
        for name in all {
            let (wait, outcome) = match fault {
                Some(Fault::Late) => (Duration::from_secs(25), Ok(())),
                Some(Fault::Silent) => (ORDER, Err("it does not end".into())),
                Some(Fault::RefusedLater) => (self.soon(20), Err("it refuses".into())),
                _ => (self.soon(20), Ok(())),
            };
            self.later(wait, Event::Reloaded(name, ticket.0, outcome));
        }
        Taken::Reloading(count)
    }

    /// Programs of a slow path have reloaded their files; if one refuses, the loaded version is
    /// unknown.
    pub(crate) fn reloaded(&mut self, name: &RouterId, outcome: &Result<(), String>) {
        if outcome.is_err() {
            self.world.programs.remove(name);
            self.failed = true;
            self.remember();
        }
    }
}
