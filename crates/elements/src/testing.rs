//! A test bench for one element: sources push into it, sinks keep its packets.

#![allow(dead_code, reason = "not every element needs every part of the bench")]

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use europa_engine::{
    Arena, Batch, Class, ClassInfo, Context, Element, Graph, MemoryDevices, NoDevices, Packet,
    Registry, Router,
};

use crate::registry;

/// Pushes the given packets.
#[derive(Default)]
struct TestSource(Vec<Packet>);

impl Class for TestSource {
    const INFO: ClassInfo = ClassInfo::new("TestSource", "0/1").processing("h/h");
}

impl Element for TestSource {
    fn initialize(
        &mut self,
        context: &mut europa_engine::InitContext<'_>,
    ) -> Result<(), europa_engine::ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        for packet in self.0.drain(..) {
            batch.push(packet).unwrap();
        }
        let worked = !batch.is_empty();
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        worked
    }
}

/// Keeps the packets pushed to it, by input.
#[derive(Default)]
struct TestSink(Vec<(usize, Packet)>);

impl Class for TestSink {
    const INFO: ClassInfo = ClassInfo::new("TestSink", "-/0").processing("h/h");
}

impl Element for TestSink {
    fn push(&mut self, port: usize, batch: &mut Batch, _: &mut Context<'_>) {
        self.0.extend(batch.drain().map(|packet| (port, packet)));
    }
}

/// Pulls the requested number.
#[derive(Default)]
struct TestPuller(usize, Vec<Packet>);

impl Class for TestPuller {
    const INFO: ClassInfo = ClassInfo::new("TestPuller", "1/0").processing("l/l");
}

impl Element for TestPuller {
    fn initialize(
        &mut self,
        context: &mut europa_engine::InitContext<'_>,
    ) -> Result<(), europa_engine::ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = context.pull(0, std::mem::take(&mut self.0), &mut batch);
        self.1.extend(batch.drain());
        context.give_batch(batch);
        count > 0
    }
}

/// An IPv4 packet of protocol UDP with this payload and a valid checksum.
pub(crate) fn ip_packet(source: u32, destination: u32, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, ttl, 17, 0, 0];
    packet.extend(source.to_be_bytes());
    packet.extend(destination.to_be_bytes());
    let check = europa_packet::checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(payload);
    packet
}

/// Runs a graph until it is idle, at most a hundred rounds.
pub(crate) fn run(graph: Graph) -> Router {
    let registry = Bench::registry();
    let graph = graph.resolved(&registry);
    let arena = Arena::heap(2048, 2048);
    let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
    for now_ns in 0..100 {
        if !router.run_once(now_ns, &mut NoDevices) {
            break;
        }
    }
    router
}

/// A chain of elements (name, class, arguments) and two interfaces, `eth0` and `eth1`.
pub(crate) fn device_router(chain: &[(&str, &str, &[&str])]) -> (Router, MemoryDevices) {
    let mut graph = Graph::default();
    for (index, (name, class, arguments)) in chain.iter().enumerate() {
        graph.add(name, class, arguments);
        if index > 0 {
            graph.connect(index - 1, 0, index, 0);
        }
    }
    let registry = Bench::registry();
    let arena = Arena::heap(1024, 2048);
    let devices = MemoryDevices::new(&["eth0", "eth1"], &arena);
    let graph = graph.resolved(&registry);
    let router = Router::build(&graph, &registry, &arena, &devices, 0).unwrap();
    (router, devices)
}

/// Sources and sinks of a graph of any shape.
pub(crate) mod part {
    use super::*;

    pub(super) fn of<'a, T: Element>(router: &'a mut Router, name: &str) -> &'a mut T {
        let index = router.find(name).unwrap();
        let element: &mut dyn Any = router.element(index).unwrap();
        element.downcast_mut().unwrap()
    }

    /// Makes the `TestSource` of this number push these packets in the next round.
    pub(crate) fn source(
        router: &mut Router,
        number: usize,
        packets: impl IntoIterator<Item = Packet>,
    ) {
        of::<TestSource>(router, &format!("source{number}")).0.extend(packets);
    }

    /// Makes the `TestPuller` named "puller" pull this number of packets in the next round. Returns
    /// the packets pulled so far.
    pub(crate) fn puller(router: &mut Router, count: usize) -> Vec<Packet> {
        let puller = of::<TestPuller>(router, "puller");
        puller.0 = count;
        std::mem::take(&mut puller.1)
    }

    /// A graph with all ports that the class may have, up to four.
    pub(crate) fn sink(router: &mut Router) -> Vec<(usize, Packet)> {
        std::mem::take(&mut of::<TestSink>(router, "sink").0)
    }
}

