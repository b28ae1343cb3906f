//! The parts of a running graph: elements, connections, tasks, and the shared state.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use europa_pool::{Arena, Batch};

use crate::call::Global;
use crate::context::Context;
use crate::devices::Devices;
use crate::element::{ClassInfo, Element};
use crate::ledger::Ledger;
use crate::lines::Lines;
use crate::names::Names;
use crate::room::Rooms;
use crate::select::Watched;
use crate::timers::Timers;
use crate::turns::Turns;
use crate::work::WorkList;

/// An element; `None` while it runs.
pub(crate) type Slot = Option<Box<dyn Element>>;

/// No connection.
pub(crate) const UNCONNECTED: u32 = u32::MAX;

/// An input port, or the output from which a pull input gets its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) element: u32,
    pub(crate) port: u32,
}

/// Connections, flat. Ports of element e are at `base[e]..base[e + 1]`.
#[derive(Default)]
pub(crate) struct Wiring {
    pub(crate) input_base: Vec<u32>,
    pub(crate) output_base: Vec<u32>,
    /// By input: its element and port.
    pub(crate) inputs: Vec<Port>,
    /// By input: the output to pull from, if it is a pull input.
    pub(crate) sources: Vec<Option<Port>>,
    /// By output: the input that it pushes to, or [`UNCONNECTED`].
    pub(crate) targets: Vec<u32>,
}

impl Wiring {
    /// Flat numbers of an element's inputs.
    pub(crate) fn inputs_of(&self, element: usize) -> Range<usize> {
        range(&self.input_base, element)
    }

    /// Flat numbers of an element's outputs.
    pub(crate) fn outputs_of(&self, element: usize) -> Range<usize> {
        range(&self.output_base, element)
    }

    /// Numbers of an element's inputs and outputs.
    pub(crate) fn ports_of(&self, element: usize) -> (usize, usize) {
        (count(&self.input_base, element), count(&self.output_base, element))
    }
}

#[inline(always)]
pub(crate) fn at(base: &[u32], element: usize, port: usize) -> Option<usize> {
    let (start, end) = (*base.get(element)? as usize, *base.get(element + 1)? as usize);
    (port < end - start).then_some(start + port)
}

pub(crate) fn count(base: &[u32], element: usize) -> usize {
    match (base.get(element), base.get(element + 1)) {
        (Some(start), Some(end)) => (end - start) as usize,
        _ => 0,
    }
}

fn range(base: &[u32], element: usize) -> Range<usize> {
    match (base.get(element), base.get(element + 1)) {
        (Some(start), Some(end)) => *start as usize..*end as usize,
        _ => 0..0,
    }
}

/// The packet counts of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Calls with packets.
    pub batches: u64,
    /// Packets pushed to it.
    pub packets: u64,
}

/// Data about each element, apart from its own state.
pub(crate) struct Described {
    pub(crate) info: ClassInfo,
    pub(crate) arguments: Vec<String>,
}

/// An element with a task.
pub(crate) struct Task {
    pub(crate) element: usize,
    pub(crate) tickets: u32,
    /// Whether its last turn found work.
    pub(crate) worked: bool,
    /// The thread that the configuration assigns it to.
    pub(crate) thread: u32,
}

/// A router's state apart from its elements.
pub(crate) struct Core {
    pub(crate) wiring: Wiring,
    pub(crate) work: WorkList,
    /// The next input of the current batch, or [`UNCONNECTED`]; see [`Context::forward`].
    pub(crate) forward: u32,
    pub(crate) timers: Timers,
    pub(crate) arena: Arena,
    /// The elements' limits in the pool.
    pub(crate) rooms: Rooms,
    pub(crate) now_ns: u64,
    /// The difference between `now_ns` and nanoseconds since 1970.
    pub(crate) wall_offset_ns: u64,
    pub(crate) accounts: Vec<Account>,
    /// Which elements have ended how many packets.
    pub(crate) ledger: Ledger,
    pub(crate) tasks: Vec<Task>,
    /// The order of tasks if they have different shares.
    pub(crate) turns: Turns,
    /// The output of each packet of the current batch. It is kept, because filling it with zeros
    /// for each batch would cost a quarter of a nanosecond a packet.
    pub(crate) ports: Vec<u16>,
    /// While a batch is split: outputs and their packets.
    pub(crate) lanes: Vec<(u16, Batch)>,
    pub(crate) names: Vec<String>,
    /// By element: name of its class.
    pub(crate) classes: Vec<&'static str>,
    /// The packets that are followed, while a trace runs.
    pub(crate) trace: Option<crate::trace::Trace>,
    pub(crate) index: HashMap<String, usize>,
    /// Requests to stop that are not handled yet.
    pub(crate) stops: u32,
    pub(crate) stopped: bool,
    /// The element that decides about requests to stop.
    pub(crate) manager: Option<usize>,
    pub(crate) log: Box<dyn FnMut(&str)>,
    /// Counts of the lines that elements have written.
    pub(crate) lines: Lines,
    /// The receivers of a copy of every message.
    pub(crate) overheard: Vec<Rc<RefCell<Vec<String>>>>,
    pub(crate) described: Vec<Described>,
    /// Names that stand for addresses.
    pub(crate) address_names: Names,
    /// Handlers that were added to the router.
    pub(crate) globals: Vec<Global>,
    /// Writes to elements while they ran.
    pub(crate) deferred: Vec<(usize, String, String)>,
    /// The warnings of the element during its initialisation.
    pub(crate) warnings: Vec<String>,
    pub(crate) watched: Vec<Watched>,
    /// Number of descriptors that elements have begun to wait for.
    pub(crate) watches: u64,
    /// Elements that are called before and after the process sleeps.
    pub(crate) sleepers: Vec<usize>,
    /// Signals of the operating system and their receivers.
    pub(crate) signals: Vec<(i32, usize)>,
    /// Most packets of a pull: one in a one-by-one graph.
    pub(crate) most: usize,
}

