//! The kernel's neighbours on the router's interfaces, and which of them the fast path has.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::aliases::Aliases;
use crate::links::Links;
use crate::message::{NUD_STALE, Neighbour};

type Key = (u32, IpAddr);

#[derive(Debug, Default)]
struct Entry {
    mac: Option<[u8; 6]>,
    told: Option<[u8; 6]>,
    state: u16,
    dirty: bool,
}

/// All neighbours of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: HashMap<Key, Entry>,
    dirty: VecDeque<Key>,
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(octets).ok().map(|octets| Ipv6Addr::from(octets).into())
}

impl Neighbours {
    /// Handles the kernel's message; `gone` if it forgets the neighbour.
    pub(crate) fn hear(&mut self, neighbour: &Neighbour, gone: bool) {
        let Some(address) = address(&neighbour.address) else { return };
        if address.is_multicast() || address.is_unspecified() {
            return;
        }
        let mac = neighbour.mac.filter(|mac| !gone && mac[0] & 1 == 0 && *mac != [0; 6]);
        self.set((neighbour.device, address), mac, neighbour.state);
    }

    fn set(&mut self, key: Key, mac: Option<[u8; 6]>, state: u16) {
        let entry = self.entries.entry(key).or_default();
        entry.state = state;
        entry.mac = mac;
        if !entry.dirty && entry.mac != entry.told {
            entry.dirty = true;
            self.dirty.push_back(key);
        } else if entry.mac.is_none() && entry.told.is_none() && !entry.dirty {
            self.entries.remove(&key);
        }
    }

    /// The fast path has some address of a neighbour.
    pub(crate) fn learn(&mut self, device: u32, address: IpAddr) {
        let entry = self.entries.entry((device, address)).or_default();
        // No neighbour has it: it is sent again, or withdrawn.
        entry.told = Some([0; 6]);
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push_back((device, address));
        }
    }

    /// Replaces the known ones.
    pub(crate) fn replace_all(&mut self, all: &[Neighbour]) {
        let heard: HashSet<Key> =
            all.iter().filter_map(|n| Some((n.device, address(&n.address)?))).collect();
        let gone: Vec<Key> =
            self.entries.keys().filter(|key| !heard.contains(*key)).copied().collect();
        for key in gone {
            self.set(key, None, 0);
        }
        for neighbour in all {
            self.hear(neighbour, false);
        }
    }

    /// Whether an update is due.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// An IPv6 router has an IPv4 address now: its neighbours are sent under that one too.
    pub(crate) fn alias(&mut self, router: u128) {
        let address = IpAddr::V6(Ipv6Addr::from(router));
        let all = self.entries.iter_mut().filter(|(key, _)| key.1 == address);
        for (key, entry) in all {
            // No neighbour has this address, so the entry is sent again, or withdrawn.
            entry.told = Some([0; 6]);
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push_back(*key);
            }
        }
    }

    /// Adds up to `most` changes to the text of the interface and family that they concern.
    pub(crate) fn tell(
        &mut self,
        most: usize,
        links: &Links,
        aliases: &Aliases,
        to: &mut HashMap<(usize, bool), String>,
    ) -> usize {
        use std::fmt::Write as _;
        let mut count = 0;
        while count < most {
            let Some(key) = self.dirty.pop_front() else { break };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.dirty = false;
            let (mac, told) = (entry.mac, std::mem::replace(&mut entry.told, entry.mac));
            if mac.is_none() {
                self.entries.remove(&key);
            }
            let Some(output) = links.get(key.0).and_then(|link| link.output) else { continue };
            if mac == told {
                continue;
            }
            count += 1;
            let alias = match key.1 {
                IpAddr::V6(address) => aliases.find(address.into()).map(Ipv4Addr::from),
                IpAddr::V4(_) => None,
            };
            for address in [Some(key.1), alias.map(IpAddr::V4)].into_iter().flatten() {
                let text = to.entry((output, address.is_ipv4())).or_default();
                let _ = match mac {
                    None => writeln!(text, "remove {address}"),
                    Some([a, b, c, d, e, f]) => {
                        let mac = format_args!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                        writeln!(text, "set {address} {mac}")
                    }
                };
            }
        }
        count
    }

    /// Of the addresses to which the fast path has sent, those that the kernel should probe.
    pub(crate) fn to_probe(&self, device: u32, used: &str, aliases: &Aliases) -> Vec<IpAddr> {
        let parsed = used.split_whitespace().filter_map(|word| word.parse().ok());
        let parsed = parsed.map(|address: IpAddr| match address {
            IpAddr::V4(alias) => aliases
                .router(alias.into())
                .map_or(address, |router| IpAddr::V6(Ipv6Addr::from(router))),
            IpAddr::V6(_) => address,
        });
        let stale = |address: &IpAddr| {
            self.entries.get(&(device, *address)).is_some_and(|entry| entry.state == NUD_STALE)
        };
        parsed.filter(stale).collect()
    }
}
