//! Links to other machines: frames are sent and received by UDP sockets that the node has opened.
//!
//! Each worker sends the frames of its own routers. The first worker receives all packets: a socket
//! serves all links with the same local address and port.

mod inbox;
mod outbox;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use europa_tunnel::{Header, Received, Receiver, Sender};

use self::inbox::Inbox;
use self::outbox::Outbox;
use crate::link::{Delivery, End, arrive};
use crate::orders::{TunnelSettings, TunnelStats};
use crate::pools::Pools;
use crate::tables::{Shared, count};

/// Time for which an awake worker does not check its sockets after one check without packets: a
/// check is a system call. A sleeping worker is woken.
const PAUSE: Duration = Duration::from_micros(10);

/// Most packets that are received in a round.
const MOST_PACKETS: u64 = 256;

/// The end of a link to another machine.
pub(crate) struct Tunnel {
    settings: TunnelSettings,
    socket: OwnedFd,
    sender: Sender,
    receiver: Receiver,
    sent: TunnelStats,
}

/// A receiving socket, and its links.
struct Underlay {
    local: SocketAddr,
    socket: OwnedFd,
    /// Numbers of sending interfaces, by the link's number and the other machine.
    links: HashMap<(u32, IpAddr), u32>,
}

/// All tunnels, as one worker has them.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// By number of the sending interface.
    all: Vec<Option<Box<Tunnel>>>,
    underlays: Vec<Underlay>,
    outbox: Outbox,
    /// For IPv4 and for IPv6: the kernel keeps the length of the last address there.
    inboxes: [Inbox; 2],
    look_at: Option<Instant>,
    /// Received packets of no link.
    pub(crate) foreign: u64,
    /// Received packets that are not Europa's.
    pub(crate) malformed: u64,
}

/// A tunnel, and where its packets are gathered.
pub(crate) struct Leaving<'a> {
    tunnel: &'a mut Tunnel,
    outbox: &'a mut Outbox,
}

impl Leaving<'_> {
    /// Copies a frame out of its slot. False if it cannot leave, which is counted.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        shared: &Shared,
        from: &europa_pool::PoolView,
        packet: crate::queue::Queued,
    ) -> bool {
        self.outbox.add(shared, self.tunnel, from, packet)
    }

    /// Sends the copied frames.
    pub(crate) fn finish(&mut self, shared: &Shared) {
        self.outbox.send(shared, self.tunnel);
    }
}

