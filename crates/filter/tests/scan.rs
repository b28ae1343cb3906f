//! Compares look-ups with a linear scan, through random batches of changes.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{KINDS, generate, packet};
use europa_filter::{Cache, Change, Error, Hits, Key, Number, Rule, Slice, Table, Writer, parse};
use europa_impair::Random;
use proptest::prelude::*;

/// The simplest possible table.
fn scan<const N: usize>(rules: &[Rule<u32, N>], key: &Key<N>) -> Option<u32> {
    let fits = rules.iter().filter(|rule| rule.matches(key));
    fits.max_by_key(|rule| (rule.priority, !rule.number)).map(|rule| rule.result)
}

/// Masks that often contain each other; few values.
fn bits<const N: usize>() -> impl Strategy<Value = Key<N>> {
    let word = prop_oneof![
        2 => Just(0u64),
        1 => Just(u64::MAX),
        4 => (0u32..65).prop_map(|bits| u64::MAX.checked_shl(64 - bits).unwrap_or(0)),
        2 => (0u32..33, 0u32..33).prop_map(|(high, low)| {
            let part = |bits| u64::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
            part(high) << 32 | part(low)
        }),
        1 => any::<u64>(),
    ];
    prop::array::uniform::<_, N>(word)
}

fn value<const N: usize>() -> impl Strategy<Value = Key<N>> {
    let byte = prop_oneof![3 => Just(0u8), 2 => Just(0x80u8), 1 => Just(0xffu8), 1 => any::<u8>()];
    let word = prop::array::uniform8(byte).prop_map(u64::from_be_bytes);
    prop::array::uniform::<_, N>(word)
}

fn changes<const N: usize>() -> impl Strategy<Value = Vec<Change<u32, N>>> {
    let add = (0u32..40, 0u32..6, value(), bits(), any::<u32>()).prop_map(
        |(number, priority, value, mask, result)| {
            Change::Add(Rule { number, priority, value, mask, result })
        },
    );
    let change = prop_oneof![3 => add, 1 => (0u32..40).prop_map(Change::Remove)];
    prop::collection::vec(change, 0..12)
}

/// The rules after a batch, or the reason why it is refused.
fn change<const N: usize>(
    rules: &[Rule<u32, N>],
    changes: &[Change<u32, N>],
    limit: usize,
) -> Result<Vec<Rule<u32, N>>, Error> {
    let mut rules = rules.to_vec();
    for change in changes {
        let at = |number: Number| rules.iter().position(|rule| rule.number == number);
        match *change {
            Change::Add(Rule { number, .. }) if at(number).is_some() => {
                return Err(Error::Taken { number });
            }
            Change::Add(_) if rules.len() >= limit => {
                return Err(Error::SliceFull { limit: limit as u32 });
            }
            Change::Add(mut rule) => {
                rule.value = std::array::from_fn(|word| rule.value[word] & rule.mask[word]);
                rules.push(rule);
            }
            Change::Remove(number) => {
                rules.swap_remove(at(number).ok_or(Error::Missing { number })?);
            }
        }
    }
    Ok(rules)
}

