//! Decodes the tree into types: each value reports its mistake, and decoding continues.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::problem::Problem;
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::values::{InterfaceName, Mac, Name, Rate};

/// Descriptions of accepted values that any quoted word satisfies.
const TEXTS: [&str; 3] = ["a text", "a name", "an interface's name"];

/// The state of decoding.
#[derive(Debug)]
pub(crate) struct Context {
    /// Which file is decoded.
    pub(crate) source: u32,
    /// Problems so far.
    pub(crate) problems: Vec<Problem>,
}

impl Context {
    pub(crate) fn place(&self, node: &Node) -> Place {
        let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Place { source: self.source, start: byte(node.span.start), end: byte(node.span.end) }
    }

    pub(crate) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Reports that `node` has the wrong type.
    pub(crate) fn wrong_type(&mut self, node: &Node, wanted: &str) {
        let found = node.value.describe();
        let mut problem =
            Problem::new(self.place(node), format!("expected {wanted}, found {found}"))
                .label(format!("expected {wanted}"));
        if wanted.starts_with("a list") && matches!(node.value, Value::Map(_)) {
            problem = problem.help("each entry of a list begins with `- `");
        } else if wanted.starts_with("a list") && node.value != Value::Null {
            problem = problem.help("a list is written in brackets, even with one entry: [value]");
        } else if matches!(node.value, Value::List(_)) && !wanted.contains("mapping") {
            problem = problem.help("write one value, without brackets");
        } else if let (Value::Float(number), "a whole number") = (&node.value, wanted)
            && number.fract() == 0.0
        {
            problem = problem.help(format!("write {number}"));
        } else if TEXTS.contains(&wanted)
            && matches!(node.value, Value::Bool(_) | Value::Integer(_) | Value::Float(_))
        {
            problem = problem.help("a text that looks like a number or truth value needs quotes");
        }
        self.report(problem);
    }
}

/// A type that a YAML value can be turned into.
pub(crate) trait Decode: Sized {
    /// Decodes a node. `None` means that at least one problem was reported.
    fn decode(node: &Node, context: &mut Context) -> Option<Self>;
}

impl<T: Decode> Decode for At<T> {
    fn decode(node: &Node, context: &mut Context) -> Option<At<T>> {
        let place = context.place(node);
        T::decode(node, context).map(|value| At { value, place })
    }
}

/// Wrong entries are reported and left out.
impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, context: &mut Context) -> Option<Vec<T>> {
        let Value::List(items) = &node.value else {
            context.wrong_type(node, "a list");
            return None;
        };
        Some(items.iter().filter_map(|item| T::decode(item, context)).collect())
    }
}

impl Decode for bool {
    fn decode(node: &Node, context: &mut Context) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            _ => {
                context.wrong_type(node, "true or false");
                None
            }
        }
    }
}

impl Decode for String {
    fn decode(node: &Node, context: &mut Context) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => {
                context.wrong_type(node, "a text");
                None
            }
        }
    }
}

macro_rules! whole_number {
    ($type:ty) => {
        impl Decode for $type {
            fn decode(node: &Node, context: &mut Context) -> Option<$type> {
                let Value::Integer(value) = node.value else {
                    context.wrong_type(node, "a whole number");
                    return None;
                };
                let number = <$type>::try_from(value).ok();
                if number.is_none() {
                    let message = format!("{value} is out of range: 0 to {}", <$type>::MAX);
                    context
                        .report(Problem::new(context.place(node), message).label("out of range"));
                }
                number
            }
        }
    };
}
whole_number!(u16);
whole_number!(u32);
whole_number!(u64);

/// Decodes a value that is written as one text, by its `FromStr`.
pub(crate) fn from_text<T>(node: &Node, context: &mut Context, wanted: &str) -> Option<T>
where
    T: FromStr<Err = String>,
{
    let Value::Text(text) = &node.value else {
        context.wrong_type(node, wanted);
        // A bare number usually lacks its unit, which the parser's message names.
        if let Value::Integer(number) = node.value
            && let Err(message) = number.to_string().parse::<T>()
            && let Some(problem) = context.problems.last_mut()
        {
            problem.help.get_or_insert(message);
        }
        return None;
    };
    match text.parse() {
        Ok(value) => Some(value),
        Err(message) => {
            let message = format!("{text:?} is not {wanted}: {message}");
            context
                .report(Problem::new(context.place(node), message).label(format!("not {wanted}")));
            None
        }
    }
}

