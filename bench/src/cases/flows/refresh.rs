//! Two signallers with many paths between them, in virtual time: messages arrive at once.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use europa_signal::wire::{
    AbstractNode, ExplicitRoute, LabelRequest, Sender, Session, SessionAttribute, TokenBucket,
    Tspec,
};
use europa_signal::{
    Adjacency, Admit, Config, Demand, Event, Holder, Input, Interface, InterfaceId, Lack, LspKey,
    Offer, Output, Route, Signaller, Time, Tunnel,
};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::{Context, Error, Result};

/// Paths between the two.
const PATHS: u16 = 10_000;
/// Periods of refreshes that are measured.
const PERIODS: u32 = 10;
/// The only interface of each.
const INTERFACE: InterfaceId = InterfaceId(1);
const ENDS: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// The results.
#[derive(Serialize)]
pub(super) struct Refreshed {
    pub(super) paths: u16,
    /// Paths that come up in a second of CPU time of both ends.
    pub(super) per_second: f64,
    /// CPU seconds a second of virtual time, of both ends.
    pub(super) load: f64,
    /// Messages of both in a second of virtual time.
    pub(super) messages_per_second: f64,
}

/// One neighbour, and room for everything.
struct Beside(IpAddr);

impl Admit for Beside {
    fn exchange(
        &mut self,
        _: InterfaceId,
        _: &Holder,
        _: Option<&Demand>,
        _: Option<&Demand>,
    ) -> std::result::Result<(), Lack> {
        Ok(())
    }

    fn offer(&self, _: InterfaceId) -> Offer {
        Offer { bandwidth: 1e9, ..Offer::default() }
    }
}

impl Route for Beside {
    fn next_hop(&self, _: IpAddr) -> Option<Adjacency> {
        Some(Adjacency { interface: INTERFACE, address: self.0 })
    }

    fn neighbour_in(&self, _: &AbstractNode) -> Option<Adjacency> {
        self.next_hop(self.0)
    }

    fn node_of(&self, _: Adjacency) -> Option<IpAddr> {
        None
    }
}

/// Both signallers and what is on the line.
struct Pair {
    ends: [IpAddr; 2],
    signallers: Vec<Signaller>,
    line: VecDeque<(usize, IpAddr, u8, Vec<u8>)>,
    messages: u64,
    up: u16,
    now: Time,
}

impl Pair {
    fn new() -> Result<Self> {
        let parsed = ENDS.map(|text| text.parse::<IpAddr>());
        let [Ok(one), Ok(other)] = parsed else {
            return Err(Error::Other("an address of the signallers".into()));
        };
        let ends = [one, other];
        let now = Time::after(Duration::from_secs(1));
        let signaller = |(seed, address): (u64, IpAddr)| {
            let mut config = Config::new(address, seed);
            let addresses = vec![address];
            let interface =
                Interface { id: INTERFACE, addresses, mtu: 1500, colours: 0, key: None };
            config.interfaces = vec![interface];
            Signaller::new(config, now)
        };
        let signallers = [(7, one), (8, other)].map(signaller).into_iter().collect();
        Ok(Self { ends, signallers, line: VecDeque::new(), messages: 0, up: 0, now })
    }

    /// Gives one end an input, and carries out what follows until both are quiet.
    fn hand(&mut self, end: usize, input: Input<'_>) {
        self.one(end, input);
        while let Some((to, source, ttl, bytes)) = self.line.pop_front() {
            self.one(to, Input::Packet { interface: INTERFACE, source, ttl, bytes: &bytes });
        }
    }

    fn one(&mut self, end: usize, input: Input<'_>) {
        let mut world = Beside(self.ends[1 - end]);
        let now = self.now;
        let Some(signaller) = self.signallers.get_mut(end) else { return };
        let mut outputs = signaller.handle(now, input, &mut world);
        while !outputs.is_empty() {
            let mut tickets = Vec::new();
            for output in outputs.drain(..) {
                match output {
                    Output::Send(sent) => {
                        self.messages += 1;
                        self.line.push_back((1 - end, sent.source, sent.ttl, sent.bytes));
                    }
                    Output::Program(program) => tickets.push(program.ticket),
                    Output::Event(Event::Up { .. }) => self.up += 1,
                    Output::Event(_) | Output::Remember(_) => {}
                }
            }
            for ticket in tickets {
                let done = Input::Programmed { ticket, is_done: true };
                outputs.extend(signaller.handle(now, done, &mut world));
            }
        }
    }

    /// Lets time pass.
    fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let next = (0..2).filter_map(|one| Some((self.signallers[one].next_deadline()?, one)));
            let Some((due, one)) = next.min().filter(|(due, _)| *due <= end) else { break };
            self.now = self.now.max(due);
            self.hand(one, Input::Tick);
        }
        self.now = end;
    }

    fn tunnel(&self, number: u16) -> Tunnel {
        let [head, tail] = self.ends;
        let bucket = TokenBucket {
            rate: 1000.0.into(),
            depth: 1500.0.into(),
            peak: f32::INFINITY.into(),
            smallest: 64,
            largest: 1500,
        };
        Tunnel {
            lsp: LspKey {
                session: Session::new(tail, number, head),
                sender: Sender { address: head, lsp: 1 },
            },
            tspec: Tspec(bucket),
            attribute: SessionAttribute {
                affinity: None,
                setup: 7,
                hold: 7,
                flags: SessionAttribute::SHARED_EXPLICIT,
                name: b"bench".to_vec(),
            },
            route: ExplicitRoute(Vec::new()),
            is_recorded: true,
            protocol: LabelRequest::IPV4,
        }
    }
}

/// Makes the paths, and refreshes them.
pub(super) fn run() -> Result<Refreshed> {
    let cpu = || {
        let read = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("a thread's clock")?;
        Ok::<_, Error>(Duration::from(read))
    };
    let mut pair = Pair::new()?;
    // Hellos are exchanged, so that both know each other's capabilities.
    pair.run_for(Duration::from_secs(5));
    let begun = cpu()?;
    for number in 1..=PATHS {
        let tunnel = pair.tunnel(number);
        pair.hand(0, Input::Create(tunnel));
    }
    let created = cpu()?.saturating_sub(begun);
    pair.run_for(Duration::from_secs(60));
    if pair.up < PATHS {
        return Err(Error::Other(format!("{} of {PATHS} paths are up", pair.up)));
    }
    let period = Duration::from_secs(30);
    let (begun, before) = (cpu()?, pair.messages);
    pair.run_for(period * PERIODS);
    let spent = cpu()?.saturating_sub(begun).as_secs_f64();
    let time = (period * PERIODS).as_secs_f64();
    let lsps = pair.signallers.iter().map(|one| one.lsps().count()).min().unwrap_or(0);
    if lsps < usize::from(PATHS) {
        return Err(Error::Other(format!("{lsps} of {PATHS} paths are left")));
    }
    Ok(Refreshed {
        paths: PATHS,
        per_second: f64::from(PATHS) / created.as_secs_f64(),
        load: spent / time,
        messages_per_second: (pair.messages - before) as f64 / time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_up_and_stay() {
        let mut pair = Pair::new().unwrap();
        pair.run_for(Duration::from_secs(5));
        for number in 1..=20 {
            let tunnel = pair.tunnel(number);
            pair.hand(0, Input::Create(tunnel));
        }
        pair.run_for(Duration::from_secs(600));
        assert_eq!(pair.up, 20);
        assert!(pair.signallers.iter().all(|one| one.lsps().count() == 20));
    }
}
