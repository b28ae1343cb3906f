//! The engine with real elements: cycles, turns, timers, queues, hot swap.

use std::any::Any;

use europa_elements::registry;
use europa_engine::{
    Arena, Arguments, Class, ClassInfo, ConfigError, Context, Element, Graph, InitContext,
    NoDevices, Registry, Router,
};

/// Counts its turns, and reports that it has work.
#[derive(Default)]
struct Turns {
    tickets: u32,
    turns: u64,
}

impl Class for Turns {
    const INFO: ClassInfo = ClassInfo::new("Turns", "0/0");
}

impl Element for Turns {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.tickets = arguments.mandatory("TICKETS")?;
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.add_task(self.tickets);
        Ok(())
    }

    fn run_task(&mut self, _: &mut Context<'_>) -> bool {
        self.turns += 1;
        true
    }
}

/// Sets timers and notes when they fire. Timer 0 fires every 10 ns, three times; timer 1 is
/// set to 25, then moved to 15; timer 2 is set and stopped.
#[derive(Default)]
struct Clock(Vec<(u32, u64)>);

impl Class for Clock {
    const INFO: ClassInfo = ClassInfo::new("Clock", "0/0");
}

impl Element for Clock {
    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, 10);
        context.schedule(1, 25);
        context.schedule(2, 12);
        Ok(())
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        self.0.push((timer, context.now_ns()));
        if timer == 0 && self.0.iter().filter(|(timer, _)| *timer == 0).count() < 3 {
            context.schedule(0, context.now_ns() + 10);
            context.schedule(1, 15);
            context.unschedule(2);
        }
    }
}

fn classes() -> Registry {
    let mut registry = registry();
    registry.add::<Turns>();
    registry.add::<Clock>();
    registry
}

/// Elements (name, class, arguments), and connections (from, output, to, input).
type Part<'a> = (&'a str, &'a str, &'a [&'a str]);
type Wire<'a> = (&'a str, usize, &'a str, usize);

fn router(arena: &Arena, elements: &[Part<'_>], wires: &[Wire<'_>]) -> Router {
    let registry = classes();
    let mut graph = Graph::default();
    for (name, class, arguments) in elements {
        graph.add(name, class, arguments);
    }
    let number = |name: &str| elements.iter().position(|(n, ..)| *n == name).unwrap();
    for (from, output, to, input) in wires {
        graph.connect(number(from), *output, number(to), *input);
    }
    Router::build(&graph.resolved(&registry), &registry, arena, &NoDevices, 0).unwrap()
}

fn number(router: &mut Router, handler: &str) -> u64 {
    router.read(handler, "").unwrap().parse().unwrap()
}

fn element<'a, T: Element>(router: &'a mut Router, name: &str) -> &'a mut T {
    let index = router.find(name).unwrap();
    (router.element(index).unwrap() as &mut dyn Any).downcast_mut().unwrap()
}

#[test]
fn packets_in_a_circle_stop_nobody() {
    let arena = Arena::heap(1024, 2048);
    let mut router = router(
        &arena,
        &[
            ("lost", "InfiniteSource", &["LIMIT 10", "BURST 10"]),
            ("a", "Counter", &[]),
            ("b", "Null", &[]),
            ("other", "InfiniteSource", &["BURST 8"]),
            ("out", "Discard", &[]),
        ],
        &[("lost", 0, "a", 0), ("a", 0, "b", 0), ("b", 0, "a", 0), ("other", 0, "out", 0)],
    );
    let mut rounds = 0;
    let mut before = 0;
    // The first packet of the others may wait for one round, behind the cycle.
    for now in 0..20 {
        assert!(router.run_once(now, &mut NoDevices));
        assert!(router.is_busy());
        let count = number(&mut router, "a.count");
        assert!(count > before && count - before <= 4096 * 256, "{count} after {before}");
        before = count;
        rounds += 1;
    }
    let count = number(&mut router, "out.count");
    assert!(count >= 8 * (rounds - 2), "{count} packets in {rounds} rounds");
    assert_eq!(number(&mut router, "lost.count"), 10);
    drop(router);
    assert_eq!(arena.free(), 1024);
}

