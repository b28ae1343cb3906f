//! The rules of all slices: the desired ones, and the switch's.
//!
//! A slice's rules come from documents (`kind: filters`) and, with numbers, from requests. This
//! file has the desired rules, and the switch's numbers of slices, interfaces and rules. An actor
//! owns them: a separate thread, so that no other request waits while it works on many rules.
//!
//! | file      | concern                                                            |
//! |-----------|--------------------------------------------------------------------|
//! | `actor`   | the thread: changes, lists, and all rules for a new switch         |
//! | `filtering` | the loop's part: the index, and orders to the actor              |
//! | `index`   | the facts that the node's loop needs of them                       |
//! | `orders`  | the actor's connection to the switch                               |
//! | `own`     | rules with numbers                                                 |
//! | `entries` | from a rule to the switch's entries                                |
//! | `names`, `numbers` | numbers of interfaces and ways                            |
//! | `check`   | whether rules fit                                                  |

mod actor;
mod check;
mod entries;
mod filtering;
mod index;
mod names;
mod numbers;
mod orders;
mod own;

use std::collections::{BTreeMap, HashMap};

use europa_api::filters::{InterfaceOf, Rule};
use europa_api::{Documents, Fault, Key};
use europa_filter::MOST_INTERFACES;
use europa_switch::{Batch, NOWHERE};
use serde::{Deserialize, Serialize};

use self::actor::FilterActor;
pub use self::actor::OwnChanges;
pub(crate) use self::actor::{OwnWrite, WAYS_AT_ONCE, WayOrder, ended};
pub(crate) use self::check::Entries;
use self::entries::count;
pub(crate) use self::filtering::Filtering;
pub(crate) use self::index::Fresh;
use self::index::Index;
use self::numbers::Numbers;
pub(crate) use self::orders::Orders;
use crate::NodeError;

/// How a rule sends packets to an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct WayTo {
    /// `slice/router`.
    pub(crate) router: String,
    pub(crate) interface: String,
    pub(crate) destination: Option<[u8; 6]>,
    /// A copy is sent there, if possible unchanged.
    pub(crate) mirror: bool,
}

/// Why rules are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    /// More than the slice may have.
    #[error(
        "slice {slice} may have {limit} entries of filters: {used} are used, these need {wanted} more"
    )]
    Limit {
        /// Whose.
        slice: String,
        /// The limit.
        limit: usize,
        /// Its number of rules, without those in `gone`.
        used: usize,
        /// The number of additional rules.
        wanted: usize,
    },
    /// Too many different names.
    #[error(
        "the rules of slice {0} name more than {MOST_INTERFACES} interfaces that packets leave by"
    )]
    Interfaces(String),
    /// Too many different ways.
    #[error(
        "the rules of slice {slice} lead to more than {limit} interfaces and Ethernet addresses, \
         its share of the {NOWHERE} that the switch has"
    )]
    Ways {
        /// Whose rules.
        slice: String,
        /// The limit.
        limit: usize,
    },
}

/// Part of the ways that each slice may always use: with this many slices, all of them fit.
const SHARES: usize = 16;
const WAYS_OF_A_SLICE: usize = NOWHERE as usize / SHARES;

/// The record for the next node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FiltersRecord {
    slices: Numbers<String>,
    ways: Numbers<WayTo>,
    interfaces: BTreeMap<String, Numbers<InterfaceOf>>,
}

impl Default for FiltersRecord {
    fn default() -> Self {
        Self {
            slices: Numbers::new(0, u16::MAX - 1),
            ways: Numbers::new(0, NOWHERE - 1),
            interfaces: BTreeMap::new(),
        }
    }
}

/// A rule that is in force, or will be.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    /// The rule's document; or its number.
    pub(crate) origin: Origin,
    pub(crate) rule: Rule,
    /// Numbers of its entries.
    pub(crate) entries: Box<[u32]>,
    interface: Option<u16>,
    ways: [Option<u16>; 2],
}

/// Origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// A document, by name.
    Document(String),
    /// A request that gave it this number.
    Own(u32),
}

/// A slice's rules.
#[derive(Default)]
pub(crate) struct SliceFilters {
    number: u16,
    documents: Vec<Installed>,
    own: BTreeMap<u32, Installed>,
    /// Numbers of entries that are free again.
    free: Vec<u32>,
    next: u32,
    used: usize,
    /// Entries of the rules with numbers.
    own_entries: usize,
}

