//! Several workers: distributes an order in the right sequence, and joins their answers.
//!
//! Each router belongs to one worker, which takes its packets, and each port to one worker, which
//! sends by it. Between the two a packet is handed over: see `handover`. All workers know all pools
//! and interfaces. The first worker receives the node's orders, and passes them to the others. The
//! node waits for the answer; the other workers continue.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::filters::Filters;
use crate::handover::{End, between};
use crate::intake::TURN;
use crate::orders::{Answer, Order, Served, SwitchStats, Target, TunnelStats, port_worker};
use crate::peer::Peer;
use crate::worker::Worker;

/// An order from the first worker to another one.
pub(crate) enum Told {
    /// An order of the node; see [`Worker::obey`].
    Order(Box<Order>, Vec<OwnedFd>, Option<End>),
    /// Its part of filters.
    Filters(Box<Filters>),
}

/// The place of a worker's orders.
pub(crate) struct Desk {
    told: Receiver<Told>,
    answers: Sender<Answer>,
}

impl Desk {
    /// Carries out an order.
    pub(crate) fn obey(&self, worker: &mut Worker) {
        while let Ok(told) = self.told.try_recv() {
            let answer = match told {
                Told::Order(order, descriptors, end) => worker.obey(*order, descriptors, end),
                Told::Filters(filters) => {
                    worker.tables.filters = Some(filters);
                    Answer::Done
                }
            };
            // The first worker ends only with the process.
            let _ = self.answers.send(answer);
        }
    }
}

/// A worker from the second on.
struct Hand {
    peer: Arc<Peer>,
    told: Sender<Told>,
    answers: Receiver<Answer>,
}

impl Hand {
    fn tell(&self, told: Told) -> Answer {
        let gone = || Answer::Refused("a worker has ended".into());
        if self.told.send(told).is_err() {
            return gone();
        }
        self.peer.order();
        self.answers.recv().unwrap_or_else(|_| gone())
    }
}

/// The workers from the second on, for the first one.
pub(crate) struct Crew {
    hands: Vec<Hand>,
    /// Of all workers.
    peers: Vec<Arc<Peer>>,
}

impl Crew {
    /// The first worker alone, which is this one.
    pub(crate) fn of(first: Vec<Arc<Peer>>) -> Self {
        Self { hands: Vec::new(), peers: first }
    }

    /// One more worker: the place of its orders.
    pub(crate) fn hire(&mut self, peer: Arc<Peer>) -> Desk {
        let ((told, desk_told), (desk_answers, answers)) = (channel(), channel());
        self.peers.push(peer.clone());
        self.hands.push(Hand { peer, told, answers });
        Desk { told: desk_told, answers: desk_answers }
    }

    fn count(&self) -> u32 {
        self.peers.len() as u32
    }

    /// Has the concerned workers carry out an order. `first` is the worker that calls.
    pub(crate) fn obey(
        &self,
        first: &mut Worker,
        order: Order,
        descriptors: Vec<OwnedFd>,
    ) -> Answer {
        if matches!(order, Order::Filters | Order::Ways { .. })
            && let Err(why) = self.make_filters(first)
        {
            return Answer::Refused(why);
        }
        if self.hands.is_empty() {
            return first.obey(order, descriptors, None);
        }
        let whom = self.whom(&order, first);
        let mut ends = self.ends(&order, first);
        let mut answers = Vec::with_capacity(whom.len());
        let mut left = Some(descriptors);
        for (index, worker) in whom.iter().enumerate() {
            let copies = if index + 1 < whom.len() {
                let all = left.iter().flatten();
                all.map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>()
            } else {
                Ok(left.take().unwrap_or_default())
            };
            let end = ends.iter_mut().find(|(of, _)| of == worker).and_then(|(_, end)| end.take());
            let answer = match copies {
                Ok(copies) => self.tell(first, *worker, order.clone(), copies, end),
                Err(error) => Answer::Refused(format!("descriptors: {error}")),
            };
            if let Answer::Refused(_) = answer {
                // For the node, a refused order has changed nothing.
                for told in whom.iter().take(index).rev() {
                    if let Some(back) = opposite(&order) {
                        self.tell(first, *told, back, Vec::new(), None);
                    }
                }
                return answer;
            }
            answers.push(answer);
        }
        answers.into_iter().reduce(merged).unwrap_or(Answer::Done)
    }

    /// Lets one worker carry out an order.
    fn tell(
        &self,
        first: &mut Worker,
        worker: u32,
        order: Order,
        descriptors: Vec<OwnedFd>,
        end: Option<End>,
    ) -> Answer {
        match worker.checked_sub(1).and_then(|hand| self.hands.get(hand as usize)) {
            Some(hand) => hand.tell(Told::Order(Box::new(order), descriptors, end)),
            None => first.obey(order, descriptors, end),
        }
    }

