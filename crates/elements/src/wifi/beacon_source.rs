//! # BeaconSource
//!
//! ## Synopsis
//! `BeaconSource(WIRELESS_INFO, RT)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Sends the beacons of an access point's IEEE 802.11 network. It also answers stations that search
//! for this network or for any: their requests come to the input.
//!
//! ## Arguments
//! All keywords.
//! - WIRELESS_INFO: name of a `WirelessInfo`, which also has the interval of beacons.
//! - RT: name of an `AvailableRates`, which holds the access point's rates.
//! - DEBUG: log each request, default false.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `BeaconScanner`, `AssociationResponder`

use europa_packet::MacAddr;

use super::available_rates::AvailableRates;
use super::frame::{ESS, element, find, split_rates, ssid};
use super::made::{Made, with_basic};
use super::wireless_info::WirelessInfo;
use super::{Header, Reference, expect, management, say};
use crate::prelude::*;

const CLASS: &str = "BeaconSource";

/// Announces a network.
#[derive(Default)]
pub(crate) struct BeaconSource {
    network: Reference<WirelessInfo>,
    rates: Reference<AvailableRates>,
    debug: bool,
}

impl Class for BeaconSource {
    const INFO: ClassInfo = ClassInfo::new(CLASS, "1/1").processing("h/h");
}

impl BeaconSource {
    /// Nanoseconds between beacons. A handler may have set any value.
    fn interval_ns(&self) -> u64 {
        let interval_ms = self.network.with(|network| network.interval_ms);
        u64::try_from(interval_ms).unwrap_or(1).max(1) * 1_000_000
    }

    fn tell(&self, subtype: u8, destination: MacAddr, context: &mut Context<'_>) {
        let (made, channel, bssid) = self.network.with(|network| {
            let made = Made::new(subtype, destination, network.bssid, network.bssid)
                // The time, which the driver sets.
                .bytes(&[0; 8])
                .number(network.interval_ms as u16)
                .number(ESS)
                .element(element::SSID, network.ssid.as_bytes());
            (made, network.channel as u8, network.bssid)
        });
        let rates = self.rates.with(|rates| with_basic(rates.of(bssid), false));
        made.rates(&rates)
            .element(element::CHANNEL, &[channel])
            // No frames wait for sleeping stations.
            .element(element::TRAFFIC_MAP, &[0, 1, 0, 0])
            .more_rates(&rates)
            .send(context);
    }

    fn answer(&self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let header = expect(packet, &[management::PROBE_REQUEST], CLASS, context)?;
        let (wanted, from) = (ssid(packet.data(), Header::BYTES), header.address(2));
        let own = self.network.with(|network| network.ssid.clone());
        let other = !wanted.is_empty() && wanted != own;
        if self.debug {
            let rates = find(packet.data(), Header::BYTES, element::RATES).unwrap_or_default();
            let (basic, others) = split_rates(rates);
            let text = match other {
                true => format!("other ssid {wanted} wanted {own}"),
                false => format!(
                    "ProbeReq: {} ssid {wanted} rates {{ * {basic} {others} }}",
                    from.dashed()
                ),
            };
            say(context, CLASS, &text);
        }
        if !other {
            self.tell(management::PROBE_RESPONSE, from, context);
        }
        Some(())
    }
}

impl Element for BeaconSource {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        mandatory_keyword "WIRELESS_INFO": "name of an element", by Reference::mandatory
            => this.network;
        mandatory_keyword "RT": "name of an element", by Reference::mandatory => this.rates;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)?;
        self.rates.connect(context)?;
        if self.network.with(|network| network.interval_ms) <= 0 {
            return Err(ConfigError::other("INTERVAL must be >0"));
        }
        context.schedule(0, context.now_ns().saturating_add(self.interval_ns()));
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            self.answer(packet, context);
        }
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        self.tell(management::BEACON, MacAddr::BROADCAST, context);
        context.schedule(timer, context.now_ns().saturating_add(self.interval_ns()));
    }

    handlers! { this, context, value; both "debug" [CHECKBOX] => this.debug; }
}
