//! How a memif gets a peer, loses it, and gets the next one. No function here blocks.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::OnceLock;

use europa_engine::{Interest, Resource};
use europa_memif::{
    Config, Event, Fault, Greeting, Greetings, MOST_SILENT, MemifError, Port, Receiver, Role,
    Signal, Transmitter, socket,
};
use europa_resource::Connector;

use crate::prelude::*;

/// Tokens of descriptors: the opened socket, the peer's socket, the peer's interrupts. From the
/// last token on: clients that have not sent their request.
const DOOR: u32 = 0;
const PEER: u32 = 1;
const INTERRUPT: u32 = 2;
const SILENT: u32 = 3;

/// Timers: to connect or try again; time limit for setting up rings.
const BEGIN: u32 = 0;
const AGREED: u32 = 1;
/// The element's own timer.
pub(super) const FULL: u32 = 2;

/// Time after which a client first tries again. The time doubles with each attempt.
const LEAST_DELAY_NS: u64 = 50_000_000;
const MOST_DELAY_NS: u64 = 2_000_000_000;
/// A connection that lasted this long resets the delay of retries.
const GOOD_NS: u64 = 1_000_000_000;
/// Time limit for two sides to agree.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Reasons are logged at most once in this time.
const LOG_NS: u64 = 1_000_000_000;

/// The descriptor that was opened for the memif.
enum Door {
    /// A listening socket for clients.
    Listener(Rc<OwnedFd>),
    /// The side that connects to the server.
    Connector(Connector),
}

/// The rings of a connection.
pub(super) struct Link {
    pub(super) receiver: Receiver,
    transmitter: Transmitter,
    peer: String,
    since_ns: u64,
    /// Interrupts have been requested from the peer.
    armed: bool,
}

/// The counters of all connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    pub(super) malformed: u64,
    pub(super) unfit: u64,
    pub(super) interrupts: u64,
}

/// The configured role.
struct Setup {
    role: Role,
    config: Config,
    resource: Resource,
}

/// The interfaces of one socket. The first element that listens there learns which one a client
/// requests; each other element finds its clients here in the next round.
#[derive(Default)]
struct Lobby {
    ids: Vec<u32>,
    /// Size of the shortest ring that one of them accepts.
    log2_entries: Option<u8>,
    come: Vec<Greeting>,
}

/// A memif's peer, if it has one, and the descriptor for the next one.
#[derive(Default)]
pub(super) struct Connection {
    setup: Option<Setup>,
    /// Server: state shared with the other interfaces of its socket.
    lobby: Rc<RefCell<Lobby>>,
    /// Another element listens in place of this one.
    is_guest: bool,
    door: Option<Door>,
    /// The connector has been asked.
    asked: bool,
    port: Option<Port>,
    greetings: Greetings,
    pub(super) link: Option<Link>,
    delay_ns: u64,
    /// Counts of former connections.
    past: Counts,
    pub(super) disconnects: u64,
    pub(super) reason: String,
    /// The last log message, and its time.
    told: Option<(String, u64)>,
}

/// Wakes the peers of all elements. It is never freed, because freeing takes milliseconds.
fn signal() -> Result<Signal, MemifError> {
    static SIGNAL: OnceLock<Signal> = OnceLock::new();
    if let Some(signal) = SIGNAL.get() {
        return Ok(signal.clone());
    }
    let signal = Signal::new()?;
    Ok(SIGNAL.get_or_init(|| signal).clone())
}

/// Watches a descriptor that another object owns.
fn watch(token: u32, descriptor: BorrowedFd<'_>, context: &mut Context<'_>) {
    // If no descriptor is left, the next turn or the timer finds the event.
    if let Ok(own) = descriptor.try_clone_to_owned() {
        context.watch(token, Interest::Read, Rc::new(own));
    }
}

impl Connection {
    pub(super) fn configure(&mut self, role: Role, config: Config, resource: Resource) {
        self.setup = Some(Setup { role, config, resource });
    }

    /// Whether another one shares its socket: both listen there.
    pub(super) fn shares(&self, other: &Connection) -> bool {
        let (Some(one), Some(other)) = (&self.setup, &other.setup) else { return false };
        one.role == Role::Server && one.resource == other.resource
    }

