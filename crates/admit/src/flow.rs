//! A flow's token bucket and service.

use crate::unit::{Bytes, BytesPerSecond, Seconds};

/// The traffic of a flow, and its requested service. [`Flow::new`] checks the numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub(crate) rate: BytesPerSecond,
    pub(crate) depth: Bytes,
    pub(crate) peak: BytesPerSecond,
    pub(crate) smallest: Bytes,
    pub(crate) largest: Bytes,
    pub(crate) service: Service,
}

/// The service that it asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// RFC 2211: service as in an unloaded network.
    ControlledLoad,
    /// RFC 2212: no packet is later than a bound.
    Guaranteed {
        /// R: at least the flow's rate.
        rate: BytesPerSecond,
    },
}

/// Why numbers describe no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFlow {
    /// NaN, infinite, 0 or negative.
    #[error("the rate r is not a positive finite number")]
    Rate,
    /// NaN, infinite, or below the largest packet.
    #[error("the depth b is not finite, or holds no packet of the largest size M")]
    Depth,
    /// NaN or below the rate.
    #[error("the peak rate p is below the rate r, or no number")]
    Peak,
    /// Sizes are not positive, or the largest is below the smallest.
    #[error("packet sizes are not 0 < m <= M")]
    Packets,
    /// NaN, infinite or below the rate.
    #[error("the guaranteed rate R is below r, or not finite")]
    Guaranteed,
}

impl Flow {
    /// A flow of rate r, depth b, peak rate p (which may be infinite), and packets of m to M bytes.
    ///
    /// # Errors
    /// The first invalid number.
    pub fn new(
        rate: BytesPerSecond,
        depth: Bytes,
        peak: BytesPerSecond,
        (smallest, largest): (Bytes, Bytes),
        service: Service,
    ) -> Result<Self, BadFlow> {
        if !(rate.0.is_finite() && rate.0 > 0.0) {
            return Err(BadFlow::Rate);
        }
        if !(smallest.0 > 0.0 && largest.0 >= smallest.0 && largest.0.is_finite()) {
            return Err(BadFlow::Packets);
        }
        if !(depth.0.is_finite() && depth.0 >= largest.0) {
            return Err(BadFlow::Depth);
        }
        if peak.0.is_nan() || peak.0 < rate.0 {
            return Err(BadFlow::Peak);
        }
        if let Service::Guaranteed { rate: guaranteed } = service
            && !(guaranteed.0.is_finite() && guaranteed.0 >= rate.0)
        {
            return Err(BadFlow::Guaranteed);
        }
        Ok(Self { rate, depth, peak, smallest, largest, service })
    }

    /// r, b, and m and M.
    pub fn token_bucket(&self) -> (BytesPerSecond, Bytes, (Bytes, Bytes)) {
        (self.rate, self.depth, (self.smallest, self.largest))
    }

    /// The reserved rate: r for controlled load (RFC 2211), R for guaranteed service (RFC 2212).
    pub fn reserved(&self) -> BytesPerSecond {
        match self.service {
            Service::ControlledLoad => self.rate,
            Service::Guaranteed { rate } => rate,
        }
    }

    /// RFC 2212, section "Guidelines for Implementors": the longest time from a packet's arrival to
    /// its departure, if the flow gets R except for `c` bytes and `d` seconds.
    pub fn delay(&self, c: Bytes, d: Seconds) -> Seconds {
        let (rate, m) = (self.reserved(), self.largest);
        if self.peak > rate {
            // If p is infinite, the middle factor is 1.
            let part = if self.peak.0.is_finite() {
                (self.peak - rate).0 / (self.peak - self.rate).0
            } else {
                1.0
            };
            return Seconds((self.depth - m).0 / rate.0 * part) + (m + c) / rate + d;
        }
        (m + c) / rate + d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(rate: f64, depth: f64, peak: f64, sizes: (f64, f64)) -> Result<Flow, BadFlow> {
        let sizes = (Bytes(sizes.0), Bytes(sizes.1));
        let (rate, peak) = (BytesPerSecond(rate), BytesPerSecond(peak));
        Flow::new(rate, Bytes(depth), peak, sizes, Service::ControlledLoad)
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        const INFINITY: f64 = f64::INFINITY;
        let table = [
            ((1e6, 1e4, INFINITY, (64.0, 1500.0)), None),
            ((f64::NAN, 1e4, INFINITY, (64.0, 1500.0)), Some(BadFlow::Rate)),
            ((0.0, 1e4, INFINITY, (64.0, 1500.0)), Some(BadFlow::Rate)),
            ((-1.0, 1e4, INFINITY, (64.0, 1500.0)), Some(BadFlow::Rate)),
            ((INFINITY, 1e4, INFINITY, (64.0, 1500.0)), Some(BadFlow::Rate)),
            ((1e6, 1499.0, INFINITY, (64.0, 1500.0)), Some(BadFlow::Depth)),
            ((1e6, f64::NAN, INFINITY, (64.0, 1500.0)), Some(BadFlow::Depth)),
            ((1e6, 1e4, 1e5, (64.0, 1500.0)), Some(BadFlow::Peak)),
            ((1e6, 1e4, f64::NAN, (64.0, 1500.0)), Some(BadFlow::Peak)),
            ((1e6, 1e4, INFINITY, (0.0, 1500.0)), Some(BadFlow::Packets)),
            ((1e6, 1e4, INFINITY, (64.0, 0.0)), Some(BadFlow::Packets)),
            ((1e6, 1e4, INFINITY, (64.0, f64::NAN)), Some(BadFlow::Packets)),
        ];
        for ((rate, depth, peak, sizes), wanted) in table {
            assert_eq!(
                flow(rate, depth, peak, sizes).err(),
                wanted,
                "{rate} {depth} {peak} {sizes:?}"
            );
        }
    }

    #[test]
    fn delays_are_those_of_rfc_2212() {
        let with = |peak, guaranteed| {
            let service = Service::Guaranteed { rate: BytesPerSecond(guaranteed) };
            let sizes = (Bytes(100.0), Bytes(1000.0));
            let peak = BytesPerSecond(peak);
            Flow::new(BytesPerSecond(1e5), Bytes(5000.0), peak, sizes, service).unwrap()
        };
        let table = [
            // b/R + C/R + D.
            (with(f64::INFINITY, 1e5), 0.05 + 0.005 + 0.001),
            // (b - M)/R * (p - R)/(p - r) + (M + C)/R + D.
            (with(4e5, 2e5), 0.02 * 2.0 / 3.0 + 0.0075 + 0.001),
            // (M + C)/R + D where p <= R.
            (with(2e5, 4e5), 0.00375 + 0.001),
        ];
        for (flow, wanted) in table {
            let found = flow.delay(Bytes(500.0), Seconds(0.001));
            assert!((found.0 - wanted).abs() < 1e-12, "{found:?}, not {wanted}");
        }
    }
}
