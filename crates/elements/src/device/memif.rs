//! # Memif
//!
//! ## Synopsis
//! `Memif(SOCKET [, keywords])`
//!
//! ## Ports
//! At most one input, push or pull, and at most one push output. Packets do not flow from the
//! input to the output.
//!
//! ## Description
//! Exchanges whole Ethernet frames with another program through shared memory: a memif, as DPDK and
//! VPP have it. Packets that come in go to the other program, its *peer*. The peer's packets leave
//! by the output, with the place of the Ethernet header.
//!
//! A server listens at SOCKET: a path, or a name in the abstract namespace with `@` before it. One
//! client of its ID and SECRET may be connected at a time. A client connects to SOCKET, and
//! provides the memory. When the peer goes, or breaks the protocol, the connection is made again: a
//! server takes the next client; a client tries again, at most every two seconds. Frames need
//! neither system call nor lock. While the router sleeps, the peer wakes it.
//!
//! Servers of a router may share a SOCKET, each with an ID of its own: the socket is opened once,
//! so one grant suffices for all.
//!
//! A pushed packet is dropped if the ring is full or there is no peer. A pulled packet waits in the
//! queue before the memif.
//!
//! In a router of a node it needs a grant: `listen: memif SOCKET` for a server, `connect: memif
//! SOCKET` for a client. The socket lies in the node's namespace, and only programs of root can
//! connect to a path. A hostile peer can do no more than send malformed frames.
//!
//! ## Arguments
//! - SOCKET: where both sides meet.
//! - SERVER (keyword): listen, do not connect; default true.
//! - ID (keyword): number of the interface, the same on both sides; default 0.
//! - SECRET (keyword): up to 24 bytes that both sides must know; default none.
//! - RING_SIZE (keyword): frames that a ring holds, a power of two up to 16384; default 1024. For a
//!   server it is the largest ring that it accepts.
//! - BUFFER (keyword): of a client, bytes of a buffer, at least 64; default 2048. Longer frames
//!   fill several buffers. All buffers together may have 128 MiB.
//!
//! ## Handlers
//! - `connected` (read): whether there is a peer.
//! - `peer` (read): the name that the peer's program gives itself.
//! - `count`, `byte_count` (read): frames sent to peers, and their bytes.
//! - `received`, `received_bytes` (read): frames that came from peers, and their bytes.
//! - `drops` (read): frames lost: those that the ring did not take, and those that were too long
//!   or malformed.
//! - `disconnects` (read): how often a peer has disconnected.
//! - `reason` (read): why the last peer has gone, or why there is none.
//! - `interrupts` (read): how often the memif had to wake its peer.
//!
//! ## See also
//! `Socket`, `FromDevice`, `ToDevice`

mod connection;
#[cfg(test)]
mod tests;

use std::any::Any;

use europa_engine::{Interest, Resource, arguments};
use europa_memif::{Config, Role, secret};
use europa_resource::{Kind, Place, Socket};

use crate::prelude::*;
use connection::{Connection, FULL};

/// Least time that pulled packets wait for a full ring.
const FULL_NS: u64 = 100_000;
/// The most bytes of a client's buffers: a router's process may allocate this much memory.
const MOST_BUFFER_BYTES: u64 = 128 << 20;

/// Frames by shared memory.
#[derive(Default)]
pub(crate) struct Memif {
    connection: Connection,
    /// Pulled packets that the ring has not taken yet.
    waiting: Batch,
    pulls: bool,
    drops: u64,
}

impl Class for Memif {
    const INFO: ClassInfo = ClassInfo::new("Memif", "0-1/0-1")
        .processing("a/h")
        .flow("x/y")
        .not_inline("shares memory with another process and waits for its socket")
        .consumes();
}

impl Memif {
    /// Takes the peer's frames, as long as there are buffers.
    fn receive(&mut self, context: &mut Context<'_>) -> bool {
        let Some(link) = &mut self.connection.link else { return false };
        let most = context.burst().min(context.arena().free());
        if most == 0 {
            return false;
        }
        let mut batch = context.take_batch();
        let arena = context.arena();
        let mut unfit = 0;
        let received = link.receiver.receive_with(most, |frame| {
            let packet = arena.alloc().and_then(|mut packet| {
                frame.copy_to(packet.put(frame.bytes())?);
                packet.set_mac_header(0);
                Some(packet)
            });
            match packet {
                // There is room for a burst.
                Some(packet) => drop(batch.push(packet)),
                None => unfit += 1,
            }
        });
        self.drops += unfit;
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        match received {
            Ok(count) => count > 0,
            Err(fault) => {
                self.connection.break_off(&fault, context);
                true
            }
        }
    }