    /// The workers of an order, in sequence: a worker that hands packets over gets new objects
    /// after the worker that takes them, and loses removed ones before it.
    fn whom(&self, order: &Order, first: &Worker) -> Vec<u32> {
        let tables = &first.tables;
        let of_pool = |pool: &u32| tables.pools.get(pool).map_or(0, |pool| pool.worker);
        let of_interface = |id: u32| {
            let found = tables.interfaces.iter().find(|interface| interface.id == id);
            found.map_or(0, |interface| of_pool(&interface.pool))
        };
        let others = |worker| (0..self.count()).filter(move |other| *other != worker);
        let then_others = |worker| std::iter::once(worker).chain(others(worker)).collect();
        match order {
            Order::AddPool { worker, .. } => then_others(*worker),
            Order::RemovePool { pool } => then_others(of_pool(pool)),
            Order::RemoveInterface { interface } => then_others(of_interface(*interface)),
            Order::AddInterface { pool, .. } => {
                let worker = of_pool(pool);
                others(worker).chain([worker]).collect()
            }
            Order::AddInline { pool } => vec![of_pool(pool)],
            Order::Filter { interface, .. } | Order::Impair { interface, .. } => {
                vec![of_interface(*interface)]
            }
            Order::AddPort { port, .. }
            | Order::Rate { port, .. }
            | Order::Queues { port, .. }
            | Order::RemovePort { port } => vec![port_worker(*port, self.count())],
            Order::Ways { .. }
            | Order::Tunnel { .. }
            | Order::RemoveTunnel { .. }
            | Order::Stats
            | Order::Describe => (0..self.count()).collect(),
            Order::Start { .. } | Order::Filters | Order::TunnelSockets => vec![0],
        }
    }

    /// The ends of a ring between two workers, if an interface's packets cross over.
    fn ends(&self, order: &Order, first: &Worker) -> Vec<(u32, Option<End>)> {
        let Order::AddInterface { pool, to: Target::Port(port), .. } = order else {
            return Vec::new();
        };
        let Some(from) = first.tables.pools.get(pool).map(|pool| pool.worker) else {
            return Vec::new();
        };
        let to = port_worker(*port, self.count());
        let peers = (self.peers.get(from as usize), self.peers.get(to as usize));
        let ((Some(from_peer), Some(to_peer)), true) = (peers, from != to) else {
            return Vec::new();
        };
        let (outgoing, incoming) = between(from_peer, to_peer);
        vec![(from, Some(End::Out(outgoing))), (to, Some(End::In(incoming)))]
    }

    /// Filters are made when they are needed first.
    fn make_filters(&self, first: &mut Worker) -> Result<(), String> {
        if first.tables.filters.is_some() {
            return Ok(());
        }
        let all = Filters::new(self.peers.len(), TURN).map_err(|error| error.to_string())?;
        let mut all = all.into_iter().map(Box::new);
        first.tables.filters = all.next();
        for (hand, filters) in self.hands.iter().zip(all) {
            if let Answer::Refused(why) = hand.tell(Told::Filters(filters)) {
                return Err(why);
            }
        }
        Ok(())
    }
}

/// The inverse of an order that several workers get and may refuse.
fn opposite(order: &Order) -> Option<Order> {
    match *order {
        Order::AddPool { pool, .. } => Some(Order::RemovePool { pool }),
        Order::AddInterface { interface, .. } => Some(Order::RemoveInterface { interface }),
        _ => None,
    }
}

/// Joins two workers' answers to an order.
fn merged(one: Answer, other: Answer) -> Answer {
    match (one, other) {
        (Answer::Stats(one), Answer::Stats(other)) => Answer::Stats(summed(one, other)),
        (Answer::Served(one), Answer::Served(other)) => Answer::Served(Served {
            pools: [one.pools, other.pools].concat(),
            ports: [one.ports, other.ports].concat(),
            interfaces: [one.interfaces, other.interfaces].concat(),
            inline: [one.inline, other.inline].concat(),
            // Each worker has all of them.
            tunnels: one.tunnels,
        }),
        (one, _) => one,
    }
}

fn summed(one: SwitchStats, other: SwitchStats) -> SwitchStats {
    SwitchStats {
        kicks: one.kicks + other.kicks,
        live_frames: one.live_frames + other.live_frames,
        socket_calls: one.socket_calls + other.socket_calls,
        socket_frames: one.socket_frames + other.socket_frames,
        link_frames: one.link_frames + other.link_frames,
        sleeps: one.sleeps + other.sleeps,
        ports: [one.ports, other.ports].concat(),
        links: [one.links, other.links].concat(),
        inline: [one.inline, other.inline].concat(),
        tunnels: one.tunnels.into_iter().zip(other.tunnels).map(sum_of_tunnel).collect(),
        foreign_packets: one.foreign_packets + other.foreign_packets,
        malformed_packets: one.malformed_packets + other.malformed_packets,
    }
}

/// One worker sends by a tunnel, and the first receives.
fn sum_of_tunnel((one, other): (TunnelStats, TunnelStats)) -> TunnelStats {
    let sends = if one.tx_packets + one.too_long + one.refused > 0 { one } else { other };
    TunnelStats { reception: one.reception, ..sends }
}
