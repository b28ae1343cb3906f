//! Skips tests whose needs are missing, with a message.

use std::io::Write;
use std::path::PathBuf;

use crate::command::find;

/// The first of these programs that is not installed, or `root` if the test does not run as root.
pub fn missing(programs: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let absent = programs.iter().chain(&["ip"]).find(|program| find(program).is_none())?;
    Some(format!("{absent} is not installed"))
}

/// Prints that a test or a part of it was skipped. Writes past the test harness, which hides the
/// output of tests that succeed.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    // The message is lost if standard error is closed.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Ends a test that cannot run here, and prints the reason: `skip_without!("iperf3", "nft")`.
#[macro_export]
macro_rules! skip_without {
    ($($program:literal),*) => {
        if let Some(reason) = $crate::missing(&[$($program),*]) {
            $crate::skipped(&reason);
            return;
        }
    };
}

/// The `europa` program of this build; `EUROPA` names another.
///
/// # Panics
/// The program is not built.
pub fn europa() -> PathBuf {
    if let Some(path) = std::env::var_os("EUROPA") {
        return path.into();
    }
    // Tests are in target/PROFILE/deps, the program is in target/PROFILE.
    let test = std::env::current_exe().unwrap_or_default();
    let program = test.ancestors().nth(2).unwrap_or(&test).join("europa");
    assert!(program.is_file(), "{} is missing: build it by `make build`", program.display());
    program
}