#[test]
fn turns_follow_tickets() {
    let arena = Arena::heap(8, 2048);
    let mut router = router(
        &arena,
        &[
            ("one", "Turns", &["1024"]),
            ("half", "Turns", &["512"]),
            ("twice", "Turns", &["2048"]),
            ("third", "Turns", &["341"]),
        ],
        &[],
    );
    for now in 0..3000 {
        assert!(router.run_once(now, &mut NoDevices));
    }
    let turns =
        ["one", "half", "twice", "third"].map(|name| element::<Turns>(&mut router, name).turns);
    assert!(turns.iter().sum::<u64>() >= 4 * 3000, "a turn for each in a round, on average");
    for (turns_of, tickets) in turns.into_iter().zip([1024.0, 512.0, 2048.0, 341.0]) {
        // Strides are whole numbers: 192 for 341 tickets, not 192.19.
        let share = turns_of as f64 / turns[0] as f64;
        assert!((share - tickets / 1024.0).abs() < 0.002, "{turns:?}");
    }
}

#[test]
fn sources_share_rounds_evenly() {
    let arena = Arena::heap(1024, 2048);
    let mut router = router(
        &arena,
        &[
            ("a", "InfiniteSource", &["BURST 16"]),
            ("b", "InfiniteSource", &["BURST 16"]),
            ("join", "Null", &[]),
            ("out", "Discard", &[]),
        ],
        &[("a", 0, "join", 0), ("b", 0, "join", 0), ("join", 0, "out", 0)],
    );
    for now in 0..100 {
        router.run_once(now, &mut NoDevices);
    }
    assert_eq!(["a.count", "b.count"].map(|path| number(&mut router, path)), [1600, 1600]);
    assert_eq!(number(&mut router, "out.count"), 3200);
}

#[test]
fn timers_fire_once_and_in_time() {
    let arena = Arena::heap(8, 2048);
    let mut router = router(&arena, &[("clock", "Clock", &[])], &[]);
    let mut now = 0;
    let mut naps = Vec::new();
    while let Some(next) = router.next_timer_ns() {
        naps.push(next);
        assert!(!router.run_once(next - 1, &mut NoDevices), "nothing is due at {}", next - 1);
        assert!(router.run_once(next, &mut NoDevices));
        now += 1;
        assert!(now < 10);
    }
    assert_eq!(naps, [10, 15, 20, 30]);
    let fired = std::mem::take(&mut element::<Clock>(&mut router, "clock").0);
    // The second turn of timer 0 sets timer 1 once more, to a time that has passed.
    assert_eq!(fired, [(0, 10), (1, 15), (0, 20), (1, 20), (0, 30)]);
}

#[test]
fn a_queue_turns_push_into_pull_and_back() {
    let arena = Arena::heap(1024, 2048);
    let mut router = router(
        &arena,
        &[
            ("source", "InfiniteSource", &["LIMIT 40", "BURST 16"]),
            ("queue", "NotifierQueue", &["24"]),
            ("full", "Discard", &[]),
            ("between", "Counter", &[]),
            ("unqueue", "Unqueue", &["5", "ACTIVE false"]),
            ("out", "Discard", &[]),
        ],
        &[
            ("source", 0, "queue", 0),
            ("queue", 1, "full", 0),
            // On a pull path.
            ("queue", 0, "between", 0),
            ("between", 0, "unqueue", 0),
            ("unqueue", 0, "out", 0),
        ],
    );
    while router.run_once(0, &mut NoDevices) {}
    let state = |router: &mut Router| {
        let paths = ["queue.length", "queue.drops", "full.count", "between.count", "out.count"];
        paths.map(|path| number(router, path))
    };
    assert_eq!(state(&mut router), [24, 16, 16, 0, 0]);
    router.write("unqueue.active", "true").unwrap();
    assert!(router.run_once(0, &mut NoDevices));
    assert_eq!(state(&mut router), [19, 16, 16, 5, 5]);
    while router.run_once(0, &mut NoDevices) {}
    assert_eq!(state(&mut router), [0, 16, 16, 24, 24]);
    assert_eq!(arena.free(), 1024);
}

