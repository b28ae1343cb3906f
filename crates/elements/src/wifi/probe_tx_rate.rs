//! # ProbeTXRate
//!
//! ## Synopsis
//! `ProbeTXRate(RT, WINDOW [, OFFSET, THRESHOLD, ACTIVE])`
//!
//! ## Ports
//! Two inputs, up to two outputs. Input 0, push or pull: frames to send, which leave by output 0.
//! Input 1, push: frames of this host that the driver has returned after sending, which leave by
//! output 1.
//!
//! ## Description
//! Chooses a sending rate for each frame: the rate at which frames to the same station took the
//! least time lately. Every tenth frame gets another rate that might be faster. Frames to groups
//! get the first rate.
//!
//! It keeps at most 4096 stations. One more station clears the table.
//!
//! ## Arguments
//! All keywords.
//! - RT: name of an `AvailableRates`.
//! - WINDOW: milliseconds for which a result counts.
//! - OFFSET: where the station's address is in the frame, default 0.
//! - THRESHOLD: lost frames that are shorter than this do not count, default 0.
//! - ACTIVE: whether to choose rates, default true.
//! - DEBUG: log the result of each frame, default false.
//!
//! ## Handlers
//! - `rates` (read): the statistics of each station and rate.
//! - `threshold`, `offset`, `active`, `debug` (read, write): see the arguments.
//! - `reset` (write): forgets all.
//!
//! ## See also
//! `AvailableRates`, `SetTXRate`, `FilterTX`

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use europa_packet::MacAddr;

use super::available_rates::AvailableRates;
use super::extra::FAILED;
use super::{Extra, Reference, say};
use crate::prelude::*;
use crate::shared::fields::bytes;
use crate::shared::random::Random;
use crate::shared::values::Time;

/// Most stations, and most results of each.
const STATIONS: usize = 4096;
const RESULTS: usize = 4096;
/// Bytes of the frame by which rates are compared.
const FRAME: u32 = 1500;

/// Microseconds for a frame of 1500 bytes with this number of repetitions (IEEE 802.11 section
/// 10.3). Each repetition takes a wait for the medium, the frame, and its acknowledgement.
fn microseconds(rate: u8, retries: u8) -> u32 {
    let slow = matches!(rate, 2 | 4 | 11 | 22);
    let (slot, pause, acknowledgement) = if slow { (20, 10, 304) } else { (9, 9, 30) };
    let preamble = match rate {
        2 => 192,
        _ if slow => 96,
        _ => 20,
    };
    let frame = 2 * (preamble + FRAME * 8) / u32::from(rate.max(1));
    let mut window = 31;
    (0..=retries)
        .map(|_| {
            let wait = slot * window / 2;
            window = (2 * (window + 1)).min(1023);
            wait + frame + pause + acknowledgement
        })
        .sum()
}

/// The results of the frames at one rate.
#[derive(Clone, Copy, Default)]
struct Tally {
    rate: u8,
    packets: u32,
    success: u32,
    fail: u32,
    tries: u32,
    time_us: u64,
}

impl Tally {
    /// Microseconds for a frame that arrived.
    fn average(&self) -> Option<u64> {
        self.time_us.checked_div(self.success.into())
    }
}

/// The result of one frame.
struct Outcome {
    at_ns: u64,
    /// Which of the rates.
    index: usize,
    success: bool,
    tries: u32,
    time_us: u64,
}

/// The statistics of a station.
#[derive(Default)]
struct Station {
    tallies: Vec<Tally>,
    outcomes: VecDeque<Outcome>,
    count: u64,
}

impl Station {
    fn new(rates: &[u8]) -> Station {
        let tallies = rates.iter().map(|rate| Tally { rate: *rate, ..Tally::default() });
        Station { tallies: tallies.collect(), ..Station::default() }
    }