impl Decode for Name {
    fn decode(node: &Node, context: &mut Context) -> Option<Name> {
        from_text(node, context, "a name")
    }
}

impl Decode for InterfaceName {
    fn decode(node: &Node, context: &mut Context) -> Option<InterfaceName> {
        from_text(node, context, "an interface's name")
    }
}

impl Decode for Mac {
    fn decode(node: &Node, context: &mut Context) -> Option<Mac> {
        let mac: Mac = from_text(node, context, "an Ethernet address")?;
        if mac.is_multicast() {
            let message = format!("{mac} is a multicast address, it cannot be one station's own");
            let problem = Problem::new(context.place(node), message)
                .label("the lowest bit of the first byte is set")
                .help("a locally administered address begins with 02");
            context.report(problem);
            return None;
        }
        if mac == Mac([0; 6]) {
            let problem = Problem::new(context.place(node), "no station has the address of zeros");
            context.report(problem);
            return None;
        }
        Some(mac)
    }
}

impl Decode for Rate {
    fn decode(node: &Node, context: &mut Context) -> Option<Rate> {
        from_text(node, context, "a rate")
    }
}

impl Decode for IpAddr {
    fn decode(node: &Node, context: &mut Context) -> Option<IpAddr> {
        parse_with(node, context, "an IP address", |text| match text.parse::<IpNet>() {
            Ok(_) => "a prefix length has no place here".to_owned(),
            Err(_) => "one looks like 10.0.0.1 or \"fd00::1\"".to_owned(),
        })
    }
}

impl Decode for IpNet {
    fn decode(node: &Node, context: &mut Context) -> Option<IpNet> {
        parse_with(node, context, "an address with a prefix length", |text| {
            let Ok(address) = text.parse::<IpAddr>() else {
                return "one looks like 10.0.0.1/24 or \"fd00::1/64\"".to_owned();
            };
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("the prefix length is missing, for one address: {address}/{bits}")
        })
    }
}

fn parse_with<T: FromStr>(
    node: &Node,
    context: &mut Context,
    wanted: &str,
    hint: impl Fn(&str) -> String,
) -> Option<T> {
    let Value::Text(text) = &node.value else {
        context.wrong_type(node, wanted);
        return None;
    };
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => {
            let message = format!("{text:?} is not {wanted}");
            let problem = Problem::new(context.place(node), message);
            context.report(problem.label(format!("not {wanted}")).help(hint(text)));
            None
        }
    }
}

/// Decodes one word of a fixed list.
pub(crate) fn word<T: Copy>(
    node: &Node,
    context: &mut Context,
    what: &str,
    words: &[(&str, T)],
) -> Option<T> {
    let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>();
    let Value::Text(text) = &node.value else {
        context.wrong_type(node, &format!("one of {}", known().join(", ")));
        return None;
    };
    let found = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
    if found.is_none() {
        let problem = Problem::new(context.place(node), format!("{text:?} is not {what}"))
            .label(format!("expected one of {}", known().join(", ")));
        context.report(match nearest(text, known()) {
            Some(word) => problem.help(format!("did you mean {word:?}?")),
            None => problem,
        });
    }
    found
}

/// Names and their values, in the order of the file; `wanted` describes them.
pub(crate) fn entries<K: Decode, V: Decode>(
    node: &Node,
    context: &mut Context,
    wanted: &str,
) -> Option<Vec<(K, V)>> {
    let Value::Map(entries) = &node.value else {
        context.wrong_type(node, wanted);
        return None;
    };
    let decode = |(key, value): &(Node, Node)| {
        // Both are decoded first, so that mistakes in both are reported.
        let (key, value) = (K::decode(key, context), V::decode(value, context));
        Some((key?, value?))
    };
    Some(entries.iter().filter_map(decode).collect())
}

/// The fields of a mapping, taken one by one; `close` reports the remaining ones.
pub(crate) struct Fields<'n, 'c> {
    entries: &'n [(Node, Node)],
    known: Vec<&'static str>,
    what: &'static str,
    place: Place,
    /// Number of problems before this mapping was opened.
    before: usize,
    pub(crate) context: &'c mut Context,
}

impl<'n, 'c> Fields<'n, 'c> {
    /// Opens `node` as the fields of `what`, a text that begins with an article.
    pub(crate) fn open(
        node: &'n Node,
        what: &'static str,
        context: &'c mut Context,
    ) -> Option<Fields<'n, 'c>> {
        let place = context.place(node);
        let Value::Map(entries) = &node.value else {
            context.wrong_type(node, &format!("{what} (a mapping)"));
            return None;
        };
        let before = context.problems.len();
        Some(Fields { entries, known: Vec::new(), what, place, before, context })
    }