impl Core {
    /// The first element that does not keep super-packets, as `name :: Class`; `None` if all do.
    pub(crate) fn first_to_cut(&self) -> Option<String> {
        let mut all = self.names.iter().zip(&self.described);
        let (name, described) = all.find(|(_, described)| !described.info.keeps_long)?;
        Some(format!("{name} :: {}", described.info.name))
    }

    /// Writes a message, and gives a copy to all receivers.
    pub(crate) fn say(&mut self, line: &str) {
        // The writer of lines ends them.
        let line = line.strip_suffix('\n').unwrap_or(line);
        (self.log)(line);
        for copies in &self.overheard {
            copies.borrow_mut().push(line.to_owned());
        }
    }

    /// Writes a line of an element unless the element has written too many; see [`Lines`].
    pub(crate) fn say_of(&mut self, element: usize, line: &str) {
        if self.lines.admit(element, self.now_ns) {
            self.say(line);
        }
    }

    /// Reports how many lines of elements were left out.
    #[cold]
    pub(crate) fn tell_left_out(&mut self) {
        for (element, count) in self.lines.take_left_out(self.now_ns) {
            let name = self.names.get(element).map_or("", String::as_str);
            let lines = if count == 1 { "line" } else { "lines" };
            let text = format!("{name}: {count} more {lines} left out");
            self.say(&text);
        }
    }

    pub(crate) fn task(&self, element: usize) -> Option<&Task> {
        self.tasks.iter().find(|task| task.element == element)
    }

    pub(crate) fn set_tickets(&mut self, element: usize, tickets: u32) {
        for task in self.tasks.iter_mut().filter(|task| task.element == element) {
            task.tickets = tickets;
        }
    }

    pub(crate) fn set_home_thread(&mut self, element: usize, thread: u32) {
        for task in self.tasks.iter_mut().filter(|task| task.element == element) {
            task.thread = thread;
        }
    }

    /// The thread that the configuration assigns an element's task to.
    pub(crate) fn home_thread(&self, element: usize) -> u32 {
        self.task(element).map_or(0, |task| task.thread)
    }

    /// Whether tasks have different shares of turns.
    #[inline]
    pub(crate) fn shared_unevenly(&self) -> bool {
        self.tasks.windows(2).any(|pair| match pair {
            [a, b] => a.tickets != b.tickets,
            _ => false,
        })
    }

    /// The task whose turn it is, if shares differ.
    pub(crate) fn next_turn(&mut self) -> Option<usize> {
        let tickets = |task: usize| self.tasks.get(task).map_or(1, |task| task.tickets);
        self.turns.next(&tickets, self.tasks.len())
    }
}

/// Calls `call` with one element taken out of its place, so that it can reach all others. Does
/// nothing if the element is already running (a pull path that leads back to its start).
#[inline(always)]
pub(crate) fn with_element<R>(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    me: usize,
    call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> R,
) -> Option<R> {
    let mut element = elements.get_mut(me)?.take()?;
    let outer = core.ledger.enter(core.arena.freed(), me);
    let result = call(&mut *element, &mut Context { core, elements, devices, me });
    core.ledger.leave(core.arena.freed(), outer);
    if let Some(slot) = elements.get_mut(me) {
        *slot = Some(element);
    }
    Some(result)
}
