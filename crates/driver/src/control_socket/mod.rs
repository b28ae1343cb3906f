//! # ControlSocket
//!
//! ## Synopsis
//! `ControlSocket(TCP, PORT [, KEYWORDS])`, `ControlSocket(UNIX, FILENAME [, KEYWORDS])`,
//! `ControlSocket(SOCKET, FD [, KEYWORDS])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Lets other programs read and write handlers, by Click's line protocol: `READ handler
//! [argument]`, `READDATA`, `READUNTIL`, `WRITE handler [value]`, `WRITEDATA`, `WRITEUNTIL`,
//! `CHECKREAD`, `CHECKWRITE`, `HELP`, `QUIT`. A handler is `element.handler`, `number.handler` with
//! the element's number from 1, or the name of a handler of the router itself.
//!
//! ## Arguments
//! - TYPE: `TCP`, `UNIX` or `SOCKET`.
//! - PORT: the TCP port; with `PORT+`, one of the next ports if it is in use.
//! - FILENAME: the Unix socket.
//! - FD: the descriptor of a connection that is already open.
//! - READONLY (keyword): refuse writes; default false.
//! - PROXY (keyword): the element for handler names without an element.
//! - VERBOSE (keyword): log each connection; default false.
//! - LOCALHOST (keyword): for TCP, only accept connections from this machine; default false.
//! - RETRIES (keyword): how often to try again, once a second, if the socket cannot be opened;
//!   default 0. A configuration that replaces another one takes over its sockets.
//! - RETRY_WARNINGS (keyword): log each failed attempt; default true.
//!
//! ## Handlers
//! - `port` (read): the TCP port. `filename` (read): the Unix socket.
//!
//! ## See also
//! `Script`

mod protocol;
pub(crate) mod stream;

use std::io::{ErrorKind, Read as _, Write as _};
use std::rc::Rc;

use europa_engine::{
    Class, ClassInfo, ConfigError, Context, Element, Flags, Handler, HandlerError, InitContext,
    Interest, Target, arguments, keep,
};

use self::protocol::{
    Command, HANDLER_ERROR, HELP, NO_ELEMENT, NO_HANDLER, OK, PERMISSION, UNSPECIFIED, answer,
};
use self::stream::{Listener, Stream};

/// The protocol version in the greeting to clients.
const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";
/// Most bytes that a client may send without completing a command.
const MOST_INPUT: usize = 64 << 20;
/// The listening socket's token; connection n has n + 1.
const LISTENER: u32 = 0;
/// The timer for attempts to open the listening socket.
const RETRY: u32 = 0;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    Tcp {
        port: u16,
        search: bool,
    },
    Unix(String),
    Socket(i32),
}

impl Place {
    /// Whether a socket that was opened for `other` also serves this place: if a search is allowed,
    /// any port does.
    fn may_be(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Tcp { search: true, .. }, Place::Tcp { search: true, .. }) => true,
            (own, other) => own == other,
        }
    }
}

/// A client.
struct Connection {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    closed: bool,
}

/// Handlers for other programs.
#[derive(Default)]
pub(crate) struct ControlSocket {
    place: Place,
    read_only: bool,
    verbose: bool,
    local: bool,
    retries: i64,
    retry_warnings: bool,
    proxy: Option<String>,
    listener: Option<Rc<Listener>>,
    /// The socket and connections come from another configuration; the loop does not wait for them
    /// yet.
    taken: bool,
    /// Another configuration is about to take over; it will handle the clients' next commands.
    leaving: bool,
    connections: Vec<Option<Connection>>,
}

impl Class for ControlSocket {
    const INFO: ClassInfo = ClassInfo::new("ControlSocket", "0/0");
}

impl ControlSocket {
    /// Opens the socket.
    fn open(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("bind: {}", crate::load::system(&error));
        match &mut self.place {
            Place::Tcp { port, search } => {
                let search = *search && self.retries <= 0;
                let (listener, found) = Listener::tcp(*port, search, self.local).map_err(failed)?;
                *port = found;
                self.listener = Some(Rc::new(listener));
            }
            Place::Unix(path) => {
                self.listener = Some(Rc::new(Listener::unix(path).map_err(failed)?));
            }
            Place::Socket(descriptor) => {
                let stream = Stream::inherited(*descriptor).map_err(failed)?;
                self.connect(stream);
            }
            Place::None => {}
        }
        Ok(())
    }

