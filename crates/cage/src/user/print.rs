//! `bpf_trace_printk`: formats into a bounded text.

use std::fmt::Write as _;

/// Bytes of text that are kept for the reader.
const KEPT: usize = 1 << 16;

/// The output of programs.
#[derive(Debug)]
pub(super) struct Trace {
    text: String,
    /// Lines that found no room.
    lost: u64,
}

impl Trace {
    pub(super) fn new() -> Trace {
        Trace { text: String::with_capacity(KEPT), lost: 0 }
    }

    /// Adds a line. `arguments` are consumed in order; missing ones are zero. Returns its length.
    pub(super) fn print(&mut self, format: &[u8], arguments: &[u64]) -> i64 {
        let before = self.text.len();
        // A conversion writes at most 20 bytes, and takes two of the format.
        if before + format.len() * 10 + 1 > KEPT {
            self.lost += 1;
            return 0;
        }
        let mut arguments = arguments.iter().copied();
        let mut bytes = format.iter().copied().take_while(|byte| *byte != 0);
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                self.character(byte);
                continue;
            }
            let mut long = false;
            let conversion = loop {
                match bytes.next() {
                    Some(b'l') => long = true,
                    Some(b'0'..=b'9' | b'-' | b'+' | b'#' | b'.' | b' ') => {}
                    other => break other,
                }
            };
            let mut value = || arguments.next().unwrap_or(0);
            let written = match (conversion, long) {
                (Some(b'd' | b'i'), true) => write!(self.text, "{}", value().cast_signed()),
                (Some(b'd' | b'i'), false) => write!(self.text, "{}", value() as i32),
                (Some(b'u'), true) => write!(self.text, "{}", value()),
                (Some(b'u'), false) => write!(self.text, "{}", value() as u32),
                (Some(b'x' | b'X'), true) => write!(self.text, "{:x}", value()),
                (Some(b'x' | b'X'), false) => write!(self.text, "{:x}", value() as u32),
                (Some(b'p'), _) => write!(self.text, "{:016x}", value()),
                (Some(b's'), _) => {
                    value();
                    write!(self.text, "(string)")
                }
                (Some(b'c'), _) => {
                    let byte = value() as u8;
                    self.character(byte);
                    Ok(())
                }
                (Some(other), _) => {
                    self.character(other);
                    Ok(())
                }
                (None, _) => break,
            };
            // Writing into a string does not fail.
            let _ = written;
        }
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        (self.text.len() - before) as i64
    }

    fn character(&mut self, byte: u8) {
        let printable = byte == b'\n' || byte == b'\t' || (b' '..=b'~').contains(&byte);
        self.text.push(if printable { char::from(byte) } else { '?' });
    }

    /// Takes the output.
    pub(super) fn take(&mut self) -> String {
        let mut text = self.text.clone();
        self.text.clear();
        if self.lost > 0 {
            let _ = writeln!(text, "({} lines lost: nobody read them)", self.lost);
            self.lost = 0;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        let mut trace = Trace::new();
        let minus = (-1_i64).cast_unsigned();
        trace.print(b"a %d %lu %x%%\0rest", &[minus, 7, 255]);
        trace.print(b"no %", &[]);
        trace.print(b"%s \x01\n", &[]);
        assert_eq!(trace.take(), "a -1 7 ff%\nno \n(string) ?\n");
        for _ in 0..70_000 {
            trace.print(b"x", &[]);
        }
        let text = trace.take();
        assert!(text.len() <= KEPT + 64 && text.contains("lines lost"), "{}", text.len());
    }
}
