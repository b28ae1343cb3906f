//! Turns tokens into statements, and continues after errors so that all are found.

use std::sync::Arc;

mod compound;
mod port;

use crate::ast::{Arrow, Ast, Class, Node, Ports, Stage, Statement, Target};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::lexer::{Config, Kind, Lexer, Token};
use crate::source::{Landmark, Source, Span};

/// Deepest nesting of compounds and groups, as in Click.
const MAX_DEPTH: usize = 50;
/// The scope of the statements being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    File,
    Compound,
    Group,
}

struct Parser {
    lexer: Lexer,
    peeked: Option<Token>,
    /// End of the last consumed token.
    taken: usize,
    errors: Diagnostics,
    warnings: Diagnostics,
    depth: usize,
    listed_ports: usize,
}

/// Parses the text; returns errors together with the tree.
pub(crate) fn parse_source(source: &Arc<Source>) -> (Ast, Diagnostics) {
    let mut parser = Parser {
        lexer: Lexer::new(source),
        peeked: None,
        taken: 0,
        errors: Diagnostics::default(),
        warnings: Diagnostics::default(),
        depth: 0,
        listed_ports: 0,
    };
    let (statements, _) = parser.statements(Block::File);
    let ast = Ast { source: source.clone(), statements, warnings: parser.warnings };
    (ast, parser.errors)
}

