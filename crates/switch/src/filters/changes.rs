//! Rules and actions from the node: its orders, and the layout of rules in shared memory. Parsing a
//! hundred thousand rules from text would take longer than adding them.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use europa_filter::{Key, Rule};
use europa_pool::Mapping;
use serde::{Deserialize, Serialize};

use super::action::{Action, Outcome, Reply};

/// Most rules of each kind, over all slices.
pub const CAPACITY: u32 = 1 << 18;

/// The node's changes of rules, over a separate connection. Each is answered by one
/// [`FilterAnswer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterOrder {
    /// Changes of a slice's rules, all of a family at once. Descriptor: memory with a
    /// [`Batch`], unless that is empty.
    Change {
        /// The slice's number.
        slice: u16,
        /// The numbers of packed entries in the memory.
        counts: Counts,
    },
    /// Replaces a slice's rules; rules that stay keep their counters. Descriptor: as above; no rule
    /// is removed by number.
    Replace {
        /// The slice's number.
        slice: u16,
        /// The numbers of packed entries in the memory.
        counts: Counts,
    },
    /// How often rules have counted. Descriptor: memory for three words a rule: its number,
    /// packets, bytes.
    Hits {
        /// The slice's number.
        slice: u16,
        /// Room for rules.
        room: u32,
    },
}

/// Its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterAnswer {
    /// It is done, and applies to every later packet; with the number of rules.
    Done(u32),
    /// It is refused, and changed nothing.
    Refused(String),
}

/// Numbers of changes of each kind in a [`Batch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Numbers of removed rules.
    pub removed: u32,
    /// Added rules for IPv4.
    pub ipv4: u32,
    /// Added rules for IPv6.
    pub ipv6: u32,
    /// Added rules for keys of routers.
    #[serde(default)]
    pub opaque: u32,
}

/// Changes of one slice's rules. A number names a rule of one kind, or one of each.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Numbers of rules to remove, before others are added.
    pub removed: Vec<u32>,
    /// Rules for IPv4 to add.
    pub ipv4: Vec<Rule<Action, 2>>,
    /// Rules for IPv6 to add.
    pub ipv6: Vec<Rule<Action, 5>>,
    /// Rules for keys of routers to add.
    pub opaque: Vec<Rule<Reply, 5>>,
}

/// Words of a rule: number and priority, outcome, value, mask.
const fn words<T: Outcome>(key: usize) -> usize {
    1 + T::WORDS + 2 * key
}

impl Counts {
    fn words(&self) -> usize {
        let rules = |count: u32, words| count as usize * words;
        self.removed as usize
            + rules(self.ipv4, words::<Action>(2))
            + rules(self.ipv6, words::<Action>(5))
            + rules(self.opaque, words::<Reply>(5))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words() * 8
    }
}

fn pack<T: Outcome, const N: usize>(rule: &Rule<T, N>, to: &mut Vec<u8>) {
    let first = u64::from(rule.number) | u64::from(rule.priority) << 32;
    to.extend(first.to_le_bytes());
    rule.result.put(to);
    to.extend(rule.value.into_iter().chain(rule.mask).flat_map(u64::to_le_bytes));
}

fn unpack<T: Outcome, const N: usize>(words: &mut impl Iterator<Item = u64>) -> Option<Rule<T, N>> {
    let first = words.next()?;
    let result = T::take(words)?;
    let mut key = || -> Option<Key<N>> {
        let mut key = [0; N];
        for word in &mut key {
            *word = words.next()?;
        }
        Some(key)
    };
    let (value, mask) = (key()?, key()?);
    Some(Rule { number: first as u32, priority: (first >> 32) as u32, value, mask, result })
}

impl Batch {
    /// The numbers of each kind.
    pub fn counts(&self) -> Counts {
        Counts {
            removed: self.removed.len() as u32,
            ipv4: self.ipv4.len() as u32,
            ipv6: self.ipv6.len() as u32,
            opaque: self.opaque.len() as u32,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.counts() == Counts::default()
    }

    /// Its form in memory.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.counts().bytes());
        bytes.extend(self.removed.iter().flat_map(|number| u64::from(*number).to_le_bytes()));
        self.ipv4.iter().for_each(|rule| pack(rule, &mut bytes));
        self.ipv6.iter().for_each(|rule| pack(rule, &mut bytes));
        self.opaque.iter().for_each(|rule| pack(rule, &mut bytes));
        bytes
    }

    /// Reads it from memory; `None` if the memory is too short.
    pub(super) fn read(counts: Counts, memory: Option<impl AsFd>) -> Option<Self> {
        if counts.words() == 0 {
            return Some(Self::default());
        }
        let memory = Mapping::read_only(memory?, 0, counts.bytes()).ok()?;
        let mut words = memory.words(0, counts.words())?.iter().map(|w| w.load(Ordering::Relaxed));
        let removed =
            (0..counts.removed).map(|_| Some(words.next()? as u32)).collect::<Option<_>>();
        Some(Self {
            removed: removed?,
            ipv4: (0..counts.ipv4).map(|_| unpack(&mut words)).collect::<Option<_>>()?,
            ipv6: (0..counts.ipv6).map(|_| unpack(&mut words)).collect::<Option<_>>()?,
            opaque: (0..counts.opaque).map(|_| unpack(&mut words)).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;
    use crate::filters::action::Verdict;

    #[test]
    fn what_is_written_is_read() {
        let action = Action { verdict: Verdict::Send, mark: 3, queue: 7, to: 9, mirror: 11 };
        let batch = Batch {
            removed: vec![1, u32::MAX],
            ipv4: vec![Rule {
                number: 5,
                priority: 6,
                value: [7; 2],
                mask: [8; 2],
                result: action,
            }],
            ipv6: vec![Rule {
                number: 9,
                priority: 1,
                value: [2; 5],
                mask: [3; 5],
                result: action,
            }],
            opaque: vec![Rule {
                number: 10,
                priority: 2,
                value: [4; 5],
                mask: [5; 5],
                result: Reply { action, result: *b"sixteen bytes .." },
            }],
        };
        let flags = nix::sys::memfd::MFdFlags::empty();
        let mut file: File = nix::sys::memfd::memfd_create(c"test", flags).unwrap().into();
        file.write_all(&batch.bytes()).unwrap();
        let read = Batch::read(batch.counts(), Some(&file)).unwrap();
        assert_eq!(read.removed, batch.removed);
        assert_eq!((read.ipv4, read.ipv6), (batch.ipv4, batch.ipv6));
        assert_eq!(read.opaque, batch.opaque);
        assert!(Batch::read(Counts { removed: 1, ..Counts::default() }, None::<File>).is_none());
    }
}
