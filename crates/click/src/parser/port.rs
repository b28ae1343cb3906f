//! Port lists: `[1]`, `[0, 2-4]`, `[]`.

use super::Parser;
use crate::ast::Ports;
use crate::lexer::{Kind, Token};

/// Largest port number, and most ports that one file may list. Only in port lists can a short text
/// require much memory.
const MAX_PORT: u32 = 0xffff;
const MAX_LISTED_PORTS: usize = 1 << 20;

impl Parser {
    /// Reads a list like `[0, 2-4]`, if there is one.
    pub(super) fn ports(&mut self) -> Ports {
        let mut ports = Ports::default();
        if !self.accept(Kind::Char('[')) {
            return ports;
        }
        let (mut last, mut dash) = (None, false);
        loop {
            let token = self.next();
            match token.kind {
                Kind::Identifier => {
                    let port = self.port_number(&token);
                    let from = match last {
                        Some(last) if dash => last + 1,
                        _ => port,
                    };
                    self.listed_ports += (port + 1).saturating_sub(from) as usize;
                    if self.listed_ports > MAX_LISTED_PORTS {
                        self.error(&token.at, "too many ports listed");
                        return ports;
                    }
                    ports.list.extend(from..=port);
                    last = Some(port);
                }
                Kind::Char(']') => {
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.expandable = true;
                    return ports;
                }
                _ => {
                    self.error(&token.at, "syntax error: expected port number");
                    self.unread(token);
                    self.skip_ports();
                    return ports;
                }
            }
            let token = self.next();
            match token.kind {
                Kind::Char(']') => return ports,
                Kind::Char('-') if !dash => dash = true,
                Kind::Char(',') => dash = false,
                _ => {
                    self.error(&token.at, "syntax error: expected ','");
                    self.unread(token);
                }
            }
        }
    }

    /// Skips to the end of an invalid port list.
    fn skip_ports(&mut self) {
        while !self.accept(Kind::Char(']')) {
            match self.peek() {
                Kind::Identifier | Kind::Variable => {}
                Kind::Char(c) if !matches!(c, ';' | '(' | ')' | '[' | '{' | '}') => {}
                _ => return,
            }
            self.next();
        }
    }

    fn port_number(&mut self, token: &Token) -> u32 {
        match crate::integer::parse_integer(&token.text) {
            Some(port) if port <= u64::from(MAX_PORT) => port as u32,
            Some(_) => {
                self.error(&token.at, format!("port number out of range, bound {MAX_PORT}"));
                0
            }
            None => {
                self.error(&token.at, "syntax error: port number should be integer");
                0
            }
        }
    }
}
