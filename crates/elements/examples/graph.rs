//! Measures nanoseconds a packet on the IPv4 forwarding path, without devices, on one core.
//!
//! `cargo run --release -p europa-elements --example graph [ROUTES_FILE [COUNT...]]`
//!
//! ROUTES_FILE has one prefix a line, as in `zcat routes-ipv4-asn.txt.gz`. Each COUNT (default: one
//! of 170000) makes a table of the first COUNT prefixes, which is measured. Without a file only the
//! table with two routes is measured. Each figure is the median of five runs of half a second.

use std::time::{Duration, Instant};

use europa_elements::registry;
use europa_engine::{
    Arena, Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Graph, InitContext,
    NoDevices, Registry, Router,
};

/// Sends copies of prepared frames, one after the other, for ever.
#[derive(Default)]
struct Frames {
    frames: Vec<[u8; 64]>,
    next: usize,
    burst: usize,
}

impl Class for Frames {
    const INFO: ClassInfo = ClassInfo::new("Frames", "0/1").processing("h/h");
}

/// A generator of random numbers that needs no crate (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Element for Frames {
    /// `Frames(BURST, COUNT, PREFIX...)`: frames to random addresses in random prefixes.
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.burst = arguments.mandatory("BURST")?;
        let count: usize = arguments.mandatory("COUNT")?;
        let prefixes = arguments.rest();
        let prefixes: Vec<europa_engine::Ipv4Prefix> = prefixes
            .into_iter()
            .map(|(index, text)| arguments.value("PREFIX", index, text))
            .collect::<Result<_, _>>()?;
        let mut state = 88_172_645_463_325_252;
        for _ in 0..count {
            let pick = random(&mut state) as usize % prefixes.len();
            let Some(prefix) = prefixes.get(pick) else { continue };
            let address = prefix.network() | (random(&mut state) as u32 & !prefix.mask());
            self.frames.push(frame(address));
        }
        Ok(())
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch: Batch = context.take_batch();
        context.arena().alloc_batch_of(&mut batch, self.burst, 64);
        // The number of frames is a multiple of the burst.
        let frames = self.frames.get(self.next..).unwrap_or_default();
        self.next = if frames.len() > self.burst { self.next + self.burst } else { 0 };
        for (packet, frame) in batch.iter_mut().zip(frames) {
            if let Some(to) = packet.data_mut().first_chunk_mut::<64>() {
                *to = *frame;
            }
        }
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        true
    }
}

/// A 64-byte UDP frame.
fn frame(destination: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    let (header, rest) = frame.split_at_mut(14);
    header.copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    let (ip, _) = rest.split_at_mut(20);
    ip.copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 8, 7, 0, 0, 0, 0]);
    ip[16..].copy_from_slice(&destination.to_be_bytes());
    let check = europa_packet::checksum::checksum(ip);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    frame
}

/// The path of a packet through Click's standard IP router. A class that the library lacks is
/// replaced by one that lets packets pass.
const PATH: &[(&str, &[&str])] = &[
    ("Classifier", &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]),
    ("Paint", &["1"]),
    ("Strip", &["14"]),
    ("CheckIPHeader", &["INTERFACES 18.26.4.1/24 18.26.7.1/24"]),
    ("GetIPAddress", &["16"]),
    ("RadixIPLookup", &[]),
    ("DropBroadcasts", &[]),
    ("PaintTee", &["2"]),
    ("IPGWOptions", &["18.26.4.1"]),
    ("FixIPSrc", &["18.26.4.1"]),
    ("DecIPTTL", &[]),
    ("IPFragmenter", &["1500"]),
    ("EtherEncap", &["0x0800", "2:0:0:0:0:1", "2:0:0:0:0:2"]),
];

