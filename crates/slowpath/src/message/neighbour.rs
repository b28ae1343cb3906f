//! Neighbours.

use europa_port::netlink::{attributes, number};

use super::address::{INET, INET6};

pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
pub(crate) const NTF_USE: u8 = 1;
const NTF_PROXY: u8 = 8;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
pub(crate) const NUD_STALE: u16 = 4;
/// Reachable, stale, delay, probe, no ARP, permanent: there is an address for sending.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | NUD_PERMANENT;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) device: u32,
    /// In network order, 4 or 16 bytes.
    pub(crate) address: Vec<u8>,
    pub(crate) state: u16,
    /// Its Ethernet address, if it has one that can be used.
    pub(crate) mac: Option<[u8; 6]>,
}

impl Neighbour {
    pub(crate) fn parse(message: &[u8]) -> Option<Neighbour> {
        let head = message.first_chunk::<12>()?;
        let state = u16::from_ne_bytes([head[8], head[9]]);
        if head[10] & NTF_PROXY != 0 || !matches!(head[0], INET | INET6) {
            return None;
        }
        let (mut address, mut mac) = (None, None);
        for (kind, value) in attributes(message, 12) {
            match kind {
                NDA_DST => address = Some(value.to_vec()),
                NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
        }
        let mac = mac.filter(|_| state & NUD_VALID != 0);
        Some(Neighbour { device: number(message, 4)?, address: address?, state, mac })
    }
}