impl Tunnels {
    /// The tunnel of an interface.
    #[inline]
    pub(crate) fn of(&mut self, interface: u32) -> Option<Leaving<'_>> {
        let tunnel = self.all.get_mut(interface as usize)?.as_deref_mut()?;
        Some(Leaving { tunnel, outbox: &mut self.outbox })
    }

    /// Whether there is a socket to check.
    #[inline]
    pub(crate) fn listens(&self) -> bool {
        !self.underlays.is_empty()
    }

    /// Sets up or changes the tunnel of an interface. Sequence, counters and unfinished frames of
    /// an existing one stay.
    pub(crate) fn set(
        &mut self,
        interface: u32,
        settings: TunnelSettings,
        [receives, sends]: [OwnedFd; 2],
    ) {
        let TunnelSettings { local, remote, id, epoch, send_key, receive_key, .. } = settings;
        let (most, longest) = (settings.most_bytes as usize, settings.most_frame_bytes as usize);
        self.unlink(interface);
        let tunnel = self.all.get_mut(interface as usize).and_then(Option::take);
        let tunnel = match tunnel {
            Some(mut there) if there.settings.most_frame_bytes == settings.most_frame_bytes => {
                there.sender.change(id, send_key, epoch);
                there.sender.set_most_bytes(most);
                there.receiver.change(receive_key, epoch);
                Box::new(Tunnel { settings, socket: sends, ..*there })
            }
            _ => {
                let (key, session, sequence) = (send_key, settings.session, 0);
                let header = Header { id, key, epoch, session, sequence, part: None };
                Box::new(Tunnel {
                    sender: Sender::new(header, most),
                    receiver: Receiver::new(receive_key, epoch, longest),
                    settings,
                    socket: sends,
                    sent: TunnelStats { interface, ..TunnelStats::default() },
                })
            }
        };
        let place = interface as usize;
        if self.all.len() <= place {
            self.all.resize_with(place + 1, || None);
        }
        self.all[place] = Some(tunnel);
        let underlay = match self.underlays.iter().position(|one| one.local == local) {
            Some(at) => at,
            None => {
                self.underlays.push(Underlay { local, socket: receives, links: HashMap::new() });
                self.underlays.len() - 1
            }
        };
        if let Some(underlay) = self.underlays.get_mut(underlay) {
            underlay.links.insert((id, remote), interface);
        }
        self.close_unused();
    }

    /// Forgets the tunnel of an interface.
    pub(crate) fn remove(&mut self, interface: u32) {
        self.unlink(interface);
        if let Some(place) = self.all.get_mut(interface as usize) {
            *place = None;
        }
        self.close_unused();
    }

    fn unlink(&mut self, interface: u32) {
        for underlay in &mut self.underlays {
            underlay.links.retain(|_, other| *other != interface);
        }
    }

    fn close_unused(&mut self) {
        self.underlays.retain(|underlay| !underlay.links.is_empty());
    }

    /// The receiving sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (SocketAddr, &OwnedFd)> {
        self.underlays.iter().map(|underlay| (underlay.local, &underlay.socket))
    }

    /// The settings of all tunnels, by their interfaces.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (u32, TunnelSettings)> + '_ {
        (0..).zip(&self.all).filter_map(|(id, tunnel)| Some((id, tunnel.as_ref()?.settings)))
    }

    /// Counters of all tunnels.
    pub(crate) fn statistics(&mut self, now_ns: u64) -> Vec<TunnelStats> {
        let all = self.all.iter_mut().flatten().map(|tunnel| {
            tunnel.receiver.expire(now_ns);
            TunnelStats { reception: tunnel.receiver.counted(), ..tunnel.sent }
        });
        all.collect()
    }

    /// Receives packets. Returns their number, and the number of frames for interfaces.
    pub(crate) fn receive(
        &mut self,
        pools: &Pools,
        shared: &Shared,
        now: Instant,
        now_ns: u64,
    ) -> (u64, u64) {
        if self.look_at.is_some_and(|at| now < at) {
            return (0, 0);
        }
        let (mut packets, mut frames) = (0, 0);
        let Self { all, underlays, inboxes: [v4, v6], foreign, malformed, .. } = self;
        for underlay in underlays {
            let mut arriving = Arriving { pools, shared, last: None, frames: 0 };
            let inbox = if underlay.local.is_ipv4() { &mut *v4 } else { &mut *v6 };
            let mut taken = 0;
            while taken < MOST_PACKETS {
                let more = inbox.receive(&underlay.socket, |from, bytes| {
                    let Ok((header, payload)) = Header::read(bytes) else {
                        *malformed += 1;
                        return;
                    };
                    let tunnel = underlay.links.get(&(header.id, from));
                    let tunnel = tunnel.and_then(|id| all.get_mut(*id as usize)?.as_deref_mut());
                    let Some(tunnel) = tunnel else {
                        *foreign += 1;
                        return;
                    };
                    let received = tunnel.receiver.receive(now_ns, &header, payload);
                    if let Received::Frame(frame) = received {
                        arriving.deliver(tunnel.settings.to, frame);
                    }
                });
                taken += more as u64;
                if more < inbox::BATCH {
                    break;
                }
            }
            arriving.finish();
            packets += taken;
            frames += arriving.frames;
        }
        self.look_at = (packets == 0).then_some(now + PAUSE);
        (packets, frames)
    }
}

/// Frames for interfaces.
struct Arriving<'a> {
    pools: &'a Pools,
    shared: &'a Shared,
    /// The end of the last frame, usually also of the next one.
    last: Option<(u32, End<'a>)>,
    frames: u64,
}

impl Arriving<'_> {
    fn deliver(&mut self, to: u32, frame: &[u8]) {
        if self.last.as_ref().is_none_or(|(last, _)| *last != to) {
            self.finish();
            self.last = End::of(to, self.shared, self.pools).map(|end| (to, end));
        }
        match &self.last {
            Some((_, end)) => {
                let delivered = arrive(self.shared, frame, end) == Delivery::Done;
                self.frames += u64::from(delivered);
            }
            // Its router restarts.
            None => count!(self.shared, to, rx_drop_ring, 1),
        }
    }

    /// Wakes the receiver of the last frames if it sleeps.
    fn finish(&mut self) {
        if let Some((_, end)) = self.last.take() {
            end.pool.rouse();
        }
    }
}
