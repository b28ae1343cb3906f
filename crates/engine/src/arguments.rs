//! Configuration arguments: by position or by keyword, as Click reads them.

use crate::names::Names;
use crate::value::Value;

/// The mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A required argument is missing.
    #[error("{name}: required argument missing")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// An argument cannot be read.
    #[error("{name}: expected {wanted}, found '{found}'")]
    Value {
        /// Its name.
        name: String,
        /// Index of the argument, from 0, if known.
        index: Option<usize>,
        /// The text found.
        found: String,
        /// The accepted values.
        wanted: String,
    },
    /// There are arguments that the element does not use.
    #[error("unexpected argument '{found}'")]
    Unexpected {
        /// Which of the element's arguments, from 0.
        index: usize,
        /// The text found.
        found: String,
    },
    /// A file or socket that the router may not have.
    #[error("this router has no grant for `{resource}`")]
    NotGranted {
        /// The grant that would allow it.
        resource: String,
    },
    /// Any other error.
    #[error("{message}")]
    Other {
        /// Which of the element's arguments, from 0, if any.
        index: Option<usize>,
        /// The mistake.
        message: String,
    },
}

impl ConfigError {
    /// A remedy.
    pub fn help(&self) -> Option<String> {
        match self {
            ConfigError::NotGranted { resource } => Some(format!(
                "if it is to have it, say so in its document: `grants: [{{{resource}}}]`; a grant \
                 is for one element"
            )),
            _ => None,
        }
    }

    /// An error that concerns the element as a whole.
    pub fn other(message: impl Into<String>) -> ConfigError {
        ConfigError::Other { index: None, message: message.into() }
    }

    /// An error that concerns argument `index`.
    pub fn at(index: usize, message: impl Into<String>) -> ConfigError {
        ConfigError::Other { index: Some(index), message: message.into() }
    }

    /// Index of the argument, from 0, if known.
    pub fn index(&self) -> Option<usize> {
        match self {
            ConfigError::Missing { .. } | ConfigError::NotGranted { .. } => None,
            ConfigError::Value { index, .. } | ConfigError::Other { index, .. } => *index,
            ConfigError::Unexpected { index, .. } => Some(*index),
        }
    }
}

/// How an argument of the list may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It starts with a possible keyword of this many bytes; 0 if it does not.
    Open(usize),
    Done,
}

/// The arguments of one element while it is configured.
///
/// An argument can be given by position or as `KEYWORD value`. Read positional ones first, in
/// order, then keywords, then call [`Arguments::finish`].
#[derive(Debug)]
pub struct Arguments<'a> {
    text: &'a [String],
    uses: Vec<Use>,
    names: &'a mut Names,
    inputs: usize,
    outputs: usize,
    errors: Vec<ConfigError>,
    warnings: Vec<String>,
}

impl<'a> Arguments<'a> {
    /// The arguments of an element with so many inputs and outputs.
    pub fn new(
        text: &'a [String],
        names: &'a mut Names,
        inputs: usize,
        outputs: usize,
    ) -> Arguments<'a> {
        let uses = text.iter().map(|text| Use::Open(keyword_bytes(text))).collect();
        let (errors, warnings) = (Vec::new(), Vec::new());
        Arguments { text, uses, names, inputs, outputs, errors, warnings }
    }

    /// Number of connected inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of connected outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Names of addresses.
    pub fn names(&mut self) -> &mut Names {
        self.names
    }

    /// Finds the argument of this name: the last one with that keyword, or, if `position`, the next
    /// one that is not for any keyword. A mandatory argument is taken even if it looks like a
    /// keyword.
    fn find(&mut self, name: &str, position: bool, mandatory: bool) -> Option<(usize, &'a str)> {
        let mut next = None;
        let mut found = None;
        for (index, (text, used)) in self.text.iter().zip(&mut self.uses).enumerate() {
            let Use::Open(keyword) = *used else { continue };
            if keyword == name.len() && text.starts_with(name) {
                *used = Use::Done;
                let value = text.get(keyword..).unwrap_or_default();
                found = Some((index, value.trim_start()));
            } else if next.is_none() {
                next = Some((index, keyword, text.as_str()));
            }
        }
        if let Some((index, keyword, text)) = next
            && position
            && found.is_none()
            && (keyword == 0 || mandatory)
            && let Some(used) = self.uses.get_mut(index)
        {
            *used = Use::Done;
            found = Some((index, text));
        }
        found
    }

    fn read<T: Value>(
        &mut self,
        name: &str,
        position: bool,
        mandatory: bool,
    ) -> Result<Option<T>, ConfigError> {
        let Some((index, text)) = self.find(name, position, mandatory) else { return Ok(None) };
        // An empty place means that the argument is not given.
        if text.is_empty() {
            return Ok(None);
        }
        T::parse(text, self.names).map(Some).ok_or_else(|| ConfigError::Value {
            name: name.to_owned(),
            index: Some(index),
            found: text.to_owned(),
            wanted: T::WANTED.to_owned(),
        })
    }

    /// A required argument, by position or keyword.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn mandatory<T: Value>(&mut self, name: &'static str) -> Result<T, ConfigError> {
        self.read(name, true, true)?.ok_or(ConfigError::Missing { name })
    }

    /// An optional argument, by position or keyword.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn positional<T: Value>(&mut self, name: &'static str) -> Result<Option<T>, ConfigError> {
        self.read(name, true, false)
    }

    /// An optional argument, by keyword only.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn keyword<T: Value>(&mut self, name: &'static str) -> Result<Option<T>, ConfigError> {
        self.read(name, false, false)
    }

    /// A required argument, by keyword only.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn mandatory_keyword<T: Value>(&mut self, name: &'static str) -> Result<T, ConfigError> {
        self.read(name, false, true)?.ok_or(ConfigError::Missing { name })
    }

    /// All arguments that the element has not taken yet, in order, with their numbers: patterns,
    /// routes.
    pub fn rest(&mut self) -> Vec<(usize, &'a str)> {
        let all = self.text.iter().zip(&mut self.uses).enumerate();
        all.filter_map(|(index, (text, used))| {
            let open = std::mem::replace(used, Use::Done) != Use::Done;
            open.then_some((index, text.as_str()))
        })
        .collect()
    }

    /// Reads one value with the router's names, for elements that split arguments themselves.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn value<T: Value>(&self, name: &str, index: usize, text: &str) -> Result<T, ConfigError> {
        T::parse(text, self.names).ok_or_else(|| ConfigError::Value {
            name: name.to_owned(),
            index: Some(index),
            found: text.to_owned(),
            wanted: T::WANTED.to_owned(),
        })
    }

    /// Notes a mistake and continues, so that the user gets all mistakes at once.
    pub fn error(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Whether mistakes have been noted.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Notes a warning, which does not stop the router.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    /// Checks that all arguments were used.
    ///
    /// # Errors
    /// If one is.
    pub fn finish(&mut self) -> Result<(), ConfigError> {
        match self.rest().first() {
            None => Ok(()),
            Some((index, found)) => {
                Err(ConfigError::Unexpected { index: *index, found: (*found).to_owned() })
            }
        }
    }

    /// Mistakes and warnings noted.
    pub fn into_notes(self) -> (Vec<ConfigError>, Vec<String>) {
        (self.errors, self.warnings)
    }
}

