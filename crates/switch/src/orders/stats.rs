//! The counters of a switch.

use europa_impair::Statistics;
use europa_router::GuestStats;
use serde::{Deserialize, Serialize};

use super::tunnel::TunnelStats;

/// The counters of a switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SwitchStats {
    /// Runs of the transmit program.
    pub kicks: u64,
    /// Frames that were sent as live frames.
    pub live_frames: u64,
    /// System calls that sent frames by sockets.
    pub socket_calls: u64,
    /// Frames that left by a socket.
    pub socket_frames: u64,
    /// Frames that passed links.
    pub link_frames: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Each port.
    pub ports: Vec<PortStats>,
    /// Each direction of a link with effects on packets.
    pub links: Vec<LinkStats>,
    /// Each router that runs inside it.
    pub inline: Vec<InlineStats>,
    /// Each link to another machine.
    pub tunnels: Vec<TunnelStats>,
    /// Packets at sockets of tunnels that are of no link.
    pub foreign_packets: u64,
    /// Packets at these sockets that are not packets of links.
    pub malformed_packets: u64,
}

/// The counters of a router inside the switch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct InlineStats {
    /// Number of its pool.
    pub pool: u32,
    /// Its counters.
    pub router: GuestStats,
}

/// The counters of a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortStats {
    /// Number of the port.
    pub port: u32,
    /// Packets that wait.
    pub queued: usize,
    /// Most packets that have waited.
    pub queued_peak: usize,
    /// Frames that one kick may carry now.
    pub kick_frames: u32,
}

/// The counters of one direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkStats {
    /// Number of the interface that sends.
    pub interface: u32,
    /// Counters of packets.
    pub packets: Statistics,
}
