//! All mistakes of a configuration, in order.

use std::fmt;

use miette::LabeledSpan;

use crate::source::Landmark;

/// Most diagnostics kept for one configuration; further ones are only counted.
const KEPT: usize = 500;

/// Most bytes of a line before a place for which the line is shown. The drawing library panics at
/// 65,535 columns from the left, and a tab takes four columns.
const FAR: usize = 10_000;

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// The configuration runs, but may not work as intended.
    Warning,
}

/// A further place that a diagnostic names.
#[derive(Clone, Debug)]
pub struct Note {
    /// The place.
    pub at: Landmark,
    /// The message.
    pub message: String,
    /// Whether Click prints it as a separate line.
    pub line: bool,
}

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The mistake, in Click's words if Click reports it.
    pub message: String,
    /// The place of the mistake, if it has one.
    pub at: Option<Landmark>,
    /// Further places.
    pub notes: Vec<Note>,
    /// A remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `at`.
    pub fn error(at: &Landmark, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            at: Some(at.clone()),
            notes: Vec::new(),
            help: None,
        }
    }

    /// An error that has no place.
    pub fn global(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            at: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at `at`.
    pub fn warning(at: &Landmark, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(at, message) }
    }

    /// Adds another place that Click names too, in a separate line.
    pub fn note(self, at: &Landmark, message: impl Into<String>) -> Diagnostic {
        self.add(at, message.into(), true)
    }

    /// Adds another place that is only underlined.
    pub fn label(self, at: &Landmark, message: impl Into<String>) -> Diagnostic {
        self.add(at, message.into(), false)
    }

    /// The place, if it can be shown in its line together with the notes.
    fn shown(&self) -> Option<&Landmark> {
        let near = |at: &Landmark| {
            [at.span.start, at.span.end].into_iter().all(|place| {
                let text = at.source.text();
                let before = text.get(..place).unwrap_or(text);
                before.len() - before.rfind('\n').map_or(0, |end| end + 1) <= FAR
            })
        };
        let at = self.at.as_ref()?;
        (near(at) && self.notes.iter().all(|note| near(&note.at))).then_some(at)
    }

    fn add(mut self, at: &Landmark, message: String, line: bool) -> Diagnostic {
        self.notes.push(Note { at: at.clone(), message, line });
        self
    }

    /// Adds a help line, if there is one.
    pub fn help(mut self, help: impl Into<Option<String>>) -> Diagnostic {
        self.help = help.into();
        self
    }
}

/// The message alone.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

fn label(at: &Landmark, text: Option<String>, primary: bool) -> LabeledSpan {
    // An underline of at least one character, even at the end of the text.
    let length = at.span.end.saturating_sub(at.span.start).max(1);
    let start = at.span.start.min(at.source.text().len());
    let length = length.min(at.source.text().len() - start);
    if primary {
        LabeledSpan::new_primary_with_span(text, (start, length))
    } else {
        LabeledSpan::new_with_span(text, (start, length))
    }
}

impl miette::Diagnostic for Diagnostic {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match (&self.at, self.shown()) {
            (Some(at), None) => {
                let help = self.help.iter().map(String::as_str);
                let place = format!("it is in a long line, {at}");
                Some(Box::new(help.chain([place.as_str()]).collect::<Vec<_>>().join("\n")))
            }
            _ => Some(Box::new(self.help.as_ref()?)),
        }
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(self.shown()?.source.named())
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let at = self.shown()?;
        let renamed = at.is_renamed().then(|| at.to_string());
        // miette can underline only one source at a time.
        let notes = self
            .notes
            .iter()
            .filter(|note| std::sync::Arc::ptr_eq(&note.at.source, &at.source))
            .map(|note| label(&note.at, Some(note.message.clone()), false));
        Some(Box::new(std::iter::once(label(at, renamed, true)).chain(notes)))
    }
}

/// All errors and warnings of one configuration, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    omitted: usize,
    errors: usize,
    of_ports: bool,
}

impl Diagnostics {
    /// Records that the text is valid, but its elements are connected wrongly.
    pub(crate) fn concern_ports(&mut self) {
        self.of_ports = true;
    }

    /// Whether the mistakes concern ports: Click finds these only when it makes the router.
    pub fn are_of_ports(&self) -> bool {
        self.of_ports
    }

    /// Adds a diagnostic; beyond 500, errors are counted but not kept.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
        }
        if self.list.len() < KEPT {
            self.list.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds an error that has only a place and a message.
    pub fn error(&mut self, at: &Landmark, message: impl Into<String>) {
        self.push(Diagnostic::error(at, message));
    }

    /// How many errors there are, kept or not.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Whether anything is an error.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The kept diagnostics.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Appends the diagnostics of `other`.
    pub fn append(&mut self, other: Diagnostics) {
        self.errors += other.errors;
        self.omitted += other.omitted;
        for diagnostic in other.list {
            if self.list.len() < KEPT {
                self.list.push(diagnostic);
            } else {
                self.omitted += 1;
            }
        }
    }

    /// One line an error, `file:line: message`, as the `click` program prints them.
    pub fn plain(&self) -> Plain<'_> {
        Plain(self)
    }

    /// Sorts by place. Mistakes in other sources or without a place come last, in their former
    /// order.
    pub(crate) fn sort_by_place(&mut self) {
        let first = self.list.iter().find_map(|d| d.at.clone());
        let Some(first) = first else { return };
        self.list.sort_by_key(|d| match &d.at {
            Some(at) if std::sync::Arc::ptr_eq(&at.source, &first.source) => at.span.start,
            _ => usize::MAX,
        });
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        let mut all = Diagnostics::default();
        all.push(diagnostic);
        all
    }
}

/// A one-line summary.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, what) = match (self.errors, self.list.len()) {
            (0, n) => (n, "warning"),
            (n, _) => (n, "error"),
        };
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} {what}{plural} in the configuration")
    }
}

impl std::error::Error for Diagnostics {}

impl miette::Diagnostic for Diagnostics {
    fn severity(&self) -> Option<miette::Severity> {
        Some(if self.errors > 0 { miette::Severity::Error } else { miette::Severity::Warning })
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|d| d as &dyn miette::Diagnostic)))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (self.omitted > 0).then(|| {
            Box::new(format!("{} more are not shown", self.omitted)) as Box<dyn fmt::Display>
        })
    }
}

/// See [`Diagnostics::plain`].
#[derive(Debug)]
pub struct Plain<'a>(&'a Diagnostics);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.0.list {
            if let Some(at) = &diagnostic.at {
                write!(f, "{at}: ")?;
            }
            if diagnostic.severity == Severity::Warning {
                f.write_str("warning: ")?;
            }
            writeln!(f, "{}", diagnostic.message)?;
            for note in diagnostic.notes.iter().filter(|note| note.line) {
                writeln!(f, "{}: {}", note.at, note.message)?;
            }
        }
        if self.0.omitted > 0 {
            writeln!(f, "{} more errors are not shown", self.0.omitted)?;
        }
        Ok(())
    }
}