    /// Makes another element listen for this one.
    pub(super) fn join(&mut self, first: &Connection) {
        self.lobby = first.lobby.clone();
        self.is_guest = true;
    }

    /// Opens the socket, or a connection to it, unless another element does.
    pub(super) fn open(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(setup) = &mut self.setup else { return Ok(()) };
        context.name().clone_into(&mut setup.config.name);
        self.lobby.borrow_mut().add(&setup.config)?;
        if !self.is_guest {
            self.door = Some(Door::new(setup.role, context.open(&setup.resource)?));
        }
        // It must not open before the former element has handed over its state.
        context.schedule(BEGIN, context.now_ns());
        Ok(())
    }

    /// Takes over the connection of the former element, if it is the same interface.
    pub(super) fn take(&mut self, old: &mut Connection) -> bool {
        let (Some(new), Some(before)) = (&self.setup, &old.setup) else { return false };
        if (new.role, &new.config, &new.resource) != (before.role, &before.config, &before.resource)
        {
            return false;
        }
        let (door, lobby, is_guest) = (self.door.take(), self.lobby.clone(), self.is_guest);
        let before = std::mem::take(old);
        // A former listener must connect, and a former client must listen.
        let door = if is_guest { None } else { before.door.or(door) };
        let greetings = if is_guest { Greetings::default() } else { before.greetings };
        *self = Connection { door, greetings, lobby, is_guest, ..before };
        true
    }

