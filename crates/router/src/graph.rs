//! Makes a running graph from a configuration's text.

use std::io;
use std::os::fd::OwnedFd;

use europa_click::{
    Argument, Diagnostic, Diagnostics, ElementClasses, Processing, Severity, Shape, compile,
};
use europa_engine::{
    Arena, Batch, BuildError, Connection, Devices, Graph, GraphElement, Registry, Router,
};
use europa_resource::Resource;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::grants::Grants;
use crate::orders;

/// The element library in the form that the language's checks use.
pub struct Classes<'a>(pub &'a Registry);

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

/// Adds elements to those of Europa.
pub type More = fn(&mut Registry);

/// Adds no elements.
pub fn none(_: &mut Registry) {}

/// Compiles and builds a configuration from its text and file name. Also returns a line for each
/// warning. `inline`: the graph runs inside the switch. `more` adds elements to Europa's.
///
/// # Errors
/// Every mistake, with file, line and underlined text.
pub(crate) fn build(
    (text, file): (&str, &str),
    inline: bool,
    arena: &Arena,
    devices: &dyn Devices,
    now_ns: u64,
    more: More,
) -> Result<(Router, String), String> {
    let registry = registry(more);
    let checked = compile(text, file, &Classes(&registry)).map_err(|errors| render(&errors))?;
    if inline {
        let refused = not_inline(&checked, &registry);
        if refused.has_errors() {
            return Err(render(&refused));
        }
    }
    let mut graph = flat(&checked);
    front(&mut graph).map_err(|(element, message)| {
        let place = checked.elements.get(element);
        let found = place.map_or_else(|| Diagnostic::global(&message), |one| one.error(&message));
        let mut all = Diagnostics::default();
        all.push(found);
        render(&all)
    })?;
    let router = Router::build(&graph, &registry, arena, devices, now_ns)
        .map_err(|found| render(&placed(&checked, found)))?;
    let mut warnings = checked.warnings.clone();
    warnings.append(placed(&checked, router.warnings().to_vec()));
    Ok((router, warnings.plain().to_string()))
}

fn registry(more: More) -> Registry {
    let mut registry = europa_elements::registry();
    more(&mut registry);
    #[cfg(test)]
    crate::guest::tests::add(&mut registry);
    registry
}

/// Elements that may not run inside the switch.
fn not_inline(checked: &europa_click::Graph, registry: &Registry) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    for element in &checked.elements {
        if let Some(Err(why)) = registry.info(&element.class).map(|info| info.inline) {
            let message = format!("{element} cannot run inside the switch: it {why}");
            let help = "a router with `run: isolated`, the default, may have every element";
            diagnostics.push(element.error(message).help(help.to_owned()));
        }
    }
    diagnostics
}

fn placed(checked: &europa_click::Graph, found: Vec<BuildError>) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    for note in found {
        diagnostics.push(place(checked, note));
    }
    diagnostics
}

/// The beginning of the names of elements that Europa adds to a configuration.
const FRONT: &str = "europa_";
/// Other classes that receive from an interface.
const OTHER_SOURCES: [&str; 3] = ["PollDevice", "FromDPDKDevice", "FromNetmapDevice"];
/// Number of slots for testing a configuration.
const TRIAL_SLOTS: u32 = 512;
/// Most bytes of warnings that a test returns.
const MOST_WARNINGS_BYTES: usize = 16_384;

/// Builds a configuration without working interfaces, and drops it. Returns a line for each
/// warning. `grants` replaces its grants; `more` adds elements to those of Europa.
///
/// # Errors
/// Every mistake, with file, line and underlined text.
pub fn check(start: &orders::Start, grants: Vec<OwnedFd>, more: More) -> Result<String, String> {
    let arena = Arena::heap(TRIAL_SLOTS, start.slot_bytes as usize);
    let interfaces = start.interfaces.iter().map(interface).collect();
    let devices = Named { interfaces, grants: Grants::new(&start.grants, grants) };
    let text = (start.configuration.as_str(), start.file.as_str());
    let built = build(text, start.inline.is_some(), &arena, &devices, 0, more);
    built.map(|(_, warnings)| first(&warnings))
}

