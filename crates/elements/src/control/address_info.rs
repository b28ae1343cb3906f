//! # AddressInfo
//!
//! ## Synopsis
//! `AddressInfo(NAME ADDRESS [ADDRESS ...], ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Gives names to addresses. A name can stand wherever an element wants an address; an entry may
//! have one address of each kind. An address and a prefix are two kinds: after `10.0.0.1
//! 10.0.0.0/8` the address stays 10.0.0.1. `NAME:ip`, `NAME:ipnet`, `NAME:bcast`, `NAME:ip6`,
//! `NAME:ip6net` and `NAME:eth` select one kind. `NAME:gw` is the gateway of a Linux interface of
//! this name; otherwise it is the first address of the name's prefix. Inside a compound element the
//! names are known there and in the compounds inside it.
//!
//! ## Arguments
//! - NAME ADDRESS...: IP addresses, IP prefixes like `10.0.0.1/8`, IPv6 addresses and prefixes,
//!   Ethernet addresses, and names known before.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PortInfo`

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_engine::{
    Arguments, Class, ClassInfo, ConfigError, Element, Ipv4Prefix, Ipv6Prefix, Phase, arguments,
};

use crate::control::script::shift_word;

/// Gives names to addresses.
#[derive(Default)]
pub(crate) struct AddressInfo;

impl Class for AddressInfo {
    const INFO: ClassInfo =
        ClassInfo::new("AddressInfo", "0/0").phase(Phase::Info).inline().keeps_long();
}

/// The readings of one word.
#[derive(Default)]
struct Found {
    mac: Option<[u8; 6]>,
    ipv4: Option<Ipv4Addr>,
    ipv4_prefix: Option<(Ipv4Addr, u8)>,
    ipv6: Option<Ipv6Addr>,
    ipv6_prefix: Option<(Ipv6Addr, u8)>,
}

impl Found {
    /// Reads a word. A prefix with host bits set is an address, too.
    fn read(arguments: &Arguments<'_>, name: &str, word: &str) -> Found {
        let mut found = Found { mac: arguments.value(name, 0, word).ok(), ..Found::default() };
        found.ipv4 = arguments.value(name, 0, word).ok();
        if found.ipv4.is_none()
            && let Ok(prefix) = arguments.value::<Ipv4Prefix>(name, 0, word)
        {
            found.ipv4_prefix = Some((prefix.address, prefix.length));
            let beyond = u32::from(prefix.address) != prefix.network();
            found.ipv4 = beyond.then_some(prefix.address);
        }
        found.ipv6 = arguments.value(name, 0, word).ok();
        if found.ipv6.is_none()
            && let Ok(prefix) = arguments.value::<Ipv6Prefix>(name, 0, word)
        {
            found.ipv6_prefix = Some((prefix.address, prefix.length));
            let rest = u128::MAX.checked_shr(u32::from(prefix.length)).unwrap_or(0);
            found.ipv6 = (u128::from(prefix.address) & rest != 0).then_some(prefix.address);
        }
        found
    }

    /// Number of kinds of address that the word may be.
    fn kinds(&self) -> usize {
        let ipv4 = usize::from(self.ipv4.is_some()) + usize::from(self.ipv4_prefix.is_some());
        let ipv6 = usize::from(self.ipv6.is_some()) + usize::from(self.ipv6_prefix.is_some());
        usize::from(self.mac.is_some()) + ipv4 + ipv6
    }
}

/// Takes over an address unless the name already has one of this kind and the word may be another
/// kind.
fn note<T>(place: &mut Option<T>, given: &mut bool, found: Option<T>, sure: bool) {
    if let Some(found) = found
        && (sure || !*given)
    {
        *place = Some(found);
        *given = true;
    }
}

impl Element for AddressInfo {
    arguments! { this, given;
        let texts = rest "NAME": "'NAME ADDRESS [ADDRESS ...]'";
        then {
            for (index, argument) in texts {
                let mut rest = argument;
                let name = shift_word(&mut rest);
                if name.is_empty() {
                    continue;
                }
                if rest.is_empty() {
                    given.error(ConfigError::at(index, "expected 'NAME [ADDRS]'"));
                }
                // By kind: whether an earlier word of this argument has given one.
                let mut known = [false; 5];
                while !rest.is_empty() {
                    let word = shift_word(&mut rest);
                    let found = Found::read(given, name, word);
                    let sure = found.kinds() == 1;
                    if found.kinds() == 0 {
                        let message = format!("\"{name}\" '{word}' is not a recognized address");
                        given.error(ConfigError::at(index, message));
                        continue;
                    }
                    let entry = given.names().entry(name);
                    let [mac, ipv4, ipv4_prefix, ipv6, ipv6_prefix] = &mut known;
                    note(&mut entry.mac, mac, found.mac, sure);
                    note(&mut entry.ipv4, ipv4, found.ipv4, sure);
                    note(&mut entry.ipv4_prefix, ipv4_prefix, found.ipv4_prefix, sure);
                    note(&mut entry.ipv6, ipv6, found.ipv6, sure);
                    note(&mut entry.ipv6_prefix, ipv6_prefix, found.ipv6_prefix, sure);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// The destination that a packet gets from a name.
    fn address(info: &str, text: &str) -> Option<String> {
        let graph = {
            let mut graph = europa_engine::Graph::default();
            graph.add("info", "AddressInfo", &[info]);
            graph.add("set", "SetIPAddress", &[text]);
            graph.resolved(&Bench::registry())
        };
        let arena = europa_engine::Arena::heap(16, 2048);
        let (registry, none) = (Bench::registry(), europa_engine::NoDevices);
        let mut router = europa_engine::Router::build(&graph, &registry, &arena, &none, 0).ok()?;
        router.read("set.addr", "").ok()
    }

    #[test]
    fn an_address_stays_beside_a_prefix() {
        for (info, text, expected) in [
            ("a 10.0.0.1 10.0.0.0/8 0:1:2:3:4:5", "a", Some("10.0.0.1")),
            ("a 10.0.0.0/8 10.0.0.1", "a", Some("10.0.0.1")),
            ("a 10.0.0.1 10.0.0.2/8", "a", Some("10.0.0.1")),
            ("a 10.0.0.2/8", "a", Some("10.0.0.2")),
            ("a 10.0.0.1 10.0.0.2", "a", Some("10.0.0.2")),
            ("a 10.0.0.0/8", "a", None),
            ("a 10.0.0.1 10.0.0.0/8", "a:bcast", Some("10.255.255.255")),
            ("a 10.0.0.9 10.0.0.0/8", "a:gw", Some("10.0.0.1")),
        ] {
            assert_eq!(address(info, text).as_deref(), expected, "{info}: {text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Bench::error("AddressInfo", &["a"]), "expected 'NAME [ADDRS]'");
        assert_eq!(
            Bench::error("AddressInfo", &["a 1.2.3.4 x"]),
            "\"a\" 'x' is not a recognized address"
        );
    }
}
