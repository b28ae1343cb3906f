//! Files that elements read and write.
//!
//! A router of a node runs in a sandbox that opens nothing, so there these elements are refused
//! when the configuration is checked. `europa click` opens what its user may open.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};

use europa_engine::ConfigError;

fn failed(name: &str, error: &io::Error) -> ConfigError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => " (a router of a node may not open files)",
        _ => "",
    };
    ConfigError::other(format!("{name}: {}{hint}", reason(error)))
}

/// What the system says, without the number behind it.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Opens a file to read; `-` is standard input.
pub(crate) fn open(name: &str) -> Result<Box<dyn Read>, ConfigError> {
    if name == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(name).map_err(|error| failed(name, &error))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// Opens a file to write; `-` is standard output.
pub(crate) fn create(name: &str, append: bool) -> Result<Box<dyn Write>, ConfigError> {
    if name == "-" {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    let file = options.open(name).map_err(|error| failed(name, &error))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, file)))
}

/// Whether a file is missing, which some elements are told not to mind.
pub(crate) fn is_missing(name: &str) -> bool {
    name != "-"
        && matches!(std::fs::metadata(name), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
