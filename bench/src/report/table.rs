//! Tables for the terminal and for Markdown.

use std::fmt::Write as _;

/// Alignment of a column's text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Rows of text under a heading.
pub(crate) struct Table {
    title: String,
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(title: &str, columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: impl Into<Vec<String>>) {
        self.rows.push(row.into());
    }

    /// For the terminal.
    pub(crate) fn to_text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let header = self.columns.get(index).map_or(0, |(name, _)| width(name));
                self.rows
                    .iter()
                    .filter_map(|row| row.get(index))
                    .map(|cell| width(cell))
                    .fold(header, usize::max)
            })
            .collect();
        let line = |cells: Vec<&str>| {
            let mut text = String::new();
            for ((cell, (_, align)), wanted) in cells.iter().zip(&self.columns).zip(&widths) {
                let gap = " ".repeat(wanted.saturating_sub(width(cell)));
                let _ = match align {
                    Align::Left => write!(text, "  {cell}{gap}"),
                    Align::Right => write!(text, "  {gap}{cell}"),
                };
            }
            text.trim_end().to_owned() + "\n"
        };
        let mut text = format!("{}\n", self.title);
        text += &line(self.columns.iter().map(|(name, _)| name.as_str()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(String::as_str).collect());
        }
        text
    }

    /// For Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n|", self.title);
        for (name, _) in &self.columns {
            let _ = write!(text, " {name} |");
        }
        text += "\n|";
        for (_, align) in &self.columns {
            text += if *align == Align::Left { "---|" } else { "---:|" };
        }
        for row in &self.rows {
            text += "\n|";
            for cell in row {
                let _ = write!(text, " {cell} |");
            }
        }
        text + "\n"
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_on_the_right() {
        let mut table = Table::new("T", &[("name", Align::Left), ("n", Align::Right)]);
        table.push(["a".to_owned(), "1".to_owned()]);
        table.push(["longer".to_owned(), "23".to_owned()]);
        assert_eq!(table.to_text(), "T\n  name     n\n  a        1\n  longer  23\n");
        let markdown = "## T\n\n| name | n |\n|---|---:|\n| a | 1 |\n| longer | 23 |\n";
        assert_eq!(table.to_markdown(), markdown);
    }
}
