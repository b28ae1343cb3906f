//! The triggers of a server.
//!
//! A hash table by the first 192 bits of ids. Each entry is a trie over the last
//! 64. 64 bits. A packet is sent to the matching triggers with the longest common prefix (anycast),
//!     and to all triggers with that id (multicast). A trigger ends 30 s after its last insertion.

use std::collections::HashMap;
use std::time::Duration;

use crate::constraint;
use crate::id::{ID_BITS, Id, Prefix};
use crate::trie::{Needs, Trie};
use crate::wire::{Address, MOST_IDS, Trigger};

/// Lifetime of a trigger after its last insertion; the public code's `TRIGGER_TIMEOUT`.
pub const LIFETIME: Duration = Duration::from_secs(30);

/// Slots of the timer wheel, one for each second: more than a trigger's lifetime.
const WHEEL: usize = 64;

/// Limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Triggers.
    pub triggers: usize,
    /// Triggers with one id: each gets a copy of a packet.
    pub of_one_id: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { triggers: 250_000, of_one_id: 64 }
    }
}

/// Why a trigger is not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The table is full.
    #[error("the server has {0} triggers already, its limit")]
    Full(usize),
    /// The id has too many triggers.
    #[error("the id has {0} triggers already, the limit for one id")]
    Copies(usize),
    /// A prefix longer than an id.
    #[error("a prefix of {0} bits; an id has 256")]
    Prefix(u16),
    /// A stack of no ids or too many.
    #[error("a stack of {0} ids; 1 to 15 are possible")]
    Stack(usize),
    /// The keys do not fit.
    #[error("neither constraint holds between the trigger's id and its target")]
    Constraint,
}

#[derive(Clone, Debug)]
struct Entry {
    trigger: Trigger,
    ends: Duration,
}

impl Needs for Entry {
    fn needed_bits(&self) -> u16 {
        self.trigger.needed_bits()
    }
}

/// Triggers by id.
#[derive(Clone, Debug)]
pub struct Table {
    limits: Limits,
    buckets: HashMap<Prefix, Trie<Entry>>,
    count: usize,
    /// Ids with triggers that may end in a second, by the second modulo [`WHEEL`].
    wheel: Vec<Vec<Id>>,
    /// The seconds up to which ended triggers are removed.
    swept_s: u64,
}

/// Whether a trigger is well-formed and its constraint holds.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(trigger: &Trigger) -> Result<(), Refused> {
    if trigger.prefix_bits > ID_BITS {
        return Err(Refused::Prefix(trigger.prefix_bits));
    }
    if let Address::Stack(ids) = &trigger.to
        && !(1..=MOST_IDS).contains(&ids.len())
    {
        return Err(Refused::Stack(ids.len()));
    }
    if !constraint::holds(trigger) {
        return Err(Refused::Constraint);
    }
    Ok(())
}

impl Table {
    /// An empty table.
    pub fn new(limits: Limits) -> Table {
        let wheel = vec![Vec::new(); WHEEL];
        Table { limits, buckets: HashMap::new(), count: 0, wheel, swept_s: 0 }
    }

    /// Number of triggers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Inserts a trigger, or refreshes the one with the same id and target. It ends after
    /// `lifetime`, at most [`LIFETIME`]. Returns whether it is new.
    ///
    /// # Errors
    /// The table or the id has too many triggers. The trigger itself is not checked here; see
    /// [`check`].
    pub fn insert(
        &mut self,
        now: Duration,
        trigger: Trigger,
        lifetime: Duration,
    ) -> Result<bool, Refused> {
        let (id, limits, full) = (trigger.id, self.limits, self.count >= self.limits.triggers);
        let ends = now + lifetime.min(LIFETIME);
        let trie = self.buckets.entry(id.prefix()).or_default();
        let inserted = trie.change(id.suffix(), |entries| {
            match entries.iter().position(|entry| entry.trigger.to.is_same(&trigger.to)) {
                Some(at) => {
                    let ends = entries[at].ends.max(ends);
                    entries[at] = Entry { trigger, ends };
                    Ok(false)
                }
                None if full => Err(Refused::Full(limits.triggers)),
                None if entries.len() >= limits.of_one_id => Err(Refused::Copies(entries.len())),
                None => {
                    entries.push(Entry { trigger, ends });
                    Ok(true)
                }
            }
        });
        if trie.is_empty() {
            self.buckets.remove(&id.prefix());
        }
        if inserted == Ok(true) {
            self.count += 1;
            self.wheel[slot(ends)].push(id);
        }
        inserted
    }