/// See the file.
#[derive(Default)]
pub(crate) struct Filters {
    slices: BTreeMap<String, SliceFilters>,
    numbers: FiltersRecord,
    /// Interfaces or ways have got new numbers.
    renamed: bool,
    /// Ways with new numbers, which the switch does not have.
    fresh: Vec<u16>,
    /// Ways that each slice's rules use, and how often.
    ways_of: HashMap<String, HashMap<WayTo, u32>>,
}

/// A change for the switch.
pub(crate) struct Told {
    /// The slice's number.
    pub(crate) slice: u16,
    pub(crate) batch: Batch,
    /// Interfaces or ways have new numbers, which the switch needs first.
    pub(crate) renamed: bool,
    /// The new ways.
    pub(crate) fresh: Vec<u16>,
    /// Whether the slice has lost its last rule or got its first: the switch must stop or start to
    /// look for rules.
    pub(crate) emptied: bool,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Document(name) => f.write_str(name),
            Origin::Own(number) => write!(f, "{number}"),
        }
    }
}

impl SliceFilters {
    /// All its rules.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Installed> {
        self.documents.iter().chain(self.own.values())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.own.is_empty()
    }

    /// Its number in the switch.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Number of entries of its rules.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Number of entries of rules with numbers.
    pub(crate) fn own_entries(&self) -> usize {
        self.own_entries
    }
}

impl Filters {
    /// Rules with the numbers that a former node has assigned.
    pub(crate) fn with(numbers: FiltersRecord) -> Self {
        Self { numbers, renamed: true, ..Self::default() }
    }

    /// The numbers that are given.
    pub(crate) fn record(&self) -> &FiltersRecord {
        &self.numbers
    }

