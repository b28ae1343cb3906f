//! # UDPIPEncap
//!
//! ## Synopsis
//! `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts UDP and IPv4 headers before each packet, and sets the header and destination address
//! annotations. Packets without room for them are dropped.
//!
//! ## Arguments
//! - SRC, DST: IPv4 addresses; `DST_ANNO` for DST takes each packet's destination address
//!   annotation.
//! - SPORT, DPORT: ports.
//! - CHECKSUM: whether to set the UDP checksum; default true.
//!
//! ## Handlers
//! - `src`, `sport`, `dst`, `dport` (read, write): see the arguments.
//!
//! ## See also
//! `IPEncap`, `UDPIP6Encap`, `Strip`

use std::net::Ipv4Addr;

use europa_packet::checksum;

use super::{Ipv4, parts};
use crate::prelude::*;
use crate::shared::fields::{segment_checksum, set};
use crate::shared::values::{OrAnnotation, Port};

/// Puts UDP and IPv4 headers before packets.
pub(crate) struct UDPIPEncap {
    header: Ipv4,
    source: Port,
    destination: Port,
    checksum: bool,
}

impl Default for UDPIPEncap {
    fn default() -> UDPIPEncap {
        UDPIPEncap {
            header: Ipv4::new(17, 250),
            source: Port::default(),
            destination: Port::default(),
            checksum: true,
        }
    }
}

impl Class for UDPIPEncap {
    const INFO: ClassInfo = ClassInfo::new("UDPIPEncap", "1/1").inline();
}

impl UDPIPEncap {
    fn push_headers(&mut self, packet: &mut Packet) -> Option<()> {
        self.header.push(packet, 8)?;
        let (header, segment) = parts(packet);
        // The IP length has 16 bits, and this length is smaller.
        let length = segment.len() as u16;
        set(segment, 0, self.source.0.to_be_bytes());
        set(segment, 2, self.destination.0.to_be_bytes());
        set(segment, 4, length.to_be_bytes());
        if self.checksum {
            let check = checksum::udp(segment_checksum(header, segment));
            set(segment, 6, check.to_be_bytes());
        }
        Some(())
    }
}

impl Element for UDPIPEncap {
    arguments! { this, given;
        mandatory "SRC": Ipv4Addr => this.header.source;
        mandatory "SPORT": Port => this.source;
        mandatory "DST": OrAnnotation<Ipv4Addr> => this.header.destination;
        mandatory "DPORT": Port => this.destination;
        positional "CHECKSUM": bool = true => this.checksum;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.push_headers(packet).is_some());
    }

    handlers! { this, context, value;
        both "src" => this.header.source;
        both "sport" => this.source;
        both "dst" => this.header.destination;
        both "dport" => this.destination;
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn packets_are_as_others_make_them() {
        let mut bench = Bench::new("UDPIPEncap", &["1.2.3.4", "5", "5.6.7.8", "domain"]);
        let out = bench.push(0, &[b"payload"]);
        let frame = Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4([1, 2, 3, 4], [5, 6, 7, 8]);
        let frame = frame.ttl(250).udp(5, 53, b"payload");
        assert_eq!(out, [(0, frame[EthernetHeader::LEN..].to_vec())]);
        let mut bench = Bench::new("UDPIPEncap", &["1.2.3.4", "5", "5.6.7.8", "6", "false"]);
        assert_eq!(bench.push(0, &[b"x"])[0].1[26..28], [0, 0]);
    }
}
