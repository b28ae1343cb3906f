//! The rules: a separate thread changes them, so that no packet waits for a change.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use europa_channel::Channel;
use europa_filter::{Change, Error, Hits, Rule, Slice, Writer};
use europa_pool::Mapping;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::action::{Action, Outcome, Reply};
use super::changes::{Batch, CAPACITY, Counts, FilterAnswer, FilterOrder};

/// The tables.
pub(super) struct Rules {
    pub(super) ipv4: Writer<Action, 2>,
    pub(super) ipv6: Writer<Action, 5>,
    pub(super) opaque: Writer<Reply, 5>,
}

impl Rules {
    /// Empty tables.
    pub(super) fn new() -> Self {
        Self {
            ipv4: Writer::new(CAPACITY),
            ipv6: Writer::new(CAPACITY),
            opaque: Writer::new(CAPACITY),
        }
    }

    /// Carries out the orders of nodes, one after the other; ends when no node can connect any
    /// more.
    pub(super) fn serve(mut self, nodes: &Receiver<OwnedFd>) {
        // The worker keeps its core to itself, if there are others: this thread may use all cores
        // of the process. If the kernel refuses, the thread stays on its core.
        let mut all = CpuSet::new();
        for cpu in 0..CpuSet::count() {
            let _ = all.set(cpu);
        }
        let _ = sched_setaffinity(Pid::from_raw(0), &all);
        while let Ok(node) = nodes.recv() {
            let mut orders: Channel<FilterAnswer, FilterOrder> = Channel::new(node);
            // After a node that has ended, or sent an invalid message, the next one follows.
            while let Ok((order, descriptors)) = orders.receive() {
                let answer = self.obey(order, descriptors.first());
                let answer = answer.unwrap_or_else(FilterAnswer::Refused);
                if orders.send(&answer, &[]).is_err() {
                    break;
                }
            }
        }
    }

    fn obey(
        &mut self,
        order: FilterOrder,
        memory: Option<&OwnedFd>,
    ) -> Result<FilterAnswer, String> {
        let read = |counts: Counts| Batch::read(counts, memory).ok_or("the memory is too short");
        match order {
            FilterOrder::Change { slice, counts } => self.change(Slice(slice), &read(counts)?)?,
            FilterOrder::Replace { slice, counts } => {
                let Batch { ipv4, ipv6, opaque, .. } = read(counts)?;
                replace(&mut self.ipv4, Slice(slice), &ipv4)?;
                replace(&mut self.ipv6, Slice(slice), &ipv6)?;
                replace(&mut self.opaque, Slice(slice), &opaque)?;
            }
            FilterOrder::Hits { slice, room } => {
                let bytes = room as usize * 24;
                let memory = memory.and_then(|memory| Mapping::new(memory, bytes).ok());
                let count = self.hits(Slice(slice), &memory.ok_or("no memory")?, room as usize);
                return Ok(FilterAnswer::Done(count));
            }
        }
        Ok(FilterAnswer::Done(0))
    }

    fn change(&mut self, slice: Slice, batch: &Batch) -> Result<(), String> {
        let Batch { removed, ipv4, ipv6, opaque } = batch;
        change(&mut self.ipv4, slice, removed, ipv4)?;
        change(&mut self.ipv6, slice, removed, ipv6)?;
        change(&mut self.opaque, slice, removed, opaque)
    }

    /// Writes down how often rules have counted; how many rules that is.
    fn hits(&self, slice: Slice, memory: &Mapping, room: usize) -> u32 {
        let words = memory.words(0, room * 3).unwrap_or_default();
        let mut rows = words.chunks_exact(3);
        let mut count = 0;
        let all = counted(&self.ipv4, slice)
            .chain(counted(&self.ipv6, slice))
            .chain(counted(&self.opaque, slice));
        for (number, hits) in all {
            let Some(row) = rows.next() else { break };
            for (word, value) in row.iter().zip([number.into(), hits.packets, hits.bytes]) {
                word.store(value, Ordering::Relaxed);
            }
            count += 1;
        }
        count
    }
}

/// Rules that have counted, and how often.
fn counted<T: Copy, const N: usize>(
    rules: &Writer<T, N>,
    slice: Slice,
) -> impl Iterator<Item = (u32, Hits)> {
    let numbers: Vec<u32> = rules.table().rules(slice).map(|rule| rule.number).collect();
    let hits =
        numbers.into_iter().filter_map(move |number| Some((number, rules.hits(slice, number)?)));
    hits.filter(|(_, hits)| hits.packets > 0)
}

