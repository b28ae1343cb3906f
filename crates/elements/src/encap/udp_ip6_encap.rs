//! # UDPIP6Encap
//!
//! ## Synopsis
//! `UDPIP6Encap(SRC, SPORT, DST, DPORT)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts UDP and IPv6 headers before each packet, and sets the header and destination address
//! annotations. Packets without room for them are dropped.
//!
//! ## Arguments
//! - SRC, DST: IPv6 addresses; `DST_ANNO` for DST takes each packet's destination address
//!   annotation.
//! - SPORT, DPORT: ports.
//!
//! ## Handlers
//! - `src`, `sport`, `dst`, `dport` (read, write): see the arguments.
//!
//! ## See also
//! `UDPIPEncap`, `IP6Encap`

use std::net::Ipv6Addr;

use europa_packet::{IpProtocol, checksum};

use super::ip6_encap::IP6Encap;
use crate::prelude::*;
use crate::shared::fields::set;
use crate::shared::values::{OrAnnotation, Port};

/// Puts UDP and IPv6 headers before packets.
#[derive(Default)]
pub(crate) struct UDPIP6Encap {
    header: IP6Encap,
    source: Port,
    destination: Port,
}

impl Class for UDPIP6Encap {
    const INFO: ClassInfo = ClassInfo::new("UDPIP6Encap", "1/1").inline();
}

impl UDPIP6Encap {
    fn push_headers(&self, packet: &mut Packet) -> Option<()> {
        let destination = self.header.push_header(packet, 8)?;
        let segment = packet.transport_header_mut()?;
        let length = segment.len();
        set(segment, 0, self.source.0.to_be_bytes());
        set(segment, 2, self.destination.0.to_be_bytes());
        // The length is the IPv6 payload length, which has 16 bits.
        set(segment, 4, (length as u16).to_be_bytes());
        let pseudo = checksum::pseudo_v6(
            self.header.source,
            destination.into(),
            IpProtocol(17),
            length as u32,
        );
        let check = checksum::udp((pseudo + checksum::sum(segment)).checksum());
        set(segment, 6, check.to_be_bytes()).then_some(())
    }
}

impl Element for UDPIP6Encap {
    arguments! { this, given;
        mandatory "SRC": Ipv6Addr => this.header.source;
        mandatory "SPORT": Port => this.source;
        mandatory "DST": OrAnnotation<Ipv6Addr> => this.header.destination;
        mandatory "DPORT": Port => this.destination;
        then {
            this.header.protocol = 17;
            this.header.hop_limit = 255;
        }
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
    use std::net::Ipv6Addr;

    use europa_packet::{IpProtocol, checksum};

    use crate::testing::Bench;

    #[test]
    fn the_checksum_is_right() {
        let mut bench = Bench::new("UDPIP6Encap", &["2001:db8::1", "5", "2001:db8::2", "6"]);
        let packet = bench.push(0, &[b"payload"]).remove(0).1;
        let address = |at: usize| Ipv6Addr::from(*packet[at..].first_chunk::<16>().unwrap());
        assert_eq!(packet[7], 255);
        let pseudo = checksum::pseudo_v6(address(8), address(24), IpProtocol(17), 15);
        assert!((pseudo + checksum::sum(&packet[40..])).is_valid());
        assert_eq!(packet[40..46], [0, 5, 0, 6, 0, 15]);
    }
}
