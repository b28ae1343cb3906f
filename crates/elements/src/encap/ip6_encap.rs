//! # IP6Encap
//!
//! ## Synopsis
//! `IP6Encap(PROTO, SRC, DST [, HLIM, CLASS])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an IPv6 header before each packet, and sets the header and destination address annotations.
//! Packets without room for it are dropped.
//!
//! ## Arguments
//! - PROTO: next header, a number or a name.
//! - SRC, DST: IPv6 addresses; `DST_ANNO` for DST takes each packet's destination address
//!   annotation.
//! - HLIM (keyword): hop limit, default 250.
//! - CLASS (keyword): traffic class, default 0.
//!
//! ## Handlers
//! - `src`, `dst` (read, write): see the arguments.
//!
//! ## See also
//! `IPEncap`, `UDPIP6Encap`

use std::net::Ipv6Addr;

use crate::prelude::*;
use crate::shared::fields::{grow_front, set};
use crate::shared::values::{OrAnnotation, Protocol};

/// Puts an IPv6 header before packets.
pub(crate) struct IP6Encap {
    pub(super) protocol: u8,
    pub(super) source: Ipv6Addr,
    pub(super) destination: OrAnnotation<Ipv6Addr>,
    pub(super) hop_limit: u8,
    class: u8,
}

impl Default for IP6Encap {
    fn default() -> IP6Encap {
        let source = Ipv6Addr::UNSPECIFIED;
        let destination = OrAnnotation::Fixed(source);
        IP6Encap { protocol: 0, source, destination, hop_limit: 250, class: 0 }
    }
}

impl Class for IP6Encap {
    const INFO: ClassInfo = ClassInfo::new("IP6Encap", "1/1").inline();
}

impl IP6Encap {
    /// Puts the header and `more` zero bytes before a packet; returns the destination.
    pub(super) fn push_header(&self, packet: &mut Packet, more: usize) -> Option<[u8; 16]> {
        let length = u16::try_from(packet.len() + more).ok()?;
        let destination = match self.destination {
            OrAnnotation::Fixed(address) => address.octets(),
            OrAnnotation::Annotation => packet.annotation(annotation::DST_IP6),
        };
        let header = grow_front(packet, 40 + more)?;
        set(header, 0, [0x60 | self.class >> 4, self.class << 4]);
        set(header, 4, length.to_be_bytes());
        set(header, 6, [self.protocol, self.hop_limit]);
        set(header, 8, self.source.octets());
        set(header, 24, destination);
        packet.set_annotation(annotation::DST_IP6, destination);
        packet.set_network_header(0, 40);
        Some(destination)
    }
}

impl Element for IP6Encap {
    arguments! { this, given;
        mandatory "PROTO": Protocol => Protocol(this.protocol);
        mandatory "SRC": Ipv6Addr => this.source;
        mandatory "DST": OrAnnotation<Ipv6Addr> => this.destination;
        keyword "HLIM": u8 = 250 => this.hop_limit;
        keyword "CLASS": u8 = 0 => this.class;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.push_header(packet, 0).is_some());
    }

    handlers! { this, context, value;
        both "src" => this.source;
        both "dst" => this.destination;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_header_is_right() {
        let mut bench = Bench::new("IP6Encap", &["4", "::1", "::2", "HLIM 9", "CLASS 0x12"]);
        let out = bench.push(0, &[b"abc"]);
        assert_eq!(out[0].1[..8], [0x61, 0x20, 0, 0, 0, 3, 4, 9]);
        assert_eq!((out[0].1[23], out[0].1[39], &out[0].1[40..]), (1, 2, &b"abc"[..]));
    }
}
