//! # OpenAuthResponder
//!
//! ## Synopsis
//! `OpenAuthResponder(WIRELESS_INFO)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Answers stations that request authentication from an access point (open authentication): all are
//! accepted.
//!
//! ## Arguments
//! All keywords.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - DEBUG: log the requests, default false.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `OpenAuthRequester`, `AssociationResponder`

use super::open_auth_requester::{step, steps};
use super::wireless_info::WirelessInfo;
use super::{Reference, say};
use crate::prelude::*;

const CLASS: &str = "OpenAuthResponder";

/// Accepts all stations.
#[derive(Default)]
pub(crate) struct OpenAuthResponder {
    network: Reference<WirelessInfo>,
    debug: bool,
}

impl Class for OpenAuthResponder {
    const INFO: ClassInfo = ClassInfo::new(CLASS, "1/1").processing("h/h");
}

impl Element for OpenAuthResponder {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        mandatory_keyword "WIRELESS_INFO": "name of an element", by Reference::mandatory
            => this.network;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.network.connect(context)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            let Some((header, algorithm, number, status)) = steps(packet, CLASS, context) else {
                continue;
            };
            if number != 1 {
                let text = format!("auth {algorithm} weird sequence number {number}");
                say(context, CLASS, &text);
                continue;
            }
            if self.debug {
                say(context, CLASS, &format!("auth {algorithm} seq {number} status {status}"));
            }
            let bssid = self.network.with(|network| network.bssid);
            step(header.address(2), bssid, bssid, 2).send(context);
        }
    }

    handlers! { this, context, value; both "debug" [CHECKBOX] => this.debug; }
}
