//! Looks at the devices of ports, in a thread: the kernel takes some hundred microseconds for each.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use europa_port::{
    Device, DropCounters, Link, LinkState, Links, Sent, counter_socket, sent_by_peer, takes_frames,
};

use super::Port;
use crate::control::Control;
use crate::{Doing, NodeError};

/// Least number of packets between two checks that show how a peer sends.
const TELLING: u64 = 1000;

/// The facts with which any thread looks at the device of a port.
pub(crate) struct Look {
    device: Device,
    document: europa_api::Port,
    /// Whether live frames may leave by the port.
    live: bool,
    losses: Mutex<DropCounters>,
}

/// A port to look at.
pub(super) struct Asked {
    pub(super) look: Arc<Look>,
    /// The kernel has forgotten its device.
    pub(super) forgotten: bool,
    /// Packets that had been received at the last check of how the peer sends; `None` without such
    /// checks.
    pub(super) received: Option<u64>,
}

/// The result of a look at a port.
pub(crate) struct Seen {
    pub(super) look: Arc<Look>,
    pub(super) link: Link,
    /// The other end takes no live frames any more.
    pub(super) refuses: bool,
    /// The device is gone or refuses, and can be opened again.
    pub(super) can_return: bool,
    /// Packets that were received, and those that the peer has sent, if they are many.
    pub(super) sent: Option<(u64, Option<Sent>)>,
}

/// The result of a look at all ports.
pub(crate) struct Looked {
    /// The number of the look.
    pub(crate) number: u64,
    pub(super) seen: Vec<Seen>,
    /// A device that is no port yet has come.
    pub(super) come: bool,
}

impl Look {
    /// Looks at this device from now on.
    pub(super) fn new(
        device: &Device,
        document: &europa_api::Port,
        live: bool,
    ) -> Result<Arc<Self>, NodeError> {
        let losses = DropCounters::new(counter_socket(device)?, device.index);
        let losses = Mutex::new(losses.doing("reading a device's counters")?);
        Ok(Arc::new(Self { device: device.clone(), document: document.clone(), live, losses }))
    }

    /// Live frames that the device has lost; a removed device loses no further frames.
    pub(crate) fn lost(&self) -> u64 {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.read().map_or(0, |drops| drops.live_frames)
    }

    /// The packets that were received, and those that the peer has sent, if many have come since.
    fn sent(&self, before: u64) -> Option<(u64, Option<Sent>)> {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        // The removal of a device is noticed elsewhere.
        let received = losses.read().ok()?.received;
        let many = received.wrapping_sub(before) >= TELLING;
        many.then(|| (received, sent_by_peer(&self.device).ok().flatten()))
    }
}

impl Asked {
    fn look(self, links: &mut Links) -> Option<Seen> {
        let Self { look, forgotten, received } = self;
        let mut link = links.link(&look.device.namespace, look.device.index).ok()?;
        let is_there = link.state != LinkState::Gone;
        let refuses = look.live && is_there && !takes_frames(&look.device);
        if forgotten {
            link.state = LinkState::Gone;
        }
        let is_lost = refuses || link.state == LinkState::Gone;
        let can_return = is_lost && Port::peek(&look.document).is_ok();
        let sent = received.filter(|_| is_there).and_then(|before| look.sent(before));
        Some(Seen { look, link, refuses, can_return, sent })
    }
}

/// Ports to look at, and documents whose devices may have come.
struct Order {
    number: u64,
    asked: Vec<Asked>,
    missing: Vec<europa_api::Port>,
}

/// The thread.
pub(super) struct LookThread(Sender<Order>);

impl LookThread {
    /// Starts it; results go to the loop.
    pub(super) fn start(control: Control) -> Result<Self, NodeError> {
        let (orders, heard) = channel::<Order>();
        let work = move || {
            for Order { number, asked, missing } in heard {
                // No socket stays open in a namespace that others remove.
                let mut links = Links::default();
                let seen = asked.into_iter().filter_map(|one| one.look(&mut links)).collect();
                let come = missing.iter().any(|document| Port::peek(document).is_ok());
                let looked = Looked { number, seen, come };
                control.tell_as("a look at ports", move |node| node.ports_looked(looked));
            }
        };
        let thread = std::thread::Builder::new().name("ports".into());
        thread.spawn(work).doing("starting the thread that looks at ports")?;
        Ok(Self(orders))
    }

    /// Looks at these ports. `missing`: documents whose devices may have come.
    pub(super) fn look(&self, number: u64, asked: Vec<Asked>, missing: Vec<europa_api::Port>) {
        // The thread lives as long as the loop.
        let _ = self.0.send(Order { number, asked, missing });
    }
}
