//! # Strip
//!
//! ## Synopsis
//! `Strip(LENGTH)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the first LENGTH bytes of each packet, or all bytes of a shorter packet. Header
//! annotations stay where they are. `Unstrip` restores the bytes.
//!
//! ## Arguments
//! - LENGTH: bytes.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Unstrip`, `EtherEncap`

use europa_engine::{Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments};

/// Removes bytes at the front.
#[derive(Default)]
pub(crate) struct Strip(usize);

impl Class for Strip {
    const INFO: ClassInfo = ClassInfo::new("Strip", "1/1").inline().keeps_long();
}

impl Each for Strip {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if packet.pull(self.0).is_none() {
            // The packet is shorter: nothing is left.
            let all = packet.len();
            let _ = packet.pull(all);
        }
        Verdict::ON
    }
}

impl Element for Strip {
    arguments! { this, given;
        mandatory "LENGTH": usize => this.0;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.each(packet, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn removes_what_there_is() {
        let mut bench = Bench::new("Strip", &["2"]);
        let out = bench.push(0, &[b"abcd", b"ab", b"a"]);
        assert_eq!(out, [(0, b"cd".to_vec()), (0, vec![]), (0, vec![])]);
    }
}
