//! # ChatterSocket
//!
//! ## Synopsis
//! `ChatterSocket(TCP, PORT [, KEYWORDS])`, `ChatterSocket(UNIX, FILENAME [, KEYWORDS])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Sends a copy of every message of the router, such as the lines of `Print`, to all clients. The
//! element closes the connection of a client that is 500,000 bytes behind.
//!
//! ## Arguments
//! - TYPE: `TCP` or `UNIX`.
//! - PORT: the TCP port; `PORT+` uses one of the next ports if it is in use.
//! - FILENAME: the Unix socket.
//! - GREETING (keyword): begin with a line that names the protocol; default true.
//! - CHANNEL, QUIET_CHANNEL, RETRIES, RETRY_WARNINGS (keywords): accepted without effect; there is
//!   one channel.
//!
//! ## Handlers
//! - `port` (read): the TCP port.
//!
//! ## See also
//! `ControlSocket`

use std::cell::RefCell;
use std::io::{ErrorKind, Write as _};
use std::rc::Rc;

use europa_engine::{
    Class, ClassInfo, ConfigError, Context, Element, InitContext, Interest, arguments, handlers,
};

use crate::control_socket::stream::{Listener, Stream};

const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// Most bytes that wait for a client.
const MOST_WAITING: usize = 500_000;

/// Sends copies of messages.
#[derive(Default)]
pub(crate) struct ChatterSocket {
    unix: Option<String>,
    port: u16,
    search: bool,
    greeting: bool,
    listener: Option<Rc<Listener>>,
    lines: Rc<RefCell<Vec<String>>>,
    /// Connections, and the unsent output of each.
    clients: Vec<(Stream, Vec<u8>)>,
}

impl Class for ChatterSocket {
    const INFO: ClassInfo = ClassInfo::new("ChatterSocket", "0/0");
}

impl ChatterSocket {
    /// Sends waiting output, as far as clients accept it. Removes clients that have closed or are
    /// too slow.
    fn send(&mut self) {
        self.clients.retain_mut(|(stream, waiting)| {
            while !waiting.is_empty() {
                match stream.write(waiting) {
                    Ok(count) => drop(waiting.drain(..count)),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        let full = error.kind() == ErrorKind::WouldBlock;
                        return full && waiting.len() <= MOST_WAITING;
                    }
                }
            }
            true
        });
    }
}

impl Element for ChatterSocket {
    arguments! { this, given;
        let kind = mandatory "TYPE": String;
        keyword "GREETING": bool = true => this.greeting;
        keyword "CHANNEL": String => _;
        keyword "RETRIES": u32 => _;
        keyword "QUIET_CHANNEL": bool => _;
        keyword "RETRY_WARNINGS": bool => _;
        then {
            // The place depends on the type.
            match kind.to_ascii_uppercase().as_str() {
                "TCP" => {
                    let text: String = given.mandatory("PORT")?;
                    this.search = text.ends_with('+');
                    let port = text.trim_end_matches('+').parse().ok().filter(|port| *port > 0);
                    this.port = port.ok_or_else(|| ConfigError::at(1, "PORT requires TCP port"))?;
                }
                "UNIX" => this.unix = Some(given.mandatory("FILENAME")?),
                _ => return Err(ConfigError::at(0, format!("unknown socket type '{kind}'"))),
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let failed = |error| ConfigError::other(format!("bind: {}", crate::load::system(&error)));
        let listener = match &self.unix {
            Some(path) => Listener::unix(path).map_err(failed)?,
            None => {
                let (listener, port) =
                    Listener::tcp(self.port, self.search, false).map_err(failed)?;
                self.port = port;
                listener
            }
        };
        let listener = Rc::new(listener);
        context.watch(0, Interest::Read, listener.clone());
        self.listener = Some(listener);
        context.overhear(self.lines.clone());
        context.add_task(1024);
        Ok(())
    }

    fn descriptor_ready(&mut self, _: u32, _: Interest, _: &mut Context<'_>) {
        if let Some(listener) = &self.listener
            && let Ok((stream, _)) = listener.accept()
        {
            let waiting = if self.greeting { GREETING.to_vec() } else { Vec::new() };
            self.clients.push((stream, waiting));
            self.send();
        }
    }

    fn run_task(&mut self, _: &mut Context<'_>) -> bool {
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        for line in &lines {
            for (_, waiting) in &mut self.clients {
                waiting.extend_from_slice(line.as_bytes());
                waiting.push(b'\n');
            }
        }
        let waits = self.clients.iter().any(|(_, waiting)| !waiting.is_empty());
        if waits {
            self.send();
        }
        !lines.is_empty()
    }

    handlers! { this, context, value; read "port" => this.port; }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        if let (Some(path), Some(_)) = (&self.unix, &self.listener) {
            let _ = std::fs::remove_file(path);
        }
    }
}
