//! Handlers that elements write after an event: `END_CALL` and similar.

use europa_engine::{Arguments, ConfigError, Context, Flags, HandlerError, InitContext, Target};

use crate::control::script::expand::{Form, Reference, expand};
use crate::control::script::{shift_word, unquoted};

/// A handler and the value written to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandlerCall {
    path: String,
    value: String,
}

impl std::fmt::Display for HandlerCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(format!("{} {}", self.path, self.value).trim_end())
    }
}

impl HandlerCall {
    /// Parses `HANDLER [VALUE]`.
    pub(crate) fn parse(text: &str) -> Option<HandlerCall> {
        let mut rest = text;
        let path = unquoted(shift_word(&mut rest));
        (!path.is_empty()).then(|| HandlerCall { path, value: rest.to_owned() })
    }

    /// Reads it from a keyword argument; `None` if the argument is left out or empty.
    ///
    /// # Errors
    /// If its value is no text.
    pub(crate) fn read(
        name: &'static str,
        given: &mut Arguments<'_>,
    ) -> Result<Option<HandlerCall>, ConfigError> {
        let text = given.keyword::<String>(name)?.unwrap_or_default();
        Ok(HandlerCall::parse(&text))
    }

    /// Checks that the handler exists. It cannot check handlers of the element itself, which is
    /// being initialised, or the router's own, which may be added later.
    ///
    /// # Errors
    /// If an element has none.
    pub(crate) fn check(&self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let me = context.index();
        let missing = || ConfigError::other(format!("no '{}' write handler", self.path));
        context.with_context(|context| match context.target_of(&self.path) {
            Ok(Target::Element(index, handler)) if index != me && handler != "config" => {
                let flags = context.handler_flags(index, &handler);
                flags.filter(|flags| flags.has(Flags::WRITE)).map(|_| ()).ok_or_else(missing)
            }
            Err(error @ HandlerError::NoElement(_)) => Err(ConfigError::other(error.to_string())),
            _ => Ok(()),
        })
    }

    /// Writes the handler; an error goes to the log.
    pub(crate) fn write(&self, context: &mut Context<'_>) {
        self.write_value(&self.value, context);
    }

    /// Writes the handler, with a variable substituted in the value.
    pub(crate) fn write_with(&self, name: &str, value: &str, context: &mut Context<'_>) {
        let mut variable = |reference| match reference {
            Reference::Variable(asked) if asked == name => Some(value.to_owned()),
            _ => None,
        };
        let text = expand(&self.value, Form::Plain, &mut variable);
        self.write_value(&text, context);
    }

    fn write_value(&self, value: &str, context: &mut Context<'_>) {
        if let Err(error) = context.write_handler(&self.path, value) {
            context.log_with(|name| format!("{name}: {error}"));
        }
    }
}
