//! The contents of a configuration file, before any name is looked up.

use std::sync::Arc;

use crate::diagnostic::Diagnostics;
use crate::lexer::Config;
use crate::source::{Landmark, Source};

/// A parsed configuration.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The text it was read from.
    pub source: Arc<Source>,
    /// Its statements in order.
    pub statements: Vec<Statement>,
    /// Warnings of the parser.
    pub warnings: Diagnostics,
}

/// One statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// `a -> b -> c`, `a, b :: Class`, `Class(config)`: a declaration is a connection of a single
    /// stage.
    Connection(Vec<Stage>),
    /// `elementclass Name Class` or `elementclass Name { ... }`.
    ElementClass {
        /// The new name.
        name: String,
        /// The class that the name stands for; `None` after a syntax error.
        class: Option<Class>,
        /// The name's place.
        at: Landmark,
    },
    /// `require(...)`.
    Require(Config),
    /// `provide(...)`.
    Provide(Config),
    /// `define(...)`.
    Define(Config),
}

/// The comma-separated elements between two arrows.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The arrow before it; the first stage of a connection has none.
    pub arrow: Option<Arrow>,
    /// Its elements.
    pub nodes: Vec<Node>,
    /// From its first token to its last one.
    pub at: Landmark,
    /// Whether an arrow follows.
    pub followed: bool,
}

/// How two stages are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// `->`
    One,
    /// `=>`
    Many,
}

/// One element of a stage.
#[derive(Clone, Debug)]
pub struct Node {
    /// Ports before it.
    pub inputs: Ports,
    /// The name.
    pub target: Target,
    /// `:: Class` after it.
    pub class: Option<Class>,
    /// `(config)` after it.
    pub config: Option<Config>,
    /// Ports after it.
    pub outputs: Ports,
    /// The place of the name, brace or parenthesis.
    pub at: Landmark,
}

impl Node {
    /// Whether the node is only a name, with or without ports.
    pub fn is_bare(&self) -> bool {
        matches!(self.target, Target::Name(_)) && self.class.is_none() && self.config.is_none()
    }
}

/// The kinds of a node's names.
#[derive(Clone, Debug)]
pub enum Target {
    /// An element or an element class.
    Name(String),
    /// An arrow with nothing before it: the `input` pseudo-element.
    ImplicitInput,
    /// An arrow with nothing after it: the `output` pseudo-element.
    ImplicitOutput,
    /// `{ ... }`.
    Compound(Compound),
    /// `( ... )`, with the place of its closing parenthesis.
    Group(Vec<Statement>, Landmark),
}

/// A class in a declaration.
#[derive(Clone, Debug)]
pub enum Class {
    /// A class by name.
    Name(String, Landmark),
    /// `{ ... }`.
    Compound(Compound),
    /// No class; the error has been reported.
    Missing,
}

/// `{ ... || ... || ... }`.
#[derive(Clone, Debug)]
pub struct Compound {
    /// Its overloaded definitions in order.
    pub bodies: Vec<Body>,
    /// Place of a closing `...`, which adds the class's earlier definitions.
    pub extends: Option<Landmark>,
}

/// One definition of a compound element.
#[derive(Clone, Debug)]
pub struct Body {
    /// `$a, KEYWORD $b, __REST__ $c |`.
    pub formals: Vec<Formal>,
    /// Its contents.
    pub statements: Vec<Statement>,
    /// The place of its beginning.
    pub at: Landmark,
}

/// A parameter of a compound element.
#[derive(Clone, Debug)]
pub struct Formal {
    /// Empty for a positional parameter.
    pub keyword: String,
    /// The variable, without dollar sign.
    pub variable: String,
    /// Its place.
    pub at: Landmark,
}

/// A port list.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// The ports that are written down.
    pub list: Vec<u32>,
    /// Whether the list may continue with the following ports (`[]`, `[0-]`).
    pub expandable: bool,
}

impl Ports {
    /// Whether there is no port list.
    pub fn is_absent(&self) -> bool {
        self.list.is_empty() && !self.expandable
    }
}
