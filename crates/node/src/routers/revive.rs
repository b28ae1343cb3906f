//! Notes processes that have ended, and starts them again.

use std::time::{Duration, Instant};

use super::Routers;
use super::around::Around;
use crate::change::Change;
use crate::context::Context;

/// The time that one turn may spend on starting routers.
const ENOUGH: Duration = Duration::from_millis(2);

impl Routers {
    /// Notes ended processes, and when to start them again. `switch_due`: when the switch will run
    /// again.
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
                    // The switch caused the end, so the router starts again when the switch has
                    // started.
                    (Some(due), true) => due,
                    _ => router.backoff.failed(now.duration_since(process.started), now),
                };
                // The router may have reported the reason itself.
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
            if let Err(error) = self.restart_ended(around, index) {
                tracing::error!("starting a router: {error}");
                if let Some(router) = self.all.get_mut(index) {
                    router.due = Some(router.backoff.failed(Duration::ZERO, now));
                }
            }
            if now.elapsed() > ENOUGH {
                // The other routers are started after other requests.
                return;
            }
        }
    }
}
