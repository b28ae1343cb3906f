//! Measures nanoseconds a packet through `builtin: ipv4`, for IPv4 and IPv6, without devices, on
//! one core.
//!
//! `cargo run --release -p europa-elements --example builtin`
//!
//! The figure includes making the frames (64 and 84 bytes) and freeing them. It is the median of
//! nine runs of a quarter of a second. The example `graph` measures a handwritten configuration of
//! the same path.

use std::time::{Duration, Instant};

use europa_click::{Argument, ElementClasses, Processing, Shape, compile};
use europa_elements::builtin::{Description, Interface, Neighbour, ipv4};
use europa_elements::registry;
use europa_engine::{Arena, Batch, Connection, Devices, Graph, GraphElement, Registry, Router};
use europa_packet::{Frame, MacAddr};

struct Classes<'a>(&'a Registry);

impl ElementClasses for Classes<'_> {
    fn contains(&self, class: &str) -> bool {
        self.0.info(class).is_some()
    }

    fn shape(&self, class: &str, _: &[Argument]) -> Option<Shape> {
        let info = self.0.info(class)?;
        Some(Shape::new(info.ports, info.processing, info.flow))
    }

    fn names(&self) -> Vec<&str> {
        self.0.classes().map(|info| info.name).collect()
    }
}

/// Sends frames without end into the first interface, and counts those that the router sends.
struct Generator {
    interfaces: Vec<europa_engine::Interface>,
    arena: Arena,
    frame: Vec<u8>,
    burst: usize,
    sent: u64,
}

impl Devices for Generator {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        if interface == 0 {
            self.arena.alloc_batch(batch, self.burst.min(max));
            for packet in batch {
                if let Some(bytes) = packet.put(self.frame.len()) {
                    bytes.copy_from_slice(&self.frame);
                }
            }
        }
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        if interface == 1 {
            self.sent += batch.len() as u64;
        }
        batch.clear();
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&europa_engine::Interface> {
        self.interfaces.get(index)
    }
}

fn build(text: &str, registry: &Registry, arena: &Arena, devices: &Generator) -> Router {
    let checked = compile(text, "builtin", &Classes(registry)).expect("the text is right");
    let elements = checked.elements.iter().map(|element| GraphElement {
        name: element.name.clone(),
        class: element.class.clone(),
        arguments: element.arguments.iter().map(|argument| argument.text.clone()).collect(),
    });
    let pulls = |to: usize, port: usize| {
        let input = checked.elements.get(to).and_then(|element| element.inputs.get(port));
        input.is_some_and(|port| port.processing == Processing::Pull)
    };
    let connections = checked.connections.iter().map(|c| Connection {
        from: c.from.index(),
        output: c.from_port as usize,
        to: c.to.index(),
        input: c.to_port as usize,
        pull: pulls(c.to.index(), c.to_port as usize),
    });
    let graph = Graph {
        elements: elements.collect(),
        connections: connections.collect(),
        one_by_one: false,
    };
    Router::build(&graph, registry, arena, devices, 0).expect("the graph runs")
}

fn main() {
    let (host, own) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 0]));
    let interface = |index: u8, v4: &str, v6: &str| Interface {
        name: format!("eth{index}"),
        mac: MacAddr([2, 0, 0, 0, 0, index]),
        mtu: 1500,
        addresses: [v4, v6].iter().filter_map(|text| text.parse().ok()).collect(),
    };
    let neighbour = |text: &str| {
        text.parse().ok().map(|address| Neighbour { address, mac: host, interface: 1 })
    };
    let description = Description {
        interfaces: vec![
            interface(0, "10.0.0.1/24", "2001:db8::1/64"),
            interface(1, "10.1.0.1/16", "2001:db8:1::1/64"),
        ],
        routes: Vec::new(),
        neighbours: ["10.1.0.9", "2001:db8:1::9"].into_iter().filter_map(neighbour).collect(),
        labels: None,
    };
    let text = ipv4(&description).expect("the description is right");
    let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address");
    let frames = [
        ("IPv4", Frame::new(host, own).ipv4([10, 0, 0, 9], [10, 1, 0, 9]).udp(1, 2, &[0; 22])),
        (
            "IPv6",
            Frame::new(host, own).ipv6(v6("2001:db8::9"), v6("2001:db8:1::9")).udp(1, 2, &[0; 22]),
        ),
    ];
    let registry = registry();
    for (name, frame) in frames {
        for burst in [32, 128, 256] {
            let arena = Arena::heap(4096, 2048);
            let interfaces = description.interfaces.iter().map(|i| europa_engine::Interface {
                name: i.name.clone(),
                mac: i.mac.0,
                mtu: i.mtu,
                address: None,
            });
            let mut devices = Generator {
                interfaces: interfaces.collect(),
                arena: arena.clone(),
                frame: frame.clone(),
                burst,
                sent: 0,
            };
            let mut router = build(&text, &registry, &arena, &devices);
            let mut runs: Vec<f64> = (0..10)
                .map(|_| {
                    let (start, before) = (Instant::now(), devices.sent);
                    while start.elapsed() < Duration::from_millis(250) {
                        for _ in 0..16 {
                            router.run_once(0, &mut devices);
                        }
                    }
                    start.elapsed().as_nanos() as f64 / (devices.sent - before) as f64
                })
                .skip(1)
                .collect();
            runs.sort_by(f64::total_cmp);
            let median = runs.get(runs.len() / 2).copied().unwrap_or_default();
            println!("{name}, batches of {burst:3}: {median:5.1} ns a packet");
        }
    }
}
