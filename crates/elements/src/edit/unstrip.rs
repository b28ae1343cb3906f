//! # Unstrip
//!
//! ## Synopsis
//! `Unstrip(LENGTH)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Moves the start of each packet LENGTH bytes forward, into its headroom. After `Strip`, these are
//! the bytes that it removed; otherwise their contents are undefined. A packet with less headroom
//! is dropped.
//!
//! ## Arguments
//! - LENGTH: bytes.
//!
//! ## Handlers
//! - `drops` (read): packets dropped because they had too little headroom.
//!
//! ## See also
//! `Strip`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments, handlers};

use crate::shared::common::retain;

/// Brings stripped bytes back.
#[derive(Default)]
pub(crate) struct Unstrip {
    length: usize,
    drops: u64,
}

impl Class for Unstrip {
    const INFO: ClassInfo = ClassInfo::new("Unstrip", "1/1").inline().keeps_long();
}

impl Element for Unstrip {
    arguments! { this, given;
        mandatory "LENGTH": usize => this.length;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.drops += retain(batch, |packet| packet.push(self.length).is_some());
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn brings_back_what_strip_removed() {
        let mut bench = Bench::new("Unstrip", &["2"]);
        let mut stripped = bench.arena.packet(b"abcd").unwrap();
        stripped.pull(2).unwrap();
        let mut full = bench.arena.packet(b"x").unwrap();
        full.push(full.headroom() - 1).unwrap();
        assert_eq!(bench.push_packets(0, vec![full, stripped]), [(0, b"abcd".to_vec())]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
