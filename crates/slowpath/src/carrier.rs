//! Link states: if an interface's port is down, or its far end on a link was set down, its device
//! in the router's Linux has no carrier.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use europa_port::Namespace;
use europa_port::netlink::{self, DUMP, Netlink, Request};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};

use crate::device::{index_of, set_state};
use crate::message::{Link, kind};
use crate::mirror::subscribe;

/// Multicast group of messages about links.
const LINKS: u32 = 1;
/// Interval of checks whether to stop.
const PATIENCE_MS: u16 = 250;

/// The source of an interface's carrier.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The namespace of the observed device.
    pub namespace: Namespace,
    /// Its name.
    pub device: String,
    /// Whether it must have a carrier itself, or only be set up.
    pub running: bool,
    /// Name of the outer end that follows its state.
    pub outer: String,
}

/// Follows link states until it must stop.
///
/// # Errors
/// The error that prevents it.
pub fn follow(watches: &[Watch], outside: &Namespace, stop: &Arc<AtomicBool>) -> io::Result<()> {
    let mut places: Vec<(Namespace, OwnedFd)> = Vec::new();
    for watch in watches {
        if !places.iter().any(|(namespace, _)| *namespace == watch.namespace) {
            places.push((watch.namespace.clone(), subscribe(&watch.namespace, LINKS)?));
        }
    }
    let mut setter = Setter { netlink: Netlink::route(outside)?, states: HashMap::new() };
    for (namespace, _) in &places {
        look(namespace, watches, &mut setter)?;
    }
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut wait: Vec<_> =
            places.iter().map(|(_, fd)| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut wait, PollTimeout::from(PATIENCE_MS)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (namespace, socket) in &places {
            loop {
                match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                    Ok(length) => {
                        let mut rest = buffer.get(..length).unwrap_or_default();
                        while let Some(length) = netlink::number(rest, 0) {
                            let Some(message) = rest.get(16..length as usize) else { break };
                            setter.take_in(namespace, watches, message);
                            let next = (length as usize).next_multiple_of(4);
                            rest = rest.get(next..).unwrap_or_default();
                        }
                    }
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    // Some messages were lost.
                    Err(Errno::ENOBUFS) => look(namespace, watches, &mut setter)?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(())
}

/// Looks at all links of a namespace.
fn look(namespace: &Namespace, watches: &[Watch], setter: &mut Setter) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    netlink.talk(&mut Request::new(kind::GETLINK, DUMP, &[0; 16]), |_, message| {
        setter.take_in(namespace, watches, message);
    })
}

struct Setter {
    netlink: Netlink,
    /// By outer end: its last setting.
    states: HashMap<String, bool>,
}

impl Setter {
    fn take_in(&mut self, namespace: &Namespace, watches: &[Watch], message: &[u8]) {
        let Some(link) = Link::parse(message) else { return };
        let concerned =
            watches.iter().filter(|w| w.device == link.name && w.namespace == *namespace);
        for watch in concerned {
            let up = if watch.running { link.running } else { link.up };
            if self.states.insert(watch.outer.clone(), up) == Some(up) {
                continue;
            }
            let set = index_of(&mut self.netlink, &watch.outer)
                .and_then(|index| set_state(&mut self.netlink, index, up));
            if let Err(error) = set {
                tracing::warn!("the carrier of {}: {error}", watch.outer);
            }
        }
    }
}
