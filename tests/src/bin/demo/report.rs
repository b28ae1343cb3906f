//! The messages during the demo, and the closing table. Colour only on a terminal.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use europa_tests::{Iperf, Ping, Received};

/// The measurements of one tenant.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) ping: Ping,
    pub(crate) tcp: Iperf,
    pub(crate) edits: Edits,
    pub(crate) stream: Received,
}

/// The result of editing a configuration while packets passed.
#[derive(Debug)]
pub(crate) struct Edits {
    pub(crate) count: u32,
    /// The longest that `europa apply` took.
    pub(crate) slowest: Duration,
    pub(crate) received: Received,
}

/// The text of a tenant's value in a row of the table.
type Cell = fn(&Figures) -> String;

/// Prints a line of text; a closed output is no failure.
pub(crate) fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

/// Does a step, and prints its name with the time that it took.
pub(crate) fn step<T, E>(what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let mut out = stdout();
    let terminal = out.is_terminal();
    let _ = write!(out, "  {what} ...");
    let _ = out.flush();
    let start = Instant::now();
    let result = work();
    let word = if result.is_ok() { paint("32", "done") } else { paint("31", "failed") };
    let begin = if terminal { format!("\r  {what}    ") } else { String::new() };
    let _ = writeln!(out, "{begin} {word} ({:.1} s)", start.elapsed().as_secs_f64());
    result
}

/// Text in a colour, if it goes to a terminal.
pub(crate) fn paint(colour: &str, text: &str) -> String {
    if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{colour}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// The closing table.
pub(crate) fn table(red: &Figures, blue: &Figures, restart: Duration) {
    let rows: [(&str, Cell); 12] = [
        ("round trip, median", |f| time(f.ping.median().unwrap_or_default())),
        ("round trip, longest", |f| time(f.ping.times.iter().max().copied().unwrap_or_default())),
        ("pings lost", |f| lost((f.ping.sent - f.ping.received).into(), f.ping.sent.into())),
        ("TCP, both at once", |f| format!("{:.2} Gb/s", f.tcp.bits_per_second / 1e9)),
        ("TCP segments sent again", |f| grouped(f.tcp.retransmits)),
        ("edited under load", |f| format!("{} times", f.edits.count)),
        ("longest `europa apply`", |f| time(f.edits.slowest)),
        ("packets lost by that", |f| {
            lost(f.edits.received.lost, f.edits.received.packets + f.edits.received.lost)
        }),
        ("longest pause by that", |f| time(f.edits.received.longest_gap)),
        ("lost while red was killed", |f| lost(f.stream.lost, f.stream.packets + f.stream.lost)),
        ("foreign, changed, doubled", |f| {
            grouped(f.stream.foreign + f.stream.corrupted + f.stream.duplicates)
        }),
        ("longest pause by that", |f| time(f.stream.longest_gap)),
    ];
    say("");
    let head = format!("  {:<27} {:>22} {:>22}", "", "red (builtin: ipv4)", "blue (Click)");
    say(&paint("1", &head));
    for (name, cell) in rows {
        say(&format!("  {name:<27} {:>22} {:>22}", cell(red), cell(blue)));
    }
    say(&format!(
        "  {:<27} {:>22} {:>22}",
        "killed; forwarded again in",
        time(restart),
        "not killed"
    ));
    say("");
}

fn time(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{} µs", time.as_micros())
    } else {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    }
}

fn lost(lost: u64, sent: u64) -> String {
    format!("{} of {}", grouped(lost), grouped(sent))
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(time(Duration::from_micros(87)), "87 µs");
        assert_eq!(time(Duration::from_micros(12_340)), "12.3 ms");
    }
}
