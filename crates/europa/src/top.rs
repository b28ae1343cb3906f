//! `top`: shows rates of slices, routers, interfaces, ports and queues on the whole terminal.
//!
//! | file   | concern                                             |
//! |--------|-----------------------------------------------------|
//! | `top`  | the shown rows, and the effect of keys              |
//! | `draw` | the layout                                          |

mod draw;

use std::collections::{HashMap, VecDeque};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use europa_api::stats::NodeStats;
use europa_node::Instance;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use crate::exit::Failure;
use crate::rates::{Interval, Row, View};
use crate::up::client;
use crate::watch::read;

/// Readings in the history.
const HISTORY: usize = 240;
/// Shortest and longest interval that keys select.
const INTERVALS: [Duration; 2] = [Duration::from_millis(125), Duration::from_secs(16)];

/// The state of the screen.
struct Top {
    instance: String,
    view: View,
    every: Duration,
    paused: bool,
    help: bool,
    /// Column to sort by, for each view; 0 is the name.
    sort: HashMap<&'static str, usize>,
    /// True if the order is reversed: the largest figure comes last.
    ascending: bool,
    table: TableState,
    /// The rows of the present view, sorted.
    rows: Vec<Row>,
    seconds: f64,
    readings: Option<(NodeStats, NodeStats)>,
    /// The figures of [`View::REMEMBERED`] by view and name; the latest is last.
    history: HashMap<(&'static str, String), VecDeque<[u64; 2]>>,
    /// Why the last reading failed.
    trouble: Option<String>,
}

impl Top {
    fn new(instance: &str, every: Duration) -> Self {
        Self {
            instance: instance.to_owned(),
            view: View::default(),
            every,
            paused: false,
            help: false,
            sort: HashMap::new(),
            ascending: false,
            table: TableState::new().with_selected(0),
            rows: Vec::new(),
            seconds: 0.0,
            readings: None,
            history: HashMap::new(),
            trouble: None,
        }
    }

    /// Takes a new reading.
    fn heard(&mut self, reading: NodeStats) {
        self.trouble = None;
        let before = match self.readings.take() {
            Some((_, latest)) => latest,
            None => reading.clone(),
        };
        let interval = Interval::new(&before, &reading);
        self.seconds = interval.seconds();
        for view in View::ALL {
            for row in interval.rows(view) {
                let past = self.history.entry((view.title(), row.name)).or_default();
                if past.len() == HISTORY {
                    past.pop_front();
                }
                let value = |place| row.values.get(place).map_or(0, |value: &f64| *value as u64);
                past.push_back(View::REMEMBERED.map(value));
            }
        }
        self.readings = Some((before, reading));
        self.arrange();
    }

    /// Column to sort by; 0 is the name.
    fn sorted_by(&self) -> usize {
        self.sort.get(self.view.title()).copied().unwrap_or(View::REMEMBERED[1] + 1)
    }

    /// Calculates the rows of the view.
    fn arrange(&mut self) {
        let Some((before, after)) = &self.readings else { return };
        let mut rows = Interval::new(before, after).rows(self.view);
        match self.sorted_by() {
            0 => rows.sort_by(|a, b| b.name.cmp(&a.name)),
            column => {
                let value = |row: &Row| row.values.get(column - 1).copied().unwrap_or(0.0);
                rows.sort_by(|a, b| {
                    value(a).total_cmp(&value(b)).then_with(|| b.name.cmp(&a.name))
                });
            }
        }
        if !self.ascending {
            rows.reverse();
        }
        self.rows = rows;
        let last = self.rows.len().saturating_sub(1);
        self.table.select(Some(self.table.selected().unwrap_or(0).min(last)));
    }

