//! Decides whether a node waits before it follows a change with planned moves. Pure.
//!
//! The new node of an object starts it first. Then the other nodes change their links to the new
//! node, all at about the same time. The old node ends the object last, so packets pass until then.

use std::collections::BTreeMap;

use crate::member::Member;
use crate::place::Places;

/// A planned move that a node has not followed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    epoch: u64,
    from: String,
    to: String,
}

/// Planned moves of changes after `passed`.
pub(super) fn pending(places: &Places, passed: u64) -> Vec<Pending> {
    let moved = places.values().filter(|place| place.epoch > passed).filter_map(|place| {
        let moved = place.moved.as_ref().filter(|moved| moved.planned)?;
        Some(Pending { epoch: place.epoch, from: moved.from.clone(), to: place.node.clone() })
    });
    moved.collect()
}

/// Whether a node must wait for other nodes.
pub(super) fn holds(node: &str, pending: &[Pending], members: &BTreeMap<String, Member>) -> bool {
    // The new node of one object does not wait for the new node of another: that one could wait for
    // it in turn.
    if pending.iter().any(|one| one.to == node) {
        return false;
    }
    pending.iter().any(|one| {
        let runs = |member: &Member| member.passed >= one.epoch && member.error.is_none();
        let new = members.get(&one.to).is_some_and(|member| !runs(member));
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
        let move_of =
            |epoch, from: &str, to: &str| Pending { epoch, from: from.into(), to: to.into() };
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
        ] {
            assert_eq!(holds(node, pending, &members(all)), wanted, "{node}: {all}");
        }
    }
}
