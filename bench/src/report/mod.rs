//! Reports: the result of a case as text, Markdown, JSON and SVG.

mod table;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

pub(crate) use europa_draw::chart::{Bar, Bars, Dot, Dots, Line, Lines};

pub(crate) use self::table::{Align, Table};
use crate::error::{Context, Result};
use crate::machine::Machine;

/// The result of a case.
pub(crate) struct Outcome {
    /// Name of the case and of its files.
    pub(crate) name: &'static str,
    /// Heading.
    pub(crate) title: String,
    /// The figures as tables.
    pub(crate) tables: Vec<Table>,
    /// The figures as charts, with the names of their files.
    pub(crate) charts: Vec<(String, Chart)>,
    /// Origin of the figures, and remarks.
    pub(crate) notes: Vec<String>,
    /// Every single measurement.
    pub(crate) data: serde_json::Value,
}

/// A picture.
pub(crate) enum Chart {
    /// Horizontal bars.
    Bars(Bars),
    /// Curves.
    Lines(Lines),
    /// Several figures of each row as dots on a logarithmic axis.
    Dots(Dots),
}

impl Chart {
    fn svg(&self, footer: &str) -> String {
        match self {
            Self::Bars(bars) => bars.svg(footer),
            Self::Lines(lines) => lines.svg(footer),
            Self::Dots(dots) => dots.svg(footer),
        }
    }
}

/// Formats 1 234 567 as `1 234`: thousands, grouped by thin spaces.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value / 1e3);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Prints an outcome and writes its files into a folder.
pub(crate) fn write(outcome: &Outcome, machine: &Machine, folder: &Path) -> Result<()> {
    println!("\n{}", outcome.title);
    for table in &outcome.tables {
        println!("\n{}", table.to_text());
    }
    for note in &outcome.notes {
        println!("* {note}");
    }
    println!("* {machine}");

    std::fs::create_dir_all(folder).context(format!("making {}", folder.display()))?;
    let save = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).context(format!("writing {}", path.display()))
    };
    for (name, chart) in &outcome.charts {
        save(format!("{name}.svg"), chart.svg(&machine.in_short()))?;
    }
    save(format!("{}.md", outcome.name), markdown(outcome, machine))?;
    let document = json!({ "case": outcome.name, "machine": machine, "results": outcome.data });
    save(format!("{}.json", outcome.name), format!("{document:#}\n"))?;
    println!("* written to {}", folder.display());
    Ok(())
}

fn markdown(outcome: &Outcome, machine: &Machine) -> String {
    let mut text = format!("# {}\n\n{machine}\n", outcome.title);
    for (name, _) in &outcome.charts {
        let _ = write!(text, "\n![{name}]({name}.svg)\n");
    }
    for table in &outcome.tables {
        let _ = write!(text, "\n{}", table.to_markdown());
    }
    text.push('\n');
    for note in &outcome.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (value, text) in
            [(0.0, "0"), (999_400.0, "999"), (1_234_567.0, "1\u{202f}235"), (12e6, "12\u{202f}000")]
        {
            assert_eq!(thousands(value), text);
        }
    }
}
