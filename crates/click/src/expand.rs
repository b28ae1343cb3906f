//! Expands compounds until only classes of the caller remain.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use crate::definition::{ClassRef, Definition, Link, Role};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environments;
use crate::resolve::{MAX_LINKS, Program, assign_arguments};
use crate::source::Landmark;
use crate::text::{join_arguments, split_arguments};

/// Deepest nesting of compounds; each level uses stack.
const MAX_DEPTH: usize = 100;
/// Most elements of the flat graph: a few lines of nested compounds could require any number.
const MAX_ELEMENTS: usize = 1 << 20;
/// Most bytes of all names and configuration strings together.
const MAX_BYTES: usize = 64 << 20;

/// An element of the flat graph, or one end of a tunnel through a compound element.
pub(crate) struct Flat {
    pub(crate) name: String,
    /// `None` for the end of a tunnel.
    pub(crate) class: Option<ClassRef>,
    pub(crate) config: String,
    /// Place of the configuration string, if the source contains it unchanged.
    pub(crate) config_at: Option<Landmark>,
    pub(crate) at: Landmark,
    inputs: u32,
    outputs: u32,
    /// The node where packets that enter this end of a tunnel come out.
    forward: Option<usize>,
}

/// The flat graph; of the checks, only those of compounds are done.
pub(crate) struct Expanded {
    /// Elements and tunnel ends.
    pub(crate) nodes: Vec<Flat>,
    /// Connections between elements, by index of `nodes`.
    pub(crate) links: Vec<Link>,
}

struct Expander<'a> {
    definitions: &'a [Definition],
    environments: Environments,
    nodes: Vec<Flat>,
    names: HashMap<String, usize>,
    links: Vec<Link>,
    bytes: usize,
    gave_up: bool,
    errors: &'a mut Diagnostics,
}

pub(crate) fn expand(
    program: &Program,
    defines: &[(String, String)],
    errors: &mut Diagnostics,
) -> Expanded {
    let mut environments = Environments::new();
    // Definitions of the command line override those of the file.
    for (name, value) in defines.iter().chain(&program.file.variables) {
        environments.define(0, name, value.clone());
    }
    let mut expander = Expander {
        definitions: &program.definitions,
        environments,
        nodes: Vec::new(),
        names: HashMap::new(),
        links: Vec::new(),
        bytes: 0,
        gave_up: false,
        errors,
    };
    expander.instantiate(&program.file, "", [None, None], 0, 0);
    expander.check_tunnels();
    let links = expander.join_tunnels();
    Expanded { nodes: expander.nodes, links }
}

impl<'a> Expander<'a> {
    /// Ends the expansion; only one such error is reported.
    fn give_up(&mut self, at: &Landmark, message: &str) {
        if !self.gave_up {
            self.errors.error(at, message);
        }
        self.gave_up = true;
    }

    fn node(&mut self, name: String, class: Option<ClassRef>, at: &Landmark) -> Option<usize> {
        if let Some(&old) = self.names.get(&name) {
            let error = Diagnostic::error(at, format!("redeclaration of element '{name}'"));
            let place = self.nodes.get(old).map(|node| node.at.clone());
            let place = place.unwrap_or_else(|| at.clone());
            let note = format!("element '{name}' previously declared here");
            self.errors.push(error.note(&place, note));
            return None;
        }
        self.bytes += name.len();
        if self.nodes.len() >= MAX_ELEMENTS || self.bytes > MAX_BYTES {
            self.give_up(at, "too many elements");
            return None;
        }
        let index = self.nodes.len();
        self.names.insert(name.clone(), index);
        self.nodes.push(Flat {
            name,
            class,
            config: String::new(),
            config_at: None,
            at: at.clone(),
            inputs: 0,
            outputs: 0,
            forward: None,
        });
        Some(index)
    }

    /// The two pseudo-elements of a tunnel through `outer`.
    fn tunnel(&mut self, outer: usize) -> Option<[Option<usize>; 2]> {
        let node = self.nodes.get(outer)?;
        let (name, at) = (node.name.clone(), node.at.clone());
        let input = self.node(format!("{name}/input"), None, &at)?;
        let output = self.node(format!("{name}/output"), None, &at)?;
        self.nodes.get_mut(outer)?.forward = Some(input);
        self.nodes.get_mut(output)?.forward = Some(outer);
        Some([Some(input), Some(output)])
    }

