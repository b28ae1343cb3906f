//! Turns characters into tokens. Configuration strings are a token of their own kind, which is read
//! only where the parser asks for one.

use std::sync::Arc;

use crate::diagnostic::Diagnostics;
use crate::quote::unquote_text;
use crate::source::{Landmark, Source, Span};
use crate::text::{is_space, skip_comment, skip_data, skip_quote};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Identifier,
    Variable,
    Arrow,
    ManyArrow,
    Colons,
    Bars,
    Dots,
    ElementClass,
    Require,
    Provide,
    Define,
    Char(char),
    End,
}

impl Kind {
    /// Its name in errors.
    pub(crate) fn name(self) -> String {
        match self {
            Kind::Identifier => "identifier".to_owned(),
            Kind::Variable => "variable".to_owned(),
            Kind::Arrow => "'->'".to_owned(),
            Kind::ManyArrow => "'=>'".to_owned(),
            Kind::Colons => "'::'".to_owned(),
            Kind::Bars => "'||'".to_owned(),
            Kind::Dots => "'...'".to_owned(),
            Kind::ElementClass => "'elementclass'".to_owned(),
            Kind::Require => "'require'".to_owned(),
            Kind::Provide => "'provide'".to_owned(),
            Kind::Define => "'define'".to_owned(),
            Kind::Char(c) => format!("'{c}'"),
            Kind::End => "end of file".to_owned(),
        }
    }
}

/// A token; the `text` of a variable does not contain the dollar sign.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) at: Landmark,
}

/// A configuration string in the form of the source.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text between the parentheses, without line directives.
    pub text: String,
    /// The place of that text.
    pub at: Landmark,
    /// Whether the text at `at` is exactly `text`.
    pub verbatim: bool,
}

/// Reads tokens of one source.
#[derive(Clone, Debug)]
pub(crate) struct Lexer {
    source: Arc<Source>,
    file: Arc<str>,
    line: u32,
    position: usize,
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@')
}

impl Lexer {
    pub(crate) fn new(source: &Arc<Source>) -> Lexer {
        Lexer { source: source.clone(), file: source.name().clone(), line: 1, position: 0 }
    }

    /// The place of the next character.
    pub(crate) fn here(&self) -> Landmark {
        self.landmark(self.position, self.position)
    }

    fn landmark(&self, start: usize, end: usize) -> Landmark {
        Landmark {
            source: self.source.clone(),
            file: self.file.clone(),
            line: self.line,
            span: Span::new(start, end),
        }
    }

    fn byte(&self, index: usize) -> u8 {
        self.source.text().as_bytes().get(index).copied().unwrap_or(0)
    }

    /// Moves to `end` and counts lines: each `\n`, `\r` and `\r\n` ends a line.
    fn advance(&mut self, end: usize) {
        let source = self.source.clone();
        let bytes = source.text().as_bytes();
        while self.position < end.min(bytes.len()) {
            let byte = self.byte(self.position);
            let pair = byte == b'\r' && self.byte(self.position + 1) == b'\n';
            if byte == b'\n' || (byte == b'\r' && !pair) {
                self.line = self.line.saturating_add(1);
            }
            self.position += 1;
        }
    }

    fn at_line_start(&self, index: usize) -> bool {
        index == 0 || matches!(self.byte(index - 1), b'\n' | b'\r')
    }

    /// Handles `# 12 "file"` or `#line 12 "file"`; stops at the line's end.
    fn line_directive(&mut self, errors: &mut Diagnostics) {
        let source = self.source.clone();
        let text = source.text();
        let rest = text.get(self.position + 1..).unwrap_or_default();
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let end = self.position + 1 + length;
        let blank = |c| c == ' ' || c == '\t';
        let mut body = line.trim_start_matches(blank);
        if let Some(after) = body.strip_prefix("line")
            && after.starts_with(blank)
        {
            body = after.trim_start_matches(blank);
        }
        let digits = body.bytes().take_while(u8::is_ascii_digit).count();
        let (number, name) = body.split_at(digits);
        if number.is_empty() {
            let at = self.landmark(self.position, end);
            errors.error(&at, "unknown preprocessor directive");
        } else {
            // The end of the directive's own line adds one again.
            let number: u32 = number.parse().unwrap_or(u32::MAX);
            self.line = number.saturating_sub(1);
            let name = name.trim_start_matches(blank);
            if name.starts_with('"') {
                let quoted = name.get(..skip_quote(name.as_bytes(), 0)).unwrap_or(name);
                let name = unquote_text(quoted).unwrap_or_default();
                self.file =
                    if name.is_empty() { self.source.name().clone() } else { Arc::from(name) };
            }
        }
        self.position = end;
    }

