//! The parts of a router that cannot change in a running process. A record stores them for the next
//! node.

use europa_substrate::{Match, MatchKind};
use serde_json::{Value, json};

use crate::interface::{InterfacePlan, To};
use crate::router::{Place, RouterPlan};

impl RouterPlan {
    /// The parts that cannot change in a running process. If they are equal, a process of one plan
    /// can be adopted as one of the other. The effects of links are not included, because the
    /// switch handles them.
    pub fn outside(&self) -> Value {
        let place = match &self.place {
            Place::Isolated => json!("isolated"),
            Place::Elements(file) => json!({ "elements": file }),
            Place::Program(command) => json!({ "program": command }),
            Place::Inline(inline) => json!({ "inline": inline }),
            Place::Kernel => json!("kernel"),
        };
        json!({
            "place": place,
            "slots": self.geometry.slots,
            "slot_bytes": self.geometry.slot_bytes,
            "interfaces": self.interfaces.iter().map(interface).collect::<Vec<_>>(),
            "addresses": self.addresses,
            "busy": self.busy,
            "cpus": self.cpus,
            "grants": self.grants.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}

fn interface(plan: &InterfacePlan) -> Value {
    let to = match &plan.to {
        To::Port(port) => json!({ "port": **port }),
        To::Link(end) => json!({ "link": end.to_string() }),
        // The keys are not included: the switch handles them.
        To::Far(end) => json!({ "tunnel": *end.link }),
        To::Nowhere => Value::Null,
    };
    let spec = &plan.spec;
    json!({
        "name": plan.name,
        "mtu": plan.mtu,
        "to": to,
        "local": spec.local,
        "vlan": spec.vlan,
        "mac": spec.mac,
        "max_frame": spec.max_frame,
        "flags": spec.flags,
        "matches": spec.matches.iter().map(one_match).collect::<Vec<_>>(),
        "bound": spec.bound,
        "tunnel": plan.tunnel.map(|tunnel| json!([tunnel.vni, tunnel.local, tunnel.remote])),
        "addresses": plan.addresses,
        "link": plan.link.as_ref().map(|link| link.to_string()),
        "queues": plan.queues,
    })
}

fn one_match(one: &Match) -> Value {
    let kind = match &one.kind {
        MatchKind::Mac(mac) => json!({ "mac": mac }),
        MatchKind::Udp(port) => json!({ "udp": port }),
        MatchKind::Vxlan(vni) => json!({ "vxlan": vni }),
        MatchKind::Mpls(label) => json!({ "mpls": label }),
        MatchKind::Prefix(prefix) => json!({ "prefix": prefix }),
        MatchKind::All => json!("all"),
    };
    json!([one.vlan, kind])
}
