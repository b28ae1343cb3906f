//! Base chains of nftables: whether forwarded packets pass one.
//!
//! The kernel announces each committed change as a new generation, without its contents: then all
//! chains are listed. Numbers are from `linux/netfilter/nf_tables.h`.

use std::io;
use std::os::fd::OwnedFd;

use europa_port::Namespace;
use europa_port::netlink::{self, DUMP, Netlink, Request, attribute};
use nix::sys::socket::SockProtocol;

const SUBSYSTEM: u16 = 10 << 8;
const GETCHAIN: u16 = SUBSYSTEM | 4;
/// The multicast group of nftables.
const GROUP: u32 = 1 << (7 - 1);

const CHAIN_HOOK: u16 = 4;
const HOOK_NUMBER: u16 = 1;

const INET: u8 = 1;
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;

const INGRESS: &str = "nftables has an ingress hook";

/// Reasons of one family: hooks that forwarded packets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hooks {
    pub(crate) v4: Option<&'static str>,
    pub(crate) v6: Option<&'static str>,
    /// A chain gets frames as a device receives them, even those to other stations.
    pub(crate) sees_foreign: bool,
}

/// A hook that forwarded packets pass.
fn reason(family: u8, hook: u32) -> Option<&'static str> {
    match (family, hook) {
        (INET | IPV4 | IPV6, 0) => Some("nftables has a prerouting hook"),
        (INET | IPV4 | IPV6, 2) => Some("nftables has a forward hook"),
        (INET | IPV4 | IPV6, 4) => Some("nftables has a postrouting hook"),
        (INET, 5) | (NETDEV, 0) => Some(INGRESS),
        (NETDEV, 1) => Some("nftables has an egress hook"),
        _ => None,
    }
}

/// A socket that receives each generation.
pub(crate) fn subscribe(namespace: &Namespace) -> io::Result<OwnedFd> {
    super::subscribe(namespace, SockProtocol::NetlinkNetFilter, GROUP)
}

/// Lists the chains.
pub(crate) fn read(lists: &mut Netlink) -> io::Result<Hooks> {
    let mut hooks = Hooks::default();
    let each = |_: u16, message: &[u8]| {
        let Some((family, reason)) = chain(message) else { return };
        hooks.sees_foreign |= reason == INGRESS;
        if family != IPV6 {
            hooks.v4.get_or_insert(reason);
        }
        if family != IPV4 {
            hooks.v6.get_or_insert(reason);
        }
    };
    lists.talk(&mut Request::new(GETCHAIN, DUMP, &[0; 4]), each)?;
    Ok(hooks)
}

/// Family and reason of a base chain that forwarded packets pass.
fn chain(message: &[u8]) -> Option<(u8, &'static str)> {
    let family = *message.first()?;
    let hook = attribute(message, 4, CHAIN_HOOK)?;
    let number = attribute(hook, 0, HOOK_NUMBER)?;
    // In network order, unlike other values of netlink.
    let number = netlink::number(number, 0).map(u32::from_be)?;
    Some((family, reason(family, number)?))
}
