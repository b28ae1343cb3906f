//! The last step: ports exist, are used, and agree on push and pull.

use std::collections::{HashMap, VecDeque};

use crate::classes::{ElementClasses, Shape};
use crate::codes::{Flow, PortCount, Processing, parse_processing};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expand::Expanded;
use crate::graph::{Connection, Element, ElementId, Graph, Port};
use crate::resolve::MAX_LINKS;
use crate::text::split_arguments;

/// Most pairs of agnostic input and output that may be linked inside elements.
const MAX_INNER_LINKS: usize = 1 << 22;

/// Makes the graph and checks it. Errors are added to `errors`. As in Click, a later check does not
/// run if an earlier one failed.
pub(crate) fn check(
    expanded: Expanded,
    classes: &dyn ElementClasses,
    errors: &mut Diagnostics,
) -> Graph {
    let (mut graph, shapes) = collect(expanded, classes, errors);
    let counts = count_ports(&graph, &shapes, errors);
    if errors.has_errors() {
        return graph;
    }
    let Some(mut kinds) = Kinds::new(&graph, &shapes, &counts, errors) else {
        return graph;
    };
    kinds.settle(&graph, errors);
    check_reuse(&graph, &kinds, errors);
    check_unused(&graph, &counts, errors);
    kinds.store(&mut graph);
    graph
}

/// Numbers the elements and sorts the connections, without duplicates.
fn collect(
    expanded: Expanded,
    classes: &dyn ElementClasses,
    errors: &mut Diagnostics,
) -> (Graph, Vec<Shape>) {
    let mut graph = Graph::default();
    let mut shapes = Vec::new();
    let mut ids = vec![None; expanded.nodes.len()];
    for (node, slot) in expanded.nodes.into_iter().zip(ids.iter_mut()) {
        let Some(class) = node.primitive() else {
            continue;
        };
        let arguments = split_arguments(&node.config);
        let Some(shape) = classes.shape(&class, &arguments) else {
            errors.error(&node.at, format!("unknown element class '{class}'"));
            continue;
        };
        // MAX_ELEMENTS keeps the number far below the limit of u32.
        let id = ElementId(graph.elements.len() as u32);
        let Some(flow) = Flow::parse(&shape.flow) else {
            errors.error(&node.at, format!("'{} :: {class}' bad flow code", node.name));
            continue;
        };
        *slot = Some(id);
        graph.names.insert(node.name.clone(), id);
        graph.elements.push(Element {
            name: node.name,
            class: class.to_string(),
            config: node.config,
            arguments,
            at: node.at,
            config_at: node.config_at,
            inputs: Vec::new(),
            outputs: Vec::new(),
            flow,
        });
        shapes.push(shape);
    }
    for link in expanded.links {
        let id = |index: usize| ids.get(index).copied().flatten();
        if let (Some(from), Some(to)) = (id(link.from.0), id(link.to.0)) {
            graph.connections.push(Connection {
                from,
                from_port: link.from.1,
                to,
                to_port: link.to.1,
                at: link.at,
            });
        }
    }
    let key = |c: &Connection| (c.to, c.to_port, c.from, c.from_port);
    graph.connections.sort_by_key(key);
    graph.connections.dedup_by_key(|c| key(c));
    (graph, shapes)
}

/// The numbers of inputs and outputs of each element, from the ports in use.
fn count_ports(graph: &Graph, shapes: &[Shape], errors: &mut Diagnostics) -> Vec<(u32, u32)> {
    let mut counts = vec![(0, 0); graph.elements.len()];
    for c in &graph.connections {
        if let Some((inputs, _)) = counts.get_mut(c.to.index()) {
            *inputs = c.to_port.saturating_add(1).max(*inputs);
        }
        if let Some((_, outputs)) = counts.get_mut(c.from.index()) {
            *outputs = c.from_port.saturating_add(1).max(*outputs);
        }
    }
    let mut total = 0usize;
    for ((count, shape), element) in counts.iter_mut().zip(shapes).zip(&graph.elements) {
        match PortCount::parse(&shape.ports) {
            Some(code) => *count = code.fit(count.0, count.1),
            None => errors.push(element.error(format!("{element}: bad port count"))),
        }
        total = total.saturating_add(count.0 as usize).saturating_add(count.1 as usize);
        if total > MAX_LINKS {
            errors.push(element.error("too many ports"));
            return counts;
        }
    }
    for c in &graph.connections {
        for (id, port, is_output) in [(c.to, c.to_port, false), (c.from, c.from_port, true)] {
            let (Some(element), Some(count)) = (graph.element(id), counts.get(id.index())) else {
                continue;
            };
            let (have, side) = if is_output { (count.1, "output") } else { (count.0, "input") };
            if port >= have {
                let ports = if have == 1 { "" } else { "s" };
                let error = element.error(format!("'{element}' has no {side} {port}"));
                let error = error.label(&c.at, format!("{side} {port} is connected here"));
                errors.push(error.help(format!("it has {have} {side}{ports}")));
            }
        }
    }
    counts
}

