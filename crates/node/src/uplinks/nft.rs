//! The program `nft`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::program::find;
use crate::{Doing, NodeError};

/// The program.
const NFT: &str = "nft";

/// Whether this machine has it.
pub(super) fn is_there() -> bool {
    find(NFT).is_some()
}

fn call(arguments: &[&str], input: &str) -> Result<Output, NodeError> {
    let missing = || NodeError::Refused("there is no program nft: install nftables".into());
    let mut child = Command::new(find(NFT).ok_or_else(missing)?)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing("starting nft")?;
    if let Some(mut stdin) = child.stdin.take() {
        // If `nft` has ended early, its output has the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().doing("waiting for nft")
}

fn failed(output: &Output) -> NodeError {
    let said = String::from_utf8_lossy(&output.stderr);
    NodeError::Refused(format!("nft: {}", said.trim()))
}

/// Carries out commands: all of them or none.
pub(super) fn run(script: &str) -> Result<(), NodeError> {
    let output = call(&["-f", "-"], script)?;
    if output.status.success() { Ok(()) } else { Err(failed(&output)) }
}

/// A table of the family `inet` as JSON; `None` if it does not exist.
pub(super) fn list(table: &str) -> Result<Option<String>, NodeError> {
    let output = call(&["-j", "list", "table", "inet", table], "")?;
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let is_missing = String::from_utf8_lossy(&output.stderr).contains("No such file or directory");
    if is_missing { Ok(None) } else { Err(failed(&output)) }
}

/// All chains of the machine as JSON.
pub(super) fn chains() -> Result<String, NodeError> {
    let output = call(&["-j", "list", "chains"], "")?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(&output)),
    }
}

/// Removes a table of the family `inet`, if it exists.
pub(super) fn delete(table: &str) -> Result<(), NodeError> {
    // Without the first command, the second one would fail if the table does not exist.
    run(&format!("add table inet {table}\ndelete table inet {table}\n"))
}
