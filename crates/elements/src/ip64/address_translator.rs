//! # AddressTranslator
//!
//! ## Synopsis
//! `AddressTranslator(STATIC, [PORTS, MAPPING, ...,] DYNAMIC [, PORT_MAPPING, DIRECTION, ADDRESS ...])`
//!
//! ## Ports
//! Push input 0 for outward packets, 1 for inward packets; push outputs with the same numbers.
//!
//! ## Description
//! Network address translation of IPv6: the source of outward packets, and the destination of inward
//! ones, become another address and port. Checksums of TCP, UDP and ICMPv6 are computed again.
//! Packets that no mapping fits, and those of other protocols, are dropped. Packets start with the IP
//! header.
//!
//! Addresses that embed the same IPv4 address, such as `::10.0.0.1` and `::ffff:10.0.0.1`, count as
//! the same.
//!
//! A dynamic mapping stays until the router ends.
//!
//! ## Arguments
//! - STATIC: number of static mappings. If it is not 0, PORTS says whether they have ports, and
//!   this number of MAPPINGs follows: `INNER MAPPED`, or `INNER PORT MAPPED PORT`.
//! - DYNAMIC: whether packets make dynamic mappings.
//! - PORT_MAPPING: whether dynamic mappings also map ports. If so, `ADDRESS FIRST LAST` follows
//!   DIRECTION: the address and the ports that flows get. Otherwise addresses follow, and each
//!   host gets its own address.
//! - DIRECTION: 0 if outward packets make mappings, 1 if inward packets do.
//!
//! ## Handlers
//! - `table` (read): mappings, a line each: inner address and port, mapped address and port, and
//!   for flows the far address and port.
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `ProtocolTranslator64`, `ProtocolTranslator46`

use std::collections::HashMap;
use std::net::Ipv6Addr;

use super::{ICMP6, IP6_BYTES, TCP, UDP, embedded, payload6, set_checksum6};
use crate::control::script::shift_word;
use crate::prelude::*;
use crate::shared::fields::{be16, bytes, set};

/// An address and a port.
type End = (Ipv6Addr, u16);

/// A mapping of a host, or of one of its ports.
#[derive(Clone, Copy)]
struct Mapping {
    inner: Option<End>,
    mapped: Option<End>,
    /// Ports are part of the mapping.
    ports: bool,
}

/// Translates addresses.
#[derive(Default)]
pub(crate) struct AddressTranslator {
    mappings: Vec<Mapping>,
    dynamic: bool,
    port_mapping: bool,
    /// Inward packets make mappings.
    inward: bool,
    /// The address for flows, and the first and last port.
    pool: Option<(Ipv6Addr, u16, u16)>,
    /// The mapped end, by inner end and far end; and the opposite direction.
    out: HashMap<(End, End), End>,
    back: HashMap<(End, End), End>,
    next: u16,
    taken: usize,
    /// Whether the lack of ports has been reported.
    told: bool,
    drops: u64,
}

impl Class for AddressTranslator {
    const INFO: ClassInfo =
        ClassInfo::new("AddressTranslator", "2/2").processing("h/h").flow("#/#");
}

/// The end in the form by which mappings are found: all addresses that embed the same IPv4 address
/// become one.
fn key((address, port): End) -> End {
    (embedded(address).map_or(address, |ipv4| ipv4.to_ipv6_mapped()), port)
}

/// Offset of a segment's port on the source's or the destination's side.
fn port_at(protocol: u8, source: bool, segment: &[u8]) -> Option<usize> {
    match protocol {
        TCP | UDP => Some(if source { 0 } else { 2 }),
        // Echo requests and replies have one number for both ends.
        ICMP6 if matches!(segment.first(), Some(128 | 129)) => Some(4),
        _ => None,
    }
}

impl AddressTranslator {
    /// The next port that no flow has.
    fn port(&mut self) -> Option<u16> {
        let (_, first, last) = self.pool?;
        let count = usize::from(last - first) + 1;
        if self.taken >= count {
            return None;
        }
        self.taken += 1;
        let port = self.next;
        self.next = if port >= last { first } else { port + 1 };
        Some(port)
    }

