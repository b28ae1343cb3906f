//! # BeaconTracker
//!
//! ## Synopsis
//! `BeaconTracker(WIRELESS_INFO, TRACK)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Measures how many of an access point's beacons arrive. Beacons and answers of the network of
//! WIRELESS_INFO pass; other frames are dropped.
//!
//! ## Arguments
//! All keywords.
//! - WIRELESS_INFO: name of a `WirelessInfo`.
//! - TRACK: number of beacons over which to measure, 1 to 10000, default 10.
//! - DEBUG: accepted as in Click, without effect.
//!
//! ## Handlers
//! - `stats` (read): beacons that came, in percent.
//! - `track`, `beacon_interval` (read): TRACK; milliseconds between beacons.
//! - `reset` (write): starts again.
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `BeaconScanner`

use std::collections::VecDeque;

use super::frame::field;
use super::wireless_info::WirelessInfo;
use super::{Reference, expect, management};
use crate::prelude::*;

/// Counts beacons.
#[derive(Default)]
pub(crate) struct BeaconTracker {
    network: Reference<WirelessInfo>,
    track: usize,
    interval_ms: u16,
    start_ns: u64,
    /// Times of the last beacons.
    beacons: VecDeque<u64>,
    debug: bool,
}

impl Class for BeaconTracker {
    const INFO: ClassInfo = ClassInfo::new("BeaconTracker", "1/1");
}

impl BeaconTracker {
    /// For how long a beacon counts.
    fn window_ns(&self) -> u64 {
        self.track as u64 * u64::from(self.interval_ms) * 1_000_000
    }

    fn trim(&mut self, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.window_ns());
        while self.beacons.front().is_some_and(|first| *first < since_ns)
            // Other stations may send beacons of this network too.
            || self.beacons.len() > self.track.saturating_mul(2)
        {
            self.beacons.pop_front();
        }
    }

    fn note(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let kinds = [management::BEACON, management::PROBE_RESPONSE];
        let header = expect(packet, &kinds, "BeaconTracker", context)?;
        let interval_ms = field(packet.data(), 8)?;
        if self.network.with(|network| network.bssid) != header.address(3) {
            return None;
        }
        self.interval_ms = interval_ms;
        self.beacons.push_back(context.now_ns());
        self.trim(context.now_ns());
        Some(())
    }

    fn percent(&mut self, now_ns: u64) -> u64 {
        self.trim(now_ns);
        let since_start = now_ns.saturating_sub(self.start_ns) / 1_000_000;
        let interval_ms = u64::from(self.interval_ms.max(1));
        let expected = (since_start / interval_ms).min(self.track as u64);
        (self.beacons.len() as u64 * 100).checked_div(expected).unwrap_or(0)
    }
}

impl Element for BeaconTracker {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "WIRELESS_INFO": "name of an element", by Reference::keyword => this.network;
        keyword "TRACK": usize = 10 => this.track;
        then {
            if !(1..=10_000).contains(&this.track) {
                return Err(ConfigError::other("TRACK: expected 1 to 10000"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.start_ns = context.now_ns();
        self.network.connect(context)
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(|packet| self.note(packet, context).is_some(), drop);
    }

    handlers! { this, context, value;
        read "stats" => this.percent(context.now_ns());
        read "track" => this.track;
        read "beacon_interval" => this.interval_ms;
        both "debug" [CHECKBOX] => this.debug;
        button "reset" => {
            this.start_ns = context.now_ns();
            this.beacons.clear();
        };
    }
}
