//! Counts the packets that end in each element.
//!
//! A packet ends when its handle is dropped. Its buffer goes back to the arena, which counts it
//! ([`Arena::freed`](europa_pool::Arena::freed)). The engine reads that count before and after each
//! call of an element, and adds the difference to the element's account. So elements need no code
//! for this. A buffer that returns at any other time is in no account, and is missing in the
//! equation that `europa doctor --live` checks.
//!
//! The cost is a comparison before and after each call, which works on a batch.

use crate::context::DROP;
use crate::devices::NoDevices;
use crate::router::Router;
use crate::state::with_element;

/// No element runs.
const NOBODY: usize = usize::MAX;
/// Most unconnected outputs with separate counts. Packets for further ones count as lost in their
/// element.
const MOST_OUTPUTS: usize = 64;

/// Packets that have ended in a graph, and in earlier graphs with the same packets, by cause. A
/// cause is an element with its class, or a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// By elements that consume packets on purpose.
    pub consumed: Vec<(String, u64)>,
    /// By all other elements and causes.
    pub dropped: Vec<(String, u64)>,
}

/// Packets for an output that leads nowhere.
#[derive(Clone, Copy, Debug)]
struct Unconnected {
    element: u32,
    output: u32,
    packets: u64,
}

/// The accounts of a graph.
pub(crate) struct Ledger {
    /// The arena's count of freed buffers when the running element began or continued.
    mark: u64,
    /// The running element.
    running: usize,
    /// By element: packets that ended in it.
    ended: Vec<u64>,
    /// Never longer than its capacity.
    unconnected: Vec<Unconnected>,
    /// The counts of earlier graphs.
    past: Ends,
}

impl Ledger {
    pub(crate) fn of(elements: usize) -> Ledger {
        Ledger {
            mark: 0,
            running: NOBODY,
            ended: vec![0; elements],
            unconnected: Vec::with_capacity(MOST_OUTPUTS),
            past: Ends::default(),
        }
    }

    /// Notes that an element begins to run. Returns the element that continues after it.
    #[inline(always)]
    pub(crate) fn enter(&mut self, freed: u64, element: usize) -> usize {
        if freed != self.mark {
            self.charge(freed);
        }
        std::mem::replace(&mut self.running, element)
    }

    /// The running element returns.
    #[inline(always)]
    pub(crate) fn leave(&mut self, freed: u64, outer: usize) {
        if freed != self.mark {
            self.charge(freed);
        }
        self.running = outer;
    }

    #[inline(never)]
    fn charge(&mut self, freed: u64) {
        // No element runs between calls.
        if let Some(ended) = self.ended.get_mut(self.running) {
            *ended = ended.wrapping_add(freed.wrapping_sub(self.mark));
        }
        self.mark = freed;
    }

    /// Notes packets for an output without a connection, which are about to be dropped.
    #[cold]
    pub(crate) fn lose(&mut self, element: usize, output: usize, packets: usize) {
        let packets = packets as u64;
        if output == usize::from(DROP) {
            // The element's own decision.
            if let Some(ended) = self.ended.get_mut(element) {
                *ended += packets;
                self.mark = self.mark.wrapping_add(packets);
            }
            return;
        }
        let (element, output) = (element as u32, output as u32);
        let is_it = |of: &&mut Unconnected| of.element == element && of.output == output;
        let room = self.unconnected.len() < MOST_OUTPUTS;
        match self.unconnected.iter_mut().find(is_it) {
            Some(found) => found.packets += packets,
            None if packets == 0 || !room => return,
            None => self.unconnected.push(Unconnected { element, output, packets }),
        }
        self.mark = self.mark.wrapping_add(packets);
    }
}

/// Adds packets to the count of the same cause.
fn add(to: &mut Vec<(String, u64)>, cause: String, packets: u64) {
    match to.iter_mut().find(|(known, _)| *known == cause) {
        Some((_, count)) => *count += packets,
        None if packets > 0 => to.push((cause, packets)),
        None => {}
    }
}

impl Router {
    /// The packets that have ended in this graph, and in graphs whose state it took over, by cause.
    pub fn ends(&mut self) -> Ends {
        let mut ends = self.core.ledger.past.clone();
        for index in 0..self.core.names.len() {
            let ended = self.core.ledger.ended.get(index).copied().unwrap_or_default();
            if ended == 0 {
                continue;
            }
            let cause = self.cause(index);
            let consumes = self.core.described.get(index).is_some_and(|of| of.info.consumes);
            let lost = match consumes {
                true => with_element(
                    &mut self.core,
                    &mut self.elements,
                    &mut NoDevices,
                    index,
                    |element, _| element.lost().min(ended),
                )
                .unwrap_or_default(),
                false => ended,
            };
            add(&mut ends.dropped, cause.clone(), lost);
            add(&mut ends.consumed, cause, ended - lost);
        }
        for of in &self.core.ledger.unconnected {
            let element = self.cause(of.element as usize);
            let cause = format!("{element}: output {} is not connected", of.output);
            add(&mut ends.dropped, cause, of.packets);
        }
        ends
    }

