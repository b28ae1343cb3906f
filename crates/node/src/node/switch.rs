//! Starts a switch, and sends it all objects.

use std::collections::HashSet;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use europa_control::Stop;
use europa_plan::RouterId;

use super::Node;
use crate::NodeError;
use crate::beside::not_yet;
use crate::filters::ended;
use crate::objects::Objects;
use crate::switch::{Begun, Switch};

/// The ways that the switch has been sent.
enum ToldWays {
    /// All ways except those to these routers.
    AllBut(HashSet<RouterId>),
    /// None.
    No,
}

impl Node {
    /// Has a switch run.
    pub(super) fn have_switch(&mut self) -> Result<(), Stop> {
        self.kernel.opened(&self.context, &mut self.switch)?;
        if !self.switch.runs() && self.switch.due().is_none() {
            match self.start_switch() {
                Ok(()) => {}
                Err(error @ NodeError::Channel { .. }) => {
                    self.switch.try_again();
                    return Err(Stop::NotNow(error.into()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.switch.is_begun() { Err(not_yet()) } else { Ok(()) }
    }

    /// Starts a switch and sends it all objects. If the switch gets rules, the objects follow after
    /// these.
    fn start_switch(&mut self) -> Result<(), NodeError> {
        let mut switch = self.begin_switch()?;
        // The switch gets its rules before the interfaces, so that no packet passes without rules.
        let control = self.context.control.clone();
        let then = move |loaded: Result<(), NodeError>| {
            control.tell(move |node| node.switch_has_filters(loaded));
        };
        match self.filters.load(&mut switch, true, then)? {
            true => self.switch.wait_with(switch),
            false => self.finish_switch(switch, &ToldWays::No)?,
        }
        Ok(())
    }

    /// The same at the start of a node, which waits for the result.
    pub(super) fn start_switch_now(&mut self) -> Result<(), NodeError> {
        let mut switch = self.begin_switch()?;
        load_filters_now(self.objects(), &mut switch)?;
        self.finish_switch(switch, &ToldWays::AllBut(HashSet::new()))
    }

    /// The switch that was started now has its rules, or has ended.
    fn switch_has_filters(&mut self, loaded: Result<(), NodeError>) {
        let Some(Begun { switch, come }) = self.switch.take_begun() else { return };
        let ways = ToldWays::AllBut(come);
        if let Err(error) = loaded.and_then(|()| self.finish_switch(switch, &ways)) {
            self.switch.failed(&error);
        }
        self.change.goes_on();
    }

    /// Starts the switch again, if it is due.
    pub(super) fn revive_switch(&mut self) {
        if self.switch.is_due(Instant::now())
            && let Err(error) = self.start_switch()
        {
            self.switch.failed(&error);
        }
    }

    fn begin_switch(&mut self) -> Result<Switch, NodeError> {
        self.queues.forget();
        self.tunnels.forget();
        self.switch.begin(&self.context, self.kernel.up()?)
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

/// Sends all rules to a switch that was adopted or has just been started, and waits for the result.
pub(super) fn load_filters_now(objects: Objects<'_>, switch: &mut Switch) -> Result<(), NodeError> {
    let (done, outcome) = sync_channel(1);
    let then = move |loaded| drop(done.send(loaded));
    if !objects.filters.load(switch, false, then)? {
        return Ok(());
    }
    let ways = objects.filters.ways();
    switch.order_all(ways.map(|(number, way)| objects.way(*number, way)))?;
    outcome.recv().unwrap_or_else(|_| Err(ended()))
}
