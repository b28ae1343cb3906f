//! # ICMPPingEncap
//!
//! ## Synopsis
//! `ICMPPingEncap(SRC, DST [, IDENTIFIER])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Makes each packet an ICMP echo request: puts ICMP and IPv4 headers before it, with sequence
//! numbers from 1 on.
//!
//! ## Arguments
//! - SRC, DST: IPv4 addresses.
//! - IDENTIFIER (keyword): default 0.
//!
//! ## Handlers
//! - `src`, `dst` (read, write): see the arguments.
//!
//! ## See also
//! `ICMPPingResponder`, `ICMPIPEncap`

use std::net::Ipv4Addr;

use super::icmp_ip_encap::ICMPIPEncap;
use crate::prelude::*;
use crate::shared::values::OrAnnotation;

/// Makes echo requests.
#[derive(Default)]
pub(crate) struct ICMPPingEncap(ICMPIPEncap);

impl Class for ICMPPingEncap {
    const INFO: ClassInfo = ClassInfo::new("ICMPPingEncap", "1/1").inline();
}

impl Element for ICMPPingEncap {
    arguments! { this, given;
        mandatory "SRC": Ipv4Addr => this.0.header.source;
        mandatory "DST": OrAnnotation<Ipv4Addr> => this.0.header.destination;
        keyword "IDENTIFIER": u16 = 0 => this.0.identifier;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.0.push_headers(packet).is_some());
    }

    handlers! { this, context, value;
        both "src" => this.0.header.source;
        both "dst" => this.0.header.destination;
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::checksum;

    use crate::testing::Bench;

    #[test]
    fn requests_are_counted() {
        let mut bench = Bench::new("ICMPPingEncap", &["1.2.3.4", "5.6.7.8", "IDENTIFIER 7"]);
        let out = bench.push(0, &[b"a", b"b"]);
        for (sequence, (_, packet)) in (1..).zip(&out) {
            assert_eq!(packet[20..22], [8, 0]);
            assert_eq!(packet[24..28], [0, 7, 0, sequence]);
            assert!(checksum::verify(&packet[20..]) && checksum::verify(&packet[..20]));
        }
    }
}