    fn connect(&mut self, stream: Stream) -> usize {
        let connection =
            Connection { stream, input: Vec::new(), output: GREETING.to_vec(), closed: false };
        match self.connections.iter().position(Option::is_none) {
            Some(free) => {
                if let Some(place) = self.connections.get_mut(free) {
                    *place = Some(connection);
                }
                free
            }
            None => {
                self.connections.push(Some(connection));
                self.connections.len() - 1
            }
        }
    }

    /// Waits for all output.
    fn watch_all(&mut self, context: &mut Context<'_>) {
        if let Some(listener) = &self.listener {
            context.watch(LISTENER, Interest::Read, listener.clone());
        }
        for number in 0..self.connections.len() {
            self.watch(number, context);
            self.obey(number, context);
            self.flush(number, context);
        }
        self.taken = false;
    }

    fn watch(&self, number: usize, context: &mut Context<'_>) {
        if let Some(Some(connection)) = self.connections.get(number)
            && let Ok(descriptor) = connection.stream.watched()
        {
            context.watch(number as u32 + 1, Interest::Read, Rc::new(descriptor));
        }
    }

    /// Takes a client's data.
    fn receive(&mut self, number: usize) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let mut buffer = [0; 4096];
        match connection.stream.read(&mut buffer) {
            Ok(0) => connection.closed = true,
            Ok(count) => {
                connection.input.extend_from_slice(buffer.get(..count).unwrap_or_default());
                connection.closed |= connection.input.len() > MOST_INPUT;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => connection.closed = true,
        }
    }

    /// Carries out the commands that have arrived.
    fn obey(&mut self, number: usize, context: &mut Context<'_>) {
        while !self.leaving
            && let Some(Some(connection)) = self.connections.get_mut(number)
        {
            let Some((command, length)) = protocol::next(&connection.input, connection.closed)
            else {
                if connection.closed {
                    connection.input.clear();
                }
                break;
            };
            connection.input.drain(..length);
            let mut out = Vec::new();
            let quits = matches!(command, Command::Quit { .. });
            self.carry_out(command, context, &mut out);
            if let Some(Some(connection)) = self.connections.get_mut(number) {
                connection.output.extend_from_slice(&out);
                if quits {
                    connection.closed = true;
                    connection.input.clear();
                }
            }
        }
    }

