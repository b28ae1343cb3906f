//! Routers follow what Linux knows: next hops of tunnels, and which lines were down.

use std::time::Duration;

use europa_plan::{Tunnel, vxlan_header};
use europa_router::orders::Order;
use europa_substrate::Substrate;

use super::Routers;
use super::process::Asked;
use crate::NodeError;
use crate::ports::{Port, Ports};

/// How long a next hop may take to answer when a tunnel is brought up.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

impl Routers {
    /// Whether a router sends into a tunnel.
    pub(crate) fn have_tunnels(&self) -> bool {
        let mut all = self.all.iter().flat_map(|router| &router.plan.interfaces);
        all.any(|interface| interface.tunnel.is_some())
    }

    /// Looks whether the next hops of tunnels have other addresses now.
    pub(crate) fn follow_tunnels(&mut self, substrate: &Substrate, ports: &Ports) {
        for router in &mut self.all {
            for (interface, id) in router.plan.interfaces.iter_mut().zip(&router.interfaces) {
                let (Some(tunnel), Some(name)) = (interface.tunnel, interface.to.port()) else {
                    continue;
                };
                let Some(port) = ports.iter().find(|port| port.name == **name) else {
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

    /// After a line was down, another host may be on it (RFC 1122 section 2.3.2.1). Routers that
    /// have their neighbours from Linux, or none, have no such tables.
    pub(crate) fn forget_neighbours(&mut self, port: &str) {
        for router in &mut self.all {
            let (Some(process), Some(_)) = (&mut router.process, &router.plan.description) else {
                continue;
            };
            let interfaces = router.plan.interfaces.iter().zip(0..);
            for (_, number) in interfaces.filter(|(interface, _)| interface.to.is_port(port)) {
                for table in ["arp", "nd"] {
                    let path = format!("{table}{number}.forget");
                    process.order(&Order::Write { path, value: String::new() }, Asked::Nobody);
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
