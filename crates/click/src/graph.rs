//! The flat, checked graph.

use std::collections::HashMap;
use std::fmt;

use crate::codes::{Flow, Processing};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{Landmark, Span};
use crate::text::Argument;

/// Index of an element in [`Graph::elements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u32);

impl ElementId {
    /// The index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One port of an element, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Push or pull.
    pub processing: Processing,
    /// Whether the element accepts both push and pull here.
    pub agnostic: bool,
}

/// One element.
#[derive(Clone, Debug)]
pub struct Element {
    /// Its full name, `compound/part`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// The configuration string after substitution of all variables.
    pub config: String,
    /// The configuration string, split at its top-level commas.
    pub arguments: Vec<Argument>,
    /// The place of its declaration.
    pub at: Landmark,
    /// The place of the configuration string in the source, if the source contains exactly
    /// `config`.
    pub config_at: Option<Landmark>,
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// Which inputs reach which outputs.
    pub flow: Flow,
}

/// `name :: Class`, the way errors name an element.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} :: {}", self.name, self.class)
    }
}

impl Element {
    /// The place of a part of the configuration string: exact if the source contains the string
    /// unchanged, otherwise the element's place.
    pub fn config_span(&self, span: Span) -> Landmark {
        let Some(at) = &self.config_at else {
            return self.at.clone();
        };
        let start = at.span.start + span.start.min(self.config.len());
        let before = self.config.get(..span.start).unwrap_or_default();
        let lines = before.matches('\n').count();
        let mut place =
            at.with_span(Span::new(start, at.span.start + span.end.min(self.config.len())));
        place.line = place.line.saturating_add(u32::try_from(lines).unwrap_or(0));
        place
    }

    /// An error about this element as a whole.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(&self.at, message)
    }

    /// The prefix of its compound, with the slash: the scope in which its
    /// arguments look for other elements.
    pub fn scope(&self) -> &str {
        match self.name.rfind('/') {
            Some(slash) => self.name.get(..=slash).unwrap_or_default(),
            None => "",
        }
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The upstream element.
    pub from: ElementId,
    /// Its output.
    pub from_port: u32,
    /// The downstream element.
    pub to: ElementId,
    /// Its input.
    pub to_port: u32,
    /// The place of its arrow.
    pub at: Landmark,
}

/// The requirements of `require(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package`, `compact_config`.
    pub kind: String,
    /// The name after it, or nothing.
    pub value: String,
}

/// A configuration without compounds and without errors.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The elements; an [`ElementId`] is an index of these.
    pub elements: Vec<Element>,
    /// The connections, sorted by input, then by output.
    pub connections: Vec<Connection>,
    /// Its requirements, in order.
    pub requirements: Vec<Requirement>,
    /// The names that it provides.
    pub provisions: Vec<String>,
    /// Its warnings.
    pub warnings: Diagnostics,
    pub(crate) names: HashMap<String, ElementId>,
}

impl Graph {
    /// The element of that number.
    pub fn element(&self, id: ElementId) -> Option<&Element> {
        self.elements.get(id.index())
    }

    /// Finds an element by its name inside `scope` (`compound/`, or empty). The innermost enclosing
    /// compound with such an element wins.
    pub fn find(&self, name: &str, scope: &str) -> Option<ElementId> {
        let mut scope = scope;
        loop {
            if let Some(id) = self.names.get(&format!("{scope}{name}")) {
                return Some(*id);
            }
            if scope.is_empty() {
                return None;
            }
            let outer = scope.strip_suffix('/').unwrap_or(scope);
            scope = match outer.rfind('/') {
                Some(slash) => outer.get(..=slash).unwrap_or_default(),
                None => "",
            };
        }
    }
}