fn build(registry: &Registry, routes: &[String], burst: usize, path: usize) -> Graph {
    let mut graph = Graph::default();
    let mut arguments = vec![burst.to_string(), "8192".to_owned()];
    arguments.extend(routes.iter().cloned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut last = (graph.add("source", "Frames", &arguments), 0);
    let discard = graph.add("discard", "Discard", &[]);
    let routes: Vec<String> = routes
        .iter()
        .enumerate()
        .map(|(n, route)| format!("{route} 10.0.0.{} 0", n % 200 + 1))
        .collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    for (class, arguments) in PATH.iter().take(path) {
        let class = if registry.info(class).is_some() { class } else { "Null" };
        let arguments = match class {
            "RadixIPLookup" => routes.as_slice(),
            "Null" => &[],
            _ => arguments,
        };
        let element = graph.add(&class.to_lowercase(), class, arguments);
        graph.connect(last.0, last.1, element, 0);
        last = (element, 0);
        match class {
            "Classifier" => {
                for output in [0, 1, 3] {
                    graph.connect(element, output, discard, 0);
                }
                last.1 = 2;
            }
            "PaintTee" => graph.connect(element, 1, discard, 0),
            _ => {}
        }
    }
    graph.connect(last.0, last.1, discard, 0);
    graph.resolved(registry)
}

/// Length of a run, in milliseconds.
fn run_ms() -> u64 {
    std::env::var("EUROPA_RUN_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Nanoseconds a packet: the median of five runs, and the least of all tenths of a run. The least
/// is the cost on an undisturbed core.
fn measure(graph: &Graph, registry: &Registry, arena: &Arena, burst: usize) -> (f64, f64) {
    let mut router = match Router::build(graph, registry, arena, &NoDevices, 0) {
        Ok(router) => router,
        Err(errors) => panic!("{:?}", errors.first()),
    };
    let mut now = 0;
    let mut part = || {
        let start = Instant::now();
        let mut rounds = 0u64;
        while start.elapsed() < Duration::from_millis(run_ms() / 10) {
            for _ in 0..16 {
                router.run_once(now, &mut NoDevices);
                now += 1;
            }
            rounds += 16;
        }
        start.elapsed().as_nanos() as f64 / (rounds * burst as u64) as f64
    };
    // The first run warms up.
    let parts: Vec<f64> = (0..60).map(|_| part()).skip(10).collect();
    let mut runs: Vec<f64> = parts.chunks(10).map(|run| run.iter().sum::<f64>() / 10.0).collect();
    let count = router.read("discard.count", "").unwrap_or_default();
    assert!(count.parse::<u64>().is_ok_and(|count| count > 1000), "packets do not arrive: {count}");
    runs.sort_by(f64::total_cmp);
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    (runs.get(2).copied().unwrap_or_default(), least)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next();
    let mut counts: Vec<usize> = arguments.filter_map(|count| count.parse().ok()).collect();
    if counts.is_empty() {
        counts.push(170_000);
    }
    let mut registry = registry();
    registry.add::<Frames>();
    let mut tables = vec![vec!["10.1.0.0/16".to_owned(), "10.2.0.0/16".to_owned()]];
    if let Some(file) = file {
        let text = std::fs::read_to_string(&file).expect("the routes can be read");
        let prefix = |line: &str| line.split_whitespace().next().map(str::to_owned);
        tables.extend(counts.iter().map(|n| text.lines().filter_map(prefix).take(*n).collect()));
    }
    let arena = Arena::heap(4096, 2048);
    let bursts = std::env::var("EUROPA_BURSTS").unwrap_or("32 128 256".to_owned());
    for burst in bursts.split_whitespace().filter_map(|burst| burst.parse().ok()) {
        let empty = build(&registry, &["10.0.0.0/8".to_owned()], burst, 0);
        let (source, _) = measure(&empty, &registry, &arena, burst);
        for routes in &tables {
            let graph = build(&registry, routes, burst, PATH.len());
            let (all, least) = measure(&graph, &registry, &arena, burst);
            println!(
                "batches of {burst:3}, {:6} routes: {all:5.1} ns a packet (least {least:5.1}), of which {source:4.1} source and sink",
                routes.len()
            );
        }
    }
    if std::env::var_os("EUROPA_PATH_STEPS").is_some() {
        let routes = tables.last().cloned().unwrap_or_default();
        let mut previous = 0.0;
        for length in 0..=PATH.len() {
            let graph = build(&registry, &routes, 128, length);
            let (_, time) = measure(&graph, &registry, &arena, 128);
            let name =
                length.checked_sub(1).and_then(|at| PATH.get(at)).map_or("source", |(c, _)| c);
            println!("{name:15} {time:5.1} {:+5.1}", time - previous);
            previous = time;
        }
    }
}
