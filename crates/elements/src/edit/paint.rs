//! # Paint
//!
//! ## Synopsis
//! `Paint(COLOR [, ANNO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's paint annotation to COLOR, for `CheckPaint` and `PaintTee`.
//!
//! ## Arguments
//! - COLOR: unsigned integer up to 255.
//! - ANNO: byte of the annotation area, 0 to 47; default is the paint annotation, 16.
//!
//! ## Handlers
//! - `color` (read, write): the colour.
//!
//! ## See also
//! `CheckPaint`, `PaintTee`

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers,
};

use crate::shared::annotation::Annotation;

/// Sets the paint annotation.
#[derive(Default)]
pub(crate) struct Paint {
    colour: u8,
    annotation: usize,
}

impl Class for Paint {
    const INFO: ClassInfo = ClassInfo::new("Paint", "1/1").inline().keeps_long();
}

impl Each for Paint {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        packet.set_annotation(self.annotation, [self.colour]);
        Verdict::ON
    }
}

impl Element for Paint {
    arguments! { this, given;
        mandatory "COLOR": u8 => this.colour;
        positional "ANNO": Annotation<1> = Annotation::PAINT => Annotation(this.annotation);
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.each(packet, 0);
        }
    }

    handlers! { this, context, value;
        both "color" => this.colour;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn paints_every_packet() {
        let mut bench = Bench::new("Paint", &["7"]);
        assert_eq!(bench.push(0, &[b"a", b"b"]), [(0, b"a".to_vec()), (0, b"b".to_vec())]);
        assert_eq!(bench.paints(), [7, 7]);
        bench.router.write("e.color", "9").unwrap();
        bench.push(0, &[b"a"]);
        assert_eq!((bench.paints(), bench.router.read("e.color", "")), (vec![9], Ok("9".into())));
        assert!(bench.router.write("e.color", "256").is_err());
    }

    #[test]
    fn bad_arguments_are_refused() {
        for (arguments, error) in [
            (&[][..], "COLOR: required argument missing"),
            (&["256"], "COLOR: expected unsigned integer up to 255, found '256'"),
            (&["1", "48"], "ANNO: expected annotation byte, 0 to 47, found '48'"),
        ] {
            assert_eq!(Bench::error("Paint", arguments), error);
        }
    }
}