    /// Copies a definition's elements and links, then expands the compounds among them.
    fn instantiate(
        &mut self,
        definition: &'a Definition,
        prefix: &str,
        pseudo: [Option<usize>; 2],
        scope: usize,
        depth: usize,
    ) {
        let mut map: Vec<Option<usize>> = Vec::with_capacity(definition.elements.len());
        let mut compounds = Vec::new();
        for (index, proto) in definition.elements.iter().enumerate() {
            let mapped = match &proto.role {
                Role::Pseudo => pseudo.get(index).copied().flatten(),
                Role::Group => self.node(format!("{prefix}{}", proto.name), None, &proto.at),
                Role::GroupEnd => {
                    let name = format!("{prefix}{}", proto.name);
                    self.group_end(name, index, definition, &map)
                }
                Role::Element(class) => {
                    let name = format!("{prefix}{}", proto.name);
                    let node = self.node(name, Some(class.clone()), &proto.at);
                    if let Some(node) = node {
                        self.configure(node, definition, index, scope);
                        compounds.push(node);
                    }
                    node
                }
            };
            if self.gave_up {
                return;
            }
            map.push(mapped);
        }
        for link in &definition.links {
            let ends = (map.get(link.from.0), map.get(link.to.0));
            if let (Some(Some(from)), Some(Some(to))) = ends {
                self.links.push(Link {
                    from: (*from, link.from.1),
                    to: (*to, link.to.1),
                    at: link.at.clone(),
                });
            }
        }
        if self.links.len() > MAX_LINKS {
            self.give_up(&definition.at, "too many connections");
        }
        for node in compounds {
            if self.gave_up {
                return;
            }
            self.expand_compound(node, scope, depth);
        }
    }

    /// The first end after a group is its input, the second its output.
    fn group_end(
        &mut self,
        name: String,
        index: usize,
        definition: &Definition,
        map: &[Option<usize>],
    ) -> Option<usize> {
        let at = &definition.elements.get(index)?.at;
        let node = self.node(name, None, at)?;
        let is_group = |i: usize| {
            let proto = definition.elements.get(i);
            proto.is_some_and(|p| matches!(p.role, Role::Group))
        };
        if is_group(index.checked_sub(1)?) {
            let outer = (*map.get(index - 1)?)?;
            self.nodes.get_mut(outer)?.forward = Some(node);
        } else {
            let outer = (*map.get(index.checked_sub(2)?)?)?;
            self.nodes.get_mut(node)?.forward = Some(outer);
        }
        Some(node)
    }

    fn configure(&mut self, node: usize, definition: &Definition, index: usize, scope: usize) {
        let Some(proto) = definition.elements.get(index) else {
            return;
        };
        let written = proto.config.as_ref().map_or("", |config| config.text.as_str());
        let Ok(config) = self.environments.expand(scope, written) else {
            self.give_up(&proto.at, "configuration string too long after variable substitution");
            return;
        };
        self.bytes += config.len();
        if self.bytes > MAX_BYTES {
            self.give_up(&proto.at, "configuration strings too long after variable substitution");
        }
        if let Some(flat) = self.nodes.get_mut(node) {
            let verbatim = proto.config.as_ref().filter(|c| c.verbatim && c.text == config);
            flat.config_at = verbatim.map(|c| c.at.clone());
            flat.config = config;
            flat.inputs = proto.inputs;
            flat.outputs = proto.outputs;
        }
    }

    fn expand_compound(&mut self, index: usize, scope: usize, depth: usize) {
        let Some(node) = self.nodes.get(index) else {
            return;
        };
        let Some(ClassRef::Compound(first)) = node.class else {
            return;
        };
        let (name, at) = (node.name.clone(), node.at.clone());
        if depth >= MAX_DEPTH {
            self.give_up(&at, "maximum compound element nesting depth exceeded");
            return;
        }
        let arguments: Vec<String> =
            split_arguments(&node.config).into_iter().map(|argument| argument.text).collect();
        let (chosen, values) = self.choose(first, index, &arguments);
        let definition = match chosen {
            ClassRef::Compound(id) => self.definitions.get(id),
            other => {
                if let Some(node) = self.nodes.get_mut(index) {
                    node.class = Some(other);
                }
                return;
            }
        };
        let Some(definition) = definition else { return };
        if let Some(node) = self.nodes.get_mut(index) {
            node.class = None;
        }
        let inner = self.environments.enter(scope, definition.depth);
        for ((_, variable), value) in definition.formals.iter().zip(values) {
            self.environments.define(inner, variable, value);
        }
        for (variable, value) in &definition.variables {
            match self.environments.expand(inner, value) {
                Ok(value) => self.environments.define(inner, variable, value),
                Err(_) => self.give_up(&at, "definition too long after variable substitution"),
            }
        }
        if let Some(pseudo) = self.tunnel(index) {
            self.instantiate(definition, &format!("{name}/"), pseudo, inner, depth + 1);
        }
    }

