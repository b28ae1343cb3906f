//! Types of values that only some elements use.

use std::time::Duration;

use europa_engine::{Names, Value};

/// A span or point of time in nanoseconds, exact; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) i64);

impl Value for Time {
    const WANTED: &'static str = "time in seconds";

    fn parse(text: &str, names: &Names) -> Option<Time> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // Decimal digits are read exactly: a float cannot represent nanoseconds since 1970.
        let nanoseconds = match digits.strip_suffix('s').unwrap_or(digits).split_once('.') {
            _ if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => None,
            Some((whole, part)) => decimal(whole, part),
            None => decimal(digits.strip_suffix('s').unwrap_or(digits), ""),
        };
        let nanoseconds = match nanoseconds {
            Some(nanoseconds) => nanoseconds,
            None => i64::try_from(Duration::parse(digits, names)?.as_nanos()).ok()?,
        };
        Some(Time(if negative { -nanoseconds } else { nanoseconds }))
    }
}

/// Nanoseconds from the digits before and behind a point.
fn decimal(whole: &str, part: &str) -> Option<i64> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() + part.len() == 0 {
        return None;
    }
    let seconds: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
    seconds.checked_mul(1_000_000_000)?.checked_add(nine.parse().ok()?)
}

impl Time {
    /// A time of the packets' clock. Times before 1970 are negative.
    pub(crate) fn of(time_ns: u64) -> Time {
        Time(time_ns.cast_signed())
    }

    /// For a packet.
    pub(crate) fn nanoseconds(self) -> u64 {
        self.0.cast_unsigned()
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (seconds, rest) =
            (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
        // Six digits unless nine are needed, as tools that read these times expect.
        match rest % 1000 {
            0 => write!(f, "{sign}{seconds}.{:06}", rest / 1000),
            _ => write!(f, "{sign}{seconds}.{rest:09}"),
        }
    }
}

/// A span of time in the usual notation: `0.5s`, `20ms`.
pub(crate) fn interval(nanoseconds: u64) -> String {
    let exact = |unit: u64, name: &str| {
        let (whole, part) = (nanoseconds / unit, nanoseconds % unit);
        let digits = unit.ilog10() as usize;
        let part = format!("{part:0digits$}");
        let part = part.trim_end_matches('0');
        if part.is_empty() { format!("{whole}{name}") } else { format!("{whole}.{part}{name}") }
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => exact(1_000, "us"),
        1_000_000..1_000_000_000 => exact(1_000_000, "ms"),
        _ => exact(1_000_000_000, "s"),
    }
}

/// Bytes a second. It is written without a unit, or as `384 kbps`, `10Mbps` (bits), `1 MBps`
/// (bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bandwidth(pub(crate) u64);

impl Value for Bandwidth {
    const WANTED: &'static str = "bandwidth, such as 10Mbps";

    fn parse(text: &str, _: &Names) -> Option<Bandwidth> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(end)?;
        let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
        let unit = unit.trim();
        let (prefix, bits) = match unit {
            "" => ("", false),
            _ => [
                ("bps", true),
                ("b/s", true),
                ("baud", true),
                ("bit/s", true),
                ("Bps", false),
                ("B/s", false),
            ]
            .into_iter()
            .find_map(|(name, bits)| Some((unit.strip_suffix(name)?, bits)))
            .unwrap_or((unit, false)),
        };
        let scale = match prefix {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "g" | "G" => 1e9,
            _ => return None,
        };
        let bytes = number * scale / if bits { 8.0 } else { 1.0 };
        (bytes < 1e18).then_some(Bandwidth(bytes.round() as u64))
    }
}

impl std::fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = self.0.saturating_mul(8);
        match bits {
            0 => write!(f, "0bps"),
            _ if bits.is_multiple_of(1_000_000_000) => write!(f, "{}Gbps", bits / 1_000_000_000),
            _ if bits.is_multiple_of(1_000_000) => write!(f, "{}Mbps", bits / 1_000_000),
            _ if bits.is_multiple_of(1_000) => write!(f, "{}kbps", bits / 1_000),
            _ => write!(f, "{bits}bps"),
        }
    }
}