    /// Removes the trigger with this id and target. Returns whether it existed.
    pub fn remove(&mut self, id: &Id, to: &Address) -> bool {
        let removed = self.retain(id, |entry| !entry.trigger.to.is_same(to));
        removed > 0
    }

    /// The triggers that get a packet: all triggers of the id that has most bits in common with the
    /// packet's id.
    pub fn matching(&mut self, now: Duration, id: &Id) -> Vec<Trigger> {
        // Otherwise expired triggers of another id could hide those of this one.
        self.sweep(now);
        while let Some((leaf, bits)) =
            self.buckets.get(&id.prefix()).and_then(|trie| trie.longest(id.suffix()))
        {
            let of = id.with_suffix(leaf.suffix);
            let live = |entry: &&Entry| entry.ends > now && entry.needed_bits() <= bits;
            let found: Vec<Trigger> =
                leaf.items.iter().filter(live).map(|entry| entry.trigger.clone()).collect();
            if !found.is_empty() || self.retain(&of, |entry| entry.ends > now) == 0 {
                return found;
            }
        }
        Vec::new()
    }

    /// Filters the entries of an id. Returns how many were removed.
    fn retain(&mut self, id: &Id, keep: impl FnMut(&Entry) -> bool) -> usize {
        let Some(trie) = self.buckets.get_mut(&id.prefix()) else { return 0 };
        let gone = trie.change(id.suffix(), |entries| {
            let before = entries.len();
            entries.retain(keep);
            before - entries.len()
        });
        if trie.is_empty() {
            self.buckets.remove(&id.prefix());
        }
        self.count -= gone;
        gone
    }

    /// Removes triggers that have ended. The cost grows with the number of triggers that were
    /// inserted a lifetime ago.
    pub fn sweep(&mut self, now: Duration) {
        let until = now.as_secs();
        // After a long pause each slot is visited once.
        let first = self.swept_s.max(until.saturating_sub(WHEEL as u64));
        for second in first..until {
            let mut ids = std::mem::take(&mut self.wheel[slot(Duration::from_secs(second))]);
            ids.sort_unstable();
            // The list contains an id once for each insertion.
            ids.dedup();
            for id in ids {
                self.retain(&id, |entry| entry.ends > now);
                let next = self.next_end(&id);
                if let Some(next) = next {
                    self.wheel[slot(next.max(now))].push(id);
                }
            }
        }
        self.swept_s = until;
    }

    /// The time when the first of an id's triggers ends.
    fn next_end(&self, id: &Id) -> Option<Duration> {
        let (leaf, bits) = self.buckets.get(&id.prefix())?.longest(id.suffix())?;
        (bits == ID_BITS).then(|| leaf.items.iter().map(|entry| entry.ends).min())?
    }

    /// All triggers whose prefix `is_wanted`, each with its remaining lifetime.
    pub fn all(
        &self,
        now: Duration,
        is_wanted: impl Fn(&Prefix) -> bool,
    ) -> Vec<(Duration, Trigger)> {
        let mut found = Vec::new();
        for (prefix, trie) in &self.buckets {
            if is_wanted(prefix) {
                trie.visit(&mut |leaf| {
                    let live = leaf.items.iter().filter(|entry| entry.ends > now);
                    found.extend(live.map(|entry| (entry.ends - now, entry.trigger.clone())));
                });
            }
        }
        found
    }
}

fn slot(at: Duration) -> usize {
    usize::try_from(at.as_secs() % WHEEL as u64).unwrap_or(0)
}
