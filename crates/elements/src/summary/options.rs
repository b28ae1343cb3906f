//! IP and TCP options as text.
//!
//! In both directions: `mss1400;sackok` from bytes and back. Options are separated by semicolons.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::shared::fields::{be16, be32};

/// Selects the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All options except padding.
    All,
    /// Options without TCP timestamps.
    NoTime,
    /// Selective acknowledgements.
    Sack,
}

const IP_RR: u8 = 7;
const IP_TS: u8 = 68;
const IP_LSRR: u8 = 131;
const IP_SSRR: u8 = 137;

const TCP_MSS: u8 = 2;
const TCP_WSCALE: u8 = 3;
const TCP_SACK_OK: u8 = 4;
const TCP_SACK: u8 = 5;
const TCP_TIME: u8 = 8;

/// The options in order, without padding; `None` at a malformed one.
fn walk(mut bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        loop {
            match *bytes {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => bytes = rest,
                [_, length, ..] if length >= 2 && usize::from(length) <= bytes.len() => {
                    let (option, rest) = bytes.split_at(usize::from(length));
                    bytes = rest;
                    return Some(Some(option));
                }
                _ => {
                    bytes = &[];
                    return Some(None);
                }
            }
        }
    })
}

/// Joins the options as text: `.` if there are none, `?` if one is malformed.
fn join(bytes: &[u8], text: impl Fn(&[u8]) -> Option<String>) -> String {
    let mut parts = Vec::new();
    for option in walk(bytes) {
        match option.and_then(&text) {
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
            None => return "?".to_owned(),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join(";") }
}

/// An unknown option: `99=0:5:10`.
fn unknown(option: &[u8]) -> String {
    let mut text = option.first().map(u8::to_string).unwrap_or_default();
    for (at, byte) in option.iter().skip(2).enumerate() {
        let _ = write!(text, "{}{byte}", if at == 0 { '=' } else { ':' });
    }
    text
}

fn address(entry: &[u8]) -> Ipv4Addr {
    Ipv4Addr::from(be32(entry, 0).unwrap_or(0))
}

/// A list of addresses with a pointer into it: route record, source routes.
fn route(name: &str, option: &[u8]) -> Option<String> {
    let pointer = usize::from(*option.get(2)?).checked_sub(4)?;
    let entries = option.get(3..)?;
    let mut text = format!("{name}{{");
    let mut separator = "";
    let mut at = 0;
    while at + 4 <= entries.len() {
        if at == pointer {
            if name == "rr" {
                break;
            }
            separator = "^";
        }
        let _ = write!(text, "{separator}{}", address(entries.get(at..)?));
        separator = ",";
        at += 4;
    }
    if at == entries.len() && at == pointer && name != "rr" {
        text.push('^');
    }
    text.push('}');
    if at + 4 <= entries.len() && name == "rr" {
        let _ = write!(text, "+{}", (entries.len() - at) / 4);
    }
    Some(text)
}

/// A list of times, with or without addresses.
fn times(option: &[u8]) -> Option<String> {
    let pointer = usize::from(*option.get(2)?).checked_sub(5)?;
    let (flags, entries) = (*option.get(3)?, option.get(4..)?);
    let size = if matches!(flags & 15, 1..=3) { 8 } else { 4 };
    let kind = match flags & 15 {
        0 => String::new(),
        1 => ".ip".to_owned(),
        3 => ".preip".to_owned(),
        other => format!(".{other}"),
    };
    let mut text = format!("ts{kind}{{");
    let (mut separator, mut at) = ("", 0);
    while at + size <= entries.len() {
        if at == pointer {
            if flags & 15 != 3 {
                break;
            }
            separator = "^";
        }
        let entry = entries.get(at..at + size)?;
        text += separator;
        if size == 8 {
            let _ = write!(text, "{}", address(entry));
        }
        if flags & 15 != 3 || at < pointer {
            let time = be32(entry, size - 4)?;
            let equals = if size == 8 { "=" } else { "" };
            let odd = if time >> 31 != 0 { "!" } else { "" };
            let _ = write!(text, "{equals}{odd}{}", time & 0x7fff_ffff);
        }
        separator = ",";
        at += size;
    }
    if at == entries.len() && at == pointer {
        text.push('^');
    }
    text.push('}');
    if at + size <= entries.len() && at == pointer {
        let _ = write!(text, "+{}", (entries.len() - at) / size);
    }
    if flags >> 4 != 0 {
        let _ = write!(text, "++{}", flags >> 4);
    }
    Some(text)
}

/// IP options as text.
pub(crate) fn ip_text(bytes: &[u8]) -> String {
    join(bytes, |option| match *option.first()? {
        IP_RR => route("rr", option),
        IP_LSRR => route("lsrr", option),
        IP_SSRR => route("ssrr", option),
        IP_TS => times(option),
        _ => Some(unknown(option)),
    })
}

/// TCP options as text.
pub(crate) fn tcp_text(bytes: &[u8], wanted: Wanted) -> String {
    join(bytes, |option| {
        let length = option.len();
        let sack = matches!(option.first(), Some(&(TCP_SACK_OK | TCP_SACK)));
        let show = match wanted {
            Wanted::All => true,
            Wanted::NoTime => option.first() != Some(&TCP_TIME),
            Wanted::Sack => sack,
        };
        let text = match *option.first()? {
            TCP_MSS => format!("mss{}", be16(option, 2).filter(|_| length == 4)?),
            TCP_WSCALE => format!("wscale{}", option.get(2).filter(|_| length == 3)?),
            TCP_SACK_OK if length == 2 => "sackok".to_owned(),
            TCP_SACK if length % 8 == 2 => {
                let blocks = option.get(2..)?.as_chunks::<8>().0;
                let block = |b: &[u8; 8]| Some(format!("sack{}-{}", be32(b, 0)?, be32(b, 4)?));
                blocks.iter().map(block).collect::<Option<Vec<_>>>()?.join(";")
            }
            TCP_TIME if length == 10 => format!("ts{}:{}", be32(option, 2)?, be32(option, 6)?),
            TCP_SACK_OK | TCP_SACK | TCP_TIME => return None,
            _ => unknown(option),
        };
        Some(if show { text } else { String::new() })
    })
}

/// The selected options as bytes, for binary dumps.
pub(crate) fn tcp_bytes(bytes: &[u8], wanted: Wanted) -> Vec<u8> {
    let keep = |option: &&[u8]| match wanted {
        Wanted::All => true,
        Wanted::NoTime => option.first() != Some(&TCP_TIME),
        Wanted::Sack => matches!(option.first(), Some(&(TCP_SACK_OK | TCP_SACK))),
    };
    if wanted == Wanted::All {
        return bytes.to_vec();
    }
    walk(bytes).map_while(|option| option).filter(keep).flatten().copied().collect()
}

/// The rest of a text while it is read.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        match self.0.strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Option<u32> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        digits.parse().ok()
    }

    fn at_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    fn byte(&mut self) -> Option<u8> {
        u8::try_from(self.number()?).ok()
    }

    fn address(&mut self) -> Option<[u8; 4]> {
        let mut address = [0; 4];
        for (at, byte) in address.iter_mut().enumerate() {
            if at > 0 && !self.take(".") {
                return None;
            }
            *byte = self.byte()?;
        }
        Some(address)
    }

    /// Options one after the other.
    fn list(&mut self, option: impl Fn(&mut Self, &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        if matches!(self.0, "" | ".") {
            return Some(bytes);
        }
        loop {
            option(self, &mut bytes)?;
            if self.0.is_empty() {
                break;
            }
            if !self.take(";") && !self.take(",") {
                return None;
            }
        }
        // At most 40 bytes fit; padding at the front is removed.
        while bytes.len() > 40 && bytes.first() == Some(&1) {
            bytes.remove(0);
        }
        (bytes.len() <= 40).then_some(bytes)
    }

    /// `nop`, `eol`, `99` or `99=1:2`.
    fn other(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        if self.take("nop") {
            bytes.push(1);
        } else if self.take("eol") {
            bytes.push(0);
        } else {
            bytes.push(self.byte()?);
            if self.take("=") {
                let at = bytes.len();
                bytes.push(0);
                bytes.push(self.byte()?);
                while self.take(":") {
                    bytes.push(self.byte()?);
                }
                let length = u8::try_from(bytes.len() - at + 1).ok()?;
                *bytes.get_mut(at)? = length;
            }
        }
        Some(())
    }

    fn route(&mut self, kind: u8, bytes: &mut Vec<u8>) -> Option<()> {
        let (mut entries, mut pointer) = (Vec::new(), None);
        loop {
            if pointer.is_none() && self.take("^") {
                pointer = Some(entries.len());
            }
            if !self.at_digit() {
                break;
            }
            entries.extend(self.address()?);
            self.take(",");
        }
        if !self.take("}") {
            return None;
        }
        let pointer = pointer.unwrap_or(entries.len());
        self.room(&mut entries, 4);
        let length = u8::try_from(entries.len() + 3).ok()?;
        bytes.extend([kind, length, u8::try_from(pointer + 4).ok()?]);
        bytes.extend(entries);
        Some(())
    }

    /// `+3`: room for this many entries.
    fn room(&mut self, entries: &mut Vec<u8>, size: usize) {
        let rest = self.0;
        if self.take("+") {
            match self.number().filter(|count| *count < 64) {
                Some(count) => entries.resize(entries.len() + count as usize * size, 0),
                None => self.0 = rest,
            }
        }
    }

    fn times(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        // Without a kind, the first entry decides: it is a time, or an address.
        let mut flag = None;
        if self.take(".ip{") {
            flag = Some(1);
        } else if self.take(".preip{") {
            flag = Some(3);
        } else if self.take(".") {
            flag = Some(self.byte().filter(|flag| *flag < 16)?);
            if !self.take("{") {
                return None;
            }
        } else if !self.take("{") {
            return None;
        }
        let guess = flag.is_none();
        let (mut entries, mut pointer) = (Vec::new(), None);
        loop {
            if pointer.is_none() && self.take("^") {
                pointer = Some(entries.len());
                if guess && flag == Some(1) {
                    flag = Some(3);
                }
            }
            if !self.at_digit() && !self.0.starts_with('!') {
                break;
            }
            let end = self.0.find([',', '}', '=', '^']).unwrap_or(self.0.len());
            let dotted = self.0.get(..end)?.contains('.');
            let with_address = match flag {
                None => dotted,
                Some(flag) => matches!(flag, 1 | 3),
            };
            flag.get_or_insert(u8::from(with_address));
            let mut known = true;
            if with_address {
                entries.extend(self.address()?);
                known = self.take("=");
                if !known && pointer.is_none() || known && self.take("?") && pointer.is_none() {
                    return None;
                }
                known &= self.at_digit() || self.0.starts_with('!');
            }
            let odd = known && self.take("!");
            let time = if known { self.number()? } else { 0 };
            entries.extend((time | u32::from(odd) << 31).to_be_bytes());
            self.take(",");
        }
        if !self.take("}") {
            return None;
        }
        let flag = flag.unwrap_or(0);
        let pointer = pointer.unwrap_or(entries.len());
        if !self.0.starts_with("++") {
            self.room(&mut entries, if matches!(flag, 1 | 3) { 8 } else { 4 });
        }
        let overflow = if self.take("++") { self.byte().filter(|count| *count < 16)? } else { 0 };
        let length = u8::try_from(entries.len() + 4).ok()?;
        bytes.extend([IP_TS, length, u8::try_from(pointer + 5).ok()?, overflow << 4 | flag]);
        bytes.extend(entries);
        Some(())
    }
}

