//! Handlers that elements write when something has happened: `END_CALL` and the like.

use europa_engine::Context;

use crate::script::expand::{Form, Reference, expand};
use crate::script::shift_word;

/// A handler and what is written to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandlerCall {
    path: String,
    value: String,
}

impl HandlerCall {
    /// From `HANDLER [VALUE]`.
    pub(crate) fn parse(text: &str) -> Option<HandlerCall> {
        let mut rest = text;
        let path = shift_word(&mut rest).to_owned();
        (!path.is_empty()).then(|| HandlerCall { path, value: rest.to_owned() })
    }

    /// Writes the handler; a mistake goes to the log.
    pub(crate) fn write(&self, context: &mut Context<'_>) {
        self.write_value(&self.value, context);
    }

    /// The same, with a variable in the value.
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
            context.log(&format!("{}: {error}", context.name()));
        }
    }
}
