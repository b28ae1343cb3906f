//! Processes that have ended: noted, and started again.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use europa_switch::orders::Order;

use super::Node;
use crate::NodeError;
use crate::plan::To;

impl Node {
    /// Notes who has ended, and when to start it again.
    pub(super) fn bury(&mut self) {
        let now = Instant::now();
        self.running.retain_mut(|shell| matches!(shell.try_wait(), Ok(None)));
        if let Some(switch) = &mut self.switch
            && let Ok(Some(exit)) = switch.child.try_wait()
        {
            let due = self.revival.backoff.failed(now.duration_since(switch.started), now);
            tracing::warn!("the switch ended: {exit:?}; it is started again");
            self.revival.due = Some(due);
            self.switch = None;
        }
        for router in &mut self.routers {
            if let Some(process) = &mut router.process
                && let Ok(Some(exit)) = process.child.try_wait()
            {
                let due = router.backoff.failed(now.duration_since(process.started), now);
                tracing::warn!("router {} ended: {exit:?}; it is started again", router.plan.name);
                router.last_end = format!("ended: {exit:?}");
                router.due = Some(due);
                router.process = None;
            }
        }
    }

    /// Starts again what is due.
    pub(super) fn revive(&mut self) {
        let now = Instant::now();
        if self.revival.due.is_some_and(|due| due <= now) {
            self.revival.due = None;
            self.revival.restarts += 1;
            if let Err(error) = self.start_switch() {
                tracing::error!("starting the switch: {error}");
                self.revival.due = Some(self.revival.backoff.failed(Duration::ZERO, now));
            }
        }
        for index in 0..self.routers.len() {
            let due = self.routers.get(index).and_then(|router| router.due);
            if due.is_some_and(|due| due <= now)
                && let Err(error) = self.restart_router(index)
            {
                tracing::error!("starting a router: {error}");
                if let Some(router) = self.routers.get_mut(index) {
                    router.due = Some(router.backoff.failed(Duration::ZERO, now));
                }
            }
        }
    }

    /// Gives a router a new pool and a new process. The process is started first: it builds
    /// its sandbox and its graph, on the new pool, while we wait for RCU (8 to 14 ms).
    pub(super) fn restart_router(&mut self, index: usize) -> Result<(), NodeError> {
        let geometry = match self.routers.get(index) {
            Some(router) => router.plan.geometry,
            None => return Ok(()),
        };
        let new = self.take_pool(geometry)?;
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let process = router.spawn(self.log(&router.plan.name)?.as_fd(), &self.cores)?;
        new.name_interfaces(&router.plan.rows())?;
        if let Err(error) = process.begin(router, &new, self.lasting()?) {
            let substrate = self.substrate()?;
            substrate.retire_pool(&new)?;
            substrate.delete_pool(new)?;
            return Err(error);
        }
        let substrate = self.substrate()?;
        for id in &router.interfaces {
            substrate.halt_interface(*id);
        }
        let old = self.routers.get_mut(index).and_then(|router| router.pool.replace(new));
        // A switch that has just ended learns of the new pool when it starts.
        if let Some(mut switch) = self.switch.take() {
            if let Some(old) = &old {
                let _ = switch.order(&Order::RemovePool { pool: old.id }, &[]);
            }
            if let Some(router) = self.routers.get(index) {
                let _ = self.tell_pool(&mut switch, router);
            }
            self.switch = Some(switch);
        }
        let substrate = self.substrate()?;
        if let Some(old) = &old {
            substrate.retire_pool(old)?;
        }
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let Some(new) = &router.pool else { return Ok(()) };
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            let port = match &interface.to {
                To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                To::Link { .. } => None,
            };
            let attachment = port.and_then(|port| port.attachment.as_ref());
            substrate.move_interface(*id, &interface.spec, attachment, new);
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.restarts += 1;
            router.due = None;
        }
        if let Some(mut switch) = self.switch.take() {
            if let Some(router) = self.routers.get(index) {
                let _ = self.tell_interfaces(&mut switch, router);
            }
            self.switch = Some(switch);
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.process = Some(process);
        }
        if let Some(old) = old {
            self.substrate()?.delete_pool(old)?;
        }
        Ok(())
    }
}
