//! The abilities that a port's interfaces need from its device.

use europa_api::{Documents, Selector};

use crate::hosts;

/// The needs of the interfaces on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The frames must contain their VLAN tags.
    pub vlan: bool,
    /// The device must accept frames to any Ethernet address.
    pub promiscuous: bool,
}

impl Needs {
    /// The needs of the interfaces on port `port`.
    pub fn of(documents: &Documents, port: &str) -> Needs {
        let interfaces = documents.routers.iter().flat_map(|router| &router.interfaces.0);
        let on: Vec<_> = interfaces
            .map(|(_, interface)| &interface.value)
            .filter(|i| i.port.as_ref().is_some_and(|p| *p.value == *port))
            .collect();
        Needs {
            vlan: on.iter().any(|interface| interface.vlan().is_some()),
            // Its own addresses or broadcasts.
            promiscuous: hosts::is_line(port)
                || on
                    .iter()
                    .any(|interface| matches!(interface.selector(), Selector::Mac | Selector::All)),
        }
    }
}