    pub(super) fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        match timer {
            BEGIN => self.begin(context),
            _ if self.port.as_ref().is_some_and(|port| !port.is_connected()) => {
                let reason = "the peer took too long to connect";
                if let Some(port) = &mut self.port {
                    port.disconnect(reason);
                }
                self.missed(reason, context);
            }
            _ => {}
        }
    }

    /// Begins to wait for the next event, or starts a client's connection.
    fn begin(&mut self, context: &mut Context<'_>) {
        let Some(setup) = &self.setup else { return };
        if self.port.is_none() {
            let made = signal().and_then(|signal| {
                Port::new(setup.role, setup.config.clone(), signal).map_err(MemifError::from)
            });
            match made {
                Ok(port) => self.port = Some(port),
                Err(error) => return self.missed(&error.to_string(), context),
            }
        }
        if self.door.is_none() && !self.is_guest {
            // The connected peer has disconnected; another peer may wait.
            match context.devices().open(&setup.resource) {
                Ok(opened) => self.door = Some(Door::new(setup.role, opened)),
                Err(_) => return self.missed("nobody connects for this router", context),
            }
        }
        if let Some(door) = &self.door {
            watch(DOOR, door.as_fd(), context);
        }
        if let Some(link) = &self.link {
            watch(INTERRUPT, link.receiver.interrupt_fd(), context);
        }
        self.watch_silent(context);
        if let Some(peer) = self.port.as_ref().and_then(Port::control_fd) {
            return watch(PEER, peer, context);
        }
        if let Some(Door::Connector(connector)) = &self.door
            && !self.asked
        {
            match connector.ask() {
                Ok(()) => self.asked = true,
                Err(error) => {
                    self.close(context);
                    self.missed(&error.to_string(), context);
                }
            }
        }
    }

    /// A descriptor is ready.
    pub(super) fn ready(&mut self, token: u32, context: &mut Context<'_>) {
        match (token, &self.door) {
            (DOOR, Some(Door::Listener(_))) => self.accept(context),
            (DOOR, _) => self.hear(context),
            (PEER, _) => self.converse(context),
            (INTERRUPT, _) => self.disarm(),
            _ => self.greet(context),
        }
    }

    /// Client: accepts the connection that this client has requested.
    fn hear(&mut self, context: &mut Context<'_>) {
        let Some(Door::Connector(connector)) = &mut self.door else { return };
        match connector.answer() {
            Ok(None) => {}
            Ok(Some(server)) => {
                self.asked = false;
                if let Some(port) = &mut self.port {
                    port.connect(server);
                }
                self.agree(context);
            }
            Err(error) => {
                if error == europa_resource::Missed::Gone {
                    self.close(context);
                }
                // A peer that went away while there was a connection will be noticed with it.
                if std::mem::take(&mut self.asked) {
                    self.missed(&error.to_string(), context);
                }
            }
        }
    }

    /// Closes the connection of a peer that has disconnected.
    fn close(&mut self, context: &mut Context<'_>) {
        context.unwatch(DOOR, Interest::Read);
        (self.door, self.asked) = (None, false);
    }

    /// Server: accepts waiting connections, up to the limit of silent ones.
    fn accept(&mut self, context: &mut Context<'_>) {
        let (Some(Door::Listener(listener)), Some(setup)) = (&self.door, &self.setup) else {
            return;
        };
        // A client chooses its rings before it names its interface, so the shortest ring here must
        // fit every interface.
        let log2_entries = self.lobby.borrow().log2_entries.unwrap_or(setup.config.log2_entries);
        let least = Config { log2_entries, ..setup.config.clone() };
        for _ in 0..MOST_SILENT {
            let Ok(Some(client)) = socket::accept(listener) else { break };
            // A connection that has already ended is no loss.
            let _ = self.greetings.add(client, &least);
        }
        self.greet(context);
    }

    /// Server: reads which interface each client requests.
    fn greet(&mut self, context: &mut Context<'_>) {
        for _ in 0..MOST_SILENT {
            match self.greetings.process() {
                Ok(None) => break,
                Ok(Some(greeting)) => self.lobby.borrow_mut().admit(greeting),
                Err(error) => self.tell(&error.to_string(), context),
            }
        }
        self.watch_silent(context);
        self.welcome(context);
    }

    /// Server: accepts the clients that request this interface.
    pub(super) fn welcome(&mut self, context: &mut Context<'_>) {
        let Some(id) = self.port.as_ref().map(|port| port.config().id) else { return };
        loop {
            let greeting = self.lobby.borrow_mut().find(id);
            let Some(greeting) = greeting else { return };
            let Some(port) = &mut self.port else { return };
            match port.accept(greeting) {
                Ok(()) => self.agree(context),
                Err(error) => self.tell(&error.to_string(), context),
            }
        }
    }

    /// Whether clients wait for one of the interfaces here.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        !self.lobby.borrow().come.is_empty()
    }

    fn watch_silent(&mut self, context: &mut Context<'_>) {
        for token in (SILENT..).take(MOST_SILENT) {
            context.unwatch(token, Interest::Read);
        }
        for (token, client) in (SILENT..).zip(self.greetings.control_fds()) {
            watch(token, client, context);
        }
    }

    /// Begins to talk with a peer.
    fn agree(&mut self, context: &mut Context<'_>) {
        if let Some(peer) = self.port.as_ref().and_then(Port::control_fd) {
            watch(PEER, peer, context);
        }
        context.schedule(AGREED, context.now_ns().saturating_add(PATIENCE_NS));
        self.converse(context);
    }

    /// Reads the peer's messages.
    fn converse(&mut self, context: &mut Context<'_>) {
        while let Some(event) = self.port.as_mut().and_then(Port::process) {
            match event {
                Event::Disconnected(error) => return self.missed(&error.to_string(), context),
                Event::Connected(link) => {
                    let mut transmitters = link.transmitters.into_iter();
                    let mut receivers = link.receivers.into_iter();
                    let (Some(receiver), Some(transmitter)) =
                        (receivers.next(), transmitters.next())
                    else {
                        continue;
                    };
                    context.unschedule(AGREED);
                    watch(INTERRUPT, receiver.interrupt_fd(), context);
                    self.link = Some(Link {
                        receiver,
                        transmitter,
                        peer: link.application,
                        since_ns: context.now_ns(),
                        armed: false,
                    });
                }
            }
        }
    }

    /// Notes the lack of a peer, with the reason.
    fn missed(&mut self, reason: &str, context: &mut Context<'_>) {
        context.unwatch(PEER, Interest::Read);
        context.unwatch(INTERRUPT, Interest::Read);
        context.unschedule(AGREED);
        self.past = self.counts();
        if let Some(link) = self.link.take() {
            self.disconnects += 1;
            if context.now_ns().saturating_sub(link.since_ns) >= GOOD_NS {
                self.delay_ns = 0;
                self.told = None;
            }
        }
        reason.clone_into(&mut self.reason);
        self.tell(reason, context);
        let client = self.setup.as_ref().is_some_and(|setup| setup.role == Role::Client);
        if client || self.port.is_none() {
            self.delay_ns = (self.delay_ns * 2).clamp(LEAST_DELAY_NS, MOST_DELAY_NS);
            context.schedule(BEGIN, context.now_ns().saturating_add(self.delay_ns));
        }
    }

    /// Logs a reason once.
    fn tell(&mut self, reason: &str, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        if let Some((told, at_ns)) = &self.told
            && (told == reason || now_ns.saturating_sub(*at_ns) < LOG_NS)
        {
            return;
        }
        self.told = Some((reason.to_owned(), now_ns));
        let line = format!("{} :: Memif: {reason}", context.name());
        context.log(&line);
    }

    /// Ends a connection whose peer has corrupted a ring.
    #[cold]
    pub(super) fn break_off(&mut self, fault: &Fault, context: &mut Context<'_>) {
        let reason = fault.to_string();
        if let Some(port) = &mut self.port {
            port.disconnect(&reason);
        }
        self.missed(&reason, context);
    }

    /// Sends as much as the ring takes, from the front of `batch`, and leaves the rest.
    #[inline]
    pub(super) fn transmit(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let Some(link) = &mut self.link else { return };
        match link.transmitter.transmit(batch.as_slice()) {
            Ok(sent) if sent == batch.len() => batch.clear(),
            Ok(sent) => drop(batch.drain_front(sent)),
            Err(fault) => self.break_off(&fault, context),
        }
    }

    /// Requests interrupts from the peer. Returns whether frames have arrived already.
    pub(super) fn fall_asleep(&mut self) -> bool {
        self.link.as_mut().is_some_and(|link| {
            link.armed = true;
            link.receiver.arm()
        })
    }

    pub(super) fn wake_up(&mut self) {
        if self.link.as_ref().is_some_and(|link| link.armed) {
            self.disarm();
        }
    }

    fn disarm(&mut self) {
        if let Some(link) = &mut self.link {
            link.armed = false;
            link.receiver.disarm();
        }
    }

    pub(super) fn peer(&self) -> &str {
        self.link.as_ref().map_or("", |link| &link.peer)
    }

    pub(super) fn counts(&self) -> Counts {
        let Some(link) = &self.link else { return self.past };
        let (into, out) = (link.receiver.counters(), link.transmitter.counters());
        Counts {
            sent: self.past.sent + out.frames,
            sent_bytes: self.past.sent_bytes + out.bytes,
            received: self.past.received + into.frames,
            received_bytes: self.past.received_bytes + into.bytes,
            malformed: self.past.malformed + into.malformed,
            unfit: self.past.unfit + out.unfit,
            interrupts: self.past.interrupts + out.interrupts,
        }
    }
}

