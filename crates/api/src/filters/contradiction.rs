//! Finds rules that contradict themselves.

use ipnet::IpNet;

use super::action::Action;
use super::rule::Rule;
use super::words::Protocol;

/// Contradictions in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub(super) field: &'static str,
    pub(super) message: String,
    pub(super) label: &'static str,
    pub(super) help: &'static str,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

fn wrong(
    field: &'static str,
    message: &str,
    label: &'static str,
    help: &'static str,
) -> Result<(), Contradiction> {
    Err(Contradiction { field, message: message.to_owned(), label, help })
}

impl Rule {
    /// Whether the rule can match any packet.
    ///
    /// # Errors
    /// The impossible part.
    pub fn check(&self) -> Result<(), Contradiction> {
        self.check_addresses()?;
        self.check_protocol()?;
        self.check_key()?;
        self.check_action()
    }

    fn check_addresses(&self) -> Result<(), Contradiction> {
        for (field, net) in [("source", self.source), ("destination", self.destination)] {
            if let Some(net) = net.filter(|net| net.addr() != net.network()) {
                let message = format!("{net} has bits after its prefix length");
                let help = "write the subnet, or the one address with its whole length";
                return Err(Contradiction { field, message, label: "not a prefix", help });
            }
        }
        let is_v4 = |net: &IpNet| matches!(net, IpNet::V4(_));
        if let (Some(source), Some(destination)) = (&self.source, &self.destination)
            && is_v4(source) != is_v4(destination)
        {
            return wrong(
                "destination",
                "no packet goes from an IPv4 to an IPv6 address",
                "the other version of IP",
                "write a rule for each version",
            );
        }
        Ok(())
    }

    fn check_protocol(&self) -> Result<(), Contradiction> {
        let has_ports = self.protocol.is_some_and(Protocol::has_ports);
        for (field, ports) in
            [("source_port", &self.source_port), ("destination_port", &self.destination_port)]
        {
            if ports.is_some() && !has_ports {
                return wrong(
                    field,
                    "a rule with ports needs a protocol that has ports",
                    "which protocol's?",
                    "add `protocol: tcp` or `udp`",
                );
            }
            if ports.is_some() && self.later_fragment == Some(true) {
                return wrong(
                    field,
                    "fragments other than the first have no ports",
                    "matches nothing",
                    "remove it, or `later_fragment`",
                );
            }
        }
        if self.tcp_flags.is_some() && self.protocol != Some(Protocol::TCP) {
            return wrong(
                "tcp_flags",
                "a rule with flags of TCP needs TCP",
                "which protocol's?",
                "add `protocol: tcp`",
            );
        }
        Ok(())
    }

    fn check_key(&self) -> Result<(), Contradiction> {
        let fields = Rule { priority: 0, key: None, action: Action::default(), ..self.clone() };
        if self.key.is_some() && fields != Rule::default() {
            return wrong(
                "key",
                "a rule for keys of routers' own looks at nothing else",
                "a key and fields of packets",
                "have the router write into the key what matters",
            );
        }
        if self.key.is_none() && (self.action.back || self.action.result.is_some()) {
            return wrong(
                "action",
                "`back` and `result` are for packets that a router has given a key",
                "no `key`",
                "add `key`, or remove them",
            );
        }
        Ok(())
    }

    fn check_action(&self) -> Result<(), Contradiction> {
        let Action { drop, slow_path, queue, interface, destination_mac, back, .. } = &self.action;
        let ways = [*drop, *slow_path, interface.is_some(), *back];
        if ways.iter().filter(|way| **way).count() > 1 {
            return wrong(
                "action",
                "a packet goes one way: `drop`, `slow_path`, `interface` or `back`",
                "several ways",
                "keep one of them; `mirror` sends a copy",
            );
        }
        if destination_mac.is_some() && interface.is_none() {
            return wrong(
                "action",
                "`destination_mac` is for packets that leave by another interface",
                "no `interface`",
                "add `interface`, or remove it",
            );
        }
        if queue.is_some() && (*drop || *back) {
            return wrong(
                "action",
                "a packet that does not leave waits in no queue",
                "a queue, and `drop` or `back`",
                "remove one of them",
            );
        }
        let leaves = self.interface.as_ref().map(|interface| &interface.router);
        for to in [&self.action.interface, &self.action.mirror].into_iter().flatten() {
            if leaves.is_some_and(|router| *router != to.router) {
                return wrong(
                    "action",
                    "a packet can leave by interfaces of its own router only",
                    "another router's interface",
                    "name one of the router that `interface` names",
                );
            }
        }
        Ok(())
    }
}
