//! # SetFilterKey
//!
//! ## Synopsis
//! `SetFilterKey(PART, ...)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Gives each packet a filter key: the PARTs in this order, then zeros, 40 bytes in all. When a
//! `ToDevice` sends the packet, the switch looks up the key in the slice's rules that have a `key`
//! (docs/filters.md), and applies the rule. Packets and rules of other slices are not affected. The
//! rule's result goes with the packet over a link, or back to this router, where `FilterResult`
//! reads it. A part that the packet does not have is zero. Under `europa click` there is no switch,
//! so keys have no effect.
//!
//! ## Arguments
//! - PART: `OFFSET/LENGTH`, bytes of the packet; `network OFFSET/LENGTH`, bytes counted from its
//!   network header; `anno OFFSET/LENGTH`, bytes of its annotations; or `value HEX`, the same bytes
//!   for all packets.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `FilterResult`, `SetQueue`, `MarkIPHeader`

use europa_pool::layout::KEY_BYTES;
use europa_pool::packet::ANNOTATION_BYTES;

use crate::prelude::*;

/// Sets the filter keys of packets.
#[derive(Default)]
pub(crate) struct SetFilterKey {
    parts: Vec<(Part, usize)>,
}

/// The source of some bytes of a key; the number of bytes is stored with it.
#[derive(Debug, PartialEq)]
enum Part {
    Packet(usize),
    Network(usize),
    Annotations(usize),
    Value([u8; KEY_BYTES]),
}

const WANTED: &str = "OFFSET/LENGTH, network OFFSET/LENGTH, anno OFFSET/LENGTH or value HEX";

impl Part {
    fn parse(text: &str) -> Option<(Part, usize)> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let range = |text: &str| {
            let (offset, length) = text.split_once('/')?;
            Some((offset.parse::<usize>().ok()?, length.parse::<usize>().ok()?))
        };
        match words.as_slice() {
            ["value", digits] => {
                let mut value = [0; KEY_BYTES];
                let length = digits.len() / 2;
                let own = value.get_mut(..length)?;
                if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
                    return None;
                }
                for (byte, at) in own.iter_mut().zip((0..).step_by(2)) {
                    *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
                }
                Some((Part::Value(value), length))
            }
            ["network", text] => range(text).map(|(at, length)| (Part::Network(at), length)),
            ["anno", text] => range(text)
                .filter(|(at, length)| at.saturating_add(*length) <= ANNOTATION_BYTES)
                .map(|(at, length)| (Part::Annotations(at), length)),
            [text] => range(text).map(|(at, length)| (Part::Packet(at), length)),
            _ => None,
        }
        .filter(|(_, length)| (1..=KEY_BYTES).contains(length))
    }

    /// Writes the key from the packet's bytes.
    #[inline(always)]
    fn write(&self, packet: &Packet, to: &mut [u8]) {
        let copy = |to: &mut [u8], from: Option<&[u8]>, at: usize| {
            let from = from.and_then(|bytes| bytes.get(at..)).unwrap_or_default();
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        };
        match self {
            Part::Packet(at) => copy(to, Some(packet.data()), *at),
            Part::Network(at) => copy(to, packet.network_header(), *at),
            Part::Annotations(at) => {
                copy(to, Some(&packet.annotation::<ANNOTATION_BYTES>(0)), *at);
            }
            Part::Value(value) => copy(to, Some(value), 0),
        }
    }
}

impl Class for SetFilterKey {
    const INFO: ClassInfo = ClassInfo::new("SetFilterKey", "1/1").inline();
}

impl SetFilterKey {
    #[inline(always)]
    fn key(&self, packet: &Packet) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let mut rest = &mut key[..];
        for (part, length) in &self.parts {
            let Some((to, more)) = rest.split_at_mut_checked(*length) else { break };
            part.write(packet, to);
            rest = more;
        }
        key
    }
}

impl Element for SetFilterKey {
    arguments! { this, given;
        let texts = rest "PART": "OFFSET/LENGTH, network OFFSET/LENGTH, anno OFFSET/LENGTH or value HEX";
        then {
            for (index, text) in texts {
                match Part::parse(text) {
                    Some(part) => this.parts.push(part),
                    None => given.error(ConfigError::Value {
                        name: "PART".to_owned(),
                        index: Some(index),
                        found: text.to_owned(),
                        wanted: WANTED.to_owned(),
                    }),
                }
            }
            let bytes: usize = this.parts.iter().map(|(_, length)| length).sum();
            if bytes > KEY_BYTES {
                return Err(ConfigError::other(format!(
                    "a key has at most {KEY_BYTES} bytes; the parts have {bytes}"
                )));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let key = self.key(packet);
            packet.set_filter_key(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_key_is_made_of_parts() {
        let parts = ["1/2", "anno 16/1", "network 1/3", "value 0aFF", "9/2"];
        let mut bench = Bench::new("SetFilterKey", &parts);
        let mut packet = bench.arena.packet(b"abcdefghij").unwrap();
        packet.set_paint(7);
        packet.set_network_header(4, 2);
        bench.push_packets(0, vec![packet]);
        let key = bench.out[0].1.filter_key().unwrap();
        assert_eq!(&key[..11], b"bc\x07fgh\x0a\xffj\0\0");
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in ["1", "1/0", "1/41", "anno 40/9", "value 0", "value 0g", "ip 1/2", "value é0"]
        {
            let error = Bench::error("SetFilterKey", &[wrong]);
            assert!(error.contains("OFFSET/LENGTH"), "{wrong}: {error}");
        }
        let error = Bench::error("SetFilterKey", &["0/40", "value 00"]);
        assert_eq!(error, "a key has at most 40 bytes; the parts have 41");
    }
}
