//! Counts the packets of a router by place.

use europa_engine::Devices;
use serde::{Deserialize, Serialize};

use crate::running::Running;

/// Packets that reached a router, by origin and by end, and packets that it now holds. At rest
/// `received + made + copied = sent + to_linux + consumed + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Taken from receive rings.
    pub received: u64,
    /// Made by its elements.
    pub made: u64,
    /// Copies of other packets that the router's elements made.
    pub copied: u64,
    /// Packets put into transmit rings of the router's interfaces.
    pub sent: u64,
    /// Packets put into rings to the router's own Linux.
    pub to_linux: u64,
    /// Packets ended by elements that consume packets on purpose, by element.
    pub consumed: Vec<(String, u64)>,
    /// Packets ended by other elements, by cause.
    pub dropped: Vec<(String, u64)>,
    /// Packets that wait in elements.
    pub held: u64,
}

impl Running {
    /// The router's packets, since its pool was made.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let ends = self.router.ends();
        let tally = self.devices.endpoint.tally();
        let mut ledger = Ledger {
            made: tally.made,
            copied: tally.copied,
            held: tally.held,
            consumed: ends.consumed,
            dropped: ends.dropped,
            ..Ledger::default()
        };
        for index in 0.. {
            let Some(interface) = self.devices.interface(index) else { break };
            let (received, sent) = self.devices.endpoint.passed(index);
            ledger.received += received;
            match interface.name.contains('@') {
                true => ledger.to_linux += sent,
                false => ledger.sent += sent,
            }
        }
        ledger
    }
}
