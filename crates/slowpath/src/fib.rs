//! The kernel's routes of one family, and the part that the fast path has.
//!
//! Each prefix is sent once a batch, even if it changed several times. Several routes to one prefix
//! are ranked as the kernel does: table `local`, `main`, `default`; then metric. The kernel
//! searches one table after the other, so a shorter prefix of an earlier table hides a longer one
//! of a later table: Linux gets packets to such a prefix.

mod candidate;
mod meaning;
mod objects;

use std::collections::{HashMap, HashSet, VecDeque};

pub(crate) use self::candidate::Placement;
use self::candidate::{Candidate, insert};
use self::meaning::Meaning;
use crate::aliases::Aliases;
use crate::intern::Interner;
use crate::links::Links;
use crate::message::{Address, Hop, Object, Route, Way};

const TABLE_DEFAULT: u32 = 253;
const TABLE_MAIN: u32 = 254;
const TABLE_LOCAL: u32 = 255;

/// Outputs of the fast path's table after those of the interfaces, as in `builtin: ipv4`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outputs {
    pub(crate) host: usize,
    pub(crate) discard: usize,
    /// Also to Linux, which answers senders with an error.
    pub(crate) errors: usize,
}

#[derive(Debug, Default)]
struct Entry {
    candidates: Vec<Candidate>,
    /// Number of the text that the fast path has.
    told: Option<u32>,
    dirty: bool,
    /// A route was added that exists already: a list had it before its message arrived, or it is
    /// another one with the same next hops.
    is_doubtful: bool,
    /// Packets go to Linux because it puts a header in front.
    is_encapsulated: bool,
}

/// The routes of one family.
#[derive(Debug)]
pub(crate) struct Fib<A> {
    routes: HashMap<(A, u8), Entry>,
    ways: Interner<Way<A>>,
    meanings: Vec<Meaning>,
    texts: Interner<String>,
    dirty: VecDeque<(A, u8)>,
    outputs: Outputs,
    host: u32,
    errors: u32,
    /// Prefixes that are the host's where no route is.
    base: Vec<(A, u8)>,
    /// Prefixes with a special meaning on every link, which are never sent.
    hidden: Vec<(A, u8)>,
    /// Prefixes of more than one address in table `local`, which hide longer ones of the other
    /// tables.
    wide: HashSet<(A, u8)>,
    /// Prefixes in table `default`, which shorter ones of the other tables hide.
    last: HashSet<(A, u8)>,
    aliases: Aliases,
    /// Prefixes whose packets Linux puts a header in front of.
    encapsulated: usize,
}

/// Whether `outer` contains `inner`.
fn covers<A: Address>(outer: (A, u8), inner: (A, u8)) -> bool {
    inner.1 >= outer.1 && inner.0.masked(outer.1) == outer.0
}

impl<A: Address> Fib<A> {
    /// No routes: the host gets all packets, and also those to `base` unless a route covers them.
    pub(crate) fn new(outputs: Outputs, base: Vec<(A, u8)>, hidden: Vec<(A, u8)>) -> Fib<A> {
        let mut texts = Interner::default();
        let host = texts.number(format!("- {}", outputs.host));
        let errors = texts.number(format!("- {}", outputs.errors));
        let mut fib = Fib {
            routes: HashMap::new(),
            ways: Interner::default(),
            meanings: Vec::new(),
            texts,
            dirty: VecDeque::new(),
            outputs,
            host,
            errors,
            base,
            hidden,
            wide: HashSet::new(),
            last: HashSet::new(),
            aliases: Aliases::default(),
            encapsulated: 0,
        };
        for prefix in fib.base.clone() {
            fib.mark(prefix);
        }
        fib
    }

    /// Notes the fast path's entry for a prefix; an empty text means an unknown entry. Wrong
    /// entries are sent again, or withdrawn.
    pub(crate) fn learn(&mut self, prefix: (A, u8), text: String) {
        let text = self.texts.number(text);
        self.routes.entry(prefix).or_default().told = Some(text);
        self.mark(prefix);
    }

    /// Number of prefixes with routes.
    pub(crate) fn len(&self) -> usize {
        self.routes.values().filter(|entry| !entry.candidates.is_empty()).count()
    }

    /// Whether Linux puts a header in front of some packets.
    pub(crate) fn encapsulates(&self) -> bool {
        self.encapsulated > 0
    }

    /// Whether an update is due.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The IPv4 addresses that represent IPv6 routers.
    pub(crate) fn aliases(&mut self) -> &mut Aliases {
        &mut self.aliases
    }

