//! A rule's conditions on an IP packet by field, and their translation to values and masks.
//!
//! Keys of IPv4 have 128 bits: source, destination, [`Fields`]. Keys of IPv6 have 320 bits: the
//! same with longer addresses. A range of ports is split into prefixes, so a pattern may make
//! several rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::five_tuple::{Filter, prefixes};
use crate::hash::masked;
use crate::rule::Key;

/// The fields of a packet without its addresses: one word of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Source port; 0 if there is none.
    pub source_port: u16,
    /// Destination port; 0 if there is none.
    pub destination_port: u16,
    /// Number of the protocol in IP.
    pub protocol: u8,
    /// TCP's flags, CWR to FIN; 0 of other protocols.
    pub tcp_flags: u8,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Whether the packet is a later fragment, without ports and flags.
    pub later_fragment: bool,
    /// The slice's number of the interface, at most [`MOST_INTERFACES`]; 0 for none.
    pub interface: u16,
}

/// Highest number of an interface in a key.
pub const MOST_INTERFACES: u16 = 0x1ff;

const LATER_FRAGMENT: u64 = 1 << 9;

impl Fields {
    /// All fields in one word.
    #[inline]
    pub fn word(&self) -> u64 {
        u64::from(self.source_port) << 48
            | u64::from(self.destination_port) << 32
            | u64::from(self.protocol) << 24
            | u64::from(self.tcp_flags) << 16
            | u64::from(self.dscp & 0x3f) << 10
            | u64::from(self.later_fragment) << 9
            | u64::from(self.interface & MOST_INTERFACES)
    }
}

/// The key of an IPv4 packet.
#[inline]
pub fn ipv4_key(source: Ipv4Addr, destination: Ipv4Addr, fields: &Fields) -> Key<2> {
    [words4(source) << 32 | words4(destination), fields.word()]
}

/// The key of an IPv6 packet.
#[inline]
pub fn ipv6_key(source: Ipv6Addr, destination: Ipv6Addr, fields: &Fields) -> Key<5> {
    let ([s1, s2], [d1, d2]) = (words6(source), words6(destination));
    [s1, s2, d1, d2, fields.word()]
}

fn words4(address: Ipv4Addr) -> u64 {
    u32::from(address).into()
}

fn words6(address: Ipv6Addr) -> [u64; 2] {
    let bits = u128::from(address);
    [(bits >> 64) as u64, bits as u64]
}

/// A rule's conditions; a field that is `None` matches any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Source addresses.
    pub source: Option<IpNet>,
    /// Destination addresses.
    pub destination: Option<IpNet>,
    /// Value and mask for the protocol number in the IP header.
    pub protocol: (u8, u8),
    /// Source ports. Later fragments have none and do not match.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports. Later fragments have none and do not match.
    pub destination_ports: Option<RangeInclusive<u16>>,
    /// Value and mask of TCP's flags.
    pub tcp_flags: (u8, u8),
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Whether it is a later fragment.
    pub later_fragment: Option<bool>,
    /// The output interface, as in [`Fields`].
    pub interface: Option<u16>,
}

impl From<&Filter> for Pattern {
    fn from(filter: &Filter) -> Self {
        let net = |(address, bits): (Ipv4Addr, u8)| {
            // A parsed filter has at most 32 bits.
            IpNet::new(IpAddr::V4(address), bits).ok().map(|net| net.trunc())
        };
        let ports = |range: &RangeInclusive<u16>| (*range != (0..=0xffff)).then(|| range.clone());
        Self {
            source: net(filter.source),
            destination: net(filter.destination),
            protocol: filter.protocol,
            source_ports: ports(&filter.source_ports),
            destination_ports: ports(&filter.destination_ports),
            // ClassBench has the byte of TCP's flags in the upper half.
            tcp_flags: ((filter.flags.0 >> 8) as u8, (filter.flags.1 >> 8) as u8),
            ..Self::default()
        }
    }
}

impl Pattern {
    /// Values and masks of the last words.
    fn words(&self) -> Vec<(u64, u64)> {
        let has_ports = self.source_ports.is_some() || self.destination_ports.is_some();
        let later_fragment = if has_ports { Some(false) } else { self.later_fragment };
        let value = Fields {
            source_port: 0,
            destination_port: 0,
            protocol: self.protocol.0,
            tcp_flags: self.tcp_flags.0,
            dscp: self.dscp.unwrap_or(0),
            later_fragment: later_fragment.unwrap_or(false),
            interface: self.interface.unwrap_or(0),
        };
        let mask = Fields {
            protocol: self.protocol.1,
            tcp_flags: self.tcp_flags.1,
            dscp: if self.dscp.is_some() { 0x3f } else { 0 },
            interface: if self.interface.is_some() { MOST_INTERFACES } else { 0 },
            ..Fields::default()
        };
        let fragment = if later_fragment.is_some() { LATER_FRAGMENT } else { 0 };
        let all = || 0..=0xffff;
        let from = self.source_ports.clone().unwrap_or_else(all);
        let to = self.destination_ports.clone().unwrap_or_else(all);
        let mut words = Vec::new();
        for source in prefixes(&from) {
            for destination in prefixes(&to) {
                let ports =
                    |source, destination| u64::from(source) << 48 | u64::from(destination) << 32;
                let mask = mask.word() | fragment | ports(source.1, destination.1);
                let value = value.word() | ports(source.0, destination.0);
                words.push((value & mask, mask));
            }
        }
        words
    }

