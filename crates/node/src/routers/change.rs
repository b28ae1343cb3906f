//! A router gets another fast path in the process that runs, and other ends of its links.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_control::{Taken, Ticket};
use europa_elements::builtin::Update;
use europa_plan::{RouterChange, RouterPlan, To};
use europa_router::orders;
use europa_substrate::{InterfaceSpec, Match, PortAttachment, Substrate};
use europa_switch::orders::Order;

use super::around::Around;
use super::process::Asked;
use super::{Routers, interface_on};
use crate::NodeError;
use crate::context::Context;
use crate::kept::Kept;
use crate::link_tunnels::Ends;

/// Longest time for a process to forward the packets in its rings, once no more arrive.
pub(crate) const DRAIN: Duration = Duration::from_millis(3);

impl Routers {
    /// Sends the present ends of a router's interfaces to the switch, and their links' effects.
    pub(crate) fn rewire(&mut self, around: &mut Around<'_>, plan: &RouterPlan) {
        let Some(place) = self.place_of(&plan.name) else { return };
        for (index, new) in plan.interfaces.iter().enumerate() {
            let Some(router) = self.all.get_mut(place) else { return };
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
            let most_frame_bytes = old.spec.max_frame;
            // A switch that has just ended learns of it when it starts.
            let (objects, switch) = around.split(&self.all);
            let Some(switch) = switch else { continue };
            if let (To::Far(end), To::Far(_)) = (&new.to, &led) {
                let ends = Ends { from: id, to: id, most_frame_bytes };
                if led != new.to {
                    let _ = objects.tunnels.tell(switch, end, ends);
                }
            } else if led != new.to {
                if led.far().is_some() {
                    objects.tunnels.remove(Some(&mut *switch), id);
                }
                let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
                if let Some(router) = self.all.get(place) {
                    let _ = objects.tell_interface(switch, router, id);
                }
            }
            if (led == new.to || led.far().and(new.to.far()).is_some()) && fared != new.impairment {
                let impairment = new.impairment;
                let _ = switch.order(&Order::Impair { interface: id, impairment }, &[]);
            }
        }
    }

    /// Makes a router as `plan` says, except for its process: see [`Self::update`]. Returns the
    /// difference, and whether a kernel program gets the frames from now on.
    pub(crate) fn turn_into(&mut self, plan: &Arc<RouterPlan>) -> Option<(RouterChange, bool)> {
        let router = self.all.iter_mut().find(|router| router.wanted.name == plan.name)?;
        let change = router.wanted.change(router.astray, plan);
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
        Some((change, enters))
    }

    /// Gives a router's process the present fast path.
    pub(crate) fn update(
        &mut self,
        context: &Context,
        name: &str,
        change: RouterChange,
        ticket: Ticket,
    ) -> Result<Taken, NodeError> {
        let Some(router) = self.all.iter_mut().find(|router| router.plan.name == name) else {
            return Ok(Taken::Done);
        };
        let Some(process) = &mut router.process else {
            // It has not come up with its former configuration: it tries the new one at once.
            router.backoff.forget();
            router.due = Some(Instant::now());
            return Ok(Taken::Begun);
        };
        let begins = !process.ready;
        if let Err(error) = process.note_outside(&context.kept, &router.wanted) {
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
        if let Err(error) = process.note_change(&context.kept, &router.wanted) {
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

    /// Has the interface on a port of a link receive nothing from it any more: a relay has its frames.
    pub(crate) fn leave(
        &mut self,
        substrate: &Substrate,
        port: &str,
        attachment: &PortAttachment,
    ) -> Result<(), NodeError> {
        let Some((planned, id)) = interface_on(&mut self.all, port) else { return Ok(()) };
        if !planned.spec.matches.is_empty() {
            substrate.leave(id, &planned.spec, attachment)?;
            planned.spec.matches.clear();
        }
        Ok(())
    }

    /// Has the interface on a port of a link match these frames. Returns its number; it is still to
    /// be connected, with the returned settings.
    pub(crate) fn match_again(
        &mut self,
        port: &str,
        matches: &[Match],
    ) -> Option<(u32, InterfaceSpec)> {
        let (planned, id) = interface_on(&mut self.all, port)?;
        planned.spec.matches = matches.to_vec();
        Some((id, planned.spec.clone()))
    }

    /// Writes down the present match of the interface on a port of a link.
    pub(crate) fn note_matches(&mut self, kept: &Kept, port: &str) -> Result<(), NodeError> {
        for router in &mut self.all {
            let all = &mut Arc::make_mut(&mut router.wanted).interfaces;
            let pairs = router.plan.interfaces.iter().zip(all);
            for (planned, wanted) in pairs {
                if planned.to.is_port(port) {
                    wanted.spec.matches.clone_from(&planned.spec.matches);
                }
            }
            if let Some(process) = &mut router.process {
                process.note_outside(kept, &router.wanted)?;
            }
        }
        Ok(())
    }
}
