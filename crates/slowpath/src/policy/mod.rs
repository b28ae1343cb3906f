//! The settings of Linux that affect the fast path.
//!
//! The fast path knows routes, neighbours, Ethernet addresses and MTUs exactly as Linux does. Of
//! all other settings that change Linux's treatment of a packet, this detects only whether they
//! exist: then Linux gets the packets that they may concern. The fast path gets each reason in
//! words, and counts by it.
//!
//! | file       | concern                                                       |
//! |------------|---------------------------------------------------------------|
//! | `mod`      | all of it together, as texts for the fast path's elements       |
//! | `nftables` | base chains at hooks that forwarded packets pass                |
//! | `xfrm`     | policies of IPsec                                               |
//! | `rules`    | rules that choose tables of routes                              |
//! | `qdiscs`   | queueing disciplines                                            |
//! | `settings` | sysctls by netlink                                              |
//! | `polled`   | settings without notification: iptables' own tables, further sysctls |
//! | `programs` | eBPF programs at hooks of tc and netfilter                      |

pub(crate) mod nftables;
pub(crate) mod polled;
pub(crate) mod programs;
pub(crate) mod qdiscs;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod xfrm;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use europa_port::{Namespace, netlink};
use ipnet::Ipv4Net;
use nix::sys::socket::{NetlinkAddr, SockProtocol, bind};

use self::nftables::Hooks;
use self::polled::Polled;
use self::programs::Programs;
use self::qdiscs::Qdiscs;
use self::rules::{Concern, Rules};
use self::settings::Settings;
use self::xfrm::Policies;
use crate::links::Links;
use crate::message::Link;

const RULE: &str = "an ip rule asks for more than its destination";
/// The reason for packets whose source is an address of the router: no other station sends these.
pub const OWN_SOURCE: &str = "its source is an address of the router";
/// The reason for packets with labels. Linux gets them in any case: this counts them.
const LABELS: &str = "Linux has a label table";
const ENCAPSULATES: &str = "to destinations of routes with an encap: Linux puts a header in front";
const NETFILTER_PROGRAM: &str = "netfilter has an eBPF program, here or in another namespace";
/// A gate's room for prefixes and addresses of `own`, in addition to those of rules.
const MOST_OWN: [usize; 2] = [16, 4000];
/// Bytes of a frame beside the packet: Ethernet header and a VLAN tag (`is_skb_forwardable` in the
/// kernel).
const FRAME_BYTES: u32 = 14 + 4;
const REDIRECT: &str = "it leaves by the interface that it came by";

/// A netlink socket that receives changes in a namespace.
pub(crate) fn subscribe(
    namespace: &Namespace,
    protocol: SockProtocol,
    groups: u32,
) -> io::Result<OwnedFd> {
    let socket = netlink::open(namespace, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// The facts about a namespace, and the policy that the fast path has.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// Why the fast path decides nothing at all.
    pub(crate) closed: Option<&'static str>,
    pub(crate) hooks: Hooks,
    pub(crate) ipsec: Policies,
    pub(crate) rules: Rules,
    pub(crate) qdiscs: Qdiscs,
    pub(crate) settings: Settings,
    pub(crate) polled: Polled,
    pub(crate) programs: Programs,
    /// Prefixes that no other station has as its source: local and broadcast addresses.
    pub(crate) own: BTreeSet<Ipv4Net>,
    /// Incoming labels of the label table.
    pub(crate) labels: BTreeSet<u32>,
    /// Linux puts a header in front of packets of some IPv4, IPv6 routes.
    pub(crate) encapsulates: [bool; 2],
    told: HashMap<String, String>,
}

/// The policy for the fast path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Handlers with the values to write.
    pub(crate) writes: Vec<(String, String)>,
    /// All reasons, with their packets.
    pub(crate) reasons: BTreeSet<String>,
}

impl Policy {
    /// The policy of a fast path that decides nothing, for this reason.
    pub(crate) fn closed(reason: &'static str) -> Policy {
        Policy { closed: Some(reason), ..Policy::default() }
    }

