//! From a rule to what the switch looks up: patterns and actions.

use europa_api::filters::{Ecn, Rule};
use europa_filter::Pattern;
use europa_switch::{Action, CONGESTION, DSCP, NOWHERE, Verdict};

/// A rule's pattern; `interface` is the slice's number for the interface that it names.
pub(super) fn pattern(rule: &Rule, interface: Option<u16>) -> Pattern {
    Pattern {
        source: rule.source,
        destination: rule.destination,
        protocol: rule.protocol.map_or((0, 0), |protocol| (protocol.0, 0xff)),
        source_ports: rule.source_port.as_ref().map(|ports| ports.0.clone()),
        destination_ports: rule.destination_port.as_ref().map(|ports| ports.0.clone()),
        tcp_flags: rule.tcp_flags.map_or((0, 0), |flags| (flags.set, flags.set | flags.clear)),
        dscp: rule.dscp.map(|dscp| dscp.0),
        later_fragment: rule.later_fragment,
        interface,
    }
}

/// What a rule does; `to` and `mirror` are the numbers of the ways that it names.
pub(super) fn action(rule: &Rule, to: Option<u16>, mirror: Option<u16>) -> Action {
    let action = &rule.action;
    let verdict = match action {
        _ if action.drop => Verdict::Drop,
        _ if action.slow_path => Verdict::SlowPath,
        _ if to.is_some() => Verdict::Send,
        _ => Verdict::Pass,
    };
    let dscp = action.dscp.map_or(0, |dscp| DSCP | dscp.0);
    let congestion = action.ecn.map_or(0, |Ecn::Ce| CONGESTION);
    Action {
        verdict,
        // The code point is in the lower six bits, and congestion is no bit of them.
        mark: dscp | congestion,
        queue: action.queue.unwrap_or(0),
        to: to.unwrap_or(NOWHERE),
        mirror: mirror.unwrap_or(NOWHERE),
    }
}

/// How many entries a rule takes.
pub(crate) fn count(rule: &Rule) -> usize {
    let pattern = pattern(rule, None);
    pattern.ipv4().len() + pattern.ipv6().len()
}
