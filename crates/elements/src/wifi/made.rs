//! Management frames that elements make.

use europa_engine::Context;
use europa_packet::MacAddr;

use super::frame::{BASIC, FIRST_RATES, Header, element};

/// A frame that grows.
pub(super) struct Made(Vec<u8>);

impl Made {
    /// A management frame of this kind.
    pub(super) fn new(subtype: u8, destination: MacAddr, source: MacAddr, bssid: MacAddr) -> Made {
        let mut frame = Vec::with_capacity(Header::BYTES + 128);
        frame.extend([subtype, 0, 0, 0]);
        frame.extend(destination.0);
        frame.extend(source.0);
        frame.extend(bssid.0);
        // The driver numbers it.
        frame.extend([0, 0]);
        Made(frame)
    }

    /// Adds a number.
    pub(super) fn number(mut self, number: u16) -> Made {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Adds bytes.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Made {
        self.0.extend(bytes);
        self
    }

    /// Adds an information element.
    pub(super) fn element(mut self, number: u8, body: &[u8]) -> Made {
        let body = body.get(..255).unwrap_or(body);
        self.0.extend([number, body.len() as u8]);
        self.0.extend(body);
        self
    }

    /// Adds the first rates.
    pub(super) fn rates(self, rates: &[u8]) -> Made {
        self.element(element::RATES, rates.get(..FIRST_RATES).unwrap_or(rates))
    }

    /// Adds the remaining rates, if there are any.
    pub(super) fn more_rates(self, rates: &[u8]) -> Made {
        match rates.get(FIRST_RATES..) {
            Some(more) if !more.is_empty() => self.element(element::MORE_RATES, more),
            _ => self,
        }
    }

    /// Sends the frame by output 0; drops it if there is no room.
    pub(super) fn send(self, context: &mut Context<'_>) {
        let packet = context.arena().packet(&self.0);
        if let Some(packet) = packet {
            context.push(0, packet);
        }
    }
}

/// Rates in the form of frames. 1 Mb/s is marked as basic; if `high`, as at 5 GHz, 6 Mb/s is.
pub(super) fn with_basic(rates: &[u8], high: bool) -> Vec<u8> {
    let basic = |rate: u8| rate == 2 || rate == 12 && high;
    rates.iter().map(|rate| if basic(*rate) { rate | BASIC } else { *rate }).collect()
}
