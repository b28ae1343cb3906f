//! Connects both roles in one process, and each with a hostile peer.

mod between;
mod rings;

use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use crate::{Config, Event, Greetings, Link, MemifError, Port, Role, Signal};

/// One signal for all tests: making and dropping one takes milliseconds.
fn signal() -> Signal {
    static SIGNAL: std::sync::OnceLock<Signal> = std::sync::OnceLock::new();
    SIGNAL.get_or_init(|| Signal::new().unwrap()).clone()
}

/// An interface.
fn port(role: Role, config: Config) -> Port {
    Port::new(role, config, signal()).unwrap()
}

/// Two ends of a control socket.
fn sockets() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
}

/// The rings of a connection, and the interfaces that own it.
struct Pair {
    _ports: [Port; 2],
    server_link: Link,
    client_link: Link,
}

/// Connects two interfaces.
fn pair(server: Config, client: Config) -> Pair {
    let mut server = port(Role::Server, server);
    let mut client = port(Role::Client, client);
    let (server_link, client_link) = join(&mut server, &mut client).unwrap();
    Pair { _ports: [server, client], server_link, client_link }
}

/// Exchanges messages between two interfaces until both have rings, or one has an error.
fn join(server: &mut Port, client: &mut Port) -> Result<(Link, Link), MemifError> {
    let (ours, theirs) = sockets();
    let mut greetings = Greetings::default();
    greetings.add(ours, server.config()).unwrap();
    client.connect(theirs);
    let (mut server_link, mut client_link) = (None, None);
    for _ in 0..10_000 {
        if let Some(greeting) = greetings.process()? {
            server.accept(greeting)?;
        }
        for (port, link) in [(&mut *server, &mut server_link), (&mut *client, &mut client_link)] {
            match port.process() {
                Some(Event::Connected(made)) => *link = Some(made),
                Some(Event::Disconnected(error)) => return Err(error),
                None => {}
            }
        }
        if let (Some(server), Some(client)) = (server_link.take(), client_link.take()) {
            return Ok((server, client));
        }
    }
    panic!("no connection and no error");
}
