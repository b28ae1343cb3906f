//! ADSPEC, class 13 (RFC 2210, section 3.3): the resources of the path.

use super::object::Body;
use super::{Float, Malformed, Reader, Writer};

/// Parameters of the path so far, without unknown parameters and services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adspec {
    /// A node on the path does not support integrated services.
    pub has_break: bool,
    /// Number of nodes that support them.
    pub hops: u32,
    /// The least bandwidth, in bytes a second.
    pub bandwidth: Float,
    /// The least latency without queueing, in microseconds.
    pub latency_us: u32,
    /// The path's MTU, in bytes.
    pub mtu: u32,
    /// Guaranteed service, if it is offered.
    pub guaranteed: Option<GuaranteedTerms>,
    /// Controlled load, if it is offered; `true` if a node does not support it.
    pub controlled_load: Option<bool>,
}

/// RFC 2212: error terms, C in bytes and D in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuaranteedTerms {
    /// A node on the path does not support the service.
    pub has_break: bool,
    /// C of the whole path.
    pub total_c: u32,
    /// D of the whole path.
    pub total_d: u32,
    /// C since the last reshaper.
    pub since_c: u32,
    /// D since the last reshaper.
    pub since_d: u32,
}

impl Adspec {
    /// A head's ADSPEC before the first hop.
    pub fn new(bandwidth: Float, mtu: u32) -> Self {
        Self {
            has_break: false,
            hops: 0,
            bandwidth,
            latency_us: 0,
            mtu,
            guaranteed: Some(GuaranteedTerms::default()),
            controlled_load: Some(false),
        }
    }
}

const BREAK: u8 = 0x80;
const WORD: u16 = 1;

fn write_word(to: &mut Writer, number: u8, value: u32) {
    to.u8(number);
    to.u8(0);
    to.u16(WORD);
    to.u32(value);
}

fn write_service(to: &mut Writer, service: u8, has_break: bool, words: u16) {
    to.u8(service);
    to.u8(if has_break { BREAK } else { 0 });
    to.u16(words);
}

/// The values of the requested parameters, without those longer than a word.
fn read_words<const N: usize>(
    mut block: Reader<'_>,
    numbers: [u8; N],
) -> Result<[Option<u32>; N], Malformed> {
    let mut found = [None; N];
    while !block.is_empty() {
        let (number, _) = (block.u8()?, block.u8()?);
        let words = block.u16()?;
        let mut value = Reader::new(block.take(usize::from(words) * 4)?);
        if let Some(at) = numbers.iter().position(|known| *known == number)
            && words == WORD
        {
            found[at] = Some(value.u32()?);
        }
    }
    Ok(found)
}

impl Body for Adspec {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 2 {
            return Ok(None);
        }
        let version = from.u16()? >> 12;
        let words = from.u16()?;
        if version != 0 {
            return Ok(None);
        }
        let mut blocks = Reader::new(from.take(usize::from(words) * 4)?);
        let mut all =
            Self { guaranteed: None, controlled_load: None, ..Self::new(Float::default(), 0) };
        let mut has_general = false;
        while !blocks.is_empty() {
            let (service, flags) = (blocks.u8()?, blocks.u8()?);
            let words = blocks.u16()?;
            let block = Reader::new(blocks.take(usize::from(words) * 4)?);
            let has_break = flags & BREAK != 0;
            match service {
                1 => {
                    let [hops, bandwidth, latency, mtu] = read_words(block, [4, 6, 8, 10])?;
                    (all.has_break, has_general) = (has_break, true);
                    all.hops = hops.unwrap_or(0);
                    all.bandwidth = Float::from_bits(bandwidth.unwrap_or(0));
                    all.latency_us = latency.unwrap_or(0);
                    all.mtu = mtu.unwrap_or(0);
                }
                2 => {
                    let [total_c, total_d, since_c, since_d] =
                        read_words(block, [133, 134, 135, 136])?.map(|word| word.unwrap_or(0));
                    all.guaranteed =
                        Some(GuaranteedTerms { has_break, total_c, total_d, since_c, since_d });
                }
                5 => all.controlled_load = Some(has_break),
                _ => (),
            }
        }
        // RFC 2210, section 3.3.1: the block of general parameters is always present.
        if has_general { Ok(Some(all)) } else { Err(Malformed::Short) }
    }

    fn c_type(&self) -> u8 {
        2
    }

    fn write(&self, to: &mut Writer) {
        let guaranteed = if self.guaranteed.is_some() { 9 } else { 0 };
        let controlled_load = if self.controlled_load.is_some() { 1 } else { 0 };
        to.u16(0);
        to.u16(9 + guaranteed + controlled_load);
        write_service(to, 1, self.has_break, 8);
        write_word(to, 4, self.hops);
        write_word(to, 6, self.bandwidth.to_bits());
        write_word(to, 8, self.latency_us);
        write_word(to, 10, self.mtu);
        if let Some(terms) = self.guaranteed {
            write_service(to, 2, terms.has_break, 8);
            let values = [terms.total_c, terms.total_d, terms.since_c, terms.since_d];
            (133..).zip(values).for_each(|(number, value)| write_word(to, number, value));
        }
        if let Some(has_break) = self.controlled_load {
            write_service(to, 5, has_break, 0);
        }
    }
}
