//! The format of capture files (libpcap): a header, then records with headers of their own.

use std::io::{self, Read};

use super::pcapng::{self, Blocks};

/// In the byte order of the machine that wrote the file.
const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// The same with ports in each record's header (some old systems write this).
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// Longest packet that a file may contain, in bytes.
const MAX_RECORD: usize = 1 << 20;

/// Names of link types.
const LINKS: &[(&str, u32)] = &[
    ("NULL", 0),
    ("ETHER", 1),
    ("PPP", 9),
    ("FDDI", 10),
    ("IP", 101),
    ("RAW", 101),
    ("ATM_RFC1483", 100),
    ("802_11", 105),
    ("80211", 105),
    ("SLL", 113),
    ("LINUX_SLL", 113),
    ("802_11_RADIO", 127),
];

/// Raw IP has another number in files of some systems.
const RAW_NUMBERS: [u32; 3] = [12, 14, 101];

/// The link type of a name.
pub(super) fn link_type(name: &str) -> Option<u32> {
    let name = name.to_ascii_uppercase();
    LINKS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of a link type.
pub(super) fn link_name(number: u32) -> String {
    let known = LINKS.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("##{number}"), |(name, _)| (*name).to_owned())
}

/// The header of a file.
pub(super) fn file_header(nano: bool, snap_length: u32, link_type: u32) -> [u8; 24] {
    let magic = if nano { MAGIC_NANO } else { MAGIC_MICRO };
    let version = u32::from_ne_bytes({
        let ([a, b], [c, d]) = (2u16.to_ne_bytes(), 4u16.to_ne_bytes());
        [a, b, c, d]
    });
    let mut header = [0; 24];
    let words = [magic, version, 0, 0, snap_length, link_type];
    for (place, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
    header
}

/// The header of a record.
pub(super) fn record_header(time_ns: u64, nano: bool, captured: u32, length: u32) -> [u8; 16] {
    let part = time_ns % 1_000_000_000;
    // Seconds have 32 bits in this format.
    let words = [
        (time_ns / 1_000_000_000) as u32,
        (if nano { part } else { part / 1000 }) as u32,
        captured,
        length,
    ];
    let mut header = [0; 16];
    for (place, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
    header
}

/// The number of a link type; all numbers of raw IP become one.
fn raw_ip(number: u32) -> u32 {
    if RAW_NUMBERS.contains(&number) { 101 } else { number }
}

/// A file that is read.
pub(super) struct Reader {
    input: Box<dyn Read>,
    swapped: bool,
    nano: bool,
    modified: bool,
    /// The file is of the newer format.
    blocks: Option<Blocks>,
    /// The type of each packet's first header.
    pub(super) link_type: u32,
}

/// A record.
pub(super) struct Record {
    pub(super) time_ns: u64,
    /// On the link, in bytes.
    pub(super) length: u32,
    pub(super) data: Vec<u8>,
}

impl Reader {
    /// Reads the file's header.
    pub(super) fn open(mut input: Box<dyn Read>) -> Result<Reader, String> {
        let mut header = [0; 24];
        input.read_exact(&mut header).map_err(|_| "not a tcpdump file (too short)".to_owned())?;
        let word = |at: usize| -> u32 {
            let chunk = header.as_chunks::<4>().0.get(at).copied();
            u32::from_ne_bytes(chunk.unwrap_or_default())
        };
        let known = |magic: u32| matches!(magic, MAGIC_MICRO | MAGIC_NANO | MAGIC_MODIFIED);
        if word(0) == pcapng::SECTION {
            let blocks = Blocks::open(&mut input, &header)?;
            let link_type = raw_ip(blocks.link_type);
            let blocks = Some(blocks);
            let (swapped, nano, modified) = (false, true, false);
            return Ok(Reader { input, swapped, nano, modified, blocks, link_type });
        }
        let swapped = !known(word(0));
        let fix = |word: u32| if swapped { word.swap_bytes() } else { word };
        let magic = fix(word(0));
        if !known(magic) {
            return Err("not a tcpdump file (bad magic number)".to_owned());
        }
        let link_type = raw_ip(fix(word(5)) & 0x0fff_ffff);
        let (nano, modified) = (magic == MAGIC_NANO, magic == MAGIC_MODIFIED);
        Ok(Reader { input, swapped, nano, modified, blocks: None, link_type })
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, String> {
        if let Some(blocks) = &mut self.blocks {
            return blocks.next(&mut self.input);
        }
        let mut header = [0; 24];
        let size = if self.modified { 24 } else { 16 };
        let place = header.get_mut(..size).unwrap_or_default();
        match self.input.read_exact(place) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        let word = |at: usize| {
            let word =
                u32::from_ne_bytes(header.as_chunks::<4>().0.get(at).copied().unwrap_or_default());
            u64::from(if self.swapped { word.swap_bytes() } else { word })
        };
        let scale = if self.nano { 1 } else { 1000 };
        let time_ns = word(0) * 1_000_000_000 + word(1) * scale;
        let captured = word(2) as usize;
        if captured > MAX_RECORD {
            return Err(format!("bad packet header: {captured} bytes captured"));
        }
        let mut data = vec![0; captured];
        if self.input.read_exact(&mut data).is_err() {
            return Err("truncated packet".to_owned());
        }
        Ok(Some(Record { time_ns, length: word(3) as u32, data }))
    }
}

/// Offset of the IP packet in a frame of this link type; `None` if it has none.
pub(super) fn ip_offset(link_type: u32, frame: &[u8]) -> Option<usize> {
    let is_ip = |at: usize| {
        let kind = frame.get(at..at + 2)?;
        matches!(kind, [0x08, 0x00] | [0x86, 0xdd]).then_some(at + 2)
    };
    match link_type {
        0 => Some(4),
        1 => match frame.get(12..14)? {
            [0x81, 0x00] => is_ip(16),
            _ => is_ip(12),
        },
        9 => match frame {
            [0xff, 0x03, 0x00, 0x21, ..] => Some(4),
            [0x00, 0x21, ..] => Some(2),
            [0x21, ..] => Some(1),
            _ => None,
        },
        101 => Some(0),
        113 => is_ip(14),
        _ => None,
    }
}

/// Whether IP packets can be found in frames of this link type.
pub(super) fn knows_ip(link_type: u32) -> bool {
    matches!(link_type, 0 | 1 | 9 | 101 | 113)
}