/// A port of the whole graph: element, whether output, number.
type PortKey = (ElementId, bool, u32);

/// Push or pull of every port, `None` while it is agnostic.
struct Kinds {
    /// First slot of each element's inputs and outputs.
    offsets: Vec<(usize, usize)>,
    current: Vec<Option<Processing>>,
    declared: Vec<Option<Processing>>,
    counts: Vec<(u32, u32)>,
    /// Agnostic input and output of one element that must agree: slots, element, ports.
    inner: Vec<(usize, usize, ElementId, u32, u32)>,
}

impl Kinds {
    fn new(
        graph: &Graph,
        shapes: &[Shape],
        counts: &[(u32, u32)],
        errors: &mut Diagnostics,
    ) -> Option<Kinds> {
        let mut kinds = Kinds {
            offsets: Vec::new(),
            current: Vec::new(),
            declared: Vec::new(),
            counts: counts.to_vec(),
            inner: Vec::new(),
        };
        for ((element, shape), &(inputs, outputs)) in graph.elements.iter().zip(shapes).zip(counts)
        {
            let Some((ins, outs)) = parse_processing(&shape.processing, inputs, outputs) else {
                errors.push(element.error(format!("{element}: bad processing code")));
                return None;
            };
            let id = ElementId(kinds.offsets.len() as u32);
            let first = kinds.current.len();
            let offsets = (first, first + ins.len());
            kinds.offsets.push(offsets);
            for (input, _) in (0u32..).zip(&ins).filter(|(_, kind)| kind.is_none()) {
                for (output, _) in (0u32..).zip(&outs).filter(|(_, kind)| kind.is_none()) {
                    if element.flow.travels(input, output) {
                        let slots = (offsets.0 + input as usize, offsets.1 + output as usize);
                        kinds.inner.push((slots.0, slots.1, id, input, output));
                    }
                }
                if kinds.inner.len() > MAX_INNER_LINKS {
                    errors.push(element.error("too many agnostic ports"));
                    return None;
                }
            }
            kinds.current.extend(ins);
            kinds.current.extend(outs);
        }
        kinds.declared = kinds.current.clone();
        Some(kinds)
    }

    fn slot(&self, (id, is_output, port): PortKey) -> Option<usize> {
        let (inputs, outputs) = self.offsets.get(id.index())?;
        Some(if is_output { outputs } else { inputs } + port as usize)
    }

    fn kind(&self, slot: Option<usize>) -> Option<Processing> {
        self.current.get(slot?).copied().flatten()
    }

    /// Propagates push and pull to agnostic ports until nothing changes, then reports where the two
    /// meet.
    fn settle(&mut self, graph: &Graph, errors: &mut Diagnostics) {
        let mut neighbours: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut join = |a: usize, b: usize| {
            neighbours.entry(a).or_default().push(b);
            neighbours.entry(b).or_default().push(a);
        };
        for c in &graph.connections {
            let from = self.slot((c.from, true, c.from_port));
            if let (Some(from), Some(to)) = (from, self.slot((c.to, false, c.to_port))) {
                join(from, to);
            }
        }
        for &(input, output, ..) in &self.inner {
            join(input, output);
        }
        let mut changed: VecDeque<usize> =
            (0..self.current.len()).filter(|&slot| self.kind(Some(slot)).is_some()).collect();
        while let Some(slot) = changed.pop_front() {
            let kind = self.kind(Some(slot));
            for &next in neighbours.get(&slot).into_iter().flatten() {
                if let Some(other @ None) = self.current.get_mut(next) {
                    *other = kind;
                    changed.push_back(next);
                }
            }
        }
        self.report_conflicts(graph, errors);
    }

