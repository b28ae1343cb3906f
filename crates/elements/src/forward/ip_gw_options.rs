//! # IPGWOptions
//!
//! ## Synopsis
//! `IPGWOptions(MYADDR [, OTHERADDRS])`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets packets
//! with a bad option; else they are dropped.
//!
//! ## Description
//! Processes the options of IP headers that are for every router: record route and time stamp. Put
//! it behind the look-up, because MYADDR is the address of the interface by which the packet leaves
//! (RFC 1812 section 4.2.2.2). Other options, including source routes, stay unchanged.
//!
//! A packet with a bad option leaves by output 1. Its "ICMP parameter problem" annotation has the
//! offset of the wrong byte. A packet without options costs a comparison.
//!
//! ## Arguments
//! - MYADDR: address of the interface.
//! - OTHERADDRS: the router's other addresses, with blanks between them; for time stamps that
//!   name the routers.
//!
//! ## Handlers
//! - `drops` (read): packets with a bad option.
//!
//! ## See also
//! `ICMPError`

use std::net::Ipv4Addr;

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers,
};

use crate::shared::common::part;
use europa_packet::ipv4::option;
use europa_packet::{Header, Ipv4Header, checksum};
use europa_pool::packet::annotation::ICMP_PARAMETER_PROBLEM;

use crate::shared::made::write;

/// Processes the options record route and time stamp.
#[derive(Default)]
pub(crate) struct IPGWOptions {
    address: [u8; 4],
    others: Vec<[u8; 4]>,
    drops: u64,
}

