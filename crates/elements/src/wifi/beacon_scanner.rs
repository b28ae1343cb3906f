//! # BeaconScanner
//!
//! ## Synopsis
//! `BeaconScanner(RT [, WIRELESS_INFO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Records the IEEE 802.11 networks that announce themselves in beacons and probe responses. All
//! frames pass.
//!
//! It keeps at most 4096 networks. One more network clears the table.
//!
//! ## Arguments
//! All keywords.
//! - RT: name of an `AvailableRates`, which learns the rates of each access point.
//! - WIRELESS_INFO: name of a `WirelessInfo`: record only networks on its channel; if the channel
//!   is 0, all networks; if it is negative, none.
//! - DEBUG: accepted as in Click, without effect.
//!
//! ## Handlers
//! - `scan` (read): a network a line.
//! - `reset` (write): forgets all.
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `BeaconSource`, `BeaconTracker`, `ProbeRequester`

use std::collections::BTreeMap;

use europa_packet::MacAddr;

use super::available_rates::AvailableRates;
use super::frame::{Beacon, abilities, plain};
use super::wireless_info::WirelessInfo;
use super::{Extra, Header, Reference, kind, management};
use crate::prelude::*;
use crate::shared::values::Time;

/// Most networks.
const NETWORKS: usize = 4096;

/// The last beacon of a network, its signal and time.
struct Heard {
    beacon: Beacon,
    signal: u8,
    at_ns: u64,
}

/// Notes networks.
#[derive(Default)]
pub(crate) struct BeaconScanner {
    network: Reference<WirelessInfo>,
    rates: Reference<AvailableRates>,
    debug: bool,
    heard: BTreeMap<[u8; 6], Heard>,
}

impl Class for BeaconScanner {
    const INFO: ClassInfo = ClassInfo::new("BeaconScanner", "1/1");
}

impl BeaconScanner {
    fn note(&mut self, packet: &Packet, now_ns: u64) -> Option<()> {
        let header = Header::of(packet.data())?;
        let told = [management::BEACON, management::PROBE_RESPONSE];
        if header.kind() != kind::MANAGEMENT || !told.contains(&header.subtype()) {
            return None;
        }
        let mut beacon = Beacon::of(packet.data())?;
        let wanted = match self.network.is_named() {
            true => self.network.with(|network| network.channel),
            false => 0,
        };
        let channel = beacon.channel.map(i32::from);
        if wanted < 0 || wanted > 0 && channel.is_some_and(|channel| channel != wanted) {
            return None;
        }
        let bssid = header.address(3);
        if self.heard.len() >= NETWORKS && !self.heard.contains_key(&bssid.0) {
            self.heard.clear();
        }
        self.rates.with(|rates| rates.learn(bssid, plain(&beacon.rates)));
        // A network that hides its name keeps the name of an earlier frame.
        if let Some(known) = self.heard.get(&bssid.0).filter(|_| beacon.ssid.is_empty()) {
            beacon.ssid.clone_from(&known.beacon.ssid);
        }
        let signal = Extra::of(packet).signal;
        self.heard.insert(bssid.0, Heard { beacon, signal, at_ns: now_ns });
        Some(())
    }

    fn text(&self, now_ns: u64) -> String {
        let line = |(bssid, heard): (&[u8; 6], &Heard)| {
            let Heard { beacon, signal, at_ns } = heard;
            let bssid = MacAddr(*bssid).dashed();
            let channel = beacon.channel.map_or(-1, i32::from);
            let ssid = if beacon.ssid.is_empty() { "(none)" } else { &beacon.ssid };
            let age = Time::of(now_ns.saturating_sub(*at_ns));
            let abilities = abilities(beacon.capability, &beacon.rates);
            format!(
                "{bssid} channel {channel} rssi {signal} ssid {ssid} beacon_interval {} \
                 last_rx {age} {abilities}\n",
                beacon.interval
            )
        };
        self.heard.iter().map(line).collect()
    }
}

impl Element for BeaconScanner {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        mandatory_keyword "RT": "name of an element", by Reference::mandatory => this.rates;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)?;
        self.rates.connect(context)
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            self.note(packet, context.now_ns());
        }
    }

    handlers! { this, context, value;
        read "scan" => this.text(context.now_ns());
        both "debug" [CHECKBOX] => this.debug;
        button "reset" => this.heard.clear();
    }
}
