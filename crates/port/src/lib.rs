//! Port drivers: kernel devices that Europa owns.
//!
//! A [`Device`] holds the facts about a device. [`prepare`] makes it suitable as a port, and
//! [`Undo`] restores it. [`open_socket`] sends frames that live frames cannot carry.
//! [`DropCounters`] counts the losses in drivers, and [`next_hop`] finds the next hop of a tunnel's
//! packets.
//!
//! [`make_veth`] and similar functions make namespaces and devices that belong to Europa.
//!
//! All of this is control work: system calls that may wait for the kernel's device lock. Do not use
//! any of it on the packet path.

// ioctl, mmap and socket options that no crate wraps; only in `ethtool`, `guarded`, `listener`,
// `socket`, `tun` and `tunnel`.
#![allow(unsafe_code)]

mod defaults;
mod device;
mod drops;
mod error;
mod ethtool;
mod guarded;
mod limitation;
mod listener;
mod make;
mod namespace;
mod neighbour;
pub mod netlink;
mod offloads;
mod prepare;
mod senders;
mod socket;
mod steering;
mod survey;
mod tun;
mod tunnel;
mod undo;
mod xdp;

pub use defaults::set_defaults;
pub use device::{Device, Kind, Link, LinkState, Links, Peer, link};
pub use drops::{DropCounters, Drops, counter_socket};
pub use error::PortError;
pub use limitation::Limitation;
pub use listener::{Frame, Merged, Partial, prepare_listener, receive};
pub use make::{
    End, Route, add_address, add_route, delete_address, delete_device, delete_route, delete_veths,
    device_index, make_quiet_veth, make_veth, move_device, name_path, set_mac, set_mtu, set_up,
};
pub use namespace::{Namespace, in_namespace};
pub use neighbour::{NextHop, next_hop};
pub use prepare::{Prepared, Wants, before, prepare, refuse, takes_frames};
pub use senders::{Sent, sent_by_peer};
pub use socket::{is_out, open_listener, open_queued, open_socket, set_promiscuous};
pub use survey::{Survey, SurveyedDevice, SurveyedRoute};
pub use tun::make_tun;
pub use tunnel::{connect_tunnel, listen_for_tunnels, most_payload_bytes};
pub use undo::{Change, Undo};
pub use xdp::XdpFeatures;
