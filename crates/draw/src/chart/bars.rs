//! Horizontal bars with the figure at their end.

use super::axis::{Axis, label};
use super::canvas::{Anchor, GRID, INK, MARGIN, Svg, WIDTH, colour};

/// A bar.
pub struct Bar {
    /// The bar's label; empty for the further bars of a group.
    pub label: String,
    /// In small print below.
    pub detail: String,
    /// Its length.
    pub value: f64,
    /// Smallest and largest measurement.
    pub range: Option<(f64, f64)>,
    /// Written at its end.
    pub note: String,
    /// Index of its series.
    pub series: usize,
}

/// A bar chart.
pub struct Bars {
    /// Heading.
    pub title: String,
    /// The axis label.
    pub unit: String,
    /// Names of the series; empty if there is only one.
    pub series: Vec<String>,
    /// Its bars, from top to bottom.
    pub bars: Vec<Bar>,
}

const LABELS: f64 = 110.0;
const LABELS_WITH_DETAIL: f64 = 200.0;
const NOTES: f64 = 130.0;
const THICKNESS: f64 = 22.0;

impl Bars {
    /// The drawing, with `footer` in small print below it.
    pub fn svg(&self, footer: &str) -> String {
        let top = if self.series.is_empty() { 56.0 } else { 78.0 };
        let mut positions = Vec::new();
        let mut y = top;
        for (index, bar) in self.bars.iter().enumerate() {
            if index > 0 {
                y += if bar.label.is_empty() { 3.0 } else { 20.0 };
            }
            positions.push(y);
            y += THICKNESS;
        }
        let bottom = y + 10.0;
        let mut svg = Svg::new(&self.title, bottom + 72.0);
        let largest = self
            .bars
            .iter()
            .map(|bar| bar.range.map_or(bar.value, |(_, high)| high.max(bar.value)))
            .fold(0.0, f64::max);
        let plain = self.bars.iter().all(|bar| bar.detail.is_empty());
        let left = MARGIN + if plain { LABELS } else { LABELS_WITH_DETAIL };
        let axis = Axis::linear(largest, left, WIDTH - MARGIN - NOTES);

        for tick in axis.ticks() {
            svg.line((axis.at(tick), top - 8.0), (axis.at(tick), bottom), GRID, 1.0);
            svg.small(axis.at(tick), bottom + 16.0, &label(tick), Anchor::Middle);
        }
        svg.text((left + axis.at(axis.high())) / 2.0, bottom + 36.0, &self.unit, Anchor::Middle);
        for (index, name) in self.series.iter().enumerate() {
            let x = left + index as f64 * 160.0;
            svg.rectangle(x, 47.0, 12.0, 12.0, colour(index));
            svg.text(x + 18.0, 57.0, name, Anchor::Start);
        }
        for (bar, y) in self.bars.iter().zip(positions) {
            let middle = y + THICKNESS / 2.0;
            let end = axis.at(bar.value);
            svg.rectangle(left, y, (end - left).max(0.5), THICKNESS, colour(bar.series));
            let mut note_at = end;
            if let Some((low, high)) = bar.range {
                let (low, high) = (axis.at(low), axis.at(high));
                svg.line((low, middle), (high, middle), INK, 1.2);
                for x in [low, high] {
                    svg.line((x, middle - 4.0), (x, middle + 4.0), INK, 1.2);
                }
                note_at = note_at.max(high);
            }
            svg.text(note_at + 8.0, middle + 4.0, &bar.note, Anchor::Start);
            let raised = if bar.detail.is_empty() { 4.0 } else { -1.0 };
            svg.text(left - 10.0, middle + raised, &bar.label, Anchor::End);
            svg.small(left - 10.0, middle + 12.0, &bar.detail, Anchor::End);
        }
        svg.line((left, top - 8.0), (left, bottom), INK, 1.2);
        svg.finish(footer)
    }
}
