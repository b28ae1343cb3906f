//! Devices that come, go and change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_port::LinkState;
use europa_substrate::Substrate;

use super::look::{Asked, Looked, Seen};
use super::{Port, Ports};
use crate::context::Context;
use crate::events::Events;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// The result of a look at all devices.
#[derive(Default)]
pub(crate) struct Found {
    /// A port must be opened again, or others can send other packets now.
    pub(crate) come: bool,
    /// Ports whose lines are down now.
    pub(crate) lost: Vec<String>,
}

impl Ports {
    /// The time of the next look.
    pub(crate) fn watch_due(&self) -> Instant {
        self.watched + EVERY
    }

    /// Whether it is time for a look. This is asked once each time.
    pub(crate) fn is_watch_due(&mut self) -> bool {
        let is_due = self.watched.elapsed() >= EVERY;
        if is_due {
            self.watched = Instant::now();
        }
        is_due
    }

    /// Whether a look has not ended yet.
    pub(crate) fn is_looking(&self) -> bool {
        self.looked < self.looks
    }

    /// Has a thread look at the devices of all ports, and at those of the `documents` that are no
    /// ports yet. Returns the number of the look; `None` if there is nothing to look at.
    pub(crate) fn look(
        &mut self,
        substrate: Option<&Substrate>,
        documents: &[europa_api::Port],
    ) -> Option<u64> {
        let open: HashMap<&str, &Port> =
            self.all.iter().map(|port| (port.name.as_str(), port)).collect();
        let is_open = |document: &&europa_api::Port| {
            open.get(&*document.name.value).is_some_and(|port| port.is(document))
        };
        let missing: Vec<_> = documents.iter().filter(|one| !is_open(one)).cloned().collect();
        if self.all.is_empty() && missing.is_empty() {
            return None;
        }
        let ask = |port: &Port| Asked {
            look: Arc::clone(&port.look),
            forgotten: substrate.is_some_and(|substrate| port.is_forgotten(substrate)),
            received: port.follows_senders().then_some(port.received),
        };
        let asked = self.all.iter().map(ask).collect();
        self.looks += 1;
        self.looking.look(self.looks, asked, missing);
        Some(self.looks)
    }

    /// Takes over the results of a look.
    pub(crate) fn looked(
        &mut self,
        context: &Context,
        mut substrate: Option<&mut Substrate>,
        looked: Looked,
    ) -> Found {
        self.looked = looked.number;
        let mut found = Found { come: looked.come, ..Found::default() };
        let seen = looked.seen.into_iter();
        let mut seen: HashMap<*const _, Seen> =
            seen.map(|seen| (Arc::as_ptr(&seen.look), seen)).collect();
        for port in &mut self.all {
            // Another device has the port since the look.
            let Some(seen) = seen.remove(&Arc::as_ptr(&port.look)) else { continue };
            if let (Some(substrate), Some((received, sent))) = (&mut substrate, seen.sent) {
                let followed = port.follow_senders(substrate, received, sent);
                note_way(&context.events, port, followed);
            }
            port.take(&context.events, &seen, &mut found);
        }
        found
    }
}

impl Port {
    /// Takes over the result of a look at its device.
    fn take(&mut self, events: &Events, seen: &Seen, found: &mut Found) {
        let state = seen.link.state;
        if state != LinkState::Gone
            && let Some(message) = self.follow_device(&seen.link)
        {
            events.note("port", &self.name, "Changed", message);
            // Routers send no longer packets than their port.
            found.come = true;
        }
        if self.link.replace(state) != Some(state) {
            note_state(events, self, state);
            if state != LinkState::Up {
                found.lost.push(self.name.clone());
            }
        }
        if seen.refuses {
            let message = format!(
                "{} takes no frames any more, as GRO was turned off at its other end: it is made fit \
                 again",
                self.device.name
            );
            events.warn("port", &self.name, "GroOff", message);
        }
        if seen.can_return {
            self.stale = true;
            found.come = true;
        }
    }
}

/// Notes where frames of a port are received now.
fn note_way(events: &Events, port: &Port, followed: Result<bool, crate::NodeError>) {
    match followed {
        Ok(false) => {}
        Ok(true) => {
            let message = format!("frames are received by {}", port.receives_by());
            events.note("port", &port.name, "Receives", message);
        }
        Err(error) => tracing::warn!("port {}: {error}", port.name),
    }
}

/// Notes how the link of a port is now.
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
