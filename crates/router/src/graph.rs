//! From a configuration's text to a running graph.

use std::io;
use std::os::fd::OwnedFd;

use europa_click::{Argument, Diagnostic, Diagnostics, ElementClasses, Processing, Shape, compile};
use europa_engine::{
    Arena, Batch, BuildError, Connection, Devices, Graph, GraphElement, Registry, Router,
};
use europa_resource::Resource;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::grants::Grants;
use crate::orders;

/// The element library, as the language's checks see it.
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

/// Compiles and builds a configuration.
///
/// # Errors
/// Every mistake, with file, line and the text underlined.
pub(crate) fn build(
    text: &str,
    file: &str,
    arena: &Arena,
    devices: &dyn Devices,
    now_ns: u64,
) -> Result<Router, String> {
    let registry = europa_elements::registry();
    let checked = compile(text, file, &Classes(&registry)).map_err(|errors| render(&errors))?;
    let graph = flat(&checked);
    Router::build(&graph, &registry, arena, devices, now_ns).map_err(|errors| {
        let mut diagnostics = Diagnostics::default();
        for error in errors {
            diagnostics.push(place(&checked, error));
        }
        render(&diagnostics)
    })
}

/// Slots of the memory in which a configuration is tried.
const TRIAL_SLOTS: u32 = 512;

/// Builds a configuration without interfaces that work, and forgets it. `grants` stand for what
/// it is granted.
///
/// # Errors
/// Every mistake, with file, line and the text underlined.
pub fn check(start: &orders::Start, grants: Vec<OwnedFd>) -> Result<(), String> {
    let arena = Arena::heap(TRIAL_SLOTS, start.slot_bytes as usize);
    let interfaces = start.interfaces.iter().map(interface).collect();
    let devices = Named { interfaces, grants: Grants::new(&start.grants, grants) };
    build(&start.configuration, &start.file, &arena, &devices, 0).map(drop)
}

/// Interfaces that have names and nothing more.
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

/// The engine's view of a checked graph.
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

fn place(checked: &europa_click::Graph, error: BuildError) -> Diagnostic {
    let (element, message, help) = match error {
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