    /// Takes in a change of the label table. Returns whether it begins or ceases to have entries.
    pub(crate) fn hear_label(&mut self, label: Option<u32>, is_gone: bool) -> bool {
        let was_empty = self.labels.is_empty();
        match (label, is_gone) {
            (Some(label), true) => {
                self.labels.remove(&label);
            }
            (Some(label), false) => {
                self.labels.insert(label);
            }
            (None, _) => {}
        }
        was_empty != self.labels.is_empty()
    }

    /// The differences since the last time, for each interface.
    pub(crate) fn compose(&mut self, links: &Links) -> Told {
        let mut told = Told::default();
        let concerns = [true, false].map(|is_v4| self.rules.concern(is_v4));
        for number in 0..links.count() {
            let gate = self.gate(number, links, &concerns, &mut told.reasons);
            told.writes.push((format!("gate{number}.policy"), gate));
            for is_v4 in [true, false] {
                let text = self.forward(number, is_v4, links, &mut told.reasons);
                let path = format!("{}.policy", crate::mirror::forward(number, is_v4));
                told.writes.push((path, text));
            }
        }
        if !self.labels.is_empty() {
            told.reasons.insert(format!("MPLS: {LABELS}"));
        }
        for (family, encapsulates) in ["IPv4", "IPv6"].into_iter().zip(self.encapsulates) {
            if encapsulates {
                told.reasons.insert(format!("{family} {ENCAPSULATES}"));
            }
        }
        told.writes.retain(|(path, text)| self.told.get(path) != Some(text));
        self.told.extend(told.writes.iter().cloned());
        told
    }

    /// The policy of packets received by an interface.
    fn gate(
        &self,
        number: usize,
        links: &Links,
        concerns: &[Concern; 2],
        reasons: &mut BTreeSet<String>,
    ) -> String {
        let link = links.interface(number);
        if let (None, Some(reason)) = (link, self.closed) {
            reasons.insert(format!("everything: {reason}"));
            return format!("all {reason}\n");
        }
        let Some(link) = link.filter(|link| link.up) else { return "down\n".into() };
        let mut text = own_address(link);
        let _ = writeln!(text, "longest {}", link.mtu.saturating_add(FRAME_BYTES));
        let is_shared = links.uppers(link.index).any(|upper| upper.kind != "vlan");
        let reason = self.device_reason(link, links);
        let sees_foreign = reason.is_some() || self.hooks.sees_foreign;
        if is_shared || link.promiscuous || sees_foreign {
            text += "foreign\n";
        }
        let name = links.name(number);
        if let Some(reason) = self.closed {
            reasons.insert(format!("everything: {reason}"));
            let _ = writeln!(text, "all {reason}");
            return text;
        }
        if let Some(reason) = reason {
            reasons.insert(format!("from {name}: {reason}"));
            let _ = writeln!(text, "all {reason}");
            return text;
        }
        for (is_v4, concern) in [true, false].into_iter().zip(concerns) {
            let (word, family) = if is_v4 { ("ip4", "IPv4") } else { ("ip6", "IPv6") };
            if let Some(reason) = self.family_reason(is_v4, concern) {
                reasons.insert(format!("{family}: {reason}"));
                let _ = writeln!(text, "{word} {reason}");
            } else if let Some(reason) = self.ingress_reason(is_v4, link, concern) {
                reasons.insert(format!("{family} from {name}: {reason}"));
                let _ = writeln!(text, "{word} {reason}");
            } else {
                for (direction, list) in [("from", &concern.sources), ("to", &concern.destinations)]
                {
                    for prefix in list {
                        reasons.insert(format!("{family} {direction} {prefix}: {RULE}"));
                        let _ = writeln!(text, "{direction} {prefix} {RULE}");
                    }
                }
            }
        }
        if !self.labels.is_empty() {
            let _ = writeln!(text, "mpls {LABELS}");
        }
        for prefix in self.own.iter().filter(|_| self.has_room_for_own()) {
            let _ = writeln!(text, "from {prefix} {OWN_SOURCE}");
        }
        text
    }

