//! Medians and percentiles.

/// Median, smallest and largest of several figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Spread {
    /// The middle value (mean of the two middle ones).
    pub(crate) median: f64,
    /// Smallest.
    pub(crate) min: f64,
    /// Largest.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of these values; `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted.get(sorted.len() / 2)?;
        let lower = sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: (lower + upper) / 2.0, min, max })
    }
}

/// The value below which `percent` of the values lie (nearest rank).
pub(crate) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(values);
    // 99.9 % of 1000 is 999.000…1 in binary; a rank must not change for that.
    let rank = (percent * sorted.len() as f64 / 100.0 - 1e-6).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        for (values, expected) in [
            (&[][..], None),
            (&[3.0], spread(3.0, 3.0, 3.0)),
            (&[5.0, 1.0, 2.0], spread(2.0, 1.0, 5.0)),
            (&[4.0, 1.0, 2.0, 8.0], spread(3.0, 1.0, 8.0)),
        ] {
            assert_eq!(Spread::of(values), expected, "{values:?}");
        }
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        for (percent, expected) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)] {
            assert_eq!(percentile(&values, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[], 50.0), None);
    }
}
