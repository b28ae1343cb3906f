//! The server's side of making a connection: the valid messages of a client in each state.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::config::Config;
use crate::error::{Doing, MemifError, Violation};
use crate::link::Link;
use crate::receive::Receiver;
use crate::ring::Ring;
use crate::sys::{Memory, Region, Signal};
use crate::transmit::Transmitter;
use crate::wire::{AddRing, Hello, Init, Message, VERSION};

/// Most regions of a client: DPDK and VPP have one, and more if they share their own packet memory.
const MOST_REGIONS: u16 = 16;
const ETHERNET: u8 = 0;

/// The server's greeting to a peer, before the peer names its interface.
pub(crate) fn hello(config: &Config) -> Message {
    let last = |rings: u16| rings.saturating_sub(1);
    Message::Hello(Hello {
        name: crate::APPLICATION.to_owned(),
        least_version: VERSION,
        most_version: VERSION,
        last_region: MOST_REGIONS - 1,
        last_to_client: last(config.transmit_rings),
        last_to_server: last(config.receive_rings),
        log2_entries: config.log2_entries,
    })
}

/// Whether a client may have this interface.
pub(crate) fn admits(config: &Config, init: &Init) -> Result<(), Violation> {
    if init.version != VERSION {
        return Err(Violation::Version { least: init.version, most: init.version });
    }
    if init.mode != ETHERNET {
        return Err(Violation::Mode(init.mode));
    }
    // All bytes are compared, so that the time reveals nothing about the first wrong one.
    let differ = init.secret.iter().zip(&config.secret).fold(0, |all, (a, b)| all | (a ^ b));
    if differ != 0 {
        return Err(Violation::Secret);
    }
    Ok(())
}

/// The messages that a client has sent so far.
pub(crate) struct Server {
    client: String,
    regions: Vec<Region>,
    memory_bytes: u64,
    to_server: Vec<(AddRing, OwnedFd)>,
    to_client: Vec<(AddRing, OwnedFd)>,
    connected: bool,
}

impl Server {
    /// Begins after the client's request has been granted.
    pub(crate) fn new(init: Init) -> Self {
        Self {
            client: init.name,
            regions: Vec::new(),
            memory_bytes: 0,
            to_server: Vec::new(),
            to_client: Vec::new(),
            connected: false,
        }
    }

    /// Handles a message. Returns the answer, and the rings when the connection is complete.
    pub(crate) fn take(
        &mut self,
        config: &Config,
        signal: &Signal,
        message: Message,
        descriptor: Option<OwnedFd>,
    ) -> Result<(Option<Message>, Option<Link>), MemifError> {
        match (message, descriptor) {
            (Message::AddRegion { index, bytes }, Some(file)) if !self.connected => {
                self.add_region(config, index, bytes, &file)?;
                Ok((Some(Message::Ack), None))
            }
            (Message::AddRing(ring), Some(eventfd)) if !self.connected => {
                self.add_ring(config, signal, ring, eventfd)?;
                Ok((Some(Message::Ack), None))
            }
            (Message::Connect { interface }, _) if !self.connected => {
                let link = self.connect(signal, interface)?;
                let answer = Message::Connected { interface: config.name.clone() };
                Ok((Some(answer), Some(link)))
            }
            // This message has no meaning from a client. VPP also ignores it.
            (Message::Ack, _) => Ok((None, None)),
            (other, _) => {
                let wanted = if self.connected {
                    "a goodbye"
                } else {
                    "regions, rings and a request to connect"
                };
                Err(Violation::Unexpected { found: other.name(), wanted }.into())
            }
        }
    }

    fn add_region(
        &mut self,
        config: &Config,
        index: u16,
        bytes: u64,
        file: &OwnedFd,
    ) -> Result<(), MemifError> {
        let most = MOST_REGIONS;
        let next = self.regions.len() as u16;
        if index != next || next >= most {
            return Err(Violation::RegionIndex { found: index, next, most }.into());
        }
        let found = self.memory_bytes.saturating_add(bytes);
        if found > config.most_memory_bytes {
            return Err(Violation::Memory { found, most: config.most_memory_bytes }.into());
        }
        self.regions.push(Region::adopt(file, index, bytes)?);
        self.memory_bytes = found;
        Ok(())
    }

    fn add_ring(
        &mut self,
        config: &Config,
        signal: &Signal,
        ring: AddRing,
        eventfd: OwnedFd,
    ) -> Result<(), MemifError> {
        let (rings, most) = if ring.to_server {
            (&mut self.to_server, config.receive_rings)
        } else {
            (&mut self.to_client, config.transmit_rings)
        };
        // There are at most 255.
        let next = rings.len() as u16;
        if ring.index != next || next >= most {
            return Err(Violation::RingIndex { found: ring.index, next, most }.into());
        }
        if ring.log2_entries > config.log2_entries {
            let most = config.log2_entries;
            return Err(Violation::RingEntries { found: ring.log2_entries, most }.into());
        }
        if ring.private_header_bytes != 0 {
            return Err(Violation::PrivateHeader(ring.private_header_bytes).into());
        }
        // This also tests the eventfd: a receiver may get an interrupt without a request.
        match signal.send(&eventfd) {
            Err(nix::errno::Errno::EINVAL) => return Err(Violation::NoEventfd.into()),
            other => other.doing("signal an eventfd")?,
        }
        rings.push((ring, eventfd));
        Ok(())
    }

    fn connect(&mut self, signal: &Signal, interface: String) -> Result<Link, MemifError> {
        for (rings, from, to) in
            [(&self.to_server, "client", "server"), (&self.to_client, "server", "client")]
        {
            if rings.is_empty() {
                return Err(Violation::NoRing { from, to }.into());
            }
        }
        let memory = Arc::new(Memory::new(std::mem::take(&mut self.regions)));
        let rings = |said: Vec<(AddRing, OwnedFd)>| {
            said.into_iter()
                .map(|(ring, eventfd)| Ring::adopt(&memory, &ring, eventfd))
                .collect::<Result<Vec<_>, _>>()
        };
        let receivers = rings(std::mem::take(&mut self.to_server))?;
        let transmitters = rings(std::mem::take(&mut self.to_client))?;
        self.connected = true;
        Ok(Link {
            receivers: receivers.into_iter().map(Receiver::new).collect(),
            transmitters: transmitters
                .into_iter()
                .map(|ring| Transmitter::new(ring, signal.clone()))
                .collect(),
            application: self.client.clone(),
            interface,
        })
    }
}
