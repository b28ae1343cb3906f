//! # AnonymizeIPAddr
//!
//! ## Synopsis
//! `AnonymizeIPAddr([CLASS, PRESERVE_8, SEED])`
//!
//! ## Ports
//! One input, push or pull; one output of the same kind. An optional second push output gets
//! packets without an IPv4 header; else they are dropped.
//!
//! ## Description
//! Replaces the addresses of IPv4 headers by random ones and keeps prefixes: if two addresses have
//! the first N bits in common, their replacements have, too. 0.0.0.0 and 255.255.255.255 stay.
//! Packets need the IP header annotation; the header's checksum is updated. When the table has half
//! a million addresses, packets with further addresses are treated like those without a header.
//!
//! ## Arguments
//! - CLASS (keyword): this many bits of 1 at the start of an address stay, 0 to 32; 99 means 32.
//!   Default
//!   0. With 1, addresses of class A stay in class A.
//! - PRESERVE_8 (keyword): first bytes of addresses that stay as they are.
//! - SEED (keyword): accepted; see `RandomSeed`.
//!
//! ## Handlers
//! - `map` (read with parameter): the anonymous form of an address.
//!
//! ## See also
//! `SetRandIPAddress`, `RandomSeed`

use std::net::Ipv4Addr;

use europa_packet::checksum;

use crate::prelude::*;
use crate::shared::common::part;
use crate::shared::fields::{be16, be32, network_mut, set};
use crate::shared::random::Random;

/// Most nodes of the tree: two for each address.
const MOST: usize = 1 << 20;

/// An address, or several addresses with a common beginning.
#[derive(Clone, Copy, Debug)]
struct Node {
    input: u32,
    output: u32,
    /// The subtrees where the next differing bit is 0 and 1.
    children: Option<[u32; 2]>,
}

/// Makes addresses anonymous.
#[derive(Default)]
pub(crate) struct AnonymizeIPAddr {
    class: u32,
    preserved: Vec<u8>,
    nodes: Vec<Node>,
}

impl Class for AnonymizeIPAddr {
    const INFO: ClassInfo = ClassInfo::new("AnonymizeIPAddr", "1/1-2").processing("a/ah");
}

/// The anonymous form of an address that shares exactly the first `same` bits with another address,
/// whose form is `other`.
fn output(other: u32, same: u32) -> u32 {
    let flipped = other ^ (1 << (31 - same));
    let rest = 0x7fff_ffff_u32 >> same;
    flipped & !rest | Random.next() & rest
}

impl AnonymizeIPAddr {
    fn node(&self, index: u32) -> Option<Node> {
        self.nodes.get(index as usize).copied()
    }

    /// The node of an address; makes it if it does not exist. `None` if there is no room.
    fn find(&mut self, address: u32) -> Option<usize> {
        let mut at = 0;
        loop {
            let node = *self.nodes.get(at)?;
            if node.input == address {
                return Some(at);
            }
            let same = (address ^ node.input).leading_zeros();
            let Some([zero, one]) = node.children else { return self.split(at, address, same) };
            let below = self.node(zero)?.input ^ self.node(one)?.input;
            let bit = below.leading_zeros();
            if same < bit {
                return self.split(at, address, same);
            }
            at = if address & (1 << (31 - bit)) != 0 { one } else { zero } as usize;
        }
    }

    /// Puts an address beside a node, and makes a parent for both.
    fn split(&mut self, at: usize, address: u32, same: u32) -> Option<usize> {
        let old = *self.nodes.get(at)?;
        if self.nodes.len() + 2 > MOST {
            return None;
        }
        let new = Node { input: address, output: output(old.output, same), children: None };
        let first = self.nodes.len();
        let is_one = address & (1 << (31 - same)) != 0;
        let pair = if is_one { [old, new] } else { [new, old] };
        self.nodes.extend(pair);
        // A node of several addresses stands for the highest of them.
        let [_, one] = pair;
        let children = Some([first as u32, first as u32 + 1]);
        *self.nodes.get_mut(at)? = Node { input: one.input, output: one.output, children };
        Some(first + usize::from(is_one))
    }

    fn map(&mut self, address: u32) -> Option<u32> {
        if matches!(address, 0 | u32::MAX) {
            return Some(address);
        }
        let at = self.find(address)?;
        self.nodes.get(at).map(|node| node.output)
    }

    /// The tree before the first packet.
    fn begin(&mut self) {
        let mut root = Node { input: 1, output: Random.next(), children: None };
        let mut touched = false;
        if self.class > 0 {
            let mask = !u32::MAX.checked_shr(self.class).unwrap_or(0);
            (root.input, root.output, touched) = (mask, root.output | mask, true);
        }
        self.nodes = vec![root];
        for byte in self.preserved.clone() {
            let first = u32::from(byte) << 24;
            let at = if touched { self.find(first) } else { Some(0) };
            if let Some(node) = at.and_then(|at| self.nodes.get_mut(at)) {
                node.output = node.output & 0x00ff_ffff | first;
                if !touched {
                    node.input = first;
                }
            }
            touched = true;
        }
    }