    fn skip_blank(&mut self, errors: &mut Diagnostics) {
        let source = self.source.clone();
        let bytes = source.text().as_bytes();
        while self.position < bytes.len() {
            let byte = bytes[self.position];
            if is_space(byte) {
                self.advance(self.position + 1);
            } else if crate::text::comment_starts(bytes, self.position) {
                self.advance(skip_comment(bytes, self.position));
            } else if byte == b'#' && self.at_line_start(self.position) {
                self.line_directive(errors);
            } else {
                return;
            }
        }
    }

    /// The next token.
    pub(crate) fn next(&mut self, errors: &mut Diagnostics) -> Token {
        self.skip_blank(errors);
        let source = self.source.clone();
        let text = source.text();
        let start = self.position;
        let rest = text.get(start..).unwrap_or_default();
        let (kind, length) = match rest.chars().next() {
            None => (Kind::End, 0),
            Some(first) => scan(rest, first),
        };
        let end = start + length;
        let at = self.landmark(start, end);
        self.advance(end);
        let word = text.get(start..end).unwrap_or_default();
        let text = match kind {
            Kind::Variable => word.trim_start_matches('$'),
            _ => word,
        };
        Token { kind, text: text.to_owned(), at }
    }

    /// Reads the configuration string after a `(` that was just read; stops before the `)`.
    pub(crate) fn config(&mut self, errors: &mut Diagnostics) -> Config {
        let source = self.source.clone();
        let bytes = source.text().as_bytes();
        let start = self.position;
        let mut at = self.here();
        let mut text = String::new();
        let (mut piece, mut verbatim, mut depth) = (start, true, 1u32);
        while self.position < bytes.len() {
            let i = self.position;
            let next = match bytes[i] {
                b'(' => {
                    depth = depth.saturating_add(1);
                    i + 1
                }
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                    i + 1
                }
                b'#' if self.at_line_start(i) => {
                    text.push_str(source.text().get(piece..i).unwrap_or_default());
                    self.line_directive(errors);
                    piece = self.position;
                    verbatim = false;
                    continue;
                }
                b'\'' | b'"' => skip_quote(bytes, i),
                b'\\' if bytes.get(i + 1) == Some(&b'<') => skip_data(bytes, i),
                b'/' if crate::text::comment_starts(bytes, i) => skip_comment(bytes, i),
                _ => i + 1,
            };
            self.advance(next);
        }
        text.push_str(source.text().get(piece..self.position).unwrap_or_default());
        at.span = Span::new(start, self.position);
        Config { text, at, verbatim }
    }
}

/// Kind and length of the token that starts `rest`.
fn scan(rest: &str, first: char) -> (Kind, usize) {
    let bytes = rest.as_bytes();
    let byte = |i: usize| bytes.get(i).copied().unwrap_or(0);
    if word_byte(byte(0)) {
        let mut length = 1;
        while word_byte(byte(length)) || (byte(length) == b'/' && word_byte(byte(length + 1))) {
            length += 1;
        }
        let kind = match rest.get(..length) {
            Some("elementclass") => Kind::ElementClass,
            Some("require") => Kind::Require,
            Some("provide") => Kind::Provide,
            Some("define") => Kind::Define,
            _ => Kind::Identifier,
        };
        return (kind, length);
    }
    if first == '$' {
        let name =
            rest.bytes().skip(1).take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        if name > 0 {
            return (Kind::Variable, name + 1);
        }
    }
    for (word, kind) in [
        ("->", Kind::Arrow),
        ("=>", Kind::ManyArrow),
        ("::", Kind::Colons),
        ("||", Kind::Bars),
        ("...", Kind::Dots),
    ] {
        if rest.starts_with(word) {
            return (kind, word.len());
        }
    }
    (Kind::Char(first), first.len_utf8())
}
