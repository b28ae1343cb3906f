//! Links to other machines: their settings and counters.

use std::net::{IpAddr, SocketAddr};

use europa_tunnel::{Key, Reception};
use serde::{Deserialize, Serialize};

/// The settings of a link to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelSettings {
    /// Number of the interface for received frames.
    pub to: u32,
    /// Address and port of this machine.
    pub local: SocketAddr,
    /// Address of the other machine.
    pub remote: IpAddr,
    /// The link's number.
    pub id: u32,
    /// The epoch.
    pub epoch: u64,
    /// The key in packets that leave.
    pub send_key: Key,
    /// The key in received packets.
    pub receive_key: Key,
    /// A number that no earlier tunnel of this link had. A tunnel that continues keeps its own.
    pub session: u32,
    /// Longest UDP payload that the underlay carries.
    pub most_bytes: u32,
    /// Longest frame.
    pub most_frame_bytes: u32,
}

/// The counters of a link to another machine.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TunnelStats {
    /// Number of the interface that sends.
    pub interface: u32,
    /// Frames that left.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that left.
    pub tx_packets: u64,
    /// Packets that the underlay does not carry.
    pub too_long: u64,
    /// Packets that the kernel refused for another reason.
    pub refused: u64,
    /// Counters of received packets.
    pub reception: Reception,
}
