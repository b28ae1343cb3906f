//! Axes: round numbers and their positions.

/// A scale from figures to positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    /// From 0 to a round number not below `largest`, at positions `from` to `to`.
    pub(super) fn linear(largest: f64, from: f64, to: f64) -> Self {
        // The largest of only zeros is 0.
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = step(largest);
        let high = (largest / step).ceil().max(1.0) * step;
        Self { low: 0.0, high, from, to, logarithmic: false }
    }

    /// From 0 to exactly `largest`, for a time.
    pub(super) fn until(largest: f64, from: f64, to: f64) -> Self {
        let high = if largest > 0.0 { largest } else { 1.0 };
        Self { low: 0.0, high, from, to, logarithmic: false }
    }

    /// A logarithmic axis around the figures, in steps of 1, 2, 5, 10, …
    pub(super) fn logarithmic(smallest: f64, largest: f64, from: f64, to: f64) -> Self {
        let smallest = smallest.max(1e-9);
        let low = decades(smallest / 10.0, smallest).last().copied().unwrap_or(smallest);
        let high = decades(largest, largest * 10.0).first().copied().unwrap_or(largest);
        Self { low, high: high.max(low * 10.0), from, to, logarithmic: true }
    }

    /// A logarithmic axis from `low` to `high`, which are positive.
    pub(super) fn factors(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(1e-9);
        Self { low, high: high.max(low * 2.0), from, to, logarithmic: true }
    }

    /// The position of a figure.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// Largest figure on it.
    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// The figures that are written on the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            return decades(self.low, self.high);
        }
        let step = step(self.high);
        let count = (self.high / step + 1e-6).floor() as u32;
        (0..=count).map(|index| f64::from(index) * step).collect()
    }
}

/// A figure without needless zeros.
pub(super) fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// 1, 2 or 5 times a power of ten, such that four to eight steps make `largest`.
fn step(largest: f64) -> f64 {
    let raw = largest.max(1e-9) / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw * 0.8);
    factor.unwrap_or(10.0) * power
}

/// The figures 1, 2 and 5 times a power of ten within bounds, both included.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)))
        .filter(|tick| *tick >= low * 0.999_999 && *tick <= high * 1.000_001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let labels = |axis: Axis| axis.ticks().into_iter().map(label).collect::<Vec<_>>();
        for (largest, expected) in [
            (3.7, &["0", "1", "2", "3", "4"][..]),
            (0.93, &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (950.0, &["0", "200", "400", "600", "800", "1000"]),
            (0.0, &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ] {
            assert_eq!(labels(Axis::linear(largest, 0.0, 1.0)), expected, "{largest}");
        }
        let axis = Axis::until(31.2, 0.0, 1.0);
        assert_eq!(labels(axis), ["0", "5", "10", "15", "20", "25", "30"]);
        assert!((axis.at(31.2) - 1.0).abs() < 1e-9);
        let axis = Axis::logarithmic(13.0, 170.0, 0.0, 1.0);
        assert_eq!(labels(axis), ["10", "20", "50", "100", "200"]);
    }

    #[test]
    fn positions() {
        let axis = Axis::linear(4.0, 100.0, 300.0);
        assert!((axis.at(1.0) - 150.0).abs() < 1e-9);
        let axis = Axis::logarithmic(10.0, 1000.0, 0.0, 100.0);
        assert!((axis.at(100.0) - 50.0).abs() < 1e-9);
        let axis = Axis::factors(64.0, 1024.0, 0.0, 100.0);
        assert!((axis.at(256.0) - 50.0).abs() < 1e-9 && (axis.at(1024.0) - 100.0).abs() < 1e-9);
        assert!(Axis::factors(1.0, 1.0, 0.0, 100.0).at(1.0).abs() < 1e-9);
    }
}
