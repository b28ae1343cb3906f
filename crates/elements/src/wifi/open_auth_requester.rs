//! # OpenAuthRequester
//!
//! ## Synopsis
//! `OpenAuthRequester(ETH, WIRELESS_INFO)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Sends a request to the access point of WIRELESS_INFO, when a handler is written, to authenticate
//! the station (open authentication, the first step into an IEEE 802.11 network). The answers come
//! to the input.
//!
//! ## Arguments
//! All keywords.
//! - ETH: Ethernet address of the station.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - DEBUG: log the answers, default false.
//!
//! ## Handlers
//! - `eth`, `debug` (read, write): see the arguments.
//! - `send_auth_req` (write): sends a request.
//!
//! ## See also
//! `OpenAuthResponder`, `AssociationRequester`

use europa_packet::MacAddr;

use super::frame::field;
use super::made::Made;
use super::wireless_info::WirelessInfo;
use super::{Header, Reference, expect, management, say};
use crate::prelude::*;

/// Requests authentication from an access point.
#[derive(Default)]
pub(crate) struct OpenAuthRequester {
    station: [u8; 6],
    network: Reference<WirelessInfo>,
    debug: bool,
}

impl Class for OpenAuthRequester {
    const INFO: ClassInfo = ClassInfo::new("OpenAuthRequester", "1/1").processing("h/h");
}

/// The fields of an authentication frame: algorithm, step, status.
pub(super) fn steps(
    packet: &Packet,
    class: &str,
    context: &mut Context<'_>,
) -> Option<(Header, u16, u16, u16)> {
    let header = expect(packet, &[management::AUTHENTICATION], class, context)?;
    let word = |at| field(packet.data(), at);
    let (algorithm, step, status) = (word(0)?, word(2)?, word(4)?);
    if algorithm != 0 {
        let from = header.address(2).dashed();
        say(context, class, &format!("auth {algorithm} from {from} not supported"));
        return None;
    }
    Some((header, algorithm, step, status))
}

/// An authentication frame of an open network.
pub(super) fn step(destination: MacAddr, source: MacAddr, bssid: MacAddr, step: u16) -> Made {
    Made::new(management::AUTHENTICATION, destination, source, bssid)
        .number(0)
        .number(step)
        .number(0)
}

impl Element for OpenAuthRequester {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "ETH": [u8; 6] = [0; 6] => this.station;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            let answer = steps(packet, "OpenAuthRequester", context);
            if let Some((_, algorithm, step, status)) = answer.filter(|_| self.debug) {
                let text = format!("auth {algorithm} seq {step} status {status}");
                say(context, "OpenAuthRequester", &text);
            }
        }
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        both "eth" => MacAddr(this.station).dashed(), set this.station = parse("eth", value)?;
        button "send_auth_req" => {
            let bssid = this.network.with(|network| network.bssid);
            step(bssid, MacAddr(this.station), bssid, 1).send(context);
        };
    }
}