#[test]
fn a_hot_swap_keeps_packets_and_counts() {
    let arena = Arena::heap(1024, 2048);
    let mut old = router(
        &arena,
        &[
            ("source", "InfiniteSource", &["LIMIT 100"]),
            ("counter", "Counter", &[]),
            ("queue", "Queue", &[]),
            ("unqueue", "Unqueue", &["ACTIVE false"]),
            ("out", "Discard", &[]),
            ("changed", "Counter", &[]),
            ("spare", "Idle", &[]),
        ],
        &[
            ("source", 0, "counter", 0),
            ("counter", 0, "queue", 0),
            ("queue", 0, "unqueue", 0),
            ("unqueue", 0, "changed", 0),
            ("changed", 0, "out", 0),
        ],
    );
    while old.run_once(0, &mut NoDevices) {}
    old.write("unqueue.limit", "10").unwrap();
    old.write("unqueue.active", "true").unwrap();
    while old.run_once(0, &mut NoDevices) {}
    assert_eq!(number(&mut old, "changed.count"), 10);

    // Order and wiring differ; `changed` has another class, and `queue` is smaller.
    let mut new = router(
        &arena,
        &[
            ("out", "Discard", &[]),
            ("changed", "Null", &[]),
            ("queue", "Queue", &["60"]),
            ("counter", "Counter", &[]),
            ("unqueue", "Unqueue", &[]),
            ("source", "InfiniteSource", &["LIMIT 5"]),
        ],
        &[
            ("source", 0, "queue", 0),
            ("queue", 0, "unqueue", 0),
            ("unqueue", 0, "counter", 0),
            ("counter", 0, "changed", 0),
            ("changed", 0, "out", 0),
        ],
    );
    new.take_state(&mut old);
    drop(old);
    assert_eq!(number(&mut new, "counter.count"), 100);
    // The new queue took packets as far as it had room; the slots of the others are free again.
    assert_eq!(number(&mut new, "queue.length"), 60);
    assert_eq!(arena.free(), 1024 - 60);
    while new.run_once(1, &mut NoDevices) {}
    assert_eq!(number(&mut new, "queue.length"), 0);
    // There are five new packets too, unless the source ran first and found the queue full.
    let out = number(&mut new, "counter.count") - 100;
    assert!((60..=65).contains(&out), "{out}");
    assert_eq!(number(&mut new, "out.count"), out);
    assert_eq!(arena.free(), 1024);
}

/// Lines of a router's log.
fn logged(router: &mut Router) -> std::rc::Rc<std::cell::RefCell<Vec<String>>> {
    let lines = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = lines.clone();
    router.set_log(Box::new(move |line: &str| log.borrow_mut().push(line.to_owned())));
    lines
}

#[test]
fn one_by_one_goes_as_nested_calls_would() {
    let arena = Arena::heap(512, 2048);
    let mut graph = Graph { one_by_one: true, ..Graph::default() };
    let source = graph.add("s", "InfiniteSource", &["x", "LIMIT 2", "BURST 2"]);
    let tee = graph.add("t", "Tee", &[]);
    let null = graph.add("n", "Null", &[]);
    let (a, b) = (graph.add("a", "Print", &["a"]), graph.add("b", "Print", &["b"]));
    let discard = graph.add("d", "Discard", &[]);
    for (from, output, to, input) in
        [(source, 0, tee, 0), (tee, 0, null, 0), (null, 0, a, 0), (tee, 1, b, 0)]
    {
        graph.connect(from, output, to, input);
    }
    graph.connect(a, 0, discard, 0);
    graph.connect(b, 0, discard, 0);
    let registry = classes();
    let mut router =
        Router::build(&graph.resolved(&registry), &registry, &arena, &NoDevices, 0).unwrap();
    let lines = logged(&mut router);
    router.run_once(0, &mut NoDevices);
    // A packet takes its whole path by output 0 before that by output 1, and both before the next
    // packet.
    assert_eq!(*lines.borrow(), ["a:    1 | 78", "b:    1 | 78", "a:    1 | 78", "b:    1 | 78"]);
}

