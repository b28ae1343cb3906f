//! The newer format of capture files (pcapng): blocks, each with its length before and behind.

use std::io::{self, Read};

use super::pcap::Record;

/// The type of a section's first block, the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
/// The magic number with the byte order of a section.
const ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;
/// Options of an interface: resolution of its times, and seconds to add to them.
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;
/// Longest block that a file may contain, in bytes.
const MAX_BLOCK: usize = 16 << 20;
/// Most interfaces that a section may have.
const MAX_INTERFACES: usize = 65536;
/// Bytes of a block that are no contents: type, length, length again.
const FRAME_BYTES: usize = 12;

/// The unit of an interface's times.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// 10 to the power of minus this number, in seconds.
    Decimal(u32),
    /// 2 to the power of minus this number, in seconds.
    Binary(u32),
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snap_length: u32,
    unit: Unit,
    offset_s: i64,
}

/// A file that is read.
pub(super) struct Blocks {
    swapped: bool,
    interfaces: Vec<Interface>,
    /// The link type of the file's first interface.
    pub(super) link_type: u32,
    /// A packet before the first call of `next`.
    waiting: Option<Record>,
    /// Number of the packet, for messages.
    number: u64,
}

/// Contents of a block, read in the section's byte order.
struct Contents<'a> {
    data: &'a [u8],
    swapped: bool,
}

impl Contents<'_> {
    fn word(&self, at: usize) -> Option<u32> {
        let word = u32::from_ne_bytes(*self.data.get(at..)?.first_chunk()?);
        Some(if self.swapped { word.swap_bytes() } else { word })
    }

    fn half(&self, at: usize) -> Option<u16> {
        let half = u16::from_ne_bytes(*self.data.get(at..)?.first_chunk()?);
        Some(if self.swapped { half.swap_bytes() } else { half })
    }

    /// The value of an option in the list that begins at `at`.
    fn option(&self, mut at: usize, wanted: u16) -> Option<&[u8]> {
        loop {
            let (code, length) = (self.half(at)?, usize::from(self.half(at + 2)?));
            if code == wanted {
                return self.data.get(at + 4..at + 4 + length);
            }
            if code == 0 {
                return None;
            }
            at += 4 + length.next_multiple_of(4);
        }
    }
}

impl Blocks {
    /// Continues after the first 24 bytes of the file, up to the first interface or packet.
    pub(super) fn open(input: &mut dyn Read, start: &[u8; 24]) -> Result<Blocks, String> {
        let mut blocks = Blocks {
            swapped: false,
            interfaces: Vec::new(),
            link_type: 1,
            waiting: None,
            number: 0,
        };
        let length = blocks.section(start.get(4..).unwrap_or_default())?;
        let rest = length.checked_sub(start.len()).ok_or("bad length of a section's header")?;
        skip(input, rest)?;
        while blocks.interfaces.is_empty() {
            match blocks.block(input)? {
                Step::End => return Err("no interface and no packet in it".to_owned()),
                Step::Packet(record) => blocks.waiting = Some(record),
                Step::Other => {}
            }
        }
        blocks.link_type = blocks.interfaces.first().map_or(1, |interface| interface.link_type);
        Ok(blocks)
    }

