//! The packets that a veth's peer sends, by kind.

use std::io;
use std::os::fd::AsFd;

use crate::device::{Device, Peer, identity};
use crate::ethtool::{Ethtool, Strings};
use crate::netlink::{Netlink, long_number};

/// Frames that the peer of a veth has sent since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Live frames of XDP.
    pub live: u64,
    /// All packets; an unsegmented packet counts as one.
    pub all: u64,
}

impl Sent {
    /// The packets sent since `before`.
    #[must_use]
    pub fn since(self, before: Sent) -> Sent {
        Sent {
            live: self.live.saturating_sub(before.live),
            all: self.all.saturating_sub(before.all),
        }
    }
}

/// The packets of a veth's peer; `None` if the peer cannot be reached. It enters the peer's
/// namespace only for the call, because an open socket there would keep the namespace alive. It
/// waits for the kernel's device lock.
///
/// # Errors
/// When the device is gone.
pub fn sent_by_peer(device: &Device) -> io::Result<Option<Sent>> {
    let Peer::At { namespace, index, .. } = &device.peer else { return Ok(None) };
    let mut netlink = Netlink::route(namespace)?;
    let link = identity(&mut netlink, *index)?;
    let ethtool = Ethtool::new(netlink.as_fd(), &link.name);
    let names = ethtool.strings(Strings::Statistics)?;
    let mut memory = Ethtool::statistics_memory(names.len())?;
    // If a device's queues have just changed, its statistics are read next time.
    ethtool.statistics(&mut memory, names.len())?;
    let value = |at: usize| long_number(memory.bytes(), 8 + at * 8).unwrap_or(0);
    let live = |name: &str| name.starts_with("tx_queue_") && name.ends_with("_xdp_xmit");
    let live = (0..).zip(&names).filter(|(_, name)| live(name)).map(|(at, _)| value(at)).sum();
    Ok(Some(Sent { live, all: link.sent }))
}
