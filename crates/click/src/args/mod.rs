//! Reading an element's arguments.
//!
//! ```
//! use europa_click::Args;
//!
//! let (mut capacity, mut verbose, mut limit) = (1000u32, false, None::<u64>);
//! Args::new("64, VERBOSE true")
//!     .optional("CAPACITY", &mut capacity)
//!     .keyword("VERBOSE", &mut verbose)
//!     .keyword("LIMIT", &mut limit)
//!     .complete()?;
//! assert_eq!((capacity, verbose, limit), (64, true, None));
//!
//! let wrong = Args::new("64k").optional("CAPACITY", &mut capacity).complete();
//! assert_eq!(
//!     wrong.unwrap_err().to_string(),
//!     "CAPACITY: parse error: found '64k', wanted an integer from 0 to 4294967295",
//! );
//! # Ok::<(), europa_click::ArgErrors>(())
//! ```

mod address;
mod error;
mod number;
mod units;
mod value;

pub use error::{ArgError, ArgErrors, BadArg, Problem};
pub(crate) use number::parse_integer;
pub use units::Bandwidth;
pub use value::{ElementName, FromArg};

use crate::source::Span;
use crate::text::{Argument, is_space, split_arguments};

/// What became of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Still there; so many bytes of it look like a keyword before a value.
    Free(usize),
    /// Read by its position.
    Position,
    /// Read by its keyword.
    Keyword,
}

struct Slot {
    argument: Argument,
    state: State,
}

/// Reads arguments one after the other, in Click's order: an argument without
/// keyword belongs to the next positional parameter; one that starts with a
/// parameter's keyword belongs to that parameter, wherever it stands, the last
/// such one winning. Errors are collected until [`Args::complete`]. A variable
/// keeps its value when its argument is absent or wrong.
#[must_use = "arguments are not checked before `complete`"]
pub struct Args {
    slots: Vec<Slot>,
    end: Span,
    errors: Vec<ArgError>,
}

impl Args {
    /// Splits a configuration string.
    pub fn new(config: &str) -> Args {
        let mut args = Args::from_arguments(split_arguments(config));
        args.end = Span::new(config.len(), config.len());
        args
    }

    /// Starts from arguments that are split already.
    pub fn from_arguments(arguments: impl IntoIterator<Item = Argument>) -> Args {
        let slot = |argument: Argument| Slot {
            state: State::Free(keyword_length(&argument.text)),
            argument,
        };
        let slots: Vec<Slot> = arguments.into_iter().map(slot).collect();
        let end = slots.last().map_or(0, |slot| slot.argument.span.end);
        Args { slots, end: Span::new(end, end), errors: Vec::new() }
    }

    /// Reads a mandatory positional argument, which may be given by keyword too.
    pub fn required<T: FromArg>(self, name: &str, out: &mut T) -> Args {
        self.required_with(name, T::wanted(), T::from_arg, out)
    }

    /// Reads an optional positional argument, which may be given by keyword too.
    pub fn optional<T: FromArg>(self, name: &str, out: &mut T) -> Args {
        self.optional_with(name, T::wanted(), T::from_arg, out)
    }

    /// Reads an optional keyword argument.
    pub fn keyword<T: FromArg>(self, name: &str, out: &mut T) -> Args {
        self.keyword_with(name, T::wanted(), T::from_arg, out)
    }

    /// Reads a mandatory keyword argument.
    pub fn required_keyword<T: FromArg>(mut self, name: &str, out: &mut T) -> Args {
        self.read(name, (false, true), &T::wanted(), T::from_arg, out);
        self
    }

    /// [`Args::required`] with a reader of the caller's own; `wanted` completes
    /// the sentence «wanted …».
    pub fn required_with<T>(
        mut self,
        name: &str,
        wanted: impl AsRef<str>,
        reader: impl Fn(&str) -> Result<T, BadArg>,
        out: &mut T,
    ) -> Args {
        self.read(name, (true, true), wanted.as_ref(), reader, out);
        self
    }

    /// [`Args::optional`] with a reader of the caller's own.
    pub fn optional_with<T>(
        mut self,
        name: &str,
        wanted: impl AsRef<str>,
        reader: impl Fn(&str) -> Result<T, BadArg>,
        out: &mut T,
    ) -> Args {
        self.read(name, (true, false), wanted.as_ref(), reader, out);
        self
    }

    /// [`Args::keyword`] with a reader of the caller's own.
    pub fn keyword_with<T>(
        mut self,
        name: &str,
        wanted: impl AsRef<str>,
        reader: impl Fn(&str) -> Result<T, BadArg>,
        out: &mut T,
    ) -> Args {
        self.read(name, (false, false), wanted.as_ref(), reader, out);
        self
    }

