//! # CheckIPHeader
//!
//! ## Synopsis
//! `CheckIPHeader([INTERFACES, BADSRC, GOODDST, OFFSET, CHECKSUM, VERBOSE, DETAILS])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks that an IPv4 header starts at OFFSET: version, header length, total length, checksum, and
//! a source address that is not a broadcast address (RFC 1812 section 5.3.7). Then sets the IP
//! header and destination address annotations and cuts off the bytes behind the IP packet. Packets
//! that fail leave by output 1, or are dropped.
//!
//! ## Arguments
//! - INTERFACES (keyword): the router's addresses with prefixes, `10.0.0.1/24 10.1.0.1/24`. The
//!   addresses are good destinations. Their broadcast addresses, 0.0.0.0 and 255.255.255.255 are
//!   bad sources.
//! - BADSRC (keyword): addresses that are bad sources.
//! - GOODDST (keyword): addresses that packets from bad sources may go to.
//! - OFFSET: where the header starts, default 0.
//! - CHECKSUM (keyword): whether to check the header's checksum; default true.
//! - VERBOSE (keyword): log every bad packet, not only the first; default false.
//! - DETAILS (keyword): accepted as in Click, without effect: the handler `drop_details` always
//!   exists.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//! - `drop_details` (read): the numbers of failed packets for each reason.
//!
//! ## See also
//! `MarkIPHeader`, `DecIPTTL`

use std::net::Ipv4Addr;

use europa_engine::{
    ArgumentSet, Arguments, Batch, Class, ClassInfo, ConfigError, Context, Each, Element,
    Ipv4Prefix, Packet, Verdict, arguments, handlers,
};
use europa_pool::packet::annotation::DST_IP;

/// Checks IPv4 headers.
pub(crate) struct CheckIPHeader {
    offset: u32,
    checksum: bool,
    verbose: bool,
    bad_sources: Vec<u32>,
    good_destinations: Vec<u32>,
    /// A bit for each bad source, chosen by [`bit`]: sources without a set bit are good.
    bad_bits: u64,
    drops: [u64; REASONS.len()],
}

impl Default for CheckIPHeader {
    fn default() -> CheckIPHeader {
        CheckIPHeader {
            offset: 0,
            checksum: true,
            verbose: false,
            bad_sources: Vec::new(),
            good_destinations: Vec::new(),
            bad_bits: 0,
            drops: [0; REASONS.len()],
        }
    }
}

