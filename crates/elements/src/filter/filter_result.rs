//! # FilterResult
//!
//! ## Synopsis
//! `FilterResult([ANNO])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Copies the 16 bytes that a rule of the slice has returned for a packet's key into the packet's
//! annotations, from byte ANNO on. Packets with such a result leave by output 0. They have come
//! back from the switch to the router that sent them with a key (`SetFilterKey`), or arrived from
//! there over a link. `FromDevice` accepts them as packets to this router, with any Ethernet
//! address. All others leave by output 1, or are dropped if it is not connected.
//!
//! ## Arguments
//! - ANNO: first byte of the annotation area, 0 to 32; default is 0, where the destination address
//!   annotation begins.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `SetFilterKey`, `GetIPAddress`, `PaintSwitch`

use crate::prelude::*;
use crate::shared::annotation::Annotation;

/// Reads the results of rules.
#[derive(Default)]
pub(crate) struct FilterResult {
    annotation: usize,
}

impl Class for FilterResult {
    const INFO: ClassInfo = ClassInfo::new("FilterResult", "1/1-2").processing("a/ah").inline();
}

impl Element for FilterResult {
    arguments! { this, given;
        positional "ANNO": Annotation<16> = Annotation(0) => Annotation(this.annotation);
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let at = self.annotation;
        let read = |packet: &mut Packet| {
            let Some(result) = packet.filter_result().copied() else { return false };
            packet.set_annotation(at, result);
            packet.set_answered(false);
            true
        };
        batch.filter(read, |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_without_an_answer_leave_by_output_1() {
        let mut bench = Bench::new("FilterResult", &["32"]);
        let [none, mut some] = [b"a", b"b"].map(|data| bench.arena.packet(data).unwrap());
        some.set_answered(true);
        let out = bench.push_packets(0, vec![none, some]);
        assert_eq!(out, [(1, vec![b'a']), (0, vec![b'b'])]);
        let answered: Vec<_> = bench.out.iter().map(|(_, p)| p.filter_result().is_some()).collect();
        assert_eq!(answered, [false, false], "an answer is read once");
        assert_eq!(
            Bench::error("FilterResult", &["33"]),
            "ANNO: expected annotation byte, 0 to 32, found '33'"
        );
    }
}
