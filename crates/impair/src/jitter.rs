//! Distributions of the delay.

use std::f64::consts::TAU;

use crate::random::Random;
use crate::settings::{Distribution, Settings};

/// Delays are cut at this number of standard deviations.
const CUT: f64 = 4.0;
/// Mean and standard deviation of the Pareto distribution with exponent 3 and minimum 1.
const PARETO_MEAN: f64 = 1.5;
const PARETO_DEVIATION: f64 = 0.866_025_403_784_438_6;

/// The transit time of one packet.
pub(crate) fn delay_ns(settings: &Settings, random: &mut Random) -> u64 {
    if settings.jitter_ns == 0 {
        return settings.delay_ns;
    }
    let by = match settings.distribution {
        Distribution::Uniform => random.unit() * 2.0 - 1.0,
        Distribution::Normal => normal(random).clamp(-CUT, CUT),
        Distribution::Pareto => {
            // Not zero: the logarithm and the root below need a positive number.
            let unit = 1.0 - random.unit();
            ((unit.powf(-1.0 / 3.0) - PARETO_MEAN) / PARETO_DEVIATION).min(CUT)
        }
    };
    // A negative delay is 0; the cast limits a huge one.
    (settings.delay_ns as f64 + by * settings.jitter_ns as f64).max(0.0) as u64
}

/// One number of the normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let (u, v) = (1.0 - random.unit(), random.unit());
    (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_mean_width_and_shape() {
        const COUNT: usize = 200_000;
        // Expected mean and deviation, minimum and maximum, and the median. Uniform numbers deviate
        // by width / sqrt(3); a cut Pareto distribution loses part of its tail.
        for (distribution, mean, deviation, least, most, median) in [
            (Distribution::Uniform, 0.0, 0.577, -1.0, 1.0, 0.0),
            (Distribution::Normal, 0.0, 1.0, -4.0, 4.0, 0.0),
            (Distribution::Pareto, -0.023, 0.737, -0.578, 4.0, -0.277),
        ] {
            let settings = Settings {
                delay_ns: 10_000_000,
                jitter_ns: 1_000_000,
                distribution,
                ..Settings::default()
            };
            let mut random = Random::new(3);
            let mut all: Vec<f64> =
                (0..COUNT).map(|_| delay_ns(&settings, &mut random) as f64 / 1e6 - 10.0).collect();
            all.sort_by(f64::total_cmp);
            let average = all.iter().sum::<f64>() / COUNT as f64;
            let square = all.iter().map(|x| (x - average).powi(2)).sum::<f64>() / COUNT as f64;
            let found = (average, square.sqrt(), all[0], all[COUNT - 1], all[COUNT / 2]);
            let near = |a: f64, b: f64| (a - b).abs() < 0.015;
            assert!(near(average, mean), "{distribution:?}: {found:?}");
            assert!(near(square.sqrt(), deviation), "{distribution:?}: {found:?}");
            assert!(all[0] >= least - 1e-3 && all[COUNT - 1] <= most + 1e-3, "{found:?}");
            assert!(near(all[COUNT / 2], median), "{distribution:?}: {found:?}");
        }
    }

    #[test]
    fn a_delay_is_never_negative() {
        let settings = Settings { delay_ns: 10, jitter_ns: 1000, ..Settings::default() };
        let mut random = Random::new(3);
        let early = (0..1000).filter(|_| delay_ns(&settings, &mut random) == 0).count();
        assert!((400..600).contains(&early), "{early}");
    }
}
