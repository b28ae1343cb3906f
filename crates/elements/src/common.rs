//! What several elements do the same way.

use europa_engine::{Arguments, ConfigError, HandlerError, Names, Value};

/// Reads what was written to a handler.
pub(crate) fn parse<T: Value>(handler: &str, text: &str) -> Result<T, HandlerError> {
    T::parse(text.trim(), &Names::default())
        .ok_or_else(|| HandlerError::value(handler, text, T::WANTED))
}

/// The ANNO argument of the paint elements.
pub(crate) fn annotation(arguments: &mut Arguments<'_>) -> Result<usize, ConfigError> {
    match arguments.positional::<usize>("ANNO")? {
        None => Ok(16),
        Some(byte) if byte < 48 => Ok(byte),
        Some(byte) => Err(ConfigError::Value {
            name: "ANNO".to_owned(),
            index: None,
            found: byte.to_string(),
            wanted: "annotation byte, 0 to 47".to_owned(),
        }),
    }
}
