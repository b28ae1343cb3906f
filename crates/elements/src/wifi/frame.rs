//! Headers and information elements of IEEE 802.11 frames.

use std::fmt::Write as _;

use europa_packet::MacAddr;

use crate::shared::fields::bytes;

/// Kinds of frames: two bits of the first byte (IEEE 802.11 section 9.2.4.1.3).
pub(super) mod kind {
    pub(in super::super) const MANAGEMENT: u8 = 0x00;
    pub(in super::super) const CONTROL: u8 = 0x04;
    pub(in super::super) const DATA: u8 = 0x08;
}

/// Kinds of management frames: four bits of the first byte.
pub(super) mod management {
    pub(in super::super) const ASSOCIATION_REQUEST: u8 = 0x00;
    pub(in super::super) const ASSOCIATION_RESPONSE: u8 = 0x10;
    pub(in super::super) const REASSOCIATION_REQUEST: u8 = 0x20;
    pub(in super::super) const REASSOCIATION_RESPONSE: u8 = 0x30;
    pub(in super::super) const PROBE_REQUEST: u8 = 0x40;
    pub(in super::super) const PROBE_RESPONSE: u8 = 0x50;
    pub(in super::super) const BEACON: u8 = 0x80;
    pub(in super::super) const ATIM: u8 = 0x90;
    pub(in super::super) const DISASSOCIATION: u8 = 0xa0;
    pub(in super::super) const AUTHENTICATION: u8 = 0xb0;
    pub(in super::super) const DEAUTHENTICATION: u8 = 0xc0;
}

/// Numbers of information elements.
pub(super) mod element {
    pub(in super::super) const SSID: u8 = 0;
    pub(in super::super) const RATES: u8 = 1;
    pub(in super::super) const CHANNEL: u8 = 3;
    pub(in super::super) const TRAFFIC_MAP: u8 = 5;
    pub(in super::super) const MORE_RATES: u8 = 50;
}

/// Number of rates in the first element; another element has the others.
pub(super) const FIRST_RATES: usize = 8;
/// Marks a rate that every station of a network must support.
pub(super) const BASIC: u8 = 0x80;
/// The network has an access point.
pub(super) const ESS: u16 = 1;
/// The network's frames are encrypted.
pub(super) const PRIVACY: u16 = 1 << 4;
/// Names of the capability bits of a network, from the lowest.
const CAPABILITIES: [&str; 5] = ["ESS", "IBSS", "CF_POLLABLE", "CF_POLLREQ", "PRIVACY"];

/// Flags of the second byte.
pub(super) const MORE_FRAGMENTS: u8 = 0x04;
pub(super) const RETRY: u8 = 0x08;
pub(super) const PROTECTED: u8 = 0x40;

/// The part of the header that data and management frames have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header(pub(super) [u8; Header::BYTES]);

/// Sender, receiver and network of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) destination: MacAddr,
    pub(super) source: MacAddr,
    pub(super) bssid: MacAddr,
}

impl Header {
    pub(super) const BYTES: usize = 24;

    pub(super) fn of(data: &[u8]) -> Option<Header> {
        bytes(data, 0).map(Header)
    }

    /// The header of a frame that may be truncated: missing bytes are zero.
    pub(super) fn of_any(data: &[u8]) -> Header {
        let mut header = [0; Header::BYTES];
        crate::shared::made::write(&mut header, data);
        Header(header)
    }

    pub(super) fn kind(self) -> u8 {
        self.0[0] & 0x0c
    }

    pub(super) fn subtype(self) -> u8 {
        self.0[0] & 0xf0
    }

    /// 0 between stations, 1 to an access point, 2 from one, 3 between access points.
    pub(super) fn direction(self) -> u8 {
        self.0[1] & 3
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.0[1] & flag != 0
    }

    pub(super) fn duration(self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }

    /// Address 1, 2 or 3.
    pub(super) fn address(self, number: usize) -> MacAddr {
        MacAddr(bytes(&self.0, 4 + number.saturating_sub(1) * 6).unwrap_or_default())
    }

