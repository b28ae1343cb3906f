//! Curves over a common axis.

use crate::machine::Machine;
use crate::report::axis::{Axis, label};
use crate::report::svg::{Anchor, GREY, GRID, INK, MARGIN, Svg, WIDTH, colour};

/// A curve.
pub(crate) struct Line {
    /// What it stands for.
    pub(crate) name: String,
    /// In small print after it.
    pub(crate) detail: String,
    /// Its points.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of curves.
pub(crate) struct Lines {
    /// Heading.
    pub(crate) title: String,
    /// What the horizontal axis counts.
    pub(crate) x: String,
    /// What the vertical axis counts.
    pub(crate) y: String,
    /// Name of the line on which both are equal, if it is to be drawn.
    pub(crate) diagonal: Option<String>,
    /// Its curves.
    pub(crate) lines: Vec<Line>,
}

const PLOT_HEIGHT: f64 = 340.0;
const LEGEND_ROW: f64 = 19.0;

impl Lines {
    pub(super) fn to_svg(&self, machine: &Machine) -> String {
        let legend = 52.0;
        let top = legend + self.lines.len() as f64 * LEGEND_ROW + 14.0;
        let (left, right, bottom) = (MARGIN + 46.0, WIDTH - MARGIN - 12.0, top + PLOT_HEIGHT);
        let mut svg = Svg::new(&self.title, bottom + 76.0);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::linear(points().map(|point| point.0).fold(0.0, f64::max), left, right);
        let y = Axis::linear(points().map(|point| point.1).fold(0.0, f64::max), bottom, top);

        for tick in x.ticks() {
            svg.line((x.at(tick), top), (x.at(tick), bottom), GRID, 1.0);
            svg.small(x.at(tick), bottom + 18.0, &label(tick), Anchor::Middle);
        }
        for tick in y.ticks() {
            svg.line((left, y.at(tick)), (right, y.at(tick)), GRID, 1.0);
            svg.small(left - 8.0, y.at(tick) + 4.0, &label(tick), Anchor::End);
        }
        svg.text((left + right) / 2.0, bottom + 40.0, &self.x, Anchor::Middle);
        svg.upwards(MARGIN + 6.0, (top + bottom) / 2.0, &self.y);
        if let Some(name) = &self.diagonal {
            let end = x.high().min(y.high());
            svg.dashed((left, bottom), (x.at(end), y.at(end)), GREY);
            svg.small(x.at(end * 0.97) + 8.0, y.at(end * 0.97) + 4.0, name, Anchor::Start);
        }
        svg.line((left, bottom), (right, bottom), INK, 1.2);
        svg.line((left, top), (left, bottom), INK, 1.2);
        for (index, line) in self.lines.iter().enumerate() {
            let placed: Vec<(f64, f64)> =
                line.points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
            svg.curve(&placed, colour(index));
            for point in placed {
                svg.mark(point, index);
            }
            let row = legend + index as f64 * LEGEND_ROW;
            svg.line((left, row), (left + 28.0, row), colour(index), 2.0);
            svg.mark((left + 14.0, row), index);
            svg.text(left + 36.0, row + 4.0, &line.name, Anchor::Start);
            svg.small(left + 126.0, row + 4.0, &line.detail, Anchor::Start);
        }
        svg.finish(machine)
    }
}