    fn report_conflicts(&self, graph: &Graph, errors: &mut Diagnostics) {
        for c in &graph.connections {
            let from = self.kind(self.slot((c.from, true, c.from_port)));
            let to = self.kind(self.slot((c.to, false, c.to_port)));
            let ends = (from, to, graph.element(c.from), graph.element(c.to));
            if let (Some(out), Some(into), Some(from), Some(to)) = ends
                && out != into
            {
                let message = format!(
                    "'{from}' {} output {} connected to '{to}' {} input {}",
                    out.name(),
                    c.from_port,
                    into.name(),
                    c.to_port
                );
                let help = match out {
                    Processing::Push => {
                        "a Queue between them stores what is pushed until it is pulled"
                    }
                    Processing::Pull => "an Unqueue between them pulls and pushes on",
                };
                errors.push(Diagnostic::error(&c.at, message).help(help.to_owned()));
            }
        }
        for &(input, output, id, input_port, output_port) in &self.inner {
            let kinds = (self.kind(Some(input)), self.kind(Some(output)));
            if let ((Some(into), Some(out)), Some(element)) = (kinds, graph.element(id))
                && into != out
            {
                errors.push(element.error(format!(
                    "agnostic '{element}' in mixed context: {} input {input_port}, {} output {output_port}",
                    into.name(),
                    out.name()
                )));
            }
        }
    }

    /// Writes the result into the graph; ports that are still agnostic push.
    fn store(&self, graph: &mut Graph) {
        let port = |slot: usize| Port {
            processing: self.kind(Some(slot)).unwrap_or(Processing::Push),
            agnostic: self.declared.get(slot).copied().flatten().is_none(),
        };
        let places = self.offsets.iter().zip(&self.counts);
        for (element, (&(inputs, outputs), &(ins, outs))) in graph.elements.iter_mut().zip(places) {
            element.inputs = (inputs..inputs + ins as usize).map(port).collect();
            element.outputs = (outputs..outputs + outs as usize).map(port).collect();
        }
    }
}

/// A push output and a pull input must have exactly one peer, which they call.
fn check_reuse(graph: &Graph, kinds: &Kinds, errors: &mut Diagnostics) {
    for is_output in [false, true] {
        let mut uses: HashMap<PortKey, usize> = HashMap::new();
        for c in &graph.connections {
            let (id, port) = if is_output { (c.from, c.from_port) } else { (c.to, c.to_port) };
            let uses = uses.entry((id, is_output, port)).or_default();
            *uses += 1;
            let kind = kinds.kind(kinds.slot((id, is_output, port)));
            let kind = kind.unwrap_or(Processing::Push);
            let active = (kind == Processing::Push) == is_output;
            if *uses > 1
                && active
                && let Some(element) = graph.element(id)
            {
                let (what, help) = if is_output {
                    ("push output", "a Tee copies packets to several outputs")
                } else {
                    ("pull input", "a scheduler such as RoundRobinSched pulls from several inputs")
                };
                let message = format!("illegal reuse of '{element}' {what} {port}");
                let error = element.error(message).label(&c.at, "connected again here");
                errors.push(error.help(help.to_owned()));
            }
        }
    }
}

fn check_unused(graph: &Graph, counts: &[(u32, u32)], errors: &mut Diagnostics) {
    for is_output in [false, true] {
        let mut used: Vec<Vec<bool>> = counts
            .iter()
            .map(|&(ins, outs)| vec![false; if is_output { outs } else { ins } as usize])
            .collect();
        for c in &graph.connections {
            let (id, port) = if is_output { (c.from, c.from_port) } else { (c.to, c.to_port) };
            let ports = used.get_mut(id.index());
            if let Some(slot) = ports.and_then(|ports| ports.get_mut(port as usize)) {
                *slot = true;
            }
        }
        let side = if is_output { "output" } else { "input" };
        for (element, used) in graph.elements.iter().zip(&used) {
            for (port, _) in used.iter().enumerate().filter(|(_, used)| !**used) {
                errors.push(element.error(format!("'{element}' {side} {port} unused")));
            }
        }
    }
}