    pub(super) fn sequence(self) -> u16 {
        u16::from_le_bytes([self.0[22], self.0[23]]) >> 4
    }

    pub(super) fn fragment(self) -> u8 {
        self.0[22] & 15
    }

    /// Sender, receiver and network, by the direction of the frame (section 9.3.2.1); between
    /// access points, as Click reads them.
    pub(super) fn ends(self) -> Ends {
        let [one, two, three] = [1, 2, 3].map(|number| self.address(number));
        match self.direction() {
            1 => Ends { destination: three, source: two, bssid: one },
            2 => Ends { destination: one, source: three, bssid: two },
            _ => Ends { destination: one, source: two, bssid: three },
        }
    }
}

/// A number behind the header, at this offset from its end.
pub(super) fn field(data: &[u8], at: usize) -> Option<u16> {
    bytes(data, Header::BYTES + at).map(u16::from_le_bytes)
}

/// The first information element with this number, from an offset on. Truncated parts are omitted.
pub(super) fn find(data: &[u8], from: usize, number: u8) -> Option<&[u8]> {
    let mut rest = data.get(from..)?;
    let mut found = None;
    // If an element comes twice, the last one is used, as in Click.
    while let [id, length, after @ ..] = rest {
        let (body, next) = after.split_at_checked(usize::from(*length)).unwrap_or((after, &[]));
        if *id == number {
            found = Some(body);
        }
        rest = next;
    }
    found
}

/// The name of a network.
pub(super) fn ssid(data: &[u8], from: usize) -> String {
    let name = find(data, from, element::SSID).unwrap_or_default();
    String::from_utf8_lossy(name.get(..32).unwrap_or(name)).into_owned()
}

/// The description of a network in a beacon or a probe response.
#[derive(Clone, Debug)]
pub(super) struct Beacon {
    pub(super) interval: u16,
    pub(super) capability: u16,
    pub(super) ssid: String,
    pub(super) channel: Option<u8>,
    pub(super) rates: Vec<u8>,
}

impl Beacon {
    /// Behind the header: a time, the interval, capabilities, and information elements.
    pub(super) fn of(data: &[u8]) -> Option<Beacon> {
        let elements = Header::BYTES + 12;
        Some(Beacon {
            interval: field(data, 8)?,
            capability: field(data, 10)?,
            ssid: ssid(data, elements),
            channel: find(data, elements, element::CHANNEL).and_then(|body| body.first().copied()),
            rates: [element::RATES, element::MORE_RATES]
                .iter()
                .filter_map(|number| find(data, elements, *number))
                .flat_map(|body| body.iter().take(FIRST_RATES).copied())
                .collect(),
        })
    }
}

/// Rates without the mark of basic rates.
pub(super) fn plain(rates: &[u8]) -> Vec<u8> {
    rates.iter().map(|rate| rate & !BASIC).collect()
}

/// Basic and other rates, each with blanks between them.
pub(super) fn split_rates(rates: &[u8]) -> (String, String) {
    let some = |basic: bool| {
        let chosen = rates.iter().filter(|rate| (**rate & BASIC != 0) == basic);
        chosen.map(|rate| (rate & !BASIC).to_string()).collect::<Vec<_>>().join(" ")
    };
    (some(true), some(false))
}

/// Names of a network's capabilities, with blanks between them.
pub(super) fn capabilities(bits: u16) -> String {
    let names = CAPABILITIES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    names.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// Capabilities and rates in the form of lists of networks.
pub(super) fn abilities(capability: u16, rates: &[u8]) -> String {
    let spaced = |text: String| if text.is_empty() { text } else { text + " " };
    let (basic, others) = split_rates(rates);
    let mut line = format!("[ {}] ", spaced(capabilities(capability)));
    // Writing to a String cannot fail.
    let _ = write!(line, "( {{ {}}} {})", spaced(basic), spaced(others));
    line
}