    /// Slices that have had rules since the node's start.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (&str, &SliceFilters)> {
        self.slices.iter().map(|(name, slice)| (&**name, slice))
    }

    /// A slice that has or had rules.
    pub(crate) fn slice(&self, name: &str) -> Option<&SliceFilters> {
        self.slices.get(name)
    }

    /// Numbers of slices from a former node that no slice has any longer.
    pub(crate) fn orphans(&self) -> Vec<u16> {
        let all = self.numbers.slices.iter();
        all.filter(|(_, name)| !self.slices.contains_key(*name)).map(|(number, _)| number).collect()
    }

    /// The way with a number.
    pub(crate) fn way(&self, number: u16) -> Option<&WayTo> {
        self.numbers.ways.name(number)
    }

    /// Ways in use, by number.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (u16, &WayTo)> {
        self.numbers.ways.iter()
    }

    /// The interfaces that a slice's rules name, as router and interface, with their numbers.
    fn named_interfaces(&self, slice: &str) -> HashMap<(String, String), u16> {
        let named = self.numbers.interfaces.get(slice).into_iter().flat_map(Numbers::iter);
        named
            .map(|(number, of)| ((of.router.to_string(), of.interface.to_string()), number))
            .collect()
    }

    fn slice_mut(&mut self, name: &str) -> &mut SliceFilters {
        // More slices than numbers cannot be: each has a document in memory.
        let number = match self.slices.contains_key(name) {
            true => None,
            false => self.numbers.slices.take(&name.to_owned(), &mut self.renamed),
        };
        let slice = self.slices.entry(name.to_owned()).or_default();
        slice.number = number.unwrap_or(slice.number);
        slice
    }

    /// Assigns a rule its numbers, and adds its entries to a batch.
    fn install(
        &mut self,
        slice: &str,
        origin: Origin,
        rule: Rule,
        batch: &mut Batch,
    ) -> Result<Installed, FilterError> {
        let interface = self.take_interface(slice, rule.interface.as_ref())?;
        let action = &rule.action;
        let to = self.take_way(slice, action.interface.as_ref(), action.destination_mac, false);
        let mirror = match &to {
            Ok(_) => self.take_way(slice, action.mirror.as_ref(), None, true),
            Err(_) => Ok(None),
        };
        let ways = match (to, mirror) {
            (Ok(to), Ok(mirror)) => [to, mirror],
            (to, mirror) => {
                let taken = [to.as_ref().ok(), mirror.as_ref().ok()].map(|way| *way?);
                self.release(slice, interface, taken);
                return Err(to.and(mirror).err().unwrap_or(FilterError::Interfaces(slice.into())));
            }
        };
        let filters = self.slice_mut(slice);
        let mut numbers = Vec::new();
        let number = || {
            numbers.push(filters.number_of_entry());
            numbers.last().copied()
        };
        entries::add(&rule, interface, ways, number, batch);
        filters.used += numbers.len();
        Ok(Installed { origin, rule, entries: numbers.into(), interface, ways })
    }

    /// Takes a rule's entries away.
    fn uninstall(&mut self, slice: &str, installed: &Installed, batch: &mut Batch) {
        batch.removed.extend(&installed.entries);
        self.release(slice, installed.interface, installed.ways);
        if let Some(filters) = self.slices.get_mut(slice) {
            filters.used = filters.used.saturating_sub(installed.entries.len());
            // Only after the batch is full: a number must not be removed and added in one batch.
            filters.free.extend(&installed.entries);
        }
    }

    /// Replaces the rules of a slice's documents by those of `documents`. Returns the orders for
    /// the switch, if any.
    ///
    /// # Errors
    /// The reason why nothing has changed, and the document.
    pub(crate) fn set_documents(
        &mut self,
        slice: &str,
        documents: &Documents,
    ) -> Result<Option<Told>, NodeError> {
        let was_empty = self.slice_mut(slice).is_empty();
        let mut old: HashMap<(Origin, Rule), Vec<Installed>> = HashMap::new();
        for installed in std::mem::take(&mut self.slice_mut(slice).documents) {
            let key = (installed.origin.clone(), installed.rule.clone());
            old.entry(key).or_default().push(installed);
        }
        let (mut stay, mut come) = (Vec::new(), Vec::new());
        for filters in documents.filters.iter().filter(|filters| **filters.slice == *slice) {
            let origin = Origin::Document(filters.name.to_string());
            for rule in filters.rules.0.iter() {
                let key = (origin.clone(), rule.value.clone());
                match old.get_mut(&key).and_then(Vec::pop) {
                    Some(installed) => stay.push(installed),
                    None => come.push(key),
                }
            }
        }
        let mut gone: Vec<Installed> = old.into_values().flatten().collect();
        let (mut batch, mut new) = (Batch::default(), Vec::with_capacity(come.len()));
        for (origin, rule) in come {
            let document = origin.to_string();
            match self.install(slice, origin, rule, &mut batch) {
                Ok(installed) => new.push(installed),
                Err(error) => {
                    self.scrap(slice, &new);
                    stay.append(&mut gone);
                    self.slice_mut(slice).documents = stay;
                    let key = Key::new("filters", document);
                    return Err(Fault::new(key, &["rules"], error).into());
                }
            }
        }
        gone.iter().for_each(|gone| self.uninstall(slice, gone, &mut batch));
        if !documents.slices.iter().any(|other| **other.name == *slice) {
            let own = std::mem::take(&mut self.slice_mut(slice).own);
            own.values().for_each(|gone| self.uninstall(slice, gone, &mut batch));
            self.slice_mut(slice).own_entries = 0;
        }
        stay.append(&mut new);
        self.slice_mut(slice).documents = stay;
        Ok((!batch.is_empty()).then(|| self.told(slice, batch, was_empty)))
    }

    fn told(&mut self, slice: &str, batch: Batch, was_empty: bool) -> Told {
        let renamed = std::mem::take(&mut self.renamed);
        let fresh = std::mem::take(&mut self.fresh);
        let filters = self.slice_mut(slice);
        let emptied = filters.is_empty() != was_empty;
        Told { slice: filters.number, batch, renamed, fresh, emptied }
    }

    /// After the switch has confirmed: frees names that no rule uses any longer.
    pub(crate) fn tidy(&mut self) {
        self.numbers.ways.tidy();
        self.numbers.interfaces.values_mut().for_each(Numbers::tidy);
        self.numbers.interfaces.retain(|_, named| named.iter().next().is_some());
    }

    /// All rules of a slice as entries, for a switch without rules.
    pub(crate) fn batch(&self, slice: &SliceFilters) -> Batch {
        let mut batch = Batch::default();
        for one in slice.iter() {
            let mut numbers = one.entries.iter().copied();
            entries::add(&one.rule, one.interface, one.ways, || numbers.next(), &mut batch);
        }
        batch
    }
}

#[cfg(test)]
mod tests;
