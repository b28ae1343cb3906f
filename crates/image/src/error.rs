//! Why an image cannot be had.

use std::io;
use std::path::Path;

/// The reason why an image cannot be unpacked.
#[derive(Debug, thiserror::Error)]
#[error("image {path}: {what}")]
pub struct ImageError {
    path: String,
    what: String,
}

impl ImageError {
    pub(crate) fn new(path: &Path, what: impl std::fmt::Display) -> Self {
        Self { path: path.display().to_string(), what: what.to_string() }
    }
}

/// An error in an image's content, as an input error.
pub(crate) fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The same error with the place where it happened.
pub(crate) fn at(place: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{place}: {error}"))
}