/// IP options from text. `None` if the text is invalid.
pub(crate) fn ip_parse(text: &str) -> Option<Vec<u8>> {
    Reader(text).list(|reader, bytes| {
        if reader.take("rr{") {
            reader.route(IP_RR, bytes)
        } else if reader.take("ssrr{") {
            reader.route(IP_SSRR, bytes)
        } else if reader.take("lsrr{") {
            reader.route(IP_LSRR, bytes)
        } else if reader.take("ts") {
            reader.times(bytes)
        } else {
            reader.other(bytes)
        }
    })
}

/// TCP options from text. `None` if the text is invalid.
pub(crate) fn tcp_parse(text: &str) -> Option<Vec<u8>> {
    Reader(text).list(|reader, bytes| {
        if reader.take("mss") {
            bytes.extend([TCP_MSS, 4]);
            bytes.extend(u16::try_from(reader.number()?).ok()?.to_be_bytes());
        } else if reader.take("wscale") {
            bytes.extend([TCP_WSCALE, 3, reader.byte()?]);
        } else if reader.take("sackok") {
            bytes.extend([TCP_SACK_OK, 2]);
        } else if reader.take("sack") {
            let at = bytes.len();
            bytes.extend([TCP_SACK, 0]);
            loop {
                let from = reader.number()?;
                if !reader.take("-") && !reader.take(":") {
                    return None;
                }
                bytes.extend([from, reader.number()?].map(u32::to_be_bytes).as_flattened());
                // Neighbours share an option.
                if reader
                    .0
                    .strip_prefix([',', ';'])
                    .is_none_or(|next| !next.starts_with("sack") || next.starts_with("sackok"))
                {
                    break;
                }
                reader.0 = reader.0.get(5..)?;
            }
            let length = u8::try_from(bytes.len() - at).ok()?;
            *bytes.get_mut(at + 1)? = length;
        } else if reader.take("ts") {
            if bytes.is_empty() {
                bytes.extend([1, 1]);
            }
            let value = reader.number()?;
            if !reader.take(":") {
                return None;
            }
            bytes.extend([TCP_TIME, 10]);
            bytes.extend([value, reader.number()?].map(u32::to_be_bytes).as_flattened());
        } else {
            return reader.other(bytes);
        }
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_written() {
        for (text, bytes) in [
            (".", &[][..]),
            ("rr{2.3.4.5}+1", &[7, 11, 8, 2, 3, 4, 5, 0, 0, 0, 0]),
            ("ssrr{1.0.0.1^2.0.0.2}", &[137, 11, 8, 1, 0, 0, 1, 2, 0, 0, 2]),
            ("lsrr{1.0.0.1^}", &[131, 7, 8, 1, 0, 0, 1]),
            ("ts{1,!2^}", &[68, 12, 13, 0, 0, 0, 0, 1, 0x80, 0, 0, 2]),
            (
                "ts.ip{1.0.0.1=7}+1++3",
                &[68, 20, 13, 0x31, 1, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                "ts.preip{1.0.0.1=7^2.0.0.2}",
                &[68, 20, 13, 3, 1, 0, 0, 1, 0, 0, 0, 7, 2, 0, 0, 2, 0, 0, 0, 0],
            ),
            ("99=0:5;98=1", &[99, 4, 0, 5, 98, 3, 1]),
        ] {
            assert_eq!(ip_parse(text).as_deref(), Some(bytes), "{text}");
            assert_eq!(ip_text(bytes), text);
        }
        for (text, bytes) in [
            ("mss1400;sackok;wscale10", &[2, 4, 5, 120, 4, 2, 3, 3, 10][..]),
            ("sack1-2;sack3-4", &[5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]),
            ("ts1:2", &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        ] {
            assert_eq!(tcp_parse(text).as_deref(), Some(bytes), "{text}");
            assert_eq!(tcp_text(bytes, Wanted::All), text);
        }
        assert_eq!(ip_parse("nop;eol"), Some(vec![1, 0]));
        assert_eq!(tcp_text(&[4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], Wanted::NoTime), "sackok");
        assert_eq!(
            (ip_text(&[7, 9, 4]), tcp_text(&[2, 3, 1], Wanted::All)),
            ("?".into(), "?".into())
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_and_bytes(text in "[a-z0-9{}^.,;:=!?+-]{0,40}", bytes in proptest::collection::vec(0u8.., 0..44)) {
            let _ = (ip_parse(&text), tcp_parse(&text), ip_text(&bytes), tcp_text(&bytes, Wanted::Sack));
            let _ = tcp_bytes(&bytes, Wanted::NoTime);
        }
    }
}
