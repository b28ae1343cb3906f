//! Configuration arguments: by position or by keyword, as Click reads them.

use crate::argument::Argument;
use crate::config_error::ConfigError;
use crate::names::Names;
use crate::value::Value;

/// How an argument of the list may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The argument is unused. It starts with a possible keyword of this many bytes; 0 if it does
    /// not.
    Open(usize),
    Done,
}

/// The arguments of one element while it is configured.
///
/// An argument can be given by position or as `KEYWORD value`. Elements declare by
/// [`arguments!`](macro@crate::arguments) which arguments they take. An element that reads its
/// arguments itself asks for them in order and then calls [`Arguments::finish`].
#[derive(Debug)]
pub struct Arguments<'a> {
    text: &'a [String],
    uses: Vec<Use>,
    names: &'a mut Names,
    inputs: usize,
    outputs: usize,
    /// The tables of the element, so that the parser does not read their keywords as values.
    declared: Vec<&'static [Argument]>,
    errors: Vec<ConfigError>,
    warnings: Vec<String>,
}

impl<'a> Arguments<'a> {
    /// The arguments of an element with these numbers of inputs and outputs.
    pub fn new(
        text: &'a [String],
        names: &'a mut Names,
        inputs: usize,
        outputs: usize,
    ) -> Arguments<'a> {
        let uses = text.iter().map(|text| Use::Open(keyword_bytes(text))).collect();
        let (declared, errors, warnings) = (Vec::new(), Vec::new(), Vec::new());
        Arguments { text, uses, names, inputs, outputs, declared, errors, warnings }
    }

    /// Adds a table of the element: an argument that begins with one of its keywords is not taken
    /// by position.
    pub fn declare(&mut self, table: &'static [Argument]) {
        self.declared.push(table);
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
            } else if next.is_none() && !is_declared(&self.declared, text, keyword) {
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
        // An empty argument means that it is not given.
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

    fn list<T: Value>(
        &mut self,
        name: &'static str,
        position: bool,
        mandatory: bool,
    ) -> Result<Option<Vec<T>>, ConfigError> {
        let Some((index, text)) = self.find(name, position, mandatory) else { return Ok(None) };
        if text.is_empty() {
            return Ok(None);
        }
        let words: String = self.value(name, index, text)?;
        let values = words.split_whitespace().map(|word| self.value(name, index, word));
        values.collect::<Result<_, _>>().map(Some)
    }

    /// Values with spaces between them in a mandatory argument, by position or keyword.
    ///
    /// # Errors
    /// If it is missing or a value cannot be read.
    pub fn mandatory_list<T: Value>(&mut self, name: &'static str) -> Result<Vec<T>, ConfigError> {
        self.list(name, true, true)?.ok_or(ConfigError::Missing { name })
    }

    /// Values with spaces between them in an argument by position or keyword; none if it is left
    /// out.
    ///
    /// # Errors
    /// If a value cannot be read.
    pub fn positional_list<T: Value>(&mut self, name: &'static str) -> Result<Vec<T>, ConfigError> {
        self.list(name, true, false).map(Option::unwrap_or_default)
    }

    /// Values with spaces between them in an argument by keyword; none if it is left out.
    ///
    /// # Errors
    /// If a value cannot be read.
    pub fn keyword_list<T: Value>(&mut self, name: &'static str) -> Result<Vec<T>, ConfigError> {
        self.list(name, false, false).map(Option::unwrap_or_default)
    }

    /// All arguments that the element has not taken yet, each a value.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn each<T: Value>(&mut self, name: &'static str) -> Result<Vec<T>, ConfigError> {
        self.rest().into_iter().map(|(index, text)| self.value(name, index, text)).collect()
    }

    /// All arguments that the element has not taken yet, in order, with their numbers. For example
    /// patterns or routes.
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

/// Whether a text begins with a keyword of a table; its first word has this many bytes.
fn is_declared(tables: &[&'static [Argument]], text: &str, bytes: usize) -> bool {
    let word = text.get(..bytes).unwrap_or_default();
    bytes > 0 && tables.iter().any(|table| Argument::is_keyword(table, word))
}

/// Length of the word that an argument starts with, if that word may be a keyword: something must
/// follow it.
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
mod tests;
