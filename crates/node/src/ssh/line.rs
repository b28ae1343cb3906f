//! The words of a user: `[SLICE/]ROUTER [COMMAND...]`. A variable may have the router instead.

use std::str::FromStr;

use europa_api::Name;

/// The command for an sshd inside the router.
pub(super) const SSHD: &str = "@sshd";
/// Longest line.
const MOST_BYTES: usize = 64 << 10;
/// Number of characters of a wrong word that are shown.
const MOST_SHOWN: usize = 64;

/// The router of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `None`: any slice of the user, if only one has such a router.
    pub(crate) slice: Option<String>,
    pub(crate) router: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(slice) = &self.slice {
            write!(f, "{slice}/")?;
        }
        f.write_str(&self.router)
    }
}

/// A user's text for display: one line without control characters, of limited length.
pub(super) fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(most) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

impl FromStr for Target {
    type Err = String;

    fn from_str(word: &str) -> Result<Target, String> {
        let (slice, router) = match word.split_once('/') {
            Some((slice, router)) => (Some(slice), router),
            None => (None, word),
        };
        for name in slice.into_iter().chain([router]) {
            if let Err(why) = Name::from_str(name) {
                let word = shown(word, MOST_SHOWN);
                return Err(format!("`{word}` names no router, write SLICE/ROUTER: {why}"));
            }
        }
        Ok(Target { slice: slice.map(str::to_owned), router: router.to_owned() })
    }
}

/// Router and command of a login.
///
/// # Errors
/// No router is named.
pub(super) fn split(
    line: Option<&str>,
    router: Option<&str>,
) -> Result<(Target, Option<String>), String> {
    let line = line.unwrap_or_default();
    let router = router.unwrap_or_default();
    if line.len().max(router.len()) > MOST_BYTES {
        return Err(format!("the command has more than {MOST_BYTES} bytes"));
    }
    let (word, rest) = match router.is_empty() {
        false => (router, line),
        true => {
            let line = line.trim_ascii_start();
            line.split_at(line.find(|c: char| c.is_ascii_whitespace()).unwrap_or(line.len()))
        }
    };
    if word.is_empty() {
        return Err("no router is named: ssh europa@NODE SLICE/ROUTER [COMMAND]".to_owned());
    }
    let rest = rest.trim_ascii_start();
    Ok((word.parse()?, (!rest.is_empty()).then(|| rest.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_users() {
        // Line, variable, router and command, or a part of the refusal.
        type Case<'a> = (&'a str, &'a str, Result<(&'a str, Option<&'a str>), &'a str>);
        let cases: &[Case<'_>] = &[
            ("red/r1", "", Ok(("red/r1", None))),
            ("r1", "", Ok(("r1", None))),
            ("  red/r1  ", "", Ok(("red/r1", None))),
            ("red/r1 ip addr", "", Ok(("red/r1", Some("ip addr")))),
            ("red/r1\nip addr\nid", "", Ok(("red/r1", Some("ip addr\nid")))),
            ("red/r1\tid | cat; id", "", Ok(("red/r1", Some("id | cat; id")))),
            ("red/r1 'a  b' ", "", Ok(("red/r1", Some("'a  b' ")))),
            ("red/r1 @sshd", "", Ok(("red/r1", Some("@sshd")))),
            ("ip addr", "red/r1", Ok(("red/r1", Some("ip addr")))),
            ("", "red/r1", Ok(("red/r1", None))),
            ("blue/r2 id", "red/r1", Ok(("red/r1", Some("blue/r2 id")))),
            ("", "", Err("no router is named")),
            (" \n ", "", Err("no router is named")),
            ("-oProxyCommand=id id", "", Err("names no router")),
            ("red/-r1", "", Err("names no router")),
            ("../blue/r1", "", Err("names no router")),
            ("red/../blue", "", Err("names no router")),
            ("red/r1/x", "", Err("names no router")),
            ("red/", "", Err("names no router")),
            ("/r1", "", Err("names no router")),
            ("$(id)", "", Err("names no router")),
            ("red/r1;id", "", Err("names no router")),
            ("RED/R1", "", Err("names no router")),
            ("id", "red/r1\nblue/r2", Err("names no router")),
            ("id", "red/r1 ", Err("names no router")),
            ("scp -t .", "", Err("there is no")),
        ];
        for (line, router, wanted) in cases {
            let found = split(Some(line), Some(router));
            match (&found, wanted) {
                (Ok((target, command)), Ok((router, wanted))) => {
                    assert_eq!(
                        (&*target.to_string(), command.as_deref()),
                        (*router, *wanted),
                        "{line:?}"
                    );
                }
                // The word is a valid name, even without such a router.
                (Ok((target, _)), Err("there is no")) => assert_eq!(target.router, "scp"),
                (Err(why), Err(wanted)) => assert!(why.contains(wanted), "{line:?}: {why}"),
                _ => panic!("{line:?} {router:?}: {found:?}"),
            }
        }
        assert!(split(Some(&"x".repeat(MOST_BYTES + 1)), None).is_err());
        assert_eq!(shown("a\u{1b}[2J\nb", 3), "a\\u{1b}[…");
    }
}
