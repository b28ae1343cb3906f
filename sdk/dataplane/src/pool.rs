//! The pool of this process: receives packets, sends packets, and waits for more.

use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use europa_packet::MacAddr;
use europa_pool::layout::{HEADER_WORDS, INTERFACE_WORDS};
use europa_pool::{Batch, Endpoint, Geometry, Mapping, Packet, PoolView, Waker};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::start::{Error, descriptor, number};

/// Most packets of an interface in a turn; then the next interface has its turn.
pub const TURN: usize = 64;
/// Number of times that an idle program checks its rings before it sleeps.
const LOOKS: u32 = 64;
const PAGE: usize = 4096;
/// Most workers of a switch.
const WORKERS: u32 = 64;
/// Offsets in a row of the interface table, in bytes.
const MTU_AT: usize = 16;
const MAC_AT: usize = 20;
const NAME_AT: usize = 32;

/// An interface of the router.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The interface's name in the router's document.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Bytes of the interface's longest packet, without the Ethernet header.
    pub mtu: u32,
}

/// The packet pool of this process.
pub struct Pool {
    endpoint: Endpoint,
    interfaces: Vec<Interface>,
    /// Events that wake this program: frames from the receive program, and the switch.
    waker: Waker,
    wake: OwnedFd,
    /// The switch's sleep flag, and the doorbell that wakes the switch.
    status: Mapping,
    worker: usize,
    doorbell: OwnedFd,
    is_busy: bool,
    /// Number of sent packets when this program last told the switch.
    told: u64,
    received: u64,
    idle: u32,
}

impl Pool {
    /// Maps the pool of this process.
    ///
    /// # Errors
    /// No node has started this process for a router, the pool has another version, or the process
    /// cannot map it.
    pub fn open() -> Result<Pool, Error> {
        let geometry = Geometry {
            slots: number("EUROPA_SLOTS")?,
            slot_bytes: number("EUROPA_SLOT_BYTES")?,
            interfaces: number("EUROPA_INTERFACES")?,
        };
        let worker = number("EUROPA_WORKER")?;
        if worker >= WORKERS {
            return Err(Error::Environment("EUROPA_WORKER"));
        }
        let is_busy = number("EUROPA_BUSY").is_ok_and(|busy| busy != 0);
        let view = PoolView::open(descriptor("EUROPA_POOL")?, geometry)?;
        view.check()?;
        let interfaces: Vec<Interface> =
            (0..geometry.interfaces as usize).map(|index| row(&view, index)).collect();
        let status = Mapping::read_only(descriptor("EUROPA_STATUS")?, 0, PAGE)
            .map_err(Error::system("mapping the status of the switch"))?;
        let waker =
            Waker::new(descriptor("EUROPA_WAKER")?).map_err(Error::system("mapping the waker"))?;
        let macs = interfaces.iter().map(|interface| interface.mac.0).collect();
        Ok(Pool {
            endpoint: Endpoint::new(view, macs),
            interfaces,
            waker,
            wake: descriptor("EUROPA_WAKE")?,
            status,
            worker: worker as usize,
            doorbell: descriptor("EUROPA_DOORBELL")?,
            is_busy,
            told: 0,
            received: 0,
            idle: 0,
        })
    }

    /// The interfaces, in the order of the router's document.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The number of an interface by its name.
    pub fn interface(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    /// Adds the packets that wait at an interface to a batch, [`TURN`] at most. Also tells the
    /// switch which packets were sent before. Adds none if a transmit ring has no room for the same
    /// number.
    pub fn receive(&mut self, interface: usize, batch: &mut Batch) {
        self.flush();
        self.endpoint.receive(interface, batch, TURN);
    }

    /// Sends all packets of a batch by an interface, and drops those for which the transmit ring
    /// has no room. Returns the number of dropped packets.
    pub fn send(&mut self, interface: usize, batch: &mut Batch) -> usize {
        self.endpoint.send(interface, batch);
        let dropped = batch.len();
        batch.clear();
        dropped
    }

    /// A new packet with these bytes; `None` if the router has no free slot, or the bytes do not
    /// fit.
    pub fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        self.endpoint.arena().packet(bytes)
    }

    /// Tells the switch which packets were sent. [`Pool::receive`] and [`Pool::wait`] do this; only
    /// a program that sends much between these calls needs it.
    pub fn flush(&mut self) {
        let sent = (0..self.interfaces.len()).map(|index| self.endpoint.passed(index).1).sum();
        if self.told == sent {
            return;
        }
        self.told = sent;
        // The program reads the flag after it has published the sent packets.
        fence(Ordering::SeqCst);
        let flag = self.status.words(self.worker * 64, 1).and_then(<[_]>::first);
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
            // A full doorbell already rings.
            let _ = nix::unistd::write(&self.doorbell, &[0]);
        }
    }

    /// Tells the switch which packets were sent, and sleeps if the program has been idle for some
    /// time. Call it when all interfaces have had their turn. It returns at once if a packet was
    /// received since the last call.
    ///
    /// # Errors
    /// The error of poll(2).
    pub fn wait(&mut self) -> Result<(), Error> {
        self.flush();
        self.endpoint.balance();
        let received = self.endpoint.received();
        if received != self.received {
            (self.received, self.idle) = (received, 0);
            return Ok(());
        }
        self.idle += 1;
        if self.is_busy || self.idle <= LOOKS {
            std::thread::yield_now();
            return Ok(());
        }
        let has_work = self.endpoint.fall_asleep();
        let slept = if has_work { Ok(()) } else { self.sleep() };
        self.endpoint.wake_up();
        self.idle = 0;
        slept
    }

    /// Sleeps until an event arrives, and discards all events.
    fn sleep(&self) -> Result<(), Error> {
        let mut events = [
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut events, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::system("waiting for packets")(error)),
        }
        if events[1].any().unwrap_or_default() {
            // The number of bytes has no meaning: one event is enough to end the sleep.
            let _ = nix::unistd::read(&self.wake, &mut [0; PAGE]);
        }
        self.waker.clear();
        Ok(())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

/// A row of the interface table.
fn row(view: &PoolView, index: usize) -> Interface {
    let Geometry { slots, slot_bytes, .. } = view.layout().geometry;
    let control = slots as usize * slot_bytes as usize;
    let mut row = [0; INTERFACE_WORDS as usize * 8];
    view.mapping().copy_out(control + HEADER_WORDS as usize * 8 + index * row.len(), &mut row);
    let bytes = |at: usize| row.get(at..).unwrap_or_default();
    let mtu = bytes(MTU_AT).first_chunk().map_or(0, |mtu| u32::from_le_bytes(*mtu));
    let mac = bytes(MAC_AT).first_chunk().copied().unwrap_or_default();
    let name: [u8; 16] = bytes(NAME_AT).first_chunk().copied().unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Interface { name: String::from_utf8_lossy(name).into_owned(), mac: MacAddr(mac), mtu }
}
