//! Properties of element classes that the checker needs; the caller provides them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::text::Argument;

/// Ports of an element, in Click's code strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Numbers of inputs and outputs: `1/1`, `1/1-2`, `-/=`, `1-/=+`, `0`.
    pub ports: Cow<'static, str>,
    /// Push (`h`), pull (`l`) or agnostic (`a`): one letter for each port, and the last one applies
    /// to all further ports: `h/l`, `a/ah`, `l/h`.
    pub processing: Cow<'static, str>,
    /// Which inputs reach which outputs: `x/x`, `x/y`, `xy/x`, `#/#`, `#/[^#]`.
    pub flow: Cow<'static, str>,
}

impl Shape {
    /// A shape of constant codes.
    pub const fn new(ports: &'static str, processing: &'static str, flow: &'static str) -> Shape {
        Shape {
            ports: Cow::Borrowed(ports),
            processing: Cow::Borrowed(processing),
            flow: Cow::Borrowed(flow),
        }
    }
}

/// The element classes that a configuration may use.
pub trait ElementClasses {
    /// Whether there is such a class.
    fn contains(&self, class: &str) -> bool;

    /// The ports of an element of `class` with these arguments; `None` if the class is unknown. The
    /// arguments need not be valid: the element's own configuration step reports mistakes later.
    fn shape(&self, class: &str, arguments: &[Argument]) -> Option<Shape>;

    /// Every class name, to suggest one for a misspelt name.
    fn names(&self) -> Vec<&str>;
}

/// A set of classes with constant shapes.
#[derive(Clone, Debug, Default)]
pub struct ClassTable(BTreeMap<String, Shape>);

impl ClassTable {
    /// No classes.
    pub fn new() -> ClassTable {
        ClassTable::default()
    }

    /// Adds a class.
    pub fn insert(&mut self, name: &str, shape: Shape) -> &mut ClassTable {
        self.0.insert(name.to_owned(), shape);
        self
    }
}

impl ElementClasses for ClassTable {
    fn contains(&self, class: &str) -> bool {
        self.0.contains_key(class)
    }

    fn shape(&self, class: &str, _: &[Argument]) -> Option<Shape> {
        self.0.get(class).cloned()
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// Shorter parts occur in too many names.
const LEAST_PART: usize = 4;

/// The candidate most similar to `word`, if any is similar.
pub(crate) fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name of this length is no typing error, and the cost of a distance grows with its square.
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    let names: Vec<&str> = names.into_iter().filter(|name| *name != word).collect();
    let near = names
        .iter()
        .map(|name| (distance(word, name), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    // `IPLookup` suggests `RadixIPLookup`: one name is a part of the other.
    near.or_else(|| {
        let word = word.to_ascii_lowercase();
        let part = |name: &&&str| {
            let name = name.to_ascii_lowercase();
            let shorter = name.len().min(word.len());
            shorter >= LEAST_PART && (name.contains(&word) || word.contains(&name))
        };
        names.iter().filter(part).min_by_key(|name| name.len().abs_diff(word.len())).copied()
    })
}

/// Levenshtein distance, without regard to letter case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let from = from.to_ascii_lowercase();
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(cell) = row.first_mut() {
            *cell = left;
        }
        for (cell, &to) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(from != to)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints() {
        let names = ["Queue", "Counter", "EtherEncap", "IPFilter", "Print"];
        let table = [
            ("queue", Some("Queue")),
            ("Quueue", Some("Queue")),
            ("EthernetEncap", Some("EtherEncap")),
            ("Discard", None),
            ("Prnt", Some("Print")),
        ];
        for (word, meant) in table {
            assert_eq!(closest(word, names), meant, "{word}");
        }
    }
}
