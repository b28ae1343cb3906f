//! Several routes to one prefix, in the kernel's order.

use crate::intern::Interner;
use crate::message::{Address, Gateway, Way};

/// The position of a new route among equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Front,
    Back,
    Replace,
}

/// A route to a prefix, by the number of its next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) rank: u8,
    pub(super) narrow: bool,
    pub(super) metric: u32,
    pub(super) way: u32,
}

impl Candidate {
    pub(super) fn order(self) -> (u8, u32) {
        (self.rank, self.metric)
    }
}

/// Puts a new route among those to the same prefix.
pub(super) fn insert<A: Address>(
    candidates: &mut Vec<Candidate>,
    new: Candidate,
    placement: Placement,
    merges: bool,
    ways: &Interner<Way<A>>,
) {
    let same = |c: &Candidate| (c.order(), c.narrow) == (new.order(), new.narrow);
    if merges {
        // IPv6 reports all next hops of a route at once, even if one was added; on-link routes of
        // several devices coexist.
        let devices = |way: u32| match ways.value(way) {
            Some(Way::Hops(hops)) if hops.iter().all(|hop| hop.gateway == Gateway::None) => {
                Some(hops.iter().map(|hop| hop.device).collect::<Vec<_>>())
            }
            _ => None,
        };
        let of_new = devices(new.way);
        candidates.retain(|c| {
            let beside = devices(c.way) != of_new;
            !same(c) || beside && placement != Placement::Replace
        });
    } else if placement == Placement::Replace
        && let Some(index) = candidates.iter().position(same)
    {
        candidates.remove(index);
    }
    let behind = |c: &Candidate| match placement {
        Placement::Back => c.order() > new.order(),
        _ => c.order() >= new.order(),
    };
    let index = candidates.iter().position(behind).unwrap_or(candidates.len());
    candidates.insert(index, new);
}
