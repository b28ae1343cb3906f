//! # EtherSpanTree
//!
//! ## Synopsis
//! `EtherSpanTree(ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH)`
//!
//! ## Ports
//! As many push inputs as push outputs, one for each port of the switch.
//!
//! ## Description
//! The spanning tree protocol (IEEE 802.1D) for an `EtherSwitch`: where bridges form a loop, it
//! blocks some ports, so that no frame circulates. Its inputs get the messages of other bridges
//! (frames with 0x4242 behind their length), and its outputs send its own. It closes a blocked
//! port in both `Suppressor`s. A port that begins to forward first listens and then learns, each
//! for the time that the root sets.
//!
//! ## Arguments
//! - ADDR: Ethernet address of this bridge.
//! - INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR: the `Suppressor`s before and behind the switch, with as
//!   many ports.
//! - SWITCH: the `EtherSwitch`.
//!
//! ## Handlers
//! - `msgs` (read): the best message of each port, and that of this bridge, a line each: bridge and
//!   port, cost, root.
//! - `states` (read): the state of each port, a line each.
//!
//! ## See also
//! `EtherSwitch`, `Suppressor`

use std::cmp::Ordering;

use super::message::Message;
use crate::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
/// Bridges of a lower priority become the root.
const PRIORITY: u64 = 0xdead;

/// The state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Block,
    Listen,
    Learn,
    Forward,
}

impl State {
    /// Whether it takes frames in, and whether it sends them.
    fn passes(self) -> [bool; 2] {
        match self {
            State::Block | State::Listen => [false, false],
            State::Learn => [true, false],
            State::Forward => [true, true],
        }
    }

    fn next(self) -> State {
        match self {
            State::Block => State::Listen,
            State::Listen => State::Learn,
            State::Learn | State::Forward => State::Forward,
        }
    }
}

/// A port of the switch.
#[derive(Clone, Copy, Debug)]
struct Port {
    state: State,
    since_ns: u64,
    acknowledges: bool,
    /// The best message that arrived by this port.
    message: Message,
}

/// Runs the spanning tree protocol.
pub(crate) struct EtherSpanTree {
    address: [u8; 6],
    suppressors: [String; 2],
    switch: String,
    ports: Vec<Port>,
    best: Message,
}

impl Default for EtherSpanTree {
    fn default() -> EtherSpanTree {
        EtherSpanTree {
            address: [0; 6],
            suppressors: Default::default(),
            switch: String::new(),
            ports: Vec::new(),
            best: Message::worst(),
        }
    }
}

impl Class for EtherSpanTree {
    const INFO: ClassInfo = ClassInfo::new("EtherSpanTree", "-/=").processing("h/h");
}

