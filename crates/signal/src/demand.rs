//! A flow's demand on an interface: checked numbers.

use crate::wire::{BadBucket, Flowspec, Service, TokenBucket, Tspec};

/// A checked flowspec. Rates are bytes a second, lengths bytes. No number is NaN or negative, and
/// only `peak` may be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// r.
    pub rate: f64,
    /// b.
    pub depth: f64,
    /// p; may be infinite.
    pub peak: f64,
    /// m: smallest policed unit, at least 1.
    pub smallest: u32,
    /// M.
    pub largest: u32,
    /// R and S of guaranteed service.
    pub guaranteed: Option<GuaranteedDemand>,
}

/// The additional part of guaranteed service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuaranteedDemand {
    /// R: bytes a second, at least r, finite.
    pub rate: f64,
    /// S: microseconds.
    pub slack_us: u32,
}

/// Why a flowspec is no demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFlowspec {
    /// Its token bucket.
    #[error("the token bucket makes no sense: {0}")]
    Bucket(#[from] BadBucket),
    /// R is no finite number of at least r.
    #[error("the rate R of guaranteed service is below r, or not finite")]
    GuaranteedRate,
}

impl Demand {
    fn of(bucket: &TokenBucket, guaranteed: Option<GuaranteedDemand>) -> Result<Self, BadBucket> {
        bucket.check(guaranteed.is_none())?;
        Ok(Self {
            rate: bucket.rate.get().into(),
            depth: bucket.depth.get().into(),
            peak: bucket.peak.get().into(),
            smallest: bucket.smallest,
            largest: bucket.largest,
            guaranteed,
        })
    }

    /// The demand that follows from a sender's TSpec, with controlled load.
    pub(crate) fn of_tspec(tspec: &Tspec) -> Result<Self, BadBucket> {
        Self::of(&tspec.0, None)
    }

    /// The rate to reserve (RFC 2211: r; RFC 2212: R), in bytes a second.
    pub fn reserved(&self) -> f64 {
        self.guaranteed.map_or(self.rate, |guaranteed| guaranteed.rate)
    }

    /// The smallest demand that serves both. It is what LSPs of a session need on a link that they
    /// share (RFC 2205, section 2.2, with the merging of RFC 2211 and 2212).
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        let guaranteed = match (self.guaranteed, other.guaranteed) {
            (Some(one), Some(another)) => Some(GuaranteedDemand {
                rate: one.rate.max(another.rate),
                slack_us: one.slack_us.min(another.slack_us),
            }),
            (one, another) => one.or(another).map(|guaranteed| GuaranteedDemand {
                rate: guaranteed.rate.max(self.rate).max(other.rate),
                ..guaranteed
            }),
        };
        Self {
            rate: self.rate.max(other.rate),
            depth: self.depth.max(other.depth),
            peak: self.peak.max(other.peak),
            smallest: self.smallest.min(other.smallest),
            largest: self.largest.max(other.largest),
            guaranteed,
        }
    }
}

impl TryFrom<&Flowspec> for Demand {
    type Error = BadFlowspec;

    fn try_from(flowspec: &Flowspec) -> Result<Self, BadFlowspec> {
        let guaranteed = match flowspec.service {
            Service::ControlledLoad => None,
            Service::Guaranteed { rate, slack_us } => {
                let rate = f64::from(rate.get());
                // RFC 2212, section "RSpec": R >= r.
                if !(rate.is_finite() && rate >= f64::from(flowspec.bucket.rate.get())) {
                    flowspec.bucket.check(false)?;
                    return Err(BadFlowspec::GuaranteedRate);
                }
                Some(GuaranteedDemand { rate, slack_us })
            }
        };
        Ok(Self::of(&flowspec.bucket, guaranteed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Float;

    fn bucket(rate: f32, depth: f32, peak: f32, smallest: u32, largest: u32) -> TokenBucket {
        let [rate, depth, peak] = [rate, depth, peak].map(Float::from);
        TokenBucket { rate, depth, peak, smallest, largest }
    }

    #[test]
    fn hostile_numbers_are_refused() {
        use BadBucket::{Depth, Largest, Peak, Rate, Smallest};
        const INFINITY: f32 = f32::INFINITY;
        let table = [
            (bucket(1e6, 1e4, INFINITY, 64, 1500), Ok(())),
            (bucket(0.0, 1e4, INFINITY, 64, 1500), Ok(())),
            (bucket(0.0, 0.0, 0.0, 0, 0), Ok(())),
            (bucket(f32::NAN, 1e4, INFINITY, 64, 1500), Err(Rate)),
            (bucket(-1.0, 1e4, INFINITY, 64, 1500), Err(Rate)),
            (bucket(INFINITY, 1e4, INFINITY, 64, 1500), Err(Rate)),
            (bucket(1e6, f32::NAN, INFINITY, 64, 1500), Err(Depth)),
            (bucket(1e6, -1.0, INFINITY, 64, 1500), Err(Depth)),
            (bucket(1e6, INFINITY, INFINITY, 64, 1500), Err(Depth)),
            (bucket(1e6, 1e4, f32::NAN, 64, 1500), Err(Peak)),
            (bucket(1e6, 1e4, 1e5, 64, 1500), Err(Peak)),
            (bucket(1e6, 1e4, -INFINITY, 64, 1500), Err(Peak)),
            (bucket(1e6, 1e4, INFINITY, 0, 1500), Err(Smallest)),
            (bucket(1e6, 1e4, INFINITY, 64, 0), Err(Largest)),
            (bucket(1e6, 1e4, INFINITY, 64, 63), Err(Largest)),
        ];
        for (bucket, wanted) in table {
            let flowspec = Flowspec { bucket, service: Service::ControlledLoad };
            let wanted = wanted.map_err(BadFlowspec::Bucket);
            assert_eq!(Demand::try_from(&flowspec).map(|_| ()), wanted, "{bucket:?}");
        }
    }

    #[test]
    fn guaranteed_rates_are_finite_and_at_least_r() {
        let sound = bucket(1e6, 1e4, f32::INFINITY, 64, 1500);
        let table = [
            (2e6, Ok(2e6)),
            (1e6, Ok(1e6)),
            (9e5, Err(BadFlowspec::GuaranteedRate)),
            (f32::NAN, Err(BadFlowspec::GuaranteedRate)),
            (f32::INFINITY, Err(BadFlowspec::GuaranteedRate)),
            (-1.0, Err(BadFlowspec::GuaranteedRate)),
        ];
        for (rate, wanted) in table {
            let service = Service::Guaranteed { rate: rate.into(), slack_us: 0 };
            let found = Demand::try_from(&Flowspec { bucket: sound, service });
            assert_eq!(found.map(|demand| demand.reserved()), wanted, "{rate}");
        }
    }
}
