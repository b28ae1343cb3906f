//! The properties of a history, after each operation and at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use europa_api::rest::{Applied, ProblemDetails};
use europa_api::{Documents, Kept, Router};
use europa_control::{Machine, Outcome, Refusal};
use europa_plan::{Actual, Desired, Failure, RouterId, Step, diff, list};

use super::{Held, History};
use crate::world::{Process, SimDevice, SimRouter};

/// A comparison of accepted documents with a machine, and its context.
pub(super) struct Compared {
    documents: Arc<Documents>,
    actual: Actual,
    devices: BTreeMap<String, SimDevice>,
    left: Vec<String>,
}

impl History {
    /// Checks the properties after an answer, or without one.
    pub(super) fn holds(
        &mut self,
        outcome: Option<Outcome>,
        before: &[Kept],
        wanted: &[Kept],
    ) -> Held {
        let store = sorted(&self.machine.world.store.kept());
        let (before, wanted) = (sorted(before), sorted(wanted));
        match outcome {
            // The submitter does not know whether a change was accepted, but the node knows.
            None => match store == before || store == wanted {
                true => Ok(()),
                false => Err("a killed node left a state that nobody has asked for".into()),
            },
            Some(Ok(_)) if store != wanted => Err("what was accepted is not in the store".into()),
            Some(Ok(applied)) => {
                let mut routers = self.machine.world.routers.values();
                // Other steps also name the router: steps for its slow path and its ports, and its
                // end. If it refuses its former configuration, its state shows this.
                let begun = |router: &SimRouter| {
                    let is_it = |words: &[&str]| *words == ["router", &*router.plan.name];
                    applied.steps.iter().any(|step| {
                        let words: Vec<&str> = step.split([' ', ',', ':']).collect();
                        !step.starts_with("end ") && words.windows(2).any(is_it)
                    })
                };
                if let Some(router) = routers.find(|router| router.refuses && begun(router)) {
                    return Err(format!("accepted, though router {} refuses", router.plan.name));
                }
                self.is_there("accepted")
            }
            Some(Err(Refusal::Stale)) => Ok(()),
            Some(Err(Refusal::Problem(_))) if store != before => {
                Err("a change was refused, and is in the store".into())
            }
            Some(Err(Refusal::Problem(problem))) if is_taken_back(&problem) && self.was_whole => {
                self.is_there("as it was before")
            }
            Some(Err(_)) => Ok(()),
        }
    }

    /// All objects that the node has accepted exist, if their devices exist.
    fn is_there(&mut self, what: &str) -> Held {
        let all = self.machine.world.devices.values().all(|device| device.there);
        if !all || self.machine.generations() != self.generations || !self.engine.is_settled() {
            return Ok(());
        }
        match self.difference().as_slice() {
            [] => Ok(()),
            left => Err(format!("the state is said to be {what}, and this is left: {left:?}")),
        }
    }

    /// The steps that are still needed, computed from the actual state.
    pub(super) fn difference(&mut self) -> Vec<String> {
        let documents = self.engine.accepted().documents.clone();
        let actual = self.machine.world.actual();
        let world = &self.machine.world;
        let same = |last: &&Compared| {
            Arc::ptr_eq(&last.documents, &documents)
                && last.actual == actual
                && last.devices == world.devices
        };
        if let Some(last) = self.compared.as_ref().filter(same) {
            return last.left.clone();
        }
        let look = |port: &europa_api::Port| world.look(port).map_err(Failure::from);
        let desired = Desired::new(&self.machine.namespaces(), &documents, &actual, look);
        let steps = diff(&desired, &actual);
        let steps: Vec<Step> =
            steps.into_iter().filter(|step| !matches!(step, Step::StartSwitch)).collect();
        let left = list(&steps, &actual);
        let devices = world.devices.clone();
        self.compared = Some(Compared { documents, actual, devices, left: left.clone() });
        left
    }

    pub(super) fn told_all(&self, told: &Applied, applied: &Applied, taken: &[String]) -> Held {
        if told.changes != applied.changes {
            return Err("a dry run and what came after it tell of different changes".into());
        }
        if told.steps != taken {
            return Err(format!("a dry run told {:?}, and this was done: {taken:?}", told.steps));
        }
        Ok(())
    }

    /// After the last fault, the actual state equals the accepted one.
    pub(super) fn end(&mut self) -> Held {
        self.machine.faulty = false;
        for device in self.machine.world.devices.values_mut() {
            device.there = true;
        }
        self.pass(Duration::from_secs(400))?;
        // A comparison may have begun just now.
        let until = self.machine.now + Duration::from_secs(60);
        while !self.engine.is_settled() && self.machine.now < until {
            self.advance();
            self.go_on()?;
        }
        if !self.engine.is_settled() {
            return Err("the node does not come to rest".into());
        }
        if let left @ [_, ..] = self.difference().as_slice() {
            return Err(format!("what runs is not what was accepted: {left:?}"));
        }
        let world = &self.machine.world;
        let asleep = world.routers.values().find(|router| router.process != Process::Ready);
        if let Some(router) = asleep {
            return Err(format!("router {} does not run", router.plan.name));
        }
        if let Some(router) = world.idle().next() {
            return Err(format!("programs of {router} do not run as they are to"));
        }
        if let Some(router) =
            world.programs.keys().find(|name| !world.slow_paths.contains_key(*name))
        {
            return Err(format!("programs of {router} run without a slow path"));
        }
        let has = |made: &&Router| made.slow_path.as_ref().is_some_and(|one| one.has_uplink());
        let wanted: BTreeSet<_> = world.slow_paths.values().filter(has).map(RouterId::of).collect();
        if world.uplinks != wanted {
            return Err(format!("uplinks of {:?} are there, not of {wanted:?}", world.uplinks));
        }
        if world.numbered != world.store.numbered {
            return Err("numbered rules in force are not those that are kept".into());
        }
        if let Some(noted) = world.stray_note() {
            return Err(format!("there is a record without its object: {noted:?}"));
        }
        if let Some(unnoted) = world.unnoted() {
            return Err(format!("there is an object without a record: {unnoted:?}"));
        }
        let accepted = self.engine.accepted().stored.iter().map(|stored| stored.kept());
        if sorted(&world.store.kept()) != sorted(&accepted.collect::<Vec<_>>()) {
            return Err("the store has not what was accepted".into());
        }
        Ok(())
    }
}

fn is_taken_back(problem: &ProblemDetails) -> bool {
    problem.kind == ProblemDetails::taken_back("").kind
}

/// Documents by key, with their rank.
pub(super) fn sorted(kept: &[Kept]) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        kept.iter().map(|kept| (kept.key.to_string(), kept.document.clone())).collect();
    all.sort();
    all
}
