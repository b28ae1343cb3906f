//! Unique names in the form that Europa allows.

use std::collections::{BTreeMap, BTreeSet};

const LONGEST: usize = 32;
const LONGEST_INTERFACE: usize = 15;

/// Used names, and the original of each.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    of: BTreeMap<String, String>,
}

impl Names {
    /// The name for `old`; the result is always the same.
    pub(crate) fn of(&mut self, old: &str) -> String {
        if let Some(known) = self.of.get(old) {
            return known.clone();
        }
        let name = self.new_one(old);
        self.of.insert(old.to_owned(), name.clone());
        name
    }

    /// An unused name similar to `wanted`.
    pub(crate) fn new_one(&mut self, wanted: &str) -> String {
        let plain = plain(wanted);
        let mut name = plain.clone();
        for number in 2.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            let end = format!("-{number}");
            name = format!("{}{end}", cut(&plain, LONGEST - end.len()));
        }
        name
    }
}

/// Small letters, digits and dashes, a letter first.
fn plain(name: &str) -> String {
    let letters: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .collect();
    let letters = letters.trim_matches('-');
    let first = letters.starts_with(|c: char| c.is_ascii_lowercase());
    let name = if first { letters.to_owned() } else { format!("n{letters}") };
    cut(&name, LONGEST).trim_end_matches('-').to_owned()
}

fn cut(text: &str, most: usize) -> &str {
    text.get(..most).unwrap_or(text)
}

/// An interface's name as Linux and Europa allow it.
pub(crate) fn interface(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
        .collect();
    let first = plain.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = if first { plain } else { format!("e{plain}") };
    cut(&plain, LONGEST_INTERFACE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let mut names = Names::default();
        for (old, new) in [
            ("PC1", "pc1"),
            ("pc1", "pc1-2"),
            ("PC1", "pc1"),
            ("leaf_1.site", "leaf-1-site"),
            ("1st", "n1st"),
            ("__", "n"),
            (&"x".repeat(40), &"x".repeat(32)),
        ] {
            assert_eq!(names.of(old), new, "{old}");
        }
        for (old, new) in [
            ("eth1", "eth1"),
            ("e1-1", "e1-1"),
            ("1/1", "e1-1"),
            ("Ethernet1.100", "Ethernet1-100"),
        ] {
            assert_eq!(interface(old), new, "{old}");
        }
    }
}