/// The first lines, as many as fit into a message.
fn first(warnings: &str) -> String {
    let mut bytes = 0;
    let short = warnings.lines().take_while(|line| {
        bytes += line.len();
        bytes < MOST_WARNINGS_BYTES
    });
    short.map(|line| format!("{line}\n")).collect()
}

/// Interfaces that have names but no function.
struct Named {
    interfaces: Vec<europa_engine::Interface>,
    grants: Grants,
}

impl Devices for Named {
    fn rx(&mut self, _: usize, _: &mut Batch, _: usize) {}

    fn tx(&mut self, _: usize, _: &mut Batch) {}

    fn index(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&europa_engine::Interface> {
        self.interfaces.get(index)
    }

    fn open(&self, resource: &Resource) -> io::Result<OwnedFd> {
        self.grants.take(resource)
    }
}

/// The engine's form of a checked graph.
pub fn flat(checked: &europa_click::Graph) -> Graph {
    let elements = checked
        .elements
        .iter()
        .map(|element| GraphElement {
            name: element.name.clone(),
            class: element.class.clone(),
            arguments: element.arguments.iter().map(|argument| argument.text.clone()).collect(),
        })
        .collect();
    let connections = checked
        .connections
        .iter()
        .map(|connection| Connection {
            from: connection.from.index(),
            output: connection.from_port as usize,
            to: connection.to.index(),
            input: connection.to_port as usize,
            pull: checked
                .element(connection.to)
                .and_then(|element| element.inputs.get(connection.to_port as usize))
                .is_some_and(|port| port.processing == Processing::Pull),
        })
        .collect();
    Graph { elements, connections, one_by_one: false }
}

/// Elements of `DeviceFront` take the place of the interface for the configuration's `FromDevice`.
///
/// # Errors
/// An element that also receives from the interface, and what is wrong.
fn front(graph: &mut Graph) -> Result<(), (usize, String)> {
    let first = |element: &GraphElement| {
        let name = element.arguments.first().map(|text| text.trim());
        name.map(|name| name.strip_prefix("DEVNAME ").unwrap_or(name).trim().to_owned())
    };
    let of = |graph: &Graph, class: &str| -> Vec<usize> {
        let all = graph.elements.iter().enumerate();
        all.filter(|(_, element)| element.class == class).map(|(index, _)| index).collect()
    };
    for at in of(graph, "DeviceFront") {
        let Some(name) = graph.elements.get(at).and_then(first) else { continue };
        let is_of = |graph: &Graph, index: usize| {
            graph.elements.get(index).and_then(first).as_ref() == Some(&name)
        };
        for class in OTHER_SOURCES {
            if let Some(other) = of(graph, class).into_iter().find(|one| is_of(graph, *one)) {
                let why = format!("an interface that signals is read by FromDevice, not {class}");
                return Err((other, why));
            }
        }
        // The one before it in its own text feeds it through a classifier.
        let own = |graph: &Graph, index: usize| {
            let mut from = graph.connections.iter().filter(|one| one.from == index);
            from.all(|one| graph.elements.get(one.to).is_some_and(|to| to.name.starts_with(FRONT)))
        };
        let all = of(graph, "FromDevice").into_iter().filter(|one| is_of(graph, *one));
        let sources: Vec<usize> = all.filter(|one| !own(graph, *one)).collect();
        match sources.as_slice() {
            [] => {}
            [one] => {
                let (to, input, pull) = (*one, 0, false);
                graph.connections.retain(|connection| connection.from != at);
                graph.connections.push(Connection { from: at, output: 0, to, input, pull });
            }
            [_, second, ..] => {
                let why = format!("interface {name} signals, so one FromDevice receives from it");
                return Err((*second, why));
            }
        }
    }
    Ok(())
}

fn place(checked: &europa_click::Graph, found: BuildError) -> Diagnostic {
    let (element, message, help) = match found {
        BuildError::Warning { element, message, .. } => {
            return match checked.elements.get(element) {
                Some(element) => Diagnostic::warning(&element.at, format!("{element}: {message}")),
                None => Diagnostic { severity: Severity::Warning, ..Diagnostic::global(message) },
            };
        }
        BuildError::UnknownClass { element, class, .. } => {
            (element, format!("unknown element class '{class}'"), None)
        }
        BuildError::Config { element, error, .. } => (element, error.to_string(), error.help()),
    };
    let diagnostic = match checked.elements.get(element) {
        Some(element) => element.error(message),
        None => Diagnostic::global(message),
    };
    diagnostic.help(help)
}

fn render(diagnostics: &Diagnostics) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    let mut text = String::new();
    for diagnostic in diagnostics.iter() {
        if handler.render_report(&mut text, diagnostic).is_err() {
            text += &diagnostic.to_string();
        }
    }
    text
}

