//! A checked graph: elements, connections, and which of them push.

use serde::{Deserialize, Serialize};

use crate::registry::Registry;

/// One element of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphElement {
    /// Name, unique in the graph.
    pub name: String,
    /// Name of its class.
    pub class: String,
    /// Configuration arguments.
    pub arguments: Vec<String>,
}

/// One connection from an output to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Element, by index, that has the output.
    pub from: usize,
    /// Number of the output.
    pub output: usize,
    /// Element, by index, that has the input.
    pub to: usize,
    /// Number of the input.
    pub input: usize,
    /// Whether packets move when the receiver asks for them, not when the sender has them.
    pub pull: bool,
}

/// Elements and connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The elements; connections name them by index.
    pub elements: Vec<GraphElement>,
    /// The connections.
    pub connections: Vec<Connection>,
    /// Each packet passes alone, in the order of Click's nested calls: for graphs that show the
    /// order of packets.
    pub one_by_one: bool,
}

/// A running graph, for users and drawings: the value of the `graph` handler, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphView {
    /// The elements; connections name them by index.
    pub elements: Vec<GraphElementView>,
    /// The connections.
    pub connections: Vec<ConnectionView>,
}

/// An element of a running graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphElementView {
    /// Name.
    pub name: String,
    /// Name of its class.
    pub class: String,
    /// Its configuration.
    pub config: String,
    /// Packets pushed to it so far.
    pub packets: u64,
}

/// A connection of a running graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionView {
    /// Element, by index, that has the output.
    pub from: usize,
    /// Number of the output.
    pub output: usize,
    /// Element, by index, that has the input.
    pub to: usize,
    /// Number of the input.
    pub input: usize,
    /// Whether the receiver asks for packets.
    pub pull: bool,
}

impl Graph {
    /// Adds an element; returns its index.
    pub fn add(&mut self, name: &str, class: &str, arguments: &[&str]) -> usize {
        self.elements.push(GraphElement {
            name: name.to_owned(),
            class: class.to_owned(),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
        });
        self.elements.len() - 1
    }

    /// Connects `from[output]` to `[input]to`.
    pub fn connect(&mut self, from: usize, output: usize, to: usize, input: usize) {
        self.connections.push(Connection { from, output, to, input, pull: false });
    }

    /// Determines which connections pull, from the classes' processing codes. A connection with one
    /// pull end pulls. All agnostic ports of an element are of the same kind. Does not look for
    /// contradictions.
    #[must_use]
    pub fn resolved(mut self, registry: &Registry) -> Graph {
        let code = |element: usize, output: bool, port: usize| -> u8 {
            let class = self.elements.get(element).map_or("", |e| e.class.as_str());
            let processing = registry.info(class).map_or("a/a", |info| info.processing);
            let (inputs, outputs) = processing.split_once('/').unwrap_or((processing, processing));
            let side = if output { outputs } else { inputs }.as_bytes();
            side.get(port).or(side.last()).copied().unwrap_or(b'a')
        };
        let ends: Vec<(u8, u8)> = self
            .connections
            .iter()
            .map(|c| (code(c.from, true, c.output), code(c.to, false, c.input)))
            .collect();
        let mut pulls = vec![false; self.elements.len()];
        loop {
            let mut changed = false;
            for (connection, (from, to)) in self.connections.iter_mut().zip(&ends) {
                let agnostic_pull = |code: u8, element: usize| {
                    code == b'a' && pulls.get(element).copied().unwrap_or(false)
                };
                if !connection.pull
                    && (*from == b'l'
                        || *to == b'l'
                        || agnostic_pull(*from, connection.from)
                        || agnostic_pull(*to, connection.to))
                {
                    connection.pull = true;
                    changed = true;
                    for (code, element) in [(*from, connection.from), (*to, connection.to)] {
                        if code == b'a'
                            && let Some(pull) = pulls.get_mut(element)
                        {
                            *pull = true;
                        }
                    }
                }
            }
            if !changed {
                return self;
            }
        }
    }
}
