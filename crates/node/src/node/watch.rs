//! What is looked at now and then: links, devices that come and go, logs that grow.

use std::time::{Duration, Instant};

use europa_port::{LinkState, link_state};

use super::Node;
use crate::logs;
use crate::ports::Port;

/// How often.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(2);

impl Node {
    /// Looks at everything, if it is time.
    pub(super) fn watch(&mut self) {
        if self.watched.elapsed() < WATCH_EVERY {
            return;
        }
        self.watched = Instant::now();
        logs::bound(&self.instance.logs());
        let mut come = false;
        for port in &mut self.ports {
            let Ok(state) = link_state(&port.device.namespace, port.device.index) else {
                continue;
            };
            if port.link.replace(state) != Some(state) {
                let device = &port.device.name;
                match state {
                    LinkState::Up => {
                        self.events.note("port", &port.name, "LinkUp", format!("{device} is up"));
                    }
                    LinkState::Down => {
                        let message = format!("{device} is down, or the other end is");
                        self.events.warn("port", &port.name, "LinkDown", message);
                    }
                    LinkState::Gone => {
                        let message = format!("{device} has gone");
                        self.events.warn("port", &port.name, "DeviceGone", message);
                    }
                }
            }
            if state == LinkState::Gone && Port::peek(&port.document).is_ok() {
                port.stale = true;
                come = true;
            }
        }
        let open = |document: &&europa_api::Port| self.ports.iter().any(|port| port.is(document));
        let documents = &self.desired.documents.ports;
        come |= documents.iter().filter(|d| !open(d)).any(|document| Port::peek(document).is_ok());
        if come {
            self.reconcile();
        }
    }
}
