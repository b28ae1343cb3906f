//! Processes that have ended: noted, and started again.

use std::time::{Duration, Instant};

use super::Node;

/// Time in which one turn restarts routers.
const ENOUGH: Duration = Duration::from_millis(2);

/// Number of last lines of a host's commands that are shown.
const LAST_LINES: usize = 3;

impl Node {
    /// Notes ended processes, and when to start them again.
    pub(super) fn bury(&mut self) {
        let now = Instant::now();
        self.bury_shells();
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
        let switch_due = self.switch_due();
        for router in &mut self.routers {
            if let Some(process) = &mut router.process
                && let Some(exit) = process.body.ended()
            {
                let due = match (switch_due, process.body.is_inside()) {
                    // The switch caused its end, so it restarts after the switch.
                    (Some(due), true) => due,
                    _ => router.backoff.failed(now.duration_since(process.started), now),
                };
                // It may have reported why it ended.
                for (_, outcome) in process.answers() {
                    router.last_end = outcome.err().unwrap_or_default();
                }
                let awaited = process.disappoint("it has ended");
                if !awaited || router.last_end.is_empty() {
                    router.last_end = exit;
                }
                let wait = due.saturating_duration_since(now).as_millis();
                let message = format!("{}; it is started again in {wait} ms", router.last_end);
                self.events.warn("router", &router.plan.name, "Ended", message);
                self.engine.failed(&router.plan.name, &router.last_end);
                if awaited {
                    self.engine.no_updates(&router.plan.name);
                }
                router.due = Some(due);
                process.forget(&self.kept);
                router.process = None;
            }
        }
    }

    /// Notes which hosts' commands have ended, and which of them have failed.
    fn bury_shells(&mut self) {
        let mut ended = Vec::new();
        self.running.retain_mut(|(host, commands)| {
            let code = commands.code();
            ended.extend(code.map(|code| (host.clone(), code)));
            code.is_none()
        });
        for (host, code) in ended.into_iter().filter(|(_, code)| *code != 0) {
            let how = format!("a command ended with code {code}");
            let log = self.instance.log(&format!("host.{host}"));
            let last = crate::logs::tail(&log, LAST_LINES).map(|(text, _)| text);
            let last = String::from_utf8_lossy(&last.unwrap_or_default()).trim().to_owned();
            let said = if last.is_empty() { String::new() } else { format!(": {last}") };
            self.events.warn("host", &host, "CommandFailed", format!("{how}{said}"));
            self.hosts_failed.insert(host, how);
        }
    }

    /// Starts the objects that are due.
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
            let will_be = self.switch_due().filter(|_| self.switch.is_none());
            if let (Some(will_be), Some(router)) = (will_be, self.routers.get_mut(index))
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
            if let Err(error) = self.restart_router(index) {
                tracing::error!("starting a router: {error}");
                if let Some(router) = self.routers.get_mut(index) {
                    router.due = Some(router.backoff.failed(Duration::ZERO, now));
                }
            }
            if now.elapsed() > ENOUGH {
                // The others have their turn after other requests.
                return;
            }
        }
    }
}