impl Class for IPGWOptions {
    const INFO: ClassInfo =
        ClassInfo::new("IPGWOptions", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// Flags of a time stamp (RFC 791 section 3.1): times alone, times with the addresses of the
/// routers that wrote them, or with addresses that the sender chose.
const TIMES: u8 = 0;
const TIMES_AND_ADDRESSES: u8 = 1;
const TIMES_OF_ADDRESSES: u8 = 3;

impl IPGWOptions {
    /// For a router with a single address.
    pub(crate) fn of(address: Ipv4Addr) -> IPGWOptions {
        IPGWOptions { address: address.octets(), ..IPGWOptions::default() }
    }

    /// The present contents of a time stamp option.
    pub(crate) fn milliseconds(context: &Context<'_>) -> u32 {
        const DAY_MS: u64 = 86_400_000;
        (context.wall_ns() / 1_000_000 % DAY_MS) as u32
    }

    /// Processes a packet's options, if it has any. Returns whether all were valid.
    #[inline(always)]
    pub(crate) fn work(&self, packet: &mut Packet, milliseconds: u32) -> bool {
        match packet.network_bytes() {
            // Four bits of version, four bits of header length.
            Some([first]) if first & 15 == 5 => true,
            _ => self.work_on(packet, milliseconds),
        }
    }

    fn is_own(&self, address: &[u8]) -> bool {
        self.address == address || self.others.iter().any(|own| own == address)
    }

    /// Writes the address into a record route option, if there is room. The error is the offset of
    /// the wrong byte.
    fn record_route(&self, option: &mut [u8]) -> Result<(), usize> {
        let pointer = usize::from(*option.get(2).ok_or(1usize)?);
        // Counted from 1.
        let at = pointer.wrapping_sub(1);
        if at == option.len() {
            return Ok(());
        }
        let place =
            option.get_mut(at..).filter(|place| at >= 3 && place.len() >= 4).ok_or(2usize)?;
        write(place, &self.address);
        if let Some(pointer) = option.get_mut(2) {
            *pointer += 4;
        }
        Ok(())
    }

    /// Writes the time into a time stamp option.
    fn timestamp(&self, option: &mut [u8], milliseconds: u32) -> Result<(), usize> {
        let (Some(&pointer), Some(&flags)) = (option.get(2), option.get(3)) else { return Err(1) };
        let (overflows, kind) = (flags >> 4, flags & 15);
        let at = usize::from(pointer).wrapping_sub(1);
        if at < 4 || pointer == 0 {
            return Err(2);
        }
        let wanted = match kind {
            TIMES => 4,
            TIMES_AND_ADDRESSES | TIMES_OF_ADDRESSES => 8,
            _ => return Err(3),
        };
        let own = self.address;
        let time = milliseconds.to_be_bytes();
        match option.get_mut(at..).and_then(|place| place.get_mut(..wanted)) {
            Some(place) => {
                let mine = self.is_own(place.get(..4).unwrap_or_default());
                match kind {
                    TIMES => drop(write(place, &time)),
                    TIMES_AND_ADDRESSES => drop(write(write(place, &own), &time)),
                    _ if mine => drop(write(place.get_mut(4..).unwrap_or_default(), &time)),
                    _ => return Ok(()),
                }
                if let Some(pointer) = option.get_mut(2) {
                    *pointer = pointer.saturating_add(wanted as u8);
                }
            }
            // All addresses that the sender chose are already recorded.
            None if kind == TIMES_OF_ADDRESSES => {}
            None if overflows == 15 => return Err(3),
            None => {
                if let Some(flags) = option.get_mut(3) {
                    *flags = (overflows + 1) << 4 | kind;
                }
            }
        }
        Ok(())
    }

    /// Processes the options of a header up to the first invalid one: the error is the offset of
    /// its wrong byte. The checksum stays correct in any case.
    fn options(&self, header: &mut [u8], milliseconds: u32) -> Result<(), usize> {
        let mut changed = false;
        let result = self.walk(header, milliseconds, &mut changed);
        if changed {
            if let Some(fixed) = Ipv4Header::at_mut(header, 0) {
                fixed.checksum.set(0);
            }
            let check = checksum::checksum(header);
            if let Some(fixed) = Ipv4Header::at_mut(header, 0) {
                fixed.checksum.set(check);
            }
        }
        result
    }

    fn walk(&self, header: &mut [u8], milliseconds: u32, changed: &mut bool) -> Result<(), usize> {
        let mut at = Ipv4Header::LEN;
        while let Some(&kind) = header.get(at) {
            match kind {
                option::END => break,
                option::NO_OPERATION => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            // If an option ends before its length byte, the error points at its type: there is no
            // other byte.
            let length = usize::from(*header.get(at + 1).ok_or(at)?);
            let whole = header.get_mut(at..at + length).filter(|_| length >= 2).ok_or(at + 1)?;
            match kind {
                option::RECORD_ROUTE => self.record_route(whole),
                option::TIMESTAMP => self.timestamp(whole, milliseconds),
                _ => {
                    at += length;
                    continue;
                }
            }
            .map_err(|byte| at + byte)?;
            *changed = true;
            at += length;
        }
        Ok(())
    }

    /// A packet that has options.
    #[cold]
    fn work_on(&self, packet: &mut Packet, milliseconds: u32) -> bool {
        let Some(bytes) = packet.network_header_mut() else { return false };
        let header_len = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
        let Some(header) = bytes.get_mut(..header_len) else { return false };
        match self.options(header, milliseconds) {
            Ok(()) => true,
            Err(byte) => {
                packet.set_annotation(ICMP_PARAMETER_PROBLEM, [byte as u8]);
                false
            }
        }
    }
}

impl Each for IPGWOptions {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        match packet.network_bytes() {
            // Four bits of version, four bits of header length.
            Some([first]) if first & 15 == 5 => Verdict::ON,
            _ => Verdict::ALONE,
        }
    }
}

impl Element for IPGWOptions {
    arguments! { this, given;
        mandatory "MYADDR": Ipv4Addr, with |address| address.octets() => this.address;
        let others = positional_list "OTHERADDRS": Ipv4Addr;
        then { this.others = others.iter().map(Ipv4Addr::octets).collect(); }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let milliseconds = IPGWOptions::milliseconds(context);
        let drops = part(batch, context, |packet| self.work(packet, milliseconds));
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;
    use proptest::prelude::*;

    fn packet(options: &[u8]) -> Vec<u8> {
        let mut bytes = Frame::bare().ipv4([10, 0, 0, 2], [10, 0, 1, 2]).udp(1, 2, b"x");
        bytes.splice(20..20, options.iter().copied());
        bytes[0] = 0x45 + (options.len() / 4) as u8;
        bytes[3] += options.len() as u8;
        bytes[10..12].fill(0);
        let check = checksum::checksum(&bytes[..20 + options.len()]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// Output, options, annotation.
    fn run(options: &[u8]) -> (usize, Vec<u8>, u8) {
        let mut bench = Bench::new("IPGWOptions", &["10.0.1.1", "10.0.0.1 10.0.2.1"]);
        // A second after midnight.
        bench.router.set_wall_offset_ns(86_401_000_000_000);
        let mut packet = bench.arena.packet(&packet(options)).unwrap();
        packet.set_network_header(0, 20 + options.len());
        let (output, bytes) = bench.push_packets(0, vec![packet]).pop().unwrap();
        assert!(checksum::verify(&bytes[..20 + options.len()]));
        let [problem] = bench.out[0].1.annotation(ICMP_PARAMETER_PROBLEM);
        (output, bytes[20..20 + options.len()].to_vec(), problem)
    }

    #[test]
    fn options_are_carried_out() {
        let good: &[(&[u8], &[u8])] = &[
            (&[], &[]),
            (&[1, 7, 7, 4, 0, 0, 0, 0], &[1, 7, 7, 8, 10, 0, 1, 1]),
            (&[7, 7, 8, 1, 2, 3, 4, 0], &[7, 7, 8, 1, 2, 3, 4, 0]),
            (&[148, 4, 0, 0], &[148, 4, 0, 0]),
            (&[68, 8, 5, 0, 0, 0, 0, 0], &[68, 8, 9, 0, 0, 0, 3, 0xe8]),
            (&[68, 8, 9, 0x20, 0, 0, 0, 0], &[68, 8, 9, 0x30, 0, 0, 0, 0]),
            (&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[68, 12, 13, 1, 10, 0, 1, 1, 0, 0, 3, 0xe8]),
            (
                &[68, 12, 5, 3, 10, 0, 2, 1, 0, 0, 0, 0],
                &[68, 12, 13, 3, 10, 0, 2, 1, 0, 0, 3, 0xe8],
            ),
            (&[68, 12, 5, 3, 10, 9, 9, 9, 0, 0, 0, 0], &[68, 12, 5, 3, 10, 9, 9, 9, 0, 0, 0, 0]),
            (&[0, 7, 1, 0], &[0, 7, 1, 0]),
        ];
        for (options, wanted) in good {
            assert_eq!(run(options), (0, wanted.to_vec(), 0), "{options:?}");
        }
    }

    #[test]
    fn bad_options_are_pointed_at() {
        for (options, byte) in [
            (&[7, 1, 4, 0][..], 21),
            (&[7, 9, 4, 0, 0, 0, 0, 0], 21),
            (&[7, 7, 3, 0, 0, 0, 0, 0], 22),
            (&[7, 7, 5, 0, 0, 0, 0, 0], 22),
            (&[7, 7, 0, 0, 0, 0, 0, 0], 22),
            (&[1, 1, 1, 7], 23),
            (&[68, 8, 4, 0, 0, 0, 0, 0], 22),
            (&[68, 8, 5, 2, 0, 0, 0, 0], 23),
            (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23),
        ] {
            assert_eq!(run(options), (1, options.to_vec(), byte), "{options:?}");
        }
    }

    proptest! {
        #[test]
        fn no_options_do_harm(options in prop::collection::vec(any::<u8>(), 0..11)) {
            let mut whole: Vec<u8> = options.iter().flat_map(|b| [*b, 7, 4, *b]).collect();
            whole.truncate(40);
            run(&whole);
        }
    }
}
