//! Steps from the actual to the desired state, carried out.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_control::{Machine as _, Stop, Taken, Ticket};
use europa_elements::builtin::Update;
use europa_plan::{Needs, RouterChange, RouterPlan, Step, To};
use europa_router::orders;
use europa_switch::orders::Order;

use super::Node;
use super::beside::not_yet;
use crate::NodeError;
use crate::link_tunnels::Ends;
use crate::router::Asked;

/// Until a switch that ended while it was started is started again.
const SWITCH_PAUSE: Duration = Duration::from_millis(100);

/// Longest time for a process to forward the packets in its rings, once no more arrive.
const DRAIN: Duration = Duration::from_millis(3);

impl Node {
    /// Takes a step.
    pub(super) fn take_step(
        &mut self,
        step: &Step,
        ahead: &VecDeque<Step>,
        ticket: Ticket,
    ) -> Result<Taken, Stop> {
        self.load_programs(step, ahead)?;
        self.load_cage(step)?;
        let done = match step {
            Step::RemoveRouter(plan) => {
                self.scene_is_old = true;
                self.remove_router(&plan.name)
            }
            Step::ClosePort(port) => self.close_port(&port.name),
            Step::OpenPort(port) => return self.open_port(port).map(|()| Taken::Done),
            Step::ChangePort { to, .. } => self.change_port(to),
            Step::AdaptPort { port, to, .. } => self.adapt_port(port, *to),
            Step::ChangeSlowPaths { .. } => {
                return self.change_slow_paths().map(|()| Taken::Done);
            }
            Step::StartSlowPaths => return Ok(Taken::Reloading(self.start_slow_paths(ticket)?)),
            Step::RemoveRelay(relay) => self.remove_relay(&relay.port),
            Step::MakeRelay(plan) => self.make_relay(plan),
            Step::ImpairRelay { to, .. } => self.impair_relay(to),
            Step::TrimHosts { .. } => return self.trim_hosts().map(|()| Taken::Done),
            Step::MakeHosts { .. } => return self.make_hosts().map(|()| Taken::Done),
            Step::StartSwitch => match self.start_switch_if_none() {
                Ok(()) if self.switch_begun.is_some() => return Err(not_yet()),
                Err(error @ NodeError::Channel { .. }) => {
                    self.revival.due.get_or_insert_with(|| Instant::now() + SWITCH_PAUSE);
                    return Err(Stop::NotNow(error.into()));
                }
                done => done,
            },
            Step::ChangeFilters { .. } => return self.change_filters().map(|()| Taken::Done),
            Step::AddRouter(plan) => {
                self.stock_up(plan.geometry, ahead)?;
                self.scene_is_old = true;
                self.add_router(plan.clone())?;
                return Ok(Taken::Begun);
            }
            Step::UpdateRouter { to, .. } => {
                self.scene_is_old = true;
                self.open_far_ends(to)?;
                self.rewire(to);
                let taken = self.update_router(to.clone(), ticket);
                if let Some(index) = self.routers.iter().position(|r| r.wanted.name == to.name) {
                    self.renew_successor(index);
                }
                return Ok(taken?);
            }
        };
        done?;
        Ok(Taken::Done)
    }

    /// Sets up a port's device for its interfaces.
    fn adapt_port(&mut self, name: &str, needs: Needs) -> Result<(), NodeError> {
        let Some(place) = self.ports.iter().position(|port| port.name == *name) else {
            return Ok(());
        };
        let Some(port) = self.ports.get_mut(place) else { return Ok(()) };
        let changes_device = needs.vlan && !port.needs().vlan;
        if changes_device {
            port.expect(needs)?;
            // If this node is killed, its successor must restore the device.
            self.note_ports()?;
        }
        if let Some(port) = self.ports.get_mut(place) {
            port.adapt(needs)?;
        }
        if changes_device { self.note_ports() } else { Ok(()) }
    }

    fn change_slow_paths(&mut self) -> Result<(), Stop> {
        let documents = self.documents.clone();
        let purpose = self.purpose("");
        let Some(made) = self.slow_path_work.result(&purpose, drop)? else {
            let ports = europa_plan::ports(&self.namespaces(), &documents);
            self.slow_paths.trim(&self.instance, &self.kept, &documents)?;
            let missing = self.slow_paths.missing(&self.instance, &documents, ports)?;
            let work = move || Ok(missing.make());
            return Err(self.begin_work(|node| &mut node.slow_path_work, purpose, work));
        };
        Ok(self.slow_paths.keep(&self.instance, &self.kept, &documents, made)?)
    }

    /// Slow paths whose namespaces have vanished: they are made again.
    pub(crate) fn mend_slow_paths(&mut self, lost: Vec<String>) {
        // A current change may have removed them.
        if !self.engine.is_settled() {
            return;
        }
        for router in lost {
            match self.slow_paths.lose(&self.instance, &self.kept, &router) {
                Ok(false) => {}
                Ok(true) => {
                    let what = "the network namespace of its slow path is gone";
                    self.events.warn("router", &router, "Drifted", what);
                }
                Err(error) => self.events.warn("router", &router, "Failed", error.to_string()),
            }
        }
        self.reconcile();
    }