    /// Whether the pattern can match packets of a family.
    fn wants(&self, ipv4: bool) -> bool {
        let family =
            |net: &Option<IpNet>| net.is_none_or(|net| matches!(net, IpNet::V4(_)) == ipv4);
        family(&self.source) && family(&self.destination)
    }

    /// Values and masks for packets of IPv4; empty if the pattern has IPv6 addresses.
    pub fn ipv4(&self) -> Vec<(Key<2>, Key<2>)> {
        if !self.wants(true) {
            return Vec::new();
        }
        let parts = |net: &Option<IpNet>| match net {
            Some(IpNet::V4(net)) => (words4(net.network()), words4(net.netmask())),
            _ => (0, 0),
        };
        let (source, destination) = (parts(&self.source), parts(&self.destination));
        let rule = |(value, mask)| {
            let value = [source.0 << 32 | destination.0, value];
            let mask = [source.1 << 32 | destination.1, mask];
            (masked(&value, &mask), mask)
        };
        self.words().into_iter().map(rule).collect()
    }

    /// Values and masks for packets of IPv6; empty if the pattern has IPv4 addresses.
    pub fn ipv6(&self) -> Vec<(Key<5>, Key<5>)> {
        if !self.wants(false) {
            return Vec::new();
        }
        let parts = |net: &Option<IpNet>| match net {
            Some(IpNet::V6(net)) => (words6(net.network()), words6(net.netmask())),
            _ => ([0; 2], [0; 2]),
        };
        let ((s, sm), (d, dm)) = (parts(&self.source), parts(&self.destination));
        let rule = |(value, mask)| {
            let mask = [sm[0], sm[1], dm[0], dm[1], mask];
            (masked(&[s[0], s[1], d[0], d[1], value], &mask), mask)
        };
        self.words().into_iter().map(rule).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields { source_port: 4000, destination_port: 443, protocol: 6, ..Fields::default() }
    }

    /// Whether a packet from 10.0.0.1 to 10.0.0.2, or between corresponding IPv6 addresses,
    /// matches.
    fn matches(pattern: &Pattern, fields: &Fields) -> (bool, bool) {
        let four = ipv4_key([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), fields);
        let six = ipv6_key("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap(), fields);
        let fits4 =
            pattern.ipv4().iter().filter(|(value, mask)| masked(&four, mask) == *value).count();
        let fits6 =
            pattern.ipv6().iter().filter(|(value, mask)| masked(&six, mask) == *value).count();
        assert!(fits4 <= 1 && fits6 <= 1, "parts overlap: {pattern:?}");
        (fits4 == 1, fits6 == 1)
    }

    #[test]
    fn patterns_match_what_they_say() {
        let net = |text: &str| Some(text.parse().unwrap());
        let any = Pattern::default;
        let https = Some(400..=499);
        let (syn, ack) = (2, 16);
        for (what, pattern, packet, wanted) in [
            ("anything", any(), fields(), (true, true)),
            ("a network", Pattern { source: net("10.0.0.0/24"), ..any() }, fields(), (true, false)),
            ("another", Pattern { source: net("10.0.1.0/24"), ..any() }, fields(), (false, false)),
            ("IPv6", Pattern { destination: net("fd00::/64"), ..any() }, fields(), (false, true)),
            (
                "both families",
                Pattern { source: net("10.0.0.0/8"), destination: net("fd00::/64"), ..any() },
                fields(),
                (false, false),
            ),
            ("TCP", Pattern { protocol: (6, 255), ..any() }, fields(), (true, true)),
            ("UDP", Pattern { protocol: (17, 255), ..any() }, fields(), (false, false)),
            (
                "ports",
                Pattern { destination_ports: https.clone(), ..any() },
                fields(),
                (true, true),
            ),
            (
                "ports of a later fragment",
                Pattern { destination_ports: Some(0..=499), ..any() },
                Fields { destination_port: 0, later_fragment: true, ..fields() },
                (false, false),
            ),
            (
                "a later fragment",
                Pattern { later_fragment: Some(true), ..any() },
                Fields { later_fragment: true, ..fields() },
                (true, true),
            ),
            (
                "SYN without ACK",
                Pattern { tcp_flags: (syn, syn | ack), ..any() },
                Fields { tcp_flags: syn | 1, ..fields() },
                (true, true),
            ),
            (
                "SYN without ACK, and both",
                Pattern { tcp_flags: (syn, syn | ack), ..any() },
                Fields { tcp_flags: syn | ack, ..fields() },
                (false, false),
            ),
            (
                "expedited",
                Pattern { dscp: Some(46), ..any() },
                Fields { dscp: 46, ..fields() },
                (true, true),
            ),
            ("not expedited", Pattern { dscp: Some(46), ..any() }, fields(), (false, false)),
            (
                "an interface",
                Pattern { interface: Some(511), ..any() },
                Fields { interface: 511, ..fields() },
                (true, true),
            ),
            ("another one", Pattern { interface: Some(511), ..any() }, fields(), (false, false)),
        ] {
            assert_eq!(matches(&pattern, &packet), wanted, "{what}");
        }
    }

    #[test]
    fn a_filter_of_classbench_is_a_pattern() {
        let line = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t443 : 443\t0x06/0xFF\t0x0200/0x0200";
        let filter: Filter = line.parse().unwrap();
        let pattern = Pattern::from(&filter);
        assert_eq!(pattern.tcp_flags, (2, 2));
        let rules: Vec<_> = pattern.ipv4();
        // The same result, except that later fragments do not match.
        let [(_, old)] = filter.ternary().collect::<Vec<_>>()[..] else { panic!("one rule") };
        assert_eq!(rules[0].1, [old[0], old[1] | LATER_FRAGMENT]);
    }
}
