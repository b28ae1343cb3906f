//! An interface with successive peers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::client::Client;
use crate::config::{Config, Role};
use crate::control::Control;
use crate::error::{ConfigError, MemifError, Violation};
use crate::greeting::Greeting;
use crate::link::Link;
use crate::server::{self, Server};
use crate::sys::Signal;
use crate::wire::Message;

/// Most messages handled in one call: a connection of two rings needs seven.
const MOST_MESSAGES: usize = 64;

enum Side {
    Server(Server),
    Client(Client),
}

struct Connection {
    control: Control,
    side: Side,
    connected: bool,
}

/// An event of an interface.
pub enum Event {
    /// The interface's rings are ready. Those of an earlier connection must be dropped.
    Connected(Link),
    /// The connection has ended, or was not made. A client may connect again; a server accepts the
    /// next peer.
    Disconnected(MemifError),
}

/// An interface of either role. It has at most one peer, opens no path, has no thread and never
/// blocks. Its owner polls [`control_fd`](Self::control_fd) and calls [`process`](Self::process).
pub struct Port {
    role: Role,
    config: Config,
    signal: Signal,
    connection: Option<Connection>,
}

impl Port {
    /// Makes an interface that has no peer yet.
    ///
    /// # Errors
    /// An invalid field of the configuration.
    pub fn new(role: Role, config: Config, signal: Signal) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { role, config, signal, connection: None })
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether it has a peer and rings.
    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.connected)
    }

    /// Client: starts with a socket that is connected to a server, and drops a former connection.
    pub fn connect(&mut self, socket: OwnedFd) {
        self.disconnect("a new connection");
        self.connection = Some(Connection {
            control: Control::new(socket),
            side: Side::Client(Client::new()),
            connected: false,
        });
    }

    /// Server: accepts a client that has requested this interface. It replaces a client whose
    /// connection is incomplete.
    ///
    /// # Errors
    /// The reason why the client was refused, which it has received.
    pub fn accept(&mut self, greeting: Greeting) -> Result<(), MemifError> {
        let (control, init) = greeting.into_parts();
        let check = || {
            if self.is_connected() {
                return Err(Violation::Taken(self.config.id));
            }
            server::admits(&self.config, &init)
        };
        let begun =
            check().map_err(MemifError::from).and_then(|()| control.send(&Message::Ack, None));
        if let Err(error) = begun {
            control.refuse(&error);
            return Err(error);
        }
        self.disconnect("another client has come");
        let side = Side::Server(Server::new(init));
        self.connection = Some(Connection { control, side, connected: false });
        Ok(())
    }

    /// Readable when [`process`](Self::process) has work; `None` without a peer.
    pub fn control_fd(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(|connection| connection.control.as_fd())
    }

    /// Handles the peer's messages. Call it again until there is no event. A call without an event
    /// handles at most 64 messages; then the descriptor is still readable.
    pub fn process(&mut self) -> Option<Event> {
        let connection = self.connection.as_mut()?;
        for _ in 0..MOST_MESSAGES {
            match connection.step(&self.config, &self.signal) {
                Ok(Some(Some(link))) => return Some(Event::Connected(link)),
                Ok(Some(None)) => {}
                Ok(None) => return None,
                Err(error) => {
                    connection.control.refuse(&error);
                    self.connection = None;
                    return Some(Event::Disconnected(error));
                }
            }
        }
        None
    }

    /// Ends the connection, if there is one, and sends the peer the reason, for example after a
    /// [`Fault`](crate::Fault) of a ring. The connection's rings must be dropped.
    pub fn disconnect(&mut self, reason: &str) {
        if let Some(connection) = self.connection.take() {
            connection.control.goodbye(reason);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.disconnect("the interface is deleted");
    }
}

impl Connection {
    /// Handles one message, if there is one, and answers it.
    fn step(
        &mut self,
        config: &Config,
        signal: &Signal,
    ) -> Result<Option<Option<Link>>, MemifError> {
        let Some((message, descriptor)) = self.control.receive()? else { return Ok(None) };
        let (say, link) = match &mut self.side {
            Side::Server(server) => {
                let (say, link) = server.take(config, signal, message, descriptor)?;
                (say.map(|message| (message, None)), link)
            }
            Side::Client(client) => client.take(config, signal, message)?,
        };
        if let Some((message, descriptor)) = say {
            self.control.send(&message, descriptor.as_ref().map(AsFd::as_fd))?;
        }
        self.connected |= link.is_some();
        Ok(Some(link))
    }
}