#[test]
fn scripts_wait_decide_and_stop() {
    let arena = Arena::heap(64, 2048);
    let script = [
        "export x 0",
        "label again",
        "set x $(add $x 1)",
        "wait 1ms",
        "goto again $(lt $x 3)",
        "write q.capacity $(mul $x 2)",
        "read q.capacity",
        "stop",
    ];
    let elements: &[Part<'_>] = &[
        ("s", "Script", &script),
        ("q", "Queue", &[]),
        ("i", "Idle", &[]),
        ("d", "DriverManager", &["pause", "read s.x", "wait 1ms", "stop"]),
    ];
    let wires: &[Wire<'_>] = &[("i", 0, "q", 0), ("q", 0, "i", 0)];
    let mut router = router(&arena, elements, wires);
    let lines = logged(&mut router);
    let mut now_ns = 0;
    while !router.is_stopped() && now_ns < 100_000_000 {
        router.run_once(now_ns, &mut NoDevices);
        now_ns = router.next_timer_ns().unwrap_or(now_ns + 1);
    }
    assert_eq!(*lines.borrow(), ["q.capacity:\n6", "s.x:\n3"]);
    assert_eq!(now_ns / 1_000_000, 4);
}

/// The log of a script with these instructions.
fn told(instructions: &[&str]) -> Vec<String> {
    let arena = Arena::heap(64, 2048);
    let instructions = [&["wait 1ms"], instructions, &["stop"]].concat();
    let elements: &[Part<'_>] =
        &[("s", "Script", &instructions), ("i", "Idle", &[]), ("q", "Queue", &["7"])];
    let mut router = router(&arena, elements, &[("i", 0, "q", 0), ("q", 0, "i", 0)]);
    let lines = logged(&mut router);
    for now_ns in [0, 2_000_000] {
        router.run_once(now_ns, &mut NoDevices);
    }
    assert!(router.is_stopped(), "{instructions:?}");
    lines.take()
}

#[test]
fn scripts_find_handlers_and_variables_as_in_click() {
    for (instructions, expected) in [
        // A missing argument is not mistaken for `run`.
        (&["write s.foo 1"][..], "While executing 's :: Script':\n  no 's.foo' write handler"),
        (&["write s.add 1"], "While executing 's :: Script':\n  no 's.add' write handler"),
        (&["set n $(add $n 1)", "set n $(add $n 1)", "read get n"], "s.get:\n2"),
        (&["set a $(s.name)$(class)", "read get a"], "s.get:\nsScript"),
        (&["read s.name"], "s.name:\ns"),
        (&["readq \"q.capacity\""], "q.capacity:\n7"),
        (&["write 'q.capacity' 8", "read q.capacity"], "q.capacity:\n8"),
    ] {
        assert_eq!(told(instructions), [expected], "{instructions:?}");
    }
}

#[test]
fn ports_name_their_peers() {
    let arena = Arena::heap(64, 2048);
    let elements: &[Part<'_>] =
        &[("a", "Idle", &[]), ("b", "Idle", &[]), ("q", "Queue", &[]), ("i", "Idle", &[])];
    let wires: &[Wire<'_>] = &[("a", 0, "q", 0), ("b", 0, "q", 0), ("q", 0, "i", 0)];
    let mut router = router(&arena, elements, wires);
    for (handler, answer) in [
        ("a.ports", "0 inputs\n1 output\npush\t-\t[0] q\n"),
        ("q.ports", "1 input\npush\t-\ta [0], b [0]\n1 output\npull\t-\t[0] i\n"),
        ("i.ports", "1 input\npull\t-\tq [0]\n0 outputs\n"),
    ] {
        assert_eq!(router.read(handler, ""), Ok(answer.into()), "{handler}");
    }
}

#[test]
fn scripts_answer_and_are_stepped() {
    let arena = Arena::heap(64, 2048);
    let elements: &[Part<'_>] = &[
        ("sum", "Script", &["TYPE PASSIVE", "return $(add $1 $2)$#"]),
        ("any", "Script", &["TYPE PROXY", "returnq \"$0 $args $write\""]),
        ("wait", "Script", &["export n 0", "pause 2", "set n 1", "pause", "set n 2"]),
    ];
    let mut router = router(&arena, elements, &[]);
    router.run_once(0, &mut NoDevices);
    for (path, parameter, answer) in [
        ("sum.run", "1 2", "32"),
        ("sum.add", "1 2", "3"),
        ("sum.div", "1 4", "0.25"),
        ("any.thing", "a", "thing a false"),
        ("wait.n", "", "0"),
    ] {
        assert_eq!(router.read(path, parameter), Ok(answer.into()), "{path}");
    }
    for (steps, n) in [("1", "0"), ("", "1"), ("5", "2")] {
        router.write("wait.step", steps).unwrap();
        assert_eq!(router.read("wait.n", ""), Ok(n.into()));
    }
    assert!(router.read("sum.none", "").is_err());
    assert!(router.write("wait.goto", "nowhere").is_err());
}
