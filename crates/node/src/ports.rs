//! The devices of a node: opened, prepared, attached, and returned.
//!
//! | file      | concern                                                    |
//! |-----------|------------------------------------------------------------|
//! | `port`    | one port: its device, opened and made fit                  |
//! | `receive` | where its frames are received                              |
//! | `record`  | what the next node needs to adopt it                       |
//! | `make`    | a port that comes                                          |
//! | `change`  | other settings                                             |
//! | `watch`   | devices that come, go and change                           |
//! | `adopt`   | takes over the ports of a killed node                      |
//! | `remove`  | a port that goes                                           |
//! | `show`    | states and counters                                        |

mod adopt;
mod change;
mod make;
mod port;
mod receive;
mod record;
mod remove;
mod show;
mod watch;

use std::ops::Deref;
use std::time::Instant;

use europa_substrate::PortAttachment;

pub(crate) use self::port::Port;
use crate::NodeError;
use crate::beside::Work;
use crate::context::Context;
use crate::leftovers::{self, Noted};

/// Described at the top of this file. Other parts can read ports, but not change them.
pub(crate) struct Ports {
    all: Vec<Port>,
    /// A thread opens a device: preparing it takes the kernel milliseconds.
    opening: Work<Port>,
    /// When all devices were last checked.
    watched: Instant,
}

impl Default for Ports {
    fn default() -> Self {
        Self { all: Vec::new(), opening: Work::default(), watched: Instant::now() }
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.all
    }
}

impl Ports {
    /// The attachment of a port, if it exists.
    pub(crate) fn attachment(&self, port: &str) -> Option<&PortAttachment> {
        self.all.iter().find(|other| other.name == *port)?.attachment.as_ref()
    }

    /// Records the ports, and the changes on their devices.
    pub(crate) fn note(&self, context: &Context) -> Result<(), NodeError> {
        self.note_and(context, None)
    }

    /// The same, with a device that will be changed: this node may be killed meanwhile.
    fn note_and(&self, context: &Context, before: Option<Noted>) -> Result<(), NodeError> {
        let ports: Vec<_> = self.all.iter().map(Port::noted).chain(before).collect();
        leftovers::note(&context.instance, &ports)
    }

    /// Waits until no thread opens a port any longer.
    pub(crate) fn wait(&mut self) {
        self.opening.wait();
    }

    /// Forgets the ports.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}
