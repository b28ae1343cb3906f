//! The settings of one direction of a link.

use serde::{Deserialize, Serialize};

/// The effects of one direction of a link. The default does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The rate of the transmitter, in bits a second, counted in Ethernet frames without check
    /// sequence and preamble. `None`: unlimited.
    pub rate_bits: Option<u64>,
    /// Transit time, in nanoseconds.
    pub delay_ns: u64,
    /// Variation of the transit time, in nanoseconds: half the width of a uniform distribution, the
    /// standard deviation of the others.
    pub jitter_ns: u64,
    /// Distribution of the variation.
    pub distribution: Distribution,
    /// Which packets are lost.
    pub loss: Loss,
    /// Share of packets that skip the delay and so overtake others.
    pub reorder: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets with one wrong bit.
    pub corrupt: f64,
    /// The longest queue of the transmitter; it has an effect only with a rate.
    pub limit: Limit,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_bits: None,
            delay_ns: 0,
            jitter_ns: 0,
            distribution: Distribution::Uniform,
            loss: Loss::Independent { share: 0.0 },
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            limit: Limit::default(),
            seed: 0,
        }
    }
}

impl Settings {
    /// Whether packets pass without any effect.
    pub fn is_nothing(&self) -> bool {
        let blank = Self {
            seed: self.seed,
            limit: self.limit,
            distribution: self.distribution,
            ..Self::default()
        };
        *self == blank
    }
}

/// Distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Distribution {
    /// All delays between `delay - jitter` and `delay + jitter` are equally likely.
    #[default]
    Uniform,
    /// The normal distribution, cut at four standard deviations.
    Normal,
    /// Usually slightly early, sometimes very late: Pareto with exponent 3, shifted so that its
    /// mean is the delay, and cut at four standard deviations.
    Pareto,
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// Each with the same probability.
    Independent {
        /// The probability.
        share: f64,
    },
    /// Gilbert and Elliott's model: a good and a bad state, each with a probability of loss.
    Bursts {
        /// Probability, at each packet, that a good link becomes bad.
        begin: f64,
        /// Probability, at each packet, that a bad link becomes good.
        end: f64,
        /// Probability of loss in the bad state.
        bad: f64,
        /// Probability of loss in the good state.
        good: f64,
    },
}

/// How much may wait for the transmitter; the first limit that is reached applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Number of packets, including the one being sent.
    pub packets: u32,
    /// Bytes.
    pub bytes: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self { packets: 1000, bytes: u64::MAX }
    }
}
