//! Tests real graphs on a pool, as the switch runs them, and classes with forbidden behaviour.

use std::io::{Read as _, Seek as _};
use std::thread::sleep;

use europa_channel::pair;
use europa_engine::{Batch, Class, ClassInfo, Context, Element, Handler, HandlerError, Registry};
use europa_pool::account::Counting;
use europa_pool::{Geometry, Layout, PoolView, Word, stock};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::*;
use crate::orders::{Interface, Start};

#[global_allocator]
static HEAP: Counting = Counting;

/// Adds classes that exist only in these tests.
pub(crate) fn add(registry: &mut Registry) {
    registry.add::<Trip>();
    registry.add::<Slow>();
    registry.add::<Hoard>();
    registry.add::<Outside>();
    registry.add::<Clock>();
}

/// Panics at a packet with a 9.
#[derive(Default)]
struct Trip;

impl Class for Trip {
    const INFO: ClassInfo = ClassInfo::new("TestTrip", "1/1").inline();
}

impl Element for Trip {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        assert!(batch.iter().all(|packet| packet.data()[20] != 9), "tripped over a nine");
    }
}

/// Takes 3 ms for a batch.
#[derive(Default)]
struct Slow;

impl Class for Slow {
    const INFO: ClassInfo = ClassInfo::new("TestSlow", "1/1").inline();
}

impl Element for Slow {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        if !batch.is_empty() {
            sleep(Duration::from_millis(3));
        }
    }
}

/// Keeps a quarter of a megabyte for each packet.
#[derive(Default)]
struct Hoard(Vec<Vec<u8>>);

impl Class for Hoard {
    const INFO: ClassInfo = ClassInfo::new("TestHoard", "1/1").inline();
}

impl Element for Hoard {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.0.extend(batch.iter().map(|_| vec![1; 250_000]));
    }
}

/// A class that declares nothing about running inside the switch.
#[derive(Default)]
struct Outside;

impl Class for Outside {
    const INFO: ClassInfo = ClassInfo::new("TestOutside", "1/1");
}

impl Element for Outside {}

/// Stores the time of its run.
#[derive(Default)]
struct Clock;

impl Class for Clock {
    const INFO: ClassInfo = ClassInfo::new("TestClock", "0/0").inline();
}

impl Element for Clock {
    fn handlers(&self) -> &'static [Handler] {
        const { &[Handler::read("now_ns")] }
    }

    fn read(
        &mut self,
        _: &str,
        _: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        Ok(context.now_ns().to_string())
    }
}

/// A guest, together with the node and the substrate, which the test plays.
struct Bench {
    guest: Guest,
    stock: Stock,
    node: Channel<Order, Answer>,
    pool: PoolView,
    log: File,
    recycle_head: u32,
    recycle_tail: u32,
    received: u32,
    sent: u32,
}

const SLOTS: u32 = 64;
const GEOMETRY: Geometry = Geometry { slots: SLOTS, slot_bytes: 2048, interfaces: 2 };
const BOUNDS: Inline = Inline { budget_ns: 50_000, memory_bytes: 1_000_000 };

fn start(configuration: &str) -> Order {
    let interface = |(number, name): (u8, &str)| Interface {
        name: name.to_owned(),
        mac: [2, 0, 0, 0, 0, number],
        mtu: 1500,
        address: None,
    };
    Order::Start(Box::new(Start {
        slots: SLOTS,
        slot_bytes: 2048,
        interfaces: [(1, "in"), (2, "out")].map(interface).into(),
        worker: 0,
        busy: false,
        configuration: configuration.to_owned(),
        file: "test.click".to_owned(),
        grants: Vec::new(),
        inline: Some(BOUNDS),
    }))
}

impl Bench {
    fn new() -> Bench {
        let bytes = Layout::new(GEOMETRY).unwrap().memory_bytes().next_multiple_of(4096);
        let memory = memfd_create(c"pool", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&memory, bytes as i64).unwrap();
        let pool = PoolView::open(&memory, GEOMETRY).unwrap();
        pool.format(&[]);
        let (node, theirs) = pair().unwrap();
        let log = File::from(memfd_create(c"log", MFdFlags::MFD_CLOEXEC).unwrap());
        // There will be no other node.
        let nobody = File::open("/dev/null").unwrap().into();
        let orders = Served::new(Channel::new(theirs), nobody);
        let guest = Guest::new(orders, pool.clone(), log.try_clone().unwrap().into());
        Bench {
            guest,
            stock: Stock::default(),
            node,
            pool,
            log,
            recycle_head: 0,
            recycle_tail: SLOTS - stock(SLOTS),
            received: 0,
            sent: 0,
        }
    }

