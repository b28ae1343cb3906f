use super::*;
use europa_engine::Arena;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    entries: 8,
    packets: 6,
    packets_each: 3,
    fresh_ns: 30,
    expire_ns: 1000,
    delay_ns: 0,
    retransmit_ns: 10,
    tries: 3,
    on_demand: false,
    slim: 2,
};
const SECOND: u64 = 1_000_000_000;

fn table() -> Neighbours<u32> {
    Neighbours::new(LIMITS, [2, 0, 0, 0, 0, 1], [8, 0])
}

#[test]
fn what_was_learned_is_forgotten_and_not_what_was_told() {
    let mut table = table();
    for (address, fixed) in [(1, true), (2, false), (3, false)] {
        assert!(table.insert(address, [2, 0, 0, 0, 0, 9], fixed, 0, |_, _| {}));
    }
    table.forget_learned();
    let left: Vec<u32> = table.lines(0).map(|line| line.address).collect();
    assert_eq!(left, [1]);
    table.clear();
    assert_eq!(table.count(), 0);
}

/// The sequence of states, in units of a second.
#[test]
fn states_follow_each_other() {
    let seconds = |n: u64| n * SECOND;
    let limits = Limits {
        fresh_ns: seconds(30),
        expire_ns: seconds(600),
        delay_ns: seconds(5),
        retransmit_ns: seconds(1),
        ..LIMITS
    };
    let arena = Arena::heap(16, 512);
    let mut table = Neighbours::<u32>::new(limits, [2, 0, 0, 0, 0, 1], [8, 0]);
    let state = |table: &Neighbours<u32>, now| table.lines(now).next().map(|line| line.state);
    let mac = [2, 0, 0, 0, 0, 9];
    let told = Told { address: 7, mac: Some(mac), solicited: true, overrides: true };
    assert!(!table.learn(told, 0, |_, _| {}), "nobody asked");
    let offer = table.offer(7, arena.packet(b"x").unwrap(), 0);
    assert!(matches!(offer, Offer::WaitsAndAsk));
    assert!(matches!(table.offer(7, arena.packet(b"y").unwrap(), 0), Offer::Waits));
    let mut out = Vec::new();
    assert!(table.learn(told, seconds(1), |p, h| out.push((p.data().to_vec(), h[..6].to_vec()))));
    assert_eq!(out, [(b"x".to_vec(), mac.to_vec()), (b"y".to_vec(), mac.to_vec())]);
    assert!(table.header(7, seconds(30)).is_some());
    assert!(table.header(7, seconds(31)).is_none());
    let offer = table.offer(7, arena.packet(b"x").unwrap(), seconds(40));
    assert!(matches!(offer, Offer::Send(..)));
    drop(offer);
    assert_eq!(state(&table, seconds(40)), Some(State::Delay));
    assert!(table.header(7, seconds(41)).is_some(), "may be used meanwhile");
    let mut asked = Vec::new();
    for second in 44..60 {
        table.tick(seconds(second), |_, mac| asked.push((second, mac)), drop);
    }
    assert_eq!(asked, [(46, Some(mac)), (48, Some(mac)), (50, Some(mac))]);
    assert_eq!((table.count(), table.next_due_ns()), (0, None));
    assert_eq!(arena.free(), 16);
}

#[test]
fn what_is_told_counts_as_rfc_4861_says() {
    let (old, new) = ([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]);
    // mac, solicited, overrides → mac, state
    let table_of = [
        (Some(new), true, true, new, State::Reachable),
        (Some(new), false, true, new, State::Stale),
        (Some(new), true, false, old, State::Stale),
        (Some(old), false, false, old, State::Reachable),
        (None, true, true, old, State::Reachable),
    ];
    for (mac, solicited, overrides, wanted, state) in table_of {
        let mut table = table();
        table.insert(7, old, false, 5, |_, _| {});
        table.learn(Told { address: 7, mac, solicited, overrides }, 6, |_, _| {});
        let line = table.lines(6).next().unwrap();
        assert_eq!((line.mac, line.state), (wanted, state), "{mac:?} {solicited} {overrides}");
    }
    let mut table = table();
    table.insert(7, old, true, 5, |_, _| {});
    let told = Told { address: 7, mac: Some(new), solicited: true, overrides: true };
    table.learn(told, 6, |_, _| {});
    assert_eq!(table.header(7, u64::MAX - 1).unwrap()[..6], old, "fixed ones stay");
}

proptest! {
    /// Bounds hold, no packet is lost or freed twice, and known neighbours are found.
    #[test]
    fn tables_stay_within_their_bounds(
        steps in prop::collection::vec((0u8..5, 0u32..20, 0u64..20), 1..200),
        on_demand in any::<bool>()
    ) {
        let arena = Arena::heap(256, 512);
        let limits = Limits { on_demand, ..LIMITS };
        let mut table = Neighbours::<u32>::new(limits, [2, 0, 0, 0, 0, 1], [8, 0]);
        let mut now = 0;
        for (step, address, time) in steps {
            now += time;
            let mac = [2, 0, 0, 0, 0, address as u8];
            match step {
                0 | 1 => match table.offer(address, arena.packet(b"x").unwrap(), now) {
                    Offer::Send(_, header) | Offer::SendAndProbe(_, header) => {
                        prop_assert_eq!(&header[..6], &mac[..]);
                    }
                    _ => {}
                },
                2 => {
                    let told =
                        Told { address, mac: Some(mac), solicited: time % 2 == 0, overrides: true };
                    table.learn(told, now, |_, _| {});
                }
                3 => table.tick(now, |_, _| {}, drop),
                _ => { table.remove(address); }
            }
            if let Some(header) = table.header(address, now) {
                prop_assert_eq!(&header[..6], &mac[..]);
            }
            prop_assert!(table.count() <= 8 && table.length() <= 6 && table.incomplete <= table.count());
            prop_assert_eq!(arena.free() + table.length(), 256);
            prop_assert!(on_demand || table.next_due_ns().is_some() == (table.active > 0));
            let used = table.entries.iter().filter(|e| e.state != State::Free).count();
            prop_assert_eq!(used, table.count());
        }
        table.clear();
        prop_assert_eq!((table.count(), table.length(), arena.free()), (0, 0, 256));
        for address in 0..20 {
            prop_assert!(table.find(address).is_none());
        }
    }
}
