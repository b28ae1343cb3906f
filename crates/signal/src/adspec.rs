//! A node's additions to an ADSPEC (RFC 2210, section 3.3).

use crate::wire::{Adspec, Float, GuaranteedTerms};
use crate::world::Offer;

/// The ADSPEC after an interface; `mtu` is the longest packet without its label.
pub(crate) fn extend(adspec: Adspec, offer: &Offer, mtu: u32) -> Adspec {
    let bandwidth = adspec.bandwidth.get().min(offer.bandwidth as f32);
    let guaranteed = adspec.guaranteed.map(|terms| GuaranteedTerms {
        total_c: terms.total_c.saturating_add(offer.c_bytes),
        total_d: terms.total_d.saturating_add(offer.d_us),
        // RFC 2212: sums since the last reshaper; this node does not reshape.
        since_c: terms.since_c.saturating_add(offer.c_bytes),
        since_d: terms.since_d.saturating_add(offer.d_us),
        ..terms
    });
    Adspec {
        hops: adspec.hops.saturating_add(1),
        // A NaN of the sender is replaced by this interface's value.
        bandwidth: Float::from(bandwidth),
        latency_us: adspec.latency_us.saturating_add(offer.latency_us),
        mtu: adspec.mtu.min(mtu),
        guaranteed,
        ..adspec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_and_sums() {
        let offer = Offer { bandwidth: 1e6, latency_us: 5, c_bytes: 1500, d_us: u32::MAX };
        let one = extend(Adspec::new(Float::from(f32::NAN), 9000), &offer, 1496);
        let two = extend(one, &Offer { bandwidth: 2e6, ..offer }, 2000);
        assert_eq!((two.hops, two.bandwidth, two.latency_us, two.mtu), (2, 1e6.into(), 10, 1496));
        let terms = two.guaranteed.unwrap();
        assert_eq!((terms.total_c, terms.total_d), (3000, u32::MAX));
    }
}
