//! # IP6Classifier
//!
//! ## Synopsis
//! `IP6Classifier(PATTERN, ...)`
//!
//! ## Ports
//! One push input, as many push outputs as patterns.
//!
//! ## Description
//! Sends each IPv6 packet out of the output of the first pattern that fits it, and drops packets
//! that fit none. Patterns are those of `IP6Filter`. The network header annotation must be set.
//!
//! ## Arguments
//! - PATTERN: see `IP6Filter`.
//!
//! ## Handlers
//! - `program` (read): see `IPFilter`.
//!
//! ## See also
//! `IP6Filter`, `IPClassifier`, `Classifier`

use super::ip_classifier::IPClassifier;
use super::parse::Version;
use crate::prelude::*;

/// Sorts IPv6 packets by expressions.
#[derive(Default)]
pub(crate) struct IP6Classifier(IPClassifier);

impl Class for IP6Classifier {
    const INFO: ClassInfo =
        ClassInfo::new("IP6Classifier", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for IP6Classifier {
    arguments! { this, given;
        let patterns = rest "PATTERN": "expression, or '-'";
        then {
            this.0.read_patterns(patterns, given, Version::Six)?;
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    handlers! { this, context, value; read "program" [CALM RAW] => this.0.program(); }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use europa_packet::Frame;

    use crate::testing::Bench;

    #[test]
    fn the_first_that_fits() {
        let patterns = &["udp dst port 53", "src 2001:db8::/32", "-"];
        let mut bench = Bench::with_outputs("IP6Classifier", patterns, 3);
        for (source, port, output) in
            [("2001:db8::1", 53, 0), ("2001:db8::1", 54, 1), ("::9", 54, 2)]
        {
            let [from, to] = [source, "::2"].map(|a| a.parse::<Ipv6Addr>().unwrap());
            let bytes = Frame::bare().ipv6(from, to).udp(1, port, b"abc");
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 40);
            assert_eq!(bench.push_packets(0, vec![packet])[0].0, output, "{source} {port}");
        }
    }
}