impl Class for CheckIPHeader {
    const INFO: ClassInfo =
        ClassInfo::new("CheckIPHeader", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// The reason why a header is bad; an index of [`REASONS`].
#[derive(Clone, Copy)]
enum Reason {
    Short,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

const REASONS: [&str; 6] = [
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "bad source address",
];

/// Whether a header's checksum is correct: its sum in one's complement is all ones.
#[inline(always)]
fn is_intact(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    // Five words of 32 bits: no overflow.
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    // Folding to 16 bits takes the rest modulo 0xffff, with 0xffff in place of 0. A header that
    // starts with 0x45 has no sum of 0. The test is one multiplication.
    sum.is_multiple_of(0xffff)
}

/// One of 64 bits for an address.
#[inline(always)]
fn bit(address: u32) -> u64 {
    // Fibonacci hashing: the top six bits depend on all bits of the address.
    1 << (address.wrapping_mul(0x9e37_79b1) >> 26)
}

impl CheckIPHeader {
    /// Handles the usual packet: no options, nothing wrong. For all others returns `false` and
    /// changes nothing.
    #[inline(always)]
    fn is_usual(&self, packet: &mut Packet) -> bool {
        let Some(header) = packet.bytes::<20>(self.offset) else { return false };
        let [first, _, high, low, _, _, _, _, _, _, _, _, s0, s1, s2, s3, destination @ ..] =
            *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let source = u32::from_be_bytes([s0, s1, s2, s3]);
        if first == 0x45
            && (is_intact(header) || !self.checksum)
            && self.bad_bits & bit(source) == 0
            && packet.set_ip_packet(self.offset as usize, 20, length).is_some()
        {
            packet.set_annotation(DST_IP, destination);
            return true;
        }
        false
    }

    #[inline(always)]
    fn check(&self, packet: &mut Packet) -> Result<(), Reason> {
        if self.is_usual(packet) { Ok(()) } else { self.check_all(packet) }
    }

    /// All checks, one by one.
    #[cold]
    #[inline(never)]
    fn check_all(&self, packet: &mut Packet) -> Result<(), Reason> {
        let offset = self.offset as usize;
        let data = packet.data().get(offset..).ok_or(Reason::Short)?;
        let header = data.first_chunk::<20>().ok_or(Reason::Short)?;
        let available = data.len();
        let [first, _, high, low, _, _, _, _, _, _, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        if first >> 4 != 4 {
            return Err(Reason::Version);
        }
        let header_length = usize::from(first & 15) * 4;
        if header_length < 20 {
            return Err(Reason::HeaderLength);
        }
        let whole = data.get(..header_length).ok_or(Reason::Length)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > available || length < header_length {
            return Err(Reason::Length);
        }
        if self.checksum && !europa_packet::checksum::verify(whole) {
            return Err(Reason::Checksum);
        }
        let source = u32::from_be_bytes([s0, s1, s2, s3]);
        let destination = u32::from_be_bytes([d0, d1, d2, d3]);
        if self.bad_sources.contains(&source) && !self.good_destinations.contains(&destination) {
            return Err(Reason::Source);
        }
        packet.set_dst_ip(destination);
        packet.set_ip_packet(offset, header_length, length).ok_or(Reason::Length)
    }

    /// The verdict for an unusual packet within a pass.
    #[cold]
    #[inline(never)]
    fn unusual(&mut self, packet: &mut Packet) -> Verdict {
        match self.check_all(packet) {
            // A good packet of this kind is checked once more alone: continuing the pass from here
            // would cost the usual packets registers.
            Ok(()) => Verdict::ALONE,
            // There is something to log.
            Err(_) if self.verbose || self.drops == [0; REASONS.len()] => Verdict::ALONE,
            Err(reason) => {
                if let Some(count) = self.drops.get_mut(reason as usize) {
                    *count += 1;
                }
                Verdict::out(1)
            }
        }
    }

    /// A list of addresses separated by spaces.
    fn addresses(
        arguments: &Arguments<'_>,
        name: &str,
        text: &str,
    ) -> Result<Vec<u32>, ConfigError> {
        let read = |word| arguments.value::<Ipv4Addr>(name, 0, word).map(u32::from);
        text.split_whitespace().map(read).collect()
    }
}

impl Each for CheckIPHeader {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if self.is_usual(packet) { Verdict::ON } else { self.unusual(packet) }
    }
}

impl ArgumentSet for CheckIPHeader {
    arguments! { set this, given;
        // Arguments are OFFSET alone, or bad sources and OFFSET.
        let first = positional "BADSRC": String;
        let offset = positional "OFFSET": u32;
        let interfaces = keyword_list "INTERFACES": Ipv4Prefix;
        let good = keyword "GOODDST": String;
        keyword "CHECKSUM": bool = true => this.checksum;
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "DETAILS": bool => _;
        then {
            for prefix in &interfaces {
                this.bad_sources.push(prefix.network() | !prefix.mask());
                this.good_destinations.push(u32::from(prefix.address));
            }
            if !interfaces.is_empty() {
                this.bad_sources.extend([0, u32::MAX]);
            }
            if let Some(text) = good {
                this.good_destinations = Self::addresses(given, "GOODDST", &text)?;
            }
            if let Some(text) = first {
                match given.value::<u32>("OFFSET", 0, &text) {
                    Ok(offset) => this.offset = offset,
                    Err(_) => this.bad_sources = Self::addresses(given, "BADSRC", &text)?,
                }
            }
            if let Some(offset) = offset {
                this.offset = offset;
            }
            this.bad_bits = this.bad_sources.iter().fold(0, |bits, source| bits | bit(*source));
        }
    }
}

impl Element for CheckIPHeader {
    arguments! { this, given;
        set CheckIPHeader => *this;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut reasons = [0u64; REASONS.len()];
        let mut first = None;
        batch.filter(
            |packet| match self.check(packet) {
                Ok(()) => true,
                Err(reason) => {
                    if let Some(count) = reasons.get_mut(reason as usize) {
                        *count += 1;
                    }
                    first.get_or_insert(reason);
                    false
                }
            },
            |packet| context.push(1, packet),
        );
        if let Some(reason) = first {
            if self.verbose || self.drops == [0; REASONS.len()] {
                let text = REASONS.get(reason as usize).copied().unwrap_or_default();
                context.log_with(|name| format!("{name}: IP header check failed: {text}"));
            }
            for (total, count) in self.drops.iter_mut().zip(reasons) {
                *total += count;
            }
        }
    }

    handlers! { this, context, value;
        read "drops" => this.drops.iter().sum::<u64>();
        read "drop_details" => {
            let lines = this.drops.iter().zip(REASONS);
            lines.map(|(count, text)| format!("{count}\t{text}\n")).collect::<String>()
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn only_right_headers_pass() {
        let good = || ip_packet(0x0a00_0001, 0x0a00_0002, 64, b"data");
        let changed = |at: usize, value: u8| {
            let mut bytes = good();
            bytes[at] = value;
            bytes[10..12].fill(0);
            let check = europa_packet::checksum::checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&check.to_be_bytes());
            bytes
        };
        let mut bad_sum = good();
        bad_sum[10] ^= 1;
        let mut options = ip_packet(1, 2, 64, b"abcddata");
        options[0] = 0x46;
        options[10..12].fill(0);
        let check = europa_packet::checksum::checksum(&options[..24]);
        options[10..12].copy_from_slice(&check.to_be_bytes());
        for (bytes, passes) in [
            (good(), true),
            (good()[..19].to_vec(), false),
            (changed(0, 0x65), false),
            (changed(0, 0x44), false),
            (changed(0, 0x4f), false),
            (changed(3, 25), false),
            (changed(3, 19), false),
            (bad_sum, false),
            (options.clone(), true),
            (options[..20].to_vec(), false),
        ] {
            let mut bench = Bench::new("CheckIPHeader", &[]);
            bench.router.set_log(Box::new(|_| {}));
            let out = bench.push(0, &[&bytes]);
            assert_eq!(out, [(usize::from(!passes), bytes.clone())]);
            let drops = if passes { "0" } else { "1" };
            assert_eq!(bench.router.read("e.drops", ""), Ok(drops.into()), "{bytes:?}");
        }
    }

    #[test]
    fn annotations_are_set_and_padding_cut() {
        let mut bench = Bench::new("CheckIPHeader", &["14"]);
        let mut frame = vec![0; 14];
        frame.extend(ip_packet(1, 0x0102_0304, 9, b"abc"));
        let length = frame.len();
        frame.resize(60, 0);
        let out = bench.push(0, &[&frame]);
        assert_eq!(out[0].1.len(), length);
        let packet = &bench.out[0].1;
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(14), Some(34)));
        assert_eq!(packet.dst_ip(), 0x0102_0304);
    }

    #[test]
    fn broadcast_sources_are_bad() {
        let mut bench = Bench::new("CheckIPHeader", &["INTERFACES 10.0.0.1/24 10.1.0.1/16"]);
        bench.router.set_log(Box::new(|_| {}));
        for (source, destination, output) in [
            (0x0a00_00ff, 1, 1),
            (0x0a01_ffff, 1, 1),
            (0x0a00_00ff, 0x0a00_0001, 0),
            (0, 1, 1),
            (u32::MAX, 1, 1),
            (0x0a00_0001, 1, 0),
        ] {
            let out = bench.push(0, &[&ip_packet(source, destination, 9, b"")]);
            assert_eq!(out[0].0, output, "{source:x}");
        }
        let details = bench.router.read("e.drop_details", "").unwrap();
        assert!(details.contains("4\tbad source address\n"), "{details}");
    }
}
