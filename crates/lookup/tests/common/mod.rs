//! Reads routing tables: gzipped, one prefix a line, with or without a number after it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use europa_lookup::NextHop;
use europa_packet::{Ipv4Prefix, Ipv6Prefix};
use flate2::read::GzDecoder;

/// A table's routes in the order of the file.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) four: Vec<(Ipv4Prefix, NextHop)>,
    pub(crate) six: Vec<(Ipv6Prefix, NextHop)>,
}

/// Reads a table. The next hop is derived from the number behind the prefix, or else from the
/// line's number.
pub(crate) fn read(path: &Path) -> io::Result<Table> {
    let mut table = Table::default();
    for (number, line) in BufReader::new(GzDecoder::new(File::open(path)?)).lines().enumerate() {
        let line = line?;
        let mut fields = line.split_whitespace();
        let Some(prefix) = fields.next() else { continue };
        let origin = fields.next().and_then(|asn| asn.parse().ok()).unwrap_or(number);
        let next_hop = NextHop::new((origin % 251 + 1) as u16).expect("1 to 251");
        let wrong = |error| io::Error::other(format!("line {}: {error}", number + 1));
        if prefix.contains(':') {
            table.six.push((prefix.parse().map_err(wrong)?, next_hop));
        } else {
            table.four.push((prefix.parse().map_err(wrong)?, next_hop));
        }
    }
    Ok(table)
}

/// Pseudo-random numbers that are the same in every run (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound
    }

    /// An address in one of these routes.
    pub(crate) fn in_four(&mut self, routes: &[(Ipv4Prefix, NextHop)]) -> u32 {
        let (prefix, _) = routes[self.below(routes.len())];
        let host = u32::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
        u32::from(prefix.addr()) | self.next() as u32 & host
    }

    /// An address in one of these routes.
    pub(crate) fn in_six(&mut self, routes: &[(Ipv6Prefix, NextHop)]) -> u128 {
        let (prefix, _) = routes[self.below(routes.len())];
        let host = u128::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
        u128::from(prefix.addr()) | (u128::from(self.next()) << 64 | u128::from(self.next())) & host
    }
}