/// One element between sources, sinks and, on its pull outputs, a puller.
pub(crate) struct Bench {
    pub(crate) router: Router,
    pub(crate) arena: Arena,
    /// The last packets: output and packet.
    pub(crate) out: Vec<(usize, Packet)>,
    pub(crate) now_ns: u64,
}

/// Most outputs that the bench connects.
const OUTPUTS: usize = 4;

impl Bench {
    pub(crate) fn registry() -> Registry {
        let mut registry = registry();
        registry.add::<TestSource>();
        registry.add::<TestSink>();
        registry.add::<TestPuller>();
        registry
    }

    /// As many ports as the class may have, up to four.
    fn graph(
        class: &str,
        arguments: &[&str],
        inputs: Option<usize>,
        outputs: Option<usize>,
    ) -> Graph {
        let registry = Bench::registry();
        let info = *registry.info(class).unwrap();
        let (most_inputs, most) = info.ports.split_once('/').unwrap_or((info.ports, info.ports));
        let number = |text: &str| match text.rsplit_once('-') {
            Some((_, "")) => OUTPUTS,
            None if text.starts_with('=') => OUTPUTS,
            Some((_, most)) => most.parse().unwrap(),
            None => text.parse().unwrap(),
        };
        let outputs = outputs.unwrap_or(number(most));
        let mut graph = Graph::default();
        let element = graph.add("e", class, arguments);
        for input in 0..inputs.unwrap_or_else(|| number(most_inputs)) {
            let source = graph.add(&format!("source{input}"), "TestSource", &[]);
            graph.connect(source, 0, element, input);
        }
        let (_, processing) = info.processing.split_once('/').unwrap();
        let sink = graph.add("sink", "TestSink", &[]);
        for output in 0..outputs {
            let code = processing.as_bytes().get(output).or(processing.as_bytes().last());
            if code == Some(&b'l') {
                let puller = graph.add("puller", "TestPuller", &[]);
                graph.connect(element, output, puller, 0);
            } else {
                graph.connect(element, output, sink, output);
            }
        }
        graph.resolved(&registry)
    }

    pub(crate) fn try_new(
        class: &str,
        arguments: &[&str],
        inputs: Option<usize>,
        outputs: Option<usize>,
    ) -> Result<Bench, String> {
        let arena = Arena::heap(1024, 2048);
        let graph = Bench::graph(class, arguments, inputs, outputs);
        match Router::build(&graph, &Bench::registry(), &arena, &NoDevices, 0) {
            Ok(router) => Ok(Bench { router, arena, out: Vec::new(), now_ns: 0 }),
            Err(errors) => {
                let text = errors.first().map(ToString::to_string).unwrap_or_default();
                Err(text.trim_start_matches(&format!("e :: {class}: ")).to_owned())
            }
        }
    }

    pub(crate) fn new(class: &str, arguments: &[&str]) -> Bench {
        Bench::try_new(class, arguments, None, None).unwrap()
    }

    /// A bench with this number of connected outputs.
    pub(crate) fn with_outputs(class: &str, arguments: &[&str], outputs: usize) -> Bench {
        Bench::try_new(class, arguments, None, Some(outputs)).unwrap()
    }

    /// The element's error for bad arguments.
    pub(crate) fn error(class: &str, arguments: &[&str]) -> String {
        Bench::try_new(class, arguments, None, None).err().unwrap()
    }

    /// A bench with this number of inputs, and two outputs, connected.
    pub(crate) fn with_inputs(class: &str, arguments: &[&str], inputs: usize) -> Bench {
        Bench::try_new(class, arguments, Some(inputs), Some(2)).unwrap()
    }

    /// A bench with this number of connected inputs and outputs.
    pub(crate) fn with_inputs_outputs(
        class: &str,
        arguments: &[&str],
        inputs: usize,
        outputs: usize,
    ) -> Bench {
        Bench::try_new(class, arguments, Some(inputs), Some(outputs)).unwrap()
    }

    /// The element's error for bad arguments with this many inputs and two outputs.
    pub(crate) fn error_of_inputs(class: &str, arguments: &[&str], inputs: usize) -> String {
        Bench::try_new(class, arguments, Some(inputs), Some(2)).err().unwrap()
    }

    fn part<T: Element>(&mut self, name: &str) -> &mut T {
        let index = self.router.find(name).unwrap();
        let element: &mut dyn Any = self.router.element(index).unwrap();
        element.downcast_mut().unwrap()
    }

