//! # CheckPaint
//!
//! ## Synopsis
//! `CheckPaint(COLOR [, ANNO])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Packets whose paint annotation is COLOR leave by output 0. All others leave by output 1,
//! or are dropped if it is not connected.
//!
//! ## Arguments
//! - COLOR: unsigned integer up to 255.
//! - ANNO: byte of the annotation area, 0 to 47; default is the paint annotation, 16.
//!
//! ## Handlers
//! - `color` (read, write): the colour.
//!
//! ## See also
//! `Paint`, `PaintTee`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments, handlers};

use crate::shared::annotation::Annotation;

/// Tells packets apart by paint.
#[derive(Default)]
pub(crate) struct CheckPaint {
    colour: u8,
    annotation: usize,
}

impl Class for CheckPaint {
    const INFO: ClassInfo =
        ClassInfo::new("CheckPaint", "1/1-2").processing("a/ah").inline().keeps_long();
}

impl Element for CheckPaint {
    arguments! { this, given;
        mandatory "COLOR": u8 => this.colour;
        positional "ANNO": Annotation<1> = Annotation::PAINT => Annotation(this.annotation);
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (at, colour) = (self.annotation, self.colour);
        batch.filter(|packet| packet.annotation(at) == [colour], |packet| context.push(1, packet));
    }

    handlers! { this, context, value;
        both "color" => this.colour;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn tells_packets_apart_by_paint() {
        let mut bench = Bench::new("CheckPaint", &["2"]);
        let packets = [1, 2, 3, 2].map(|colour| {
            let mut packet = bench.arena.packet(&[colour]).unwrap();
            packet.set_paint(colour);
            packet
        });
        let out = bench.push_packets(0, packets.into());
        assert_eq!(out, [(1, vec![1]), (1, vec![3]), (0, vec![2]), (0, vec![2])]);
    }
}