    /// Removes older entries.
    fn trim(&mut self, since_ns: u64) {
        while let Some(first) = self.outcomes.front()
            && (first.at_ns < since_ns || self.outcomes.len() > RESULTS)
        {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Some(outcome) = self.outcomes.pop_front() else { return };
        if let Some(tally) = self.tallies.get_mut(outcome.index) {
            tally.packets -= 1;
            tally.tries -= outcome.tries;
            tally.time_us -= outcome.time_us;
            *if outcome.success { &mut tally.success } else { &mut tally.fail } -= 1;
        }
    }

    fn add(&mut self, at_ns: u64, rate: u8, success: bool, retries: u8) {
        let Some(index) = self.tallies.iter().position(|tally| tally.rate == rate) else { return };
        if self.outcomes.len() >= RESULTS {
            self.forget();
        }
        let (tries, time_us) = (u32::from(retries) + 1, microseconds(rate, retries).into());
        if let Some(tally) = self.tallies.get_mut(index) {
            tally.packets += 1;
            tally.tries += tries;
            tally.time_us += time_us;
            *if success { &mut tally.success } else { &mut tally.fail } += 1;
        }
        self.outcomes.push_back(Outcome { at_ns, index, success, tries, time_us });
    }

    /// The fastest rate. While no frame has arrived, the highest rate at which fewer than three
    /// frames were lost.
    fn best(&self) -> Tally {
        let known = self.tallies.iter().filter_map(|tally| Some((tally.average()?, tally)));
        let hopeful = || self.tallies.iter().rev().find(|tally| tally.fail < 3);
        let best = known.min_by_key(|(time, _)| *time).map(|(_, tally)| tally);
        best.or_else(hopeful).or(self.tallies.first()).copied().unwrap_or_default()
    }

    /// A rate that might be faster than the best.
    fn other(&self) -> Option<u8> {
        let best = self.best().average().unwrap_or(0);
        let possible = self.tallies.iter().filter(|tally| {
            best >= u64::from(microseconds(tally.rate, 0)) && (tally.fail <= 3 || tally.success > 0)
        });
        let possible: Vec<u8> = possible.map(|tally| tally.rate).collect();
        possible.get(Random.below(possible.len() as u32) as usize).copied()
    }

    fn text(&self, text: &mut String) {
        for tally in &self.tallies {
            let Tally { rate, packets, success, fail, tries, time_us } = *tally;
            let average_tries = match packets {
                0 => "0".to_owned(),
                _ => Time(i64::from(tries) * 1000 / i64::from(packets) * 1_000_000).to_string(),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                " {rate} success {success} fail {fail} tries {tries} perfect_usecs {} \
                 total_usecs {time_us} average_usecs {} average_tries {average_tries}",
                microseconds(rate, 0),
                tally.average().unwrap_or(0)
            );
        }
    }
}

/// Finds the best rate to each station.
#[derive(Default)]
pub(crate) struct ProbeTXRate {
    rates: Reference<AvailableRates>,
    window_ns: u64,
    offset: usize,
    threshold: usize,
    active: bool,
    debug: bool,
    stations: BTreeMap<[u8; 6], Station>,
}

impl Class for ProbeTXRate {
    const INFO: ClassInfo = ClassInfo::new("ProbeTXRate", "2/0-2").processing("ah/a").flow("#/#");
}

impl ProbeTXRate {
    /// Notes the rate of a frame.
    fn assign(&mut self, packet: &mut Packet, now_ns: u64) {
        let Some(address) = bytes(packet.data(), self.offset) else { return };
        let mut extra = Extra::of(packet);
        if !MacAddr(address).is_unicast() {
            let first = self.rates.with(|rates| rates.of(MacAddr::BROADCAST).first().copied());
            extra.rates[0] = first.unwrap_or(2);
            return extra.store(packet);
        }
        if self.stations.len() >= STATIONS && !self.stations.contains_key(&address) {
            self.stations.clear();
        }
        let station = self.stations.entry(address).or_default();
        if station.tallies.is_empty() {
            *station = self.rates.with(|rates| Station::new(rates.of(MacAddr(address))));
        }
        if station.tallies.is_empty() {
            // No rate is known: the rate from `SetTXRate` stays.
            return;
        }
        station.trim(now_ns.saturating_sub(self.window_ns));
        let best = station.best().rate;
        let tried = if station.count.is_multiple_of(10) { station.other() } else { None };
        station.count += 1;
        extra.rates = [tried.unwrap_or(best), best, 0, 0];
        extra.tries = [if tried.is_some() { 2 } else { 4 }, 2, 0, 0];
        extra.store(packet);
    }

