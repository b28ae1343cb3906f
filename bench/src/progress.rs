//! Progress: one line that changes on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Shows what is being measured, on standard error.
pub(crate) struct Progress {
    terminal: bool,
    started: Instant,
}

impl Progress {
    /// Checks whether standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), started: Instant::now() }
    }

    /// Shows the present activity.
    pub(crate) fn show(&self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        let mut stderr = std::io::stderr().lock();
        // If progress cannot be written, nothing else depends on it.
        let _ = if self.terminal {
            write!(stderr, "\r\x1b[2K{:2}:{:02} {what}", seconds / 60, seconds % 60)
                .and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{:2}:{:02} {what}", seconds / 60, seconds % 60)
        };
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