    /// The element under test.
    pub(crate) fn element<T: Element>(&mut self) -> &mut T {
        self.part("e")
    }

    /// Runs until it is idle, at most a hundred rounds.
    pub(crate) fn run(&mut self) -> Vec<(usize, Vec<u8>)> {
        for _ in 0..100 {
            if !self.router.run_once(self.now_ns, &mut NoDevices) {
                break;
            }
        }
        self.out = std::mem::take(&mut self.part::<TestSink>("sink").0);
        self.out.iter().map(|(output, packet)| (*output, packet.data().to_vec())).collect()
    }

    /// Pushes packets with these contents into an input; returns the sent ones by output.
    pub(crate) fn push(&mut self, input: usize, contents: &[&[u8]]) -> Vec<(usize, Vec<u8>)> {
        let packets = contents.iter().map(|data| self.arena.packet(data).unwrap()).collect();
        self.push_packets(input, packets)
    }

    /// Pushes packets into an input; returns the sent ones by output.
    pub(crate) fn push_packets(
        &mut self,
        input: usize,
        packets: Vec<Packet>,
    ) -> Vec<(usize, Vec<u8>)> {
        self.part::<TestSource>(&format!("source{input}")).0.extend(packets);
        self.run()
    }

    /// Pulls up to `max` packets from the pull output.
    pub(crate) fn pull(&mut self, max: usize) -> Vec<Vec<u8>> {
        self.part::<TestPuller>("puller").0 = max;
        self.run();
        let packets = std::mem::take(&mut self.part::<TestPuller>("puller").1);
        packets.iter().map(|packet| packet.data().to_vec()).collect()
    }

    /// Collects the router's log from now on.
    pub(crate) fn log(&mut self) -> Rc<RefCell<Vec<String>>> {
        let lines = Rc::new(RefCell::new(Vec::new()));
        let sink = lines.clone();
        self.router.set_log(Box::new(move |line| sink.borrow_mut().push(line.to_owned())));
        lines
    }

    /// Paint of the last packets.
    pub(crate) fn paints(&self) -> Vec<u8> {
        self.out.iter().map(|(_, packet)| packet.paint()).collect()
    }
}

/// One pull element between queues and a puller.
pub(crate) struct PullBench {
    pub(crate) router: Router,
    arena: Arena,
    pub(crate) now_ns: u64,
}

/// A class with `inputs` pull inputs, each from a queue; push outputs lead to a sink.
pub(crate) fn pull_bench(class: &str, arguments: &[&str], inputs: usize) -> PullBench {
    let registry = Bench::registry();
    let mut graph = Graph::default();
    let element = graph.add("e", class, arguments);
    for input in 0..inputs {
        let source = graph.add(&format!("source{input}"), "TestSource", &[]);
        let queue = graph.add(&format!("queue{input}"), "Queue", &[]);
        graph.connect(source, 0, queue, 0);
        graph.connect(queue, 0, element, input);
    }
    let puller = graph.add("puller", "TestPuller", &[]);
    graph.connect(element, 0, puller, 0);
    let arena = Arena::heap(1024, 2048);
    let graph = graph.resolved(&registry);
    let router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
    PullBench { router, arena, now_ns: 0 }
}

impl PullBench {
    fn run(&mut self) {
        for _ in 0..100 {
            if !self.router.run_once(self.now_ns, &mut NoDevices) {
                break;
            }
        }
    }

    /// Puts packets into the queue of an input.
    pub(crate) fn give(&mut self, input: usize, contents: &[&[u8]]) {
        let packets: Vec<_> =
            contents.iter().map(|data| self.arena.packet(data).unwrap()).collect();
        part::source(&mut self.router, input, packets);
        self.run();
    }

    /// Pulls up to `max` packets.
    pub(crate) fn pull(&mut self, max: usize) -> Vec<Vec<u8>> {
        part::of::<TestPuller>(&mut self.router, "puller").0 = max;
        self.run();
        let packets = std::mem::take(&mut part::of::<TestPuller>(&mut self.router, "puller").1);
        packets.iter().map(|packet| packet.data().to_vec()).collect()
    }

    /// The same, each with a time in nanoseconds.
    pub(crate) fn give_at(&mut self, input: usize, contents: &[(u64, &[u8])]) {
        let packets: Vec<_> = contents
            .iter()
            .map(|(time_ns, data)| {
                let mut packet = self.arena.packet(data).unwrap();
                packet.set_timestamp_ns(*time_ns);
                packet
            })
            .collect();
        part::source(&mut self.router, input, packets);
        self.run();
    }
}
