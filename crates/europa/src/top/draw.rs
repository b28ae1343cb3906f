//! The layout of `top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, Tabs};

use super::Top;
use crate::rates::{self, View};

/// Width of the bars beside names.
const BAR: usize = 12;
/// Width of a figure.
const FIGURE: u16 = 11;
/// Eighths of a character's width.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

const KEYS: [(&str, &str); 9] = [
    ("Tab, 1 to 5", "slices, routers, interfaces, ports, queues"),
    ("↑ ↓ PgUp PgDn", "select a line; its history is below"),
    ("← →", "select the column to sort by"),
    ("r", "reverse the order"),
    ("+ -", "read more often, less often"),
    ("space", "pause, continue"),
    ("?", "this list"),
    ("q, Esc, Ctrl-C", "end"),
    ("", "any key closes this list"),
];

pub(super) fn draw(frame: &mut Frame, top: &mut Top) {
    let past = if frame.area().height >= 16 { 7 } else { 0 };
    let [title, tabs, table, history] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(past),
    ])
    .areas(frame.area());
    frame.render_widget(self::title(top), title);
    let names = View::ALL.iter().zip(1..).map(|(view, n)| format!("{n} {}", view.title()));
    let place = View::ALL.iter().position(|view| *view == top.view);
    let selected = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Tabs::new(names).select(place).highlight_style(selected), tabs);
    self::table(frame, top, table);
    self::history(frame, top, history);
    if top.help {
        help(frame);
    }
}

fn title(top: &Top) -> Line<'static> {
    let mut line = vec![
        Span::from(format!("europa {}", top.instance)).bold(),
        Span::from(format!("  every {} s, last {:.3} s", top.every.as_secs_f64(), top.seconds)),
    ];
    if let Some((_, latest)) = &top.readings {
        let up = latest.routers.iter().filter(|router| router.state == "running").count();
        let all = latest.routers.len();
        let routers = Span::from(format!("  {up} of {all} routers run"));
        line.push(if up == all { routers } else { routers.red() });
        let switch = match &latest.switch {
            Some(_) => Span::from(format!(", switch restarted {} times", latest.switch_restarts)),
            None => Span::from(", switch not running").red(),
        };
        line.push(switch);
    }
    if top.paused {
        line.push(Span::from("  PAUSED").yellow());
    }
    if let Some(trouble) = &top.trouble {
        line.push(Span::from(format!("  {trouble}")).red());
    }
    line.push(Span::from("  ? for help").dim());
    Line::from(line)
}

/// A bar; its longest form has [`BAR`] characters.
fn bar(part: f64) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut text: String = std::iter::repeat_n(EIGHTHS[8], eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    text
}

fn table(frame: &mut Frame, top: &mut Top, area: Rect) {
    let sorted_by = top.sorted_by();
    let arrow = |place| match (place == sorted_by, top.ascending) {
        (true, false) => " ▼",
        (true, true) => " ▲",
        _ => "",
    };
    let columns = top.view.columns();
    let name = Line::from(format!("name{}", arrow(0)));
    let mut header = vec![Cell::from(name), Cell::from("")];
    header.extend(columns.iter().zip(1..).map(|((title, _), place)| {
        Cell::from(Line::from(format!("{title}{}", arrow(place))).right_aligned())
    }));
    let column = sorted_by.checked_sub(1).unwrap_or(View::REMEMBERED[1]);
    let value = |row: &rates::Row| row.values.get(column).copied().unwrap_or(0.0);
    let largest = top.rows.iter().map(value).fold(0.0, f64::max);
    let lines = top.rows.iter().map(|row| {
        let style = if row.well { Style::new() } else { Style::new().fg(Color::Red) };
        let part = if largest > 0.0 { value(row) / largest } else { 0.0 };
        let mut cells =
            vec![Cell::from(row.name.clone()), Cell::from(Span::from(bar(part)).fg(Color::Cyan))];
        cells.extend(
            row.values.iter().zip(columns).map(|(value, (_, unit))| {
                Cell::from(Line::from(unit.show(*value)).right_aligned())
            }),
        );
        Row::new(cells).style(style)
    });
    let mut widths = vec![Constraint::Min(16), Constraint::Length(BAR as u16)];
    widths.extend(columns.iter().map(|_| Constraint::Length(FIGURE)));
    let table = Table::new(lines, widths)
        .header(Row::new(header).style(Style::new().bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut top.table);
}

/// The history of the selected line.
fn history(frame: &mut Frame, top: &Top, area: Rect) {
    let chosen = top.table.selected().and_then(|place| top.rows.get(place));
    let Some(row) = chosen.filter(|_| area.height > 2) else { return };
    let Some(past) = top.history.get(&(top.view.title(), row.name.clone())) else { return };
    let halves = Layout::horizontal([Constraint::Ratio(1, 2); 2]).spacing(1).areas::<2>(area);
    for (index, half) in halves.into_iter().enumerate() {
        let Some((title, unit)) =
            View::REMEMBERED.get(index).and_then(|c| top.view.columns().get(*c))
        else {
            continue;
        };
        let width = usize::from(half.width);
        let values: Vec<u64> =
            past.iter().skip(past.len().saturating_sub(width)).map(|both| both[index]).collect();
        let most = values.iter().max().copied().unwrap_or(0);
        let title = format!("{} {title}, at most {} ", row.name, unit.show(most as f64));
        let line = Sparkline::default()
            .block(Block::new().title(title.bold()))
            .style(Style::new().fg(if index == 0 { Color::Green } else { Color::Blue }))
            .max(most.max(1))
            .data(values);
        frame.render_widget(line, half);
    }
}

fn help(frame: &mut Frame) {
    let lines: Vec<Line> =
        KEYS.iter().map(|(key, what)| Line::from(format!(" {key:<16} {what} "))).collect();
    let size = frame.area();
    let (width, height) = (60.min(size.width), (KEYS.len() as u16 + 2).min(size.height));
    let area = Rect::new((size.width - width) / 2, (size.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::rates::tests::reading;

    fn drawn(top: &mut Top, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, top)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn every_size_of_terminal_is_drawn_on() {
        let mut top = Top::new("default", Duration::from_secs(1));
        drawn(&mut top, 80, 24);
        top.heard(reading(0, 0));
        top.heard(reading(1_000_000_000, 1_000_000));
        for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60)] {
            for help in [false, true] {
                top.help = help;
                drawn(&mut top, width, height);
            }
        }
        top.help = false;
        let screen = drawn(&mut top, 140, 24);
        for text in [
            "3 of 3 routers run",
            "1 Slices",
            "out ▼",
            "red",
            "2.4 Gb/s",
            "██████",
            "red in, at most",
        ] {
            assert!(screen.contains(text), "{text} is missing on\n{screen}");
        }
        top.help = true;
        assert!(drawn(&mut top, 140, 24).contains("select the column"));
    }

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!((bar(0.0), bar(1.0)), (String::new(), "█".repeat(BAR)));
        assert_eq!(bar(1.5 / BAR as f64), "█▌");
        assert_eq!(bar(f64::NAN), "");
    }
}