fn check<const N: usize>(
    batches: Vec<(u16, Vec<Change<u32, N>>)>,
    keys: &[Key<N>],
) -> Result<(), TestCaseError> {
    let limit = 25;
    let mut table = Table::new(100);
    let mut cache = Cache::new(64);
    let mut model = [vec![], vec![], vec![]];
    (0..3).for_each(|slice| table.set_limit(Slice(slice), limit));
    for (slice, batch) in batches {
        let rules = &mut model[usize::from(slice)];
        let wanted = change(rules, &batch, limit as usize);
        prop_assert_eq!(
            table.apply(Slice(slice), &batch),
            wanted.as_ref().map(|_| ()).map_err(|e| *e)
        );
        if let Ok(wanted) = wanted {
            *rules = wanted;
        }
        for (slice, rules) in model.iter().enumerate() {
            let slice = Slice(slice as u16);
            prop_assert_eq!(table.rules(slice).count(), rules.len());
            let own = rules.iter().map(|rule| rule.value);
            for key in keys.iter().copied().chain(own) {
                let found = table.lookup(slice, &key);
                prop_assert_eq!(found.map(|found| found.result), scan(rules, &key));
                // Looked up twice: the first finds the rule, the second uses the cache.
                prop_assert_eq!(cache.lookup(&table, slice, &key), found);
                prop_assert_eq!(cache.lookup(&table, slice, &key), found);
            }
        }
    }
    prop_assert_eq!(table.len(), model.iter().map(Vec::len).sum::<usize>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn five_tuples_are_found(
        batches in prop::collection::vec((0u16..3, changes::<2>()), 1..25),
        keys in prop::collection::vec(value::<2>(), 1..40),
    ) {
        check(batches, &keys)?;
    }

    #[test]
    fn keys_of_320_bits_are_found(
        batches in prop::collection::vec((0u16..3, changes::<5>()), 1..25),
        keys in prop::collection::vec(value::<5>(), 1..40),
    ) {
        check(batches, &keys)?;
    }
}

#[test]
fn a_tuple_whose_highest_rule_left_hides_no_other() {
    let add = |number, priority, value: u64, mask| {
        let value = [0, value];
        Change::Add(Rule { number, priority, value, mask, result: number })
    };
    let second = [0, u64::MAX];
    let changes = [
        add(6, 5, 1, second),
        add(2, 0, 2, second),
        Change::Remove(6),
        add(12, 4, 0, [u64::MAX, 0]),
        add(18, 0, 3, second),
        add(4, 4, 0, [0, 1 << 31]),
        // The tuple grows, and no longer contains a rule of priority 5.
        add(5, 0, 4, second),
        add(0, 0, 0, [0, 0]),
    ];
    let mut table = Table::new(100);
    table.apply(Slice(0), &changes).unwrap();
    assert_eq!(table.lookup(Slice(0), &[0, 1 << 31]).map(|found| found.result), Some(12));
}

#[test]
fn rules_like_classbench_are_found_while_they_come_and_go() {
    for (kind, seed) in KINDS {
        let filters = generate(kind, 1500, seed);
        let expanded = filters.iter().enumerate().flat_map(|(at, filter)| {
            filter.ternary().map(move |(value, mask)| (at as u32, value, mask))
        });
        let rules: Vec<Rule<u32, 2>> = expanded
            .enumerate()
            .map(|(number, (at, value, mask))| {
                let priority = u32::MAX - at;
                Rule { number: number as u32, priority, value, mask, result: at }
            })
            .collect();
        let mut table = Table::new(rules.len() as u32);
        let all: Vec<_> = rules.iter().map(|rule| Change::Add(*rule)).collect();
        table.apply(Slice(7), &all).unwrap();
        let mut random = Random::new(seed);
        // With all rules, without every third, and with all again.
        for gone in [false, true, false] {
            for _ in 0..3000 {
                let drawn = &filters[random.below(1500) as usize];
                let mut packet = packet(&mut random, drawn);
                if random.below(4) == 0 {
                    packet.source = (random.bits() as u32).into();
                }
                let first = filters.iter().position(|filter| filter.matches(&packet));
                let found = table.lookup(Slice(7), &packet.key());
                if gone {
                    let left: Vec<_> = rules.iter().filter(|rule| rule.number % 3 > 0).collect();
                    let fits = left.iter().find(|rule| rule.matches(&packet.key()));
                    assert_eq!(found.map(|found| found.result), fits.map(|rule| rule.result));
                } else {
                    assert_eq!(found.map(|found| found.result as usize), first);
                }
                assert_eq!(table.lookup(Slice(6), &packet.key()), None);
            }
            let third = rules.iter().filter(|rule| rule.number % 3 == 0);
            let change = |rule: &Rule<u32, 2>| {
                if gone { Change::Add(*rule) } else { Change::Remove(rule.number) }
            };
            table.apply(Slice(7), &third.map(change).collect::<Vec<_>>()).ok();
        }
    }
}

#[test]
fn readers_see_all_of_a_batch_or_nothing() {
    let mut writer: Writer<u32, 2> = Writer::new(64);
    let mut reader = writer.reader(16);
    // Two rules for two keys, always replaced together by a batch.
    let rules = |round: u32| {
        [0, 1].map(|number| {
            let value = [u64::from(number), 0];
            Change::Add(Rule { number, priority: 1, value, mask: [u64::MAX, 0], result: round })
        })
    };
    writer.apply(Slice(0), &rules(0)).unwrap();
    let (done, looked) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (done, looked) = (&done, &looked);
        scope.spawn(move || {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let mut batch = reader.batch();
                for _ in 0..8 {
                    let [a, b] = [0, 1].map(|key| batch.lookup(Slice(0), &[key, 9], 100).unwrap());
                    assert_eq!(a, b);
                    assert!(a >= last);
                    last = a;
                }
                looked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut round = 0;
        while round < 2000 || looked.load(Ordering::Relaxed) < 2000 {
            round += 1;
            let [a, b] = rules(round);
            let batch = [Change::Remove(0), Change::Remove(1), a, b];
            writer.apply(Slice(0), &batch).unwrap();
            // Refused as a whole.
            let missing = writer.apply(Slice(0), &[Change::Remove(0), Change::Remove(7)]);
            assert_eq!(missing, Err(Error::Missing { number: 7 }));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn hits_are_those_of_the_rule_that_is_there() {
    let mut writer: Writer<u8, 1> = Writer::new(2);
    let (mut one, mut two) = (writer.reader(4), writer.reader(4));
    let rule = |number, value| {
        Change::Add(Rule { number, priority: 0, value: [value], mask: [u64::MAX], result: 0 })
    };
    let hits = |packets, bytes| Some(Hits { packets, bytes });
    writer.apply(Slice(1), &[rule(5, 50), rule(6, 60)]).unwrap();
    for reader in [&mut one, &mut two] {
        let mut batch = reader.batch();
        for (key, length) in [(50, 100), (50, 200), (60, 1000), (70, 5000)] {
            batch.lookup(Slice(1), &[key], length);
        }
    }
    assert_eq!(writer.hits(Slice(1), 5), hits(4, 600));
    assert_eq!(writer.hits(Slice(1), 6), hits(2, 2000));
    assert_eq!((writer.hits(Slice(1), 7), writer.hits(Slice(0), 5)), (None, None));
    writer.apply(Slice(1), &[Change::Remove(5)]).unwrap();
    writer.apply(Slice(1), &[rule(7, 50)]).unwrap();
    assert_eq!(writer.hits(Slice(1), 7), hits(0, 0));
    one.batch().lookup(Slice(1), &[50], 64);
    assert_eq!(writer.hits(Slice(1), 7), hits(1, 64));
    let full = writer.apply(Slice(0), &[rule(1, 1)]);
    assert_eq!(full, Err(Error::Full { capacity: 2 }));
}

#[test]
fn generated_filters_survive_being_written_and_read() {
    for (kind, seed) in KINDS {
        let filters = generate(kind, 200, seed);
        let line = |filter: &europa_filter::Filter| {
            let (from, to) = (&filter.source_ports, &filter.destination_ports);
            format!(
                "@{}/{}\t{}/{}\t{} : {}\t{} : {}\t0x{:02X}/0x{:02X}\t0x{:04X}/0x{:04X}\t\n",
                filter.source.0,
                filter.source.1,
                filter.destination.0,
                filter.destination.1,
                from.start(),
                from.end(),
                to.start(),
                to.end(),
                filter.protocol.0,
                filter.protocol.1,
                filter.flags.0,
                filter.flags.1,
            )
        };
        let text: String = filters.iter().map(line).collect();
        assert_eq!(parse(&text), Ok(filters));
    }
}