    /// Chooses the overloaded body that fits the ports in use and the arguments. If none does, but
    /// only one has fitting arguments, that one is chosen: an error about its ports is clearer than
    /// "no match".
    fn choose(
        &mut self,
        first: usize,
        index: usize,
        arguments: &[String],
    ) -> (ClassRef, Vec<String>) {
        let (inputs, outputs, at) = match self.nodes.get(index) {
            Some(node) => (node.inputs, node.outputs, node.at.clone()),
            None => return (ClassRef::Unknown, Vec::new()),
        };
        let mut candidates: Vec<&Definition> = Vec::new();
        let mut near = None;
        let mut next = Some(ClassRef::Compound(first));
        while let Some(class) = next {
            let ClassRef::Compound(id) = class else {
                return (class, Vec::new());
            };
            let Some(candidate) = self.definitions.get(id) else {
                break;
            };
            if let Some(values) = assign_arguments(&candidate.formals, arguments) {
                if candidate.inputs == inputs && candidate.outputs == outputs {
                    return (ClassRef::Compound(id), values);
                }
                near = Some((ClassRef::Compound(id), values));
            }
            candidates.push(candidate);
            next = candidate.overload.clone();
        }
        let single = candidates.len() == 1;
        if !single || near.is_none() {
            let name = candidates.first().map_or("", |c| c.printable_name());
            let wanted = signature(name, None, arguments.len(), inputs, outputs);
            let mut error = Diagnostic::error(&at, format!("no match for '{wanted}'"));
            for candidate in &candidates {
                let have = signature(
                    candidate.printable_name(),
                    Some(&candidate.formals),
                    0,
                    candidate.inputs,
                    candidate.outputs,
                );
                error = error.note(&candidate.at, format!("candidate: {have}"));
            }
            self.errors.push(error);
            return (ClassRef::Unknown, Vec::new());
        }
        near.unwrap_or((ClassRef::Unknown, Vec::new()))
    }

    /// Reports compound ports that only one side uses.
    fn check_tunnels(&mut self) {
        let mut entered: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.nodes.len()];
        let mut left = entered.clone();
        for link in &self.links {
            let is_tunnel = |index: usize| self.nodes.get(index).is_some_and(|n| n.class.is_none());
            if is_tunnel(link.to.0)
                && let Some(ports) = entered.get_mut(link.to.0)
            {
                ports.insert(link.to.1);
            }
            if is_tunnel(link.from.0)
                && let Some(ports) = left.get_mut(link.from.0)
            {
                ports.insert(link.from.1);
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(exit) = node.forward else { continue };
            let (Some(entered), Some(left)) = (entered.get(index), left.get(exit)) else {
                continue;
            };
            let Some(exit) = self.nodes.get(exit) else { continue };
            // A packet that enters `x` uses its inputs; one that leaves `x`, by `x/output`, uses
            // its outputs.
            let inward = exit.name.len() > node.name.len();
            let (owner, side) = if inward { (node, "input") } else { (exit, "output") };
            let (unused, unknown) = if inward {
                (left.difference(entered), entered.difference(left))
            } else {
                (entered.difference(left), left.difference(entered))
            };
            for port in unused {
                let message = format!("'{}' {side} {port} unused", owner.name);
                self.errors.error(&owner.at, message);
            }
            for port in unknown {
                let message = format!("'{}' has no {side} {port}", owner.name);
                self.errors.error(&owner.at, message);
            }
        }
    }

    /// Connections through tunnels become connections between elements.
    fn join_tunnels(&mut self) -> Vec<Link> {
        let mut leaving: HashMap<(usize, u32), Vec<(usize, u32)>> = HashMap::new();
        let is_tunnel = |index: usize| self.nodes.get(index).is_none_or(|n| n.class.is_none());
        for link in &self.links {
            if is_tunnel(link.from.0) {
                leaving.entry(link.from).or_default().push(link.to);
            }
        }
        let mut joined = Vec::new();
        let mut steps = 0;
        let mut overflow = None;
        for link in &self.links {
            if is_tunnel(link.from.0) {
                continue;
            }
            let mut seen = HashSet::new();
            let mut pending = vec![link.to];
            while let Some((node, port)) = pending.pop() {
                steps += 1;
                if !is_tunnel(node) {
                    joined.push(Link { to: (node, port), ..link.clone() });
                    continue;
                }
                let exit = self.nodes.get(node).and_then(|n| n.forward);
                if let Some(exit) = exit
                    && seen.insert((exit, port))
                {
                    pending.extend(leaving.get(&(exit, port)).into_iter().flatten());
                }
            }
            if steps > 8 * MAX_LINKS || joined.len() > MAX_LINKS {
                overflow = Some(link.at.clone());
                break;
            }
        }
        if let Some(at) = overflow {
            self.give_up(&at, "too many connections");
        }
        joined
    }
}

/// `Name(<arg>, KEYWORD, ...)[1 input, 1 output]`, the way Click names a candidate.
fn signature(
    name: &str,
    formals: Option<&[(String, String)]>,
    arguments: usize,
    inputs: u32,
    outputs: u32,
) -> String {
    let mut text = name.to_owned();
    if let Some(formals) = formals.filter(|formals| !formals.is_empty()) {
        let list: Vec<&str> = formals
            .iter()
            .map(|(keyword, _)| match keyword.as_str() {
                "" => "<arg>",
                "__REST__" => "...",
                keyword => keyword,
            })
            .collect();
        text += &format!("({})", join_arguments(&list));
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    text.push('[');
    if arguments > 0 {
        text += &format!("{arguments} argument{}, ", plural(arguments));
    }
    text += &format!(
        "{inputs} input{}, {outputs} output{}]",
        plural(inputs as usize),
        plural(outputs as usize)
    );
    text
}

impl Flat {
    /// The class of the caller; `None` for a compound.
    pub(crate) fn primitive(&self) -> Option<Rc<str>> {
        match &self.class {
            Some(ClassRef::Primitive(name)) => Some(name.clone()),
            _ => None,
        }
    }
}