/// Removes the existing ones of these rules, and adds others.
fn change<T: Outcome, const N: usize>(
    rules: &mut Writer<T, N>,
    slice: Slice,
    removed: &[u32],
    added: &[Rule<T, N>],
) -> Result<(), String> {
    let changes: Vec<_> = {
        let table = rules.table();
        let there = removed.iter().filter(|number| table.place(slice, **number).is_some());
        let removed = there.map(|number| Change::Remove(*number));
        removed.chain(added.iter().map(|rule| Change::Add(*rule))).collect()
    };
    make(rules, slice, &changes)
}

/// Makes a slice's rules these. A rule that only gets another number counts on.
fn replace<T: Outcome, const N: usize>(
    rules: &mut Writer<T, N>,
    slice: Slice,
    wanted: &[Rule<T, N>],
) -> Result<(), String> {
    type Rules<'a, T, const N: usize> = HashMap<u32, &'a Rule<T, N>>;
    let mut counted = HashMap::new();
    let mut come: Vec<&Rule<T, N>> = Vec::new();
    let changes: Vec<_> = {
        let table = rules.table();
        let there: Rules<'_, T, N> = table.rules(slice).map(|rule| (rule.number, rule)).collect();
        let numbers: Rules<'_, T, N> = wanted.iter().map(|rule| (rule.number, rule)).collect();
        let stays = |rule: &Rule<T, N>, others: &Rules<'_, T, N>| {
            others.get(&rule.number).is_some_and(|other| **other == *rule)
        };
        let gone = there.values().filter(|rule| !stays(rule, &numbers));
        let gone = gone.map(|rule| {
            let hits = rules.hits(slice, rule.number).unwrap_or_default();
            counted.insert((rule.priority, rule.value, rule.mask), hits);
            Change::Remove(rule.number)
        });
        let gone: Vec<_> = gone.collect();
        come.extend(wanted.iter().filter(|rule| !stays(rule, &there)));
        gone.into_iter().chain(come.iter().map(|rule| Change::Add(**rule))).collect()
    };
    make(rules, slice, &changes)?;
    for rule in come {
        if let Some(hits) = counted.remove(&(rule.priority, rule.value, rule.mask)) {
            rules.continue_from(slice, rule.number, hits);
        }
    }
    Ok(())
}

fn make<T: Outcome, const N: usize>(
    rules: &mut Writer<T, N>,
    slice: Slice,
    changes: &[Change<T, N>],
) -> Result<(), String> {
    if changes.is_empty() {
        return Ok(());
    }
    rules.apply(slice, changes).map_err(|error: Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(number: u32, value: u64) -> Rule<Action, 2> {
        let mask = [u64::MAX, 0];
        Rule { number, priority: 1, value: [value, 0], mask, result: Action::default() }
    }

    #[test]
    fn a_slice_gets_other_rules() {
        let mut rules = Writer::new(8);
        let (red, blue) = (Slice(0), Slice(1));
        change(&mut rules, red, &[], &[rule(1, 1), rule(2, 2), rule(3, 3)]).unwrap();
        change(&mut rules, blue, &[], &[rule(1, 1)]).unwrap();
        let mut reader = rules.reader(16);
        assert!(reader.batch().lookup(red, &[2, 0], 100).is_some());
        // A number that only another family has is ignored here.
        change(&mut rules, red, &[1, 77], &[rule(4, 4)]).unwrap();
        replace(&mut rules, red, &[rule(2, 2), rule(3, 33), rule(5, 5)]).unwrap();
        let mut numbers: Vec<_> =
            rules.table().rules(red).map(|rule| (rule.number, rule.value[0])).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [(2, 2), (3, 33), (5, 5)]);
        assert_eq!(rules.hits(red, 2).unwrap().bytes, 100, "what stays keeps its counters");
        replace(&mut rules, red, &[rule(7, 2), rule(2, 33), rule(5, 5)]).unwrap();
        let hits = [7, 2].map(|number| rules.hits(red, number).unwrap().packets);
        assert_eq!(hits, [1, 0], "another number, the same counters");
        assert_eq!(rules.table().rules(blue).count(), 1);
        assert!(change(&mut rules, red, &[], &[rule(2, 9)]).unwrap_err().contains("already"));
    }
}
