//! One direction of a link in simulated time.

use europa_impair::{Cause, Distribution, Impairment, Limit, Loss, Settings};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Submits `count` packets of `length` bytes, one every `gap_ns`, until all have arrived. Returns
/// number and time of each arrival.
fn run(settings: Settings, count: u64, length: u32, gap_ns: u64) -> Vec<(u64, u64)> {
    let mut link = Impairment::new(settings, 1 << 20);
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = number * gap_ns;
        collect(&mut link, now, &mut arrived);
        let _ = link.submit(now, length, number);
    }
    collect(&mut link, u64::MAX, &mut arrived);
    assert!(link.is_empty());
    arrived
}

/// Steps the clock to each arrival up to `now`.
fn collect(link: &mut Impairment<u64>, now: u64, arrived: &mut Vec<(u64, u64)>) {
    while let Some(due) = link.next_due_ns().filter(|due| *due <= now) {
        let packet = link.pop(due).expect("it is due");
        for _ in 0..1 + u64::from(packet.twice) {
            arrived.push((packet.packet, due));
        }
    }
}

#[test]
fn a_delay_is_exact_and_nothing_comes_early() {
    let settings = Settings { delay_ns: 10 * MS, ..Settings::default() };
    let mut link = Impairment::new(settings, 10);
    link.submit(5, 100, 0).expect("there is room");
    assert_eq!((link.next_due_ns(), link.pop(10 * MS + 4)), (Some(10 * MS + 5), None));
    assert_eq!(link.pop(10 * MS + 5).map(|due| due.packet), Some(0));
    assert!(link.is_empty());
}

#[test]
fn a_rate_spaces_packets_and_the_limit_cuts_the_queue() {
    // 1250 bytes at 10 Mb/s take one millisecond.
    let settings = Settings {
        rate_bits: Some(10_000_000),
        delay_ns: 3 * MS,
        limit: Limit { packets: 4, bytes: u64::MAX },
        ..Settings::default()
    };
    let mut link = Impairment::new(settings, 100);
    let fates: Vec<_> = (0..6).map(|number| link.submit(0, 1250, number)).collect();
    assert_eq!(fates[..4], [Ok(()); 4]);
    assert_eq!(fates[4..], [Err(Cause::Limit); 2]);
    let mut arrived = Vec::new();
    collect(&mut link, u64::MAX, &mut arrived);
    assert_eq!(arrived, [(0, 4 * MS), (1, 5 * MS), (2, 6 * MS), (3, 7 * MS)]);
    // After a millisecond one packet has left, so there is room for one.
    let mut link = Impairment::new(settings, 100);
    assert!((0..4).all(|number| link.submit(0, 1250, number).is_ok()));
    assert_eq!([link.submit(MS, 1250, 4), link.submit(MS, 1250, 5)], [Ok(()), Err(Cause::Limit)]);
    assert_eq!((link.statistics().over_limit, link.statistics().waiting), (1, 5));
}

#[test]
fn a_limit_in_bytes_counts_bytes() {
    let settings = Settings {
        rate_bits: Some(8_000_000),
        limit: Limit { packets: 1000, bytes: 3000 },
        ..Settings::default()
    };
    let mut link = Impairment::new(settings, 100);
    let fates: Vec<bool> = (0..5).map(|number| link.submit(0, 1000, number).is_ok()).collect();
    assert_eq!(fates, [true, true, true, false, false]);
    assert!(link.submit(1000 * 1000, 1000, 5).is_ok(), "a thousand bytes have left");
    // A frame larger than the limit still passes when no packet waits.
    let mut link = Impairment::new(settings, 100);
    assert!(link.submit(0, 9000, 0).is_ok());
}

#[test]
fn a_full_share_is_a_cause_of_its_own() {
    let settings = Settings { delay_ns: MS, ..Settings::default() };
    let mut link = Impairment::new(settings, 2);
    let fates: Vec<_> = (0..3).map(|number| link.submit(0, 100, number)).collect();
    assert_eq!(fates, [Ok(()), Ok(()), Err(Cause::Share)]);
    link.pop(MS).expect("one arrives");
    assert_eq!(link.submit(MS, 100, 3), Ok(()));
}

#[test]
fn jitter_keeps_order_and_reordering_does_not() {
    for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
        let jitter =
            Settings { delay_ns: 20 * MS, jitter_ns: 5 * MS, distribution, ..Settings::default() };
        let arrived = run(jitter, 10_000, 100, MS);
        assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]), "{distribution:?}");
        assert!(arrived.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }
    let settings = Settings { delay_ns: 20 * MS, reorder: 0.1, ..Settings::default() };
    let arrived = run(settings, 10_000, 100, MS);
    assert_eq!(arrived.len(), 10_000);
    let express = arrived.iter().filter(|(number, at)| *at == number * MS).count();
    assert!((850..1150).contains(&express), "{express}");
    assert!(arrived.iter().all(|(number, at)| [0, 20 * MS].contains(&(at - number * MS))));
}

