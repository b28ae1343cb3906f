//! Names that stand for addresses in configurations (`AddressInfo`, interfaces).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What one name stands for; a name may stand for one of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Length of the IPv4 prefix.
    pub ipv4_prefix: Option<u8>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// Length of the IPv6 prefix.
    pub ipv6_prefix: Option<u8>,
    /// Ethernet address.
    pub mac: Option<[u8; 6]>,
}

/// All names of a router.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, Named>);

impl Names {
    /// The entry of a name, made if it is not there.
    pub fn entry(&mut self, name: &str) -> &mut Named {
        self.0.entry(name.to_owned()).or_default()
    }

    /// What a name stands for. Names of elements inside compounds are found from the inside
    /// outwards elsewhere; here they are whole.
    pub fn get(&self, name: &str) -> Option<&Named> {
        self.0.get(name)
    }
}
