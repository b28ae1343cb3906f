//! # CheckLength
//!
//! ## Synopsis
//! `CheckLength(LENGTH)`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets longer
//! packets; else they are dropped.
//!
//! ## Description
//! Lets packets of up to LENGTH bytes pass.
//!
//! ## Arguments
//! - LENGTH: in bytes.
//!
//! ## Handlers
//! - `length` (read, write): LENGTH.
//!
//! ## See also
//! `IPFragmenter`, `ICMP6Error`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments, handlers};

/// Lets short packets pass.
#[derive(Default)]
pub(crate) struct CheckLength {
    length: usize,
}

impl Class for CheckLength {
    const INFO: ClassInfo =
        ClassInfo::new("CheckLength", "1/1-2").processing("a/ah").inline().keeps_long();
}

impl Element for CheckLength {
    arguments! { this, given;
        mandatory "LENGTH": usize => this.length;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch
            .filter(|packet| !packet.is_longer_than(self.length), |packet| context.push(1, packet));
    }

    handlers! { this, context, value;
        both "length" => this.length;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn longer_packets_leave_by_output_1() {
        let mut bench = Bench::new("CheckLength", &["3"]);
        let out = bench.push(0, &[b"abc", b"abcd", b""]);
        let mut outputs: Vec<_> = out.iter().map(|(port, data)| (*port, data.len())).collect();
        outputs.sort_unstable();
        assert_eq!(outputs, [(0, 0), (0, 3), (1, 4)]);
    }
}
