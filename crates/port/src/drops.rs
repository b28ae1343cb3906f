//! Frames lost in drivers: live frames cause no back-pressure, only counters.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::SockProtocol;

use crate::device::{Device, identity};
use crate::error::PortError;
use crate::ethtool::{Ethtool, Strings};
use crate::guarded::Guarded;
use crate::netlink::{Netlink, Request, attribute, long_number, open};

const GETSTATS: u16 = 94;
const STATS_LINK_64: u16 = 1;
/// Length of `struct if_stats_msg`.
const STATS_BYTES: usize = 12;
/// Indices in `struct rtnl_link_stats64`.
const RX_PACKETS: usize = 0;
const RX_DROPPED: usize = 6;
const TX_DROPPED: usize = 7;
const RX_MISSED: usize = 15;

/// Frames lost since the device was made. The numbers of a device never decrease while it keeps its
/// queues, so use differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Frames that the driver did not accept from XDP, as the driver counts them. For drivers
    /// without this counter (tap), it is the same as `transmit`.
    pub live_frames: u64,
    /// Frames from sockets that the device did not send; for veth and tap also frames from XDP.
    /// They may be the same frames as in `live_frames`.
    pub transmit: u64,
    /// Frames that were lost on receive before any program, and frames that were given to Linux and
    /// that no protocol accepted.
    pub receive: u64,
    /// Received packets, excluding lost ones.
    pub received: u64,
}

/// The counters of one device.
pub struct DropCounters {
    netlink: Netlink,
    request: Request,
    index: u32,
    name: String,
    memory: Guarded,
    /// Number of the driver's statistics.
    count: usize,
    /// Indices of the statistics that count frames refused from XDP.
    refused: Vec<usize>,
}

/// The socket through which [`DropCounters`] reads. It gives no rights, so it can be passed to a
/// process without privileges.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn counter_socket(device: &Device) -> Result<OwnedFd, PortError> {
    open(&device.namespace, SockProtocol::NetlinkRoute)
        .map_err(|source| device.refused("open a netlink socket", source))
}

impl DropCounters {
    /// A reader of the counters of device `index`, through a [`counter_socket`] of its namespace.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn new(socket: OwnedFd, index: u32) -> io::Result<Self> {
        let mut body = [0; STATS_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&1_u32.to_ne_bytes()); // filter: the first attribute
        let mut counters = Self {
            netlink: Netlink::over(socket),
            request: Request::new(GETSTATS, 0, &body),
            index,
            name: String::new(),
            memory: Guarded::new(0)?,
            count: 0,
            refused: Vec::new(),
        };
        counters.learn()?;
        Ok(counters)
    }

    /// Learns the device's name and which statistics its driver has.
    fn learn(&mut self) -> io::Result<()> {
        self.name = identity(&mut self.netlink, self.index)?.name;
        // A driver without statistics refuses the request.
        let names = Ethtool::new(self.netlink.as_fd(), &self.name)
            .strings(Strings::Statistics)
            .unwrap_or_default();
        self.count = names.len();
        self.refused = refused(&names);
        self.memory = Ethtool::statistics_memory(self.count)?;
        Ok(())
    }

    /// Reads the counters. This takes two system calls and their answers, and allocates only if the
    /// device's name or queues have changed. Both calls wait for the kernel's device lock, so do
    /// not call this in a packet loop.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&mut self) -> io::Result<Drops> {
        let mut drops = Drops::default();
        self.netlink.talk(&mut self.request, |_, answer| {
            let link = attribute(answer, STATS_BYTES, STATS_LINK_64).unwrap_or_default();
            let at = |place: usize| long_number(link, place * 8).unwrap_or(0);
            drops.received = at(RX_PACKETS);
            drops.transmit = at(TX_DROPPED);
            drops.receive = at(RX_DROPPED).wrapping_add(at(RX_MISSED));
        })?;
        drops.live_frames = self.live_frames()?.unwrap_or(drops.transmit);
        Ok(drops)
    }

    /// The driver's counter; `None` if it has none.
    fn live_frames(&mut self) -> io::Result<Option<u64>> {
        // The second attempt is for a device whose name or queues have changed.
        for _ in 0..2 {
            if self.refused.is_empty() {
                return Ok(None);
            }
            let ethtool = Ethtool::new(self.netlink.as_fd(), &self.name);
            if ethtool.statistics(&mut self.memory, self.count).unwrap_or(false) {
                let values = self.memory.bytes();
                let value = |place: &usize| long_number(values, 8 + place * 8).unwrap_or(0);
                return Ok(Some(self.refused.iter().map(value).fold(0, u64::wrapping_add)));
            }
            self.learn()?;
        }
        Ok(None)
    }
}

/// The statistics that count frames that a driver refused from XDP. Drivers use different names;
/// those of veth, virtio, mvneta, mlx5 and similar ones are matched.
fn refused(names: &[String]) -> Vec<usize> {
    const ENDS: [&str; 6] =
        ["xmit_errors", "xdp_tx_errors", "xdp_tx_drops", "xdp_tx_err", "xdp_err", "xdp_full"];
    let matching = |per_queue: bool| {
        let numbered = move |name: &str| name.bytes().any(|byte| byte.is_ascii_digit());
        names
            .iter()
            .enumerate()
            .filter(move |(_, name)| {
                name.contains("xdp")
                    && ENDS.iter().any(|end| name.ends_with(end))
                    && numbered(name) == per_queue
            })
            .map(|(place, _)| place)
            .collect::<Vec<usize>>()
    };
    // Some drivers have both a count for each queue and a total; only one kind is used.
    let per_queue = matching(true);
    if per_queue.is_empty() { matching(false) } else { per_queue }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_that_count_refused_frames() {
        let table: [(&str, &[&str], &[usize]); 4] = [
            (
                "veth counts per queue",
                &[
                    "peer_ifindex",
                    "rx_queue_0_xdp_drops",
                    "rx_queue_0_xdp_tx_errors",
                    "tx_queue_0_xdp_xmit",
                    "tx_queue_0_xdp_xmit_errors",
                    "tx_queue_1_xdp_xmit_errors",
                ],
                &[2, 4, 5],
            ),
            (
                "virtio counts per queue and all together",
                &["rx_xdp_drops", "tx_xdp_tx_drops", "tx0_xdp_tx_drops", "tx1_xdp_tx_drops"],
                &[2, 3],
            ),
            ("a total alone will do", &["tx_packets", "tx_xdp_xmit_errors"], &[1]),
            ("no XDP, nothing", &["rx_dropped", "tx_errors", "tx_window_errors"], &[]),
        ];
        for (what, names, wanted) in table {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(refused(&names), wanted, "{what}");
        }
    }
}
