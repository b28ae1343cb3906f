//! # MarkMACHeader
//!
//! ## Synopsis
//! `MarkMACHeader([OFFSET])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the link header annotation of each packet to OFFSET, without a check.
//!
//! ## Arguments
//! - OFFSET: bytes from the start, default 0.
//! - LENGTH: accepted as in Click, without effect.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `MarkIPHeader`

use crate::prelude::*;

/// Sets the link header annotation.
#[derive(Default)]
pub(crate) struct MarkMACHeader(usize);

impl Class for MarkMACHeader {
    const INFO: ClassInfo = ClassInfo::new("MarkMACHeader", "1/1").inline();
}

impl Element for MarkMACHeader {
    arguments! { this, given;
        positional "OFFSET": usize = 0 => this.0;
        positional "LENGTH": usize => _;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_mac_header(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn marks() {
        let mut bench = Bench::new("MarkMACHeader", &["2"]);
        bench.push(0, &[b"abc"]);
        assert_eq!(bench.out[0].1.mac_offset(), Some(2));
    }
}
