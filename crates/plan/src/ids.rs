//! Names of objects; each kind has its own type.
//!
//! An id dereferences to the text that users write and read, and prints and compares like it. It is
//! cheap to clone.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

macro_rules! id {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id that this text names.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(text.as_ref().into())
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                *self.0 == **other
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, other: &$name) -> bool {
                **self == *other.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

id!(SliceId, "A slice, by its name.");
id!(PortId, "A port, by its name; a host's interface and a slow path make ports, too.");
id!(HostId, "A host, by its name.");
id!(LinkId, "A link, by its name.");

id!(RouterId, "A router: its slice and its name there. The text is `SLICE/NAME`.");

impl RouterId {
    /// The router of a document.
    pub fn of(document: &europa_api::Router) -> Self {
        Self::new(document.full_name())
    }

    /// The name of its slice.
    pub fn slice(&self) -> &str {
        self.names().0
    }

    /// Its name within the slice.
    pub fn name(&self) -> &str {
        self.names().1
    }

    fn names(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }
}

/// An interface: its router and its name there. The text is `SLICE/NAME.INTERFACE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId {
    /// The router that has it.
    pub router: RouterId,
    /// Its name within the router.
    pub name: Arc<str>,
}

impl InterfaceId {
    /// Interface `name` of a router.
    pub fn new(router: RouterId, name: &str) -> Self {
        Self { router, name: name.into() }
    }
}

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.router, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_has_two_names() {
        let id = RouterId::new("red/r1");
        assert_eq!((id.slice(), id.name(), &*id), ("red", "r1", "red/r1"));
        assert_eq!(InterfaceId::new(id, "left").to_string(), "red/r1.left");
    }
}
