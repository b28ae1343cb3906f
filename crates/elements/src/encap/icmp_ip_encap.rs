//! # ICMPIPEncap
//!
//! ## Synopsis
//! `ICMPIPEncap(SRC, DST, TYPE [, CODE, IDENTIFIER])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts ICMP and IPv4 headers before each packet. For types with a sequence number, it increments
//! the number for each packet.
//!
//! ## Arguments
//! - SRC, DST: IPv4 addresses.
//! - TYPE, CODE: numbers or names; CODE is 0 by default.
//! - IDENTIFIER (keyword): default 0.
//!
//! ## Handlers
//! - `src`, `dst` (read, write): see the arguments.
//!
//! ## See also
//! `ICMPPingEncap`, `ICMPError`, `IPEncap`

use std::net::Ipv4Addr;

use europa_packet::checksum;

use super::{Ipv4, parts};
use crate::prelude::*;
use crate::shared::fields::set;
use crate::shared::icmp_names;
use crate::shared::values::OrAnnotation;

/// Puts ICMP and IPv4 headers before packets.
pub(crate) struct ICMPIPEncap {
    pub(crate) header: Ipv4,
    pub(super) kind: u8,
    code: u8,
    pub(crate) identifier: u16,
}

impl Default for ICMPIPEncap {
    fn default() -> ICMPIPEncap {
        let header = Ipv4 { id: 1, ..Ipv4::new(1, 255) };
        ICMPIPEncap { header, kind: 8, code: 0, identifier: 0 }
    }
}

impl Class for ICMPIPEncap {
    const INFO: ClassInfo = ClassInfo::new("ICMPIPEncap", "1/1").inline();
}

impl ICMPIPEncap {
    /// Makes the headers of echo requests for `ICMPPingSource`.
    pub(crate) fn request(source: Ipv4Addr, destination: Ipv4Addr, identifier: u16) -> ICMPIPEncap {
        let mut encap = ICMPIPEncap { identifier, ..ICMPIPEncap::default() };
        encap.header.ttl = 200;
        encap.header.source = source;
        encap.header.destination = OrAnnotation::Fixed(destination);
        encap
    }

    /// Begins with the first sequence number again.
    pub(crate) fn restart(&mut self) {
        self.header.id = 1;
    }

    /// Puts both headers before a packet. `None` if there is no room.
    pub(crate) fn push_headers(&mut self, packet: &mut Packet) -> Option<()> {
        let sequence = self.header.id;
        self.header.push(packet, icmp_names::header_len(self.kind))?;
        // 0 is never used.
        self.header.id = self.header.id.max(1);
        let (_, message) = parts(packet);
        set(message, 0, [self.kind, self.code]);
        if icmp_names::has_identifier(self.kind) {
            set(message, 4, self.identifier.to_be_bytes());
            set(message, 6, sequence.to_be_bytes());
        }
        let check = checksum::checksum(message);
        set(message, 2, check.to_be_bytes()).then_some(())
    }
}

impl Element for ICMPIPEncap {
    arguments! { this, given;
        mandatory "SRC": Ipv4Addr => this.header.source;
        mandatory "DST": OrAnnotation<Ipv4Addr> => this.header.destination;
        let kind = mandatory "TYPE": String;
        let code = positional "CODE": String = "0".to_owned();
        keyword "IDENTIFIER": u16 = 0 => this.identifier;
        then {
            this.kind =
                icmp_names::parse_type(&kind).ok_or_else(|| ConfigError::at(2, "invalid TYPE"))?;
            let code = icmp_names::parse_code(this.kind, &code);
            this.code = code.ok_or_else(|| ConfigError::at(3, "invalid CODE"))?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.push_headers(packet).is_some());
    }

    handlers! { this, context, value;
        both "src" => this.header.source;
        both "dst" => this.header.destination;
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::checksum;

    use crate::testing::Bench;

    #[test]
    fn types_and_codes_have_names() {
        let mut bench = Bench::new("ICMPIPEncap", &["1.2.3.4", "5.6.7.8", "unreachable", "port"]);
        let packet = bench.push(0, &[b"abc"]).remove(0).1;
        assert_eq!((packet[9], &packet[20..22], packet.len()), (1, &[3, 3][..], 31));
        assert!(checksum::verify(&packet[20..]));
        let error = Bench::error("ICMPIPEncap", &["1.2.3.4", "5.6.7.8", "echo", "port"]);
        assert_eq!(error, "invalid CODE");
    }
}
