//! Processes that have ended: noted, and started again.

use std::time::{Duration, Instant};

use europa_control::Stop;

use super::Routers;
use super::around::Around;
use crate::NodeError;
use crate::change::Change;
use crate::context::Context;

/// Time in which one turn starts routers again.
const ENOUGH: Duration = Duration::from_millis(2);

impl Routers {
    /// Notes ended processes, and when to start them again. `switch_due`: when there will be a switch.
    pub(crate) fn bury(
        &mut self,
        context: &Context,
        change: &mut Change,
        switch_due: Option<Instant>,
    ) {
        let now = Instant::now();
        for router in &mut self.all {
            if let Some(process) = &mut router.process
                && let Some(exit) = process.body.ended()
            {
                let due = match (switch_due, process.body.is_inside()) {
                    // It begins again when the switch has, whose fault it was.
                    (Some(due), true) => due,
                    _ => router.backoff.failed(now.duration_since(process.started), now),
                };
                // Why it ended it may have said itself.
                for (_, outcome) in process.answers() {
                    router.last_end = outcome.err().unwrap_or_default();
                }
                let awaited = process.disappoint("it has ended");
                if !awaited || router.last_end.is_empty() {
                    router.last_end = exit;
                }
                let wait = due.saturating_duration_since(now).as_millis();
                let message = format!("{}; it is started again in {wait} ms", router.last_end);
                context.events.warn("router", &router.plan.name, "Ended", message);
                change.failed(&router.plan.name, &router.last_end);
                if awaited {
                    change.no_updates(&router.plan.name);
                }
                router.due = Some(due);
                process.forget(&context.kept);
                router.process = None;
            }
        }
    }

    /// Starts the routers that are due.
    pub(crate) fn revive(&mut self, around: &mut Around<'_>) {
        let now = Instant::now();
        for index in 0..self.all.len() {
            let due = self.all.get(index).and_then(|router| router.due);
            let will_be = around.switch.due().filter(|_| !around.switch.runs());
            if let (Some(will_be), Some(router)) = (will_be, self.all.get_mut(index))
                && due.is_some()
                && router.plan.is_inline()
            {
                // It runs in the switch.
                router.due = Some(will_be);
                continue;
            }
            if due.is_none_or(|due| due > now) {
                continue;
            }
            let restarted = match self.has_pool(around, index) {
                Ok(true) => self.restart_ended(around, index),
                Ok(false) => {
                    if let Some(router) = self.all.get_mut(index) {
                        router.wants_pool = true;
                    }
                    continue;
                }
                Err(error) => Err(error),
            };
            if let Err(error) = restarted {
                tracing::error!("starting a router: {error}");
                if let Some(router) = self.all.get_mut(index) {
                    router.due = Some(router.backoff.failed(Duration::ZERO, now));
                }
            }
            if now.elapsed() > ENOUGH {
                // The others have their turn after other requests.
                return;
            }
        }
    }
    /// Whether a router can begin anew with a pool from the stock, or has a successor. If not, a
    /// thread makes pools for it and for the others that have ended.
    pub(super) fn has_pool(
        &self,
        around: &mut Around<'_>,
        index: usize,
    ) -> Result<bool, NodeError> {
        let Some(router) = self.all.get(index) else { return Ok(true) };
        if router.successor.is_some() {
            return Ok(true);
        }
        let geometry = router.plan.geometry;
        let others = self.all.iter().skip(index + 1);
        let alike = others.filter(|other| other.due.is_some() && other.plan.geometry == geometry);
        match around.pools.stock_up(around.context, geometry, alike.count()) {
            Ok(()) => Ok(true),
            Err(Stop::NotNow(_)) => Ok(false),
            Err(Stop::Failed(why)) => Err(NodeError::Refused(why.text)),
        }
    }

    /// Goes on with routers that have waited for pools, which have come, or cannot be made.
    pub(crate) fn go_on_with_pools(&mut self, around: &mut Around<'_>) {
        let mut asked = Vec::new();
        for router in &mut self.all {
            router.wants_pool = false;
            let replies = std::mem::take(&mut router.wants_successor);
            asked.extend(replies.into_iter().map(|reply| (router.plan.name.clone(), reply)));
        }
        for (name, reply) in asked {
            self.restart(around, &name, reply);
        }
    }
}
