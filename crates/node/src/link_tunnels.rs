//! Links to other machines: their UDP sockets, and the switch's orders about them.
//!
//! The node opens the sockets, as the switch may not, and keeps copies: a restarted switch gets the
//! same sockets with the packets that have arrived since. A new node gets the sockets of an adopted
//! switch from the switch.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_api::stats::TunnelStats;
use europa_api::{Fault, Key};
use europa_plan::{FarEnd, RouterPlan};
use europa_port::{connect_tunnel, listen_for_tunnels, most_payload_bytes};
use europa_switch::orders::{Answer, Order, TunnelSettings, TunnelStats as Counted};

use crate::NodeError;
use crate::switch::Switch;

/// Longest UDP payload: the size of the switch's buffer.
const MOST_BYTES: usize = 16 << 10;

/// A tunnel that the switch has.
struct Told {
    /// `None` if that switch has ended.
    settings: Option<TunnelSettings>,
    /// The sending socket; `None` if its node has ended.
    sends: Option<(SocketAddr, OwnedFd)>,
}

/// See the file.
pub(crate) struct LinkTunnels {
    /// When the next hops of tunnels were looked at.
    looked: Instant,
    /// Sockets for packets that come in, by local address and port.
    sockets: Vec<(SocketAddr, OwnedFd)>,
    /// By number of the sending interface.
    told: RefCell<BTreeMap<u32, Told>>,
}

/// The interfaces of a tunnel: the sending one, the receiving one, and the longest frame there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) most_frame_bytes: u32,
}

impl Default for LinkTunnels {
    fn default() -> Self {
        Self { looked: Instant::now(), sockets: Vec::new(), told: RefCell::default() }
    }
}

