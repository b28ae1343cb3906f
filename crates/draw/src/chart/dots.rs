//! Several figures of each row as dots on a logarithmic axis.

use super::axis::{Axis, label};
use super::canvas::{Anchor, GRID, INK, MARGIN, Svg, WIDTH};

/// A row.
pub struct Dot {
    /// Its label.
    pub label: String,
    /// One figure for each series of the chart.
    pub values: Vec<f64>,
}

/// A dot chart.
pub struct Dots {
    /// Heading.
    pub title: String,
    /// The axis label.
    pub unit: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// Rows, from top to bottom.
    pub dots: Vec<Dot>,
}

const LABELS: f64 = 100.0;
const ROW: f64 = 44.0;

impl Dots {
    /// The drawing, with `footer` in small print below it.
    pub fn svg(&self, footer: &str) -> String {
        let top = 78.0;
        let bottom = top + self.dots.len() as f64 * ROW;
        let mut svg = Svg::new(&self.title, bottom + 72.0);
        let values = || self.dots.iter().flat_map(|dot| &dot.values).filter(|value| **value > 0.0);
        let smallest = values().copied().fold(f64::INFINITY, f64::min);
        let largest = values().copied().fold(0.0, f64::max);
        let (left, right) = (MARGIN + LABELS, WIDTH - MARGIN - 24.0);
        let (smallest, largest) = if largest > 0.0 { (smallest, largest) } else { (1.0, 10.0) };
        let axis = Axis::logarithmic(smallest, largest, left, right);

        for tick in axis.ticks() {
            svg.line((axis.at(tick), top - 8.0), (axis.at(tick), bottom), GRID, 1.0);
            svg.small(axis.at(tick), bottom + 18.0, &label(tick), Anchor::Middle);
        }
        svg.text((left + right) / 2.0, bottom + 38.0, &self.unit, Anchor::Middle);
        for (index, name) in self.series.iter().enumerate() {
            let x = left + index as f64 * 110.0;
            svg.mark((x + 6.0, 53.0), index);
            svg.text(x + 18.0, 57.0, name, Anchor::Start);
        }
        for (index, dot) in self.dots.iter().enumerate() {
            let y = top + (index as f64 + 0.5) * ROW;
            svg.line((left, y), (right, y), GRID, 1.0);
            svg.text(left - 10.0, y + 4.0, &dot.label, Anchor::End);
            for (series, value) in dot.values.iter().enumerate() {
                svg.mark((axis.at(*value), y), series);
                // Labels of neighbouring dots would overlap, so every second one is below.
                let beside = if series % 2 == 0 { -9.0 } else { 17.0 };
                let figure =
                    if *value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
                svg.small(axis.at(*value), y + beside, &figure, Anchor::Middle);
            }
        }
        svg.line((left, top - 8.0), (left, bottom), INK, 1.2);
        svg.finish(footer)
    }
}
