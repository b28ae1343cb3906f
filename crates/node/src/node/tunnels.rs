//! Tunnels' outer headers follow their next hops.

use std::time::{Duration, Instant};

use europa_plan::{Tunnel, vxlan_header};

use super::Node;
use crate::NodeError;
use crate::ports::Port;

/// How long a next hop may take to answer when a tunnel is brought up.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How often the next hops of tunnels are looked at.
pub(super) const TUNNELS_EVERY: Duration = Duration::from_secs(10);

impl Node {
    /// Looks whether the next hops of tunnels have other addresses now.
    pub(super) fn follow_tunnels(&mut self) {
        if self.tunnels_looked.elapsed() < TUNNELS_EVERY {
            return;
        }
        self.tunnels_looked = Instant::now();
        let Some(substrate) = &self.substrate else { return };
        for router in &mut self.routers {
            for (interface, id) in router.plan.interfaces.iter_mut().zip(&router.interfaces) {
                let (Some(tunnel), Some(name)) = (interface.tunnel, interface.to.port()) else {
                    continue;
                };
                let Some(port) = self.ports.iter().find(|port| port.name == **name) else {
                    continue;
                };
                // A next hop that does not answer is asked again; the node does not wait for it.
                match encap(port, tunnel, Duration::ZERO) {
                    Ok(header) if header != interface.spec.encap => {
                        substrate.set_encap(*id, &header);
                        interface.spec.encap = header;
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!("router {}: {error}", router.plan.name),
                }
            }
        }
    }
}

/// Headers that go before each frame of a tunnel: to its next hop, as Linux knows it.
pub(super) fn encap(port: &Port, tunnel: Tunnel, patience: Duration) -> Result<Vec<u8>, NodeError> {
    let hop = europa_port::next_hop(&port.device.namespace, tunnel.remote, patience)?;
    if hop.device != port.device.index {
        return Err(NodeError::Refused(format!(
            "the tunnel to {} is on port {}, but the route there leads through another device \
             than {}",
            tunnel.remote, port.name, port.device.name
        )));
    }
    vxlan_header(tunnel, port.device.mac, hop.mac).map_err(NodeError::Refused)
}
