//! # WifiEncap
//!
//! ## Synopsis
//! `WifiEncap(MODE [, BSSID, WIRELESS_INFO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Turns Ethernet frames into IEEE 802.11 data frames. Packets that are shorter than an Ethernet
//! header are dropped.
//!
//! ## Arguments
//! - MODE: 0 between stations, 1 from a station to its access point, 2 from an access point, 3
//!   between access points (with three addresses, as Click has it).
//! - BSSID: the network, default 00:00:00:00:00:00.
//! - WIRELESS_INFO (keyword): a `WirelessInfo` that holds the network.
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `mode`, `bssid`, `debug` (read, write): see the arguments.
//! - `drops` (read): packets that were too short or too long.
//!
//! ## See also
//! `WifiDecap`, `WirelessInfo`, `SetTXRate`

use europa_packet::{EthernetHeader, Header as _, MacAddr};

use super::wireless_info::WirelessInfo;
use super::{Header, Reference, kind};
use crate::prelude::*;
use crate::shared::fields::grow_front;
use crate::shared::made::write;

/// LLC and SNAP: an Ethernet type follows (RFC 1042).
pub(super) const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];

/// Makes frames for the air.
#[derive(Default)]
pub(crate) struct WifiEncap {
    mode: u8,
    bssid: [u8; 6],
    network: Reference<WirelessInfo>,
    debug: bool,
    drops: u64,
}

impl Class for WifiEncap {
    const INFO: ClassInfo = ClassInfo::new("WifiEncap", "1/1");
}

/// Checks a MODE.
fn mode(mode: u8) -> Result<u8, String> {
    if mode < 4 { Ok(mode) } else { Err(format!("MODE: expected 0 to 3, found '{mode}'")) }
}

impl WifiEncap {
    fn bssid(&self) -> MacAddr {
        match self.network.is_named() {
            true => self.network.with(|network| network.bssid),
            false => MacAddr(self.bssid),
        }
    }

    fn encap(&self, packet: &mut Packet) -> Option<()> {
        let (ethernet, _) = EthernetHeader::parse(packet.data())?;
        let (destination, source, ether_type) =
            (ethernet.destination, ethernet.source, ethernet.ether_type);
        let bssid = self.bssid();
        let [one, two, three] = match self.mode {
            1 => [bssid, source, destination],
            2 => [destination, bssid, source],
            _ => [destination, source, bssid],
        };
        packet.pull(EthernetHeader::LEN)?;
        let front = grow_front(packet, Header::BYTES + SNAP.len() + 2)?;
        let rest = write(front, &[kind::DATA, self.mode, 0, 0]);
        let rest = [one, two, three].iter().fold(rest, |rest, address| write(rest, &address.0));
        let rest = write(rest, &[0, 0]);
        let rest = write(rest, &SNAP);
        write(rest, &ether_type.0);
        Some(())
    }
}

impl Element for WifiEncap {
    arguments! { this, given;
        let number = mandatory "MODE": u8;
        positional "BSSID": [u8; 6] = [0; 6] => this.bssid;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        keyword "DEBUG": bool = false => this.debug;
        then {
            this.mode = mode(number).map_err(ConfigError::other)?;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let mut drops = 0;
        batch.filter(|packet| self.encap(packet).is_some(), |_| drops += 1);
        self.drops += drops;
    }

    handlers! { this, context, value;
        both "mode" => this.mode, set {
            this.mode = mode(parse("mode", value)?).map_err(HandlerError::Other)?;
        };
        both "bssid" => this.bssid().dashed(), set this.bssid = parse("bssid", value)?;
        both "debug" [CHECKBOX] => this.debug;
        read "drops" => this.drops;
    }
}