    /// A bench with this configuration; adds unused `in` and `out` if the configuration lacks them.
    fn running(configuration: &str) -> Bench {
        let mut bench = Bench::new();
        assert!(matches!(bench.ask(&start(configuration)), Ok(Answer::Done(_))));
        bench
    }

    fn ask(&mut self, order: &Order) -> Result<Answer, String> {
        self.node.send(order, &[]).unwrap();
        let heard = self.guest.hear();
        let answer = self.node.try_receive().unwrap().map(|(answer, _)| answer);
        heard.map(|_| answer.expect("an answer"))
    }

    fn read(&mut self, path: &str) -> String {
        let order = Order::Read { path: path.to_owned(), parameter: String::new() };
        match self.ask(&order) {
            Ok(Answer::Done(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Makes `in` receive a frame whose content and length are `says`.
    fn receive(&mut self, says: u8) {
        let recycle = self.pool.recycle();
        let slot = recycle.peek(self.recycle_head).expect("a free slot").slot();
        recycle.clear(self.recycle_head);
        self.recycle_head += 1;
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[20] = says;
        self.pool.mapping().copy_in(self.pool.slot_offset(slot, 256), &frame);
        assert!(self.pool.rx(0).fill(self.received, Word::frame(slot, 256, 60, 0)));
        self.received += 1;
    }

    /// Takes the packets that `out` has sent; returns their number.
    fn take_sent(&mut self) -> u32 {
        let (before, tx) = (self.sent, self.pool.tx(1));
        while let Some(word) = tx.peek(self.sent) {
            tx.clear(self.sent);
            self.sent += 1;
            assert!(self.pool.recycle().fill(self.recycle_tail, Word::free(word.slot())));
            self.recycle_tail += 1;
        }
        self.sent - before
    }

    fn turn(&mut self) -> Result<bool, String> {
        self.stock.fill(24);
        self.guest.turn(Instant::now(), &mut self.stock)
    }

    /// Runs turns until there is no work: one turn, and more if it is cut.
    fn turns(&mut self) -> Result<(), String> {
        for _ in 0..10 {
            if !self.wants_turn() {
                break;
            }
            self.turn()?;
        }
        Ok(())
    }

    fn wants_turn(&self) -> bool {
        self.guest.wants_turn(Instant::now())
    }

    fn said(&mut self) -> String {
        let mut text = String::new();
        self.log.rewind().unwrap();
        self.log.read_to_string(&mut text).unwrap();
        text
    }
}

/// A configuration in which frames pass `elements`.
fn through(elements: &str) -> String {
    format!("FromDevice(in) -> {elements} -> ToDevice(out); FromDevice(out) -> Discard;")
}

#[test]
fn frames_pass_and_nothing_to_do_asks_for_no_turn() {
    let mut bench = Bench::running(&through("c :: Counter -> Queue(8)"));
    for round in 1..=200u32 {
        bench.receive(2);
        assert!(bench.wants_turn());
        bench.turns().unwrap();
        assert!(!bench.wants_turn(), "round {round}");
        assert_eq!(bench.take_sent(), 1, "round {round}");
    }
    assert_eq!(bench.read("c.count"), "200");
    let stats = bench.guest.stats();
    assert_eq!(stats.packets, 200);
    // If the machine takes its core away during a turn, that turn is longer than any budget.
    assert!(stats.cut + stats.overruns < 20, "{stats:?}");
    assert!(stats.turns >= 200 && stats.spent_ns > 0 && stats.longest_ns <= stats.spent_ns);
    // A small router is small.
    assert!((1_000..200_000).contains(&stats.memory_bytes), "{} bytes", stats.memory_bytes);
}

#[test]
fn what_found_no_room_goes_when_there_is_some() {
    let mut bench = Bench::running(&through("Queue(8)"));
    // This has the effect of an earlier frame that still occupies the entry.
    assert!(bench.pool.tx(1).fill(0, Word::free(0)));
    bench.receive(2);
    bench.turns().unwrap();
    bench.pool.tx(1).clear(0);
    assert!(bench.wants_turn(), "it keeps a frame");
    bench.turns().unwrap();
    assert_eq!(bench.take_sent(), 1);
    assert!(!bench.wants_turn());
}

#[test]
fn what_orders_and_answers_say_stays_on_no_account() {
    let mut bench = Bench::running(&through("c :: Counter"));
    let before = bench.guest.stats().memory_bytes;
    let write = Order::Write { path: "c.reset".to_owned(), value: " ".repeat(30_000) };
    let read = Order::Read { path: "c.handlers".to_owned(), parameter: String::new() };
    for _ in 0..100 {
        bench.ask(&write).unwrap();
        assert!(matches!(bench.ask(&read).unwrap(), Answer::Done(_)));
    }
    let after = bench.guest.stats().memory_bytes;
    assert!(after.abs_diff(before) < 1000, "{before} and {after} bytes");
}

#[test]
fn handlers_see_the_present_time_however_long_nothing_came() {
    let mut bench = Bench::running("clock :: TestClock;");
    bench.turns().unwrap();
    let mut now_ns = || bench.read("clock.now_ns").parse::<u64>().unwrap();
    let before = now_ns();
    sleep(Duration::from_millis(30));
    assert!(now_ns() >= before + 30_000_000);
}

#[test]
fn a_swap_keeps_counts_and_a_wrong_one_changes_nothing() {
    let mut bench = Bench::running(&through("c :: Counter"));
    let swap = |configuration: &str| Order::Swap {
        configuration: configuration.to_owned(),
        file: "test.click".to_owned(),
    };
    for (new, fits, count) in [
        ("Null -> c :: Counter", true, "2"),
        ("c :: Nonsense", false, "4"),
        ("c :: Counter -> Script(wait 1s)", false, "6"),
    ] {
        bench.receive(2);
        bench.turns().unwrap();
        let answer = bench.ask(&swap(&through(new))).unwrap();
        assert_eq!(matches!(answer, Answer::Done(_)), fits, "{answer:?}");
        bench.receive(2);
        bench.turns().unwrap();
        assert_eq!(bench.read("c.count"), count);
    }
    assert_eq!(bench.take_sent(), 6);
}

#[test]
fn what_may_not_run_inside_is_refused_with_place_and_reason() {
    for (elements, reason) in [
        ("s :: Socket(UDP, 127.0.0.1, 9)", "s :: Socket cannot run inside the switch: it waits"),
        ("x :: TestOutside", "it is not known to do bounded work and nothing else"),
    ] {
        let mut bench = Bench::new();
        bench.node.send(&start(&through(elements)), &[]).unwrap();
        let why = bench.guest.hear().unwrap_err();
        assert!(why.contains(reason) && why.contains("test.click:1:"), "{why}");
        let told = bench.node.try_receive().unwrap().unwrap().0;
        assert!(matches!(told, Answer::Refused(told) if told == why));
    }
    let mut bench = Bench::new();
    let read = Order::Read { path: "a.b".to_owned(), parameter: String::new() };
    assert!(matches!(bench.ask(&read), Ok(Answer::Refused(_))), "it has not been started");
}

#[test]
fn a_router_that_is_told_of_another_pool_is_refused() {
    let Order::Start(mut told) = start(&through("Idle")) else { unreachable!() };
    told.slots *= 2;
    let mut bench = Bench::new();
    assert_eq!(bench.ask(&Order::Start(told)).unwrap_err(), "its pool is another one");
}

#[test]
fn a_panic_ends_the_router_and_nothing_else() {
    let (mut victim, mut other) =
        (Bench::running(&through("TestTrip")), Bench::running(&through("TestTrip")));
    for round in 0..3 {
        for bench in [&mut victim, &mut other] {
            bench.receive(2);
            bench.turns().unwrap();
            assert_eq!(bench.take_sent(), 1, "round {round}");
        }
    }
    victim.receive(9);
    let why = victim.turns().unwrap_err();
    assert!(why.starts_with("it panicked: tripped over a nine"), "{why}");
    assert!(!victim.wants_turn());
    assert!(victim.turn().is_err(), "it never runs again");
    victim.guest.tell_end(&why);
    let told = victim.node.try_receive().unwrap().unwrap().0;
    assert!(matches!(told, Answer::Ended(told) if told == why));
    // The present size of its memory is unknown: a backtrace caches parts of the program.
    drop(victim);
    other.receive(2);
    other.turns().unwrap();
    assert_eq!(other.take_sent(), 1);
}

#[test]
fn a_circle_is_cut_at_the_budget() {
    let circle = "FromDevice(in) -> a :: Null -> b :: Null -> a; Idle -> ToDevice(out);
                  FromDevice(out) -> Discard;";
    let mut bench = Bench::running(circle);
    bench.receive(2);
    let mut turns_ns = Vec::new();
    for _ in 0..200 {
        let before = bench.guest.stats().spent_ns;
        assert_eq!(bench.turn(), Ok(true));
        turns_ns.push(bench.guest.stats().spent_ns - before);
    }
    let stats = bench.guest.stats();
    // On a fast machine most rounds reach the engine's own limit of 4096 batches first.
    assert!(stats.cut > 0, "{stats:?}");
    assert!(stats.overruns < 8, "{stats:?}");
    // The median is used, because the machine may take the core away during some turns.
    turns_ns.sort_unstable();
    let median_ns = turns_ns[turns_ns.len() / 2];
    assert!((20_000..1_000_000).contains(&median_ns), "{median_ns} ns a turn: {stats:?}");
    // The router still takes orders, and another graph takes over.
    let order = Order::Swap { configuration: through("Null"), file: "test.click".to_owned() };
    assert!(matches!(bench.ask(&order), Ok(Answer::Done(_))));
    bench.receive(2);
    bench.turns().unwrap();
    assert_eq!(bench.take_sent(), 1);
}

#[test]
fn who_is_far_too_long_again_and_again_is_ended() {
    let mut bench = Bench::running(&through("TestSlow"));
    let mut turns = 0;
    let why = loop {
        bench.receive(2);
        turns += 1;
        match bench.turn() {
            Ok(_) => assert!(turns < 100, "{:?}", bench.guest.stats()),
            Err(why) => break why,
        }
        bench.take_sent();
    };
    // If the core is taken away during a turn, the turn is cut before the slow element.
    let stats = bench.guest.stats();
    assert!((STRIKES..=turns).contains(&(stats.overruns as u32)), "{turns} turns: {stats:?}");
    assert!(why.contains("and may take 50 us"), "{why}");
}

#[test]
fn who_is_far_too_long_now_and_then_goes_on() {
    let mut bench = Bench::running(&through("Null"));
    let long = ticks::of_ns(3_000_000);
    for _ in 0..100 {
        for counts in [long, 0, 0, 0, 0] {
            bench.guest.charge(counts).unwrap();
        }
    }
    // Every second turn is too long: 4 strikes minus 1 compensated, until there are 32.
    let ended =
        (0..100).find(|turn| bench.guest.charge(if turn % 2 == 0 { long } else { 0 }).is_err());
    assert_eq!(ended, Some(20));
}

#[test]
fn a_quota_of_memory_is_kept() {
    let mut bench = Bench::running(&through("TestHoard"));
    let why = (0..10).find_map(|_| {
        bench.receive(2);
        bench.turns().err()
    });
    let why = why.expect("a megabyte is too much");
    assert!(why.contains("bytes of memory, and may take 1000000"), "{why}");
    drop(bench);
    // If the graph alone is too large, it does not start.
    let mut bench = Bench::new();
    let large = "FromDevice(in) -> Discard; Idle -> ToDevice(out); FromDevice(out) -> Discard;
                 Idle -> Queue(1000000) -> Discard;";
    bench.node.send(&start(large), &[]).unwrap();
    let heard = bench.guest.hear();
    if heard.is_ok() {
        // The queue allocates its room when it is filled.
        assert!(bench.guest.stats().memory_bytes < 1_000_000);
    }
}

#[test]
fn it_starts_soon() {
    let interface = |number: u8, name: &str| europa_elements::builtin::Interface {
        name: name.to_owned(),
        mac: [2, 0, 0, 0, 0, number].into(),
        mtu: 1500,
        addresses: vec![format!("10.0.{number}.1/24").parse().unwrap()],
    };
    let description = europa_elements::builtin::Description {
        interfaces: vec![interface(1, "in"), interface(2, "out")],
        ..Default::default()
    };
    let text = europa_elements::builtin::ipv4(&description).unwrap();
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let mut bench = Bench::new();
            bench.node.send(&start(&text), &[]).unwrap();
            let begun = Instant::now();
            bench.guest.hear().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    eprintln!("a router for IPv4 starts in {:?} in the median, {:?} at most", times[10], times[19]);
}

#[test]
fn a_log_takes_so_many_lines_and_no_more() {
    let mut bench = Bench::running(&through("Print(seen)"));
    for _ in 0..2 * LINES {
        bench.receive(2);
        bench.turns().unwrap();
        bench.take_sent();
    }
    let said = bench.said();
    let lines = said.lines().filter(|line| line.contains("seen")).count();
    // A second may have passed in the meantime.
    assert!((90..=2 * LINES as usize).contains(&lines), "{lines}");
    if lines < 2 * LINES as usize {
        assert!(said.contains("more is not written"), "{said}");
    }
}
