//! Removes a router.

use europa_api::rest::ProblemDetails;

use super::around::{Around, attachment};
use super::{Router, Routers};
use crate::{NodeError, grants};

impl Routers {
    /// Ends a router and frees everything that it had.
    pub(crate) fn remove(&mut self, around: &mut Around<'_>, name: &str) -> Result<(), NodeError> {
        let Some(place) = self.place_of(name) else { return Ok(()) };
        let mut router = self.all.remove(place);
        let removed = self.take_away(around, &mut router);
        if let Err(error) = removed {
            // The next change or check removes its remaining parts.
            router.half = true;
            router.due = None;
            router.last_end = format!("its removal failed: {error}");
            self.all.insert(place, router);
            return Err(error);
        }
        around.context.events.note("router", name, "Removed", "it has ended");
        Ok(())
    }

    /// Ends a router and frees those resources that it still has.
    fn take_away(&self, around: &mut Around<'_>, router: &mut Router) -> Result<(), NodeError> {
        if let Some(successor) = router.successor.take() {
            successor.discard(around, "it is removed");
        }
        for reply in std::mem::take(&mut router.wants_successor) {
            // The caller may have ended.
            let _ = reply.send(Err(ProblemDetails::failed("it is removed")));
        }
        if let Some(substrate) = around.substrate {
            if router.plan.name.is_user_part() {
                // No program sends frames there any more, as the numbers may soon be another's.
                let name = router.plan.name.documented();
                let of = self.all.iter().filter(|other| other.plan.name == *name);
                of.flat_map(|of| &of.interfaces).for_each(|id| substrate.set_user_part(*id, None));
            }
            for id in &router.interfaces {
                substrate.halt_interface(*id);
            }
        }
        if let Some(mut process) = router.process.take() {
            process.body.kill()?;
            process.body.wait()?;
            process.forget(&around.context.kept);
            process.disappoint("it is removed");
        }
        drop(std::mem::take(&mut router.granted));
        grants::clear(&router.plan.grants);
        let (objects, mut switch) = around.split(&self.all);
        if let Some(switch) = &mut switch {
            objects.tell_of_loss(switch, router);
        }
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            if interface.to.far().is_some() {
                objects.tunnels.remove(switch.as_deref_mut(), *id);
            }
        }
        let pool = router.pool.take().map(|pool| {
            let forgotten = switch.is_some_and(|switch| switch.forget_pool(pool.id));
            (pool, forgotten)
        });
        let Some(substrate) = around.substrate else { return Ok(()) };
        // The last interface is removed first, so that removed ones are not removed again.
        while let Some(id) = router.interfaces.last().copied()
            && let Some(interface) = router.plan.interfaces.get(router.interfaces.len() - 1)
        {
            let port = attachment(around.ports, interface.to.port().map(|port| &**port));
            substrate.remove_interface(id, &interface.spec, port)?;
            router.interfaces.pop();
        }
        if let Some((pool, forgotten)) = pool {
            around.pools.free(substrate, pool, forgotten)?;
        }
        if let Some(group) = &router.group
            && let Err(error) = group.remove()
        {
            tracing::warn!("router {}: {error}", router.plan.name);
        }
        let geometry = router.plan.geometry;
        if !self.all.iter().any(|router| router.plan.geometry == geometry) {
            around.pools.drop_spare(substrate, geometry)?;
        }
        Ok(())
    }
}
