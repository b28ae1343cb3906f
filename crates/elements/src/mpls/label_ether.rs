//! # LabelEther
//!
//! ## Synopsis
//! `LabelEther()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the EtherType of frames to MPLS if `LabelSwitch` has given their packets a label (paint
//! 255): `ARPQuerier` and `IP6NDSolicitor` write the EtherType of IP. Other frames pass unchanged.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `LabelSwitch`, `ARPQuerier`, `IP6NDSolicitor`

use europa_packet::EtherType;

use super::LABELLED;
use crate::prelude::*;

/// Sets the EtherType of labelled frames.
#[derive(Default)]
pub(crate) struct LabelEther;

impl Class for LabelEther {
    const INFO: ClassInfo = ClassInfo::new("LabelEther", "1/1").inline();
}

impl Element for LabelEther {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.iter_mut().filter(|packet| packet.paint() == LABELLED) {
            if let Some([_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..]) =
                packet.data_mut().first_chunk_mut::<14>()
            {
                [*high, *low] = EtherType::MPLS.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn only_labelled_frames_are_changed() {
        let mut bench = Bench::new("LabelEther", &[]);
        let frame = [[1; 12].as_slice(), &[8, 0, 0x45]].concat();
        let packets = [0, 255, 254].map(|paint| {
            let mut packet = bench.arena.packet(&frame).unwrap();
            packet.set_paint(paint);
            packet
        });
        let out = bench.push_packets(0, packets.into());
        let types: Vec<_> = out.iter().map(|(_, frame)| [frame[12], frame[13]]).collect();
        assert_eq!(types, [[8, 0], [0x88, 0x47], [8, 0]]);
        assert_eq!(bench.push(0, &[b"short"]).len(), 1);
    }
}
