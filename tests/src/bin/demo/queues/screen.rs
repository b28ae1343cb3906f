//! The moving picture: on a terminal it replaces the former picture, elsewhere it is a line a
//! second.

use std::io::{IsTerminal, stdout};

use super::{SENDERS, Sample};
use crate::report::{paint, say};

/// Characters of a full bar, and the Mb/s that it stands for.
const WIDTH: usize = 24;
const FULL: f64 = 600.0;
/// Packets that a full bar of a queue stands for.
const FULL_QUEUE: f64 = 200.0;

/// Draws the moving picture.
pub(crate) struct Screen {
    terminal: bool,
    drawn: bool,
    said: f64,
}

fn bar(value: f64, full: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((value / full).clamp(0.0, 1.0) * (width * 8) as f64) as usize;
    let text = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    let missing = width.saturating_sub(text.chars().count());
    text + &" ".repeat(missing)
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { terminal: stdout().is_terminal(), drawn: false, said: f64::NEG_INFINITY }
    }

    pub(crate) fn draw(&mut self, title: &str, sample: &Sample) {
        if !self.terminal {
            if sample.seconds - self.said >= 1.0 {
                self.said = sample.seconds;
                let row = |values: &[f64]| {
                    values.iter().map(|value| format!("{value:>5.0}")).collect::<String>()
                };
                say(&format!(
                    "  {:>5.1} s  sent {}  got {}  ideal {}  waiting {}",
                    sample.seconds,
                    row(&sample.sent),
                    row(&sample.got),
                    row(&sample.ideal),
                    row(&sample.waiting)
                ));
            }
            return;
        }
        if self.drawn {
            // Moves the cursor up to the top of the last picture.
            say(&format!("\x1b[{}A", SENDERS.len() + 3));
        }
        self.drawn = true;
        say(&format!("\r\x1b[K  {:>5.1} s  {title}", sample.seconds));
        let head = format!(
            "\x1b[K  {:<6} {:>4}  {:<30} {:<30} {:>6}  waiting",
            "", "", "sent, Mb/s", "got, Mb/s", "ideal"
        );
        say(&paint("1", &head));
        for (at, (name, share)) in SENDERS.iter().enumerate() {
            let colour = (31 + at % 6).to_string();
            say(&format!(
                "\x1b[K  {name:<6} {share:>3}%  {} {:>5.0} {} {:>5.0} {:>6.0}  {} {:>3.0}",
                paint("90", &bar(sample.sent[at], FULL, WIDTH)),
                sample.sent[at],
                paint(&colour, &bar(sample.got[at], FULL, WIDTH)),
                sample.got[at],
                sample.ideal[at],
                paint(&colour, &bar(sample.waiting[at], FULL_QUEUE, 10)),
                sample.waiting[at]
            ));
        }
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        say(&format!(
            "\x1b[K  {:<6} {:>4}  {:<24} {:>5.0} {:<24} {:>5.0} {:>6.0}",
            "all",
            "",
            "",
            sum(&sample.sent),
            "",
            sum(&sample.got),
            sum(&sample.ideal)
        ));
    }
}