impl Parser {
    fn next(&mut self) -> Token {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.lexer.next(&mut self.errors),
        };
        self.taken = token.at.span.end;
        token
    }

    fn peek(&mut self) -> Kind {
        let taken = self.taken;
        let token = self.next();
        let kind = token.kind;
        self.unread(token);
        self.taken = taken;
        kind
    }

    fn unread(&mut self, token: Token) {
        self.peeked = Some(token);
    }

    fn here(&mut self) -> Landmark {
        match &self.peeked {
            Some(token) => token.at.clone(),
            None => self.lexer.here(),
        }
    }

    fn error(&mut self, at: &Landmark, message: impl Into<String>) {
        self.errors.error(at, message);
    }

    fn syntax_error(&mut self, token: &Token) {
        let near = match token.kind {
            Kind::End => "end of file".to_owned(),
            _ => format!("'{}'", token.text),
        };
        self.error(&token.at, format!("syntax error near {near}"));
    }

    fn accept(&mut self, kind: Kind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, kind: Kind) -> bool {
        let found = self.accept(kind);
        if !found {
            let at = self.here();
            self.error(&at, format!("expected {}", kind.name()));
        }
        found
    }

    /// Reads `config)` after `(`.
    fn config(&mut self) -> Config {
        let open = self.lexer.here();
        let config = self.lexer.config(&mut self.errors);
        if !self.accept(Kind::Char(')')) {
            // The rest of the file was read as arguments: the place of the unclosed parenthesis is
            // more useful than the end.
            let start = open.span.start.saturating_sub(1);
            let first = open.source.text().get(start..).unwrap_or_default();
            let line = first.find(['\n', '\r']).unwrap_or(first.len());
            let at = open.with_span(Span::new(start, start + line));
            self.errors.push(
                Diagnostic::error(&at, "expected ')'")
                    .help("this parenthesis is never closed".to_owned()),
            );
        }
        config
    }

    /// Reads statements to the end of the block. Returns the token that ended it.
    fn statements(&mut self, block: Block) -> (Vec<Statement>, Token) {
        let mut statements = Vec::new();
        // Whether a chain that starts with an arrow cannot be the continuation of the previous one.
        let mut clear_start = true;
        loop {
            match self.peek() {
                Kind::Identifier | Kind::Arrow | Kind::ManyArrow | Kind::Char('[' | '{' | '(') => {
                    let stages = self.connection(block, clear_start);
                    clear_start = ends_with_output(&stages);
                    if !stages.is_empty() {
                        statements.push(Statement::Connection(stages));
                    }
                    continue;
                }
                _ => {}
            }
            let token = self.next();
            match token.kind {
                Kind::ElementClass => statements.extend(self.element_class()),
                Kind::Require => {
                    if self.expect(Kind::Char('(')) {
                        statements.push(Statement::Require(self.config()));
                        self.accept(Kind::Char(';'));
                    }
                }
                Kind::Provide => {
                    if self.expect(Kind::Char('(')) {
                        statements.push(Statement::Provide(self.config()));
                    }
                }
                Kind::Define => {
                    if self.expect(Kind::Char('(')) {
                        statements.push(Statement::Define(self.config()));
                    }
                }
                Kind::Char(';') => {}
                Kind::Char('}') | Kind::Bars if block == Block::Compound => {
                    return (statements, token);
                }
                Kind::Char(')') if block == Block::Group => return (statements, token),
                Kind::Char('}') | Kind::Bars if block == Block::Group => {
                    self.syntax_error(&token);
                    self.unread(token.clone());
                    return (statements, token);
                }
                Kind::End => {
                    match block {
                        Block::File => {}
                        Block::Compound => self.error(&token.at, "expected '}'"),
                        Block::Group => self.error(&token.at, "expected ')'"),
                    }
                    self.unread(token.clone());
                    return (statements, token);
                }
                _ => self.syntax_error(&token),
            }
        }
    }

    fn connection(&mut self, block: Block, clear_start: bool) -> Vec<Stage> {
        let mut stages: Vec<Stage> = Vec::new();
        let mut arrow = None;
        while let Some(stage) = self.stage(block, arrow, stages.is_empty(), clear_start) {
            let followed = stage.followed;
            stages.push(stage);
            if !followed {
                self.connection_end();
                break;
            }
            arrow = Some(match self.next().kind {
                Kind::ManyArrow => Arrow::Many,
                _ => Arrow::One,
            });
        }
        stages
    }

    /// Consumes the `;` of a connection, or stops before a token that may follow without it.
    fn connection_end(&mut self) {
        let token = self.next();
        match token.kind {
            Kind::Char(';') => {}
            Kind::Identifier
            | Kind::Char('{' | '}' | '[' | ')')
            | Kind::Bars
            | Kind::ElementClass
            | Kind::Require
            | Kind::Provide
            | Kind::Define
            | Kind::End => self.unread(token),
            Kind::Char(_) => self.syntax_error(&token),
            _ => {
                self.syntax_error(&token);
                self.unread_unless_stuck(token);
            }
        }
    }

    /// These tokens cannot start a statement; reading them again would report them twice.
    fn unread_unless_stuck(&mut self, token: Token) {
        if !matches!(token.kind, Kind::Colons | Kind::Dots | Kind::Variable) {
            self.unread(token);
        }
    }

    fn stage(
        &mut self,
        block: Block,
        arrow: Option<Arrow>,
        first: bool,
        clear_start: bool,
    ) -> Option<Stage> {
        self.peek();
        let mut at = self.here();
        let mut nodes: Vec<Node> = Vec::new();
        while let Some(node) = self.node(block, first, nodes.len(), clear_start) {
            at.span = at.span.join(Span::new(node.at.span.start, self.taken));
            nodes.push(node);
            if !self.accept(Kind::Char(',')) {
                break;
            }
        }
        if nodes.is_empty() {
            return None;
        }
        let followed = matches!(self.peek(), Kind::Arrow | Kind::ManyArrow);
        let implicit =
            |node: &Node| matches!(node.target, Target::ImplicitInput | Target::ImplicitOutput);
        if followed && !first && nodes.iter().any(implicit) {
            let here = self.here();
            self.error(&here, "implicit ports used in the middle of a chain");
        }
        Some(Stage { arrow, nodes, at, followed })
    }

    /// Reads `[ports] element :: Class (config) [ports]`.
    fn node(&mut self, block: Block, first: bool, index: usize, clear_start: bool) -> Option<Node> {
        let mut inputs = self.ports();
        let token = self.next();
        let at = token.at.clone();
        let target = match token.kind {
            Kind::Identifier => Target::Name(token.text),
            Kind::Char('{') => Target::Compound(self.compound()),
            Kind::Char('(') => {
                let (statements, end) =
                    self.nested(&at, |parser| parser.statements(Block::Group))?;
                Target::Group(statements, end.at)
            }
            _ => {
                let has_ports = !inputs.is_absent();
                let nested = block != Block::File;
                let alone = has_ports || index == 0;
                let implicit = nested
                    && match token.kind {
                        Kind::Arrow | Kind::ManyArrow => first && alone,
                        Kind::Char(',') => has_ports,
                        Kind::Colons => false,
                        _ => !first && alone,
                    };
                if !implicit {
                    return self.no_node(token, nested && first, index, has_ports);
                }
                if first && !has_ports && !clear_start && token.kind != Kind::Char(',') {
                    let arrow = token.text.clone();
                    self.warnings.push(Diagnostic::warning(
                        &token.at,
                        format!("suggest 'input {arrow}' or '[0] {arrow}' to start connection"),
                    ));
                }
                self.unread(token);
                let (target, inputs, outputs) = if first {
                    (Target::ImplicitInput, Ports::default(), std::mem::take(&mut inputs))
                } else {
                    (Target::ImplicitOutput, std::mem::take(&mut inputs), Ports::default())
                };
                return Some(Node { inputs, target, class: None, config: None, outputs, at });
            }
        };
        let class = self.accept(Kind::Colons).then(|| self.declared_class());
        let config = self.accept(Kind::Char('(')).then(|| self.config());
        let outputs = self.ports();
        Some(Node { inputs, target, class, config, outputs, at })
    }

    /// Reports a missing element.
    fn no_node(&mut self, token: Token, opens: bool, index: usize, ports: bool) -> Option<Node> {
        if ports {
            self.error(&token.at, "stranded port ignored");
        }
        match token.kind {
            // A comma may end a list.
            Kind::Char(';') if index > 0 => self.unread(token),
            Kind::End => {
                self.syntax_error(&token);
                self.unread(token);
            }
            // An arrow that starts the chain is consumed, unless the chain would start with it
            // again.
            _ if opens && index == 0 && !matches!(token.kind, Kind::Arrow | Kind::ManyArrow) => {
                self.unread(token);
            }
            Kind::Char(')' | '}') | Kind::Bars => {
                self.syntax_error(&token);
                self.unread(token);
            }
            _ => self.syntax_error(&token),
        }
        None
    }

    /// Reads the class after `::`.
    fn declared_class(&mut self) -> Class {
        let token = self.next();
        match token.kind {
            Kind::Identifier => Class::Name(token.text, token.at),
            Kind::Char('{') => Class::Compound(self.compound()),
            _ => {
                self.error(&token.at, "missing element type in declaration");
                self.unread(token);
                Class::Missing
            }
        }
    }

    /// Runs `inner` one level deeper, unless that exceeds the limit.
    fn nested<T>(&mut self, at: &Landmark, inner: impl FnOnce(&mut Parser) -> T) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            self.error(at, "maximum compound element nesting depth exceeded");
            self.skip_rest();
            return None;
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        Some(result)
    }

    /// Skips the rest of the file: text that is nested too deeply cannot be parsed.
    fn skip_rest(&mut self) {
        while self.next().kind != Kind::End {}
    }
}

/// Whether a connection ends in a single `output`.
fn ends_with_output(stages: &[Stage]) -> bool {
    let Some(stage) = stages.last() else {
        return false;
    };
    match stage.nodes.as_slice() {
        [node] => match &node.target {
            Target::ImplicitOutput => true,
            Target::Name(name) => name == "output",
            _ => false,
        },
        _ => false,
    }
}
