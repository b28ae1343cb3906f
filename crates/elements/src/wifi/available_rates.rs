//! # AvailableRates
//!
//! ## Synopsis
//! `AvailableRates([DEFAULT RATE..., ETH RATE..., ...])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Holds the bit rates that stations of an IEEE 802.11 network support, for the elements that name
//! it as their RT. The unit of rates is 500 kb/s: 2, 4, 11 and 22 are those of 802.11b.
//!
//! It holds at most 4096 stations. One more station removes all stations that were learned from
//! frames.
//!
//! ## Arguments
//! - DEFAULT RATE...: rates of unknown stations. Rates of other stations count only if they are
//!   among these.
//! - ETH RATE...: rates of the station with this Ethernet address.
//!
//! ## Handlers
//! - `rates` (read): a station a line.
//! - `insert` (write): as an argument.
//! - `remove` (write): Ethernet address.
//! - `debug` (read, write): accepted as in Click, without effect.
//!
//! ## See also
//! `WirelessInfo`, `ProbeTXRate`, `BeaconScanner`

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use europa_engine::{Names, Value, arguments};
use europa_packet::MacAddr;

use super::reference::Shared;
use crate::prelude::*;

/// Most stations.
const STATIONS: usize = 4096;

/// Rates by station.
#[derive(Default)]
pub(crate) struct Rates {
    usual: Vec<u8>,
    stations: BTreeMap<[u8; 6], Vec<u8>>,
}

impl Rates {
    /// The rates of a station, or the default ones without an entry; `None` without a station.
    pub(super) fn of(&self, station: MacAddr) -> &[u8] {
        match self.stations.get(&station.0) {
            _ if station == MacAddr::ZERO => &[],
            Some(own) => own,
            None => &self.usual,
        }
    }

    /// Records the rates received from a station.
    pub(super) fn learn(&mut self, station: MacAddr, mut rates: Vec<u8>) {
        if station == MacAddr::ZERO {
            return;
        }
        if !self.usual.is_empty() {
            rates.retain(|rate| self.usual.contains(rate));
        }
        self.set(station.0, rates);
    }

    fn set(&mut self, station: [u8; 6], rates: Vec<u8>) {
        if self.stations.len() >= STATIONS && !self.stations.contains_key(&station) {
            self.stations.clear();
        }
        self.stations.insert(station, rates);
    }

    /// An argument.
    fn insert(&mut self, text: &str, names: &Names) -> Result<(), String> {
        let mut words = text.split_whitespace();
        let who = words.next().unwrap_or_default();
        let rates: Option<Vec<u8>> = words.map(|word| u8::parse(word, names)).collect();
        let rates = rates.filter(|rates| !rates.is_empty() && !rates.contains(&0));
        let Some(rates) = rates else {
            return Err(format!("expected 'ETH RATE...', rates from 1 to 255, found '{text}'"));
        };
        match <[u8; 6]>::parse(who, names) {
            _ if who == "DEFAULT" => self.usual = rates,
            Some(station) => self.set(station, rates),
            None => return Err(format!("expected DEFAULT or an Ethernet address, found '{who}'")),
        }
        Ok(())
    }

    fn text(&self) -> String {
        let line = |who: &str, rates: &[u8]| {
            let rates: String = rates.iter().map(|rate| format!(" {rate}")).collect();
            format!("{who} {rates}\n")
        };
        let usual = (!self.usual.is_empty()).then(|| line("DEFAULT", &self.usual));
        let stations = self.stations.iter();
        let stations = stations.map(|(station, rates)| line(&MacAddr(*station).dashed(), rates));
        usual.into_iter().chain(stations).collect()
    }
}

/// Stores the rates of stations.
#[derive(Default)]
pub(crate) struct AvailableRates {
    rates: Rc<RefCell<Rates>>,
    debug: bool,
}

impl Class for AvailableRates {
    const INFO: ClassInfo = ClassInfo::new("AvailableRates", "0/0");
}

impl Shared for AvailableRates {
    type What = Rates;

    fn share(&self) -> Rc<RefCell<Rates>> {
        self.rates.clone()
    }
}

impl Element for AvailableRates {
    arguments! { this, given;
        let texts = rest "ETH RATES": "'ETH RATE [RATE ...]', or DEFAULT for an address";
        then {
            let mut rates = this.rates.borrow_mut();
            for (index, text) in texts {
                rates
                    .insert(text, given.names())
                    .map_err(|message| ConfigError::at(index, message))?;
            }
        }
    }

    handlers! { this, context, value;
        read "rates" => this.rates.borrow().text();
        write "insert" => {
            let mut rates = this.rates.borrow_mut();
            rates.insert(value, context.address_names()).map_err(HandlerError::Other)?;
        };
        write "remove" => {
            let station: [u8; 6] = parse("remove", value)?;
            this.rates.borrow_mut().stations.remove(&station);
        };
        both "debug" [CHECKBOX] => this.debug;
    }

    keep! { this, old;
        then {
            this.rates.borrow_mut().stations = std::mem::take(&mut old.rates.borrow_mut().stations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn rates_of_stations() {
        let arguments = ["DEFAULT 2 4 11 22", "2:0:0:0:0:1 2 108"];
        let mut bench = Bench::try_new("AvailableRates", &arguments, None, Some(0)).unwrap();
        bench.router.write("e.insert", "2:0:0:0:0:2 4").unwrap();
        bench.router.write("e.remove", "2:0:0:0:0:3").unwrap();
        let text = "DEFAULT  2 4 11 22\n02-00-00-00-00-01  2 108\n02-00-00-00-00-02  4\n";
        assert_eq!(bench.router.read("e.rates", ""), Ok(text.into()));
        for bad in ["DEFAULT", "2:0:0:0:0:2", "x 2", "2:0:0:0:0:2 0", "2:0:0:0:0:2 256"] {
            assert!(bench.router.write("e.insert", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_heard_counts_as_far_as_it_is_usual() {
        let mut rates = Rates { usual: vec![2, 4], ..Rates::default() };
        let station = MacAddr([2; 6]);
        assert_eq!((rates.of(station), rates.of(MacAddr::ZERO)), (&[2, 4][..], &[][..]));
        rates.learn(station, vec![4, 108]);
        assert_eq!(rates.of(station), [4]);
        for number in 0..2 * STATIONS as u32 {
            let [a, b, c, d] = number.to_be_bytes();
            rates.learn(MacAddr([2, 1, a, b, c, d]), vec![2]);
        }
        assert!(rates.stations.len() <= STATIONS);
    }
}
