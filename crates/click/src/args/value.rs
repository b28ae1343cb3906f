//! What an argument can become.

use std::borrow::Cow;

use super::BadArg;
use crate::text::{unquote, unquote_text};

/// A type that an argument can be read as.
pub trait FromArg: Sized {
    /// Completes «wanted …».
    fn wanted() -> Cow<'static, str>;

    /// Reads it from an argument, whose quotes are still there.
    ///
    /// # Errors
    /// Why the text is none.
    fn from_arg(text: &str) -> Result<Self, BadArg>;
}

/// For arguments without default.
impl<T: FromArg> FromArg for Option<T> {
    fn wanted() -> Cow<'static, str> {
        T::wanted()
    }

    fn from_arg(text: &str) -> Result<Option<T>, BadArg> {
        T::from_arg(text).map(Some)
    }
}

/// Text with its quotes taken off.
impl FromArg for String {
    fn wanted() -> Cow<'static, str> {
        "text".into()
    }

    fn from_arg(text: &str) -> Result<String, BadArg> {
        unquote_text(text).ok_or_else(|| BadArg::Refused("is not UTF-8 text".to_owned()))
    }
}

/// Bytes, as packet data: quotes taken off, `\<48 65>` allowed.
impl FromArg for Vec<u8> {
    fn wanted() -> Cow<'static, str> {
        "data".into()
    }

    fn from_arg(text: &str) -> Result<Vec<u8>, BadArg> {
        Ok(unquote(text))
    }
}

/// The name of another element, not looked up yet: see [`Graph::find`](crate::Graph::find).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementName(pub String);

impl FromArg for ElementName {
    fn wanted() -> Cow<'static, str> {
        "the name of an element".into()
    }

    fn from_arg(text: &str) -> Result<ElementName, BadArg> {
        let name = unquote_text(text).ok_or(BadArg::Malformed)?;
        let part = |part: &str| {
            let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@');
            !part.is_empty() && part.bytes().all(valid)
        };
        if name.split('/').all(part) { Ok(ElementName(name)) } else { Err(BadArg::Malformed) }
    }
}