impl LinkTunnels {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.sockets.clear();
        self.told.borrow_mut().clear();
    }

    /// The next time for a look at next hops, every so often.
    pub(crate) fn due(&self, every: Duration) -> Instant {
        self.looked + every
    }

    /// Whether that is now. This is asked once each time.
    pub(crate) fn is_due(&mut self, every: Duration) -> bool {
        let is_due = self.looked.elapsed() >= every;
        if is_due {
            self.looked = Instant::now();
        }
        is_due
    }

    /// Has a socket for the packets of a link, opened if there is none yet.
    ///
    /// # Errors
    /// The machine does not have the address, or another program has the port.
    pub(crate) fn open(&mut self, end: &FarEnd) -> Result<(), NodeError> {
        if self.sockets.iter().any(|(local, _)| *local == end.local) {
            return Ok(());
        }
        match listen_for_tunnels(end.local) {
            Ok(socket) => {
                self.sockets.push((end.local, socket));
                Ok(())
            }
            Err(error) => Err(refused(end, &error)),
        }
    }

    /// Has sockets for the links of a router to other machines.
    pub(crate) fn open_all(&mut self, plan: &RouterPlan) -> Result<(), NodeError> {
        let mut ends = plan.interfaces.iter().filter_map(|interface| interface.to.far());
        ends.try_for_each(|end| self.open(end))
    }

    /// Sends the settings of a tunnel to a switch. Without a route, frames are dropped until there is
    /// one: see [`Self::follow`].
    pub(crate) fn tell(
        &self,
        switch: &mut Switch,
        end: &FarEnd,
        ends: Ends,
    ) -> Result<(), NodeError> {
        let Some((_, receives)) = self.sockets.iter().find(|(local, _)| *local == end.local) else {
            return Ok(());
        };
        let mut told = self.told.borrow_mut();
        let before = told.remove(&ends.from).and_then(|told| told.sends);
        let same = |(remote, socket): &(SocketAddr, OwnedFd)| {
            *remote == end.remote && sends_from(socket, end.local)
        };
        let sends = match before.filter(same) {
            Some((_, socket)) => socket,
            None => match connect_tunnel(end.local.ip(), end.remote) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::warn!("link {}: no way to {}: {error}", end.link, end.remote);
                    // The former tunnel leads elsewhere.
                    let _ = switch.order(&Order::RemoveTunnel { interface: ends.from }, &[]);
                    return Ok(());
                }
            },
        };
        let mut session = [0; 4];
        getrandom::fill(&mut session).map_err(|error| NodeError::Refused(error.to_string()))?;
        let settings = TunnelSettings {
            to: ends.to,
            local: end.local,
            remote: end.remote.ip(),
            id: end.id,
            epoch: end.epoch,
            send_key: europa_tunnel::Key(end.send_key.0),
            receive_key: europa_tunnel::Key(end.receive_key.0),
            session: u32::from_ne_bytes(session),
            most_bytes: most_bytes(&sends, end),
            most_frame_bytes: ends.most_frame_bytes,
        };
        let order = Order::Tunnel { interface: ends.from, settings };
        let answer = switch.order(&order, &[receives.as_fd(), sends.as_fd()]).map(drop);
        told.insert(ends.from, Told { settings: Some(settings), sends: Some((end.remote, sends)) });
        answer
    }

    /// Whether the switch has a tunnel in its desired form.
    pub(crate) fn is_told(&self, end: &FarEnd, ends: Ends) -> bool {
        let told = self.told.borrow();
        let settings = told.get(&ends.from).and_then(|told| told.settings);
        settings.is_some_and(|settings| {
            let TunnelSettings { session, most_bytes, .. } = settings;
            settings
                == TunnelSettings {
                    to: ends.to,
                    local: end.local,
                    remote: end.remote.ip(),
                    id: end.id,
                    epoch: end.epoch,
                    send_key: europa_tunnel::Key(end.send_key.0),
                    receive_key: europa_tunnel::Key(end.receive_key.0),
                    most_frame_bytes: ends.most_frame_bytes,
                    session,
                    most_bytes,
                }
        })
    }

    /// Removes the tunnel of an interface from a switch. A switch that has just ended does not get
    /// the order.
    pub(crate) fn remove(&self, switch: Option<&mut Switch>, interface: u32) {
        let was_told = self.told.borrow_mut().remove(&interface).is_some();
        if let (true, Some(switch)) = (was_told, switch) {
            let _ = switch.order(&Order::RemoveTunnel { interface }, &[]);
        }
    }

    /// The switch has ended: the next one has no tunnels.
    pub(crate) fn forget(&self) {
        // The sending sockets remain open, and keep their ports.
        self.told.borrow_mut().values_mut().for_each(|told| told.settings = None);
    }

    /// Takes over the tunnels of an adopted switch, and copies of its sockets.
    pub(crate) fn adopt(
        &mut self,
        switch: &mut Switch,
        served: &[(u32, TunnelSettings)],
    ) -> Result<(), NodeError> {
        if served.is_empty() {
            return Ok(());
        }
        let (answer, sockets) = switch.ask(&Order::TunnelSockets, &[])?;
        if let Answer::Sockets(locals) = answer {
            self.sockets = locals.into_iter().zip(sockets).collect();
        }
        let told = served
            .iter()
            .map(|(id, settings)| (*id, Told { settings: Some(*settings), sends: None }));
        self.told = RefCell::new(told.collect());
        Ok(())
    }

    /// Sends the switch the tunnels that it lacks, and those whose underlay has a new MTU. `all`:
    /// every link to another machine.
    pub(crate) fn follow(&mut self, switch: &mut Switch, all: &[(FarEnd, Ends)]) {
        let locals: HashSet<SocketAddr> = all.iter().map(|(end, _)| end.local).collect();
        self.sockets.retain(|(local, _)| locals.contains(local));
        for (end, ends) in all {
            if let Err(error) = self.open(end) {
                tracing::warn!("{error}");
                continue;
            }
            let known = self.told.borrow().get(&ends.from).and_then(|told| {
                let now = told.sends.as_ref().map(|(_, socket)| most_bytes(socket, end));
                Some((told.settings?.most_bytes, now))
            });
            let stays = known.is_some_and(|(before, now)| now.is_none_or(|now| now == before));
            if stays && self.is_told(end, *ends) {
                self.look(end, *ends);
                continue;
            }
            if let Err(error) = self.tell(switch, end, *ends) {
                tracing::warn!("link {}: {error}", end.link);
            }
        }
    }

    /// Opens a socket beside that of a former node, to ask the kernel for the underlay's MTU.
    fn look(&self, end: &FarEnd, ends: Ends) {
        if let Some(told) = self.told.borrow_mut().get_mut(&ends.from)
            && told.sends.is_none()
        {
            let opened = connect_tunnel(end.local.ip(), end.remote).ok();
            told.sends = opened.map(|socket| (end.remote, socket));
        }
    }

    /// The counters of a link.
    pub(crate) fn stats(name: String, end: &FarEnd, at: String, found: &Counted) -> TunnelStats {
        let of = &found.reception;
        let drops = [
            ("wrong key", of.wrong_key),
            ("lower epoch", of.lower_epoch),
            ("twice or too late", of.twice),
            ("impossible part of a frame", of.wrong_part),
            ("bad length", of.wrong_length),
            ("parts of the frame missing", of.unfinished),
            ("longer than the underlay carries", found.too_long),
            ("refused by the kernel", found.refused),
        ];
        let drops = drops.into_iter().filter(|(_, count)| *count > 0);
        TunnelStats {
            name,
            end: at,
            local: end.local.ip().to_string(),
            remote: end.remote.ip().to_string(),
            port: end.local.port(),
            id: end.id,
            epoch: end.epoch,
            tx_frames: found.tx_frames,
            tx_bytes: found.tx_bytes,
            tx_packets: found.tx_packets,
            rx_frames: of.frames,
            rx_bytes: of.bytes,
            rx_packets: of.packets,
            lost: of.lost,
            reordered: of.reordered,
            drops: drops.map(|(cause, count)| (cause.to_owned(), count)).collect(),
        }
    }
}

fn sends_from(socket: &OwnedFd, local: SocketAddr) -> bool {
    let copy = socket.try_clone().map(std::net::UdpSocket::from);
    copy.and_then(|socket| socket.local_addr()).is_ok_and(|own| own.ip() == local.ip())
}

/// The longest UDP payload to the other end.
fn most_bytes(sends: &OwnedFd, end: &FarEnd) -> u32 {
    let known = most_payload_bytes(sends, end.remote.ip()).unwrap_or(MOST_BYTES);
    known.min(MOST_BYTES) as u32
}

/// The reason why packets of a link cannot be received, and a remedy.
fn refused(end: &FarEnd, error: &io::Error) -> NodeError {
    let (ip, port) = (end.local.ip(), end.local.port());
    let (field, why) = match error.kind() {
        io::ErrorKind::AddrNotAvailable => (
            "local",
            format!("this machine has no address {ip}: write one of those of `ip address`"),
        ),
        io::ErrorKind::AddrInUse => (
            "port",
            format!(
                "UDP port {port} of {ip} is in use by another program: end that, or write another \
                 `port` at both nodes"
            ),
        ),
        _ => ("local", format!("opening a socket for packets to {}: {error}", end.local)),
    };
    Fault::new(Key::new("link", &*end.link), &["tunnel", field], why).into()
}
