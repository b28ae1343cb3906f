//! A router that goes.

use europa_api::rest::ProblemDetails;

use super::around::{Around, attachment};
use super::{Router, Routers};
use crate::{NodeError, grants};

impl Routers {
    /// Ends a router and frees all that it had.
    pub(crate) fn remove(&mut self, around: &mut Around<'_>, name: &str) -> Result<(), NodeError> {
        let Some(place) = self.place_of(name) else { return Ok(()) };
        let mut router = self.all.remove(place);
        let removed = self.take_away(around, &mut router);
        if let Err(error) = removed {
            // The rest of it is removed with the next change, or the next look.
            router.half = true;
            router.due = None;
            router.last_end = format!("its removal failed: {error}");
            self.all.insert(place, router);
            return Err(error);
        }
        around.context.events.note("router", name, "Removed", "it has ended");
        Ok(())
    }

    /// Ends a router and frees its resources, as far as it still has them.
    fn take_away(&self, around: &mut Around<'_>, router: &mut Router) -> Result<(), NodeError> {
        if let Some(successor) = router.successor.take() {
            successor.discard(around, "it is removed");
        }
        for reply in std::mem::take(&mut router.wants_successor) {
            // The caller may have ended.
            let _ = reply.send(Err(ProblemDetails::failed("it is removed")));
        }
        if let Some(substrate) = around.substrate {
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
        // From the last one on: removed ones are not removed again.
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
