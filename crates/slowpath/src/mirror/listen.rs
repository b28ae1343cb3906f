//! The kernel's messages: events, and complete lists.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use europa_port::netlink::{self, DUMP, Netlink, Request};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::{Mirror, MirrorError, SETTLE, decide};
use crate::fib::{Fib, Placement};
use crate::message::{
    Address, INET, INET6, Link, MPLS, Neighbour, Object, Route, family, kind, label,
};

const FLAG_REPLACE: u16 = 0x100;
const FLAG_APPEND: u16 = 0x800;

impl Mirror {
    /// Reads up to `most` messages. Returns their number.
    pub(super) fn hear(&mut self, most: usize) -> Result<usize, MirrorError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.hear_into(&mut buffer, most);
        self.buffer = buffer;
        Ok(result?)
    }

    fn hear_into(&mut self, buffer: &mut [u8], most: usize) -> io::Result<usize> {
        for count in 0..most {
            let length = match recv(self.events.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(count),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => {
                    // Some were lost; later ones are still valid.
                    self.resync = Some(Instant::now());
                    self.close(decide::LOST);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let (Some(length), Some(head)) =
                (netlink::number(rest, 0), rest.first_chunk::<16>())
            {
                let Some(message) = rest.get(16..length as usize) else { break };
                let kind = u16::from_ne_bytes([head[4], head[5]]);
                let flags = u16::from_ne_bytes([head[6], head[7]]);
                self.take_in(kind, flags, message);
                rest = rest.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
            }
        }
        Ok(most)
    }

    pub(super) fn settle(&mut self) {
        let due = Instant::now() + SETTLE;
        self.resync = Some(self.resync.map_or(due, |before| before.min(due)));
    }

    fn take_in(&mut self, kind: u16, flags: u16, message: &[u8]) {
        match kind {
            kind::NEWROUTE | kind::DELROUTE => {
                let placement = match flags {
                    flags if flags & FLAG_REPLACE != 0 => Placement::Replace,
                    flags if flags & FLAG_APPEND != 0 => Placement::Back,
                    _ => Placement::Front,
                };
                let gone = kind == kind::DELROUTE;
                if let Some(own) = decide::own_route(message) {
                    match gone {
                        // Another route may still require this.
                        true => self.settle(),
                        false => self.is_policy_dirty |= self.policy.own.insert(own),
                    }
                }
                let known = match family(message) {
                    INET => change(&mut self.fib4, message, gone, placement),
                    INET6 => change(&mut self.fib6, message, gone, placement),
                    MPLS => {
                        self.is_policy_dirty |= self.policy.hear_label(label(message), gone);
                        true
                    }
                    _ => true,
                };
                if !known {
                    self.settle();
                }
            }
            kind::NEWNEIGH | kind::DELNEIGH => {
                if let Some(neighbour) = Neighbour::parse(message) {
                    self.neighbours.hear(&neighbour, kind == kind::DELNEIGH);
                }
            }
            kind::NEWLINK | kind::DELLINK => {
                // Bridges announce their ports by the same messages.
                if family(message) != 0 {
                    return;
                }
                let Some(link) = Link::parse(message) else { return };
                match kind {
                    kind::DELLINK => self.lose_link(link.index),
                    _ => self.take_link(link, true),
                }
            }
            kind::NEWNEXTHOP => {
                if let Some((id, object)) = Object::parse(message)
                    && let Some(old) = self.objects.insert(id, object.clone())
                    && old != object
                {
                    self.reconsider();
                }
            }
            kind::DELNEXTHOP => {
                if let Some((id, _)) = Object::parse(message) {
                    self.objects.remove(&id);
                    // Routes that use it were removed with it, and groups lost a member.
                    self.settle();
                }
            }
            // Routes with this address as source are removed with it.
            kind::DELADDR => self.settle(),
            _ => self.take_decision(kind, message),
        }
    }

    /// Takes in a device's properties: the kernel announced them, or was asked.
    pub(super) fn take_link(&mut self, link: Link, is_told: bool) {
        let is_down = !link.up;
        let change = self.links.add(link);
        self.is_policy_dirty |= change.device;
        // A device that is down has lost its routes, even routes that were announced before this
        // message and after a list with the same state.
        if change.routes || is_down && (is_told || change.device) {
            self.reconsider();
            self.settle();
        }
    }

    fn lose_link(&mut self, device: u32) {
        self.links.remove(device);
        self.policy.qdiscs.forget(device);
        self.is_policy_dirty = true;
        self.reconsider();
        self.settle();
    }

    fn reconsider(&mut self) {
        self.fib4.reconsider(&self.links, &self.objects);
        self.fib6.reconsider(&self.links, &self.objects);
    }

    /// Reads everything.
    pub(super) fn read_all(&mut self) -> io::Result<()> {
        self.progress.resyncs.fetch_add(1, Ordering::Relaxed);
        self.lists.interrupted = false;
        let mut links = Vec::new();
        self.lists.talk(&mut Request::new(kind::GETLINK, DUMP, &[0; 16]), |_, message| {
            links.extend(Link::parse(message));
        })?;
        self.is_policy_dirty |= self.links.replace_all(links);
        self.read_decisions()?;
        let mut objects = HashMap::new();
        let listed =
            self.lists.talk(&mut Request::new(kind::GETNEXTHOP, DUMP, &[0; 8]), |_, message| {
                objects.extend(Object::parse(message));
            });
        if let Err(error) = listed {
            tracing::debug!("next hop objects: {error}");
        }
        self.objects = objects;
        let mut neighbours = Vec::new();
        self.lists.talk(&mut Request::new(kind::GETNEIGH, DUMP, &[0; 12]), |_, message| {
            neighbours.extend(Neighbour::parse(message));
        })?;
        self.neighbours.replace_all(&neighbours);
        let own = &mut self.policy.own;
        read_routes(&mut self.lists, &mut self.fib4, |message| {
            own.extend(decide::own_route(message));
        })?;
        read_routes(&mut self.lists, &mut self.fib6, |_| ())?;
        self.read_labels()?;
        self.reconsider();
        let routes = (self.fib4.len() + self.fib6.len()) as u64;
        self.progress.routes.store(routes, Ordering::Relaxed);
        if self.lists.interrupted {
            let due = Instant::now() + 10 * SETTLE;
            self.resync.get_or_insert(due);
        }
        Ok(())
    }
}

/// Present if the kernel has a label table (`mpls_router`). Without it a list of the table would be
/// one of all families.
const LABEL_TABLE: &str = "/proc/sys/net/mpls";

impl Mirror {
    fn read_labels(&mut self) -> io::Result<()> {
        let labels = &mut self.policy.labels;
        labels.clear();
        self.is_policy_dirty = true;
        if !Path::new(LABEL_TABLE).exists() {
            return Ok(());
        }
        let mut body = [0; 12];
        body[0] = MPLS;
        self.lists.talk(&mut Request::new(kind::GETROUTE, DUMP, &body), |_, message| {
            labels.extend(label(message));
        })
    }
}

/// Handles a route message. False if messages must have been missed.
fn change<A: Address>(fib: &mut Fib<A>, message: &[u8], gone: bool, placement: Placement) -> bool {
    match Route::parse(message) {
        None => true,
        Some(route) if gone => fib.remove(route),
        Some(route) => {
            fib.add(route, placement);
            true
        }
    }
}

fn read_routes<A: Address>(
    lists: &mut Netlink,
    fib: &mut Fib<A>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut body = [0; 12];
    body[0] = A::FAMILY;
    let mut routes: Vec<Route<A>> = Vec::new();
    lists.talk(&mut Request::new(kind::GETROUTE, DUMP, &body), |_, message| {
        routes.extend(Route::parse(message));
        each(message);
    })?;
    fib.replace_all(routes.into_iter());
    Ok(())
}
