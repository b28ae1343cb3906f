//! Mistakes of configurations.

/// The mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An argument that must be there is not.
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
        /// Which of the element's arguments, from 0, if known.
        index: Option<usize>,
        /// The text found.
        found: String,
        /// The accepted values.
        wanted: String,
    },
    /// There are arguments that the element did not take.
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
    /// Anything else.
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

    /// The argument it concerns, from 0, if known.
    pub fn index(&self) -> Option<usize> {
        match self {
            ConfigError::Missing { .. } | ConfigError::NotGranted { .. } => None,
            ConfigError::Value { index, .. } | ConfigError::Other { index, .. } => *index,
            ConfigError::Unexpected { index, .. } => Some(*index),
        }
    }
}
