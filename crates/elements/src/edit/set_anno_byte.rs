//! # SetAnnoByte
//!
//! ## Synopsis
//! `SetAnnoByte(ANNO, VALUE)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets a byte of each packet's annotation area.
//!
//! ## Arguments
//! - ANNO: 0 to 47, or a name like PAINT.
//! - VALUE: unsigned integer up to 255.
//!
//! ## Handlers
//! - `anno` (read), `value` (read, write): see the arguments.
//!
//! ## See also
//! `Paint`

use crate::prelude::*;
use crate::shared::annotation::Annotation;

/// Sets an annotation.
#[derive(Default)]
pub(crate) struct SetAnnoByte {
    annotation: usize,
    value: u8,
}

impl Class for SetAnnoByte {
    const INFO: ClassInfo = ClassInfo::new("SetAnnoByte", "1/1").inline();
}

impl Element for SetAnnoByte {
    arguments! { this, given;
        positional "ANNO": Annotation<1> = Annotation::PAINT => Annotation(this.annotation);
        mandatory "VALUE": u8 => this.value;
        then {
            given.warn("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_annotation(self.annotation, [self.value]);
        }
    }

    handlers! { this, context, value;
        read "anno" => this.annotation;
        both "value" => this.value;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn one_byte_is_set() {
        let mut bench = Bench::new("SetAnnoByte", &["30", "7"]);
        bench.push(0, &[b"x"]);
        assert_eq!(bench.out[0].1.annotation::<3>(29), [0, 7, 0]);
        let mut bench = Bench::new("SetAnnoByte", &["PAINT", "7"]);
        bench.push(0, &[b"x"]);
        assert_eq!(bench.paints(), [7]);
    }
}
