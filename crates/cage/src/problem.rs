//! A program's mistakes, with place and remedy.

use std::fmt;

/// A place in the author's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file as clang names it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1; 0 if not known.
    pub column: u32,
    /// The line's text, if the object has it.
    pub text: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line that causes it, if the object was compiled with `-g`.
    pub place: Option<Box<Place>>,
    /// The function it is in, if known.
    pub function: Option<String>,
    /// The mistake, and the wanted form.
    pub what: String,
    /// The remedy; empty if there is nothing to add.
    pub remedy: String,
}

impl Problem {
    /// A mistake without a known place.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem { place: None, function: None, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, &self.function) {
            (Some(place), _) => write!(f, "{place}: {}", self.what)?,
            (None, Some(function)) => write!(f, "function '{function}': {}", self.what)?,
            (None, None) => write!(f, "{}", self.what)?,
        }
        if let Some(place) = self.place.as_ref().filter(|place| !place.text.trim().is_empty()) {
            write!(f, "\n    {}", place.text.trim())?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  help: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// All mistakes of an object or program; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}
