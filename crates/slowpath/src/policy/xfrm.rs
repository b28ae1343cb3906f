//! Policies of IPsec: whether one concerns forwarded packets.
//!
//! Numbers are from `linux/xfrm.h`.

use std::io;
use std::os::fd::OwnedFd;

use europa_port::Namespace;
use europa_port::netlink::{DUMP, Netlink, Request};
use nix::sys::socket::SockProtocol;

use crate::message::{INET, INET6};

/// `NETLINK_XFRM`, for which there is no name; its number is also that of TCP.
pub(crate) const PROTOCOL: SockProtocol = SockProtocol::Tcp;

const GETPOLICY: u16 = 0x15;
const GETDEFAULT: u16 = 0x28;
/// Multicast groups: expired ones, policies.
const GROUPS: u32 = 1 << (2 - 1) | 1 << (4 - 1);
/// Bytes of the selector of one policy.
const POLICY_ID_BYTES: usize = 64;
/// Offsets of a policy's family and direction.
const FAMILY_AT: usize = 40;
const DIRECTION_AT: usize = 160;

const IN: u8 = 0;
const FORWARD: u8 = 2;
const BLOCK: u8 = 1;

/// Whether forwarded packets of a family meet a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// A socket that receives policies.
pub(crate) fn subscribe(namespace: &Namespace) -> io::Result<OwnedFd> {
    super::subscribe(namespace, PROTOCOL, GROUPS)
}

/// Lists the policies.
pub(crate) fn read(lists: &mut Netlink) -> io::Result<Policies> {
    let mut found = Policies::default();
    let each = |_: u16, message: &[u8]| {
        let family = message.get(FAMILY_AT..).and_then(<[u8]>::first_chunk::<2>);
        let family = family.map_or(0, |octets| u16::from_ne_bytes(*octets));
        let direction = message.get(DIRECTION_AT).copied().unwrap_or(IN);
        // Policies of sockets have further directions.
        if direction == IN || direction > FORWARD {
            return;
        }
        found.v4 |= family != u16::from(INET6);
        found.v6 |= family != u16::from(INET);
    };
    lists.talk(&mut Request::new(GETPOLICY, DUMP, &[0; POLICY_ID_BYTES]), each)?;
    // The treatment of packets without a policy; older kernels lack this message.
    if let Ok(answer) = lists.ask(Request::new(GETDEFAULT, 0, &[0; 4]))
        && let Some([_, forward, out]) = answer.first_chunk::<3>()
        && (*forward == BLOCK || *out == BLOCK)
    {
        found = Policies { v4: true, v6: true };
    }
    Ok(found)
}
