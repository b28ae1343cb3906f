//! A driver's XDP features, from the `netdev` family of generic netlink.

use std::io;

use crate::device::Kind;
use crate::namespace::Namespace;
use crate::netlink::{Netlink, Request, attribute, long_number};

const CONTROL: u16 = 0x10; // GENL_ID_CTRL
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
/// Length of the generic netlink header.
const GENERIC_BYTES: usize = 4;

/// The relevant bits of `enum netdev_xdp_act`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Programs run in the driver (otherwise only in generic mode).
    pub native: bool,
    /// Frames can be redirected to the device. A veth needs GRO or a program on the *peer* for
    /// this; some drivers offer it only once a program is attached.
    pub redirect_target: bool,
    /// Programs for frames in several fragments (`xdp.frags`) can run.
    pub fragments: bool,
}

impl XdpFeatures {
    /// The assumption if the kernel cannot report: drivers of hardware usually support them.
    pub(crate) fn presumed(kind: &Kind) -> Self {
        let native = matches!(kind, Kind::Veth | Kind::Tap | Kind::Physical { .. });
        Self { native, redirect_target: native && *kind != Kind::Veth, fragments: native }
    }
}

/// Reads the features of a device. `None` on a kernel that cannot report them (before 6.3).
pub(crate) fn features(namespace: &Namespace, index: u32) -> io::Result<Option<XdpFeatures>> {
    let mut netlink = Netlink::generic(namespace)?;
    let find = Request::new(CONTROL, 0, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, b"netdev\0");
    let family = match netlink.ask(find) {
        Ok(answer) => attribute(&answer, GENERIC_BYTES, FAMILY_ID)
            .and_then(|id| Some(u16::from_ne_bytes(id.try_into().ok()?))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
        Err(error) => return Err(error),
    };
    let Some(family) = family else { return Ok(None) };
    let get = Request::new(family, 0, &[DEV_GET, 1, 0, 0]).with(DEV_IFINDEX, &index.to_ne_bytes());
    let answer = netlink.ask(get)?;
    let bits = attribute(&answer, GENERIC_BYTES, DEV_XDP_FEATURES)
        .and_then(|bits| long_number(bits, 0))
        .unwrap_or(0);
    let has = |bit: u32| bits >> bit & 1 == 1;
    Ok(Some(XdpFeatures { native: has(0), redirect_target: has(2), fragments: has(5) }))
}