    /// Repairs uplinks after another program has removed a part of them.
    pub(crate) fn mend_uplinks(&mut self, lost: &str) {
        if self.engine.is_settled() && self.slow_paths.uplinks().lose() {
            self.events.warn("node", "", "Drifted", format!("{lost}: gone"));
            self.reconcile();
        }
    }

    fn start_switch_if_none(&mut self) -> Result<(), NodeError> {
        self.substrate_opened()?;
        if self.switch.is_none() && self.switch_due().is_none() {
            self.start_switch()?;
        }
        Ok(())
    }

    /// Sends the present ends of a router's interfaces to the switch, and their links' effects.
    fn rewire(&mut self, plan: &RouterPlan) {
        let Some(place) = self.routers.iter().position(|r| r.wanted.name == plan.name) else {
            return;
        };
        // A switch that has just ended learns of it when it starts.
        let mut switch = self.switch.take();
        for (index, new) in plan.interfaces.iter().enumerate() {
            let Some(router) = self.routers.get_mut(place) else { continue };
            let (Some(old), Some(id)) =
                (router.plan.interfaces.get_mut(index), router.interfaces.get(index).copied())
            else {
                continue;
            };
            let led = old.to.clone();
            let fared = old.impairment;
            old.to.clone_from(&new.to);
            old.link.clone_from(&new.link);
            old.impairment = new.impairment;
            old.queues.clone_from(&new.queues);
            let Some(switch) = &mut switch else { continue };
            if let (To::Far(end), To::Far(_)) = (&new.to, &led) {
                let ends = Ends { from: id, to: id, most_frame_bytes: old.spec.max_frame };
                if led != new.to {
                    let _ = self.link_tunnels.tell(switch, end, ends);
                }
            } else if led != new.to {
                if led.far().is_some() {
                    self.link_tunnels.remove(Some(&mut *switch), id);
                }
                let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
                if let Some(router) = self.routers.get(place) {
                    let _ = self.tell_interface(switch, router, id);
                }
            }
            if (led == new.to || led.far().and(new.to.far()).is_some()) && fared != new.impairment {
                let impairment = new.impairment;
                let _ = switch.order(&Order::Impair { interface: id, impairment }, &[]);
            }
        }
        self.switch = switch;
    }

    /// Gives a router another fast path in its running process.
    fn update_router(&mut self, plan: Arc<RouterPlan>, ticket: Ticket) -> Result<Taken, NodeError> {
        let Some(router) = self.routers.iter_mut().find(|r| r.wanted.name == plan.name) else {
            return Ok(Taken::Done);
        };
        let change = router.wanted.change(router.astray, &plan);
        let enters = router.plan.cage.is_none() && plan.cage.is_some();
        router.plan.cage.clone_from(&plan.cage);
        router.plan.place.clone_from(&plan.place);
        for (own, new) in router.plan.interfaces.iter_mut().zip(&plan.interfaces) {
            own.spec.flags = new.spec.flags;
        }
        router.plan.configuration.clone_from(&plan.configuration);
        router.plan.file.clone_from(&plan.file);
        router.plan.description.clone_from(&plan.description);
        router.wanted = plan.clone();
        router.astray = false;
        if enters {
            // From here on the program gets frames. The process forwards its remaining packets, and
            // is replaced then.
            self.follow_cages();
            std::thread::sleep(DRAIN);
        }
        let Some(router) = self.routers.iter_mut().find(|r| r.wanted.name == plan.name) else {
            return Ok(Taken::Done);
        };
        let Some(process) = &mut router.process else {
            // It failed to start with its former configuration, so it tries the new one at once.
            router.backoff.forget();
            router.due = Some(Instant::now());
            return Ok(Taken::Begun);
        };
        let begins = !process.ready;
        if let Err(error) = process.note_outside(&self.kept, &router.wanted) {
            tracing::warn!("router {}: {error}", router.wanted.name);
        }
        let updates = match change {
            RouterChange::Nothing if begins => return Ok(Taken::Begun),
            RouterChange::Nothing => return Ok(Taken::Done),
            RouterChange::InPlace(updates) if updates.is_empty() && begins => {
                return Ok(Taken::Begun);
            }
            RouterChange::InPlace(updates) if updates.is_empty() => return Ok(Taken::Done),
            RouterChange::InPlace(updates) => updates,
            RouterChange::Swap | RouterChange::Restart => Vec::new(),
        };
        if let Err(error) = process.note_change(&self.kept, &router.wanted) {
            tracing::warn!("router {}: {error}", router.wanted.name);
        }
        if !updates.is_empty() && process.has_room(updates.len()) {
            let count = updates.len();
            for Update { path, value } in updates {
                process.order(&orders::Order::Write { path, value }, Asked::Update(ticket));
            }
            return Ok(Taken::Told { updates: count, begins });
        }
        let (configuration, file) =
            (router.wanted.configuration.clone(), router.wanted.file.clone());
        let granted = router.granted.open(&router.wanted)?;
        let order = orders::Order::Swap { configuration, file };
        let descriptors: Vec<_> = granted.iter().map(AsFd::as_fd).collect();
        process.order_with(&order, &descriptors, Asked::Update(ticket));
        Ok(Taken::Told { updates: 1, begins })
    }
}