impl Lobby {
    fn add(&mut self, config: &Config) -> Result<(), ConfigError> {
        let &Config { id, log2_entries, .. } = config;
        if self.ids.contains(&id) {
            let message = format!("ID: another element is interface {id} of this socket");
            return Err(ConfigError::other(message));
        }
        self.ids.push(id);
        self.log2_entries = self.log2_entries.into_iter().chain([log2_entries]).min();
        Ok(())
    }

    /// A client waits until its interface accepts it, which is soon. If more than a few wait, the
    /// oldest have given up.
    fn admit(&mut self, greeting: Greeting) {
        if self.ids.contains(&greeting.id()) && self.come.len() < MOST_SILENT {
            self.come.push(greeting);
        } else {
            greeting.refuse();
        }
    }

    fn find(&mut self, id: u32) -> Option<Greeting> {
        let at = self.come.iter().position(|greeting| greeting.id() == id)?;
        Some(self.come.remove(at))
    }
}

impl Door {
    fn new(role: Role, opened: OwnedFd) -> Self {
        match role {
            Role::Server => Self::Listener(Rc::new(opened)),
            Role::Client => Self::Connector(Connector::new(opened)),
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener) => listener.as_fd(),
            Self::Connector(connector) => connector.as_fd(),
        }
    }
}