    /// Reads every argument with this keyword, in order.
    pub fn keyword_all<T: FromArg>(mut self, name: &str, out: &mut Vec<T>) -> Args {
        let mut values = Vec::new();
        while let Some((text, span)) = self.find_keyword(name, true) {
            let value = T::from_arg(&text);
            values.extend(self.check(name, &T::wanted(), value, &text, span));
        }
        if !values.is_empty() {
            *out = values;
        }
        self
    }

    /// Takes everything that has not been read yet.
    pub fn rest(mut self, out: &mut Vec<Argument>) -> Args {
        for slot in &mut self.slots {
            if let State::Free(_) = slot.state {
                slot.state = State::Position;
                out.push(slot.argument.clone());
            }
        }
        self
    }

    /// Adds an error about an argument as a whole, from a check across arguments.
    pub fn refuse(mut self, name: &str, reason: impl Into<String>) -> Args {
        let problem = Problem::Refused(reason.into());
        self.errors.push(ArgError { name: name.to_owned(), problem, span: self.end });
        self
    }

    /// Complains about what nobody read.
    ///
    /// # Errors
    /// All errors since [`Args::new`].
    pub fn complete(mut self) -> Result<(), ArgErrors> {
        let mut surplus = None;
        for slot in &self.slots {
            match slot.state {
                State::Free(0) => {
                    surplus.get_or_insert(slot.argument.span);
                }
                State::Free(length) => self.errors.push(ArgError {
                    name: slot.argument.text.get(..length).unwrap_or_default().to_owned(),
                    problem: Problem::Unknown,
                    span: slot.argument.span,
                }),
                _ => {}
            }
        }
        if let Some(span) = surplus {
            self.errors.push(ArgError { name: String::new(), problem: Problem::TooMany, span });
        }
        ArgErrors::check(self.errors)
    }

    fn read<T>(
        &mut self,
        name: &str,
        (positional, mandatory): (bool, bool),
        wanted: &str,
        reader: impl Fn(&str) -> Result<T, BadArg>,
        out: &mut T,
    ) {
        let Some((text, span)) = self.find(name, positional, mandatory) else {
            if mandatory {
                self.errors.push(ArgError {
                    name: name.to_owned(),
                    problem: Problem::Missing { wanted: wanted.to_owned() },
                    span: self.end,
                });
            }
            return;
        };
        let value = reader(&text);
        if let Some(value) = self.check(name, wanted, value, &text, span) {
            *out = value;
        }
    }

    fn check<T>(
        &mut self,
        name: &str,
        wanted: &str,
        value: Result<T, BadArg>,
        found: &str,
        span: Span,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(bad) => {
                let problem = Problem::from_bad(bad, found, wanted);
                self.errors.push(ArgError { name: name.to_owned(), problem, span });
                None
            }
        }
    }

    /// The value of a parameter and its place.
    fn find(&mut self, name: &str, positional: bool, mandatory: bool) -> Option<(String, Span)> {
        // Only the first argument that was not read by position can be next; once
        // a keyword stands there, positions have ended.
        let next = self.slots.iter().position(|slot| slot.state != State::Position);
        let by_keyword = self.find_keyword(name, false);
        let slot = self.slots.get_mut(next?).filter(|_| positional);
        if let Some(slot) = slot
            && let State::Free(length) = slot.state
            && (length == 0 || (by_keyword.is_none() && mandatory))
        {
            slot.state = State::Position;
            let found = (slot.argument.text.clone(), slot.argument.span);
            return by_keyword.or(Some(found));
        }
        by_keyword
    }

    /// Takes the first or the last argument with that keyword; when the last
    /// is asked for, the earlier ones are taken with it.
    fn find_keyword(&mut self, name: &str, first: bool) -> Option<(String, Span)> {
        let mut found = None;
        for slot in &mut self.slots {
            let State::Free(length) = slot.state else {
                continue;
            };
            let text = &slot.argument.text;
            if length == 0 || text.get(..length) != Some(name) {
                continue;
            }
            slot.state = State::Keyword;
            let value = text.get(length..).unwrap_or_default();
            let value = value.trim_start_matches(|c: char| c.is_ascii() && is_space(c as u8));
            // Where a comment was cut out the offset may be short of the end.
            let span = slot.argument.span;
            let start = span.end.saturating_sub(value.len()).max(span.start);
            found = Some((value.to_owned(), Span::new(start, span.end)));
            if first {
                break;
            }
        }
        found
    }
}

/// Length of the keyword if the text is a keyword and a value.
fn keyword_length(text: &str) -> usize {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.' | b'?' | b'!');
    let length = text.bytes().position(|b| !word(b)).unwrap_or(text.len());
    let rest = text.as_bytes().get(length..).unwrap_or_default();
    let value = rest.iter().position(|&b| !is_space(b));
    if starts && value.is_some_and(|spaces| spaces > 0) { length } else { 0 }
}

#[cfg(test)]
mod tests;
