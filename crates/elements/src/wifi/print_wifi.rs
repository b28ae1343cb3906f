//! # PrintWifi
//!
//! ## Synopsis
//! `PrintWifi([LABEL, TIMESTAMP])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each IEEE 802.11 frame to the router's log: length, rate, signal and noise,
//! kind, addresses, sequence number.
//!
//! ## Arguments
//! - LABEL: stands before each line.
//! - TIMESTAMP (keyword): whether the line contains the frame's time, default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Print`, `ExtraDecap`, `RadiotapDecap`

use std::fmt::Write as _;

use super::extra::{DAMAGED, FAILED, MORE, OTHER_RATE, SENT};
use super::frame::{
    Beacon, MORE_FRAGMENTS, PROTECTED, RETRY, capabilities, element, field, find, split_rates, ssid,
};
use super::{Extra, Header, kind, management};
use crate::dump::print::seconds;
use crate::prelude::*;

/// Prints frames.
#[derive(Default)]
pub(crate) struct PrintWifi {
    label: String,
    timestamp: bool,
}

impl Class for PrintWifi {
    const INFO: ClassInfo = ClassInfo::new("PrintWifi", "1/1");
}

/// Names of numbers, or a text for unknown ones.
fn name(names: &[(u16, &str)], number: u16, other: &str) -> String {
    let known = names.iter().find(|(of, _)| *of == number);
    known.map_or_else(|| format!("unknown {other} {number}"), |(_, name)| (*name).to_owned())
}

/// Reasons why a station leaves (section 9.4.1.7).
const REASONS: [(u16, &str); 9] = [
    (1, "unspecified"),
    (2, "auth_expire"),
    (3, "auth_leave"),
    (4, "assoc_expire/inactive"),
    (5, "assoc_toomany"),
    (6, "not_authed"),
    (7, "not_assoced"),
    (8, "assoc_leave"),
    (9, "assoc_not_authed"),
];

/// Results of a request (section 9.4.1.9).
const STATUSES: [(u16, &str); 13] = [
    (0, "success"),
    (1, "unspecified"),
    (10, "capinfo"),
    (11, "not_assoced"),
    (12, "other"),
    (13, "alg"),
    (14, "seq"),
    (15, "challenge"),
    (16, "timeout"),
    (18, "basic_rates"),
    (22, "too_many_stations"),
    (23, "rates"),
    (25, "shortslot_required"),
];

/// Basic rates, and other ones.
fn rates(data: &[u8], from: usize) -> String {
    let (basic, others) = split_rates(find(data, from, element::RATES).unwrap_or_default());
    format!("({{{basic}}} {others})")
}

/// The part of the line that describes the network of a beacon.
fn beacon(data: &[u8]) -> String {
    let Some(beacon) = Beacon::of(data) else { return String::new() };
    let bssid = Header::of_any(data).address(3).dashed();
    let ssid = if beacon.ssid.is_empty() { "(none)" } else { &beacon.ssid };
    let names = capabilities(beacon.capability);
    let names = if names.is_empty() { names } else { names + " " };
    let (basic, others) = split_rates(&beacon.rates);
    let (channel, interval) = (beacon.channel.unwrap_or(0), beacon.interval);
    format!("{bssid} {ssid} chan {channel} b_int {interval} [ {names}] ({{{basic}}} {others})")
}

