//! Mistakes of configurations.

/// The mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A mandatory argument is missing.
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
        /// Number of the element's argument, from 0, if known.
        index: Option<usize>,
        /// The text found.
        found: String,
        /// The accepted values.
        wanted: String,
    },
    /// There are arguments that the element did not take.
    #[error("unexpected argument '{found}'")]
    Unexpected {
        /// Number of the element's argument, from 0.
        index: usize,
        /// The text found.
        found: String,
    },
    /// The router has no grant for a file or socket.
    #[error("this router has no grant for `{resource}`")]
    NotGranted {
        /// The grant that would allow it.
        resource: String,
    },
    /// Anything else.
    #[error("{message}")]
    Other {
        /// Number of the element's argument, from 0, if the error is about one.
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

    /// The number of the argument that the error is about, from 0, if known.
    pub fn index(&self) -> Option<usize> {
        match self {
            ConfigError::Missing { .. } | ConfigError::NotGranted { .. } => None,
            ConfigError::Value { index, .. } | ConfigError::Other { index, .. } => *index,
            ConfigError::Unexpected { index, .. } => Some(*index),
        }
    }
}
