//! # IP6Filter
//!
//! ## Synopsis
//! `IP6Filter(ACTION PATTERN, ...)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Applies to each IPv6 packet the action of the first pattern that fits it, and drops packets that
//! fit none. The network header annotation must be set, for example by `CheckIP6Header`. Tests of
//! bytes that a packet does not have fail.
//!
//! Tests are `[src|dst|src and dst|src or dst] [host|net] ADDRESS[/LENGTH]`, `[tcp|udp] [src|dst]
//! port PORT`, `ip6 vers|class|dscp|flow|plen|hlim N`, `nxt PROTOCOL`, the name of a protocol,
//! `frag`, `tcp opt FLAG`, `icmp6 type TYPE`, and `ether host ADDRESS`. A relation
//! (`== != < > <= >=`) and a mask (`& MASK`) may stand before a number. They are joined as in `IPFilter`. Only the
//! next header of the IPv6 header itself is read: headers behind extension headers are not found.
//!
//! ## Arguments
//! - ACTION: `allow` (output 0), `deny` or `drop`, or the number of an output.
//! - PATTERN: as above; `-`, `any` or `all` fits every packet.
//!
//! ## Handlers
//! - `program` (read): see `IPFilter`.
//!
//! ## See also
//! `IP6Classifier`, `IPFilter`

use super::ip_filter::IPFilter;
use super::parse::Version;
use crate::prelude::*;

/// Sorts IPv6 packets by expressions.
#[derive(Default)]
pub(crate) struct IP6Filter(IPFilter);

impl Class for IP6Filter {
    const INFO: ClassInfo =
        ClassInfo::new("IP6Filter", "1/-").processing("h/h").flow("x/x").inline().keeps_long();
}

impl Element for IP6Filter {
    arguments! { this, given;
        let rules = rest "RULE": "'ACTION EXPRESSION'";
        then {
            this.0.read_rules(rules, given, Version::Six);
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

    use europa_packet::{Frame, MacAddr};

    use crate::testing::Bench;

    /// Whether a UDP packet from 2001:db8:1::1 port 1000 to 2001:db8:2::2 port 53 fits.
    fn fits(pattern: &str) -> bool {
        let mut bench = Bench::with_outputs("IP6Filter", &[&format!("allow {pattern}")], 1);
        let [from, to] = ["2001:db8:1::1", "2001:db8:2::2"].map(|a| a.parse::<Ipv6Addr>().unwrap());
        let frame =
            Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv6(from, to).udp(1000, 53, b"abc");
        let mut packet = bench.arena.packet(&frame).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 40);
        !bench.push_packets(0, vec![packet]).is_empty()
    }

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, expected) in [
            ("-", true),
            ("udp", true),
            ("tcp", false),
            ("not tcp", true),
            ("tcp or udp", true),
            ("src 2001:db8:1::1", true),
            ("dst 2001:db8:1::1", false),
            ("host 2001:db8:1::1", true),
            ("2001:db8:2::2", true),
            ("src net 2001:db8::/32", true),
            ("src 2001:db8:1::/48", true),
            ("dst 2001:db8:1::/48", false),
            ("src and dst net 2001:db8::/32", true),
            ("src and dst net 2001:db8:1::/48", false),
            ("src or dst 2001:db8:2::/48", true),
            ("host != 2001:db8:3::1", true),
            ("src host != 2001:db8:1::1", false),
            ("net ::/0", true),
            ("ip6 host 2001:db8:2::2", true),
            ("dst port 53", true),
            ("udp dst port domain", true),
            ("tcp dst port 53", false),
            ("src port > 999", true),
            ("src port < 1000", false),
            ("ip6 hlim 64", true),
            ("hlim < 64", false),
            ("ip6 plen 11", true),
            ("ip6 vers 6 and nxt udp", true),
            ("ip6 flow 0", true),
            ("ip6 dscp 0 and class & 3 == 0", true),
            ("frag", false),
            ("icmp6 type echo", false),
            ("tcp opt syn", false),
            ("icmp6", false),
            ("ether src 4:4:4:4:4:4 or ether dst 4:4:4:4:4:4", true),
            ("udp ? dst port 53 : true", true),
            ("(tcp || udp) && src 2001:db8:1::1", true),
        ] {
            assert_eq!(fits(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (rule, error) in [
            ("allow 10.0.0.1", "pattern 0: '10.0.0.1' is no test and no IPv6 address"),
            ("allow src", "pattern 0: partial directive"),
            ("allow udp src 2001:db8::1", "pattern 0: expected 'port' near '2001:db8::1'"),
            ("allow ip6 hlim 256", "pattern 0: 'hlim': out of range, bound 255"),
            ("allow icmp6 port 3", "pattern 0: 'port': bad protocol"),
            ("allow icmp6 type nothing", "pattern 0: 'icmp6 type': unknown type 'nothing'"),
            ("allow host", "pattern 0: 'ip6 host': value missing"),
            ("allow (tcp", "pattern 0: missing ')'"),
        ] {
            assert_eq!(Bench::error("IP6Filter", &[rule]), error, "{rule}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_pattern(words in proptest::collection::vec("(and|or|not|\\(|\\)|\\?|:|&|==|!=|<|>|src|dst|port|host|net|tcp|udp|icmp6|type|ip6|ether|nxt|hlim|flow|opt|frag|::1|2001:db8::/32|1:2:3:4:5:6|[0-9]{1,3}|echo|syn|true)", 0..14)) {
            let text = format!("0 {}", words.join(" "));
            let _ = Bench::try_new("IP6Filter", &[&text], None, Some(1));
        }
    }
}