    /// The other end of a host's mapping; makes the mapping if necessary.
    fn host(&mut self, outward: bool, end: End) -> Option<End> {
        let same = |own: Option<End>, ports: bool| {
            own.is_some_and(|own| key(own).0 == key(end).0 && (!ports || own.1 == end.1))
        };
        for mapping in &self.mappings {
            let (from, to) = match outward {
                true => (mapping.inner, mapping.mapped),
                false => (mapping.mapped, mapping.inner),
            };
            if same(from, mapping.ports)
                && let Some(to) = to
            {
                return Some(if mapping.ports { to } else { (to.0, end.1) });
            }
        }
        if !self.dynamic || self.port_mapping || outward == self.inward {
            return None;
        }
        let is_free = |mapping: &&mut Mapping| mapping.inner.is_none() || mapping.mapped.is_none();
        let free = self.mappings.iter_mut().find(is_free)?;
        let (own, other) = match outward {
            true => (&mut free.inner, free.mapped),
            false => (&mut free.mapped, free.inner),
        };
        *own = Some((end.0, 0));
        other.map(|other| (other.0, end.1))
    }

    /// The other end of a flow's mapping; makes the mapping if necessary.
    fn flow(&mut self, outward: bool, end: End, far: End) -> Option<End> {
        let known = if outward { &self.out } else { &self.back };
        if let Some(other) = known.get(&(key(end), key(far))) {
            return Some(*other);
        }
        if outward == self.inward {
            return None;
        }
        let other = (self.pool?.0, self.port()?);
        let (inner, mapped) = if outward { (end, other) } else { (other, end) };
        self.out.insert((key(inner), key(far)), mapped);
        self.back.insert((key(mapped), key(far)), inner);
        Some(other)
    }

    fn translate(&mut self, packet: &mut Packet, outward: bool) -> Option<()> {
        let data = packet.data_mut();
        let length = payload6(data)?;
        let (header, rest) = data.split_at_mut_checked(IP6_BYTES)?;
        let segment = rest.get_mut(..length)?;
        let protocol = *header.get(6)?;
        let (own_at, far_at) = if outward { (8, 24) } else { (24, 8) };
        let place = port_at(protocol, outward, segment);
        let port = |at: Option<usize>| at.and_then(|at| be16(segment, at)).unwrap_or(0);
        let address = |at| bytes::<16>(header, at).map(Ipv6Addr::from);
        let end = (address(own_at)?, port(place));
        // If a number stands for both ends, the far end has no port.
        let far_place = port_at(protocol, !outward, segment).filter(|at| Some(*at) != place);
        let far = (address(far_at)?, port(far_place));
        if !matches!(protocol, TCP | UDP | ICMP6) {
            return None;
        }
        let found = self.host(outward, end);
        let (other, port) = match found {
            Some(found) => found,
            None if self.dynamic && self.port_mapping => self.flow(outward, end, far)?,
            None => return None,
        };
        set(header, own_at, other.octets());
        if let Some(place) = place {
            set(segment, place, port.to_be_bytes());
        }
        set_checksum6(header, segment, protocol);
        Some(())
    }

    /// Reads whether static mappings have ports, and this number of mappings.
    fn read_static(
        &mut self,
        count: u16,
        arguments: &mut Arguments<'_>,
    ) -> Result<(), ConfigError> {
        if count == 0 {
            return Ok(());
        }
        let ports = arguments.mandatory("PORTS")?;
        for index in 0..usize::from(count) {
            let text: String = arguments.mandatory("MAPPING")?;
            let mut rest = text.as_str();
            let mut end = || -> Result<End, ConfigError> {
                let address = arguments.value("MAPPING", index + 2, shift_word(&mut rest))?;
                let port = match ports {
                    true => arguments.value("MAPPING", index + 2, shift_word(&mut rest))?,
                    false => 0,
                };
                Ok((address, port))
            };
            let (inner, mapped) = (end()?, end()?);
            self.mappings.push(Mapping { inner: Some(inner), mapped: Some(mapped), ports });
        }
        Ok(())
    }
}

