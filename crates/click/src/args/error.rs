//! What can be wrong with arguments.

use std::fmt;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::graph::Element;
use crate::source::Span;

/// Why a reader does not take a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadArg {
    /// It is not of the form that is wanted.
    Malformed,
    /// It is a number beyond this bound.
    OutOfRange(String),
    /// Another reason.
    Refused(String),
}

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A mandatory argument is not there.
    Missing {
        /// What would be there.
        wanted: String,
    },
    /// No parameter has that keyword.
    Unknown,
    /// More positional arguments than parameters.
    TooMany,
    /// Not of the form that is wanted.
    Malformed {
        /// What is there.
        found: String,
        /// What would be right.
        wanted: String,
    },
    /// Beyond the smallest or largest value.
    OutOfRange {
        /// What is there.
        found: String,
        /// The nearest value that would do.
        bound: String,
    },
    /// Another reason.
    Refused(String),
}

impl Problem {
    pub(super) fn from_bad(bad: BadArg, found: &str, wanted: &str) -> Problem {
        let found = shorten(found);
        match bad {
            BadArg::Malformed => Problem::Malformed { found, wanted: wanted.to_owned() },
            BadArg::OutOfRange(bound) => Problem::OutOfRange { found, bound },
            BadArg::Refused(reason) => Problem::Refused(reason),
        }
    }
}

/// Keeps an error on one line.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}…")
}

/// One wrong argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    /// The parameter; empty if the argument belongs to none.
    pub name: String,
    /// What is wrong.
    pub problem: Problem,
    /// Where in the configuration string.
    pub span: Span,
}

impl ArgError {
    /// The message word for word as Click has it.
    pub fn click_message(&self) -> String {
        let name = &self.name;
        match &self.problem {
            Problem::Missing { .. } => format!("{name}: required argument missing"),
            Problem::Unknown => format!("{name}: unknown argument"),
            Problem::TooMany => "too many arguments".to_owned(),
            Problem::Malformed { .. } => format!("{name}: parse error"),
            Problem::OutOfRange { bound, .. } if bound.is_empty() => {
                format!("{name}: out of range")
            }
            Problem::OutOfRange { bound, .. } => format!("{name}: out of range, bound {bound}"),
            Problem::Refused(reason) if name.is_empty() => reason.clone(),
            Problem::Refused(reason) => format!("{name}: {reason}"),
        }
    }
}

/// Click's message and, where Click says less, what was found and wanted.
impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.click_message())?;
        match &self.problem {
            Problem::Missing { wanted } => write!(f, ": wanted {wanted}"),
            Problem::Malformed { found, wanted } => {
                write!(f, ": found '{found}', wanted {wanted}")
            }
            Problem::OutOfRange { found, .. } => write!(f, ", found '{found}'"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ArgError {}

/// All wrong arguments of one element; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgErrors(Vec<ArgError>);

impl ArgErrors {
    pub(super) fn check(errors: Vec<ArgError>) -> Result<(), ArgErrors> {
        if errors.is_empty() { Ok(()) } else { Err(ArgErrors(errors)) }
    }

    /// The errors in order.
    pub fn iter(&self) -> std::slice::Iter<'_, ArgError> {
        self.0.iter()
    }

    /// The errors with their places in the configuration.
    pub fn diagnostics(&self, element: &Element) -> Diagnostics {
        let mut all = Diagnostics::default();
        for error in &self.0 {
            let place = element.config_span(error.span);
            let message = format!("While configuring '{element}':\n  {error}");
            all.push(Diagnostic::error(&place, message));
        }
        all
    }
}

impl From<ArgError> for ArgErrors {
    fn from(error: ArgError) -> ArgErrors {
        ArgErrors(vec![error])
    }
}

/// One line an error.
impl fmt::Display for ArgErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ArgErrors {}
