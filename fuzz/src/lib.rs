//! Runs an input as the fuzz targets do. A test of `europa-elements` does the same with every file
//! below `seeds`, so none of them may panic, hang, open a file or ask for much memory.

use std::io;
use std::os::fd::OwnedFd;

use europa_cage::user::{self, Frame, Input, Limits, Machine, Setup};
use europa_cage::{Object, link};
use europa_click::{ClassTable, Options, Shape, compile, compile_with};
use europa_elements::registry;
use europa_engine::{
    Arena, Batch, Devices, Flags, Graph, Interface, MemoryDevices, Resource, Router,
};

/// Devices without files: two interfaces in memory.
struct Closed(MemoryDevices);

impl Devices for Closed {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        self.0.rx(interface, batch, max);
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        self.0.tx(interface, batch);
    }

    fn open(&self, _: &Resource) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.0.index(name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.0.interface(index)
    }
}

/// The front end reads any text as a graph or as a list of mistakes that can be shown. A graph that
/// is written as text is read as the same graph.
pub fn configuration(data: &[u8]) {
    let source = String::from_utf8_lossy(data);
    let mut classes = ClassTable::new();
    for info in registry().classes() {
        classes.insert(info.name, Shape::new(info.ports, info.processing, info.flow));
    }
    let library = |name: &str| Some((name.to_owned(), source.to_string()));
    let options = Options { defines: Vec::new(), library: Some(&library) };
    match compile_with(&source, "f", &classes, &options) {
        Ok(graph) => {
            let flat = graph.to_string();
            let again = compile(&flat, "f", &classes).map(|graph| graph.to_string());
            // A variable that is joined to other text can be read differently the second time.
            assert!(source.contains('$') || again.as_deref().ok() == Some(&flat), "{flat}");
        }
        Err(errors) => drop(errors.plain().to_string()),
    }
}

/// Compiles expressions and runs them on a packet. The first line has a class, each other line an
/// expression; the packet follows a zero byte.
pub fn filter(data: &[u8]) {
    let mut halves = data.splitn(2, |byte| *byte == 0);
    let text = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let packet: String =
        halves.next().unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut lines = text.lines();
    let class = match lines.next().unwrap_or_default() {
        class @ ("IPFilter" | "IP6Filter" | "IP6Classifier" | "Classifier") => class,
        _ => "IPClassifier",
    };
    let mark = if class.starts_with("IP6") { "MarkIP6Header" } else { "MarkIPHeader" };
    let expressions: Vec<&str> = lines.collect();
    let outputs = if class.ends_with("Filter") { 1 } else { expressions.len() };
    let mut graph = Graph::default();
    let data = format!("DATA \\<{packet}>");
    let source = graph.add("source", "InfiniteSource", &[&data, "LIMIT 1"]);
    let mark = graph.add("mark", mark, &[]);
    let tested = graph.add("tested", class, &expressions);
    let idle = graph.add("idle", "Idle", &[]);
    graph.connect(source, 0, mark, 0);
    graph.connect(mark, 0, tested, 0);
    for output in 0..outputs {
        graph.connect(tested, output, idle, output);
    }
    run(graph, |_| {});
}

/// Configures a class. The first line names the class, the second one has the numbers of connected
/// inputs and outputs, each other line has an argument.
pub fn arguments(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default();
    let registry = registry();
    let class = registry.info(name).map_or_else(
        || {
            // Any name selects a class; otherwise few inputs would name one.
            let number: usize = name.bytes().map(usize::from).sum();
            let names: Vec<&str> = registry.classes().map(|info| info.name).collect();
            names.get(number % names.len()).copied().unwrap_or("Idle")
        },
        |info| info.name,
    );
    let ports = lines.next().unwrap_or_default().as_bytes();
    let count = |at: usize| ports.get(at).map_or(1, |byte| usize::from(byte % 8));
    let arguments: Vec<&str> = lines.collect();
    let mut graph = Graph::default();
    let tested = graph.add("tested", class, &arguments);
    let idle = graph.add("idle", "Idle", &[]);
    for input in 0..count(0) {
        graph.connect(idle, input, tested, input);
    }
    for output in 0..count(1) {
        graph.connect(tested, output, idle, output);
    }
    // Handlers of these classes write files, and scripts may be long.
    if class == "AggregateCounter" || class.contains("Script") || class == "DriverManager" {
        build(graph);
        return;
    }
    let value = arguments.last().copied().unwrap_or_default();
    run(graph, |router| {
        for (handler, flags) in router.handlers(tested) {
            let path = format!("tested.{handler}");
            if flags.has(Flags::WRITE) {
                let _ = router.write(&path, value);
            }
            if flags.has(Flags::READ) {
                let _ = router.read(&path, value);
            }
        }
    });
}

/// Reads, links and checks an object file, and runs it on a frame.
pub fn xdp(data: &[u8]) {
    let Ok(object) = Object::read(data) else { return };
    let programs = object.functions.iter().enumerate().filter(|(_, function)| function.program);
    let programs: Vec<usize> = programs.map(|(number, _)| number).take(8).collect();
    let linked = match link(&object, &programs) {
        Ok(linked) => linked,
        Err(problems) => return drop(problems.to_string()),
    };
    let limits = Limits { map_bytes: 1 << 22, fuel: 10_000 };
    match Machine::new(&object, &linked, &Setup { limits, ..Setup::default() }) {
        Ok(mut machine) => {
            let mut buffer = [0; 512];
            let mut frame = Frame { buffer: &mut buffer, meta: 256, start: 256, end: 320 };
            let _ = machine.run(
                &mut frame,
                Input { device: 1, queue: 0 },
                &mut user::Closed::default(),
            );
        }
        Err(problems) => drop(problems.to_string()),
    }
}

/// A router of this graph, if its elements agree.
fn build(graph: Graph) -> Option<(Router, Closed)> {
    let registry = registry();
    let arena = Arena::heap(32, 2048);
    let devices = Closed(MemoryDevices::new(&["eth0", "eth1"], &arena));
    let graph = graph.resolved(&registry);
    let mut router = Router::build(&graph, &registry, &arena, &devices, 0).ok()?;
    router.set_log(Box::new(|_| {}));
    Some((router, devices))
}

/// Builds a router of this graph, calls `try_it`, and runs the router for two rounds.
fn run(graph: Graph, try_it: impl FnOnce(&mut Router)) {
    let Some((mut router, mut devices)) = build(graph) else { return };
    try_it(&mut router);
    router.run_once(1, &mut devices);
    router.run_once(1_000_000_000, &mut devices);
}
