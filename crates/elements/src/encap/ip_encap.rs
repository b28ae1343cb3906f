//! # IPEncap
//!
//! ## Synopsis
//! `IPEncap(PROTO, SRC, DST [, TTL, DSCP, ECT, CE, TOS, DF])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an IPv4 header before each packet, and sets the header and destination address annotations.
//! Packets without room for it are dropped.
//!
//! ## Arguments
//! - PROTO: IP protocol, a number or a name.
//! - SRC, DST: IPv4 addresses; `DST_ANNO` for DST takes each packet's destination address
//!   annotation.
//! - TTL (keyword): default 250.
//! - DSCP, ECT, CE (keywords): parts of the type of service. DSCP: 0 to 63. ECT: `true` or 2 for
//!   the two marks of a sender that supports congestion marks. CE: congestion experienced.
//! - TOS (keyword): the whole type of service, in place of DSCP, ECT and CE.
//! - DF (keyword): whether routers must not fragment the packets; default false.
//!
//! ## Handlers
//! - `src`, `dst` (read, write): see the arguments.
//!
//! ## See also
//! `UDPIPEncap`, `StripIPHeader`, `IP6Encap`

use std::net::Ipv4Addr;

use super::Ipv4;
use crate::prelude::*;
use crate::shared::values::{OrAnnotation, Protocol};

/// Puts an IPv4 header before packets.
pub(crate) struct IPEncap(Ipv4);

impl Default for IPEncap {
    fn default() -> IPEncap {
        IPEncap(Ipv4::new(0, 250))
    }
}

impl Class for IPEncap {
    const INFO: ClassInfo = ClassInfo::new("IPEncap", "1/1").inline();
}

impl Element for IPEncap {
    arguments! { this, given;
        mandatory "PROTO": Protocol => Protocol(this.0.protocol);
        mandatory "SRC": Ipv4Addr => this.0.source;
        mandatory "DST": OrAnnotation<Ipv4Addr> => this.0.destination;
        let dscp = keyword "DSCP": u8;
        let ect = keyword "ECT": String;
        let congestion = keyword "CE": bool;
        let tos = keyword "TOS": u8;
        keyword "TTL": u8 = 250 => this.0.ttl;
        keyword "DF": bool = false => this.0.dont_fragment;
        then {
            if tos.is_some() && (dscp.is_some() || ect.is_some() || congestion.is_some()) {
                return Err(ConfigError::other("cannot set both TOS and DSCP, ECT, or CE"));
            }
            if dscp.is_some_and(|dscp| dscp > 63) {
                return Err(ConfigError::other("DSCP: expected 0 to 63"));
            }
            let mark = match ect.as_deref() {
                _ if congestion == Some(true) => 3,
                None => 0,
                Some("2") => 2,
                Some(text) => u8::from(given.value::<bool>("ECT", 0, text)?),
            };
            this.0.tos = tos.unwrap_or(dscp.unwrap_or(0) << 2 | mark);
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.0.push(packet, 0).is_some());
    }

    handlers! { this, context, value;
        both "src" => this.0.source;
        both "dst" => this.0.destination;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::checksum;

    #[test]
    fn the_header_is_right() {
        let arguments = ["4", "1.2.3.4", "5.6.7.8", "TTL 9", "DSCP 46", "ECT true", "DF true"];
        let mut bench = Bench::new("IPEncap", &arguments);
        let out = bench.push(0, &[b"abc", b"d"]);
        let (header, rest) = out[0].1.split_at(20);
        assert_eq!(header[..10], [0x45, 0xb9, 0, 23, 0, 0, 0x40, 0, 9, 4]);
        assert_eq!((&header[12..], rest), (&[1, 2, 3, 4, 5, 6, 7, 8][..], &b"abc"[..]));
        assert!(checksum::verify(header));
        assert_eq!(out[1].1[4..6], [0, 1]);
        assert_eq!(bench.out[0].1.network_offset(), Some(0));
        assert_eq!(bench.out[0].1.dst_ip(), 0x0506_0708);
    }

    #[test]
    fn the_destination_may_be_each_packets_own() {
        let mut bench = Bench::new("IPEncap", &["ipip", "1.2.3.4", "DST_ANNO"]);
        let mut packet = bench.arena.packet(b"").unwrap();
        packet.set_dst_ip(7);
        assert_eq!(bench.push_packets(0, vec![packet])[0].1[16..20], [0, 0, 0, 7]);
        assert_eq!(bench.router.read("e.dst", ""), Ok("DST_ANNO".into()));
        let error = Bench::error("IPEncap", &["4", "1.1.1.1", "2.2.2.2", "TOS 1", "CE true"]);
        assert_eq!(error, "cannot set both TOS and DSCP, ECT, or CE");
    }
}