    /// Sends waiting output, and closes finished connections.
    fn flush(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let token = number as u32 + 1;
        let mut gone = false;
        while !connection.output.is_empty() {
            match connection.stream.write(&connection.output) {
                Ok(count) => drop(connection.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    gone = error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        if gone || (connection.closed && connection.output.is_empty()) {
            context.unwatch(token, Interest::Read);
            context.unwatch(token, Interest::Write);
            if let Some(place) = self.connections.get_mut(number) {
                *place = None;
            }
            if self.verbose {
                context.log(&format!("{}: closed connection {number}", context.name()));
            }
        } else if connection.output.is_empty() {
            context.unwatch(token, Interest::Write);
        } else if let Ok(descriptor) = connection.stream.watched() {
            context.watch(token, Interest::Write, Rc::new(descriptor));
        }
        if let Some(Some(connection)) = self.connections.get(number)
            && connection.closed
        {
            // Otherwise the descriptor would always be ready to read.
            context.unwatch(token, Interest::Read);
        }
    }

    fn carry_out(&mut self, command: Command, context: &mut Context<'_>, out: &mut Vec<u8>) {
        let one = |code, line: String, out: &mut Vec<u8>| answer(code, &[line], out);
        match command {
            Command::Nothing => {}
            Command::Wrong(code, message) => one(code, message, out),
            Command::Help => {
                answer(OK, &HELP.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), out);
            }
            Command::Quit { clean } => {
                if !clean {
                    one(protocol::SYNTAX, "Bad command syntax".to_owned(), out);
                }
                one(OK, "Goodbye!".to_owned(), out);
            }
            Command::Check { handler, write } => {
                let how = if write { "Write" } else { "Read" };
                match self.find(&handler, context) {
                    Err((code, message)) => one(code, message, out),
                    Ok((_, flags)) => {
                        let wanted = if write { Flags::WRITE } else { Flags::READ };
                        let able = if write { "writable" } else { "readable" };
                        if !flags.has(wanted) {
                            let message = format!("Handler '{handler}' not {able}");
                            one(NO_HANDLER, message, out);
                        } else if write && self.read_only {
                            one(PERMISSION, format!("Permission denied for '{handler}'"), out);
                        } else {
                            one(OK, format!("{how} handler '{handler}' OK"), out);
                        }
                    }
                }
            }
            Command::Read { handler, parameter } => {
                match self.read(&handler, &parameter, context) {
                    Ok(data) => {
                        one(OK, format!("Read handler '{handler}' OK"), out);
                        out.extend_from_slice(format!("DATA {}\r\n{data}", data.len()).as_bytes());
                    }
                    Err((code, lines)) => answer(code, &lines, out),
                }
            }
            Command::Write { handler, value } => match self.write(&handler, &value, context) {
                Ok(()) => one(OK, format!("Write handler '{handler}' OK"), out),
                Err((code, lines)) => answer(code, &lines, out),
            },
        }
    }

    /// The handler that a client names, and the handler's abilities.
    fn find(
        &self,
        name: &str,
        context: &mut Context<'_>,
    ) -> Result<(Target, Flags), (u16, String)> {
        let canonical = name.strip_prefix("0.").or(name.strip_prefix('.')).unwrap_or(name);
        let proxied = match &self.proxy {
            Some(proxy) => format!("{proxy}.{canonical}"),
            None => canonical.to_owned(),
        };
        let missing = || (NO_HANDLER, format!("No handler named '{name}'"));
        let (target, flags) = match proxied.rsplit_once('.') {
            Some((element, handler)) => {
                let numbered = element
                    .parse::<usize>()
                    .ok()
                    .filter(|number| (1..=context.names().len()).contains(number));
                let own = context.names().iter().position(|own| own == element);
                let index = own.or(numbered.map(|number| number - 1));
                let index =
                    index.ok_or_else(|| (NO_ELEMENT, format!("No element named '{element}'")))?;
                let flags = context.handler_flags(index, handler);
                (Target::Element(index, handler.to_owned()), flags)
            }
            None => (Target::Global(proxied.clone()), context.global_flags(&proxied)),
        };
        match flags {
            Some(flags) if !flags.has(Flags::PRIVATE) => Ok((target, flags)),
            _ => Err(missing()),
        }
    }

    fn read(
        &mut self,
        name: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, (u16, Vec<String>)> {
        let (target, flags) =
            self.find(name, context).map_err(|(code, line)| (code, vec![line]))?;
        if !flags.has(Flags::READ) {
            return Err((PERMISSION, vec![format!("Handler '{name}' write-only")]));
        }
        let result = match target {
            Target::Element(index, handler) if index == context.index() => {
                self.own(&handler).map_or_else(|| context.read_of(index, &handler, parameter), Ok)
            }
            Target::Element(index, handler) => context.read_of(index, &handler, parameter),
            Target::Global(handler) => context.read_handler(&handler, parameter),
        };
        let first = format!("Read handler '{name}' error:");
        result.map_err(|error| (UNSPECIFIED, lines(first, &error)))
    }

    fn write(
        &mut self,
        name: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), (u16, Vec<String>)> {
        let (target, flags) =
            self.find(name, context).map_err(|(code, line)| (code, vec![line]))?;
        if !flags.has(Flags::WRITE) {
            return Err((PERMISSION, vec![format!("Handler '{name}' read-only")]));
        }
        if self.read_only {
            return Err((PERMISSION, vec![format!("Permission denied for '{name}'")]));
        }
        let result = match target {
            Target::Element(index, handler) => context.write_of(index, &handler, value),
            Target::Global(handler) => {
                let result = context.write_handler(&handler, value);
                self.leaving |= handler == "hotconfig" && result.is_ok();
                result
            }
        };
        let first = format!("Write handler '{name}' error:");
        result.map_err(|error| (HANDLER_ERROR, lines(first, &error)))
    }

    /// This element's own handlers: the engine cannot call an element that is running.
    fn own(&self, handler: &str) -> Option<String> {
        match (handler, &self.place) {
            ("port", Place::Tcp { port, .. }) => Some(port.to_string()),
            ("filename", Place::Unix(path)) => Some(path.clone()),
            _ => None,
        }
    }

    /// Tries to open the socket again.
    fn retry(&mut self, context: &mut Context<'_>) {
        self.retries -= 1;
        match self.open() {
            Ok(()) => self.watch_all(context),
            Err(error) if self.retries > 0 => {
                if self.retry_warnings {
                    context.log(&format!("warning: {error} ({} tries left)", self.retries));
                }
                context.schedule(RETRY, context.now_ns() + SECOND_NS);
            }
            Err(error) => {
                context.log(&error);
                context.stop();
            }
        }
    }
}

/// The first line of an answer, and the lines of an error.
fn lines(first: String, error: &HandlerError) -> Vec<String> {
    let text = error.to_string();
    let rest = text.lines().map(str::to_owned);
    std::iter::once(first).chain(rest).collect()
}

impl Element for ControlSocket {
    arguments! { this, given;
        let kind = mandatory "TYPE": String;
        keyword "READONLY": bool = false => this.read_only;
        keyword "PROXY": String => this.proxy;
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "LOCALHOST": bool = false => this.local;
        keyword "RETRIES": i64 = 0 => this.retries;
        keyword "RETRY_WARNINGS": bool = true => this.retry_warnings;
        then {
            // The place depends on the type.
            this.place = match kind.to_ascii_uppercase().as_str() {
                "TCP" => {
                    let text: String = given.mandatory("PORT")?;
                    let search = text.ends_with('+');
                    let port = text.trim_end_matches('+').parse().ok().filter(|port| *port > 0);
                    let port = port.ok_or_else(|| ConfigError::at(1, "PORT requires TCP port"))?;
                    Place::Tcp { port, search }
                }
                "UNIX" => Place::Unix(given.mandatory("FILENAME")?),
                "SOCKET" => Place::Socket(given.mandatory("FD")?),
                _ => return Err(ConfigError::at(0, format!("unknown socket type '{kind}'"))),
            };
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if let Err(error) = self.open() {
            if self.retries <= 0 {
                return Err(ConfigError::other(error));
            }
            if self.retry_warnings {
                context.log(&format!("warning: {error} ({} tries left)", self.retries));
            }
        }
        // The first round begins to wait for the socket, or tries again: by then, the former
        // configuration may have passed on its socket.
        self.taken = true;
        context.schedule(RETRY, context.now_ns());
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let open = self.listener.is_some() || self.connections.iter().any(Option::is_some);
        if open && self.taken {
            self.watch_all(context);
        } else if !open {
            self.retry(context);
        }
    }

    fn descriptor_ready(&mut self, token: u32, _: Interest, context: &mut Context<'_>) {
        let number = if token == LISTENER {
            let Some(listener) = &self.listener else { return };
            let Ok((stream, from)) = listener.accept() else { return };
            let number = self.connect(stream);
            if self.verbose {
                context.log(&format!("{}: opened connection {number}{from}", context.name()));
            }
            self.watch(number, context);
            number
        } else {
            token as usize - 1
        };
        self.receive(number);
        self.obey(number, context);
        self.flush(number, context);
    }

    fn handlers(&self) -> &'static [Handler] {
        match self.place {
            Place::Tcp { .. } => const { &[Handler::read("port")] },
            Place::Unix(_) => const { &[Handler::read("filename")] },
            _ => &[],
        }
    }

    fn read(
        &mut self,
        handler: &str,
        _: &str,
        _: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        self.own(handler).ok_or_else(|| HandlerError::NotFound(handler.to_owned()))
    }

    keep! { this, old if this.listener.is_none() && this.place.may_be(&old.place);
        listener, connections;
        then {
            this.place = old.place.clone();
            this.taken = true;
        }
    }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        for connection in self.connections.iter_mut().flatten() {
            let _ = connection.stream.write(&connection.output);
        }
        if let (Place::Unix(path), Some(_)) = (&self.place, &self.listener) {
            let _ = std::fs::remove_file(path);
        }
    }
}
