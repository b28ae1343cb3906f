//! Configurations as files: archives and stray bytes.

use std::borrow::Cow;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// The configuration text of a file: the file itself, or the member `config` if it is an `ar`
/// archive. Bytes that are not UTF-8 (comments in old encodings) become replacement characters.
/// `None` for an archive that is truncated or has no configuration.
pub fn configuration_text(file: &[u8]) -> Option<Cow<'_, str>> {
    let Some(mut rest) = file.strip_prefix(MAGIC) else {
        return Some(String::from_utf8_lossy(file));
    };
    loop {
        let (header, body) = rest.split_at_checked(HEADER)?;
        let field = |from: usize, to: usize| Some(header.get(from..to)?.trim_ascii_end());
        let size: usize = std::str::from_utf8(field(48, 58)?).ok()?.parse().ok()?;
        let data = body.get(..size)?;
        let mut name = field(0, 16)?;
        let mut data = data;
        // BSD puts long names before the data; System V ends names with a slash.
        if let Some(length) = name.strip_prefix(b"#1/") {
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let (long, after) = data.split_at_checked(length)?;
            name = long.split(|&b| b == 0).next()?;
            data = after;
        }
        if name.strip_suffix(b"/").unwrap_or(name) == b"config" {
            return Some(String::from_utf8_lossy(data));
        }
        // Members start at even offsets.
        rest = body.get(size + size % 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, data: &str) -> String {
        let pad = if data.len() % 2 == 1 { "\n" } else { "" };
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{data}{pad}", 0, 0, 0, 644, data.len())
    }

    #[test]
    fn archives() {
        let table = [
            ("Idle".to_owned(), Some("Idle")),
            (
                format!("!<arch>\n{}{}", member("x.uo/", "abc"), member("config/", "Idle;")),
                Some("Idle;"),
            ),
            (format!("!<arch>\n{}", member("#1/8", "config\0\0Idle")), Some("Idle")),
            (format!("!<arch>\n{}", member("other", "abcd")), None),
            ("!<arch>\n".to_owned(), None),
            ("!<arch>\nconfig".to_owned(), None),
            (format!("!<arch>\n{}", &member("config", "Idle")[..62]), None),
        ];
        for (file, want) in table {
            assert_eq!(configuration_text(file.as_bytes()).as_deref(), want, "{file}");
        }
        assert_eq!(configuration_text(b"// \xe4\nIdle").as_deref(), Some("// \u{fffd}\nIdle"));
    }
}
