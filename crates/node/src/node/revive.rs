//! Processes that have ended: noted, and started again.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use europa_api::rest::ProblemDetails;
use europa_switch::orders::Order;
use nix::sys::signal::Signal;

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
            let message = format!("{exit}; it is started again");
            self.events.warn("switch", "", "Ended", message);
            self.revival.due = Some(due);
            switch.forget(&self.kept);
            self.switch = None;
        }
        for router in &mut self.routers {
            if let Some(process) = &mut router.process
                && let Ok(Some(exit)) = process.child.try_wait()
            {
                let due = router.backoff.failed(now.duration_since(process.started), now);
                // Why it ended it may have said itself.
                for (_, outcome) in process.answers() {
                    router.last_end = outcome.err().unwrap_or_default();
                }
                let awaited = process.disappoint("it has ended");
                if !awaited || router.last_end.is_empty() {
                    router.last_end = format!("{exit}");
                }
                let wait = due.saturating_duration_since(now).as_millis();
                let message = format!("{}; it is started again in {wait} ms", router.last_end);
                self.events.warn("router", &router.plan.name, "Ended", message);
                if let Some(job) = &mut self.job
                    && job.awaited.contains(&router.plan.name)
                {
                    job.awaited.retain(|name| *name != router.plan.name);
                    job.failure = Some(format!("router {}: {}", router.plan.name, router.last_end));
                }
                if let (true, Some(job)) = (awaited, &mut self.job) {
                    // Updates that were under way are part of what it starts with.
                    job.updates = 0;
                }
                router.due = Some(due);
                process.forget(&self.kept);
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

    /// Restarts a router, whatever it does just now.
    ///
    /// # Errors
    /// There is none of this name, or it cannot be started.
    pub(crate) fn restart(&mut self, name: &str) -> Result<(), ProblemDetails> {
        self.known_router(name)?;
        let index = self.routers.iter().position(|router| router.plan.name == name);
        let restarted = self.restart_router(index.unwrap_or(0));
        if let Err(error) = restarted {
            if let Some(router) = self.routers.get_mut(index.unwrap_or(0))
                && router.process.is_none()
            {
                router.due = Some(router.backoff.failed(Duration::ZERO, Instant::now()));
            }
            return Err(ProblemDetails::failed(error.to_string()));
        }
        self.events.note("router", name, "Restarted", "somebody asked for it");
        Ok(())
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
        let mut process = router.spawn(self.log(&router.plan.name)?.as_fd(), &self.cores)?;
        new.name_interfaces(&router.plan.rows())?;
        if let Err(error) = process.begin(router, &new, self.lasting()?, &self.kept) {
            let substrate = self.substrate()?;
            substrate.retire_pool(&new)?;
            substrate.delete_pool(new)?;
            process.forget(&self.kept);
            return Err(error);
        }
        self.slow_paths.follow(&router.plan.name, &mut process)?;
        if let Some(old) = self.routers.get_mut(index).and_then(|router| router.process.as_mut()) {
            old.note_complete(&self.kept, false, 0)?;
        }
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let substrate = self.substrate()?;
        for id in &router.interfaces {
            substrate.halt_interface(*id);
        }
        if let Some(mut old) = self.routers.get_mut(index).and_then(|r| r.process.take()) {
            old.child.kill(Signal::SIGKILL)?;
            old.child.wait()?;
            old.forget(&self.kept);
            old.disappoint("it is restarted");
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
