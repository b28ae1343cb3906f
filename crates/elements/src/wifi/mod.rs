//! IEEE 802.11: frames by which stations and access points find each other.

pub(crate) mod association_requester;
pub(crate) mod association_responder;
pub(crate) mod available_rates;
pub(crate) mod beacon_scanner;
pub(crate) mod beacon_source;
pub(crate) mod beacon_tracker;
pub(crate) mod extra_decap;
pub(crate) mod extra_encap;
pub(crate) mod filter_phy_err;
pub(crate) mod filter_tx;
pub(crate) mod open_auth_requester;
pub(crate) mod open_auth_responder;
pub(crate) mod print_wifi;
pub(crate) mod prism2_decap;
pub(crate) mod probe_requester;
pub(crate) mod probe_tx_rate;
pub(crate) mod radiotap_decap;
pub(crate) mod radiotap_encap;
pub(crate) mod set_tx_power;
pub(crate) mod set_tx_rate;
pub(crate) mod wep_decap;
pub(crate) mod wep_encap;
pub(crate) mod wifi_decap;
pub(crate) mod wifi_dupe_filter;
pub(crate) mod wifi_encap;
pub(crate) mod wireless_info;

mod cipher;
mod extra;
mod frame;
mod made;
mod reference;
#[cfg(test)]
mod tests;

use extra::Extra;
use frame::{Header, kind, management};
use reference::Reference;

use crate::prelude::*;

/// Writes a line about a frame, with the element's name as Click has it.
fn say(context: &mut Context<'_>, class: &str, text: &str) {
    context.log_with(|name| format!("{name} :: {class}: {text}"));
}

/// The header of a management frame of one of these kinds, or an error with the kind found.
fn expect(packet: &Packet, kinds: &[u8], class: &str, context: &mut Context<'_>) -> Option<Header> {
    let Some(header) = Header::of(packet.data()) else {
        let text = format!("packet too small: {} vs {}", packet.len(), Header::BYTES);
        say(context, class, &text);
        return None;
    };
    if header.kind() != kind::MANAGEMENT {
        say(context, class, "received non-management packet");
        return None;
    }
    if !kinds.contains(&header.subtype()) {
        say(context, class, &format!("received subtype {} packet", header.subtype()));
        return None;
    }
    Some(header)
}
