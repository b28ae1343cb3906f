//! Curves over a common axis.

use super::axis::{Axis, label};
use super::canvas::{Anchor, GREY, GRID, INK, MARGIN, Svg, WIDTH, colour};

/// A curve.
pub struct Line {
    /// Its label.
    pub name: String,
    /// In small print after it.
    pub detail: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// A chart of curves.
pub struct Lines {
    /// Heading.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// Figures on a logarithmic horizontal axis, from its beginning to its end. Without figures,
    /// the axis is linear and begins with 0.
    pub factors: Vec<f64>,
    /// The label of the vertical axis.
    pub y: String,
    /// Name of the line on which both axes are equal, if the chart has one.
    pub diagonal: Option<String>,
    /// Its curves.
    pub lines: Vec<Line>,
}

const PLOT_HEIGHT: f64 = 340.0;
/// Height of each of several charts on one sheet.
const PANEL_HEIGHT: f64 = 150.0;
const LEGEND: f64 = 52.0;
const LEGEND_ROW: f64 = 19.0;
/// Width of a name in a legend of one row.
const LEGEND_COLUMN: f64 = 140.0;
/// A curve with more points has marks only at some of them.
const MOST_MARKS: usize = 20;

impl Lines {
    /// The drawing, with `footer` in small print below it.
    pub fn svg(&self, footer: &str) -> String {
        let top = LEGEND + self.lines.len() as f64 * LEGEND_ROW + 14.0;
        let mut svg = Svg::new(&self.title, top + PLOT_HEIGHT + 76.0);
        let (x, _) = self.axes(top, PLOT_HEIGHT);
        self.plot(&mut svg, top, PLOT_HEIGHT, x);
        svg.text(middle(), top + PLOT_HEIGHT + 40.0, &self.x, Anchor::Middle);
        for (index, line) in self.lines.iter().enumerate() {
            let row = LEGEND + index as f64 * LEGEND_ROW;
            legend(&mut svg, MARGIN + 46.0, row, index, &line.name);
            svg.small(MARGIN + 172.0, row + 4.0, &line.detail, Anchor::Start);
        }
        svg.finish(footer)
    }

    fn axes(&self, top: f64, height: f64) -> (Axis, Axis) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = match (self.factors.first(), self.factors.last()) {
            (Some(low), Some(high)) => Axis::factors(*low, *high, LEFT, RIGHT),
            _ => Axis::until(points().map(|point| point.0).fold(0.0, f64::max), LEFT, RIGHT),
        };
        let y = points().map(|point| point.1).fold(0.0, f64::max);
        (x, Axis::linear(y, top + height, top))
    }

    /// Draws grid, axes and curves; `x` may be a longer axis than the chart's own.
    fn plot(&self, svg: &mut Svg, top: f64, height: f64, x: Axis) {
        let (bottom, (_, y)) = (top + height, self.axes(top, height));
        let ticks = if self.factors.is_empty() { x.ticks() } else { self.factors.clone() };
        for tick in ticks {
            svg.line((x.at(tick), top), (x.at(tick), bottom), GRID, 1.0);
            svg.small(x.at(tick), bottom + 18.0, &label(tick), Anchor::Middle);
        }
        for tick in y.ticks() {
            svg.line((LEFT, y.at(tick)), (RIGHT, y.at(tick)), GRID, 1.0);
            svg.small(LEFT - 8.0, y.at(tick) + 4.0, &label(tick), Anchor::End);
        }
        svg.upwards(MARGIN + 6.0, (top + bottom) / 2.0, &self.y);
        if let Some(name) = &self.diagonal {
            let end = x.high().min(y.high());
            svg.dashed((LEFT, bottom), (x.at(end), y.at(end)), GREY);
            svg.small(x.at(end * 0.97) + 8.0, y.at(end * 0.97) + 4.0, name, Anchor::Start);
        }
        svg.line((LEFT, bottom), (RIGHT, bottom), INK, 1.2);
        svg.line((LEFT, top), (LEFT, bottom), INK, 1.2);
        for (index, line) in self.lines.iter().enumerate() {
            let placed: Vec<(f64, f64)> =
                line.points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
            svg.curve(&placed, colour(index));
            let step = placed.len().div_ceil(MOST_MARKS).max(1);
            // If curves coincide, their marks are at different points.
            for point in placed.iter().skip((index * step / 3) % step).step_by(step) {
                svg.mark(*point, index);
            }
        }
    }
}

