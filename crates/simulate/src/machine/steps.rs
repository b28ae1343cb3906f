//! The machine in the form that the engine needs: each effect may meet a fault.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use europa_api::Documents;
use europa_control::witness::Effect;
use europa_control::{Commit, Machine, Note, Question, Stop, Taken, Ticket, Verdict};
use europa_plan::{Actual, Desired, Failure, Namespaces, RouterPlan, Step};

use super::{Event, SimMachine};
use crate::faults::Fault;
use crate::plant::Plant;
use crate::world::{Process, SimRouter};

impl Machine for SimMachine {
    fn probe(&mut self) {
        self.lies.asked.take();
        if self.plant != Some(Plant::UnchangedMeansDone) {
            self.remember();
        }
    }

    fn namespaces(&self) -> Namespaces {
        Namespaces { hosts: "europa.sim".into(), slow_paths: "europa.sim..slow".into() }
    }

    fn actual(&self) -> Actual {
        if let Some(asked) = self.lies.asked.take() {
            return asked;
        }
        let mut actual = self.belief.clone();
        // A switch that has ended is restarted without a step of the engine.
        actual.switch |= self.timers.iter().any(|Reverse((_, _, e))| *e == Event::SwitchBack);
        actual
    }

    fn plan(&mut self, question: Question) {
        if self.killed {
            return;
        }
        let ticket = question.ticket().0;
        let asked = (self.plant == Some(Plant::LatePlan)).then(|| self.actual());
        let plan = question.answer(|port| self.look(port));
        self.plans.insert(ticket, (plan, asked));
        // Sometimes the plan is so late that the state has changed.
        let most_ms = if self.faulty && self.rng.u8(..16) == 0 { 3000 } else { 20 };
        let wait = self.soon(most_ms);
        self.later(wait, Event::Planned(ticket));
    }

    fn discard(&mut self, _: Box<dyn Send>) {}

    fn admit(&mut self, _: &Desired) -> Result<(), Failure> {
        Ok(())
    }

    fn check(&mut self, _: &[Arc<RouterPlan>]) -> Result<(), Failure> {
        if self.killed {
            return Ok(());
        }
        let fault = self.fault(Effect::Check);
        (self.verdict, self.checking) = (None, true);
        if fault == Some(Fault::SwitchKilled) {
            self.kill_switch();
        }
        let (wait, outcome) = match fault {
            Some(Fault::Refused) => return Err(Failure::from("no process".to_owned())),
            Some(Fault::KilledBefore) => {
                self.killed = true;
                return Ok(());
            }
            Some(Fault::RefusedLater) => (self.soon(50), Err("a mistake".to_owned())),
            Some(Fault::Late) => (Duration::from_secs(15), Ok(())),
            _ => (self.soon(50), Ok(())),
        };
        self.later(wait, Event::Checked(outcome));
        self.killed = fault == Some(Fault::KilledAfter);
        Ok(())
    }

    fn verdict(&mut self) -> Verdict {
        let verdict = match self.verdict.take() {
            None => return Verdict::NotYet,
            Some(Ok(())) => Verdict::Right(Vec::new()),
            Some(Err(why)) => Verdict::Wrong(why),
        };
        self.checking = false;
        verdict
    }

    fn may_start(&self) -> bool {
        let starting = |router: &&SimRouter| router.process == Process::Starting;
        self.world.routers.values().filter(starting).count() < 2
    }

    fn want(&mut self, documents: &Arc<Documents>) {
        self.wanted.clone_from(documents);
        let goes_back = std::mem::take(&mut self.failed);
        if self.plant == Some(Plant::MissingInverse) {
            self.lies.imagined = goes_back.then(|| self.world.clone());
        }
    }

    fn take(&mut self, step: &Step, _: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop> {
        if self.killed {
            return Ok(Taken::Done);
        }
        let effect = Effect::of(step);
        let fault = self.fault(effect);
        self.trace(|| format!("{effect} {:?} {fault:?}", step.makes()));
        let refused = || Failure::from(format!("{effect} is refused"));
        match fault {
            Some(Fault::KilledBefore) => {
                self.killed = true;
                return Ok(Taken::Done);
            }
            Some(Fault::KilledBetween) => {
                self.kill_between(step);
                return Ok(Taken::Done);
            }
            Some(Fault::Refused) => {
                self.failed = true;
                return Err(Stop::Failed(refused()));
            }
            Some(Fault::NotNow) => {
                // The missing resource returns soon.
                self.later(Duration::from_millis(100), Event::Checked(Ok(())));
                return Err(Stop::NotNow(refused()));
            }
            Some(Fault::Half) => {
                let _ = self.carry_out(step, true);
                self.failed = true;
                return Err(Stop::Failed(refused()));
            }
            Some(Fault::SwitchKilled) => self.kill_switch(),
            _ => {}
        }
        let lost = self.plant == Some(Plant::LostOrder)
            && matches!(step, Step::UpdateRouter { .. })
            && self.rng.u8(..2) == 0;
        if lost {
            let Step::UpdateRouter { to, .. } = step else { return Ok(Taken::Done) };
            let found = self.belief.routers.iter_mut().find(|r| r.plan.name == to.name);
            if let Some(router) = found {
                router.plan = to.clone();
            }
            return Ok(Taken::Done);
        }
        let reloads = match step {
            Step::StartSlowPaths => self.reloads(),
            _ => Vec::new(),
        };
        self.carry_out(step, false).map_err(|why| Stop::Failed(why.into()))?;
        self.taken.push(step.clone());
        if fault == Some(Fault::KilledAfter) {
            self.killed = true;
            return Ok(Taken::Done);
        }
        Ok(match step {
            Step::AddRouter(plan) => {
                self.begin(&plan.name, fault);
                Taken::Begun
            }
            Step::UpdateRouter { to, .. } => self.tell(to, fault, ticket),
            Step::StartSlowPaths => self.reload(reloads, fault, ticket),
            _ => Taken::Done,
        })
    }

    fn settle(&mut self) -> Result<(), Stop> {
        if self.killed {
            return Ok(());
        }
        match self.fault(Effect::Settle) {
            Some(Fault::Refused) => {
                return Err(Stop::Failed(Failure::from("queues are refused".to_owned())));
            }
            Some(Fault::NotNow) => {
                self.later(Duration::from_millis(100), Event::Checked(Ok(())));
                return Err(Stop::NotNow(Failure::from("groups are still to be made".to_owned())));
            }
            Some(Fault::KilledBefore | Fault::KilledAfter) => self.killed = true,
            Some(Fault::SwitchKilled) => self.kill_switch(),
            _ => {}
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn commit(&mut self, commit: Commit) {
        if self.killed {
            return;
        }
        let fault = self.fault(Effect::Commit);
        let mut outcome = Ok(());
        match fault {
            Some(Fault::KilledBefore) => return self.killed = true,
            Some(Fault::Refused) if self.plant == Some(Plant::SwallowedCommit) => {}
            Some(Fault::Refused) => outcome = Err("the disk is full".to_owned()),
            Some(Fault::SwitchKilled) => {
                self.kill_switch();
                outcome = self.world.store.change(&commit);
            }
            _ => outcome = self.world.store.change(&commit),
        }
        if fault == Some(Fault::KilledAfter) {
            return self.killed = true;
        }
        if outcome.is_ok() {
            self.parked.clear();
            self.belief.parked.clear();
        }
        let wait = if fault == Some(Fault::Late) { Duration::from_secs(9) } else { self.soon(20) };
        self.later(wait, Event::Committed(outcome));
    }

    fn note(&mut self, _: Note<'_>) {}
}
