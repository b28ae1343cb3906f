//! Output: aligned columns, numbers with units, and colours on terminals.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

/// Prints to standard output. A closed pipe, as after `head`, ends the process without a message.
pub(crate) fn put(text: Arguments<'_>) {
    if let Err(error) = std::io::stdout().write_fmt(text) {
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("europa: standard output: {error}");
        }
        std::process::exit(1);
    }
}

/// Prints without a newline.
macro_rules! out {
    ($($what:tt)*) => { $crate::table::put(format_args!($($what)*)) };
}

/// Prints a line.
macro_rules! line {
    ($($what:tt)*) => { $crate::table::put(format_args!("{}\n", format_args!($($what)*))) };
}

pub(crate) use {line, out};

/// A text from another program in one line, with control characters escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The same for a text that may have several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Colours for standard output, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Colours(bool);

fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// True if standard error shows colours.
pub(crate) fn errors_in_colour() -> bool {
    std::io::stderr().is_terminal() && wanted()
}

impl Colours {
    /// For standard output: on terminals, unless NO_COLOR is set.
    pub(crate) fn stdout() -> Colours {
        Colours(std::io::stdout().is_terminal() && wanted())
    }

    /// None.
    #[cfg(test)]
    pub(crate) fn none() -> Colours {
        Colours(false)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A state, in green if it is the desired one.
    pub(crate) fn state(self, state: &str) -> String {
        match state.trim_end() {
            "running" | "attached" | "active" => self.green(state),
            "starting" | "waiting" => self.yellow(state),
            _ => self.red(state),
        }
    }
}

/// Rows of one table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns that are aligned to the right.
    right: Vec<usize>,
    /// The column of states.
    state: Option<usize>,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table { header: header.to_vec(), rows: Vec::new(), right: Vec::new(), state: None }
    }

    /// Aligns columns to the right.
    pub(crate) fn right(mut self, columns: &[usize]) -> Table {
        self.right = columns.to_vec();
        self
    }

    /// Colours a column of states.
    pub(crate) fn state(mut self, column: usize) -> Table {
        self.state = Some(column);
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// The text; each column is as wide as its widest cell.
    pub(crate) fn text(&self, colours: Colours) -> String {
        let header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        let width = |column: usize| {
            let cells = std::iter::once(&header).chain(&self.rows);
            cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> =
            (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for (index, row) in std::iter::once(&header).chain(&self.rows).enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let last = column + 1 == row.len();
                let gap = width - cell.chars().count();
                let cell = match self.state {
                    _ if index == 0 => colours.bold(cell),
                    Some(state) if state == column => colours.state(cell),
                    _ => cell.clone(),
                };
                if self.right.contains(&column) {
                    line += &" ".repeat(gap);
                    line += &cell;
                } else {
                    line += &cell;
                    line += &" ".repeat(if last { 0 } else { gap });
                }
                line += if last { "" } else { "  " };
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }
}

/// A number in at most four characters with its unit: `1.2 Gb/s`, `300 MB`, `17 p/s`.
///
/// The parsers of rates and sizes in documents read this output for `b/s` and `B`.
pub(crate) fn scaled(value: f64, unit: &str) -> String {
    let prefixes = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    // Sizes have no larger unit than GB.
    let prefixes = if unit == "B" { &prefixes[..4] } else { &prefixes[..] };
    let digits = |shown: f64, prefix: &str| usize::from(!prefix.is_empty() && shown < 99.95);
    for (prefix, factor) in prefixes {
        let shown = value / factor;
        // The number would be rounded to 1000 of this unit, so the next unit is used.
        let is_last = prefixes.last().is_some_and(|(last, _)| last == prefix);
        if shown < 999.5 || is_last {
            return format!("{shown:.*} {prefix}{unit}", digits(shown, prefix));
        }
    }
    format!("{value:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "STATE", "PACKETS"]).right(&[2]).state(1);
        table.row(["red/r1".into(), "running".into(), "7".into()]);
        table.row(["x".into(), "ended".into(), "123456789".into()]);
        let wanted = "NAME    STATE      PACKETS\n\
                      red/r1  running          7\n\
                      x       ended    123456789\n";
        assert_eq!(table.text(Colours::none()), wanted);
        table.row(["a\u{1b}[31mRED\nb".into(), "é".into(), "1".into()]);
        assert!(table.text(Colours::none()).contains("a\\u{1b}[31mRED\\nb  é"));
        let coloured = table.text(Colours(true));
        assert!(coloured.contains("\x1b[32mrunning\x1b[0m"), "{coloured:?}");
        assert!(coloured.contains("\x1b[31mended\x1b[0m"), "{coloured:?}");
    }

    /// The parsers of documents read this output, within its precision.
    #[test]
    fn what_is_printed_can_be_read() {
        for (value, bits, bytes) in [
            (999.0, "999 b/s", "999 B"),
            (999.6, "1.0 kb/s", "1.0 kB"),
            (1e3, "1.0 kb/s", "1.0 kB"),
            (99_940.0, "99.9 kb/s", "99.9 kB"),
            (99_960.0, "100 kb/s", "100 kB"),
            (1.234e9, "1.2 Gb/s", "1.2 GB"),
            (999.7e9, "1.0 Tb/s", "1000 GB"),
            (2.5e12, "2.5 Tb/s", "2500 GB"),
        ] {
            assert_eq!(scaled(value, "b/s"), bits);
            assert_eq!(scaled(value, "B"), bytes);
            let rate: europa_api::Rate = bits.parse().expect("a rate");
            let size: europa_api::Bytes = bytes.parse().expect("a size");
            for read in [rate.bits_per_second as f64, size.0 as f64] {
                assert!((read / value - 1.0).abs() < 0.06, "{value} as {read}");
            }
        }
        assert_eq!(scaled(0.0, "p/s"), "0 p/s");
    }
}
