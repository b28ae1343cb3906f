//! Positions in a configuration: sources, spans and landmarks.

use std::fmt;
use std::sync::Arc;

use miette::NamedSource;

/// One configuration text with its name for errors.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    named: NamedSource<Arc<str>>,
}

impl Source {
    /// Wraps `text`, called `name`; an empty name becomes `config`, as in Click.
    pub fn new(name: &str, text: &str) -> Arc<Source> {
        let name = if name.is_empty() { "config" } else { name };
        Arc::new(Source { name: Arc::from(name), named: NamedSource::new(name, Arc::from(text)) })
    }

    /// The name of the source in errors.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        self.named.inner()
    }

    pub(crate) fn named(&self) -> &NamedSource<Arc<str>> {
        &self.named
    }
}

/// A range of bytes in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` to before `end`.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end: end.max(start) }
    }

    /// The smallest span that contains both.
    pub fn join(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }
}

/// A place in a configuration.
///
/// A place in a source. `file` and `line` follow line directives (`# 12 "file"`); `span` counts
/// bytes of the real text.
#[derive(Clone, Debug)]
pub struct Landmark {
    /// The text that was read.
    pub source: Arc<Source>,
    /// File name as users see it.
    pub file: Arc<str>,
    /// Line, counted from 1.
    pub line: u32,
    /// The bytes of `source`.
    pub span: Span,
}

impl Landmark {
    /// Column of the first character, counted from 1 in characters.
    pub fn column(&self) -> usize {
        let text = self.source.text();
        let before = text.get(..self.span.start).unwrap_or(text);
        1 + before.chars().rev().take_while(|c| !matches!(c, '\n' | '\r')).count()
    }

    /// The same place with another span.
    pub fn with_span(&self, span: Span) -> Landmark {
        Landmark { span, ..self.clone() }
    }

    /// Whether a line directive has changed the file name of this place.
    pub fn is_renamed(&self) -> bool {
        self.file != *self.source.name()
    }
}

/// `file:line`, the way Click prints it.
impl fmt::Display for Landmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let glue = self.file.ends_with(|c: char| c == ':' || c.is_ascii_whitespace());
        write!(f, "{}{}{}", self.file, if glue { "" } else { ":" }, self.line)
    }
}
