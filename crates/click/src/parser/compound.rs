//! `elementclass` and the text between braces.

use super::{Block, Parser};
use crate::ast::{Body, Class, Compound, Formal, Statement};
use crate::lexer::{Kind, Lexer, Token};

impl Parser {
    pub(super) fn element_class(&mut self) -> Option<Statement> {
        let token = self.next();
        let (name, at) = match token.kind {
            Kind::Identifier => (token.text, token.at),
            _ => {
                let at = token.at.clone();
                self.error(&at, "expected element type name");
                self.unread(token);
                (String::new(), at)
            }
        };
        let token = self.next();
        let class = match token.kind {
            Kind::Char('{') => Some(Class::Compound(self.compound())),
            Kind::Identifier => Some(Class::Name(token.text, token.at)),
            _ => {
                self.syntax_error(&token);
                self.unread_unless_stuck(token);
                None
            }
        };
        (!name.is_empty()).then_some(Statement::ElementClass { name, class, at })
    }

    /// Reads a compound after its `{`.
    pub(super) fn compound(&mut self) -> Compound {
        let mut compound = Compound { bodies: Vec::new(), extends: None };
        loop {
            self.peek();
            let at = self.here();
            if self.accept(Kind::Dots) {
                if compound.bodies.is_empty() || self.peek() != Kind::Char('}') {
                    self.error(&at, "'...' should occur last, after one or more compounds");
                }
                compound.extends = Some(at.clone());
                if matches!(self.peek(), Kind::Char('}')) {
                    self.next();
                    return compound;
                }
            }
            let end = self.nested(&at, |parser| {
                let formals = parser.formals();
                let (statements, end) = parser.statements(Block::Compound);
                (formals, statements, end)
            });
            let Some((formals, statements, end)) = end else {
                return compound;
            };
            compound.bodies.push(Body { formals, statements, at });
            if end.kind != Kind::Bars {
                return compound;
            }
        }
    }

    /// Reads `$a, KEYWORD $b |`, if a compound begins with it.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals: Vec<Formal> = Vec::new();
        loop {
            let before = self.lexer_state();
            let token = self.next();
            let (keyword, variable) = match token.kind {
                Kind::Char('|') => return formals,
                Kind::Variable => (String::new(), token),
                Kind::Identifier => {
                    let variable = self.next();
                    if variable.kind != Kind::Variable {
                        if !formals.is_empty() {
                            self.error(&variable.at, "expected variable");
                        }
                        self.restore(before);
                        return formals;
                    }
                    (token.text, variable)
                }
                _ => {
                    if !formals.is_empty() {
                        self.error(&token.at, "expected variable");
                    }
                    self.unread(token);
                    return formals;
                }
            };
            formals.push(Formal { keyword, variable: variable.text, at: variable.at });
            let token = self.next();
            match token.kind {
                Kind::Char('|') => return formals,
                Kind::Char(',') => {}
                _ => {
                    self.error(&token.at, "expected ',' or '|'");
                    self.unread(token);
                    return formals;
                }
            }
        }
    }

    fn lexer_state(&mut self) -> (Lexer, Option<Token>) {
        (self.lexer.clone(), self.peeked.clone())
    }

    fn restore(&mut self, (lexer, peeked): (Lexer, Option<Token>)) {
        self.lexer = lexer;
        self.peeked = peeked;
    }
}
