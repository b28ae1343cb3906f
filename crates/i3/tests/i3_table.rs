//! Compares the table of triggers with a search through all triggers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use europa_i3::table::{LIFETIME, Limits, Refused, Table};
use europa_i3::wire::{Address, Trigger};
use europa_i3::{Id, Key};
use proptest::prelude::*;

fn host(number: u16) -> Address {
    SocketAddr::from(([10, 0, 0, 1], number)).into()
}

fn id(prefix: u8, suffix: u64) -> Id {
    Id([prefix; 32]).with_suffix(suffix)
}

fn trigger(id: Id, to: u16, prefix_bits: u16) -> Trigger {
    Trigger { prefix_bits, ..Trigger::new(id, host(to), Key([1; 16])) }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { prefix: u8, suffix: u64, to: u16, bits: u16 },
    Remove { prefix: u8, suffix: u64, to: u16 },
    Wait { ms: u64 },
    Ask { prefix: u8, suffix: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let suffix = || (0_u64..8, 0_u32..62).prop_map(|(bits, shift)| bits << shift);
    prop_oneof![
        4 => (0_u8..2, suffix(), 0_u16..3, 190_u16..=256)
            .prop_map(|(prefix, suffix, to, bits)| Step::Insert { prefix, suffix, to, bits }),
        1 => (0_u8..2, suffix(), 0_u16..3)
            .prop_map(|(prefix, suffix, to)| Step::Remove { prefix, suffix, to }),
        1 => (0_u64..40_000).prop_map(|ms| Step::Wait { ms }),
        4 => (0_u8..2, suffix()).prop_map(|(prefix, suffix)| Step::Ask { prefix, suffix }),
    ]
}

/// Triggers and when they end.
type All = Vec<(Trigger, Duration)>;

/// Common bits of the longest match among active triggers.
fn longest(all: &All, now: Duration, id: &Id) -> Option<u16> {
    let live = all.iter().filter(|(_, ends)| *ends > now);
    let bits = live.map(|(one, _)| (one.id.common_bits(id), one.prefix_bits.max(192)));
    bits.filter(|(common, needed)| common >= needed).map(|(common, _)| common).max()
}

proptest! {
    #[test]
    fn matches_like_looking_at_all(steps in proptest::collection::vec(step(), 1..80)) {
        let mut table = Table::new(Limits::default());
        let mut all: All = Vec::new();
        let mut now = Duration::from_secs(1);
        for step in steps {
            match step {
                Step::Insert { prefix, suffix, to, bits } => {
                    let one = trigger(id(prefix, suffix), to, bits);
                    all.retain(|(old, ends)| {
                        *ends > now && (old.id != one.id || old.to != one.to)
                    });
                    all.push((one.clone(), now + LIFETIME));
                    prop_assert!(table.insert(now, one, LIFETIME).is_ok());
                }
                Step::Remove { prefix, suffix, to } => {
                    let of = id(prefix, suffix);
                    table.remove(&of, &host(to));
                    all.retain(|(old, _)| old.id != of || old.to != host(to));
                }
                Step::Wait { ms } => now += Duration::from_millis(ms),
                Step::Ask { prefix, suffix } => {
                    let asked = id(prefix, suffix);
                    let found = table.matching(now, &asked);
                    let wanted = longest(&all, now, &asked);
                    prop_assert_eq!(found.first().map(|one| one.id.common_bits(&asked)), wanted);
                    let Some(first) = found.first().map(|one| one.id) else { continue };
                    // All triggers of that id whose prefix is long enough, and no others.
                    let mut targets: Vec<_> = found.iter().map(|one| (one.id, one.to.clone())).collect();
                    let takes = |(one, ends): &&(Trigger, Duration)| {
                        *ends > now && one.id == first && Some(one.prefix_bits.max(192)) <= wanted
                    };
                    let mut expected: Vec<_> =
                        all.iter().filter(takes).map(|(one, _)| (one.id, one.to.clone())).collect();
                    targets.sort();
                    expected.sort();
                    prop_assert_eq!(targets, expected);
                }
            }
        }
        // All triggers expire.
        now += LIFETIME + Duration::from_secs(1);
        table.sweep(now);
        prop_assert_eq!(table.len(), 0);
        prop_assert!(table.all(now, |_| true).is_empty());
    }
}

#[test]
fn limits_hold() {
    let mut table = Table::new(Limits { triggers: 5, of_one_id: 2 });
    let now = Duration::from_secs(7);
    let mut insert = |id: Id, to| table.insert(now, trigger(id, to, 256), LIFETIME);
    assert_eq!(insert(id(1, 1), 1), Ok(true));
    assert_eq!(insert(id(1, 1), 2), Ok(true));
    assert_eq!(insert(id(1, 1), 3), Err(Refused::Copies(2)));
    assert_eq!(insert(id(1, 1), 2), Ok(false), "a refresh");
    for suffix in 2..5 {
        assert_eq!(insert(id(1, suffix), 1), Ok(true));
    }
    assert_eq!(insert(id(2, 1), 1), Err(Refused::Full(5)));
    assert_eq!(insert(id(1, 1), 1), Ok(false), "a refresh of a full table");
    assert_eq!(table.len(), 5);
}

#[test]
fn a_trigger_lives_thirty_seconds() {
    let mut table = Table::new(Limits::default());
    let (start, of) = (Duration::from_millis(1_500), id(3, 3));
    let mut insert_at = Vec::new();
    for (after_ms, inserted, alive) in [
        (0, true, true),
        (29_999, false, true),
        (29_999, true, true),
        (59_998, false, true),
        (59_999, false, false),
    ] {
        let now = start + Duration::from_millis(after_ms);
        if inserted {
            table.insert(now, trigger(of, 1, 256), LIFETIME).expect("room");
            insert_at.push(after_ms);
        }
        assert_eq!(!table.matching(now, &of).is_empty(), alive, "{after_ms} {insert_at:?}");
    }
    assert!(table.is_empty());
}

/// 100,000 triggers; a third of them share a prefix.
#[test]
fn a_hundred_thousand_triggers() {
    let mut table = Table::new(Limits::default());
    let now = Duration::from_secs(1);
    let of = |number: u32| {
        let mut id = Id([0; 32]).with_suffix(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if !number.is_multiple_of(3) {
            id.0[..4].copy_from_slice(&number.to_be_bytes());
        }
        id
    };
    for number in 0..100_000 {
        table.insert(now, trigger(of(number), 1, 192), LIFETIME).expect("room");
    }
    assert_eq!(table.len(), 100_000);
    let start = Instant::now();
    for number in 0..100_000 {
        let found = table.matching(now, &of(number));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, of(number));
    }
    println!("{:?} for each of 100000 look-ups", start.elapsed() / 100_000);
    table.sweep(now + LIFETIME + Duration::from_secs(1));
    assert!(table.is_empty());
}
