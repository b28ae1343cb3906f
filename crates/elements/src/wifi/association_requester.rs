//! # AssociationRequester
//!
//! ## Synopsis
//! `AssociationRequester(ETH, RT [, WIRELESS_INFO])`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Sends a request to the access point of WIRELESS_INFO, when a handler is written, to admit the
//! station to its IEEE 802.11 network. The answers, and notices that the station was removed, come
//! to the input.
//!
//! ## Arguments
//! All keywords.
//! - ETH: Ethernet address of the station.
//! - RT: name of an `AvailableRates`, which also learns the access point's rates.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - DEBUG: log the answers, default false.
//!
//! ## Handlers
//! - `eth`, `debug` (read, write): see the arguments.
//! - `associated` (read): whether the station is in the network.
//! - `send_assoc_req` (write): sends a request.
//!
//! ## See also
//! `AssociationResponder`, `OpenAuthRequester`, `BeaconScanner`

use europa_packet::MacAddr;

use super::available_rates::AvailableRates;
use super::frame::{ESS, PRIVACY, abilities, element, field, find, plain};
use super::made::{Made, with_basic};
use super::wireless_info::WirelessInfo;
use super::{Extra, Header, Reference, expect, management, say};
use crate::prelude::*;

const CLASS: &str = "AssociationRequester";

/// Sends association requests to an access point.
#[derive(Default)]
pub(crate) struct AssociationRequester {
    station: [u8; 6],
    network: Reference<WirelessInfo>,
    rates: Reference<AvailableRates>,
    associated: bool,
    debug: bool,
}

impl Class for AssociationRequester {
    const INFO: ClassInfo = ClassInfo::new(CLASS, "1/1").processing("h/h");
}

impl AssociationRequester {
    fn ask(&mut self, context: &mut Context<'_>) {
        let named = self.network.is_named();
        let own = MacAddr(self.station);
        let (made, high, bssid) = self.network.with(|network| {
            let capability = if network.wep { ESS | PRIVACY } else { ESS };
            let interval = if named { network.interval_ms as u16 } else { 1 };
            let made =
                Made::new(management::ASSOCIATION_REQUEST, network.bssid, own, network.bssid)
                    .number(capability)
                    .number(interval)
                    .element(element::SSID, network.ssid.as_bytes());
            (made, network.is_high(), network.bssid)
        });
        let rates = self.rates.with(|rates| with_basic(rates.of(bssid), high));
        if rates.is_empty() {
            say(context, CLASS, &format!("couldn't lookup rates for {}", bssid.dashed()));
        }
        self.associated = false;
        made.rates(&rates).more_rates(&rates).send(context);
    }

    fn answered(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let bssid = Header::of(packet.data())?.address(3);
        let word = |at| field(packet.data(), at);
        let (capability, status, number) = (word(0)?, word(2)?, word(4)?);
        let rates = find(packet.data(), Header::BYTES + 6, element::RATES).unwrap_or_default();
        if self.debug {
            let text = format!(
                "response {} +{} {} status {status} associd {number}",
                bssid.dashed(),
                Extra::of(packet).signal,
                abilities(capability, rates)
            );
            say(context, CLASS, &text);
        }
        self.rates.with(|known| known.learn(bssid, plain(rates)));
        self.associated |= status == 0;
        Some(())
    }

    fn put_out(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let bssid = Header::of(packet.data())?.address(3);
        let reason = field(packet.data(), 0)?;
        let own = self.network.is_named() && self.network.with(|network| network.bssid) == bssid;
        self.associated &= !own;
        let bad = if own { "" } else { "BAD " };
        let text = format!("{bad}disassociation from {} reason {reason}", bssid.dashed());
        say(context, CLASS, &text);
        Some(())
    }
}

impl Element for AssociationRequester {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "ETH": [u8; 6] = [0; 6] => this.station;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        mandatory_keyword "RT": "name of an element", by Reference::mandatory => this.rates;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)?;
        self.rates.connect(context)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let kinds = [management::ASSOCIATION_RESPONSE, management::DISASSOCIATION];
        for packet in batch.iter() {
            match expect(packet, &kinds, CLASS, context).map(Header::subtype) {
                Some(management::ASSOCIATION_RESPONSE) => self.answered(packet, context),
                Some(_) => self.put_out(packet, context),
                None => None,
            };
        }
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        both "eth" => MacAddr(this.station).dashed(), set this.station = parse("eth", value)?;
        read "associated" => this.associated;
        button "send_assoc_req" => this.ask(context);
    }
}