    /// Carries out a key; returns false if the key ends the program.
    fn pressed(&mut self, key: KeyCode, modifiers: KeyModifiers) -> bool {
        if self.help {
            self.help = false;
            return key != KeyCode::Char('q');
        }
        let columns = self.view.columns().len() + 1;
        let place = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        let views = View::ALL.len();
        match key {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Tab => self.view = View::ALL[(place + 1) % views],
            KeyCode::BackTab => self.view = View::ALL[(place + views - 1) % views],
            KeyCode::Char(digit @ '1'..='9') => {
                let wanted = digit as usize - '1' as usize;
                self.view = View::ALL.get(wanted).copied().unwrap_or(self.view);
            }
            KeyCode::Right => {
                self.sort.insert(self.view.title(), (self.sorted_by() + 1) % columns);
            }
            KeyCode::Left => {
                self.sort.insert(self.view.title(), (self.sorted_by() + columns - 1) % columns);
            }
            KeyCode::Down => self.table.select_next(),
            KeyCode::Up => self.table.select_previous(),
            KeyCode::PageDown => self.table.scroll_down_by(10),
            KeyCode::PageUp => self.table.scroll_up_by(10),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select(Some(self.rows.len())),
            KeyCode::Char('r') => self.ascending = !self.ascending,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.every = (self.every / 2).max(INTERVALS[0]),
            KeyCode::Char('-') => self.every = (self.every * 2).min(INTERVALS[1]),
            KeyCode::Char('?' | 'h') => self.help = true,
            _ => {}
        }
        self.arrange();
        true
    }
}

pub(crate) fn top(instance: &Instance, every: Duration) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let mut top = Top::new(instance.name(), every);
    // If no node runs, this reports it before the terminal changes.
    top.heard(read(&client)?);
    let mut terminal = ratatui::try_init().map_err(|error| {
        format!("`europa top` needs a terminal ({error}): use `europa stats --watch`")
    })?;
    let result = (|| -> std::io::Result<()> {
        let mut looked = Instant::now();
        loop {
            terminal.draw(|frame| draw::draw(frame, &mut top))?;
            let left = top.every.saturating_sub(looked.elapsed());
            if event::poll(left)? {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && !top.pressed(key.code, key.modifiers)
                {
                    return Ok(());
                }
                continue;
            }
            looked = Instant::now();
            if !top.paused {
                match read(&client) {
                    Ok(reading) => top.heard(reading),
                    Err(failure) => top.trouble = Some(failure.to_string()),
                }
            }
        }
    })();
    ratatui::restore();
    result?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;

    fn watched() -> Top {
        let mut top = Top::new("default", Duration::from_secs(1));
        top.heard(reading(0, 0));
        top.heard(reading(1_000_000_000, 1_000_000));
        top
    }

    fn names(top: &Top) -> Vec<&str> {
        top.rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn keys_choose_view_column_and_order() {
        let mut top = watched();
        assert_eq!(names(&top), ["red", "blue"], "most bits first");
        let mut press = |key| {
            assert!(top.pressed(key, KeyModifiers::NONE));
            names(&top).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(press(KeyCode::Char('r')), ["blue", "red"]);
        press(KeyCode::Char('r'));
        assert_eq!(press(KeyCode::Tab), ["red/a", "blue/a", "red/b"], "equal ones by name");
        for _ in 0..4 {
            press(KeyCode::Left);
        }
        assert_eq!(press(KeyCode::Down), ["blue/a", "red/a", "red/b"], "sorted by name");
        assert_eq!(press(KeyCode::Char('4')), ["left (eth0)"]);
        press(KeyCode::End);
        assert_eq!(press(KeyCode::BackTab).len(), 4);
        assert_eq!(top.table.selected(), Some(0), "never below the last line");
        assert!(!top.pressed(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!top.pressed(KeyCode::Char('c'), KeyModifiers::CONTROL));
    }

    #[test]
    fn history_is_bounded() {
        let mut top = watched();
        for n in 2..2 * HISTORY as u64 {
            top.heard(reading(n * 1_000_000_000, n * 1_000_000));
        }
        assert!(top.history.values().all(|past| past.len() == HISTORY));
    }
}