    /// An element as a cause.
    fn cause(&self, index: usize) -> String {
        let name = self.core.names.get(index).map_or("", String::as_str);
        let class = self.core.classes.get(index).copied().unwrap_or_default();
        format!("{name} ({class})")
    }

    /// Continues the accounts of the former graph.
    pub(crate) fn take_ledger(&mut self, old: &mut Router) {
        self.core.ledger.past = old.ends();
    }

    /// Notes packets that have ended with the former graph, because they waited in elements that
    /// the new one lacks.
    pub fn note_replaced(&mut self, packets: u64) {
        add(&mut self.core.ledger.past.dropped, REPLACED.to_owned(), packets);
    }
}

/// The cause of packets that end because they waited in a former graph.
const REPLACED: &str = "waited in a configuration that was replaced";

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use europa_pool::{Arena, Batch, Packet};

    use super::*;
    use crate::{
        Class, ClassInfo, ConfigError, Connection, Context, Element, Graph, GraphElement,
        InitContext, Registry,
    };

    thread_local! {
        /// Packets that the keeper holds between its calls.
        static KEPT: RefCell<Vec<Packet>> = const { RefCell::new(Vec::new()) };
    }

    /// Sends three packets to the keeper and one to an unconnected output, once.
    #[derive(Default)]
    struct Maker(bool);

    impl Class for Maker {
        const INFO: ClassInfo = ClassInfo::new("Maker", "0/1-2").processing("h/h");
    }

    impl Element for Maker {
        fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
            context.add_task(1024);
            Ok(())
        }

        fn run_task(&mut self, context: &mut Context<'_>) -> bool {
            if std::mem::replace(&mut self.0, true) {
                return false;
            }
            for output in [0, 0, 0, 1] {
                if let Some(packet) = context.arena().alloc() {
                    context.push(output, packet);
                }
            }
            true
        }
    }

    /// Drops a packet, keeps one, copies it, and leaves the rest to the engine.
    #[derive(Default)]
    struct Keeper<const CONSUMES: bool>;

    impl<const CONSUMES: bool> Class for Keeper<CONSUMES> {
        const INFO: ClassInfo = {
            let info = ClassInfo::new("Keeper", "1/0").processing("h/h");
            if CONSUMES { info.consumes() } else { info }
        };
    }

    impl<const CONSUMES: bool> Element for Keeper<CONSUMES> {
        fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
            drop(batch.pop());
            let kept =
                batch.pop().into_iter().flat_map(|packet| [packet.try_clone(), Some(packet)]);
            KEPT.with_borrow_mut(|all| all.extend(kept.flatten()));
        }

        fn lost(&self) -> u64 {
            1
        }
    }

    /// Packets that were made, minus present packets and packets that ended for a cause.
    fn missing(router: &mut Router, arena: &Arena) -> i64 {
        let (tally, ends) = (arena.tally(), router.ends());
        let causes = ends.consumed.iter().chain(&ends.dropped);
        let ended: u64 = causes.map(|(_, count)| count).sum();
        (tally.made + tally.copied) as i64 - (ended + tally.held) as i64
    }

    fn run<const CONSUMES: bool>() -> (Router, Arena) {
        let mut registry = Registry::default();
        registry.add::<Maker>();
        registry.add::<Keeper<CONSUMES>>();
        let element = |class: &str| GraphElement {
            name: class.to_lowercase(),
            class: class.to_owned(),
            arguments: Vec::new(),
        };
        let graph = Graph {
            elements: vec![element("Maker"), element("Keeper")],
            connections: vec![Connection { from: 0, output: 0, to: 1, input: 0, pull: false }],
            one_by_one: false,
        };
        let arena = Arena::heap(16, 512);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        while router.run_once(0, &mut NoDevices) {}
        (router, arena)
    }

    #[test]
    fn each_end_is_on_its_elements_account() {
        let (mut router, arena) = run::<false>();
        let nowhere = ("maker (Maker): output 1 is not connected".to_owned(), 1);
        let keeper = |count| ("keeper (Keeper)".to_owned(), count);
        let dropped = vec![keeper(2), nowhere.clone()];
        assert_eq!(router.ends(), Ends { consumed: Vec::new(), dropped });
        assert_eq!((missing(&mut router, &arena), arena.tally().held), (0, 2));
        KEPT.with_borrow_mut(Vec::clear);
        let (mut router, _arena) = run::<true>();
        let (consumed, dropped) = (vec![keeper(1)], vec![keeper(1), nowhere]);
        assert_eq!(router.ends(), Ends { consumed, dropped });
        KEPT.with_borrow_mut(Vec::clear);
    }

    #[test]
    fn what_is_dropped_behind_the_engine_is_missing() {
        let (mut router, arena) = run::<false>();
        KEPT.with_borrow_mut(|kept| drop(kept.pop()));
        assert_eq!(missing(&mut router, &arena), 1);
        KEPT.with_borrow_mut(Vec::clear);
        assert_eq!(missing(&mut router, &arena), 2);
    }
}
