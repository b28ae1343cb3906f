//! Kinds of objects, and names of objects in command lines.

use europa_client::escape;

use crate::exit::Failure;

/// Kinds of objects: plural, singular, and a short word.
pub(crate) const KINDS: [(&str, &str, &str); 8] = [
    ("ports", "port", "p"),
    ("slices", "slice", "s"),
    ("links", "link", "l"),
    ("hosts", "host", "h"),
    ("routers", "router", "r"),
    ("filters", "filters", "f"),
    ("flows", "flow", "w"),
    ("users", "user", "u"),
];

/// The plural of a kind, as paths of the REST interface contain it.
pub(crate) fn plural(kind: &str) -> Result<&'static str, Failure> {
    find(kind).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|(many, _, _)| *many).collect();
        Failure::usage(format!("there is no kind {kind:?}; the kinds are {}", known.join(", ")))
    })
}

/// The singular of a kind's plural.
pub(crate) fn singular(plural: &'static str) -> &'static str {
    KINDS.iter().find(|(many, ..)| *many == plural).map_or(plural, |(_, one, _)| one)
}

fn find(kind: &str) -> Option<&'static str> {
    let found = KINDS.iter().find(|(many, one, short)| [*many, *one, *short].contains(&kind));
    found.map(|(many, _, _)| *many)
}

/// One object: the plural of its kind, and its name, which is SLICE/NAME for a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

impl Reference {
    /// Reads `KIND/NAME`; `None` if the text does not begin with a kind and a slash.
    pub(crate) fn parse(text: &str) -> Option<Reference> {
        let (kind, name) = text.split_once('/')?;
        let kind = find(kind).filter(|_| !name.is_empty())?;
        Some(Reference { kind, name: name.to_owned() })
    }

    /// Reads `KIND NAME` or `KIND/NAME`.
    pub(crate) fn of(kind: &str, name: Option<&str>) -> Result<Reference, Failure> {
        match name {
            Some(name) => Ok(Reference { kind: plural(kind)?, name: name.to_owned() }),
            None => Reference::parse(kind).ok_or_else(|| {
                Failure::usage(format!("{kind:?} names no object: write KIND NAME or KIND/NAME"))
            }),
        }
    }

    /// The path of the object in the REST interface.
    pub(crate) fn path(&self) -> String {
        let name: Vec<String> = self.name.split('/').map(escape).collect();
        format!("/v1/{}/{}", self.kind, name.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (word, wanted) in [
            ("routers", Some("routers")),
            ("router", Some("routers")),
            ("p", Some("ports")),
            ("x", None),
        ] {
            assert_eq!(plural(word).ok(), wanted, "{word}");
        }
    }

    #[test]
    fn references() {
        for (kind, name, wanted) in [
            ("router", Some("red/r1"), Some("/v1/routers/red/r1")),
            ("router/red/r1", None, Some("/v1/routers/red/r1")),
            ("p/left", None, Some("/v1/ports/left")),
            ("port", Some("a b"), Some("/v1/ports/a%20b")),
            ("router", None, None),
            ("router/", None, None),
            ("x/left", None, None),
            ("x", Some("left"), None),
        ] {
            let found = Reference::of(kind, name).ok().map(|reference| reference.path());
            assert_eq!(found.as_deref(), wanted, "{kind} {name:?}");
        }
    }
}
