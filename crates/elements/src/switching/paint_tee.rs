//! # PaintTee
//!
//! ## Synopsis
//! `PaintTee(COLOR [, ANNO])`
//!
//! ## Ports
//! One input, two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Every packet leaves by output 0. A copy of each packet whose paint annotation is COLOR leaves by
//! output 1. A router uses this to detect a packet that is about to leave by the interface it came
//! in by, and to send an ICMP redirect.
//!
//! ## Arguments
//! - COLOR: unsigned integer up to 255.
//! - ANNO: byte of the annotation area, 0 to 47; default is the paint annotation, 16.
//!
//! ## Handlers
//! - `color` (read, write): the colour.
//!
//! ## See also
//! `Paint`, `CheckPaint`, `ICMPError`

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers,
};

use crate::shared::annotation::Annotation;

/// Copies packets of one colour.
#[derive(Default)]
pub(crate) struct PaintTee {
    colour: u8,
    annotation: usize,
}

impl Class for PaintTee {
    const INFO: ClassInfo =
        ClassInfo::new("PaintTee", "1/2").processing("a/ah").inline().keeps_long();
}

impl Each for PaintTee {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        match packet.near_annotation(self.annotation) {
            Some([colour]) if colour != self.colour => Verdict::ON,
            _ => Verdict::ALONE,
        }
    }
}

impl Element for PaintTee {
    arguments! { this, given;
        mandatory "COLOR": u8 => this.colour;
        positional "ANNO": Annotation<1> = Annotation::PAINT => Annotation(this.annotation);
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            if packet.annotation(self.annotation) == [self.colour]
                && let Some(copy) = packet.try_clone()
            {
                context.push(1, copy);
            }
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
    fn copies_one_colour_only() {
        let mut bench = Bench::new("PaintTee", &["2"]);
        let packets = [1, 2].map(|colour| {
            let mut packet = bench.arena.packet(&[colour]).unwrap();
            packet.set_paint(colour);
            packet
        });
        let out = bench.push_packets(0, packets.into());
        assert_eq!(out, [(1, vec![2]), (0, vec![1]), (0, vec![2])]);
        assert_eq!(bench.paints(), [2, 1, 2]);
    }
}
