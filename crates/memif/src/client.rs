//! The client's side of making a connection: it sends its messages one by one; each waits until the
//! server has acknowledged the former one.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::config::Config;
use crate::error::{Doing, MemifError, Violation};
use crate::layout::Layout;
use crate::link::Link;
use crate::receive::Receiver;
use crate::ring::Ring;
use crate::sys::{Memory, Region, Signal};
use crate::transmit::Transmitter;
use crate::wire::{AddRing, Hello, Init, Message, VERSION};

/// Memory and rings that the client is announcing to the server.
struct Offer {
    server: String,
    to_server: Vec<Ring>,
    to_client: Vec<Ring>,
    /// Unsent messages, each with a copy of its descriptor.
    unsaid: VecDeque<(Message, Option<OwnedFd>)>,
}

/// Its progress.
enum Step {
    /// The server sends first.
    Greeting,
    Offering(Offer),
    Connected,
}

/// A client's side of a connection.
pub(crate) struct Client {
    step: Step,
}

/// The next message.
pub(crate) type Say = (Message, Option<OwnedFd>);

impl Client {
    pub(crate) fn new() -> Self {
        Self { step: Step::Greeting }
    }

    /// Handles a message. Returns the next message, and the rings when the connection is complete.
    pub(crate) fn take(
        &mut self,
        config: &Config,
        signal: &Signal,
        message: Message,
    ) -> Result<(Option<Say>, Option<Link>), MemifError> {
        match (&mut self.step, message) {
            (Step::Greeting, Message::Hello(hello)) => {
                self.step = Step::Offering(offer(config, hello)?);
                let init = Message::Init(Init {
                    version: VERSION,
                    id: config.id,
                    mode: 0,
                    secret: config.secret,
                    name: crate::APPLICATION.to_owned(),
                });
                Ok((Some((init, None)), None))
            }
            // After the last message, only the confirmation can follow.
            (Step::Offering(offer), Message::Ack) if !offer.unsaid.is_empty() => {
                Ok((offer.unsaid.pop_front(), None))
            }
            (Step::Offering(offer), Message::Connected { interface })
                if offer.unsaid.is_empty() =>
            {
                let link = Link {
                    receivers: offer.to_client.drain(..).map(Receiver::new).collect(),
                    transmitters: offer
                        .to_server
                        .drain(..)
                        .map(|ring| Transmitter::new(ring, signal.clone()))
                        .collect(),
                    application: std::mem::take(&mut offer.server),
                    interface,
                };
                self.step = Step::Connected;
                Ok((None, Some(link)))
            }
            (step, other) => {
                let wanted = match step {
                    Step::Greeting => "a greeting",
                    Step::Offering(offer) if offer.unsaid.is_empty() => "a confirmation",
                    Step::Offering(_) => "an acknowledgement",
                    Step::Connected => "a goodbye",
                };
                Err(Violation::Unexpected { found: other.name(), wanted }.into())
            }
        }
    }
}

/// Makes memory and rings, not more of them than the server accepts.
fn offer(config: &Config, hello: Hello) -> Result<Offer, MemifError> {
    let Hello { least_version: least, most_version: most, .. } = hello;
    if !(least..=most).contains(&VERSION) {
        return Err(Violation::Version { least, most }.into());
    }
    let rings = |wanted: u16, last: u16| wanted.min(last.saturating_add(1));
    let layout = Layout::new(
        config,
        rings(config.transmit_rings, hello.last_to_server),
        rings(config.receive_rings, hello.last_to_client),
        config.log2_entries.min(hello.log2_entries),
    )
    // The number is at most the configuration's, which has been checked.
    .map_err(|_| MemifError::Kernel {
        doing: "lay out rings",
        source: nix::errno::Errno::ENOMEM,
    })?;
    let (region, file) = Region::make(layout.bytes)?;
    let memory = Arc::new(Memory::new(vec![region]));
    let said = Message::AddRegion { index: 0, bytes: u64::from(layout.bytes) };
    let mut unsaid = VecDeque::from([(said, Some(file))]);
    let mut make = |to_server: bool, count: u16| {
        let mut rings = Vec::new();
        for index in 0..count {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            let eventfd = OwnedFd::from(EventFd::from_flags(flags).doing("make an eventfd")?);
            let theirs = eventfd.try_clone().map_err(|error| MemifError::Kernel {
                doing: "make an eventfd",
                source: nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            })?;
            let said = Message::AddRing(AddRing {
                to_server,
                index,
                region: 0,
                offset: layout.ring(to_server, index),
                log2_entries: layout.log2_entries,
                private_header_bytes: 0,
            });
            unsaid.push_back((said, Some(theirs)));
            rings.extend(Ring::own(&memory, &layout, to_server, index, eventfd));
        }
        Ok::<_, MemifError>(rings)
    };
    let to_server = make(true, layout.to_server)?;
    let to_client = make(false, layout.to_client)?;
    unsaid.push_back((Message::Connect { interface: config.name.clone() }, None));
    Ok(Offer { server: hello.name, to_server, to_client, unsaid })
}
