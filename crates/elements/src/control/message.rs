//! # Message
//!
//! ## Synopsis
//! `Message(TEXT [, TYPE])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Prints a message when the router starts.
//!
//! ## Arguments
//! - TEXT: the message.
//! - TYPE: `MESSAGE`, the default, `WARNING`, or `ERROR`; with `ERROR` the router does not start.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Error`

use europa_engine::{Class, ClassInfo, ConfigError, Element, InitContext, arguments};

/// Says something.
#[derive(Default)]
pub(crate) struct Message {
    text: String,
}

impl Class for Message {
    const INFO: ClassInfo = ClassInfo::new("Message", "0/0").inline().keeps_long();
}

impl Element for Message {
    arguments! { this, given;
        let text = mandatory "MESSAGE": String;
        let kind = positional "TYPE": String = "MESSAGE".to_owned();
        then {
            given.finish()?;
            match kind.as_str() {
                "MESSAGE" => this.text = text,
                "WARNING" => given.warn(text),
                "ERROR" => return Err(ConfigError::at(0, text)),
                other => return Err(ConfigError::other(format!("bad TYPE '{other}'"))),
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if !self.text.is_empty() {
            context.log(&self.text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn errors_stop_the_start() {
        assert_eq!(Bench::error("Message", &["oh no", "TYPE ERROR"]), "oh no");
        assert_eq!(Bench::error("Message", &["x", "TYPE Y"]), "bad TYPE 'Y'");
    }
}