    /// Key and value of a field; `None` if it is missing.
    pub(crate) fn take(&mut self, field: &'static str) -> Option<(&'n Node, &'n Node)> {
        self.known.push(field);
        let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == field);
        self.entries.iter().find(|(key, _)| is(key)).map(|(key, value)| (key, value))
    }

    /// An optional field. If the field is written, it must have a value.
    pub(crate) fn optional<T: Decode>(&mut self, field: &'static str) -> Option<T> {
        let (key, value) = self.take(field)?;
        if value.value == Value::Null {
            let problem = Problem::new(self.context.place(key), format!("`{field}` has no value"))
                .label("a value is missing")
                .help("leave the field out or give it a value");
            self.context.report(problem);
            return None;
        }
        T::decode(value, self.context)
    }

    /// A list that may be left out.
    pub(crate) fn list<T: Decode>(&mut self, field: &'static str) -> Vec<T> {
        self.optional(field).unwrap_or_default()
    }

    /// A field that must be there.
    pub(crate) fn required<T: Decode>(&mut self, field: &'static str) -> Option<T> {
        if !self.has(field) {
            let problem = Problem::new(self.place, format!("{} needs `{field}`", self.what))
                .label(format!("`{field}` is missing"));
            self.context.report(problem);
        }
        self.optional(field)
    }

    /// Reports if more than one of these fields is written. If `none` contains a message, also
    /// reports if none is.
    pub(crate) fn one_of(&mut self, of: &[&'static str], message: &str, none: Option<&str>) {
        let mut written = Vec::new();
        for field in of {
            if let Some((key, _)) = self.take(field) {
                written.push(self.context.place(key));
            }
        }
        match (written.as_slice(), none) {
            ([], Some(label)) => {
                self.context.report(Problem::new(self.place, message).label(label));
            }
            ([first, second, ..], _) => {
                let problem = Problem::new(*second, message).label("a second");
                self.context.report(problem.also(*first, "the first"));
            }
            _ => {}
        }
    }

    /// Reports a route that has neither a next hop nor an interface.
    pub(crate) fn leads_somewhere(&mut self, message: &str) {
        if !self.has("via") && !self.has("interface") {
            self.context.report(Problem::new(self.place, message).label("leads nowhere"));
        }
    }

    /// Whether the field is written.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.entries.iter().any(|(key, _)| matches!(&key.value, Value::Text(text) if text == field))
    }

    /// The place of the mapping.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Reports fields that do not exist.
    pub(crate) fn close(self) {
        for (key, _) in self.entries {
            let Value::Text(field) = &key.value else {
                self.context.wrong_type(key, "the name of a field");
                continue;
            };
            if self.known.iter().any(|known| known == field) {
                continue;
            }
            let problem = Problem::new(
                self.context.place(key),
                format!("{} has no field {field:?}", self.what),
            )
            .label("unknown field");
            let near = nearest(field, self.known.iter().copied());
            if let Some(known) = near {
                // A missing field and a misspelt field count as one mistake.
                let mut index = 0;
                self.context.problems.retain(|problem| {
                    index += 1;
                    let own = index > self.before && problem.place == self.place;
                    !(own && problem.label != "unknown field" && problem.message.contains(known))
                });
            }
            self.context.report(match near {
                Some(known) => problem.help(format!("did you mean `{known}`?")),
                None => problem.help(format!("its fields are {}", self.known.join(", "))),
            });
        }
    }
}

/// The valid word that is most similar to a mistyped word; `None` if none is similar enough.
pub(crate) fn nearest<'w>(
    typed: &str,
    known: impl IntoIterator<Item = &'w str>,
) -> Option<&'w str> {
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(distance, word)| *distance <= word.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Number of letters to insert, delete, replace or swap to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![(0..=from.len()).collect::<Vec<usize>>()];
    for (i, b) in to.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, a) in from.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[i - 1] && from[j - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[to.len()][from.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        let fields = ["device", "namespace", "rate", "mtu"];
        for (typed, wanted) in [
            ("devise", Some("device")),
            ("rat", Some("rate")),
            ("mut", Some("mtu")),
            ("Rate", Some("rate")),
            ("namspace", Some("namespace")),
            ("colour", None),
        ] {
            assert_eq!(nearest(typed, fields), wanted, "{typed}");
        }
    }
}
