//! From a rule to the switch's entries: patterns, keys and actions.

use europa_api::filters::{Ecn, Rule};
use europa_filter::{Pattern, Rule as Entry};
use europa_switch::{Action, Batch, CONGESTION, DSCP, NOWHERE, Reply, Verdict, key_words};

/// A rule's pattern; `interface` is the slice's number of the rule's interface.
fn pattern(rule: &Rule, interface: Option<u16>) -> Pattern {
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

/// The action of a rule; `to` and `mirror` are the numbers of its ways.
fn action(rule: &Rule, to: Option<u16>, mirror: Option<u16>) -> Action {
    let action = &rule.action;
    let verdict = match action {
        _ if action.drop => Verdict::Drop,
        _ if action.slow_path => Verdict::SlowPath,
        _ if action.back => Verdict::Back,
        _ if to.is_some() => Verdict::Send,
        _ => Verdict::Pass,
    };
    let dscp = action.dscp.map_or(0, |dscp| DSCP | dscp.0);
    let congestion = action.ecn.map_or(0, |Ecn::Ce| CONGESTION);
    Action {
        verdict,
        // The DSCP is in the lower six bits, which the congestion bits do not overlap.
        mark: dscp | congestion,
        queue: action.queue.unwrap_or(0),
        to: to.unwrap_or(NOWHERE),
        mirror: mirror.unwrap_or(NOWHERE),
    }
}

/// Bytes, and zeros.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

/// Adds a rule's entries to a batch, while there are numbers for them.
pub(super) fn add(
    rule: &Rule,
    interface: Option<u16>,
    [to, mirror]: [Option<u16>; 2],
    mut number: impl FnMut() -> Option<u32>,
    batch: &mut Batch,
) {
    let (action, priority) = (action(rule, to, mirror), rule.priority);
    if let Some(key) = &rule.key {
        let [value, mask] = [&key.value, &key.mask].map(|bytes| key_words(&padded(bytes)));
        let result = rule.action.result.as_ref().map_or([0; _], |result| padded(&result.0));
        let result = Reply { action, result };
        let entry = number().map(|number| Entry { number, priority, value, mask, result });
        batch.opaque.extend(entry);
        return;
    }
    let pattern = pattern(rule, interface);
    for (value, mask) in pattern.ipv4() {
        let entry = number().map(|number| Entry { number, priority, value, mask, result: action });
        batch.ipv4.extend(entry);
    }
    for (value, mask) in pattern.ipv6() {
        let entry = number().map(|number| Entry { number, priority, value, mask, result: action });
        batch.ipv6.extend(entry);
    }
}

/// Number of entries of a rule.
pub(crate) fn count(rule: &Rule) -> usize {
    if rule.key.is_some() {
        return 1;
    }
    let pattern = pattern(rule, None);
    pattern.ipv4().len() + pattern.ipv6().len()
}
