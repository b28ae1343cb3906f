//! The devices of a node: opened, made fit, attached, and given back.
//!
//! | file      | concern                                                    |
//! |-----------|------------------------------------------------------------|
//! | `port`    | one port: its device, opened and made fit                  |
//! | `receive` | where its frames are received                              |
//! | `record`  | what the next node needs to adopt it                       |
//! | `make`    | a port that comes                                          |
//! | `change`  | other settings                                             |
//! | `look`    | a thread that looks at devices                             |
//! | `watch`   | devices that come, go and change                           |
//! | `adopt`   | takes over the ports of a killed node                      |
//! | `remove`  | a port that goes                                           |
//! | `show`    | states and counters                                        |

mod adopt;
mod change;
mod look;
mod make;
mod port;
mod receive;
mod record;
mod remove;
mod show;
mod watch;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use europa_substrate::PortAttachment;

use self::look::LookThread;
pub(crate) use self::look::{Look, Looked};
pub(crate) use self::port::Port;
use crate::beside::Work;
use crate::context::Context;
use crate::control::Control;
use crate::{NodeError, leftovers};

/// See the file. Other parts read ports, and cannot change them.
pub(crate) struct Ports {
    all: Vec<Port>,
    /// A device is opened by a thread: making it fit takes the kernel milliseconds.
    opening: Work<Port>,
    /// When all devices were looked at.
    watched: Instant,
    looking: LookThread,
    /// The number of looks so far, and of those that have ended.
    looks: u64,
    looked: u64,
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.all
    }
}

impl Ports {
    /// None yet.
    pub(crate) fn start(control: Control) -> Result<Self, NodeError> {
        Ok(Self {
            all: Vec::new(),
            opening: Work::default(),
            watched: Instant::now(),
            looking: LookThread::start(control)?,
            looks: 0,
            looked: 0,
        })
    }

    /// The attachment of a port, if it is there.
    pub(crate) fn attachment(&self, port: &str) -> Option<&PortAttachment> {
        self.all.iter().find(|other| other.name == *port)?.attachment.as_ref()
    }

    /// Writes down the ports, and the changes on their devices.
    pub(crate) fn note(&mut self, context: &Context) -> Result<(), NodeError> {
        let ports = self.noted();
        leftovers::note(&context.instance, ports.iter().map(|port| &**port))
    }

    /// The records of all ports.
    fn noted(&mut self) -> Vec<Arc<str>> {
        self.all.iter_mut().map(Port::noted).collect()
    }

    /// Waits until no thread opens one any more.
    pub(crate) fn wait(&mut self) {
        self.opening.wait();
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}
