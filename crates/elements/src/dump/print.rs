//! # Print
//!
//! ## Synopsis
//! `Print([LABEL, MAXLENGTH, CONTENTS, TIMESTAMP, PRINTANNO, ACTIVE, HEADROOM])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each packet to the router's log: label, length and the first bytes. Use it
//! for tests only: it allocates memory and writes on the packet path.
//!
//! ## Arguments
//! - LABEL: text in front.
//! - MAXLENGTH: bytes to print, default 24; negative means all.
//! - CONTENTS (keyword): `HEX` (default), `ASCII` or `NONE`.
//! - TIMESTAMP, PRINTANNO, HEADROOM (keywords): print these as well; default false.
//! - ACTIVE (keyword): whether to print; default true.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//!
//! ## See also
//! `IPPrint`

use std::fmt::Write as _;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Packet, arguments, handlers,
};

/// Writes packets to the log.
#[derive(Default)]
pub(crate) struct Print {
    label: String,
    /// `None` means all.
    max_length: Option<usize>,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    active: bool,
}

/// The form in which bytes are printed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Contents {
    None,
    #[default]
    Hex,
    Ascii,
}

impl Contents {
    /// Reads the value of a CONTENTS or PAYLOAD argument.
    pub(crate) fn read(
        name: &'static str,
        arguments: &mut Arguments<'_>,
    ) -> Result<Option<Contents>, ConfigError> {
        let Some(word) = arguments.keyword::<String>(name)? else { return Ok(None) };
        match word.to_ascii_uppercase().as_str() {
            "NONE" | "NO" | "FALSE" => Ok(Some(Contents::None)),
            "HEX" | "YES" | "TRUE" => Ok(Some(Contents::Hex)),
            "ASCII" => Ok(Some(Contents::Ascii)),
            _ => Err(ConfigError::other(format!("{name}: expected 'NONE', 'HEX' or 'ASCII'"))),
        }
    }

    /// Writes bytes, hexadecimal in groups of four, text in groups of eight, with a space in front
    /// of each, as Click does.
    fn dump(self, bytes: &[u8], out: &mut String) {
        if self == Contents::Ascii && !bytes.is_empty() {
            out.push(' ');
        }
        self.groups(bytes, out);
    }

    /// Writes lines of 24 bytes, or of 48 characters, in groups like [`Print`].
    pub(crate) fn lines(self, bytes: &[u8], out: &mut String) {
        for line in bytes.chunks(if self == Contents::Hex { 24 } else { 48 }) {
            out.push_str("\n  ");
            self.groups(line, out);
        }
    }

    fn groups(self, bytes: &[u8], out: &mut String) {
        let group = if self == Contents::Hex { 4 } else { 8 };
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 && at % group == 0 {
                out.push(' ');
            }
            match self {
                Contents::None => return,
                Contents::Hex => {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "{byte:02x}");
                }
                Contents::Ascii if (32..127).contains(byte) => out.push(char::from(*byte)),
                Contents::Ascii => out.push('.'),
            }
        }
    }
}

/// Nanoseconds since 1970 as seconds with a fraction.
pub(crate) fn seconds(time_ns: u64) -> String {
    crate::shared::values::Time::of(time_ns).to_string()
}

impl Class for Print {
    const INFO: ClassInfo = ClassInfo::new("Print", "1/1").inline();
}

impl Print {
    fn line(&self, packet: &Packet) -> String {
        let mut line = self.label.clone();
        if !line.is_empty() {
            line += ": ";
        }
        if self.timestamp {
            line = line + &seconds(packet.timestamp_ns()) + ": ";
        }
        let _ = write!(line, "{:4}", packet.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line += " | ";
            for byte in packet.annotation::<48>(0) {
                let _ = write!(line, "{byte:02x}");
            }
        }
        let count = self.max_length.unwrap_or(usize::MAX).min(packet.len());
        if count > 0 && self.contents != Contents::None {
            line += " | ";
            self.contents.dump(packet.data().get(..count).unwrap_or_default(), &mut line);
        }
        line
    }
}

impl Element for Print {
    arguments! { this, given;
        positional "LABEL": String = String::new() => this.label;
        // LENGTH and NBYTES are its names in earlier versions of Click.
        positional "MAXLENGTH" | "LENGTH" | "NBYTES": i64 = 24, with |length| usize::try_from(length).ok()
            => this.max_length;
        let contents = keyword "CONTENTS": "NONE, HEX or ASCII", by Contents::read;
        keyword "TIMESTAMP": bool = false => this.timestamp;
        keyword "PRINTANNO": bool = false => this.annotations;
        keyword "HEADROOM": bool = false => this.headroom;
        keyword "ACTIVE": bool = true => this.active;
        then {
            this.contents = contents.unwrap_or_default();
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if self.active {
            for packet in batch.iter() {
                context.log_with(|_| self.line(packet));
            }
        }
    }

    handlers! { this, context, value;
        both "active" [CHECKBOX] => this.active;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn lines_look_as_in_click() {
        for (arguments, line) in [
            (&[][..], "   6 | 61620a63 6465"),
            (&["x", "2"], "x:    6 | 6162"),
            (&["x", "0"], "x:    6"),
            (&["NBYTES 2"], "   6 | 6162"),
            (&["x", "LENGTH 2"], "x:    6 | 6162"),
            (&["x", "-1", "CONTENTS ASCII"], "x:    6 |  ab.cde"),
            (&["CONTENTS NONE", "HEADROOM true"], "   6 (h128 t1850)"),
        ] {
            let mut bench = Bench::new("Print", arguments);
            let log = bench.log();
            bench.push(0, &[b"ab\ncde"]);
            assert_eq!(*log.borrow(), [line]);
            bench.router.write("e.active", "false").unwrap();
            bench.push(0, &[b"ab\ncde"]);
            assert_eq!(log.borrow().len(), 1);
        }
    }
}
