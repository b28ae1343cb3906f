//! # AddressInfo
//!
//! ## Synopsis
//! `AddressInfo(NAME ADDRESS [ADDRESS ...], ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Gives names to addresses. Wherever an element wants an address, the name can stand in its
//! place; an entry may have one address of each kind. `NAME:ip`, `NAME:ipnet`, `NAME:bcast`,
//! `NAME:ip6`, `NAME:ip6net` and `NAME:eth` say which is meant. Inside a compound element the
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
    Arguments, Class, ClassInfo, ConfigError, Element, Ipv4Prefix, Ipv6Prefix, Phase,
};

use crate::script::shift_word;

/// Gives names to addresses.
#[derive(Default)]
pub(crate) struct AddressInfo;

impl Class for AddressInfo {
    const INFO: ClassInfo = ClassInfo::new("AddressInfo", "0/0").phase(Phase::Info);
}

/// Notes one address under a name; whether it is one.
fn note(arguments: &mut Arguments<'_>, name: &str, word: &str) -> bool {
    let mut known = false;
    if let Ok(mac) = arguments.value::<[u8; 6]>(name, 0, word) {
        arguments.names().entry(name).mac = Some(mac);
        known = true;
    }
    if let Ok(address) = arguments.value::<Ipv4Addr>(name, 0, word) {
        arguments.names().entry(name).ipv4 = Some(address);
        known = true;
    }
    if let Ok(prefix) = arguments.value::<Ipv4Prefix>(name, 0, word)
        && (word.contains('/') || prefix.length < 32)
    {
        let entry = arguments.names().entry(name);
        entry.ipv4 = Some(prefix.address);
        entry.ipv4_prefix = Some(prefix.length);
        known = true;
    }
    if let Ok(address) = arguments.value::<Ipv6Addr>(name, 0, word) {
        arguments.names().entry(name).ipv6 = Some(address);
        known = true;
    }
    if let Ok(prefix) = arguments.value::<Ipv6Prefix>(name, 0, word)
        && word.contains('/')
    {
        let entry = arguments.names().entry(name);
        entry.ipv6 = Some(prefix.address);
        entry.ipv6_prefix = Some(prefix.length);
        known = true;
    }
    known
}

impl Element for AddressInfo {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        for (index, argument) in arguments.rest() {
            let mut rest = argument;
            let name = shift_word(&mut rest);
            if name.is_empty() {
                continue;
            }
            if rest.is_empty() {
                arguments.error(ConfigError::at(index, "expected 'NAME [ADDRS]'"));
            }
            while !rest.is_empty() {
                let word = shift_word(&mut rest);
                if !note(arguments, name, word) {
                    let message = format!("\"{name}\" '{word}' is not a recognized address");
                    arguments.error(ConfigError::at(index, message));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Bench::error("AddressInfo", &["a"]), "expected 'NAME [ADDRS]'");
        assert_eq!(
            Bench::error("AddressInfo", &["a 1.2.3.4 x"]),
            "\"a\" 'x' is not a recognized address"
        );
    }
}