const LEFT: f64 = MARGIN + 46.0;
const RIGHT: f64 = WIDTH - MARGIN - 12.0;

fn middle() -> f64 {
    (LEFT + RIGHT) / 2.0
}

fn legend(svg: &mut Svg, x: f64, y: f64, index: usize, name: &str) {
    svg.line((x, y), (x + 28.0, y), colour(index), 2.0);
    svg.mark((x + 14.0, y), index);
    svg.text(x + 36.0, y + 4.0, name, Anchor::Start);
}

/// Draws several charts of the same curves below each other, over one horizontal axis. The first
/// chart has the legend, and the axis's name.
pub fn panels(title: &str, charts: &[Lines], footer: &str) -> String {
    let Some(first) = charts.first() else { return Svg::new(title, LEGEND).finish(footer) };
    let columns = ((RIGHT - LEFT) / LEGEND_COLUMN).floor().max(1.0) as usize;
    let rows = first.lines.len().div_ceil(columns) as f64;
    let top = LEGEND + rows * LEGEND_ROW + 12.0;
    let step = PANEL_HEIGHT + 58.0;
    let mut svg = Svg::new(title, top + charts.len() as f64 * step + 44.0);
    for (index, line) in first.lines.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let (x, y) = (LEFT + column as f64 * LEGEND_COLUMN, LEGEND + row as f64 * LEGEND_ROW);
        legend(&mut svg, x, y, index, &line.name);
    }
    let longest = |chart: &Lines| chart.axes(0.0, 1.0).0;
    let x = charts.iter().map(longest).max_by(|a, b| a.high().total_cmp(&b.high()));
    for (chart, index) in charts.iter().zip(0_u16..) {
        let top = top + f64::from(index) * step + 22.0;
        svg.text(LEFT, top - 8.0, &chart.title, Anchor::Start);
        if let Some(x) = x {
            chart.plot(&mut svg, top, PANEL_HEIGHT, x);
        }
    }
    svg.text(middle(), top + charts.len() as f64 * step + 16.0, &first.x, Anchor::Middle);
    svg.finish(footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(title: &str, points: usize) -> Lines {
        let points = (0..points).map(|at| (at as f64, 2.0 * at as f64)).collect();
        let line = Line { name: "red".into(), detail: String::new(), points };
        Lines {
            title: title.into(),
            x: "seconds".into(),
            factors: Vec::new(),
            y: "Mb/s".into(),
            diagonal: None,
            lines: vec![line],
        }
    }

    #[test]
    fn long_curves_have_few_marks() {
        let marks = |points| chart("", points).svg("").matches("<circle").count();
        // One mark is in the legend.
        assert_eq!((marks(5), marks(20), marks(4000)), (6, 21, 21));
    }

    #[test]
    fn factors_are_equally_far_apart() {
        let mut chart = chart("", 5);
        chart.factors = vec![1.0, 2.0, 4.0];
        let svg = chart.svg("");
        let at = |figure: &str| -> f64 {
            let line = svg.lines().find(|line| line.ends_with(&format!(">{figure}</text>")));
            let (_, rest) = line.and_then(|line| line.split_once("x=\"")).expect("a figure");
            rest.split('"').next().and_then(|x| x.parse().ok()).expect("its place")
        };
        assert!((at("1") + at("4") - 2.0 * at("2")).abs() < 0.2, "{svg}");
    }

    #[test]
    fn panels_share_legend_and_axis() {
        let svg = panels("rates", &[chart("in", 10), chart("out", 100)], "here");
        for (text, times) in [("rates", 1), (">red<", 1), ("seconds", 1), (">in<", 1), (">80<", 2)]
        {
            assert_eq!(svg.matches(text).count(), times, "{text} in {svg}");
        }
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(panels("nothing", &[], "").ends_with("</svg>\n"));
    }
}