/// The text of a management frame; `None` if the line has no more fields.
fn managed(data: &[u8], header: Header) -> String {
    let body = Header::BYTES;
    let word = |at| field(data, at).unwrap_or(0);
    match header.subtype() {
        management::ASSOCIATION_REQUEST => format!(
            "assoc_req listen_int {} [{}] ssid {} rates {} ",
            word(2),
            capabilities(word(0)),
            ssid(data, body + 4),
            rates(data, body + 4)
        ),
        management::ASSOCIATION_RESPONSE => format!(
            "assoc_resp [{}] status {} {} associd {} ",
            capabilities(word(0)),
            word(2),
            name(&STATUSES, word(2), "status"),
            word(4)
        ),
        management::REASSOCIATION_REQUEST => "reassoc_req ".to_owned(),
        management::REASSOCIATION_RESPONSE => "reassoc_resp ".to_owned(),
        management::PROBE_REQUEST => {
            format!("probe_req ssid {} {} ", ssid(data, body), rates(data, body))
        }
        management::PROBE_RESPONSE => format!("probe_resp {}", beacon(data)),
        management::BEACON => format!("beacon {}", beacon(data)),
        management::ATIM => "atim ".to_owned(),
        management::DISASSOCIATION => {
            format!("disassoc {} ", name(&REASONS, word(0), "reason"))
        }
        management::AUTHENTICATION => format!(
            "auth alg {} auth_seq {} status {} ",
            word(0),
            word(2),
            name(&STATUSES, word(4), "status")
        ),
        management::DEAUTHENTICATION => "deauth ".to_owned(),
        other => format!("unknown-subtype-{other} "),
    }
}

/// The kind of a control frame.
fn control(header: Header) -> String {
    match header.subtype() {
        0xa0 => "psp  ".to_owned(),
        0xb0 => "rts  ".to_owned(),
        0xc0 => "cts  ".to_owned(),
        0xd0 => format!("ack  {} ", header.duration()),
        0xe0 => "cfe  ".to_owned(),
        0xf0 => "cfea ".to_owned(),
        other => format!("unknown-subtype-{other} "),
    }
}

/// Addresses, numbers and flags, as far as the frame has them.
fn ends(data: &[u8], header: Header, extra: Extra) -> String {
    let mut line = header.address(1).dashed();
    for (number, least) in [(2, 16), (3, 23)] {
        if data.len() >= least {
            line = line + " " + &header.address(number).dashed();
        }
    }
    line += " ";
    if data.len() >= Header::BYTES {
        // Writing to a String cannot fail.
        let _ = write!(line, "seq {}", header.sequence());
        if header.fragment() != 0 || header.has(MORE_FRAGMENTS) {
            let _ = write!(line, " frag {}", header.fragment());
        }
        line += " ";
    }
    line += "[";
    for (flag, name) in [
        (extra.has(SENT), " tx"),
        (extra.has(FAILED), " fail"),
        (extra.has(OTHER_RATE), " alt_rate"),
        (extra.has(DAMAGED), " err"),
        (extra.has(MORE), " more"),
        (header.has(RETRY), " retry"),
        (header.has(PROTECTED), " wep"),
    ] {
        line += if flag { name } else { "" };
    }
    line += " ] ";
    if extra.has(SENT) {
        let _ = write!(line, " retries {}", extra.retries);
    }
    line
}

impl PrintWifi {
    fn line(&self, packet: &Packet) -> String {
        let (data, extra) = (packet.data(), Extra::of(packet));
        let header = Header::of_any(data);
        let mut line = self.label.clone();
        if !line.is_empty() {
            line += ": ";
        }
        if self.timestamp {
            line = line + &seconds(packet.timestamp_ns()) + ": ";
        }
        let _ = write!(line, "{:4} | ", data.len());
        match extra.rates[0] {
            11 => line += " 5.5",
            rate => drop(write!(line, "{:2}", rate / 2)),
        }
        let _ = write!(line, "Mb +{:2}/{:2} | ", extra.signal, extra.noise);
        match header.kind() {
            kind::MANAGEMENT => {
                line = line + "mgmt " + &managed(data, header);
                if matches!(header.subtype(), management::BEACON | management::PROBE_RESPONSE) {
                    return line;
                }
            }
            kind::CONTROL => line = line + "cntl " + &control(header),
            kind::DATA => {
                let ways = ["nods", "tods", "frds", "dsds"];
                let way = ways.get(usize::from(header.direction())).copied().unwrap_or_default();
                line = line + "data " + way + " ";
            }
            other => drop(write!(line, "unknown-type-{other} ")),
        }
        line + &ends(data, header, extra)
    }
}

impl Element for PrintWifi {
    arguments! { this, given;
        positional "LABEL": String = String::new() => this.label;
        keyword "TIMESTAMP": bool = false => this.timestamp;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            context.log_with(|_| self.line(packet));
        }
    }
}