    /// Notes the result of a frame.
    fn learn(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let (extra, now_ns) = (Extra::of(packet), context.now_ns());
        let Some(address) = bytes(packet.data(), self.offset) else { return };
        let success = !extra.has(FAILED);
        let [rate, ..] = extra.rates;
        if self.debug {
            let text = format!(
                "{} rate {rate} retries {} success {success}",
                MacAddr(address).dashed(),
                extra.retries
            );
            say(context, "ProbeTXRate", &text);
        }
        if rate != 0
            && (success || packet.len() >= self.threshold)
            && let Some(station) = self.stations.get_mut(&address)
        {
            station.add(now_ns, rate, success, extra.retries);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (address, station) in &self.stations {
            text = text + &MacAddr(*address).dashed() + "\n";
            station.text(&mut text);
        }
        text
    }
}

impl Element for ProbeTXRate {
    arguments! { this, given;
        keyword "OFFSET": usize = 0 => this.offset;
        let window_ms = keyword "WINDOW": u32 = 0;
        keyword "THRESHOLD": usize = 0 => this.threshold;
        keyword "DEBUG": bool = false => this.debug;
        mandatory_keyword "RT": "name of an element", by Reference::mandatory => this.rates;
        keyword "ACTIVE": bool = true => this.active;
        then {
            if window_ms == 0 {
                return Err(ConfigError::other("WINDOW must be > 0"));
            }
            this.window_ns = u64::from(window_ms) * 1_000_000;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.rates.connect(context)
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let active = self.active;
        for packet in batch.iter_mut().filter(|_| active) {
            match port {
                0 => self.assign(packet, context.now_ns()),
                _ => self.learn(packet, context),
            }
        }
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        let (active, now_ns) = (self.active, context.now_ns());
        own.iter_mut().filter(|_| active).for_each(|packet| self.assign(packet, now_ns));
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value;
        read "rates" => this.text();
        both "threshold" => this.threshold;
        both "offset" => this.offset;
        both "active" [CHECKBOX] => this.active;
        both "debug" [CHECKBOX] => this.debug;
        button "reset" => this.stations.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_rate_is_found() {
        let mut station = Station::new(&[2, 4, 11, 22]);
        assert_eq!(station.best().rate, 22);
        for _ in 0..3 {
            station.add(1, 22, false, 3);
        }
        assert_eq!(station.best().rate, 11);
        station.add(2, 11, true, 0);
        station.add(2, 4, true, 0);
        assert_eq!(station.best().rate, 11);
        assert!(matches!(station.other(), Some(11 | 22)));
        station.trim(3);
        assert_eq!((station.best().rate, station.outcomes.len()), (22, 0));
        for time in 0..2 * RESULTS as u64 {
            station.add(time, 2, true, 0);
        }
        assert_eq!((station.outcomes.len(), station.best().rate), (RESULTS, 2));
    }

    #[test]
    fn times_of_rates() {
        // 31 slots of 20 us to wait, half of them; 192 us of preamble; 1500 bytes at 1 Mb/s.
        assert_eq!(microseconds(2, 0), 310 + 192 + 12_000 + 10 + 304);
        assert_eq!(microseconds(108, 0), 139 + 222 + 9 + 30);
        assert!(microseconds(108, 5) > 6 * microseconds(108, 0));
    }
}
