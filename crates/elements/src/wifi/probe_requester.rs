//! # ProbeRequester
//!
//! ## Synopsis
//! `ProbeRequester(ETH, RT [, WIRELESS_INFO])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Sends a request, when a handler is written, to find IEEE 802.11 networks: all of them, or the
//! one of WIRELESS_INFO if it has a name.
//!
//! ## Arguments
//! All keywords.
//! - ETH: Ethernet address of the station.
//! - RT: name of an `AvailableRates`, which holds the rates that the station supports.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - DEBUG: accepted as in Click, without effect.
//!
//! ## Handlers
//! - `eth`, `debug` (read, write): see the arguments.
//! - `send_probe` (write): sends a request.
//!
//! ## See also
//! `BeaconScanner`, `AssociationRequester`

use europa_packet::MacAddr;

use super::available_rates::AvailableRates;
use super::made::{Made, with_basic};
use super::wireless_info::WirelessInfo;
use super::{Reference, frame::element, management};
use crate::prelude::*;

/// Asks for networks.
#[derive(Default)]
pub(crate) struct ProbeRequester {
    station: [u8; 6],
    network: Reference<WirelessInfo>,
    rates: Reference<AvailableRates>,
    debug: bool,
}

impl Class for ProbeRequester {
    const INFO: ClassInfo = ClassInfo::new("ProbeRequester", "0/1").processing("h/h");
}

impl ProbeRequester {
    fn ask(&self, context: &mut Context<'_>) {
        let own = MacAddr(self.station);
        let (ssid, high) = self.network.with(|network| (network.ssid.clone(), network.is_high()));
        let rates = self.rates.with(|rates| with_basic(rates.of(own), high));
        Made::new(management::PROBE_REQUEST, MacAddr::BROADCAST, own, MacAddr::BROADCAST)
            .element(element::SSID, ssid.as_bytes())
            .rates(&rates)
            .more_rates(&rates)
            .send(context);
    }
}

impl Element for ProbeRequester {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        keyword "ETH": [u8; 6] = [0; 6] => this.station;
        keyword "RT": "name of an element", by Reference::keyword => this.rates;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)?;
        self.rates.connect(context)
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        both "eth" => MacAddr(this.station).dashed(), set this.station = parse("eth", value)?;
        button "send_probe" => this.ask(context);
    }
}
