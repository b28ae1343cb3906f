//! Options of the commands, which may precede and follow other words.

use crate::exit::Failure;

/// The options of a command: long name, short letter if any, and whether a value follows.
pub(super) type Known = &'static [(&'static str, Option<char>, bool)];

/// The options and words of a command line.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    options: Vec<(&'static str, String)>,
    /// The words that are no options.
    pub(super) words: Vec<String>,
}

impl Arguments {
    /// Reads the words of a command. With `first_word_ends`, the first word that is no option
    /// begins a command to run.
    pub(super) fn read(
        command: &str,
        known: Known,
        words: &[String],
        first_word_ends: bool,
    ) -> Result<Arguments, Failure> {
        let mut all = Arguments::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let unknown = |option: &str| {
                Failure::usage(format!(
                    "{command}: Europa's stand-in has no option {option}; docs/netlab.md lists \
                     those that it has"
                ))
            };
            let mut value = |name: &str, given: Option<&str>| match given {
                Some(given) => Ok(given.to_owned()),
                None => rest
                    .next()
                    .cloned()
                    .ok_or_else(|| Failure::usage(format!("{command}: --{name} needs a value"))),
            };
            if word == "--" {
                all.words.extend(rest.cloned());
                break;
            } else if let Some(long) = word.strip_prefix("--") {
                let (long, given) = match long.split_once('=') {
                    Some((long, given)) => (long, Some(given)),
                    None => (long, None),
                };
                let found = known.iter().find(|(name, _, _)| *name == long);
                let (name, _, valued) = found.ok_or_else(|| unknown(word))?;
                let value =
                    if *valued { value(name, given)? } else { given.unwrap_or("true").to_owned() };
                all.options.push((*name, value));
            } else if word.len() > 1 && word.starts_with('-') {
                let letters = word[1..].char_indices();
                for (at, letter) in letters {
                    let found = known.iter().find(|(_, one, _)| *one == Some(letter));
                    let (name, _, valued) = found.ok_or_else(|| unknown(&format!("-{letter}")))?;
                    if *valued {
                        let after = &word[1 + at + letter.len_utf8()..];
                        let after = after.strip_prefix('=').unwrap_or(after);
                        let given = value(name, (!after.is_empty()).then_some(after))?;
                        all.options.push((*name, given));
                        break;
                    }
                    all.options.push((*name, "true".to_owned()));
                }
            } else if first_word_ends {
                all.words.push(word.clone());
                all.words.extend(rest.cloned());
                break;
            } else {
                all.words.push(word.clone());
            }
        }
        Ok(all)
    }

    /// Whether an option is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.one(name).is_some_and(|value| value != "false")
    }

    /// The last value of an option.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// All values of an option.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options.iter().filter(move |(one, _)| *one == name).map(|(_, value)| value.as_str())
    }
}

/// The words of a command line, with quotes and backslashes as in a shell.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known =
        &[("interactive", Some('i'), false), ("tty", Some('t'), false), ("user", Some('u'), true)];

    fn read(words: &[&str], first: bool) -> Result<Arguments, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Arguments::read("docker exec", KNOWN, &words, first)
    }

    #[test]
    fn options_and_words() {
        let all = read(&["-it", "-uroot", "--user=me", "box", "ls", "-i"], true).unwrap();
        assert!(all.has("interactive") && all.has("tty"));
        assert_eq!(all.all("user").collect::<Vec<_>>(), ["root", "me"]);
        assert_eq!(all.words, ["box", "ls", "-i"], "a command's own options");
        let all = read(&["box", "-u", "x", "--", "-i"], false).unwrap();
        assert_eq!((all.one("user"), all.has("interactive")), (Some("x"), false));
        assert_eq!(all.words, ["box", "-i"]);
        for wrong in [&["--pid", "1"][..], &["-x"], &["-iu"]] {
            assert!(read(wrong, true).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lines() {
        for (line, wanted) in [
            ("ip a  show", &["ip", "a", "show"][..]),
            ("vtysh -c 'show ip route'", &["vtysh", "-c", "show ip route"]),
            (r#"sh -c "echo \"a b\" 'c'""#, &["sh", "-c", "echo \"a b\" 'c'"]),
            (r"a\ b ''", &["a b", ""]),
            ("", &[]),
        ] {
            assert_eq!(split(line), wanted, "{line}");
        }
    }
}
