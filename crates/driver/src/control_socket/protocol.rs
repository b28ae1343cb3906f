//! Lines of the protocol: commands in, answers out.

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read {
        handler: String,
        parameter: String,
    },
    Write {
        handler: String,
        value: String,
    },
    Check {
        handler: String,
        write: bool,
    },
    Help,
    Quit {
        clean: bool,
    },
    /// An empty line.
    Nothing,
    /// A request that cannot be carried out: code and reason.
    Wrong(u16, String),
}

pub(super) const OK: u16 = 200;
pub(super) const SYNTAX: u16 = 500;
pub(super) const UNIMPLEMENTED: u16 = 501;
pub(super) const NO_ELEMENT: u16 = 510;
pub(super) const NO_HANDLER: u16 = 511;
pub(super) const HANDLER_ERROR: u16 = 520;
pub(super) const PERMISSION: u16 = 530;
pub(super) const UNSPECIFIED: u16 = 590;

/// Lines of the answer to `HELP`.
pub(super) const HELP: &[&str] = &[
    "Commands supported:",
    "READ handler [arg...]   call read handler, return DATA",
    "READDATA handler len    call read handler with len bytes of argument, return DATA",
    "READUNTIL handler term  call read handler, argument up to a line term, return DATA",
    "WRITE handler [arg...]  call write handler",
    "WRITEDATA handler len   call write handler with len bytes of value",
    "WRITEUNTIL handler term call write handler, value up to a line term",
    "CHECKREAD handler       whether the handler can be read",
    "CHECKWRITE handler      whether the handler can be written",
    "QUIT                    close the connection",
];

/// Parses one command at the front of a client's data. Returns the command and its length; `None`
/// if it is incomplete and the input is not `closed`.
pub(super) fn next(input: &[u8], closed: bool) -> Option<(Command, usize)> {
    let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let (line, start) = match end {
        Some(end) => {
            let pair = input.get(end..end + 2) == Some(b"\r\n");
            (input.get(..end)?, end + 1 + usize::from(pair))
        }
        None if closed && !input.is_empty() => (input, input.len()),
        None => return None,
    };
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some(name) = words.first().map(|word| word.to_ascii_uppercase()) else {
        return Some((Command::Nothing, start));
    };
    let wrong = |message: &str| Some((Command::Wrong(SYNTAX, message.to_owned()), start));
    let arguments = || after(&line, 2).to_owned();
    let handler = words.get(1).map(|word| (*word).to_owned());
    let writes = name.starts_with('W') || name.starts_with('S');
    let call = |handler: String, text: String| match writes {
        true => Command::Write { handler, value: text },
        false => Command::Read { handler, parameter: text },
    };
    match (name.as_str(), handler) {
        ("READ" | "GET" | "WRITE" | "SET", Some(handler)) => {
            Some((call(handler, arguments()), start))
        }
        ("READDATA" | "WRITEDATA" | "SETDATA", Some(handler)) if words.len() == 3 => {
            let length = words.get(2).and_then(|word| word.parse::<u32>().ok());
            let Some(length) = length else {
                return wrong(&format!("Syntax error in '{name}'"));
            };
            let end = start.checked_add(length as usize)?;
            match input.get(start..end) {
                Some(data) => {
                    Some((call(handler, String::from_utf8_lossy(data).into_owned()), end))
                }
                None if closed => wrong("Not enough data"),
                None => None,
            }
        }
        ("READUNTIL" | "WRITEUNTIL", Some(handler)) => {
            let found = until(input.get(start..)?, arguments().trim_end());
            match found {
                Some((data, length)) => Some((call(handler, data), start + length)),
                None if closed => wrong("Not enough data"),
                None => None,
            }
        }
        ("CHECKREAD" | "CHECKWRITE", Some(handler)) if words.len() == 2 => {
            Some((Command::Check { handler, write: name == "CHECKWRITE" }, start))
        }
        ("CLOSE" | "QUIT", _) => Some((Command::Quit { clean: words.len() == 1 }, start)),
        ("HELP", _) => Some((Command::Help, start)),
        (
            "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA" | "READUNTIL"
            | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE",
            _,
        ) => wrong("Wrong number of arguments"),
        _ => {
            let message = format!("Command '{name}' unimplemented");
            Some((Command::Wrong(UNIMPLEMENTED, message), start))
        }
    }
}

/// The text behind the first `count` words of a line.
fn after(line: &str, count: usize) -> &str {
    let mut rest = line;
    for _ in 0..count {
        rest = rest.trim_start();
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default();
    }
    rest.trim()
}

/// Text up to a line that equals `terminator`, and its length including that line.
fn until(input: &[u8], terminator: &str) -> Option<(String, usize)> {
    let mut start = 0;
    loop {
        let rest = input.get(start..)?;
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
        let pair = rest.get(end..end + 2) == Some(b"\r\n");
        let next = start + end + 1 + usize::from(pair);
        let line = rest.get(..end)?.trim_ascii_end();
        if line == terminator.as_bytes() {
            return Some((String::from_utf8_lossy(input.get(..start)?).into_owned(), next));
        }
        start = next;
    }
}

/// Answer lines with the same code; all but the last are marked as continued.
pub(super) fn answer(code: u16, lines: &[String], out: &mut Vec<u8>) {
    for (number, line) in lines.iter().enumerate() {
        let mark = if number + 1 < lines.len() { '-' } else { ' ' };
        let printable: String =
            line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        out.extend_from_slice(format!("{code}{mark}{printable}\r\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_are_taken_one_by_one() {
        let read = |handler: &str, parameter: &str| Command::Read {
            handler: handler.into(),
            parameter: parameter.into(),
        };
        let write = |handler: &str, value: &str| Command::Write {
            handler: handler.into(),
            value: value.into(),
        };
        let wrong = |code, message: &str| Command::Wrong(code, message.into());
        for (input, closed, expected) in [
            ("READ a.b", false, None),
            ("READ a.b", true, Some((read("a.b", ""), 8))),
            ("read a.b 1  2 \r\nX", false, Some((read("a.b", "1  2"), 16))),
            ("\n", false, Some((Command::Nothing, 1))),
            ("WRITEDATA a 3\nabcX", false, Some((write("a", "abc"), 17))),
            ("WRITEDATA a 3\nab", false, None),
            ("WRITEDATA a 3\nab", true, Some((wrong(SYNTAX, "Not enough data"), 14))),
            ("WRITEDATA a x\n", true, Some((wrong(SYNTAX, "Syntax error in 'WRITEDATA'"), 14))),
            ("READUNTIL a EOF\r\nx\r\nEOF \r\nY", false, Some((read("a", "x\r\n"), 26))),
            ("WRITEUNTIL a\nx\n\nY", false, Some((write("a", "x\n"), 16))),
            ("FLY\n", false, Some((wrong(UNIMPLEMENTED, "Command 'FLY' unimplemented"), 4))),
            ("READ\n", false, Some((wrong(SYNTAX, "Wrong number of arguments"), 5))),
            ("quit\n", false, Some((Command::Quit { clean: true }, 5))),
        ] {
            assert_eq!(next(input.as_bytes(), closed), expected, "{input}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_apart(
            input in "(READ|WRITE|READDATA|WRITEUNTIL|quit)?[ a-c0-9\r\n]{0,30}",
            closed: bool,
        ) {
            let mut rest = input.as_bytes();
            while let Some((_, length)) = next(rest, closed) {
                prop_assert!(length > 0);
                rest = &rest[length..];
            }
        }
    }
}
