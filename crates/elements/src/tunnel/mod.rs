//! Tunnels: GRE, VXLAN, MPLS.

pub(crate) mod dec_mpls_ttl;
pub(crate) mod gre_decap;
pub(crate) mod gre_encap;
pub(crate) mod mpls_decap;
pub(crate) mod mpls_encap;
pub(crate) mod set_mpls_label;
pub(crate) mod vxlan_decap;
pub(crate) mod vxlan_encap;

use europa_engine::ConfigError;

/// Bits of a GRE header (RFC 2784, RFC 2890).
mod gre {
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    /// Source routes, other versions, and fields of PPTP only.
    pub(super) const UNKNOWN: u16 = 0x4fff;
}

/// A number of `bits` bits from the arguments.
fn bounded(name: &str, value: u32, bits: u32) -> Result<u32, ConfigError> {
    let most = (1 << bits) - 1;
    match value <= most {
        true => Ok(value),
        false => Err(ConfigError::other(format!("{name}: expected 0 to {most}, found '{value}'"))),
    }
}

/// An entry of a label stack (RFC 3032).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const BOTTOM: u32 = 0x100;

    fn new(label: u32, class: u32, bottom: bool, ttl: u8) -> Entry {
        Entry(label << 12 | class << 9 | u32::from(bottom) << 8 | u32::from(ttl))
    }

    /// The topmost entry.
    fn of(data: &[u8]) -> Option<Entry> {
        data.first_chunk().map(|bytes| Entry(u32::from_be_bytes(*bytes)))
    }

    fn is_last(self) -> bool {
        self.0 & Entry::BOTTOM != 0
    }

    fn ttl(self) -> u8 {
        self.0 as u8
    }

    fn with_label(self, label: u32) -> Entry {
        Entry(self.0 & 0xfff | label << 12)
    }

    fn bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}
