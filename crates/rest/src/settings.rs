//! The settings of the interface, as the command line gives them.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the interface listens, beside the node's own socket.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where Prometheus asks.
    pub metrics_at: Option<SocketAddr>,
    /// Where it takes requests by TLS.
    pub listening: Option<Listening>,
}

/// Where a node takes requests by TLS.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Address and TCP port.
    pub at: SocketAddr,
    /// Files with its certificate and private key, as PEM. Default: those of an own authority.
    pub files: Option<(PathBuf, PathBuf)>,
}
