//! Files that elements read and write.
//!
//! `europa click` opens the files of its user. A router of a node can only open the files that its
//! document grants ([`InitContext::open`]).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};

use europa_engine::{ConfigError, InitContext, Resource};

/// Bytes that are read or written at once.
const BUFFER: usize = 1 << 16;

/// Opens a file to read; `-` is standard input.
pub(crate) fn open(name: &str, context: &InitContext<'_>) -> Result<Box<dyn Read>, ConfigError> {
    if name == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::from(context.open(&Resource::Read(name.to_owned()))?);
    Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
}

/// Opens a file to write; `-` is standard output.
pub(crate) fn create(name: &str, context: &InitContext<'_>) -> Result<Box<dyn Write>, ConfigError> {
    if name == "-" {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::from(context.open(&Resource::Write(name.to_owned()))?);
    Ok(Box::new(BufWriter::with_capacity(BUFFER, file)))
}

/// Whether a file is missing, which some elements accept by an argument.
pub(crate) fn is_missing(name: &str) -> bool {
    name != "-"
        && matches!(std::fs::metadata(name), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
