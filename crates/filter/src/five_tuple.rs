//! The key from a packet's addresses, ports, protocol and flags, and rules for it in ClassBench's
//! format (Taylor and Turner: ClassBench, INFOCOM 2005):
//!
//! ```text
//! @192.0.2.0/24  198.51.100.1/32  0 : 65535  1024 : 65535  0x06/0xFF  0x0000/0x0000
//!  source        destination      its ports  its ports      protocol   flags
//! ```
//!
//! A range of ports is split into prefixes (Srinivasan et al., SIGCOMM 1998): at most 30, usually
//! one to six.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use crate::rule::Key;

/// The fields by which rules match a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Number of the protocol in IP.
    pub protocol: u8,
    /// TCP's flags, or other bits that the caller chooses.
    pub flags: u16,
}

impl FiveTuple {
    /// Source and destination in the first word; ports, protocol and flags in the second.
    #[inline]
    pub fn key(&self) -> Key<2> {
        let addresses =
            u64::from(u32::from(self.source)) << 32 | u64::from(u32::from(self.destination));
        let ports = u64::from(self.source_port) << 48 | u64::from(self.destination_port) << 32;
        [addresses, ports | u64::from(self.protocol) << 24 | u64::from(self.flags) << 8]
    }
}

/// A line of a filter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Source address and the number of its compared bits.
    pub source: (Ipv4Addr, u8),
    /// Destination address and the number of its compared bits.
    pub destination: (Ipv4Addr, u8),
    /// Source ports.
    pub source_ports: RangeInclusive<u16>,
    /// Destination ports.
    pub destination_ports: RangeInclusive<u16>,
    /// Value and mask.
    pub protocol: (u8, u8),
    /// Value and mask.
    pub flags: (u16, u16),
}

/// The mistake of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The line does not begin like a filter.
    #[error("found {found:?} where a filter's @ is wanted")]
    Begin {
        /// The beginning of the line.
        found: String,
    },
    /// A field is missing at the end.
    #[error("the line ends where {wanted} is wanted")]
    End {
        /// The missing part.
        wanted: &'static str,
    },
    /// A field has an unexpected value.
    #[error("found {found:?} where {wanted} is wanted")]
    Field {
        /// The text found.
        found: String,
        /// The expected text.
        wanted: &'static str,
    },
}

/// The words of a line, with `:` and `/` as separate words.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self, wanted: &'static str) -> Result<&'a str, FilterError> {
        let rest = self.0.trim_start();
        let separator = |c: char| c == ':' || c == '/' || c.is_whitespace();
        let end = match rest.find(separator) {
            Some(0) => 1,
            Some(end) => end,
            None => rest.len(),
        };
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        if word.is_empty() { Err(FilterError::End { wanted }) } else { Ok(word) }
    }

    fn expect(&mut self, separator: &'static str) -> Result<(), FilterError> {
        match self.next(separator)? {
            found if found == separator => Ok(()),
            found => Err(FilterError::Field { found: found.to_owned(), wanted: separator }),
        }
    }

    fn number(&mut self, most: u32, wanted: &'static str) -> Result<u32, FilterError> {
        let found = self.next(wanted)?;
        let number = match found.strip_prefix("0x").or_else(|| found.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => found.parse(),
        };
        let number = number.ok().filter(|number| *number <= most);
        number.ok_or_else(|| FilterError::Field { found: found.to_owned(), wanted })
    }

    fn prefix(&mut self) -> Result<(Ipv4Addr, u8), FilterError> {
        let found = self.next("an IPv4 address")?;
        let wrong = |_| FilterError::Field { found: found.to_owned(), wanted: "an IPv4 address" };
        let address = found.parse().map_err(wrong)?;
        self.expect("/")?;
        Ok((address, self.number(32, "a prefix length of at most 32")? as u8))
    }

    fn ports(&mut self) -> Result<RangeInclusive<u16>, FilterError> {
        let wanted = "a port of at most 65535";
        let first = self.number(0xffff, wanted)?;
        self.expect(":")?;
        let last = self.number(0xffff, wanted)?;
        if first > last {
            let found = format!("{first} : {last}");
            return Err(FilterError::Field { found, wanted: "a range that goes up" });
        }
        Ok(first as u16..=last as u16)
    }

    fn masked(&mut self, most: u32, wanted: &'static str) -> Result<(u32, u32), FilterError> {
        let value = self.number(most, wanted)?;
        self.expect("/")?;
        Ok((value, self.number(most, wanted)?))
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(line: &str) -> Result<Self, FilterError> {
        let line = line.trim();
        let begin = || FilterError::Begin { found: line.chars().take(20).collect() };
        let mut words = Words(line.strip_prefix('@').ok_or_else(begin)?);
        let (source, destination) = (words.prefix()?, words.prefix()?);
        let (source_ports, destination_ports) = (words.ports()?, words.ports()?);
        let protocol = words.masked(0xff, "a protocol or mask of at most 0xff")?;
        // Older files have no flags.
        let flags = if words.0.trim().is_empty() {
            (0, 0)
        } else {
            words.masked(0xffff, "flags or a mask of at most 0xffff")?
        };
        Ok(Self {
            source,
            destination,
            source_ports,
            destination_ports,
            protocol: (protocol.0 as u8, protocol.1 as u8),
            flags: (flags.0 as u16, flags.1 as u16),
        })
    }
}

