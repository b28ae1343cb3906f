//! # AssociationResponder
//!
//! ## Synopsis
//! `AssociationResponder(RT [, WIRELESS_INFO])`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Admits stations that request it to the IEEE 802.11 network of an access point. Requests for
//! other networks are dropped.
//!
//! ## Arguments
//! All keywords.
//! - RT: name of an `AvailableRates`, which holds the access point's rates.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - DEBUG: log each admitted station, default false.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `AssociationRequester`, `OpenAuthResponder`, `BeaconSource`

use super::available_rates::AvailableRates;
use super::frame::{ESS, abilities, element, field, find, ssid};
use super::made::{Made, with_basic};
use super::wireless_info::WirelessInfo;
use super::{Header, Reference, expect, management, say};
use crate::prelude::*;

const CLASS: &str = "AssociationResponder";

/// Takes stations in.
#[derive(Default)]
pub(crate) struct AssociationResponder {
    network: Reference<WirelessInfo>,
    rates: Reference<AvailableRates>,
    /// Number of the next station.
    number: u16,
    debug: bool,
}

impl Class for AssociationResponder {
    const INFO: ClassInfo = ClassInfo::new(CLASS, "1/1").processing("h/h");
}

impl AssociationResponder {
    fn take_in(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let kinds = [management::ASSOCIATION_REQUEST];
        let header = expect(packet, &kinds, CLASS, context)?;
        let data = packet.data();
        let (capability, interval) = (field(data, 0)?, field(data, 2)?);
        let wanted = ssid(data, Header::BYTES + 4);
        let (own, bssid) = self.network.with(|network| (network.ssid.clone(), network.bssid));
        if !wanted.is_empty() && wanted != own {
            if self.debug {
                say(context, CLASS, &format!("other ssid {wanted} wanted {own}"));
            }
            return None;
        }
        let rates = find(data, Header::BYTES + 4, element::RATES).unwrap_or_default();
        let [to, from, of] = [1, 2, 3].map(|number| header.address(number).dashed());
        let text = format!(
            "request src {from} dst {to} bssid {of}{} listen_int {interval}",
            abilities(capability, rates)
        );
        say(context, CLASS, &text);
        let number = 0xc000 | self.number;
        // Section 9.4.1.8 allows 1 to 2007; Click ignores this.
        self.number = (self.number + 1) & 0x3fff;
        if self.debug {
            say(context, CLASS, &format!("association {from} associd {number}"));
        }
        let rates = self.rates.with(|rates| with_basic(rates.of(bssid), false));
        Made::new(management::ASSOCIATION_RESPONSE, header.address(2), bssid, bssid)
            .number(ESS)
            .number(0)
            .number(number)
            .rates(&rates)
            .more_rates(&rates)
            .send(context);
        Some(())
    }
}

impl Element for AssociationResponder {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        mandatory_keyword "RT": "name of an element", by Reference::mandatory => this.rates;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)?;
        self.rates.connect(context)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            self.take_in(packet, context);
        }
    }

    handlers! { this, context, value; both "debug" [CHECKBOX] => this.debug; }
}
