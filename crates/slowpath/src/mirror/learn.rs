//! The entries of a fast path from another mirror: reads its tables, and sends the differences.

use europa_router::orders::{Answer, Order};
use ipnet::IpNet;

use super::{Learns, Mirror, PART_BITS, ROUTES, ROUTES6, forward};

impl Mirror {
    /// Asks for the fast path's entries.
    pub(super) fn ask_tables(&mut self) {
        let read = |path: &str, parameter: String| Order::Read { path: path.into(), parameter };
        let mut reads = Vec::new();
        for (path, all) in [(ROUTES, "0.0.0.0/0"), (ROUTES6, "::/0")] {
            reads.push(read(path, all.into()));
        }
        for (device, interface) in self.links.interfaces() {
            for is_v4 in [true, false] {
                let path = format!("{}.table", forward(interface, is_v4));
                reads.push(read(&path, device.to_string()));
            }
        }
        self.learns = Learns::Waits(reads.len());
        self.ready.extend(reads);
    }

    /// Takes in which routes the fast path has inside a prefix. It gets the differences.
    pub(super) fn learn_routes(&mut self, within: IpNet, answer: Answer) {
        match answer {
            Answer::Done(text) => {
                for (prefix, way) in text.lines().filter_map(|line| line.split_once('\t')) {
                    if let Ok(prefix) = prefix.parse() {
                        self.learn_route(prefix, way.replace('\t', " "));
                    }
                }
            }
            Answer::TooLong(_) => {
                let longest = within.prefix_len() + PART_BITS;
                // The requests for parts do not return prefixes that are shorter than the part's
                // own prefix.
                for length in within.prefix_len()..longest {
                    for prefix in within.subnets(length).into_iter().flatten() {
                        self.learn_route(prefix, String::new());
                    }
                }
                let path = if within.addr().is_ipv4() { ROUTES } else { ROUTES6 };
                for part in within.subnets(longest).into_iter().flatten() {
                    self.ready
                        .push_back(Order::Read { path: path.into(), parameter: part.to_string() });
                    if let Learns::Waits(left) = &mut self.learns {
                        *left += 1;
                    }
                }
            }
            Answer::Refused(why) | Answer::Ended(why) => tracing::warn!(
                "router {}: routes that went while no node ran may stay until it is restarted: \
                 {why}",
                self.spec.router
            ),
        }
        self.learnt();
    }

    fn learn_route(&mut self, prefix: IpNet, way: String) {
        match prefix {
            IpNet::V4(net) => self.fib4.learn((u32::from(net.addr()), net.prefix_len()), way),
            IpNet::V6(net) => self.fib6.learn((u128::from(net.addr()), net.prefix_len()), way),
        }
    }

    pub(super) fn learnt(&mut self) {
        if let Learns::Waits(left) = &mut self.learns {
            *left = left.saturating_sub(1);
        }
    }
}
