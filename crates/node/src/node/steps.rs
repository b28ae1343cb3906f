//! Steps from the actual to the desired state: each goes to its part.

use std::collections::VecDeque;
use std::sync::Arc;

use europa_control::{Machine as _, Stop, Taken, Ticket};
use europa_plan::{RelayPlan, RouterPlan, Step};

use super::Node;
use crate::NodeError;
use crate::beside::not_yet;
use crate::relays::Relay;
use crate::routers::DRAIN;
use crate::switch::unless_gone;

impl Node {
    /// Takes a step.
    pub(super) fn take_step(
        &mut self,
        step: &Step,
        ahead: &VecDeque<Step>,
        ticket: Ticket,
    ) -> Result<Taken, Stop> {
        self.prepare(step, ahead)?;
        let done = match step {
            Step::RemoveRouter(plan) => {
                self.captures.expect_others();
                let (routers, mut around) = self.with_routers();
                routers.remove(&mut around, &plan.name)
            }
            Step::ClosePort(port) => self.close_port(&port.name),
            Step::OpenPort(port) => return self.open_port(port).map(|()| Taken::Done),
            Step::ChangePort { to, .. } => self.ports.change(&self.context, self.switch.get(), to),
            Step::AdaptPort { port, to, .. } => self.ports.adapt(&self.context, port, *to),
            Step::ChangeSlowPaths { .. } => {
                let ports = europa_plan::ports(&self.namespaces(), self.change.documents());
                let purpose = self.change.purpose("");
                self.slow_paths.have(&self.context, purpose, ports)?;
                Ok(())
            }
            Step::StartSlowPaths => return Ok(Taken::Reloading(self.start_slow_paths(ticket)?)),
            Step::RemoveRelay(relay) => self.remove_relay(&relay.port),
            Step::MakeRelay(plan) => self.make_relay(plan),
            Step::ImpairRelay { to, .. } => {
                let switch = self.switch.get();
                self.relays.impair(&self.context, to, &mut self.tunnels, switch)
            }
            Step::TrimHosts { .. } => {
                self.hosts.trim(&self.context, self.change.purpose(""))?;
                Ok(())
            }
            Step::MakeHosts { .. } => {
                let purpose = self.change.purpose("");
                self.hosts.make(&self.context, &self.change, purpose)?;
                Ok(())
            }
            Step::StartSwitch => return self.have_switch().map(|()| Taken::Done),
            Step::ChangeFilters { .. } => {
                self.filters.change(&self.context, self.change.purpose("filters"))?;
                Ok(())
            }
            Step::AddRouter(plan) => {
                let is_alike = |step: &&Step| matches!(step, Step::AddRouter(other) if other.geometry == plan.geometry);
                let ahead = ahead.iter().filter(is_alike).count();
                self.pools.stock_up(&self.context, plan.geometry, ahead)?;
                self.captures.expect_others();
                let (routers, mut around) = self.with_routers();
                routers.add(&mut around, plan.clone())?;
                return Ok(Taken::Begun);
            }
            Step::UpdateRouter { to, .. } => return Ok(self.update_router(to, ticket)?),
        };
        done?;
        Ok(Taken::Done)
    }

    /// Has the programs that a step needs be loaded.
    fn prepare(&mut self, step: &Step, ahead: &VecDeque<Step>) -> Result<(), Stop> {
        if matches!(step, Step::OpenPort(_) | Step::StartSwitch | Step::AddRouter(_)) {
            let purpose = self.change.purpose("");
            self.kernel.open(&self.context, &mut self.switch, purpose)?;
        }
        self.kernel.load_programs(&self.context, step, ahead)?;
        let (Step::AddRouter(plan) | Step::UpdateRouter { to: plan, .. }) = step else {
            return Ok(());
        };
        if plan.cage.is_none() {
            return Ok(());
        }
        if self.kernel.load_for_driver(&self.context, &self.ports, plan)? {
            return Err(not_yet());
        }
        self.cages.have(&self.context, self.kernel.up()?, &self.routers, plan)
    }

    fn open_port(&mut self, document: &europa_api::Port) -> Result<(), Stop> {
        let substrate = self.kernel.opened(&self.context, &mut self.switch)?;
        let purpose = self.change.purpose(&document.name.value);
        self.ports.open(&self.context, substrate, purpose, document)?;
        let name = &*document.name.value;
        let (objects, mut switch) = self.with_switch();
        if let (Some(switch), Some(port)) =
            (&mut switch, objects.ports.iter().find(|port| port.name == *name))
        {
            unless_gone(objects.tell_port(switch, port))?;
        }
        Ok(objects.connect(switch, name)?)
    }

    fn close_port(&mut self, name: &str) -> Result<(), NodeError> {
        let (objects, switch) = self.with_switch();
        objects.disconnect(switch, name)?;
        self.ports.close(&self.context, self.kernel.substrate(), self.switch.get(), name)
    }

    fn make_relay(&mut self, plan: &RelayPlan) -> Result<(), NodeError> {
        if let Some(end) = &plan.far {
            self.tunnels.open(end)?;
        }
        let attachment = self.ports.attachment(&plan.port);
        let relay = Relay::make(plan.clone(), self.kernel.up()?, attachment)?;
        let (objects, switch) = self.with_switch();
        if let Some(switch) = switch {
            unless_gone(objects.tell_relay(switch, &relay))?;
        }
        let attachment = self.ports.attachment(&plan.port);
        let (substrate, routers) = (self.kernel.substrate(), &mut self.routers);
        self.relays.begin(&self.context, relay, substrate, attachment, routers)
    }

    fn remove_relay(&mut self, port: &str) -> Result<(), NodeError> {
        let Some(mut relay) = self.relays.take(&self.context, port) else { return Ok(()) };
        let Some(substrate) = self.kernel.substrate() else { return Ok(()) };
        let attachment = self.ports.attachment(port);
        if let Some(attachment) = attachment {
            relay.hand_back(substrate, attachment, &mut self.routers, self.switch.get())?;
        }
        if relay.plan.far.is_some() {
            self.tunnels.remove(self.switch.get(), relay.interface);
        }
        let (pool, forgotten) = relay.end(self.switch.get(), substrate, attachment)?;
        self.pools.free(substrate, pool, forgotten)?;
        self.routers.note_matches(&self.context.kept, port)
    }

    /// Gives a router another fast path, in the process that runs.
    fn update_router(&mut self, to: &Arc<RouterPlan>, ticket: Ticket) -> Result<Taken, NodeError> {
        self.captures.expect_others();
        self.tunnels.open_all(to)?;
        let (routers, mut around) = self.with_routers();
        routers.rewire(&mut around, to);
        let taken = match routers.turn_into(to) {
            Some((change, enters)) => {
                if enters {
                    // From here on frames go to the program. The process forwards what it has got, and
                    // then becomes another.
                    self.follow_cages();
                    std::thread::sleep(DRAIN);
                }
                self.routers.update(&self.context, &to.name, change, ticket)
            }
            None => Ok(Taken::Done),
        };
        let (routers, mut around) = self.with_routers();
        routers.renew_successor(&mut around, &to.name);
        taken
    }
}
