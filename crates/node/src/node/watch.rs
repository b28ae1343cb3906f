//! Periodic checks: links, and devices that appear and disappear.

use std::time::{Duration, Instant};

use europa_port::{LinkState, link, takes_frames};
use europa_router::orders::Order;

use super::Node;
use crate::drift::Made;
use crate::ports::Port;
use crate::router::Asked;

/// Interval of the checks.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(2);

impl Node {
    /// Checks everything, if it is due.
    pub(super) fn watch(&mut self) {
        if self.watched.elapsed() < WATCH_EVERY {
            return;
        }
        self.watched = Instant::now();
        if !self.hosts_work.is_under_way() {
            let made = || Made {
                hosts: self.hosts_made.clone(),
                slow_paths: self.slow_paths.namespaces(&self.instance),
                uplinks: self.slow_paths.uplinks().clone(),
            };
            self.drift.look(made);
        }
        self.follow_senders();
        self.follow_far_ends();
        let mut come = self.probe_ports();
        let open = |document: &&europa_api::Port| self.ports.iter().any(|port| port.is(document));
        let documents = &self.documents.ports;
        come |= documents.iter().filter(|d| !open(d)).any(|document| Port::peek(document).is_ok());
        if come {
            self.reconcile();
        }
    }

    /// Selects for each port the place of reception that costs its senders least.
    fn follow_senders(&mut self) {
        let Some(substrate) = &mut self.substrate else { return };
        for port in &mut self.ports {
            match port.follow_senders(substrate) {
                Ok(false) => {}
                Ok(true) => {
                    let message = format!("frames are received by {}", port.receives_by());
                    self.events.note("port", &port.name, "Receives", message);
                }
                Err(error) => tracing::warn!("port {}: {error}", port.name),
            }
        }
    }

    /// Checks the devices of all ports. Returns whether to open one again.
    pub(super) fn probe_ports(&mut self) -> bool {
        let mut come = false;
        let mut lost = Vec::new();
        for port in &mut self.ports {
            let Ok(link) = link(&port.device.namespace, port.device.index) else { continue };
            let mut state = link.state;
            if state != LinkState::Gone
                && let Some(message) = port.follow_device(&link)
            {
                self.events.note("port", &port.name, "Changed", message);
                // Routers send no longer packets than their port.
                come = true;
            }
            if self.substrate.as_ref().is_some_and(|substrate| port.is_forgotten(substrate)) {
                state = LinkState::Gone;
            }
            if port.link.replace(state) != Some(state) {
                let device = &port.device.name;
                match state {
                    LinkState::Up => {
                        self.events.note("port", &port.name, "LinkUp", format!("{device} is up"));
                    }
                    LinkState::Down => {
                        lost.push(port.name.clone());
                        let message = format!("{device} is down, or the other end is");
                        self.events.warn("port", &port.name, "LinkDown", message);
                    }
                    LinkState::Gone => {
                        lost.push(port.name.clone());
                        let message = format!("{device} has gone");
                        self.events.warn("port", &port.name, "DeviceGone", message);
                    }
                }
            }
            let refuses = port.live && state != LinkState::Gone && !takes_frames(&port.device);
            if refuses {
                let message = format!(
                    "{} takes no frames any more, as GRO was turned off at its other end: it is made \
                     fit again",
                    port.device.name
                );
                self.events.warn("port", &port.name, "GroOff", message);
            }
            if (refuses || state == LinkState::Gone) && Port::peek(&port.document).is_ok() {
                port.stale = true;
                come = true;
            }
        }
        lost.iter().for_each(|port| self.forget_neighbours(port));
        come
    }

    /// After a link was down, another host may be on it (RFC 1122 section 2.3.2.1). Routers whose
    /// neighbours are Linux's, or that have none, have no such tables.
    fn forget_neighbours(&mut self, port: &str) {
        for router in &mut self.routers {
            let (Some(process), Some(_)) = (&mut router.process, &router.plan.description) else {
                continue;
            };
            let interfaces = router.plan.interfaces.iter().zip(0..);
            for (_, number) in interfaces.filter(|(interface, _)| interface.to.is_port(port)) {
                for table in ["arp", "nd"] {
                    let path = format!("{table}{number}.forget");
                    process.order(&Order::Write { path, value: String::new() }, Asked::Nobody);
                }
            }
        }
    }
}
