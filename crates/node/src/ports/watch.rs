//! Detects devices that appear, disappear or change.

use std::time::{Duration, Instant};

use europa_port::{LinkState, link, takes_frames};
use europa_substrate::Substrate;

use super::{Port, Ports};
use crate::context::Context;
use crate::events::Events;

/// The interval at which devices are checked.
const EVERY: Duration = Duration::from_secs(2);

/// The result of a check of all devices.
#[derive(Default)]
pub(crate) struct Found {
    /// Whether a port must be opened again, or other ports can now send other packets.
    pub(crate) come: bool,
    /// Ports whose lines are down now.
    pub(crate) lost: Vec<String>,
}

impl Ports {
    /// The time of the next look.
    pub(crate) fn watch_due(&self) -> Instant {
        self.watched + EVERY
    }

    /// Whether it is time for a check. Only the first call returns true.
    pub(crate) fn is_watch_due(&mut self) -> bool {
        let is_due = self.watched.elapsed() >= EVERY;
        if is_due {
            self.watched = Instant::now();
        }
        is_due
    }

    /// Whether the device of a document that is no port yet has appeared.
    pub(crate) fn has_come(&self, documents: &[europa_api::Port]) -> bool {
        let open = |document: &&europa_api::Port| self.all.iter().any(|port| port.is(document));
        documents.iter().filter(|document| !open(document)).any(|one| Port::peek(one).is_ok())
    }

    /// Makes ports receive in the way that costs their senders least.
    pub(crate) fn follow_senders(&mut self, events: &Events, substrate: &mut Substrate) {
        for port in &mut self.all {
            match port.follow_senders(substrate) {
                Ok(false) => {}
                Ok(true) => {
                    let message = format!("frames are received by {}", port.receives_by());
                    events.note("port", &port.name, "Receives", message);
                }
                Err(error) => tracing::warn!("port {}: {error}", port.name),
            }
        }
    }

    /// Checks the devices of all ports.
    pub(crate) fn probe(&mut self, context: &Context, substrate: Option<&Substrate>) -> Found {
        let events = &context.events;
        let mut found = Found::default();
        for port in &mut self.all {
            let Ok(link) = link(&port.device.namespace, port.device.index) else { continue };
            let mut state = link.state;
            if state != LinkState::Gone
                && let Some(message) = port.follow_device(&link)
            {
                events.note("port", &port.name, "Changed", message);
                // The port's MTU limits the packets of its routers.
                found.come = true;
            }
            if substrate.is_some_and(|substrate| port.is_forgotten(substrate)) {
                state = LinkState::Gone;
            }
            if port.link.replace(state) != Some(state) {
                note_state(events, port, state);
                if state != LinkState::Up {
                    found.lost.push(port.name.clone());
                }
            }
            let refuses = port.live && state != LinkState::Gone && !takes_frames(&port.device);
            if refuses {
                let message = format!(
                    "{} takes no frames any more, as GRO was turned off at its other end: it is made \
                     fit again",
                    port.device.name
                );
                events.warn("port", &port.name, "GroOff", message);
            }
            if (refuses || state == LinkState::Gone) && Port::peek(&port.document).is_ok() {
                port.stale = true;
                found.come = true;
            }
        }
        found
    }
}

/// Records the present state of the link of a port.
fn note_state(events: &Events, port: &Port, state: LinkState) {
    let device = &port.device.name;
    match state {
        LinkState::Up => events.note("port", &port.name, "LinkUp", format!("{device} is up")),
        LinkState::Down => {
            let message = format!("{device} is down, or the other end is");
            events.warn("port", &port.name, "LinkDown", message);
        }
        LinkState::Gone => {
            let message = format!("{device} has gone");
            events.warn("port", &port.name, "DeviceGone", message);
        }
    }
}
