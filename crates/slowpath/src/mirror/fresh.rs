//! Neighbours that only the fast path uses.

use std::net::IpAddr;

use europa_port::netlink::{REPLACE, Request};
use europa_router::orders::Order;

use super::{Mirror, forward};
use crate::message::{INET, INET6, NDA_DST, NTF_USE, kind};

impl Mirror {
    /// Asks which neighbours the fast path has sent to.
    pub(super) fn ask_used(&mut self) {
        for (device, interface) in self.links.interfaces() {
            for is_v4 in [true, false] {
                self.ready.push_back(Order::Read {
                    path: format!("{}.used", forward(interface, is_v4)),
                    // Returned with the answer's place in the queue.
                    parameter: device.to_string(),
                });
            }
        }
    }

    /// Lets the kernel probe neighbours that only the fast path uses: otherwise it would not notice
    /// their loss.
    pub(super) fn keep_fresh(&mut self, device: u32, used: &str) {
        for address in self.neighbours.to_probe(device, used, self.fib4.aliases()) {
            let (family, octets) = match address {
                IpAddr::V4(address) => (INET, address.octets().to_vec()),
                IpAddr::V6(address) => (INET6, address.octets().to_vec()),
            };
            let mut body = vec![family, 0, 0, 0];
            body.extend(device.to_ne_bytes());
            // No state: unchanged. NTF_USE: has the effect of a sent packet.
            body.extend([0, 0, NTF_USE, 0]);
            let mut request = Request::new(kind::NEWNEIGH, REPLACE, &body).with(NDA_DST, &octets);
            if let Err(error) = self.lists.talk(&mut request, |_, _| ()) {
                tracing::debug!("router {}: neighbour {address}: {error}", self.spec.router);
            }
        }
    }
}