    /// Notes that the answer for a prefix may have changed.
    fn mark(&mut self, prefix: (A, u8)) {
        self.mark_one(prefix);
        let candidates = self.routes.get(&prefix).map_or(&[][..], |entry| &entry.candidates);
        let has = |rank| candidates.iter().any(|candidate| candidate.rank == rank);
        let (is_wide, is_last) = (has(0) && prefix.1 < A::BITS, has(2));
        let changed = match is_wide {
            true => self.wide.insert(prefix),
            false => self.wide.remove(&prefix),
        };
        match is_last {
            true => self.last.insert(prefix),
            false => self.last.remove(&prefix),
        };
        let inside: Vec<_> = match changed {
            true => self.routes.keys().filter(|inner| covers(prefix, **inner)).copied().collect(),
            false => self.last.iter().filter(|inner| covers(prefix, **inner)).copied().collect(),
        };
        inside.into_iter().for_each(|inner| self.mark_one(inner));
    }

    fn mark_one(&mut self, prefix: (A, u8)) {
        let entry = self.routes.entry(prefix).or_default();
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push_back(prefix);
        }
    }

    /// Whether a route to a shorter prefix, in an earlier table, has precedence over those to this
    /// one.
    fn is_hidden(&self, prefix: (A, u8), best: u8) -> bool {
        let is_over = |outer: &(A, u8)| *outer != prefix && covers(*outer, prefix);
        if best > 0 && self.wide.iter().any(is_over) {
            return true;
        }
        best == 2
            && (0..prefix.1).any(|length| {
                let outer = self.routes.get(&(prefix.0.masked(length), length));
                outer.is_some_and(|entry| entry.candidates.iter().any(|one| one.rank < best))
            })
    }

    fn candidate(&mut self, route: Route<A>) -> Option<((A, u8), Candidate)> {
        let rank = match route.table {
            TABLE_LOCAL => 0,
            TABLE_MAIN => 1,
            TABLE_DEFAULT => 2,
            _ => return None,
        };
        if self.hidden.iter().any(|hidden| covers(*hidden, route.prefix)) {
            return None;
        }
        let way = self.ways.number(route.way);
        Some((route.prefix, Candidate { rank, narrow: route.narrow, metric: route.metric, way }))
    }

    /// A route was added.
    pub(crate) fn add(&mut self, route: Route<A>, placement: Placement) {
        let Some((prefix, new)) = self.candidate(route) else { return };
        let entry = self.routes.entry(prefix).or_default();
        let merges = A::BITS == 128;
        if !merges && placement != Placement::Replace && entry.candidates.contains(&new) {
            entry.is_doubtful = true;
            return;
        }
        insert(&mut entry.candidates, new, placement, merges, &self.ways);
        self.mark(prefix);
    }

    /// Removes a route. False if it was unknown, or may exist twice: only a list can show the rest.
    pub(crate) fn remove(&mut self, route: Route<A>) -> bool {
        let gone = route.way.clone();
        let Some((prefix, old)) = self.candidate(route) else { return true };
        let Some(entry) = self.routes.get_mut(&prefix) else { return false };
        let same = |c: &Candidate| (c.order(), c.narrow) == (old.order(), old.narrow);
        let exact = entry.candidates.iter().position(|c| same(c) && c.way == old.way);
        if let Some(index) = exact {
            entry.candidates.remove(index);
            let is_known = !std::mem::take(&mut entry.is_doubtful);
            self.mark(prefix);
            return is_known;
        }
        // IPv6: some next hops of several, or all in another order.
        let Way::Hops(gone) = gone else { return false };
        let key = |hop: &Hop<A>| (hop.gateway, hop.device);
        for (index, candidate) in entry.candidates.iter_mut().enumerate() {
            if !same(candidate) {
                continue;
            }
            let Some(Way::Hops(hops)) = self.ways.value(candidate.way) else { continue };
            let left: Vec<_> =
                hops.iter().filter(|h| !gone.iter().any(|g| key(g) == key(h))).copied().collect();
            if left.len() == hops.len() {
                continue;
            }
            if left.is_empty() {
                entry.candidates.remove(index);
            } else {
                candidate.way = self.ways.number(Way::Hops(left));
            }
            self.mark(prefix);
            return true;
        }
        false
    }

    /// Replaces all known routes.
    pub(crate) fn replace_all(&mut self, routes: impl Iterator<Item = Route<A>>) {
        let mut fresh: HashMap<(A, u8), Vec<Candidate>> = HashMap::new();
        for route in routes {
            if let Some((prefix, new)) = self.candidate(route) {
                let candidates = fresh.entry(prefix).or_default();
                insert(candidates, new, Placement::Back, false, &self.ways);
            }
        }
        let gone: Vec<_> = self
            .routes
            .iter()
            .filter(|(prefix, entry)| !entry.candidates.is_empty() && !fresh.contains_key(*prefix))
            .map(|(prefix, _)| *prefix)
            .collect();
        for prefix in gone {
            if let Some(entry) = self.routes.get_mut(&prefix) {
                entry.candidates.clear();
                entry.is_doubtful = false;
            }
            self.mark(prefix);
        }
        for (prefix, candidates) in fresh {
            let entry = self.routes.entry(prefix).or_default();
            entry.is_doubtful = false;
            if entry.candidates != candidates {
                entry.candidates = candidates;
                self.mark(prefix);
            }
        }
    }

    /// Computes the next hops of every route again; prefixes whose answer changes are sent.
    pub(crate) fn reconsider(&mut self, links: &Links, objects: &HashMap<u32, Object>) {
        let old = std::mem::take(&mut self.meanings);
        self.learn_ways(links, objects);
        let changed: Vec<bool> =
            self.meanings.iter().enumerate().map(|(way, new)| old.get(way) != Some(new)).collect();
        if !changed.contains(&true) {
            return;
        }
        let concerned: Vec<_> = self
            .routes
            .iter()
            .filter(|(_, entry)| {
                let is = |c: &Candidate| changed.get(c.way as usize) == Some(&true);
                entry.candidates.iter().any(is)
            })
            .map(|(prefix, _)| *prefix)
            .collect();
        for prefix in concerned {
            self.mark(prefix);
        }
    }

    /// The entry that the fast path should have for a prefix: the number of a text, and whether it
    /// is Linux's because that puts a header in front.
    fn answer(&self, prefix: (A, u8)) -> (Option<u32>, bool) {
        let candidates = self.routes.get(&prefix).map_or(&[][..], |entry| &entry.candidates);
        if candidates.iter().any(|candidate| candidate.narrow) {
            // Depends on more than the destination: Linux decides.
            return (Some(self.host), false);
        }
        if candidates.first().is_some_and(|best| self.is_hidden(prefix, best.rank)) {
            return (Some(self.host), false);
        }
        let meanings = candidates.iter().map(|c| self.meanings.get(c.way as usize));
        match meanings.flatten().find(|meaning| **meaning != Meaning::None) {
            Some(Meaning::Text(text)) => (Some(*text), false),
            Some(Meaning::Encapsulated) => (Some(self.host), true),
            Some(Meaning::None) | None => {
                let base = if prefix.1 == 0 { self.errors } else { self.host };
                (self.base.contains(&prefix).then_some(base), false)
            }
        }
    }

    /// Adds up to `most` changes to `to`, a line each. Returns how many.
    pub(crate) fn tell(
        &mut self,
        most: usize,
        links: &Links,
        objects: &HashMap<u32, Object>,
        to: &mut String,
    ) -> usize {
        self.learn_ways(links, objects);
        let mut count = 0;
        while count < most {
            let Some(prefix) = self.dirty.pop_front() else { break };
            let (answer, is_encapsulated) = self.answer(prefix);
            let Some(entry) = self.routes.get_mut(&prefix) else { continue };
            entry.dirty = false;
            let was_encapsulated = std::mem::replace(&mut entry.is_encapsulated, is_encapsulated);
            self.encapsulated += usize::from(is_encapsulated);
            self.encapsulated -= usize::from(was_encapsulated);
            let told = std::mem::replace(&mut entry.told, answer);
            if entry.candidates.is_empty() && answer.is_none() {
                self.routes.remove(&prefix);
            }
            if told == answer {
                continue;
            }
            count += 1;
            to.push_str(if answer.is_some() { "set " } else { "remove " });
            prefix.0.write(to);
            push_length(to, prefix.1);
            if let Some(text) = answer.and_then(|number| self.texts.value(number)) {
                to.push(' ');
                to.push_str(text);
            }
            to.push('\n');
        }
        count
    }
}

fn push_length(to: &mut String, length: u8) {
    use std::fmt::Write as _;
    let _ = write!(to, "/{length}");
}

#[cfg(test)]
mod tests;