/// An interface in the form that elements need.
pub(crate) fn interface(from: &orders::Interface) -> europa_engine::Interface {
    europa_engine::Interface {
        name: from.name.clone(),
        mac: from.mac,
        mtu: from.mtu,
        address: from.address,
    }
}

#[cfg(test)]
mod tests {
    use europa_elements::builtin::{self, Description, Interface, Labels};

    use super::*;

    /// Interfaces a, which signals, and b.
    fn start(configuration: &str, inline: bool) -> orders::Start {
        let interface = |(name, last): (&str, u8)| Interface {
            name: name.into(),
            mac: [2, 0, 0, 0, 0, last].into(),
            mtu: 1500,
            addresses: vec![format!("10.0.{last}.1/24").parse().unwrap()],
        };
        let interfaces: Vec<Interface> = [("a", 1), ("b", 2)].into_iter().map(interface).collect();
        let told = interfaces.iter().map(|one| orders::Interface {
            name: one.name.clone(),
            mac: one.mac.0,
            mtu: one.mtu,
            address: None,
        });
        let labels = Some(Labels { interfaces: vec![0], is_pipe: false });
        let interfaces_told = told.collect();
        let description = Description { interfaces, labels, ..Description::default() };
        let bounds = orders::Inline { budget_ns: 1_000_000, memory_bytes: 1_000_000 };
        orders::Start {
            slots: 64,
            slot_bytes: 2048,
            interfaces: interfaces_told,
            worker: 0,
            busy: false,
            configuration: configuration.to_owned() + &builtin::front(&description).unwrap(),
            file: "test".into(),
            grants: Vec::new(),
            inline: inline.then_some(bounds),
        }
    }

    #[test]
    fn a_label_table_precedes_any_configuration() {
        for (text, wanted) in [
            ("FromDevice(a) -> c :: Counter -> ToDevice(b); FromDevice(b) -> ToDevice(a);", None),
            ("FromDevice(a) -> Queue -> ToDevice(b); FromDevice(b) -> Queue -> ToDevice(a);", None),
            ("Idle -> Discard;", None),
            (
                "FromDevice(a) -> Discard; FromDevice(a) -> Discard;",
                Some("interface a signals, so one FromDevice receives from it"),
            ),
            (
                "PollDevice(a) -> Discard;",
                Some("an interface that signals is read by FromDevice, not PollDevice"),
            ),
        ] {
            for inline in [false, true] {
                let found = check(&start(text, inline), Vec::new(), none);
                match wanted {
                    None => assert!(found.is_ok(), "{text}: {found:?}"),
                    Some(wanted) => {
                        assert!(found.as_ref().is_err_and(|why| why.contains(wanted)), "{found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn packets_go_by_the_front_to_the_configurations_own_element() {
        let start = start("in :: FromDevice(a) -> Discard;", false);
        let registry = registry(none);
        let checked = compile(&start.configuration, "test", &Classes(&registry)).unwrap();
        let mut graph = flat(&checked);
        front(&mut graph).unwrap();
        let at = |name: &str| graph.elements.iter().position(|one| one.name == name).unwrap();
        let into = graph.connections.iter().filter(|one| one.to == at("in"));
        let from: Vec<&str> = into.map(|one| &*graph.elements[one.from].name).collect();
        assert_eq!(from, ["europa_front0"]);
        // Nobody else receives from b, so its packets end there.
        let after = graph.connections.iter().filter(|one| one.from == at("europa_front1"));
        let to: Vec<&str> = after.map(|one| &*graph.elements[one.to].class).collect();
        assert_eq!(to, ["Discard"]);
    }
}
