//! A switch is started, and told all objects.

use std::collections::HashSet;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use europa_control::Stop;
use europa_plan::RouterId;

use super::Node;
use crate::NodeError;
use crate::beside::not_yet;
use crate::filters::{WAYS_AT_ONCE, WayOrder, ended};
use crate::objects::Objects;
use crate::switch::{Begun, ForStep, Lasting, Starting, Switch};

/// The ways that a switch has been told.
enum ToldWays {
    /// All but those to these routers.
    AllBut(HashSet<RouterId>),
    /// None.
    No,
}

impl Node {
    /// Has a switch run.
    pub(super) fn have_switch(&mut self) -> Result<(), Stop> {
        self.kernel.opened(&self.context, &mut self.switch)?;
        if let Some(error) = self.switch.take_refusal() {
            if matches!(error, NodeError::Channel { .. }) {
                self.switch.try_again();
                return Err(Stop::NotNow(error.into()));
            }
            return Err(error.into());
        }
        if !self.switch.runs() && self.switch.due().is_none() {
            self.start_switch(ForStep::Yes)?;
        }
        if self.switch.is_begun() { Err(not_yet()) } else { Ok(()) }
    }

    /// Has a thread start a switch. All objects are sent to it then, and its rules before these.
    fn start_switch(&mut self, for_step: ForStep) -> Result<(), NodeError> {
        let starting = self.prepare_switch()?;
        let then = |node: &mut Node, started| node.switch_has_started(started);
        let thread = self.context.beside("switch", move || starting.start(), then)?;
        self.switch.starts(thread, for_step);
        Ok(())
    }

    /// A thread has started a switch, or not.
    fn switch_has_started(&mut self, started: Result<Switch, NodeError>) {
        let for_step = self.switch.has_started();
        if let Err(error) = started.and_then(|switch| self.load_switch(switch, for_step)) {
            self.switch.refuses(error, for_step);
        }
    }

    /// Sends a switch all objects. If it gets rules, the objects follow behind these.
    fn load_switch(&mut self, mut switch: Switch, for_step: ForStep) -> Result<(), NodeError> {
        // The switch gets its rules before the interfaces, so that no packet passes without rules.
        let control = self.context.control.clone();
        let then = move |loaded: Result<(), NodeError>| {
            control.tell(move |node| node.switch_has_filters(loaded));
        };
        match self.filters.load(&mut switch, true, then)? {
            true => self.switch.wait_with(switch, for_step),
            false => self.finish_switch(switch, &ToldWays::No)?,
        }
        Ok(())
    }

    /// Starts a switch at the start of a node, which waits until it is done.
    pub(super) fn start_switch_now(&mut self) -> Result<(), NodeError> {
        let mut switch = self.prepare_switch()?.start()?;
        load_filters_now(self.objects(), &mut switch)?;
        self.finish_switch(switch, &ToldWays::AllBut(HashSet::new()))
    }

    /// A switch that was begun has its rules, or has ended.
    fn switch_has_filters(&mut self, loaded: Result<(), NodeError>) {
        let Some(Begun { switch, come, for_step }) = self.switch.take_begun() else { return };
        let ways = ToldWays::AllBut(come);
        if let Err(error) = loaded.and_then(|()| self.finish_switch(switch, &ways)) {
            self.switch.refuses(error, for_step);
        }
        self.change.goes_on();
    }

    /// Starts the switch again, if it is due.
    pub(super) fn revive_switch(&mut self) {
        let now = Instant::now();
        let is_due = self.switch.next_due().is_some_and(|due| due <= now);
        if !is_due || self.switch.is_begun() {
            return;
        }
        let workers = self.switch.lasting().map_or(0, Lasting::workers);
        let started = match self.kernel.load_transmit(&self.context, workers) {
            // Programs of a switch that was adopted.
            Ok(true) => return self.switch.put_off(now),
            Ok(false) => {
                self.switch.counts_as_started();
                self.start_switch(ForStep::No)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = started {
            self.switch.failed(&error);
        }
    }

    fn prepare_switch(&mut self) -> Result<Starting, NodeError> {
        self.queues.forget();
        self.tunnels.forget();
        self.switch.prepare(&self.context, self.kernel.up()?)
    }

    fn finish_switch(&mut self, mut switch: Switch, ways: &ToldWays) -> Result<(), NodeError> {
        let objects = self.objects();
        for port in objects.ports.iter() {
            objects.tell_port(&mut switch, port)?;
        }
        for router in objects.routers {
            objects.tell_pool(&mut switch, router)?;
        }
        for router in objects.routers {
            let name = &router.plan.name;
            let knows = matches!(ways, ToldWays::AllBut(others) if !others.contains(name));
            for id in &router.interfaces {
                if knows {
                    objects.tell_interface_alone(&mut switch, router, *id)?;
                } else {
                    objects.tell_interface(&mut switch, router, *id)?;
                }
            }
        }
        for relay in objects.relays.iter() {
            objects.tell_relay(&mut switch, relay)?;
        }
        let switch = self.switch.finish(&self.context, switch)?;
        if let Some(substrate) = self.kernel.substrate() {
            self.pools.free_orphans(substrate, switch);
        }
        self.follow_queues()
    }
}

/// Sends all rules to a switch that was adopted or has just been started, and waits for it.
pub(super) fn load_filters_now(objects: Objects<'_>, switch: &mut Switch) -> Result<(), NodeError> {
    let (done, outcome) = sync_channel(1);
    let then = move |loaded| drop(done.send(loaded));
    if !objects.filters.load(switch, false, then)? {
        return Ok(());
    }
    let ways: Vec<WayOrder> = objects.filters.ways().cloned().collect();
    switch.order_all(ways.chunks(WAYS_AT_ONCE).map(|ways| objects.ways(ways)))?;
    outcome.recv().unwrap_or_else(|_| Err(ended()))
}
