//! Properties of every class of the library: nothing is lost at a hot swap, and a refused
//! configuration changes nothing.

mod refused;
mod swap;

use europa_engine::{Arena, Graph, NoDevices, Router};

use crate::testing::Bench;

/// Argument lists; at least one of them fits most classes.
const CANDIDATES: &[&[&str]] = &[
    &[],
    &["1"],
    &["0", "1"],
    &["1", "1"],
    &["1", "1", "1"],
    &["1", "1", "1", "1"],
    &["0.5"],
    &["10ms"],
    &["1Mbps"],
    &["10.0.0.1"],
    &["10.0.0.1 02:00:00:00:00:01"],
    &["10.0.0.1", "02:00:00:00:00:01"],
    &["10.0.0.1", "10.0.0.2"],
    &["10.0.0.1", "1", "10.0.0.2", "2"],
    &["17", "10.0.0.1", "10.0.0.2"],
    &["0.0.0.0/0 0"],
    &["::/0 :: 0"],
    &["2001:db8::1"],
    &["2001:db8::1", "02:00:00:00:00:01"],
    &["2001:db8::1", "2001:db8::2"],
    &["2001:db8::1", "1", "2001:db8::2", "2"],
    &["02:00:00:00:00:01", "02:00:00:00:00:02"],
    &["0x0800", "02:00:00:00:00:01", "02:00:00:00:00:02"],
    &["0x0800", "02:00:00:00:00:01", "02:00:00:00:00:02", "5"],
    &["-", "-", "-", "-"],
    &["pattern - - 10.0.0.9 - 0 1", "keep 0 1", "drop", "drop"],
    &["keep 0 1", "keep 0 1"],
    &["keep 0 1"],
    &["ip dst", "ip dst"],
    &["4", "0"],
    &["1500"],
    &["1500", "10.0.0.1"],
    &["1", "10.0.0.1", "1500"],
    &["1000", "2000", "3000"],
    &["ip dst"],
    &["HOST"],
    &["02:00:00:00:00:01"],
    &["02:00:00:00:00:01", "0"],
    &["10.0.0.1", "unreachable"],
    &["2001:db8::1", "unreachable"],
    &["10.0.0.1", "10.0.0.2", "8"],
    &["17", "2001:db8::1", "2001:db8::2"],
];

/// A graph with the element "e" and up to four ports on each side; only one port if `single`.
/// Queues precede its pull inputs.
fn graph(class: &str, arguments: &[&str], single: bool) -> Graph {
    let registry = Bench::registry();
    let info = *registry.info(class).unwrap();
    let (inputs, outputs) = info.ports.split_once('/').unwrap_or((info.ports, info.ports));
    let number = |text: &str| {
        let plain = text.trim_end_matches('+');
        let more = text.len() - plain.len();
        more + match plain.rsplit_once('-') {
            None if plain != "=" => plain.parse().unwrap(),
            _ if single => 1,
            Some((_, most)) if !most.is_empty() => most.parse().unwrap(),
            _ => 4,
        }
    };
    let (takes, gives) = info.processing.split_once('/').unwrap();
    let code = |codes: &str, port: usize| {
        let bytes = codes.as_bytes();
        *bytes.get(port).or(bytes.last()).unwrap()
    };
    let mut graph = Graph::default();
    let element = graph.add("e", class, arguments);
    for input in 0..number(inputs) {
        let source = graph.add(&format!("source{input}"), "TestSource", &[]);
        if code(takes, input) == b'l' {
            let queue = graph.add(&format!("queue{input}"), "Queue", &[]);
            graph.connect(source, 0, queue, 0);
            graph.connect(queue, 0, element, input);
        } else {
            graph.connect(source, 0, element, input);
        }
    }
    let sink = graph.add("sink", "TestSink", &[]);
    for output in 0..number(outputs) {
        if code(gives, output) == b'l' {
            let puller = graph.add("puller", "TestPuller", &[]);
            graph.connect(element, output, puller, 0);
        } else {
            graph.connect(element, output, sink, output);
        }
    }
    graph
}

/// A router with this element; `None` if it refuses the arguments.
fn build(
    class: &str,
    arguments: &[&str],
    single: bool,
    arena: &Arena,
    now_ns: u64,
) -> Option<Router> {
    let registry = Bench::registry();
    let graph = graph(class, arguments, single).resolved(&registry);
    let mut router = Router::build(&graph, &registry, arena, &NoDevices, now_ns).ok()?;
    router.set_log(Box::new(|_| {}));
    Some(router)
}

/// Arguments with which a class works, and whether it then has only one port on each side.
fn fitting(class: &str) -> Option<(&'static [&'static str], bool)> {
    let arena = Arena::heap(64, 2048);
    let all = CANDIDATES.iter().flat_map(|arguments| [(*arguments, false), (*arguments, true)]);
    // A second element of the same name would be an error of the test's graph, not of the
    // arguments.
    all.into_iter()
        .find(|(arguments, single)| build(class, arguments, *single, &arena, 0).is_some())
}

/// Excluded classes: those whose effects depend on their arguments or handlers, those that open
/// files and sockets, and parts of the tests.
fn is_left_out(class: &str) -> bool {
    let some = ["FromDump", "FromIPSummaryDump", "Memif", "Message", "PanicTest", "Socket"];
    some.contains(&class)
        || class.starts_with("To")
        || class.starts_with("Test")
        || class.contains("Script")
        || class.contains("DriverManager")
}
