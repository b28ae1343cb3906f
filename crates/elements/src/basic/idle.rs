//! # Idle
//!
//! ## Synopsis
//! `Idle`
//!
//! ## Ports
//! Any number of inputs and outputs, push or pull.
//!
//! ## Description
//! Never sends a packet and drops those it gets. It closes ports that a configuration does not
//! use.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Discard`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, Notifies};

/// Closes ports.
#[derive(Default)]
pub(crate) struct Idle;

impl Class for Idle {
    const INFO: ClassInfo = ClassInfo::new("Idle", "-/-")
        .flow("x/y")
        .inline()
        .consumes()
        .also(&["SimpleIdle"])
        .keeps_long();
}

impl Element for Idle {
    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        batch.clear();
    }

    fn pull(&mut self, _: usize, _: usize, _: &mut Batch, _: &mut Context<'_>) {}

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, _: &mut Context<'_>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn drops_what_it_gets() {
        let mut bench = Bench::new("Idle", &[]);
        assert_eq!(bench.push(3, &[b"a"]), []);
        assert_eq!(bench.arena.free(), bench.arena.capacity());
    }
}