#[test]
fn shares_of_losses_duplicates_and_errors_come_out() {
    let settings = Settings {
        loss: Loss::Independent { share: 0.1 },
        duplicate: 0.05,
        corrupt: 0.02,
        ..Settings::default()
    };
    let mut link = Impairment::new(settings, 1);
    let mut bits = [0; 800];
    for number in 0..100_000 {
        let _ = link.submit(number, 100, number);
        if let Some(bit) = link.pop(number).and_then(|due| due.wrong_bit) {
            bits[bit as usize] += 1;
        }
    }
    let found = link.statistics();
    // Six standard deviations.
    assert!(found.lost.abs_diff(10_000) < 570, "{found:?}");
    assert!(found.duplicated.abs_diff(4_500) < 400, "{found:?}");
    assert!(found.corrupted.abs_diff(1_800) < 260, "{found:?}");
    assert!(bits.iter().filter(|count| **count > 0).count() > 600, "all over the frame");
}

#[test]
fn a_seed_repeats_a_run_and_another_does_not() {
    let settings = |seed| Settings {
        delay_ns: MS,
        jitter_ns: MS / 2,
        loss: Loss::Bursts { begin: 0.02, end: 0.3, bad: 0.9, good: 0.01 },
        reorder: 0.05,
        duplicate: 0.05,
        seed,
        ..Settings::default()
    };
    let first = run(settings(1), 5000, 100, 10_000);
    assert_eq!(first, run(settings(1), 5000, 100, 10_000));
    assert_ne!(first, run(settings(2), 5000, 100, 10_000));
}

#[test]
fn a_change_leaves_those_on_the_way_alone() {
    let slow = Settings { delay_ns: 100 * MS, ..Settings::default() };
    let mut link = Impairment::new(slow, 10);
    link.submit(0, 100, 0).expect("there is room");
    link.change(Settings { delay_ns: MS, rate_bits: Some(1_000_000), ..slow });
    link.submit(MS, 125, 1).expect("there is room");
    let mut arrived = Vec::new();
    collect(&mut link, u64::MAX, &mut arrived);
    // The second packet is sent at 2 ms and would arrive at 3 ms: it does not overtake the first.
    assert_eq!(arrived, [(0, 100 * MS), (1, 100 * MS)]);
    link.submit(200 * MS, 125, 2).expect("there is room");
    assert_eq!(link.next_due_ns(), Some(202 * MS));
}

#[test]
fn nothing_is_nothing() {
    assert!(Settings::default().is_nothing());
    assert!(Settings { seed: 3, ..Settings::default() }.is_nothing());
    assert!(!Settings { delay_ns: 1, ..Settings::default() }.is_nothing());
    assert!(!Settings { rate_bits: Some(1), ..Settings::default() }.is_nothing());
}

proptest! {
    /// For any settings and times, each packet is refused, or arrives once or twice. It arrives not
    /// before it was submitted, and no faster than the rate.
    #[test]
    fn packets_are_conserved_and_the_rate_is_kept(
        rate in proptest::option::of(1_000_000u64..10_000_000_000),
        delay_ns in 0..100 * MS,
        jitter_ns in 0..50 * MS,
        pareto: bool,
        loss in 0.0..0.5,
        reorder in 0.0..0.5,
        duplicate in 0.0..0.5,
        limit in 1u32..200,
        capacity in 1usize..300,
        packets in prop::collection::vec((0..5 * MS, 14u32..9000), 1..300),
        seed: u64,
    ) {
        let settings = Settings {
            rate_bits: rate,
            delay_ns,
            jitter_ns,
            distribution: if pareto { Distribution::Pareto } else { Distribution::Normal },
            loss: Loss::Independent { share: loss },
            reorder,
            duplicate,
            corrupt: 0.1,
            limit: Limit { packets: limit, bytes: u64::MAX },
            seed,
        };
        let mut link = Impairment::new(settings, capacity);
        let (mut now, mut kept, mut refused) = (0, Vec::new(), 0u64);
        let mut arrived = Vec::new();
        for (number, (gap, length)) in (0u64..).zip(&packets) {
            now += gap;
            collect(&mut link, now, &mut arrived);
            match link.submit(now, *length, number) {
                Ok(()) => kept.push((number, now, *length)),
                Err(_) => refused += 1,
            }
            prop_assert!(link.len() <= capacity);
        }
        collect(&mut link, u64::MAX, &mut arrived);
        let found = link.statistics();
        prop_assert_eq!(found.packets, packets.len() as u64);
        prop_assert_eq!(found.lost + found.over_limit + found.over_share, refused);
        prop_assert_eq!(arrived.len() as u64, kept.len() as u64 + found.duplicated);
        prop_assert!(arrived.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let mut total = 0u64;
        for (number, submitted, length) in kept {
            let at: Vec<u64> =
                arrived.iter().filter(|(n, _)| *n == number).map(|(_, at)| *at).collect();
            prop_assert!(matches!(at.len(), 1 | 2));
            prop_assert!(at.iter().all(|at| *at >= submitted));
            if let Some(rate) = rate {
                // All packets sent so far take at least their transmission time, minus a rounding
                // error each.
                total += u64::from(length) * 8_000_000_000 / rate;
                prop_assert!(at[0] >= total);
            }
        }
    }
}