/// Length of an argument's first word if that may be a keyword: a value must follow it.
fn keyword_bytes(text: &str) -> usize {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !text.starts_with(is_start) {
        return 0;
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || "_:.?!".contains(c);
    let length = text.find(|c| !inside(c)).unwrap_or(text.len());
    let rest = text.get(length..).unwrap_or_default();
    let follows = rest.trim_start();
    if follows.is_empty() || follows.len() == rest.len() { 0 } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    proptest! {
        #[test]
        fn arguments_of_any_text(
            text in prop::collection::vec(prop_oneof![".{0,40}", "[-+0-9a-fx._:/ eEsmunkMGbpsLIT]{0,30}"], 0..5)
        ) {
            let mut names = Names::default();
            let mut arguments = Arguments::new(&text, &mut names, 1, 1);
            let _ = arguments.keyword::<u16>("LIMIT");
            let _ = arguments.positional::<Duration>("TIME");
            let _ = arguments.mandatory::<String>("TEXT");
            for word in &text {
                let _ = (arguments.value::<f64>("A", 0, word), arguments.value::<i64>("B", 0, word));
                let _ = arguments.value::<[u8; 6]>("C", 0, word);
                let _ = arguments.value::<Ipv4Addr>("D", 0, word);
                let _ = arguments.value::<Ipv6Addr>("E", 0, word);
                let _ = arguments.value::<crate::Ipv4Prefix>("F", 0, word);
                let _ = arguments.value::<crate::Ipv6Prefix>("G", 0, word);
                let _ = arguments.value::<Vec<u8>>("H", 0, word);
            }
            // Everything is taken or named.
            let left = arguments.rest().len();
            prop_assert!(left <= text.len());
        }

        #[test]
        fn integers_are_read_back(value in any::<u64>()) {
            for text in [value.to_string(), format!("{value:#x}")] {
                prop_assert_eq!(u64::parse(&text, &Names::default()), Some(value));
            }
        }
    }

    #[test]
    fn positions_and_keywords_are_told_apart_as_in_click() {
        for (text, expected) in [
            ("7", Ok((7, None, None))),
            ("7,8", Ok((7, Some(8), None))),
            ("7,LIMIT 9", Ok((7, None, Some(9)))),
            ("LIMIT 9,7", Ok((7, None, Some(9)))),
            ("SECOND 8,LIMIT 9,FIRST 7", Ok((7, Some(8), Some(9)))),
            ("7,LIMIT 9,LIMIT 10", Ok((7, None, Some(10)))),
            ("", Err("FIRST: required argument missing")),
            ("7,,LIMIT 9", Ok((7, None, Some(9)))),
            ("7,", Ok((7, None, None))),
            ("7,,", Err("unexpected argument ''")),
            (",8", Err("FIRST: required argument missing")),
            ("7,x", Err("SECOND: expected unsigned integer, found 'x'")),
            ("7,8,9", Err("unexpected argument '9'")),
            ("7,FOO 9", Err("unexpected argument 'FOO 9'")),
            ("FOO 9", Err("FIRST: expected unsigned integer, found 'FOO 9'")),
        ] {
            let text: Vec<String> = text.split(',').map(str::to_owned).collect();
            let mut names = Names::default();
            let mut arguments = Arguments::new(&text, &mut names, 1, 1);
            let mut read = || -> Result<(u32, Option<u32>, Option<u32>), ConfigError> {
                let limit = arguments.keyword("LIMIT")?;
                let first = arguments.mandatory("FIRST")?;
                let second = arguments.positional("SECOND")?;
                arguments.finish()?;
                Ok((first, second, limit))
            };
            assert_eq!(read().map_err(|e| e.to_string()), expected.map_err(str::to_owned));
        }
    }
}
