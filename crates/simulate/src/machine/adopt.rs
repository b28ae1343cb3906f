//! A new node finds the objects of its predecessor.

use std::cmp::Reverse;

use europa_plan::{Desired, RouterId, RouterPlan};

use super::{Event, Lies, SimMachine};
use crate::notes::Noted;
use crate::plant::Plant;
use crate::world::{Process, SimRouter};

impl SimMachine {
    /// A node starts: objects equal to `desired` continue, others are removed.
    pub(crate) fn adopt(&mut self, desired: &Desired) {
        self.killed = false;
        self.wanted = desired.documents.clone();
        self.parked.clear();
        self.verdict = None;
        self.checking = false;
        self.plans.clear();
        // Answers to a node that no longer runs are dropped.
        let events = std::mem::take(&mut self.timers).into_iter();
        self.timers = events
            .filter(|Reverse((_, _, event))| {
                matches!(
                    event,
                    Event::SwitchBack | Event::DeviceBack(_) | Event::Started(_, _, Ok(()))
                )
            })
            .collect();
        self.lies = Lies::default();
        if self.plant == Some(Plant::LeakAtRestart) {
            let wanted = |name: &&RouterId| desired.router(name).is_none();
            self.lies.gone = self.world.routers.keys().filter(wanted).cloned().collect();
        }
        if self.plant != Some(Plant::UnnotedAdopted) {
            self.world.remove_unnoted();
        }
        self.sweep(desired);
        let ended: Vec<RouterId> = self
            .world
            .routers
            .iter()
            .filter(|(_, router)| router.process != Process::Ready || router.half)
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            // Only a process that has its configuration is adopted.
            self.world.routers.remove(&name);
        }
        self.world.filters.clone_from(&desired.documents.filters);
        self.world.numbered = self.world.store.numbered.clone();
        if !self.world.switch && !self.world.routers.is_empty() {
            self.world.switch = true;
            self.world.notes.insert(Noted::Switch);
        }
        self.world.programs.clone_from(&self.world.slow_paths);
        if self.plant != Some(Plant::StrayNote) {
            self.world.forget_gone();
        }
        self.remember();
    }

    fn sweep(&mut self, desired: &Desired) {
        let world = &mut self.world;
        if world.hosts != desired.documents.hosts {
            world.hosts.clear();
        }
        world.slow_paths.retain(|name, made| {
            let mut all = desired.documents.routers.iter();
            let wanted = all.find(|router| RouterId::of(router) == *name);
            // An incomplete change leaves no record.
            let is_done =
                world.programs.get(name).is_none_or(|read| read.slow_path == made.slow_path);
            is_done && wanted.is_some_and(|w| w.slow_path.is_some() && w == made)
        });
        // All of them are adopted, or all are made again.
        if world.uplinks.iter().any(|name| !world.slow_paths.contains_key(name)) {
            world.uplinks.clear();
        }
        let lost: Vec<_> = world
            .ports
            .iter()
            .filter(|(_, port)| {
                !desired.ports.contains(&port.document)
                    || world.is_stale(port)
                    || world.look(&port.document).is_err()
            })
            .map(|(name, _)| name.clone())
            .collect();
        lost.iter().for_each(|name| drop(world.ports.remove(name)));
        let open = |plan: &RouterPlan| plan.ports().all(|port| world.ports.contains_key(port));
        let stays = |name: &RouterId, router: &SimRouter| {
            let wanted = desired.feasible(name);
            wanted.is_some_and(|wanted| router.plan.is_outside_as(wanted)) && open(&router.plan)
        };
        let gone: Vec<RouterId> = world
            .routers
            .iter()
            .filter(|(name, router)| !stays(name, router))
            .map(|(name, _)| name.clone())
            .collect();
        let leak = &self.lies.gone;
        let gone = gone.iter().filter(|name| !leak.contains(*name));
        gone.for_each(|name| drop(world.routers.remove(name)));
        world.relays.retain(|relay| {
            desired.relays.iter().any(|plan| relay.stays(plan))
                && world.ports.contains_key(&relay.port)
                && (relay.far.is_some()
                    || world.routers.values().any(|r| r.plan.ports().any(|p| *p == relay.port)))
        });
    }
}
