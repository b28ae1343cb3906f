//! Devices.

use europa_port::netlink::{attributes, number, text};

pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_PROMISCUITY: u16 = 30;
pub(super) const IFLA_LINK_NETNSID: u16 = 37;
pub(super) const IFLA_XDP: u16 = 43;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
pub(super) const IFLA_MACVLAN_MODE: u16 = 1;
pub(super) const IFLA_XDP_ATTACHED: u16 = 2;
/// Modes of a macvlan that receives frames to other addresses than its own: all; those from certain
/// stations.
pub(super) const MACVLAN_MODE_PASSTHRU: u32 = 8;
pub(super) const MACVLAN_MODE_SOURCE: u32 = 16;
pub(super) const IFF_UP: u32 = 1;
pub(super) const IFF_RUNNING: u32 = 0x40;

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// The device is set up (IFF_UP).
    pub(crate) up: bool,
    /// It is up and has a carrier.
    pub(crate) running: bool,
    /// Its Ethernet address.
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    /// The bridge, bond or VRF that it belongs to.
    pub(crate) master: Option<u32>,
    /// The device of the same namespace below it.
    pub(crate) lower: Option<u32>,
    /// `bridge`, `macvlan` and so on.
    pub(crate) kind: String,
    /// It takes all frames of the device below it.
    pub(crate) takes_all: bool,
    /// It receives frames for other stations.
    pub(crate) promiscuous: bool,
    /// An eBPF program gets its frames first.
    pub(crate) has_program: bool,
}

impl Link {
    pub(crate) fn parse(message: &[u8]) -> Option<Link> {
        let flags = number(message, 8)?;
        let mut link = Link {
            index: number(message, 4)?,
            up: flags & IFF_UP != 0,
            running: flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
            ..Link::default()
        };
        let (mut name, mut is_elsewhere) = (None, false);
        for (kind, value) in attributes(message, 16) {
            match kind {
                IFLA_IFNAME => name = Some(text(value)),
                IFLA_ADDRESS => link.mac = value.try_into().ok(),
                IFLA_MTU => link.mtu = number(value, 0)?,
                IFLA_LINK => link.lower = number(value, 0).filter(|lower| *lower != 0),
                IFLA_LINK_NETNSID => is_elsewhere = true,
                IFLA_MASTER => link.master = number(value, 0).filter(|master| *master != 0),
                IFLA_PROMISCUITY => link.promiscuous = number(value, 0) != Some(0),
                IFLA_XDP => {
                    let attached =
                        attributes(value, 0).find(|(kind, _)| *kind == IFLA_XDP_ATTACHED);
                    link.has_program = attached.is_some_and(|(_, how)| how.first() != Some(&0));
                }
                IFLA_LINKINFO => link.read_kind(value),
                _ => {}
            }
        }
        link.name = name?;
        link.lower = link.lower.filter(|_| !is_elsewhere);
        Some(link)
    }

    fn read_kind(&mut self, info: &[u8]) {
        let mut data = &[][..];
        for (kind, value) in attributes(info, 0) {
            match kind {
                IFLA_INFO_KIND => self.kind = text(value),
                IFLA_INFO_DATA => data = value,
                _ => {}
            }
        }
        let mode = attributes(data, 0).find(|(kind, _)| *kind == IFLA_MACVLAN_MODE);
        let mode = mode.and_then(|(_, value)| number(value, 0));
        self.takes_all = match self.kind.as_str() {
            "macvlan" | "macvtap" => {
                matches!(mode, Some(MACVLAN_MODE_PASSTHRU | MACVLAN_MODE_SOURCE))
            }
            "ipvlan" | "ipvtap" | "macsec" => true,
            _ => false,
        };
    }
}
