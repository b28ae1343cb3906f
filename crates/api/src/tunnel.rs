//! `tunnel` of a link: its other end is on another machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, from_text};
use crate::source::At;
use crate::tree::{Node, Value};

/// A link's tunnel to another machine: Geneve (RFC 8926) over UDP. One interface of this node is on
/// the link. A node at `remote` has the other interface. That node has the same document, with the
/// two addresses and the two keys exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LinkTunnel {
    /// This node's address.
    pub local: At<IpAddr>,
    /// The other node's address, of the same family.
    pub remote: At<IpAddr>,
    /// The UDP port of both nodes. Default: 6081.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<At<u16>>,
    /// The link's number, 24 bits, the same at both nodes.
    #[schemars(range(max = 0xff_ffff))]
    pub id: At<u32>,
    /// Packets of an older epoch than this are dropped. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<At<u64>>,
    /// The key in packets that this node sends: 16 hexadecimal digits in quotes.
    pub send_key: At<TunnelKey>,
    /// The key in packets that this node accepts.
    pub receive_key: At<TunnelKey>,
}

impl LinkTunnel {
    /// The UDP port for Geneve (RFC 8926 section 3.3).
    pub const DEFAULT_PORT: u16 = 6081;

    /// The UDP port of both nodes.
    pub fn port(&self) -> u16 {
        self.port.map_or(Self::DEFAULT_PORT, |port| port.value)
    }

    /// The epoch; default 0.
    pub fn epoch(&self) -> u64 {
        self.epoch.map_or(0, |epoch| epoch.value)
    }
}

/// A key for one direction of a tunnel: 64 bits, written as 16 hexadecimal digits. `Debug` output
/// hides it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(inline)]
pub struct TunnelKey(
    #[schemars(with = "String", regex(pattern = "^[0-9A-Fa-f]{16}$"))]
    /// The bits.
    pub u64,
);

impl FromStr for TunnelKey {
    type Err = String;

    fn from_str(text: &str) -> Result<TunnelKey, String> {
        let is_hexadecimal = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u64::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal);
        bits.map(TunnelKey).ok_or_else(|| "a key is 16 hexadecimal digits".to_owned())
    }
}

impl fmt::Display for TunnelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TunnelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TunnelKey(..)")
    }
}

impl Serialize for TunnelKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Decode for TunnelKey {
    fn decode(node: &Node, context: &mut Context) -> Option<TunnelKey> {
        let key = from_text(node, context, "a key");
        // Digits without quotes are a number, and may have lost zeros.
        if let (Value::Integer(_) | Value::Float(_), Some(problem)) =
            (&node.value, context.problems.last_mut())
        {
            problem.help = Some("write its 16 hexadecimal digits in quotes".to_owned());
        }
        key
    }
}

impl Decode for LinkTunnel {
    fn decode(node: &Node, context: &mut Context) -> Option<LinkTunnel> {
        let mut fields = Fields::open(node, "a tunnel", context)?;
        let (local, remote) = (fields.required("local"), fields.required("remote"));
        let (port, id) = (fields.optional("port"), fields.required("id"));
        let epoch = fields.optional("epoch");
        let (send_key, receive_key) = (fields.required("send_key"), fields.required("receive_key"));
        fields.close();
        Some(LinkTunnel {
            local: local?,
            remote: remote?,
            port,
            id: id?,
            epoch,
            send_key: send_key?,
            receive_key: receive_key?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for (text, bits) in [
            ("0123456789abcdef", Some(0x0123_4567_89ab_cdef)),
            ("FEDCBA9876543210", Some(0xfedc_ba98_7654_3210)),
            ("0000000000000001", Some(1)),
            ("123456789abcdef", None),
            ("00123456789abcdef", None),
            ("+123456789abcdef", None),
            ("0x23456789abcdef", None),
            ("ä23456789abcdef", None),
            ("", None),
        ] {
            let key = text.parse::<TunnelKey>().ok();
            assert_eq!(key.map(|key| key.0), bits, "{text}");
            if let Some(key) = key {
                assert_eq!(key.to_string(), text.to_lowercase());
                assert!(!format!("{key:?}").contains(&text[..4]), "a key in a log");
            }
        }
    }
}
