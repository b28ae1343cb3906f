//! # PaintSwitch
//!
//! ## Synopsis
//! `PaintSwitch([ANNO])`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Sends each packet out of the output that its paint annotation says, or drops it if there is no
//! such output. Packets of colour 255 leave by all outputs.
//!
//! ## Arguments
//! - ANNO: byte of the annotation area, 0 to 47; default is the paint annotation, 16.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Paint`, `Switch`, `StaticSwitch`

use crate::prelude::*;
use crate::shared::annotation::Annotation;

/// Sorts packets by colour.
#[derive(Default)]
pub(crate) struct PaintSwitch {
    annotation: usize,
}

impl Class for PaintSwitch {
    const INFO: ClassInfo =
        ClassInfo::new("PaintSwitch", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for PaintSwitch {
    arguments! { this, given;
        positional "ANNO": Annotation<1> = Annotation::PAINT => Annotation(this.annotation);
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let colour = |packet: &Packet| packet.annotation::<1>(self.annotation)[0];
        if batch.iter().all(|packet| colour(packet) != 255) {
            return context.push_each(batch, |packet| Some(usize::from(colour(packet))));
        }
        let outputs = context.outputs();
        for packet in batch.drain() {
            match colour(&packet) {
                255 => super::push_to_all(packet, 0..outputs, context),
                output => context.push(usize::from(output), packet),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn colours_are_outputs() {
        let mut bench = Bench::with_outputs("PaintSwitch", &[], 2);
        let packets = [1, 0, 2, 255].map(|colour| {
            let mut packet = bench.arena.packet(&[colour]).unwrap();
            packet.set_paint(colour);
            packet
        });
        let mut out = bench.push_packets(0, packets.into());
        out.sort();
        assert_eq!(out, [(0, vec![0]), (0, vec![255]), (1, vec![1]), (1, vec![255])]);
    }
}
