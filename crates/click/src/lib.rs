//! The Click language: lexer, parser, flattener and checked graph.
//!
//! The front end reads configurations for user-level Click (the language of `click(5)`). It returns
//! a flat [`Graph`] in which every element, port and connection has been checked, or all
//! [`Diagnostics`]. It does no I/O and panics on no input. Limits prevent a small hostile text from
//! using much memory.
//!
//! ```
//! use europa_click::{ClassTable, Shape, compile};
//!
//! let mut classes = ClassTable::new();
//! classes.insert("Source", Shape::new("0/1", "h/h", "x/y"));
//! classes.insert("Sink", Shape::new("1/0", "h/h", "x/y"));
//! let graph = compile("Source(LIMIT 5) -> sink :: Sink;", "example", &classes)?;
//! assert_eq!(graph.to_string(), "\
//! Source@1 :: Source(LIMIT 5);
//! sink :: Sink;
//!
//! Source@1 -> sink;
//! ");
//! # Ok::<(), europa_click::Diagnostics>(())
//! ```
//!
//! The stages: `lexer` → `parser` → [`Ast`] → `resolve` (names) → `expand` (compounds, variables) →
//! `check` (ports, push and pull) → [`Graph`].

mod archive;
pub mod ast;
mod check;
mod classes;
mod codes;
mod connect;
mod definition;
mod diagnostic;
mod environment;
mod expand;
mod graph;
mod integer;
mod lexer;
mod parser;
mod quote;
mod resolve;
mod source;
mod text;
mod unparse;

pub use archive::configuration_text;
pub use ast::Ast;
pub use classes::{ClassTable, ElementClasses, Shape};
pub use codes::{Flow, Processing};
pub use diagnostic::{Diagnostic, Diagnostics, Note, Plain, Severity};
pub use graph::{Connection, Element, ElementId, Graph, Port, Requirement};
pub use lexer::Config;
pub use quote::{quote, unquote, unquote_strictly, unquote_text};
pub use resolve::LibraryLoader;
pub use source::{Landmark, Source, Span};
pub use text::{Argument, join_arguments, split_arguments, split_words};

/// The surroundings of a configuration.
#[derive(Default)]
pub struct Options<'a> {
    /// Variables of the command line; they override the file's `define`s.
    pub defines: Vec<(String, String)>,
    /// Finds libraries for `require(library x)`; without it every library is missing.
    pub library: Option<&'a LibraryLoader<'a>>,
}

/// Parses a configuration called `file`.
///
/// # Errors
/// Every syntax error.
pub fn parse(source: &str, file: &str) -> Result<Ast, Diagnostics> {
    let (ast, errors) = parser::parse_source(&Source::new(file, source));
    if errors.has_errors() { Err(errors) } else { Ok(ast) }
}

/// Expands the compounds of a parsed configuration and checks the result.
///
/// # Errors
/// All errors of the first step that fails: names and compounds, then port numbers, then push and
/// pull, reused and unused ports.
pub fn flatten(
    ast: &Ast,
    classes: &dyn ElementClasses,
    options: &Options<'_>,
) -> Result<Graph, Diagnostics> {
    flatten_after(ast, classes, options, Diagnostics::default())
}

/// Calls [`parse`] and [`flatten`]. Wrong names are reported together with syntax errors.
///
/// # Errors
/// As of the two.
pub fn compile(
    source: &str,
    file: &str,
    classes: &dyn ElementClasses,
) -> Result<Graph, Diagnostics> {
    compile_with(source, file, classes, &Options::default())
}

/// [`compile`] with options.
///
/// # Errors
/// As of [`compile`].
pub fn compile_with(
    source: &str,
    file: &str,
    classes: &dyn ElementClasses,
    options: &Options<'_>,
) -> Result<Graph, Diagnostics> {
    let (ast, errors) = parser::parse_source(&Source::new(file, source));
    flatten_after(&ast, classes, options, errors)
}

fn flatten_after(
    ast: &Ast,
    classes: &dyn ElementClasses,
    options: &Options<'_>,
    mut errors: Diagnostics,
) -> Result<Graph, Diagnostics> {
    let program = resolve::resolve(ast, classes, options.library, &mut errors);
    errors.sort_by_place();
    let expanded = expand::expand(&program, &options.defines, &mut errors);
    if errors.has_errors() {
        return Err(errors);
    }
    let mut graph = check::check(expanded, classes, &mut errors);
    if errors.has_errors() {
        errors.concern_ports();
        return Err(errors);
    }
    graph.requirements = program.requirements;
    graph.provisions = program.provisions;
    graph.warnings = program.warnings;
    Ok(graph)
}
