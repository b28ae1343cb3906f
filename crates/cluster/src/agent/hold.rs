//! Decides whether a node waits before it follows a change with planned moves. Pure.
//!
//! The new node of an object starts it first. Then the other nodes change their links to the new
//! node, all at about the same time. The old node ends the object last, so packets pass until then.
//!
//! A router with ports is the exception: on a LAN, both copies would send. There the old node ends
//! the router first, and then the new node starts it.

use std::collections::BTreeMap;

use europa_api::Key;

use crate::member::Member;
use crate::place::Places;

/// A planned move that a node has not followed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    epoch: u64,
    from: String,
    to: String,
    /// The object has ports.
    on_ports: bool,
}

/// Planned moves of changes after `passed`. `on_ports`: whether an object has ports.
pub(super) fn pending(
    places: &Places,
    passed: u64,
    on_ports: impl Fn(&Key) -> bool,
) -> Vec<Pending> {
    let moved = places.iter().filter(|(_, place)| place.epoch > passed);
    let moved = moved.filter_map(|(key, place)| {
        let moved = place.moved.as_ref().filter(|moved| moved.planned)?;
        let (epoch, from, to) = (place.epoch, moved.from.clone(), place.node.clone());
        Some(Pending { epoch, from, to, on_ports: on_ports(key) })
    });
    moved.collect()
}

/// Whether a node must wait for other nodes.
pub(super) fn holds(node: &str, pending: &[Pending], members: &BTreeMap<String, Member>) -> bool {
    let runs = |member: &Member, epoch: u64| member.passed >= epoch && member.error.is_none();
    let is_before = |one: &&Pending| one.to == node && one.on_ports;
    if pending.iter().filter(is_before).any(|one| {
        // A node without a lease is fenced.
        members.get(&one.from).is_some_and(|member| !runs(member, one.epoch))
    }) {
        return true;
    }
    // The new node of one object does not wait for the new node of another: that one could wait for
    // it in turn.
    if pending.iter().any(|one| one.to == node) {
        return false;
    }
    pending.iter().any(|one| {
        if one.on_ports && one.from == node {
            return false;
        }
        let new = members.get(&one.to).is_some_and(|member| !runs(member, one.epoch));
        let is_behind =
            |(name, member): (&String, &Member)| *name != *node && member.passed < one.epoch;
        // No node waits for a node without a lease.
        new || (one.from == node && members.iter().any(is_behind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n1 5, n2 4!`: nodes, the change that each has passed, and whether it failed.
    fn members(text: &str) -> BTreeMap<String, Member> {
        let one = |text: &str| {
            let (name, passed) = text.trim().split_once(' ').expect("a name and a number");
            let error = passed.ends_with('!').then(|| "no room".to_owned());
            let passed = passed.trim_end_matches('!').parse().expect("a number");
            (name.to_owned(), Member { passed, error, ..Member::default() })
        };
        text.split(',').map(one).collect()
    }

    #[test]
    fn the_new_node_is_first_and_the_old_one_last() {
        let move_of = |epoch, from: &str, to: &str| Pending {
            epoch,
            from: from.into(),
            to: to.into(),
            on_ports: false,
        };
        let on_ports = [Pending { on_ports: true, ..move_of(5, "n2", "n3") }];
        let one = [move_of(5, "n2", "n3")];
        let two = [move_of(5, "n2", "n3"), move_of(5, "n2", "n1")];
        for (node, pending, all, wanted) in [
            ("n3", &one[..], "n1 4, n2 4, n3 4", false),
            ("n1", &one, "n1 4, n2 4, n3 4", true),
            ("n1", &one, "n1 4, n2 4, n3 5", false),
            ("n1", &one, "n1 4, n2 4, n3 5!", true),
            ("n1", &one, "n1 4, n2 4", false),
            ("n2", &one, "n1 4, n2 4, n3 5", true),
            ("n2", &one, "n1 5, n2 4, n3 5", false),
            ("n2", &one, "n2 4, n3 6", false),
            ("n1", &two, "n1 4, n2 4, n3 4", false),
            ("n2", &two, "n1 5, n2 4, n3 4", true),
            ("n2", &[], "n1 4, n2 4, n3 4", false),
            // With ports, the old node is first.
            ("n2", &on_ports, "n1 4, n2 4, n3 4", false),
            ("n3", &on_ports, "n1 4, n2 4, n3 4", true),
            ("n3", &on_ports, "n1 4, n2 5!, n3 4", true),
            ("n3", &on_ports, "n1 4, n2 5, n3 4", false),
            ("n3", &on_ports, "n1 4, n3 4", false),
            ("n1", &on_ports, "n1 4, n2 5, n3 4", true),
            ("n1", &on_ports, "n1 4, n2 5, n3 5", false),
        ] {
            assert_eq!(holds(node, pending, &members(all)), wanted, "{node}: {all}");
        }
    }
}