impl EtherSpanTree {
    /// This bridge's number: its priority and its address.
    fn bridge(&self) -> u64 {
        let [a, b, c, d, e, f] = self.address;
        PRIORITY << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Sets whether a port finally forwards or blocks.
    fn set(&mut self, index: usize, forwards: bool, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let Some(port) = self.ports.get_mut(index) else { return };
        let wanted = if forwards { port.state.next() } else { State::Block };
        if port.state == wanted {
            return;
        }
        (port.state, port.since_ns) = (wanted, now_ns);
        for (suppressor, passes) in self.suppressors.iter().zip(wanted.passes()) {
            let handler = format!("{suppressor}.active{index}");
            if let Err(error) = context.write_handler(&handler, &passes.to_string()) {
                context.log(&format!("{}: {error}", context.name()));
            }
        }
    }

    /// Finds the root bridge, and which ports lead to it or away from it.
    fn find_tree(&mut self, context: &mut Context<'_>) {
        let own = self.bridge();
        self.best = Message::own(own);
        let mut root_port = None;
        for (index, port) in self.ports.iter().enumerate() {
            let farther = Message { cost: port.message.cost.saturating_add(1), ..port.message };
            if farther.rank(&self.best) == Ordering::Greater {
                (self.best, root_port) = (farther, Some(index));
            }
        }
        for index in 0..self.ports.len() {
            let Some(port) = self.ports.get(index).copied() else { continue };
            let mine = self.best.sent_by(own, index as u16);
            let blocks = root_port != Some(index) && mine.rank(&port.message) == Ordering::Less;
            if blocks {
                self.set(index, false, context);
            } else if port.state == State::Block {
                self.set(index, true, context);
            }
        }
    }

    /// Takes a message in.
    fn receive(&mut self, index: usize, frame: &[u8], now_ns: u64) {
        let Some(port) = self.ports.get_mut(index) else { return };
        if Message::is_change(frame) {
            port.acknowledges = true;
            return;
        }
        let Some(message) = Message::read(frame, now_ns) else { return };
        // The same message again only renews the expiry time.
        if port.message.rank(&message) != Ordering::Greater {
            port.message = message;
        }
    }

    /// Lets ports advance to their next state, and removes old messages.
    fn pass_time(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let delay_ns = u64::from(self.best.delay) * SECOND_NS;
        let age_ns = u64::from(self.best.max_age) * SECOND_NS;
        for index in 0..self.ports.len() {
            let Some(port) = self.ports.get_mut(index) else { continue };
            if port.message.made_ns.is_some_and(|made| now_ns.saturating_sub(made) >= age_ns) {
                port.message = Message::worst();
            }
            let waits = matches!(port.state, State::Listen | State::Learn);
            if waits && now_ns.saturating_sub(port.since_ns) > delay_ns {
                self.set(index, true, context);
            }
        }
    }

    /// Sends a message by each port for which this bridge is designated.
    fn send(&mut self, context: &mut Context<'_>) {
        let (own, now_ns) = (self.bridge(), context.now_ns());
        for index in 0..self.ports.len() {
            let (address, best) = (self.address, self.best);
            let Some(port) = self.ports.get_mut(index) else { continue };
            // No message is sent by the port that leads to the root.
            if best.rank(&port.message) != Ordering::Greater {
                continue;
            }
            let acknowledges = std::mem::take(&mut port.acknowledges);
            let frame = best.sent_by(own, index as u16).frame(address, acknowledges, now_ns);
            if let Some(packet) = context.arena().packet(&frame) {
                context.push(index, packet);
            }
        }
    }
}

impl Element for EtherSpanTree {
    arguments! { this, given;
        mandatory "ADDR": [u8; 6] => this.address;
        mandatory "INPUT_SUPPRESSOR": String => this.suppressors[0];
        mandatory "OUTPUT_SUPPRESSOR": String => this.suppressors[1];
        mandatory "SWITCH": String => this.switch;
        then {
            let new = Port {
                state: State::Block,
                since_ns: 0,
                acknowledges: false,
                message: Message::worst(),
            };
            this.ports = vec![new; given.outputs()];
            if given.inputs() != given.outputs() {
                return Err(ConfigError::other("needs as many outputs as inputs"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let named = [
            (self.suppressors[0].as_str(), "Suppressor"),
            (self.suppressors[1].as_str(), "Suppressor"),
            (self.switch.as_str(), "EtherSwitch"),
        ];
        let mut found = Vec::new();
        for (name, class) in named {
            let index = context.find(name);
            let fits = |index: &usize| context.class_of(*index) == Some(class);
            let Some(index) = index.filter(fits) else {
                return Err(ConfigError::other(format!("'{name}' is no {class}")));
            };
            found.push(context.names().get(index).cloned().unwrap_or_default());
        }
        found.truncate(2);
        for (place, name) in self.suppressors.iter_mut().zip(found) {
            *place = name;
        }
        // Nothing is forwarded before the topology is known to have no loop.
        context.schedule(0, context.now_ns());
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        if self.best == Message::worst() {
            for index in 0..self.ports.len() {
                self.set(index, true, context);
            }
        }
        self.pass_time(context);
        self.find_tree(context);
        self.send(context);
        let hello_ns = u64::from(self.best.hello.max(1)) * SECOND_NS;
        context.schedule(0, context.now_ns().saturating_add(hello_ns));
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        for packet in batch.iter() {
            self.receive(port, packet.data(), now_ns);
        }
        batch.clear();
        self.find_tree(context);
    }

    handlers! { this, context, value;
        read "msgs" => {
            let messages = this.ports.iter().map(|port| port.message).chain([this.best]);
            let line = |m: Message| {
                format!("{:016x}:{:04x} {} -> {:016x}\n", m.bridge, m.port, m.cost, m.root)
            };
            messages.map(line).collect::<String>()
        };
        read "states" => {
            let name = |port: &Port| match port.state {
                State::Block => "block\n",
                State::Listen => "listen\n",
                State::Learn => "learn\n",
                State::Forward => "forward\n",
            };
            this.ports.iter().map(name).collect::<String>()
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    /// Bridges with the given numbers; the ports at both ends of each link are connected.
    fn bridges(numbers: &[u8], links: &[[(usize, usize); 2]], ports: usize) -> Router {
        let mut graph = Graph::default();
        let mut trees = Vec::new();
        for (at, number) in numbers.iter().enumerate() {
            let name = |part: &str| format!("{part}{at}");
            let address = format!("0:0:0:0:0:{number}");
            let arguments = [address, name("in"), name("out"), name("sw")];
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            trees.push(graph.add(&name("st"), "EtherSpanTree", &arguments));
            let elements = ["in", "sw", "out"].map(|part| {
                let class = if part == "sw" { "EtherSwitch" } else { "Suppressor" };
                graph.add(&name(part), class, &[])
            });
            let sink = graph.add(&name("sink"), "Discard", &[]);
            for port in 0..ports {
                let idle = graph.add(&format!("idle{at}_{port}"), "Idle", &[]);
                graph.connect(idle, 0, elements[0], port);
                graph.connect(elements[0], port, elements[1], port);
                graph.connect(elements[1], port, elements[2], port);
                graph.connect(elements[2], port, sink, 0);
            }
        }
        for [a, b] in links {
            graph.connect(trees[a.0], a.1, trees[b.0], b.1);
            graph.connect(trees[b.0], b.1, trees[a.0], a.1);
        }
        let (registry, arena) = (Bench::registry(), Arena::heap(256, 2048));
        let graph = graph.resolved(&registry);
        Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap()
    }

    #[test]
    fn a_circle_has_one_port_that_blocks() {
        let links = [[(0, 0), (1, 0)], [(1, 1), (2, 0)], [(2, 1), (0, 1)]];
        let mut router = bridges(&[3, 1, 2], &links, 2);
        for second in 0..60u64 {
            while router.run_once(second * 1_000_000_000, &mut NoDevices) {}
        }
        let states: Vec<String> =
            (0..3).map(|at| router.read(&format!("st{at}.states"), "").unwrap()).collect();
        // The second bridge is the root. Of the two other bridges, the one with the higher number
        // blocks.
        assert_eq!(states, ["forward\nblock\n", "forward\nforward\n", "forward\nforward\n"]);
        assert_eq!(router.read("in0.active1", ""), Ok("false".into()));
        assert_eq!(router.read("out1.active1", ""), Ok("true".into()));
        for at in 0..3 {
            let messages = router.read(&format!("st{at}.msgs"), "").unwrap();
            assert!(messages.trim_end().ends_with("dead000000000001"), "{messages}");
        }
    }

    #[test]
    fn the_elements_must_be_there() {
        let arguments = ["0:0:0:0:0:1", "in", "out", "sw"];
        assert_eq!(Bench::error("EtherSpanTree", &arguments), "'in' is no Suppressor");
    }
}
