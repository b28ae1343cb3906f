//! A script's variables, and its calls of handlers: those of other elements, the router's, and its
//! own.

use europa_engine::{Context, Flags, HandlerError, Target};

use super::expand::{Form, Reference, expand};
use super::own::HANDLERS;
use super::{Scripted, shift_word, unquoted};

/// The beginning of errors of handlers.
const CALLING: &str = "While calling";

impl<const DRIVER: bool> Scripted<DRIVER> {
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.variables.iter().find(|(own, _)| own == name) {
            return Some(value.clone());
        }
        let arguments = &self.called.arguments;
        match name {
            "?" => Some(self.status.to_string()),
            "args" => Some(arguments.clone()),
            "$" => Some(std::process::id().to_string()),
            "0" => Some(self.called.handler.clone()),
            "write" => Some(self.called.write.to_string()),
            "#" => Some(words(arguments).count().to_string()),
            _ => {
                let number: usize = name.parse().ok()?;
                let word = words(arguments).nth(number.checked_sub(1)?);
                Some(word.unwrap_or_default().to_owned())
            }
        }
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        match self.variables.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    pub(super) fn complain(&self, context: &mut Context<'_>, message: &str) {
        match message.starts_with(CALLING) {
            true => context.log(message),
            false => {
                let name = declaration::<DRIVER>(context);
                context.log(&format!("While executing '{name}':\n  {message}"));
            }
        }
    }

    /// Puts variables and answers of handlers into a text.
    pub(super) fn expand(&mut self, text: &str, form: Form, context: &mut Context<'_>) -> String {
        expand(text, form, &mut |reference| match reference {
            Reference::Variable(name) => self.variable(&name),
            Reference::Handler(call) => match self.read_call(&call, false, context) {
                Ok((_, answer)) => Some(answer),
                Err(error) => {
                    self.complain(context, &error);
                    None
                }
            },
        })
    }

    /// Whether `name` is a handler of this script.
    pub(super) fn has(&self, name: &str) -> bool {
        HANDLERS.iter().any(|handler| handler.name == name)
            || self.exports.iter().any(|export| export == name)
    }

    /// Whether `name` is one of the handlers that every element has. While the script runs, the
    /// engine does not find those in `handlers`.
    fn has_common(&self, name: &str, context: &Context<'_>) -> bool {
        !self.has(name)
            && name != "handlers"
            && context.handler_flags(context.index(), name).is_some()
    }

    /// The element of the handler `path`: this script's handlers have precedence.
    fn target(&self, path: &str, context: &Context<'_>) -> Result<Target, HandlerError> {
        let own = !path.contains('.') && (self.has(path) || self.has_common(path, context));
        match own {
            true => Ok(Target::Element(context.index(), path.to_owned())),
            false => context.target_of(path),
        }
    }

    /// Calls the read handler at the start of `call`; returns its whole name, and the answer.
    pub(super) fn read_call(
        &mut self,
        call: &str,
        unquote: bool,
        context: &mut Context<'_>,
    ) -> Result<(String, String), String> {
        let mut rest = call;
        let path = &unquoted(shift_word(&mut rest));
        let parameter = if unquote { unquoted(rest) } else { rest.to_owned() };
        let me = context.index();
        let found = self.target(path, context);
        match found.map_err(|error| not_found(path, &error, "read"))? {
            Target::Element(index, handler)
                if index == me && !self.has_common(&handler, context) =>
            {
                let name = format!("{}.{handler}", context.name());
                let answer = self.answer(&handler, &parameter, context);
                answer.map(|text| (name, text)).map_err(|error| error.to_string())
            }
            Target::Element(index, handler) => {
                let element = context.names().get(index).cloned().unwrap_or_default();
                let name = format!("{element}.{handler}");
                match context.read_of(index, &handler, &parameter) {
                    Ok(text) => Ok((name, text)),
                    Err(error) => Err(not_found(&name, &error, "read")),
                }
            }
            Target::Global(handler) => match context.read_handler(path, &parameter) {
                Ok(text) => Ok((handler, text)),
                Err(error) => Err(not_found(&handler, &error, "read")),
            },
        }
    }

    pub(super) fn write_call(
        &mut self,
        call: &str,
        unquote: bool,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let mut rest = call;
        let path = &unquoted(shift_word(&mut rest));
        let value = if unquote { unquoted(rest) } else { rest.to_owned() };
        let me = context.index();
        let found = self.target(path, context);
        match found.map_err(|error| not_found(path, &error, "write"))? {
            Target::Element(index, handler) if index == me => self
                .order(&handler, &value, context)
                .map_err(|error| not_found(path, &error, "write")),
            Target::Element(index, handler) => {
                let element = context.names().get(index).cloned().unwrap_or_default();
                let name = format!("{element}.{handler}");
                context.write_of(index, &handler, &value).map_err(|e| not_found(&name, &e, "write"))
            }
            Target::Global(handler) => context
                .write_handler(path, &value)
                .map_err(|error| not_found(&handler, &error, "write")),
        }
    }

    pub(super) fn can(&self, path: &str, wanted: Flags, context: &Context<'_>) -> bool {
        if !path.contains('.') && self.has(path) {
            return HANDLERS.iter().any(|h| h.name == path && h.flags.has(wanted));
        }
        match context.target_of(path) {
            Ok(Target::Element(index, handler)) => {
                context.handler_flags(index, &handler).is_some_and(|flags| flags.has(wanted))
            }
            Ok(Target::Global(_)) => true,
            Err(_) => false,
        }
    }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = shift_word(&mut rest);
        (!word.is_empty()).then_some(word)
    })
}

/// The error of a handler; it has Click's words if the handler does not exist.
fn not_found(name: &str, error: &HandlerError, how: &str) -> String {
    match error {
        HandlerError::NotFound(_) | HandlerError::WriteOnly(_) | HandlerError::ReadOnly(_) => {
            format!("no '{name}' {how} handler")
        }
        other => format!("{CALLING} '{name}':\n  {other}"),
    }
}

pub(super) fn declaration<const DRIVER: bool>(context: &Context<'_>) -> String {
    let class = if DRIVER { "DriverManager" } else { "Script" };
    format!("{} :: {class}", context.name())
}