/// Values and masks of the prefixes that together make a range.
pub(crate) fn prefixes(range: &RangeInclusive<u16>) -> impl Iterator<Item = (u16, u16)> {
    let (mut first, last) = (u32::from(*range.start()), u32::from(*range.end()));
    std::iter::from_fn(move || {
        if first > last {
            return None;
        }
        // The largest block that begins here and ends inside the range.
        let aligned = first.trailing_zeros().min(16);
        let fits = (last - first + 1).ilog2();
        let size = 1u32 << aligned.min(fits);
        let prefix = (first as u16, !(size - 1) as u16);
        first += size;
        Some(prefix)
    })
}

fn network(bits: u8) -> u64 {
    u64::from(u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0))
}

impl Filter {
    /// The same rule as values and masks of keys.
    pub fn ternary(&self) -> impl Iterator<Item = (Key<2>, Key<2>)> {
        let word = |(source, bits): (Ipv4Addr, u8)| (u64::from(u32::from(source)), network(bits));
        let (source, destination) = (word(self.source), word(self.destination));
        let mask = [
            source.1 << 32 | destination.1,
            u64::from(self.protocol.1) << 24 | u64::from(self.flags.1) << 8,
        ];
        let value = [
            source.0 << 32 | destination.0,
            u64::from(self.protocol.0) << 24 | u64::from(self.flags.0) << 8,
        ];
        prefixes(&self.source_ports).flat_map(move |from| {
            prefixes(&self.destination_ports).map(move |to| {
                let ports = |from, to| u64::from(from) << 48 | u64::from(to) << 32;
                let mask = [mask[0], mask[1] | ports(from.1, to.1)];
                let value = [value[0], value[1] | ports(from.0, to.0)];
                (crate::hash::masked(&value, &mask), mask)
            })
        })
    }

    /// Whether a packet fits.
    pub fn matches(&self, packet: &FiveTuple) -> bool {
        let in_network = |address: Ipv4Addr, (wanted, bits): (Ipv4Addr, u8)| {
            (u64::from(u32::from(address) ^ u32::from(wanted))) & network(bits) == 0
        };
        in_network(packet.source, self.source)
            && in_network(packet.destination, self.destination)
            && self.source_ports.contains(&packet.source_port)
            && self.destination_ports.contains(&packet.destination_port)
            && (packet.protocol ^ self.protocol.0) & self.protocol.1 == 0
            && (packet.flags ^ self.flags.0) & self.flags.1 == 0
    }
}

/// The filters of a ClassBench file, in order of priority; empty lines are skipped.
///
/// # Errors
/// The number of the first wrong line, from 1, and its mistake.
pub fn parse(text: &str) -> Result<Vec<Filter>, (usize, FilterError)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| line.parse().map_err(|error| (at + 1, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_prefixes_that_hold_the_same_ports() {
        let table = [
            (0..=65535, 1),
            (1024..=65535, 6),
            (80..=80, 1),
            (1..=65534, 30),
            (0..=0, 1),
            (65535..=65535, 1),
            (100..=200, 6),
        ];
        for (range, count) in table {
            let prefixes: Vec<_> = prefixes(&range).collect();
            assert_eq!(prefixes.len(), count, "{range:?}");
            for port in 0..=u16::MAX {
                let fits = prefixes.iter().filter(|(value, mask)| port & mask == *value).count();
                assert_eq!(fits, usize::from(range.contains(&port)), "{port} in {range:?}");
            }
        }
    }

    #[test]
    fn lines_are_read_as_classbench_writes_them() {
        let text = "@192.0.2.0/24\t198.51.100.7/32\t0 : 65535\t1521 : 1522\t0x06/0xFF\t0x1000/0x1000\t\n\n\
                    @0.0.0.0/0 10.0.0.0/8 53:53 0 : 0 17/0xff";
        let filters = parse(text).unwrap();
        assert_eq!(filters[0].source, ("192.0.2.0".parse().unwrap(), 24));
        assert_eq!(filters[0].destination_ports, 1521..=1522);
        assert_eq!((filters[0].protocol, filters[0].flags), ((6, 255), (0x1000, 0x1000)));
        assert_eq!((filters[1].source_ports.clone(), filters[1].flags), (53..=53, (0, 0)));
        assert_eq!(filters[0].ternary().count(), 2);
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            ("10.0.0.0/8", "found \"10.0.0.0/8\" where a filter's @ is wanted"),
            ("@10.0.0/8", "found \"10.0.0\" where an IPv4 address is wanted"),
            ("@10.0.0.0/33", "found \"33\" where a prefix length of at most 32 is wanted"),
            (
                "@1.2.3.4/32 1.2.3.4/32 5 : 4",
                "found \"5 : 4\" where a range that goes up is wanted",
            ),
            ("@1.2.3.4/32 1.2.3.4/32 5 - 4", "found \"-\" where : is wanted"),
            (
                "@1.2.3.4/32 1.2.3.4/32 0 : 1",
                "the line ends where a port of at most 65535 is wanted",
            ),
            (
                "@1.2.3.4/32 1.2.3.4/32 0 : 1 0 : 99999",
                "found \"99999\" where a port of at most 65535 is wanted",
            ),
            (
                "@1.2.3.4/32 1.2.3.4/32 0 : 1 0 : 1 0x106/0xff",
                "found \"0x106\" where a protocol or mask of at most 0xff is wanted",
            ),
        ];
        for (line, wanted) in table {
            assert_eq!(line.parse::<Filter>().unwrap_err().to_string(), wanted);
        }
        assert_eq!(parse("\n\n@x").unwrap_err().0, 3);
    }
}
