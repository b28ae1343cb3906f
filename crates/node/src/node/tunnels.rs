//! Tunnels: the outer headers of VXLAN follow their next hops, and links to other machines follow
//! the underlay's MTU.

use std::time::{Duration, Instant};

use europa_api::stats::TunnelStats;
use europa_plan::{FarEnd, RouterPlan, Tunnel, vxlan_header};
use europa_switch::orders::SwitchStats;

use super::Node;
use crate::NodeError;
use crate::link_tunnels::{Ends, LinkTunnels};
use crate::ports::Port;

/// How long a next hop may take to answer when a tunnel is brought up.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// Interval of checks of tunnels' next hops.
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

impl Node {
    /// Opens sockets for a router's links to other machines.
    pub(super) fn open_far_ends(&mut self, plan: &RouterPlan) -> Result<(), NodeError> {
        let mut ends = plan.interfaces.iter().filter_map(|interface| interface.to.far());
        ends.try_for_each(|end| self.link_tunnels.open(end))
    }

    /// All links to other machines: each far end, and the interfaces of the near end.
    pub(super) fn far_ends(&self) -> Vec<(FarEnd, Ends)> {
        let of_routers = self.routers.iter().flat_map(|router| {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            all.filter_map(|(interface, id)| {
                let most_frame_bytes = interface.spec.max_frame;
                let ends = Ends { from: *id, to: *id, most_frame_bytes };
                Some((interface.to.far()?.clone(), ends))
            })
        });
        let of_hosts = self.relays.iter().filter_map(|relay| relay.far());
        of_routers.chain(of_hosts).collect()
    }

    /// The counters of all links to other machines.
    pub(super) fn tunnel_stats(&self, switch: Option<&SwitchStats>) -> Vec<TunnelStats> {
        let counted = switch.map_or(&[][..], |switch| &switch.tunnels);
        let far = self.far_ends();
        let name = |from: u32| {
            let of_router = self.routers.iter().find_map(|router| {
                let at = router.interfaces.iter().position(|id| *id == from)?;
                let interface = router.plan.interfaces.get(at)?;
                Some(format!("{}.{}", router.plan.name, interface.name))
            });
            let relay = self.relays.iter().find(|relay| relay.interface == from);
            of_router.or_else(|| relay.map(|relay| relay.plan.port.to_string()))
        };
        let of = |(end, ends): &(FarEnd, Ends)| {
            let found = counted.iter().find(|one| one.interface == ends.from).copied();
            let at = name(ends.from).unwrap_or_default();
            LinkTunnels::stats(end.link.to_string(), end, at, &found.unwrap_or_default())
        };
        far.iter().map(of).collect()
    }

    /// Follows the underlay's MTU and new routes.
    pub(super) fn follow_far_ends(&mut self) {
        // Current steps open sockets for new objects.
        if !self.engine.is_settled() {
            return;
        }
        let all = self.far_ends();
        if let Some(switch) = &mut self.switch {
            self.link_tunnels.follow(switch, &all);
        }
    }
}

/// The outer headers of a tunnel's frames: to its next hop by Linux's tables.
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