    /// Replaces both addresses of a packet. `false` if it has no IPv4 header.
    fn change(&mut self, packet: &mut Packet) -> bool {
        let Some((header, _)) = network_mut(packet) else { return false };
        let is_ip4 = header.first().is_some_and(|byte| byte >> 4 == 4);
        let (Some(from), Some(to)) = (be32(header, 12), be32(header, 16)) else { return false };
        let (Some(new_from), Some(new_to)) = (self.map(from), self.map(to)) else { return false };
        if !is_ip4 {
            return false;
        }
        let check = be16(header, 10).unwrap_or(0);
        let check = checksum::update_u32(check, from, new_from);
        let check = checksum::update_u32(check, to, new_to);
        set(header, 10, check.to_be_bytes());
        set(header, 12, new_from.to_be_bytes());
        set(header, 16, new_to.to_be_bytes())
    }
}

impl Element for AnonymizeIPAddr {
    arguments! { this, given;
        keyword "CLASS": u32 = 0 => this.class;
        let text = keyword "PRESERVE_8": String = String::new();
        keyword "SEED": String => _;
        then {
            if this.class == 99 {
                this.class = 32;
            }
            if this.class > 32 {
                return Err(ConfigError::other("CLASS must be between 0 and 32"));
            }
            for word in text.split_whitespace() {
                let byte = word
                    .parse()
                    .map_err(|_| ConfigError::other("PRESERVE_8 expects integer between 0 and 255"))?;
                this.preserved.push(byte);
            }
        }
    }

    fn initialize(&mut self, _: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.begin();
        Ok(())
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        part(batch, context, |packet| self.change(packet));
    }

    handlers! { this, context, value;
        read "map" [PARAMETER] => {
            let address: Ipv4Addr = parse("map", value.trim())?;
            let none = || HandlerError::Other("too many addresses".to_owned());
            Ipv4Addr::from(this.map(address.into()).ok_or_else(none)?)
        };
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use crate::testing::{Bench, ip_packet};

    fn map(bench: &mut Bench, address: u32) -> u32 {
        let text = Ipv4Addr::from(address).to_string();
        bench.router.read("e.map", &text).unwrap().parse::<Ipv4Addr>().unwrap().into()
    }

    proptest! {
        /// If two addresses have the first N bits in common, so have their anonymous forms.
        #[test]
        fn prefixes_are_preserved(addresses in prop::collection::vec(any::<u32>(), 2..20)) {
            let mut bench = Bench::new("AnonymizeIPAddr", &[]);
            let usual = |a: &u32| *a != 0 && *a != u32::MAX;
            let addresses: Vec<u32> = addresses.into_iter().filter(usual).collect();
            let mapped: Vec<u32> = addresses.iter().map(|a| map(&mut bench, *a)).collect();
            for (a, x) in addresses.iter().zip(&mapped) {
                for (b, y) in addresses.iter().zip(&mapped) {
                    prop_assert_eq!((a ^ b).leading_zeros(), (x ^ y).leading_zeros());
                }
            }
        }
    }

    #[test]
    fn some_parts_stay() {
        let mut bench = Bench::new("AnonymizeIPAddr", &["CLASS 2", "PRESERVE_8 10 18"]);
        assert_eq!([0, u32::MAX].map(|a| map(&mut bench, a)), [0, u32::MAX]);
        for (address, mask) in [
            (0x0a01_0203, 0xff00_0000u32),
            (0x1201_0203, 0xff00_0000),
            (0x2001_0203, 0x8000_0000),
            (0x9001_0203, 0xc000_0000),
            (0xd001_0203, 0xc000_0000),
        ] {
            assert_eq!(map(&mut bench, address) & mask, address & mask, "{address:x}");
        }
        let error = Bench::error("AnonymizeIPAddr", &["CLASS 33"]);
        assert_eq!(error, "CLASS must be between 0 and 32");
    }

    #[test]
    fn headers_stay_sound() {
        let mut bench = Bench::new("AnonymizeIPAddr", &[]);
        let mut packet = bench.arena.packet(&ip_packet(5, 9, 9, b"x")).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        assert!(europa_packet::checksum::verify(&out[0].1[..20]));
        assert_ne!(out[0].1[12..20], ip_packet(5, 9, 9, b"x")[12..20]);
        assert_eq!(bench.push(0, &[b"no header"]), [(1, b"no header".to_vec())]);
    }
}
