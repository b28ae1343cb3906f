//! # WirelessInfo
//!
//! ## Synopsis
//! `WirelessInfo([SSID, BSSID, CHANNEL, INTERVAL, WEP])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Holds the IEEE 802.11 network of a station or an access point, for the elements that name it as
//! their WIRELESS_INFO.
//!
//! ## Arguments
//! All keywords.
//! - SSID: name of the network, up to 32 bytes, default none.
//! - BSSID: Ethernet address of the network, default 00:00:00:00:00:00.
//! - CHANNEL: number, default -1.
//! - INTERVAL: milliseconds between beacons, default 100.
//! - WEP: whether the network is encrypted, default false.
//!
//! ## Handlers
//! - `ssid`, `bssid`, `channel`, `interval`, `wep` (read, write): see the arguments.
//! - `reset` (write): the defaults.
//!
//! ## See also
//! `AvailableRates`, `WifiEncap`, `BeaconSource`, `AssociationRequester`

use std::cell::RefCell;
use std::rc::Rc;

use europa_packet::MacAddr;

use super::reference::Shared;
use crate::prelude::*;

/// A network.
pub(crate) struct Network {
    pub(super) ssid: String,
    pub(super) bssid: MacAddr,
    pub(super) channel: i32,
    pub(super) interval_ms: i32,
    pub(super) wep: bool,
}

impl Default for Network {
    fn default() -> Network {
        let (ssid, bssid) = (String::new(), MacAddr::ZERO);
        Network { ssid, bssid, channel: -1, interval_ms: 100, wep: false }
    }
}

impl Network {
    /// Whether it is at 5 GHz.
    pub(super) fn is_high(&self) -> bool {
        self.channel > 15
    }
}

/// Stores the data of a network.
#[derive(Default)]
pub(crate) struct WirelessInfo(Rc<RefCell<Network>>);

impl Class for WirelessInfo {
    const INFO: ClassInfo = ClassInfo::new("WirelessInfo", "0/0");
}

impl Shared for WirelessInfo {
    type What = Network;

    fn share(&self) -> Rc<RefCell<Network>> {
        self.0.clone()
    }
}

/// A name that fits into a frame.
fn bounded(ssid: String) -> Result<String, String> {
    if ssid.len() <= 32 { Ok(ssid) } else { Err("SSID: expected at most 32 bytes".to_owned()) }
}

impl Element for WirelessInfo {
    arguments! { this, given;
        let ssid = keyword "SSID": String = String::new();
        let bssid = keyword "BSSID": [u8; 6] = [0; 6];
        let channel = keyword "CHANNEL": i32 = -1;
        let interval_ms = keyword "INTERVAL": i32 = 100;
        let wep = keyword "WEP": bool = false;
        then {
            let ssid = bounded(ssid).map_err(ConfigError::other)?;
            let bssid = MacAddr(bssid);
            *this.0.borrow_mut() = Network { ssid, bssid, channel, interval_ms, wep };
        }
    }

    handlers! { this, context, value;
        both "ssid" => this.0.borrow().ssid, set {
            let ssid = bounded(value.trim().to_owned()).map_err(HandlerError::Other)?;
            this.0.borrow_mut().ssid = ssid;
        };
        both "bssid" => this.0.borrow().bssid.dashed(), set {
            let bssid = parse("bssid", value)?;
            this.0.borrow_mut().bssid = MacAddr(bssid);
        };
        both "channel" => this.0.borrow().channel, set {
            let channel = parse("channel", value)?;
            this.0.borrow_mut().channel = channel;
        };
        both "interval" => this.0.borrow().interval_ms, set {
            let interval_ms = parse("interval", value)?;
            this.0.borrow_mut().interval_ms = interval_ms;
        };
        both "wep" [CHECKBOX] => this.0.borrow().wep, set {
            let wep = parse("wep", value)?;
            this.0.borrow_mut().wep = wep;
        };
        button "reset" => *this.0.borrow_mut() = Network::default();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn handlers_change_the_network() {
        let arguments = ["SSID \"a b\"", "BSSID 2:0:0:0:0:1", "CHANNEL 6"];
        let mut bench = Bench::try_new("WirelessInfo", &arguments, None, Some(0)).unwrap();
        bench.router.write("e.ssid", "x y").unwrap();
        bench.router.write("e.wep", "true").unwrap();
        for (handler, value) in [
            ("ssid", "x y"),
            ("bssid", "02-00-00-00-00-01"),
            ("channel", "6"),
            ("interval", "100"),
            ("wep", "true"),
        ] {
            assert_eq!(bench.router.read(&format!("e.{handler}"), ""), Ok(value.into()));
        }
        assert!(bench.router.write("e.ssid", &"x".repeat(33)).is_err());
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.router.read("e.channel", ""), Ok("-1".into()));
    }
}
