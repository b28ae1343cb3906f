//! Interfaces of Europa's documents, as text.

use crate::link::Dummy;
use crate::names::interface;

/// An interface of a document.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    pub(crate) link: String,
    pub(crate) mac: Option<String>,
    pub(crate) mtu: Option<u32>,
    pub(crate) addresses: Vec<String>,
}

/// A text as YAML, in quotes (JSON is valid YAML).
pub(crate) fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// The field `interfaces` of a document.
pub(crate) fn written(own: &[(String, Interface)]) -> String {
    if own.is_empty() {
        return "interfaces: {}\n".to_owned();
    }
    let mut out = "interfaces:\n".to_owned();
    for (name, interface) in own {
        out += &format!("  {name}: {{link: {}", interface.link);
        if let Some(mac) = &interface.mac {
            out += &format!(", mac: {}", text(mac));
        }
        if let Some(mtu) = interface.mtu {
            out += &format!(", mtu: {mtu}");
        }
        if !interface.addresses.is_empty() {
            let all: Vec<String> = interface.addresses.iter().map(|a| text(a)).collect();
            out += &format!(", addresses: [{}]", all.join(", "));
        }
        out += "}\n";
    }
    out
}

/// The interface of a router without links: the first of type `dummy`, or an unused one. Europa's
/// routers need at least one interface.
pub(crate) fn alone(dummy: Option<&Dummy>, link: &str) -> (String, Interface) {
    let name = dummy.map_or("unused".to_owned(), |dummy| interface(&dummy.end.interface));
    let addresses = dummy.map(|dummy| dummy.end.addresses.clone()).unwrap_or_default();
    let (mac, mtu) = (dummy.and_then(|one| one.end.mac.clone()), dummy.and_then(|one| one.mtu));
    (name, Interface { link: link.to_owned(), mac, mtu, addresses })
}

/// The host at the far end of such an interface.
pub(crate) fn stub(name: &str, link: &str) -> String {
    format!(
        "---\n# The far end of a link that leads nowhere.\nkind: link\nname: {link}\naddresses: none\n\
         ---\nkind: host\nname: {name}\ninterfaces:\n  eth0: {{link: {link}}}\n"
    )
}
