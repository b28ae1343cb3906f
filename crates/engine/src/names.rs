//! Names of addresses and ports in configurations (`AddressInfo`, `PortInfo`, interfaces).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The meanings of one name, at most one of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv4 prefix: its address with all bits as written, and its length.
    pub ipv4_prefix: Option<(Ipv4Addr, u8)>,
    /// IPv4 address of the interface's gateway.
    pub gateway: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// IPv6 prefix: its address with all bits as written, and its length.
    pub ipv6_prefix: Option<(Ipv6Addr, u8)>,
    /// Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// UDP port.
    pub udp: Option<u16>,
    /// TCP port.
    pub tcp: Option<u16>,
}

/// All names of a router. A name that is declared inside a compound element is valid there and in
/// compounds inside it.
#[derive(Clone, Debug, Default)]
pub struct Names {
    named: HashMap<String, Named>,
    /// Texts by kind and name, in a form that only some elements know.
    texts: HashMap<(&'static str, String), String>,
    /// The scope of names: the path of the compound, with a slash at its end.
    scope: String,
}

impl Names {
    /// Sets the scope of the next look-ups: that of this element.
    pub fn enter(&mut self, element: &str) {
        let scope = element.rfind('/').and_then(|slash| element.get(..=slash));
        scope.unwrap_or_default().clone_into(&mut self.scope);
    }

    /// The entry of a name in this scope; makes it if it does not exist.
    pub fn entry(&mut self, name: &str) -> &mut Named {
        self.named.entry(format!("{}{name}", self.scope)).or_default()
    }

    /// The value of a name here: from the compound itself, or from one of those around it.
    pub fn get(&self, name: &str) -> Option<&Named> {
        let mut scope = self.scope.as_str();
        while let Some(inner) = scope.strip_suffix('/') {
            if let Some(named) = self.named.get(&format!("{scope}{name}")) {
                return Some(named);
            }
            scope = inner.rfind('/').and_then(|slash| inner.get(..=slash)).unwrap_or_default();
        }
        self.named.get(name)
    }

    /// Sets the text of a name of some kind.
    pub fn set_text(&mut self, kind: &'static str, name: &str, text: &str) {
        self.texts.insert((kind, name.to_owned()), text.to_owned());
    }

    /// The text of a name of some kind.
    pub fn text(&self, kind: &'static str, name: &str) -> Option<&str> {
        self.texts.get(&(kind, name.to_owned())).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_inwards() {
        let mut names = Names::default();
        names.entry("a").tcp = Some(1);
        names.enter("x/y/info");
        names.entry("a").tcp = Some(2);
        names.enter("x/info");
        names.entry("b").tcp = Some(3);
        for (element, name, port) in [
            ("e", "a", Some(1)),
            ("x/e", "a", Some(1)),
            ("x/y/e", "a", Some(2)),
            ("x/y/z/e", "a", Some(2)),
            ("x/y/e", "b", Some(3)),
            ("e", "b", None),
        ] {
            names.enter(element);
            assert_eq!(names.get(name).and_then(|named| named.tcp), port, "{element} {name}");
        }
    }
}
