//! Links to other machines: the other end, from this node's documents.

use std::net::SocketAddr;

use europa_api::{Documents, TunnelKey};

use crate::ids::LinkId;

/// The end of a link on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// The link.
    pub link: LinkId,
    /// Address and UDP port of this node.
    pub local: SocketAddr,
    /// Address and UDP port of the other end.
    pub remote: SocketAddr,
    /// The link's number.
    pub id: u32,
    /// The epoch.
    pub epoch: u64,
    /// The key in packets that leave.
    pub send_key: TunnelKey,
    /// The key in received packets.
    pub receive_key: TunnelKey,
}

/// The far end of a link; `None` if both ends are on this node.
pub(crate) fn far_end(documents: &Documents, link: &str) -> Option<FarEnd> {
    let document = documents.links.iter().find(|document| &**document.name == link)?;
    let tunnel = &document.tunnel.as_ref()?.value;
    Some(FarEnd {
        link: LinkId::new(link),
        local: SocketAddr::new(tunnel.local.value, tunnel.port()),
        remote: SocketAddr::new(tunnel.remote.value, tunnel.port()),
        id: tunnel.id.value,
        epoch: tunnel.epoch(),
        send_key: tunnel.send_key.value,
        receive_key: tunnel.receive_key.value,
    })
}