    /// Reads a section's first block, starting at its length; returns the length.
    fn section(&mut self, data: &[u8]) -> Result<usize, String> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?))
        };
        self.swapped = match word(4) {
            Some(ORDER) => false,
            Some(order) if order.swap_bytes() == ORDER => true,
            _ => return Err("not a pcapng file (bad byte order)".to_owned()),
        };
        self.interfaces.clear();
        let contents = Contents { data, swapped: self.swapped };
        let length = contents.word(0).unwrap_or(0) as usize;
        check_length(length)?;
        Ok(length)
    }

    /// The next packet; `None` at the end.
    pub(super) fn next(&mut self, input: &mut dyn Read) -> Result<Option<Record>, String> {
        if let Some(record) = self.waiting.take() {
            return Ok(Some(record));
        }
        loop {
            match self.block(input)? {
                Step::End => return Ok(None),
                Step::Packet(record) => return Ok(Some(record)),
                Step::Other => {}
            }
        }
    }

    fn block(&mut self, input: &mut dyn Read) -> Result<Step, String> {
        let mut start = [0; 8];
        match input.read_exact(&mut start) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Step::End),
            Err(error) => return Err(error.to_string()),
        }
        let raw = u32::from_ne_bytes([start[0], start[1], start[2], start[3]]);
        if raw == SECTION {
            let mut order = [0; 4];
            read(input, &mut order)?;
            let [_, _, _, _, a, b, c, d] = start;
            let [e, f, g, h] = order;
            let length = self.section(&[a, b, c, d, e, f, g, h])?;
            skip(input, length - FRAME_BYTES)?;
            return Ok(Step::Other);
        }
        let contents = Contents { data: &start, swapped: self.swapped };
        let (kind, length) = (contents.word(0).unwrap_or(0), contents.word(4).unwrap_or(0));
        check_length(length as usize)?;
        let mut data = vec![0; length as usize - FRAME_BYTES];
        read(input, &mut data)?;
        skip(input, 4)?;
        let contents = Contents { data: &data, swapped: self.swapped };
        let bad = || format!("bad block of type {kind}");
        match kind {
            INTERFACE => self.interface(&contents).ok_or_else(bad)?,
            PACKET | OLD_PACKET | SIMPLE_PACKET => {
                self.number += 1;
                let record = self.packet(kind, &contents).ok_or_else(bad)?;
                return record.map(Step::Packet);
            }
            _ => {}
        }
        Ok(Step::Other)
    }

    fn interface(&mut self, contents: &Contents<'_>) -> Option<()> {
        let unit = match contents.option(8, RESOLUTION).and_then(|value| value.first()) {
            Some(power) if power & 0x80 != 0 => Unit::Binary(u32::from(power & 0x7f)),
            Some(power) => Unit::Decimal(u32::from(*power)),
            None => Unit::Decimal(6),
        };
        let offset = contents.option(8, OFFSET).and_then(<[u8]>::first_chunk);
        let offset_s = offset.map_or(0, |bytes| {
            let offset = i64::from_ne_bytes(*bytes);
            if contents.swapped { offset.swap_bytes() } else { offset }
        });
        let (link_type, snap_length) = (u32::from(contents.half(0)?), contents.word(4)?);
        if self.interfaces.len() < MAX_INTERFACES {
            self.interfaces.push(Interface { link_type, snap_length, unit, offset_s });
        }
        Some(())
    }

    /// A packet, or the reason why it is invalid. `None` if the block is too short.
    fn packet(&self, kind: u32, contents: &Contents<'_>) -> Option<Result<Record, String>> {
        let number = match kind {
            SIMPLE_PACKET => 0,
            OLD_PACKET => usize::from(contents.half(0)?),
            _ => contents.word(0)? as usize,
        };
        let Some(interface) = self.interfaces.get(number) else {
            return Some(Err(format!("packet {} is of no interface", self.number)));
        };
        let first = self.interfaces.first().map_or(0, |interface| interface.link_type);
        if interface.link_type != first {
            return Some(Err(format!(
                "packet {} has link type {}, others have {first}",
                self.number, interface.link_type
            )));
        }
        if kind == SIMPLE_PACKET {
            let length = contents.word(0)?;
            let most = if interface.snap_length == 0 { u32::MAX } else { interface.snap_length };
            let data = contents.data.get(4..4 + length.min(most) as usize)?.to_vec();
            return Some(Ok(Record { time_ns: 0, length, data }));
        }
        let time = u64::from(contents.word(4)?) << 32 | u64::from(contents.word(8)?);
        let (captured, length) = (contents.word(12)? as usize, contents.word(16)?);
        let data = contents.data.get(20..20usize.checked_add(captured)?)?.to_vec();
        Some(Ok(Record { time_ns: interface.nanoseconds(time), length, data }))
    }
}

