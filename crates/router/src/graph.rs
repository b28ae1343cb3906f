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
    let graph = flat(&checked);
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

/// An interface as elements see it.
pub(crate) fn interface(from: &orders::Interface) -> europa_engine::Interface {
    europa_engine::Interface {
        name: from.name.clone(),
        mac: from.mac,
        mtu: from.mtu,
        address: from.address,
    }
}