impl Element for AddressTranslator {
    arguments! { this, given;
        let count = mandatory "STATIC": u16;
        then {
            // Which arguments follow depends on the earlier ones.
            this.read_static(count, given)?;
            this.dynamic = given.mandatory("DYNAMIC")?;
            if !this.dynamic {
                return given.finish();
            }
            this.port_mapping = given.mandatory("PORT_MAPPING")?;
            this.inward = given.mandatory("DIRECTION")?;
            if this.port_mapping {
                let text: String = given.mandatory("ADDRESS")?;
                let mut rest = text.as_str();
                let address = given.value("ADDRESS", 0, shift_word(&mut rest))?;
                let first: u16 = given.value("ADDRESS", 0, shift_word(&mut rest))?;
                let last: u16 = given.value("ADDRESS", 0, shift_word(&mut rest))?;
                if first == 0 || last < first {
                    return Err(ConfigError::other("ADDRESS: expected 'ADDRESS FIRST LAST'"));
                }
                this.pool = Some((address, first, last));
                this.next = first;
                return given.finish();
            }
            for (index, text) in given.rest() {
                let own = Some((given.value::<Ipv6Addr>("ADDRESS", index, text)?, 0));
                let (inner, mapped) = if this.inward { (own, None) } else { (None, own) };
                this.mappings.push(Mapping { inner, mapped, ports: false });
            }
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let before = batch.len();
        batch.retain(|packet| self.translate(packet, port == 0).is_some());
        self.drops += (before - batch.len()) as u64;
        let count = self.pool.map_or(0, |(_, first, last)| usize::from(last - first) + 1);
        if self.taken >= count && before > batch.len() && count > 0 && !self.told {
            self.told = true;
            context.log("AddressTranslator ran out of ports");
        }
        context.forward(port, batch);
    }

    handlers! { this, context, value;
        read "table" => {
            let end = |end: Option<End>| match end {
                Some((address, port)) => format!("{address} {port}"),
                None => "- -".to_owned(),
            };
            let host = |m: &Mapping| format!("{} {}\n", end(m.inner), end(m.mapped));
            let hosts: String = this.mappings.iter().map(host).collect();
            let mut flows: Vec<String> = this
                .out
                .iter()
                .map(|((inner, far), mapped)| {
                    format!("{} {} {}\n", end(Some(*inner)), end(Some(*mapped)), end(Some(*far)))
                })
                .collect();
            flows.sort();
            hosts + &flows.concat()
        };
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::super::set_checksum6;
    use crate::testing::Bench;

    fn datagram(from: &str, to: &str, ports: [u8; 2]) -> Vec<u8> {
        let segment = [0, ports[0], 0, ports[1], 0, 9, 0, 0, b'x'];
        let mut packet = vec![0x60, 0, 0, 0, 0, 9, 17, 64];
        for address in [from, to] {
            packet.extend(address.parse::<Ipv6Addr>().unwrap().octets());
        }
        packet.extend(segment);
        let (header, segment) = packet.split_at_mut(40);
        set_checksum6(header, segment, 17);
        packet
    }

    #[test]
    fn hosts_have_their_address() {
        for arguments in
            [&["1", "0", "fd00::1 ::1.2.3.4", "0"][..], &["0", "1", "0", "0", "::1.2.3.4"]]
        {
            let mut bench = Bench::new("AddressTranslator", arguments);
            let out = bench.push(0, &[&datagram("fd00::1", "fd00::9", [7, 8])]);
            assert_eq!(out, [(0, datagram("::1.2.3.4", "fd00::9", [7, 8]))], "{arguments:?}");
            let back = bench.push(1, &[&datagram("fd00::9", "::1.2.3.4", [8, 7])]);
            assert_eq!(back, [(1, datagram("fd00::9", "fd00::1", [8, 7]))]);
            assert!(bench.push(0, &[&datagram("fd00::2", "fd00::9", [7, 8])]).is_empty());
            assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        }
    }

    #[test]
    fn flows_have_their_port() {
        let mut bench = Bench::new("AddressTranslator", &["0", "1", "1", "0", "::5 10 11"]);
        let log = bench.log();
        for (port, mapped) in [(7, 10), (6, 11), (7, 10)] {
            let out = bench.push(0, &[&datagram("fd00::1", "fd00::9", [port, 8])]);
            assert_eq!(out, [(0, datagram("::5", "fd00::9", [mapped, 8]))]);
        }
        let back = bench.push(1, &[&datagram("fd00::9", "::5", [8, 11])]);
        assert_eq!(back, [(1, datagram("fd00::9", "fd00::1", [8, 6]))]);
        assert!(bench.push(1, &[&datagram("fd00::9", "::5", [9, 11])]).is_empty());
        assert!(bench.push(0, &[&datagram("fd00::1", "fd00::9", [5, 8])]).is_empty());
        assert_eq!(*log.borrow(), ["AddressTranslator ran out of ports"]);
        assert_eq!(bench.router.read("e.table", "").unwrap().lines().count(), 2);
    }

    #[test]
    fn ports_may_be_mapped_for_good() {
        let arguments = ["1", "1", "fd00::1 7 ::5 70", "0"];
        let mut bench = Bench::new("AddressTranslator", &arguments);
        let out = bench.push(1, &[&datagram("fd00::9", "::5", [8, 70])]);
        assert_eq!(out, [(1, datagram("fd00::9", "fd00::1", [8, 7]))]);
        let error = Bench::error("AddressTranslator", &["0", "1", "1", "0", "::5 11 10"]);
        assert_eq!(error, "ADDRESS: expected 'ADDRESS FIRST LAST'");
    }
}
