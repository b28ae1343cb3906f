//! # Error
//!
//! ## Synopsis
//! `Error(...)`
//!
//! ## Ports
//! Any.
//!
//! ## Description
//! Takes any arguments and never starts: a configuration with it cannot run.
//!
//! ## Arguments
//! Anything.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Message`

use europa_engine::{Class, ClassInfo, ConfigError, Element, InitContext, arguments};

/// Never starts.
#[derive(Default)]
pub(crate) struct Error;

impl Class for Error {
    const INFO: ClassInfo = ClassInfo::new("Error", "-/-");
}

impl Element for Error {
    arguments! { this, given;
        let _anything = rest "TEXT": "anything";
    }

    fn initialize(&mut self, _: &mut InitContext<'_>) -> Result<(), ConfigError> {
        Err(ConfigError::other("this element never starts"))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn never_starts() {
        assert_eq!(Bench::error("Error", &["anything"]), "this element never starts");
    }
}
