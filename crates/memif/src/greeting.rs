//! Clients that have connected to a socket and not said yet which of its interfaces they want.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::config::Config;
use crate::control::Control;
use crate::error::{MemifError, Violation};
use crate::server;
use crate::wire::{Init, Message};

/// Clients that may be silent at the same time on one socket. The next one takes the place of the
/// oldest, so a silent peer holds up no other.
pub const MOST_SILENT: usize = 16;

/// A client that has said which interface it wants.
pub struct Greeting {
    control: Control,
    init: Init,
}

impl Greeting {
    /// Number of the interface that it wants.
    pub fn id(&self) -> u32 {
        self.init.id
    }

    /// How its program calls itself.
    pub fn application(&self) -> &str {
        &self.init.name
    }

    /// Sends it away: there is no such interface.
    pub fn refuse(self) {
        self.control.refuse(&Violation::NoInterface(self.init.id).into());
    }

    pub(crate) fn into_parts(self) -> (Control, Init) {
        (self.control, self.init)
    }
}

/// The clients of one socket that have not said which interface they want.
#[derive(Default)]
pub struct Greetings {
    silent: VecDeque<Control>,
}

impl Greetings {
    /// Greets a client that has just been accepted, and tells it what an interface like this one
    /// takes: whichever it wants of the socket's should take as much.
    ///
    /// # Errors
    /// When the client has gone already.
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

    /// Readable when [`process`](Self::process) has something to do.
    pub fn control_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.silent.iter().map(AsFd::as_fd)
    }

    /// Takes what the clients have said: the next one that wants an interface, `None` when
    /// there is none for now. Clients that go are forgotten.
    ///
    /// # Errors
    /// Why a client was refused, which it has been told.
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
