//! `stats --watch` and `record`: print counters at intervals.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use europa_api::stats::NodeStats;
use europa_client::{Client, ClientError};
use europa_node::Instance;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::Failure;
use crate::rates::{Interval, View};
use crate::selected::only;
use crate::table::{Colours, line, out};
use crate::up::client;

/// Interval at which a waiting command checks whether a signal ends it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Clears a terminal and moves to its top.
pub(crate) const CLEAR: &str = "\x1b[2J\x1b[H";

/// A node's counters.
pub(crate) fn read(client: &Client) -> Result<NodeStats, ClientError> {
    client.get("/v1/stats")
}

/// Moments at equal distances, until a signal or a time limit ends them.
pub(crate) struct Beat {
    next: Instant,
    every: Duration,
    until: Option<Instant>,
    ended: Arc<AtomicBool>,
}

impl Beat {
    pub(crate) fn new(every: Duration, time: Option<Duration>) -> Result<Self, Failure> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, ended.clone())?;
        }
        let now = Instant::now();
        Ok(Self { next: now, every, until: time.map(|time| now + time), ended })
    }

    /// Waits for the next moment; false if none follows.
    pub(crate) fn wait(&mut self) -> bool {
        // After a delay the next moment is now: two readings at the same time would give no rates.
        self.next = (self.next + self.every).max(Instant::now());
        if self.until.is_some_and(|until| self.next > until) {
            return false;
        }
        while !self.ended.load(Ordering::Relaxed) {
            match self.next.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(LOOK_EVERY)),
                _ => return true,
            }
        }
        false
    }
}

pub(crate) fn stats(
    instance: &Instance,
    name: Option<&str>,
    every: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let read = || match (read(&client), name) {
        (Ok(stats), Some(name)) => only(stats, name),
        (stats, _) => Ok(stats?),
    };
    let mut beat = Beat::new(every, None)?;
    let mut before = read()?;
    if json {
        line!("{}", serde_json::to_string(&before)?);
    }
    while beat.wait() {
        let after = read()?;
        if json {
            line!("{}", serde_json::to_string(&after)?);
        } else {
            let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
            let text = tables(&Interval::new(&before, &after), Colours::stdout());
            out!("{clear}{text}\n");
        }
        before = after;
    }
    Ok(ExitCode::SUCCESS)
}

/// A table for each view.
fn tables(interval: &Interval, colours: Colours) -> String {
    let mut text = format!("over {:.3} s\n", interval.seconds());
    for view in View::ALL {
        let rows = interval.rows(view);
        if rows.is_empty() {
            continue;
        }
        let widest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(24);
        text += &colours.bold(&format!("\n{:<widest$}", view.title().to_lowercase()));
        for (title, _) in view.columns() {
            text += &colours.bold(&format!(" {title:>14}"));
        }
        text.push('\n');
        for row in rows {
            let name = format!("{:<widest$}", row.name);
            text += &if row.well { name } else { colours.red(&name) };
            for (value, (_, unit)) in row.values.iter().zip(view.columns()) {
                text += &format!(" {:>14}", unit.show(*value));
            }
            text.push('\n');
        }
    }
    text
}

pub(crate) fn record(
    instance: &Instance,
    every: Duration,
    time: Option<Duration>,
    output: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let mut to: Box<dyn Write> = match output {
        Some(path) => {
            let failed = |error| format!("{}: {error}", path.display());
            Box::new(BufWriter::new(File::create(path).map_err(failed)?))
        }
        None => Box::new(io::stdout().lock()),
    };
    let mut beat = Beat::new(every, time)?;
    let mut readings = 0_u64;
    loop {
        let text = serde_json::to_string(&read(&client)?)?;
        match writeln!(to, "{text}").and_then(|()| to.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(ExitCode::SUCCESS);
            }
            other => other?,
        }
        readings += 1;
        if !beat.wait() {
            break;
        }
    }
    if let Some(path) = output {
        eprintln!("europa: {readings} readings in {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;

    #[test]
    fn every_view_has_its_table() {
        let (before, after) = (reading(0, 0), reading(1_000_000_000, 1_000_000));
        let text = tables(&Interval::new(&before, &after), Colours::none());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "over 1.000 s");
        let red = lines.iter().find(|line| line.starts_with("red ")).expect("a slice");
        let words: Vec<&str> = red.split_whitespace().collect();
        assert_eq!(words[1..9], ["3.0", "Mp/s", "2.4", "Gb/s", "1.5", "Mp/s", "1.2", "Gb/s"]);
        assert!(text.contains("\nleft (eth0) "), "{text}");
    }
}