    /// The policy of packets sent by an interface.
    fn forward(
        &self,
        number: usize,
        is_v4: bool,
        links: &Links,
        reasons: &mut BTreeSet<String>,
    ) -> String {
        let Some(link) = links.interface(number) else { return String::new() };
        let polled = self.polled.device(&link.name);
        let mtu6 = polled.mtu6.filter(|_| !is_v4).unwrap_or(link.mtu);
        let mut text = own_address(link);
        let _ = writeln!(text, "mtu {}", link.mtu.min(mtu6));
        let reason = match self.qdiscs.has_egress(link.index) {
            true => Some("tc has a qdisc"),
            false if self.programs.of(link.index).egress => {
                Some("an eBPF program sees frames last")
            }
            false => self.master_reason(link, links),
        };
        if let Some(reason) = reason {
            reasons.insert(format!("to {}: {reason}", links.name(number)));
            let _ = writeln!(text, "all {reason}");
        }
        if !link.up {
            let _ = writeln!(text, "all the interface is down");
        }
        if !is_v4 || polled.sends_redirects {
            let _ = writeln!(text, "same {number} {REDIRECT}");
        }
        text
    }

    /// Whether a gate can look at each of the router's own addresses.
    fn has_room_for_own(&self) -> bool {
        let hosts = self.own.iter().filter(|prefix| prefix.prefix_len() == 32).count();
        let [prefixes, addresses] = MOST_OWN;
        self.own.len() - hosts <= prefixes && hosts <= addresses
    }

    fn master_reason(&self, link: &Link, links: &Links) -> Option<&'static str> {
        let master = links.get(link.master?);
        Some(match master.map_or("", |master| master.link.kind.as_str()) {
            "bridge" => "a bridge has the interface",
            "vrf" => "a VRF has the interface",
            "bond" | "team" => "a bond has the interface",
            _ => "another device has the interface",
        })
    }

    /// The reason why Linux gets every frame from a device.
    fn device_reason(&self, link: &Link, links: &Links) -> Option<&'static str> {
        if link.has_program || self.programs.of(link.index).ingress {
            return Some("an eBPF program sees frames first");
        }
        if self.qdiscs.has_ingress(link.index) {
            return Some("tc has an ingress qdisc");
        }
        if links.uppers(link.index).any(|upper| upper.takes_all) {
            return Some("a device on top takes its frames");
        }
        self.master_reason(link, links)
    }

    /// Why all packets of a family are Linux's.
    fn family_reason(&self, is_v4: bool, concern: &Concern) -> Option<&'static str> {
        let hook = if is_v4 { self.hooks.v4 } else { self.hooks.v6 };
        let [legacy4, legacy6] = self.polled.legacy;
        hook.or_else(|| {
            let is_filtered = if is_v4 { legacy4 } else { legacy6 };
            is_filtered.then_some("iptables has a table")
        })
        .or_else(|| {
            let is_secured = if is_v4 { self.ipsec.v4 } else { self.ipsec.v6 };
            is_secured.then_some("xfrm has a policy")
        })
        .or_else(|| self.programs.filters(is_v4).then_some(NETFILTER_PROGRAM))
        .or_else(|| concern.all.then_some(RULE))
        .or_else(|| {
            (is_v4 && !self.has_room_for_own()).then_some("Linux has too many own addresses")
        })
    }

    /// The reason why Linux gets all packets of a family from a device.
    fn ingress_reason(&self, is_v4: bool, link: &Link, concern: &Concern) -> Option<&'static str> {
        if concern.devices.contains(&link.name) {
            return Some(RULE);
        }
        match is_v4 {
            true => self.settings.reason4(link.index),
            false => {
                let lacks = self.polled.device(&link.name).lacks_ipv6;
                let off = lacks.then_some("the interface has no IPv6");
                off.or_else(|| self.settings.reason6(link.index))
            }
        }
    }
}

/// The line with a device's Ethernet address.
fn own_address(link: &Link) -> String {
    let Some([a, b, c, d, e, f]) = link.mac else { return String::new() };
    format!("mac {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n")
}

#[cfg(test)]
mod tests;
