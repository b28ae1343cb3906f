//! Mistakes that only the machine can find, such as a missing device or an unreachable next hop of
//! a host. A fault names an object and a field; its place is looked up in the files.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::{Bundle, Key, key_of};
use crate::problem::{Problem, Problems};
use crate::source::Place;
use crate::tree::{self, Node, Value};

/// The reason why an object cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Whose fault it is.
    pub object: Key,
    /// The field, from the outermost inwards. If not all of it is written in the file, the written
    /// part counts.
    pub path: Vec<String>,
    /// The mistake.
    pub message: String,
    /// The label under the underlined text.
    pub label: String,
    /// A remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Fault {
    /// A fault in a field of an object.
    pub fn new(object: Key, path: &[&str], message: impl fmt::Display) -> Fault {
        Fault {
            object,
            path: path.iter().map(|&field| field.to_owned()).collect(),
            message: message.to_string(),
            label: "this machine says no".to_owned(),
            help: None,
        }
    }

    /// Sets the label under the underlined text.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Fault {
        self.label = label.into();
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }

    fn told(&self) -> String {
        format!("{}: {}", self.object, self.message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told())?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl Bundle {
    /// Adds the place in these texts to each fault. Faults without such a place are returned.
    pub fn locate<'f>(&self, faults: &'f [Fault]) -> (Problems, Vec<&'f Fault>) {
        let (mut found, mut elsewhere) = (Vec::new(), Vec::new());
        for fault in faults {
            match self.place(fault) {
                Some(place) => {
                    let mut problem = Problem::new(place, fault.told()).label(&*fault.label);
                    problem.help.clone_from(&fault.help);
                    found.push(problem);
                }
                None => elsewhere.push(fault),
            }
        }
        (Problems::new(found, &self.sources), elsewhere)
    }

    fn place(&self, fault: &Fault) -> Option<Place> {
        self.sources.iter().enumerate().find_map(|(index, source)| {
            let mut ranges = tree::documents(&source.text).into_iter();
            let document = ranges.find_map(|range| {
                let node = tree::parse(&source.text, range).ok()?;
                (key_of(&node).as_ref() == Some(&fault.object)).then_some(node)
            })?;
            let span = span(&document, &fault.path);
            let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let source = u32::try_from(index).ok()?;
            Some(Place { source, start: byte(span.start), end: byte(span.end) })
        })
    }
}

/// The place of a field; if the field is not written, that of its parent, or of the document's
/// name.
fn span(document: &Node, path: &[String]) -> std::ops::Range<usize> {
    let field = |node: &'_ Node, name: &str| -> Option<(Node, Node)> {
        let Value::Map(entries) = &node.value else { return None };
        let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == name);
        entries.iter().find(|(key, _)| is(key)).cloned()
    };
    let name = field(document, "name").map(|(_, value)| value.span);
    let mut span = name.unwrap_or_else(|| document.span.clone());
    let mut at = document.clone();
    for name in path {
        // An entry of a list is identified by its text, or by the field that names it.
        let entry = match &at.value {
            Value::List(items) => items.iter().find(|item| says(item, name)).cloned(),
            _ => None,
        };
        let Some((key, value)) = entry.map(|item| (item.clone(), item)).or(field(&at, name)) else {
            break;
        };
        // A mapping begins at its first key, so the mapping's own key is the better place.
        let whole = matches!(value.value, Value::Map(_) | Value::Null) && key != value;
        span = if whole { key.span } else { value.span.clone() };
        at = value;
    }
    span
}

fn says(item: &Node, text: &str) -> bool {
    match &item.value {
        Value::Text(own) => own == text,
        Value::Map(entries) => {
            entries.iter().any(|(_, value)| matches!(&value.value, Value::Text(own) if own == text))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    const TEXT: &str = "kind: port\nname: left\ndevice: eth9\n---\nkind: router\nname: r\nslice: red\n\
        interfaces:\n  in: {port: left, mtu: 9000, addresses: [10.0.0.1/24, 10.1.0.1/24]}\n\
        routes:\n- {to: 10.0.0.0/8, via: a}\n- {to: 11.0.0.0/8, via: b}\n";

    #[test]
    fn faults_have_places() {
        let bundle = Bundle::of(vec![Source { path: "x.yaml".into(), text: TEXT.into() }]);
        for (kind, name, path, underlined) in [
            ("port", "left", &["device"][..], Some("eth9")),
            ("port", "left", &["mtu"], Some("left")),
            ("port", "left", &[], Some("left")),
            ("router", "red/r", &["interfaces", "in"], Some("in")),
            ("router", "red/r", &["interfaces", "in", "mtu"], Some("9000")),
            ("router", "red/r", &["interfaces", "in", "match"], Some("in")),
            (
                "router",
                "red/r",
                &["interfaces", "in", "addresses", "10.1.0.1/24"],
                Some("10.1.0.1/24"),
            ),
            ("router", "red/r", &["routes", "11.0.0.0/8", "via"], Some("b")),
            ("router", "red/s", &[], None),
        ] {
            let fault = Fault::new(Key::new(kind, name), path, "wrong").help("mend it");
            let faults = [fault];
            let (problems, elsewhere) = bundle.locate(&faults);
            let places: Vec<_> = problems
                .iter()
                .map(|p| &TEXT[p.place.start as usize..p.place.end as usize])
                .collect();
            assert_eq!(places, underlined.into_iter().collect::<Vec<_>>(), "{path:?}");
            assert_eq!(elsewhere.len(), usize::from(underlined.is_none()));
            assert_eq!(faults[0].to_string(), format!("{kind} {name}: wrong; mend it"));
        }
    }
}
