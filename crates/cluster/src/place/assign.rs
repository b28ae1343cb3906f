//! Assigns units to nodes with little traffic between nodes, within the nodes' room. It works on
//! numbers only.
//!
//! Units are placed one after the other. The next one is the unit with most traffic to placed
//! units; its node is the node with most of that traffic that has room. After that, units move, and
//! in small cases also swap, as long as that reduces the traffic between nodes. Between equal
//! choices the lower number wins, so the result depends only on the input.

use std::collections::{BTreeSet, BinaryHeap};

/// Number of passes over all units that improve an assignment.
const PASSES: usize = 8;
/// Most free units for which pairs are swapped: the work grows with the square of their number.
const MOST_SWAPPED: usize = 64;

/// Units, nodes, and the traffic between units.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// The room of each node.
    pub(super) room: Vec<u32>,
    /// Whether a node gets new units.
    pub(super) open: Vec<bool>,
    /// The room that each unit takes, and its node if that is fixed.
    pub(super) units: Vec<(u32, Option<usize>)>,
    /// Pairs of units, and their traffic.
    pub(super) traffic: Vec<(usize, usize, u64)>,
}

/// Finds a node for each unit, or returns `None` if no node has room. Units with a fixed node keep
/// it.
pub(super) fn assign(case: &Case) -> Vec<Option<usize>> {
    let mut work = Work::new(case);
    work.grow();
    for _ in 0..PASSES {
        let before = work.between();
        work.moves();
        if work.free.len() <= MOST_SWAPPED {
            work.swaps();
        }
        if work.between() == before {
            break;
        }
    }
    work.at
}

struct Work<'c> {
    case: &'c Case,
    /// Units without a node of their own.
    free: Vec<usize>,
    /// Neighbours of each unit, and the traffic to each.
    near: Vec<Vec<(usize, u64)>>,
    at: Vec<Option<usize>>,
    room: Vec<u32>,
}

impl Work<'_> {
    fn new(case: &Case) -> Work<'_> {
        let mut near = vec![Vec::new(); case.units.len()];
        for (one, other, weight) in &case.traffic {
            near[*one].push((*other, *weight));
            near[*other].push((*one, *weight));
        }
        let at: Vec<Option<usize>> = case.units.iter().map(|(_, node)| *node).collect();
        let mut room = case.room.clone();
        for (size, node) in &case.units {
            if let Some(room) = node.and_then(|node| room.get_mut(node)) {
                *room = room.saturating_sub(*size);
            }
        }
        let free = (0..at.len()).filter(|unit| at[*unit].is_none()).collect();
        Work { case, free, near, at, room }
    }

    fn size(&self, unit: usize) -> u32 {
        self.case.units[unit].0
    }

    /// The traffic of a unit to each node.
    fn pull(&self, unit: usize) -> Vec<u64> {
        let mut pull = vec![0; self.room.len()];
        for (other, weight) in &self.near[unit] {
            if let Some(node) = self.at[*other] {
                pull[node] += weight;
            }
        }
        pull
    }

    /// Places all units, in the order of their traffic to placed units.
    fn grow(&mut self) {
        let total = |work: &Self, unit: usize| work.near[unit].iter().map(|(_, w)| w).sum::<u64>();
        let key = |work: &Self, unit: usize| {
            let pulled: u64 = work.pull(unit).into_iter().sum();
            (pulled, total(work, unit), std::cmp::Reverse(unit))
        };
        let mut waiting: BTreeSet<usize> = self.free.iter().copied().collect();
        let mut heap: BinaryHeap<_> = self.free.iter().map(|unit| key(self, *unit)).collect();
        while let Some((pulled, weight, std::cmp::Reverse(unit))) = heap.pop() {
            // This entry is outdated: neighbours have been placed since.
            if !waiting.contains(&unit)
                || key(self, unit) != (pulled, weight, std::cmp::Reverse(unit))
            {
                continue;
            }
            waiting.remove(&unit);
            self.at[unit] = self.best(unit);
            if let Some(node) = self.at[unit] {
                self.room[node] -= self.size(unit);
                for (other, _) in &self.near[unit] {
                    if waiting.contains(other) {
                        heap.push(key(self, *other));
                    }
                }
            }
        }
    }

    /// The node that has room and most traffic with a unit; among equals, the node with most room.
    fn best(&self, unit: usize) -> Option<usize> {
        let pull = self.pull(unit);
        let fits = (0..self.room.len())
            .filter(|node| self.case.open[*node] && self.room[*node] >= self.size(unit));
        fits.max_by_key(|node| (pull[*node], self.room[*node], std::cmp::Reverse(*node)))
    }

    /// The traffic between nodes.
    fn between(&self) -> u64 {
        let apart = |(one, other, _): &&(usize, usize, u64)| self.at[*one] != self.at[*other];
        self.case.traffic.iter().filter(apart).map(|(_, _, weight)| weight).sum()
    }

    /// Moves single units to nodes with more of their traffic.
    fn moves(&mut self) {
        for unit in self.free.clone() {
            let Some(from) = self.at[unit] else { continue };
            let pull = self.pull(unit);
            let size = self.size(unit);
            let fits = (0..self.room.len())
                .filter(|node| self.case.open[*node] && self.room[*node] >= size && *node != from);
            let best = fits.max_by_key(|node| (pull[*node], std::cmp::Reverse(*node)));
            if let Some(to) = best.filter(|to| pull[*to] > pull[from]) {
                self.room[from] += size;
                self.room[to] -= size;
                self.at[unit] = Some(to);
            }
        }
    }

    /// Swaps pairs of units if that reduces the traffic between nodes.
    fn swaps(&mut self) {
        for index in 0..self.free.len() {
            for other in index + 1..self.free.len() {
                self.swap(self.free[index], self.free[other]);
            }
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (Some(a), Some(b)) = (self.at[one], self.at[other]) else { return };
        let (size_one, size_other) = (self.size(one), self.size(other));
        let fits = self.room[a] + size_one >= size_other && self.room[b] + size_other >= size_one;
        if a == b || !fits {
            return;
        }
        let before = self.between();
        (self.at[one], self.at[other]) = (Some(b), Some(a));
        if self.between() >= before {
            (self.at[one], self.at[other]) = (Some(a), Some(b));
            return;
        }
        self.room[a] = self.room[a] + size_one - size_other;
        self.room[b] = self.room[b] + size_other - size_one;
    }
}