impl Interface {
    /// A time of this interface in nanoseconds since 1970; earlier times count as 1970.
    fn nanoseconds(&self, time: u64) -> u64 {
        let time = u128::from(time);
        let since = match self.unit {
            Unit::Decimal(power @ 0..=9) => time * 10u128.pow(9 - power),
            Unit::Decimal(power) => time / 10u128.checked_pow(power - 9).unwrap_or(u128::MAX),
            Unit::Binary(power) => (time * 1_000_000_000) >> power,
        };
        let all = i128::try_from(since).unwrap_or(i128::MAX);
        let all = all.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(all.max(0)).unwrap_or(u64::MAX)
    }
}

/// The kind of a block.
enum Step {
    End,
    Packet(Record),
    Other,
}

fn check_length(length: usize) -> Result<(), String> {
    let sound = (FRAME_BYTES..=MAX_BLOCK).contains(&length) && length.is_multiple_of(4);
    if sound { Ok(()) } else { Err(format!("bad block length {length}")) }
}

fn read(input: &mut dyn Read, place: &mut [u8]) -> Result<(), String> {
    input.read_exact(place).map_err(|_| "truncated block".to_owned())
}

fn skip(input: &mut dyn Read, count: usize) -> Result<(), String> {
    let copied = io::copy(&mut input.take(count as u64), &mut io::sink());
    match copied {
        Ok(copied) if copied == count as u64 => Ok(()),
        _ => Err("truncated block".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcap::Reader;
    use proptest::prelude::*;

    /// A block in big or little endian.
    fn block(big: bool, kind: u32, contents: &[u8]) -> Vec<u8> {
        let word = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let padded = contents.len().next_multiple_of(4);
        let length = word(padded as u32 + 12);
        let mut block = [&word(kind)[..], &length, contents].concat();
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }

    fn words(big: bool, words: &[u32]) -> Vec<u8> {
        let word = |word: &u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        words.iter().flat_map(word).collect()
    }

    fn halves(big: bool, halves: &[u16]) -> Vec<u8> {
        let half = |half: &u16| if big { half.to_be_bytes() } else { half.to_le_bytes() };
        halves.iter().flat_map(half).collect()
    }

    /// A section with one interface whose times count 10^-9 s, a comment, and two packets.
    fn file(big: bool) -> Vec<u8> {
        let mut section = words(big, &[super::ORDER]);
        section.extend(halves(big, &[1, 0]));
        section.extend([0xff; 8]);
        let mut interface = halves(big, &[1, 0]);
        interface.extend(words(big, &[65535]));
        interface.extend(halves(big, &[9, 1]));
        interface.extend([9, 0, 0, 0]);
        interface.extend(halves(big, &[0, 0]));
        let mut packet = words(big, &[0, 1, 5, 3, 60]);
        packet.extend(b"abc");
        let mut simple = words(big, &[5]);
        simple.extend(b"hello");
        [
            block(big, super::SECTION, &section),
            block(big, 1, &interface),
            block(big, 0xbad, b"whatever"),
            block(big, 6, &packet),
            block(big, 3, &simple),
        ]
        .concat()
    }

    #[test]
    fn packets_are_read_in_both_byte_orders() {
        for big in [false, true] {
            // Two sections, as in a file that is made of two files.
            let file = [file(big), file(!big)].concat();
            let mut reader = Reader::open(Box::new(std::io::Cursor::new(file))).unwrap();
            assert_eq!(reader.link_type, 1);
            for _ in 0..2 {
                let record = reader.next().unwrap().unwrap();
                let seen = (record.time_ns, record.length, record.data.as_slice());
                assert_eq!(seen, ((1 << 32) + 5, 60, &b"abc"[..]));
                assert_eq!(reader.next().unwrap().unwrap().data, b"hello");
            }
            assert!(reader.next().unwrap().is_none());
        }
    }

    proptest! {
        #[test]
        fn any_damage_is_told_or_survived(at in 0usize..160, byte: u8, cut in 0usize..160) {
            let mut file = file(false);
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            file.truncate(file.len() - cut.min(file.len()));
            if let Ok(mut reader) = Reader::open(Box::new(std::io::Cursor::new(file))) {
                for _ in 0..10 {
                    if !matches!(reader.next(), Ok(Some(_))) {
                        break;
                    }
                }
            }
        }
    }
}
