//! The settings of the interface, as the command line gives them.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The addresses of the interface, in addition to the node's own socket.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The address for Prometheus.
    pub metrics_at: Option<SocketAddr>,
    /// The address for TLS.
    pub listening: Option<Listening>,
}

/// The settings of a TLS listener.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Address and TCP port.
    pub at: SocketAddr,
    /// Files with its certificate and private key, as PEM. Default: those of an own authority.
    pub files: Option<(PathBuf, PathBuf)>,
}
