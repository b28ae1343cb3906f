//! Clients that have connected to a socket but have not named an interface yet.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::config::Config;
use crate::control::Control;
use crate::error::{MemifError, Violation};
use crate::server;
use crate::wire::{Init, Message};

/// Most silent clients of one socket at the same time. The next client replaces the oldest one, so
/// a silent peer blocks no other.
pub const MOST_SILENT: usize = 16;

/// A client that has named its interface.
pub struct Greeting {
    control: Control,
    init: Init,
}

impl Greeting {
    /// Number of the requested interface.
    pub fn id(&self) -> u32 {
        self.init.id
    }

    /// Name of its program.
    pub fn application(&self) -> &str {
        &self.init.name
    }

    /// Rejects the client: the requested interface does not exist.
    pub fn refuse(self) {
        self.control.refuse(&Violation::NoInterface(self.init.id).into());
    }

    pub(crate) fn into_parts(self) -> (Control, Init) {
        (self.control, self.init)
    }
}

/// The clients of one socket that have not named their interface.
#[derive(Default)]
pub struct Greetings {
    silent: VecDeque<Control>,
}

impl Greetings {
    /// Greets a newly accepted client with the limits of an interface. All interfaces of the socket
    /// should have the same limits.
    ///
    /// # Errors
    /// The client has closed already.
    pub fn add(&mut self, socket: OwnedFd, like: &Config) -> Result<(), MemifError> {
        let control = Control::new(socket);
        control.send(&server::hello(like), None)?;
        if self.silent.len() >= MOST_SILENT
            && let Some(oldest) = self.silent.pop_front()
        {
            oldest.goodbye("others have come, and this client was silent");
        }
        self.silent.push_back(control);
        Ok(())
    }

    /// Readable when [`process`](Self::process) has work.
    pub fn control_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.silent.iter().map(AsFd::as_fd)
    }

    /// Reads the clients' messages. Returns the next client that names an interface; `None` if
    /// there is none now. Clients that have disconnected are removed.
    ///
    /// # Errors
    /// The reason why a client was refused, which it has received.
    pub fn process(&mut self) -> Result<Option<Greeting>, MemifError> {
        for position in 0..self.silent.len() {
            let Some(control) = self.silent.get(position) else { break };
            let said = match control.receive() {
                Ok(None) => continue,
                Ok(Some((Message::Init(init), _))) => Ok(init),
                Ok(Some((other, _))) => {
                    let wanted = "a request for an interface";
                    Err(Violation::Unexpected { found: other.name(), wanted }.into())
                }
                Err(error) => Err(error),
            };
            let Some(control) = self.silent.remove(position) else { break };
            return match said {
                Ok(init) => Ok(Some(Greeting { control, init })),
                Err(error) => {
                    control.refuse(&error);
                    Err(error)
                }
            };
        }
        Ok(None)
    }
}