/// Names of IP protocols.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igrp", 9),
    ("udp", 17),
    ("dccp", 33),
    ("ip6", 41),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ipv6-icmp", 58),
    ("nd", 77),
    ("ospf", 89),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// The name of an IP protocol, if it has one.
pub(crate) fn protocol_name(protocol: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(_, number)| *number == protocol).map(|(name, _)| *name)
}

/// An IP protocol: a number or a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Protocol(pub(crate) u8);

impl Value for Protocol {
    const WANTED: &'static str = "IP protocol";

    fn parse(text: &str, names: &Names) -> Option<Protocol> {
        let known = PROTOCOLS.iter().find(|(name, _)| *name == text);
        known.map(|(_, number)| *number).or_else(|| u8::parse(text, names)).map(Protocol)
    }
}

/// Names of TCP and UDP ports.
const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap2", 143),
    ("imap", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("imap3", 220),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("syslog", 514),
    ("route", 520),
    ("rip", 520),
    ("imaps", 993),
    ("pop3s", 995),
    ("x11", 6000),
];

/// A TCP or UDP port: a number or the name of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port(pub(crate) u16);

impl Value for Port {
    const WANTED: &'static str = "port";

    fn parse(text: &str, names: &Names) -> Option<Port> {
        if let Some(named) = names.get(text)
            && let Some(port) = named.udp.or(named.tcp)
        {
            return Some(Port(port));
        }
        let known = PORTS.iter().find(|(name, _)| *name == text);
        known.map(|(_, number)| *number).or_else(|| u16::parse(text, names)).map(Port)
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A value, or the word `DST_ANNO` for the packet's destination annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrAnnotation<T> {
    /// Of the packet.
    Annotation,
    /// The same for all.
    Fixed(T),
}

impl<T: Value> Value for OrAnnotation<T> {
    const WANTED: &'static str = T::WANTED;

    fn parse(text: &str, names: &Names) -> Option<Self> {
        match text {
            "DST_ANNO" => Some(OrAnnotation::Annotation),
            _ => T::parse(text, names).map(OrAnnotation::Fixed),
        }
    }
}

impl<T: std::fmt::Display> std::fmt::Display for OrAnnotation<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OrAnnotation::Annotation => f.write_str("DST_ANNO"),
            OrAnnotation::Fixed(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Option<T> {
        T::parse(text, &Names::default())
    }

    #[test]
    fn times_are_exact() {
        for (text, nanoseconds, shown) in [
            ("1000000000.000000001", 1_000_000_000_000_000_001, "1000000000.000000001"),
            ("-1.5", -1_500_000_000, "-1.500000"),
            (".25s", 250_000_000, "0.250000"),
            ("20ms", 20_000_000, "0.020000"),
            ("3", 3_000_000_000, "3.000000"),
        ] {
            assert_eq!(read(text), Some(Time(nanoseconds)), "{text}");
            assert_eq!(Time(nanoseconds).to_string(), shown);
        }
        for bad in ["", ".", "x", "1.5x", "--1", "99999999999999999999"] {
            assert_eq!(read::<Time>(bad), None, "{bad}");
        }
    }

    #[test]
    fn protocols_and_ports_have_names() {
        assert_eq!((read("tcp"), read("89")), (Some(Protocol(6)), Some(Protocol(89))));
        assert_eq!((read("www"), read::<Port>("70000")), (Some(Port(80)), None));
    }

    #[test]
    fn bandwidths_have_units() {
        for (text, bytes, shown) in [
            ("1000", 1000, "8kbps"),
            ("384 kbps", 48_000, "384kbps"),
            ("10Mbps", 1_250_000, "10Mbps"),
            ("1 GBps", 1_000_000_000, "8Gbps"),
            ("100k", 100_000, "800kbps"),
        ] {
            assert_eq!(read(text), Some(Bandwidth(bytes)), "{text}");
            assert_eq!(Bandwidth(bytes).to_string(), shown);
        }
        for bad in ["", "bps", "1xbps", "-1", "1e400"] {
            assert_eq!(read::<Bandwidth>(bad), None, "{bad}");
        }
        for (nanoseconds, text) in
            [(0, "0s"), (500_000_000, "500ms"), (1_500_000_000, "1.5s"), (12, "12ns")]
        {
            assert_eq!(interval(nanoseconds), text);
        }
    }
}
