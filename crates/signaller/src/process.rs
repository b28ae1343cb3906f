//! The loop of the process: orders of the node, sockets of fast paths, timers.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError, Served};
use europa_signal::Time;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::orders::{FlowPlan, Order, RouterPlan, Said};
use crate::router::Router;
use crate::{search, show, trail};

/// The maximum number of orders that are carried out in one turn.
const MOST_ORDERS: usize = 64;

/// Why a signaller ends.
#[derive(Debug, thiserror::Error)]
pub enum SignallerError {
    /// The node's end of the channel.
    #[error("orders: {0}")]
    Channel(#[from] ChannelError),
    /// The first message was not [`Order::Start`], or had no descriptor.
    #[error("the first order must be to start, with a listening socket")]
    Start,
    /// The kernel.
    #[error("sleeping: {0}")]
    Sleep(nix::Error),
}

/// Runs a signaller that receives its orders from `control`, and after the end of that node from
/// the next node. It runs until it is killed.
///
/// # Errors
/// The error that ended the signaller. If the node ends before it orders the start, the signaller
/// ends without an error.
pub fn run(control: OwnedFd) -> Result<(), SignallerError> {
    let mut orders: Channel<Said, Order> = Channel::new(control);
    let (seed, listener) = match orders.receive() {
        Ok((Order::Start { seed, .. }, descriptors)) => {
            (seed, descriptors.into_iter().next().ok_or(SignallerError::Start)?)
        }
        Ok(_) => return Err(SignallerError::Start),
        Err(ChannelError::Closed) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut process = Process {
        orders: Served::new(orders, listener),
        routers: BTreeMap::new(),
        flows: Vec::new(),
        started: Instant::now(),
        seed,
    };
    loop {
        process.turn()?;
    }
}

struct Process {
    orders: Served<Said, Order>,
    routers: BTreeMap<String, Router>,
    flows: Vec<FlowPlan>,
    started: Instant,
    seed: u64,
}

impl Process {
    /// The state machines' clock, which does not begin with 0.
    fn now(&self) -> Time {
        Time::after(self.started.elapsed() + Duration::from_secs(1))
    }

    fn turn(&mut self) -> Result<(), SignallerError> {
        self.sleep()?;
        for _ in 0..MOST_ORDERS {
            let Some((order, descriptors)) = self.orders.try_receive()? else { break };
            self.obey(order, descriptors.into_iter().next())?;
        }
        let now = self.now();
        let mut said = Vec::new();
        for router in self.routers.values_mut() {
            if router.is_attached() {
                router.hear(now);
            }
            router.tick(now);
            said.append(&mut router.said);
        }
        let take = |any, router: &mut Router| any | std::mem::take(&mut router.is_new);
        if self.routers.values_mut().fold(false, take) {
            self.routers.values_mut().for_each(|router| router.again(now));
        }
        self.resume(now);
        self.search(now);
        for said in said {
            self.orders.send(&said, &[])?;
        }
        Ok(())
    }

    /// Signals kept LSPs along their paths, which label tables have.
    fn resume(&mut self, now: Time) {
        let kept = self.routers.iter().flat_map(|(router, one)| {
            one.kept().map(move |(flow, lsp)| (router.clone(), flow.to_owned(), lsp))
        });
        for (name, flow, lsp) in kept.collect::<Vec<_>>() {
            let trail = trail::trail(&self.routers, &name, &lsp);
            if let Some(router) = self.routers.get_mut(&name) {
                router.resume(&flow, trail, now);
            }
        }
    }

    /// Searches for paths for flows that have none.
    fn search(&mut self, now: Time) {
        let searching = self.routers.values_mut().flat_map(Router::searching);
        let searching: Vec<FlowPlan> = searching.collect();
        for flow in searching {
            let nodes: Vec<_> = self.routers.values().map(Router::node).collect();
            let path = search::path(&nodes, &flow.router, flow.destination, flow.rate);
            if let (Some(path), Some(router)) = (path, self.routers.get_mut(&flow.router)) {
                router.take_path(&flow.name, path, now);
            }
        }
    }

    /// Sleeps until there is an order or a message, or work is due.
    fn sleep(&self) -> Result<(), SignallerError> {
        let due = self.routers.values().filter_map(Router::next_deadline).min();
        let timeout = match due {
            None => PollTimeout::NONE,
            Some(due) => {
                let wait = due.since(self.now());
                // Rounded up: otherwise the loop would spin until the time is reached.
                PollTimeout::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut wait = vec![PollFd::new(self.orders.as_fd(), PollFlags::POLLIN)];
        let routers = self.routers.values().filter_map(Router::fd);
        wait.extend(routers.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut wait, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(SignallerError::Sleep(error)),
        }
    }

    fn obey(&mut self, order: Order, socket: Option<OwnedFd>) -> Result<(), SignallerError> {
        match order {
            Order::Start { .. } => {}
            Order::Routers(plans) => self.set_routers(plans),
            Order::Flows(flows) => {
                self.flows = flows;
                let now = self.now();
                let flows = &self.flows;
                self.routers.values_mut().for_each(|router| router.set_flows(flows, now));
            }
            Order::Attach(name) => {
                if let (Some(router), Some(socket)) = (self.routers.get_mut(&name), socket) {
                    router.attach(socket);
                }
            }
            Order::Show => {
                let shown = show::shown(&self.routers);
                self.orders.send(&Said::Shown(Box::new(shown)), &[])?;
            }
        }
        Ok(())
    }

    fn set_routers(&mut self, plans: Vec<RouterPlan>) {
        let now = self.now();
        self.routers.retain(|name, _| plans.iter().any(|plan| plan.name == *name));
        for plan in plans {
            match self.routers.get_mut(&plan.name) {
                Some(router) if router.is_same_but_for_routes(&plan) => {
                    router.set_routes(plan, now);
                }
                before => {
                    let was_attached = before.is_some_and(|before| before.is_attached());
                    // The increment of SplitMix64: each start has another seed.
                    self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let name = plan.name.clone();
                    let mut router = Router::new(plan, mixed(self.seed));
                    router.set_flows(&self.flows, now);
                    if was_attached {
                        // The node attaches it again; the signaller then reads the entries of its
                        // label table.
                        router.said.push(Said::Detached(name.clone()));
                    }
                    self.routers.insert(name, router);
                }
            }
        }
    }
}

/// SplitMix64's output.
fn mixed(seed: u64) -> u64 {
    let seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ seed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ seed >> 31
}