    /// Sends pulled packets, and keeps those that do not fit into the ring.
    fn send_pulled(&mut self, context: &mut Context<'_>) -> bool {
        if self.connection.link.is_none() {
            return false;
        }
        if self.waiting.is_empty() {
            context.pull(0, context.burst(), &mut self.waiting);
        }
        let before = self.waiting.len();
        if before == 0 {
            return false;
        }
        self.connection.transmit(&mut self.waiting, context);
        if !self.waiting.is_empty() {
            // A peer does not report that it has made room.
            context.schedule(FULL, context.now_ns() + FULL_NS);
        }
        self.waiting.len() < before
    }

    fn drops(&self) -> u64 {
        let counts = self.connection.counts();
        self.drops + counts.malformed + counts.unfit
    }
}

/// From `RING_SIZE`: the logarithm of the number of entries.
fn ring_size(name: &'static str, given: &mut Arguments<'_>) -> Result<Option<u8>, ConfigError> {
    let Some(size) = given.keyword::<u32>(name)? else { return Ok(None) };
    if !size.is_power_of_two() || size > 16384 {
        let wanted = "expected a power of two up to 16384";
        return Err(ConfigError::other(format!("{name}: {wanted}, found '{size}'")));
    }
    // The logarithm is below 15, because the size is at most 2 to the 14th.
    Ok(Some(size.trailing_zeros() as u8))
}

impl Element for Memif {
    arguments! { this, given;
        let path = mandatory "SOCKET": String;
        let server = keyword "SERVER": bool = true;
        let id = keyword "ID": u32 = 0;
        let text = keyword "SECRET": String;
        let log2_entries = keyword "RING_SIZE": "power of two up to 16384", by ring_size;
        let buffer_bytes = keyword "BUFFER": u32;
        then {
            let mut config = Config { id, ..Config::default() };
            if let Some(text) = text {
                config.secret =
                    secret(&text).map_err(|error| ConfigError::other(format!("SECRET: {error}")))?;
            }
            config.log2_entries = log2_entries.unwrap_or(config.log2_entries);
            config.buffer_bytes = buffer_bytes.unwrap_or(config.buffer_bytes);
            let wrong = |error: europa_memif::ConfigError| match error.field {
                "buffer_bytes" => format!("BUFFER: {}, found '{}'", error.wanted, error.found),
                _ => error.to_string(),
            };
            config.check().map_err(|error| ConfigError::other(wrong(error)))?;
            let buffers = u64::from(config.buffer_bytes) << (config.log2_entries + 1);
            if !server && buffers > MOST_BUFFER_BYTES {
                let message = format!("BUFFER: {buffers} bytes of buffers altogether; at most 128 MiB");
                return Err(ConfigError::other(message));
            }
            let at = Place::parse(Kind::Memif, &path)
                .map_err(|error| ConfigError::other(format!("SOCKET: {error}")))?;
            let socket = Socket { kind: Kind::Memif, at, from: None };
            let (role, resource) = match server {
                true => (Role::Server, Resource::Listen(socket)),
                false => (Role::Client, Resource::Connect(socket)),
            };
            this.connection.configure(role, config, resource);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for index in 0..context.index() {
            let other = context.element(index).map(|element| element as &mut dyn Any);
            if let Some(other) = other.and_then(|element| element.downcast_mut::<Memif>())
                && self.connection.shares(&other.connection)
            {
                self.connection.join(&other.connection);
                break;
            }
        }
        self.connection.open(context)?;
        self.pulls = context.is_pull(0);
        context.add_task(1024);
        context.add_sleeper();
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.connection.transmit(batch, context);
        self.drops += batch.len() as u64;
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if self.connection.is_wanted() {
            self.connection.welcome(context);
        }
        let received = self.receive(context);
        received | (self.pulls && self.send_pulled(context))
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        // A timer of a full ring already begins a round, which looks at the ring.
        if timer != FULL {
            self.connection.run_timer(timer, context);
        }
    }

    fn descriptor_ready(&mut self, token: u32, _: Interest, context: &mut Context<'_>) {
        self.connection.ready(token, context);
    }

    fn fall_asleep(&mut self) -> bool {
        self.connection.fall_asleep()
    }

    fn wake_up(&mut self) {
        self.connection.wake_up();
    }

    handlers! { this, context, value;
        read "connected" => this.connection.link.is_some();
        read "peer" => this.connection.peer();
        read "count" => this.connection.counts().sent;
        read "byte_count" => this.connection.counts().sent_bytes;
        read "received" => this.connection.counts().received;
        read "received_bytes" => this.connection.counts().received_bytes;
        read "drops" => this.drops();
        read "disconnects" => this.connection.disconnects;
        read "reason" => this.connection.reason;
        read "interrupts" => this.connection.counts().interrupts;
    }

    keep! { this, old if this.connection.take(&mut old.connection);
        waiting, drops;
    }
}
