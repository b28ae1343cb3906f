//! The errors of a port, and their remedies.

use std::io;
use std::net::IpAddr;

/// The reason why a device cannot be found, read, changed or used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The namespace could not be entered.
    #[error("cannot enter the network namespace {namespace}: {source} (run as root?)")]
    Namespace {
        /// Its name, or `net:[inode]`.
        namespace: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// No device has that name.
    #[error("no device {device} in {namespace}; there are: {}", found.join(", "))]
    NoDevice {
        /// The name that was asked for.
        device: String,
        /// The namespace that was searched.
        namespace: String,
        /// The names of the existing devices.
        found: Vec<String>,
    },
    /// The device is of a kind that cannot be a port.
    #[error("{device} in {namespace} cannot be a port: {reason}; {remedy}")]
    NotAPort {
        /// The device.
        device: String,
        /// Its namespace.
        namespace: String,
        /// The reason.
        reason: &'static str,
        /// The alternative.
        remedy: &'static str,
    },
    /// The kernel refused an operation on a device.
    #[error("{device} in {namespace}: cannot {doing}: {source}")]
    Kernel {
        /// The device.
        device: String,
        /// Its namespace.
        namespace: String,
        /// The attempted operation, as the words after "cannot".
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// No route leads to an address.
    #[error("no route to {to} in {namespace}: {source}; add one with `ip route add`")]
    NoRoute {
        /// The destination.
        to: IpAddr,
        /// The namespace that was searched.
        namespace: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The address has a route, but it does not lead out of a device.
    #[error("{to} is no remote in {namespace}: its route is {found}, not unicast")]
    NotRemote {
        /// The destination.
        to: IpAddr,
        /// The namespace that was searched.
        namespace: String,
        /// The type of the route.
        found: &'static str,
    },
    /// No neighbour answered for the next hop within the allowed time.
    #[error(
        "{hop}, the next hop to {to}, does not answer on {device} in {namespace}; \
         is it up and in the same network?"
    )]
    NoNeighbour {
        /// The destination.
        to: IpAddr,
        /// The next hop that was asked.
        hop: IpAddr,
        /// On which device.
        device: String,
        /// The namespace that was searched.
        namespace: String,
    },
}
