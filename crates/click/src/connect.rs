//! Pairs the ports of two stages of elements that are connected.

use crate::ast::{Arrow, Ports};

/// One side of a connection: elements and the ports written beside them.
pub(crate) type Side<'a> = Vec<(usize, &'a Ports)>;

/// An element, by index, and a port.
type End = (usize, u32);

struct Analysis {
    /// Least number of ports of the side.
    least: usize,
    /// Whether one of the side's elements accepts further ports.
    expandable: bool,
}

fn analyze(side: &Side<'_>) -> (Analysis, usize) {
    let least = side.iter().map(|(_, ports)| ports.list.len().max(1)).sum();
    let expandables = side.iter().filter(|(_, ports)| ports.expandable).count();
    let expandable = expandables > 0;
    (Analysis { least, expandable }, expandables)
}

/// Lists a side's ports; the first expandable element gets `extra` more.
fn ends(side: &Side<'_>, implicit: bool, mut extra: usize) -> Vec<End> {
    let mut ends = Vec::new();
    for &(element, ports) in side {
        if ports.list.is_empty() {
            ends.push((element, 0));
        }
        ends.extend(ports.list.iter().map(|&port| (element, port)));
        if ports.expandable || implicit {
            let last = ports.list.last().copied().unwrap_or(0);
            let more = u32::try_from(std::mem::take(&mut extra)).unwrap_or(0);
            ends.extend((1..=more).map(|step| (element, last.saturating_add(step))));
        }
    }
    ends
}

/// The pairs of output and input of a connection, and its mistakes.
pub(crate) fn pair(
    outputs: &Side<'_>,
    inputs: &Side<'_>,
    arrow: Arrow,
) -> (Vec<(End, End)>, Vec<String>) {
    let mut errors = Vec::new();
    let (mut from, expandables_from) = analyze(outputs);
    let (mut to, expandables_to) = analyze(inputs);
    if expandables_from + expandables_to > 1 {
        errors.push("at most one expandable port allowed per connection".to_owned());
        if to.least < from.least {
            from.expandable = false;
        } else {
            to.expandable = false;
        }
    }
    // `=>` expands a single element without a port list.
    let lone = |side: &Side<'_>| matches!(side.as_slice(), [(_, ports)] if ports.is_absent());
    let implicit_from = arrow == Arrow::Many && lone(outputs) && to.least > 1;
    let implicit_to = arrow == Arrow::Many && lone(inputs) && from.least > 1;
    from.expandable |= implicit_from;
    to.expandable |= implicit_to;

    let step_from = from.least > 1 || from.expandable;
    let step_to = to.least > 1 || to.expandable;
    if step_from && step_to {
        if arrow != Arrow::Many {
            errors.push("syntax error: many-to-many connections require '=>'".to_owned());
        }
        let (n, m) = (from.least, to.least);
        let mismatch = "connection mismatch:";
        if !from.expandable && !to.expandable && n != m {
            errors.push(format!("{mismatch} {n} outputs connected to {m} inputs"));
        } else if !to.expandable && m < n {
            errors.push(format!("{mismatch} {n} or more outputs connected to {m} inputs"));
        } else if !from.expandable && n < m {
            errors.push(format!("{mismatch} {n} outputs connected to {m} or more inputs"));
        }
    }
    let extra = |own: &Analysis, other: &Analysis| {
        if own.expandable { other.least.saturating_sub(own.least) } else { 0 }
    };
    let froms = ends(outputs, implicit_from, extra(&from, &to));
    let tos = ends(inputs, implicit_to, extra(&to, &from));
    let pairs = match (step_from, step_to) {
        (true, false) => froms.iter().filter_map(|f| Some((*f, *tos.first()?))).collect(),
        (false, true) => tos.iter().filter_map(|t| Some((*froms.first()?, *t))).collect(),
        _ => froms.into_iter().zip(tos).collect(),
    };
    (pairs, errors)
}
