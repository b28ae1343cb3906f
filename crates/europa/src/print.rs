//! `completion`, `man`, `schema`: print descriptions of this program for other programs.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::exit::Failure;
use crate::table::line;

/// Prints a script for a shell that asks this program for completions.
pub(crate) fn completion(shell: Shell) -> Result<ExitCode, Failure> {
    let shell = shell.to_string();
    let shells = Shells::builtins();
    let completer =
        shells.completer(&shell).ok_or_else(|| format!("there is no completion for {shell}"))?;
    completer.write_registration("COMPLETE", "europa", "europa", "europa", &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes manual pages, one for each command.
pub(crate) fn man(directory: &Path) -> Result<ExitCode, Failure> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(crate::help::command(), directory)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON Schema of the YAML, or the OpenAPI description of the REST interface.
pub(crate) fn schema(openapi: bool) -> Result<ExitCode, Failure> {
    let document = if openapi { europa_rest::openapi() } else { europa_api::schema() };
    line!("{}", serde_json::to_string_pretty(&document)?);
    Ok(ExitCode::SUCCESS)
}
