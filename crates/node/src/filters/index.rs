//! The facts about rules that the node's loop needs, as of the actor's last change.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use europa_plan::SliceId;

use super::{Filters, WayTo};

/// The facts; see [`Fresh`].
#[derive(Default)]
pub(crate) struct Index {
    slices: HashMap<String, IndexOfSlice>,
    ways: Arc<Ways>,
    in_force: Arc<Vec<europa_api::Filters>>,
    parked: BTreeSet<SliceId>,
    /// A former node assigned numbers to slices that no longer exist: the switch may have their
    /// rules.
    orphans: bool,
}

/// The facts that a change has made new.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(super) slices: Vec<(String, IndexOfSlice)>,
    /// Ways, if some have new numbers.
    pub(super) ways: Option<Arc<Ways>>,
    /// A former node assigned numbers to slices that no longer exist.
    pub(super) orphans: bool,
    /// Documents whose rules are in force, if they have changed.
    pub(super) in_force: Option<Arc<Vec<europa_api::Filters>>>,
    /// Slices whose numbered rules wait for the end of a change, if they have changed.
    pub(super) parked: Option<BTreeSet<SliceId>>,
}

/// Facts that hold no more.
pub(crate) struct Former {
    _slices: Vec<IndexOfSlice>,
    _ways: Option<Arc<Ways>>,
    _in_force: Option<Arc<Vec<europa_api::Filters>>>,
}

/// The facts about one slice's rules.
pub(super) struct IndexOfSlice {
    /// Its number in the switch.
    number: u16,
    /// It has rules.
    has_rules: bool,
    /// Entries of its numbered rules.
    own_entries: usize,
    /// Numbers of interfaces that its rules name, by router and interface.
    interfaces: HashMap<(String, String), u16>,
}

/// Ways with their numbers, by router (`slice/router`) and interface.
pub(super) type Ways = HashMap<String, HashMap<String, Vec<(u16, WayTo)>>>;

impl Fresh {
    /// The facts of a slice, and all ways if these have changed.
    pub(super) fn of(filters: &Filters, slice: &str, renamed: bool) -> Self {
        let mut fresh = Self::default();
        fresh.add(filters, slice);
        fresh.ways = renamed.then(|| Arc::new(ways_of(filters)));
        fresh
    }

    /// The facts of all slices.
    pub(super) fn all(filters: &Filters) -> Self {
        let ways = Some(Arc::new(ways_of(filters)));
        let orphans = !filters.orphans().is_empty();
        let mut fresh = Self { ways, orphans, ..Self::default() };
        for (name, _) in filters.slices() {
            fresh.add(filters, name);
        }
        fresh
    }

    fn add(&mut self, filters: &Filters, name: &str) {
        let Some(slice) = filters.slice(name) else { return };
        let of = IndexOfSlice {
            number: slice.number(),
            has_rules: !slice.is_empty(),
            own_entries: slice.own_entries(),
            interfaces: filters.named_interfaces(name),
        };
        self.slices.push((name.to_owned(), of));
    }
}

impl Index {
    /// Takes over changed facts. Returns the former ones: freeing them may take long.
    pub(crate) fn take(&mut self, fresh: Fresh) -> Former {
        self.orphans |= fresh.orphans;
        self.parked = fresh.parked.unwrap_or_else(|| std::mem::take(&mut self.parked));
        let slices = fresh.slices.into_iter();
        Former {
            _slices: slices.filter_map(|(name, of)| self.slices.insert(name, of)).collect(),
            _ways: fresh.ways.map(|new| std::mem::replace(&mut self.ways, new)),
            _in_force: fresh.in_force.map(|new| std::mem::replace(&mut self.in_force, new)),
        }
    }

    /// Documents whose rules are in force.
    pub(crate) fn in_force(&self) -> Arc<Vec<europa_api::Filters>> {
        Arc::clone(&self.in_force)
    }

    /// Slices whose numbered rules wait for the end of a change.
    pub(crate) fn parked(&self) -> &BTreeSet<SliceId> {
        &self.parked
    }

    /// The slices are removed finally.
    pub(crate) fn forget_parked(&mut self) {
        self.parked.clear();
    }

    /// The numbers of a slice and of an interface in its rules, if it has some.
    pub(crate) fn of(&self, slice: &str, router: &str, interface: &str) -> Option<(u16, u16)> {
        let slice = self.slices.get(slice).filter(|slice| slice.has_rules)?;
        let named = slice.interfaces.get(&(router.to_owned(), interface.to_owned()));
        Some((slice.number, named.copied().unwrap_or(0)))
    }

    /// The ways that lead to an interface of a router, `slice/router`.
    pub(crate) fn ways_to(&self, router: &str, interface: &str) -> &[(u16, WayTo)] {
        self.ways.get(router).and_then(|all| all.get(interface)).map_or(&[], Vec::as_slice)
    }

    /// All ways.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &(u16, WayTo)> {
        self.ways.values().flat_map(HashMap::values).flatten()
    }

    /// Whether a switch needs rules: those of slices, or the removal of those of former slices.
    pub(crate) fn has_rules(&self) -> bool {
        self.orphans || self.slices.values().any(|slice| slice.has_rules)
    }

    /// Whether a slice has, or had, rules.
    pub(super) fn knows_slices(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Entries of the numbered rules of a slice.
    pub(super) fn own_entries(&self, slice: &str) -> usize {
        self.slices.get(slice).map_or(0, |slice| slice.own_entries)
    }

    /// Slices that have numbered rules in force.
    pub(crate) fn numbered(&self) -> BTreeSet<SliceId> {
        let all = self.slices.iter().filter(|(_, slice)| slice.own_entries > 0);
        all.map(|(name, _)| SliceId::new(name)).collect()
    }
}

fn ways_of(filters: &Filters) -> Ways {
    let mut all = Ways::new();
    for (number, way) in filters.ways() {
        let of_router = all.entry(way.router.clone()).or_default();
        of_router.entry(way.interface.clone()).or_default().push((number, way.clone()));
    }
    all
}
