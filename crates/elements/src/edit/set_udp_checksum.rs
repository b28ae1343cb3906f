//! # SetUDPChecksum
//!
//! ## Synopsis
//! `SetUDPChecksum`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Computes the UDP checksum of each packet, whose network header annotation must be set. Fragments
//! and packets that are shorter than their UDP header says leave by output 1, or are dropped.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `CheckUDPHeader`, `SetIPChecksum`, `SetTCPChecksum`

use europa_packet::checksum;

use crate::prelude::*;
use crate::shared::fields::{be16, is_fragment, network_mut, segment_checksum, set};

/// Sets UDP checksums.
#[derive(Default)]
pub(crate) struct SetUDPChecksum;

impl Class for SetUDPChecksum {
    const INFO: ClassInfo = ClassInfo::new("SetUDPChecksum", "1/1-2").processing("a/ah").inline();
}

/// `None` for a packet whose checksum cannot be computed.
fn complete(packet: &mut Packet) -> Option<()> {
    let (header, rest) = network_mut(packet)?;
    let length = usize::from(be16(rest, 4)?);
    let segment = rest.get_mut(..length).filter(|segment| segment.len() >= 8)?;
    if is_fragment(header) {
        return None;
    }
    set(segment, 6, [0; 2]);
    let check = checksum::udp(segment_checksum(header, segment));
    set(segment, 6, check.to_be_bytes()).then_some(())
}

impl Element for SetUDPChecksum {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(|packet| complete(packet).is_some(), |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn a_source_route_says_whom_the_checksum_is_about() {
        let (own, other) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let frame = Frame::new(own, other).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).udp(1, 2, b"payload");
        let (header, segment) = frame[EthernetHeader::LEN..].split_at(20);
        for (options, right) in [
            ([131, 7, 4, 5, 6, 7, 8, 0], true),
            ([1, 137, 7, 4, 5, 6, 7, 8], true),
            ([7, 7, 4, 5, 6, 7, 8, 0], false),
            ([131, 9, 4, 5, 6, 7, 8, 0], false),
            ([131, 0, 0, 0, 0, 0, 0, 131], false),
        ] {
            let mut bytes = [header, &options, segment].concat();
            bytes[0] = 0x47;
            bytes[19] = 9;
            for class in ["SetUDPChecksum", "CheckUDPHeader"] {
                let mut bench = Bench::new(class, &[]);
                bench.log();
                let mut packet = bench.arena.packet(&bytes).unwrap();
                packet.set_network_header(0, 28);
                let out = bench.push_packets(0, vec![packet]);
                let passed = if class == "SetUDPChecksum" {
                    &out[0].1[28..] == segment
                } else {
                    out[0].0 == 0
                };
                assert_eq!(passed, right, "{class} {options:?}");
            }
        }
    }

    #[test]
    fn the_checksum_is_right() {
        let (own, other) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let frame = Frame::new(own, other).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).udp(1, 2, b"payload");
        let good = frame[EthernetHeader::LEN..].to_vec();
        let mut fragment = good.clone();
        fragment[6] |= 0x20;
        for (mut bytes, output) in [(good.clone(), 0), (fragment, 1), (good[..30].to_vec(), 1)] {
            let expected = bytes.clone();
            if output == 0 {
                bytes[26] ^= 0x55;
            }
            let mut bench = Bench::new("SetUDPChecksum", &[]);
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet]), [(output, expected)]);
        }
    }
}
