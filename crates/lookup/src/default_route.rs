//! The default route, which tables keep beside their entries.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The default route's next hop, which applies if an entry is 0. The upper 48 bits count its
/// changes.
pub struct DefaultRoute(AtomicU64);

impl DefaultRoute {
    /// No default route.
    pub(crate) fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Its next hop, 0 for none.
    #[inline(always)]
    pub(crate) fn hop(&self) -> u16 {
        self.0.load(Ordering::Relaxed) as u16
    }

    pub(crate) fn set(&self, hop: u16) {
        let changes = self.0.load(Ordering::Relaxed) >> 16;
        self.0.store(changes.wrapping_add(1) << 16 | u64::from(hop), Ordering::Release);
    }

    /// Does a look-up. Returns whether the default route stayed the same during it. If not, its
    /// next hop may have replaced a more specific route that was removed meanwhile.
    #[inline(always)]
    pub(crate) fn stayed(&self, look: impl FnOnce()) -> bool {
        let before = self.0.load(Ordering::Acquire);
        look();
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen() {
        let default = DefaultRoute::none();
        assert!(default.stayed(|| assert_eq!(default.hop(), 0)));
        assert!(!default.stayed(|| default.set(7)));
        assert!(!default.stayed(|| [8, 7].into_iter().for_each(|hop| default.set(hop))));
        assert_eq!(default.hop(), 7);
    }
}
