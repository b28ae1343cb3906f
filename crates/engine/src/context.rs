//! What an element can reach while it runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use europa_pool::{Arena, Batch, Packet};
use europa_resource::Resource;

use crate::arguments::ConfigError;
use crate::call::Global;
use crate::devices::{Devices, Interface, NoDevices};
use crate::element::{ClassInfo, Element};
use crate::names::Names;
use crate::select::{Interest, Watched};
use crate::signal::Signal;
use crate::timers::Timers;
use crate::turns::Turns;
use crate::work::WorkList;

/// An element, or nothing while it runs.
pub(crate) type Slot = Option<Box<dyn Element>>;

/// No connection.
pub(crate) const UNCONNECTED: u32 = u32::MAX;

/// What [`Context::forward_each`] is told to drop a packet.
pub const DROP: u16 = u16::MAX;

/// An input port, or where a pull input gets its packets from.
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
    /// By input: whose it is.
    pub(crate) inputs: Vec<Port>,
    /// By input: the output to pull from, if it is a pull input.
    pub(crate) sources: Vec<Option<Port>>,
    /// By output: the input that it pushes to, or [`UNCONNECTED`].
    pub(crate) targets: Vec<u32>,
}

#[inline(always)]
fn at(base: &[u32], element: usize, port: usize) -> Option<usize> {
    let (start, end) = (*base.get(element)? as usize, *base.get(element + 1)? as usize);
    (port < end - start).then_some(start + port)
}

fn count(base: &[u32], element: usize) -> usize {
    match (base.get(element), base.get(element + 1)) {
        (Some(start), Some(end)) => (end - start) as usize,
        _ => 0,
    }
}

/// What has gone through an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Calls with packets.
    pub batches: u64,
    /// Packets pushed to it.
    pub packets: u64,
}

/// What a router has beside its elements.
pub(crate) struct Core {
    pub(crate) wiring: Wiring,
    pub(crate) work: WorkList,
    /// The input that the batch in hand goes to next, or [`UNCONNECTED`]; see
    /// [`Context::forward`].
    pub(crate) forward: u32,
    pub(crate) timers: Timers,
    pub(crate) arena: Arena,
    pub(crate) now_ns: u64,
    /// What to add to `now_ns` for nanoseconds since 1970.
    pub(crate) wall_offset_ns: u64,
    pub(crate) accounts: Vec<Account>,
    pub(crate) tasks: Vec<Task>,
    /// Their order where they have shares that differ.
    pub(crate) turns: Turns,
    /// By packet of the batch in hand: the output it is for. Kept, as filling it with zeros
    /// for each batch would cost a quarter of a nanosecond a packet.
    pub(crate) ports: Vec<u16>,
    /// While a batch is split: outputs and their packets.
    pub(crate) lanes: Vec<(u16, Batch)>,
    pub(crate) names: Vec<String>,
    /// By element: name of its class.
    pub(crate) classes: Vec<&'static str>,
    /// Packets that are followed, if somebody asked for it.
    pub(crate) trace: Option<crate::trace::Trace>,
    pub(crate) index: HashMap<String, usize>,
    /// Requests to stop that nobody has looked at yet.
    pub(crate) stops: u32,
    pub(crate) stopped: bool,
    /// The element that decides about requests to stop.
    pub(crate) manager: Option<usize>,
    pub(crate) log: Box<dyn FnMut(&str)>,
    /// Who gets a copy of every message.
    pub(crate) overheard: Vec<Rc<RefCell<Vec<String>>>>,
    pub(crate) described: Vec<Described>,
    /// Names that stand for addresses.
    pub(crate) address_names: Names,
    /// Handlers of the router that were added to it.
    pub(crate) globals: Vec<Global>,
    /// What was written to elements while they ran.
    pub(crate) deferred: Vec<(usize, String, String)>,
    /// What the element that is being initialised finds odd.
    pub(crate) warnings: Vec<String>,
    pub(crate) watched: Vec<Watched>,
    /// Signals of the operating system and who wants them.
    pub(crate) signals: Vec<(i32, usize)>,
    /// Most packets of a pull: one in Click's order.
    pub(crate) most: usize,
}

/// What is known of each element beside its state.
pub(crate) struct Described {
    pub(crate) info: ClassInfo,
    pub(crate) arguments: Vec<String>,
}

impl Core {
    /// Writes a message, and gives a copy to all who want one.
    pub(crate) fn say(&mut self, line: &str) {
        (self.log)(line);
        for copies in &self.overheard {
            copies.borrow_mut().push(line.to_owned());
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

    /// Whether some tasks are to have more turns than others.
    #[inline]
    pub(crate) fn shared_unevenly(&self) -> bool {
        self.tasks.windows(2).any(|pair| match pair {
            [a, b] => a.tickets != b.tickets,
            _ => false,
        })
    }

    /// The task whose turn it is where shares differ.
    pub(crate) fn next_turn(&mut self) -> Option<usize> {
        let tickets = |task: usize| self.tasks.get(task).map_or(1, |task| task.tickets);
        self.turns.next(&tickets, self.tasks.len())
    }
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

fn range(base: &[u32], element: usize) -> Range<usize> {
    match (base.get(element), base.get(element + 1)) {
        (Some(start), Some(end)) => *start as usize..*end as usize,
        _ => 0..0,
    }
}

/// An element that has work of its own.
pub(crate) struct Task {
    pub(crate) element: usize,
    pub(crate) tickets: u32,
    /// Whether its last turn found work.
    pub(crate) worked: bool,
}

/// Calls `call` with one element taken out of its place, so that it can reach all others.
/// Nothing happens if it is out already (a pull path that leads back to its start).
#[inline(always)]
pub(crate) fn with_element<R>(
    core: &mut Core,
    elements: &mut [Slot],
    devices: &mut dyn Devices,
    me: usize,
    call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> R,
) -> Option<R> {
    let mut element = elements.get_mut(me)?.take()?;
    let result = call(&mut *element, &mut Context { core, elements, devices, me });
    if let Some(slot) = elements.get_mut(me) {
        *slot = Some(element);
    }
    Some(result)
}

/// What an element can reach while it runs: its ports, the clock, timers, packets, devices.
pub struct Context<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) elements: &'a mut [Slot],
    pub(crate) devices: &'a mut dyn Devices,
    pub(crate) me: usize,
}

impl Context<'_> {
    /// Sends one packet out of push output `port`. It is dropped if nothing is connected.
    /// The receiver runs later, never inside this call.
    #[inline(always)]
    pub fn push(&mut self, port: usize, packet: Packet) {
        if let Some(input) = self.target(port) {
            self.core.work.push(input, packet);
        }
    }

    /// Sends all packets of `batch` out of push output `port`, and leaves it empty.
    /// Costs no copy if nothing waits at the other end.
    #[inline(always)]
    pub fn push_batch(&mut self, port: usize, batch: &mut Batch) {
        match self.target(port) {
            Some(input) => self.core.work.push_batch(input, batch),
            None => batch.clear(),
        }
    }

    /// Only for [`Element::push`], with the batch that it was given, and as its last act: sends
    /// what is left in the batch out of push output `port`. If nothing else is under way, the
    /// batch goes straight on to the receiver, which saves the way through the work list.
    #[inline(always)]
    pub fn forward(&mut self, port: usize, batch: &mut Batch) {
        match self.target(port) {
            Some(input) => self.core.forward = input,
            None => batch.clear(),
        }
    }

    /// Sends each packet out of the push output that `route` names; drops it for `None`.
    /// Empty afterwards. Costs no copy if one output gets all.
    #[inline(always)]
    pub fn push_each(
        &mut self,
        batch: &mut Batch,
        mut route: impl FnMut(&mut Packet) -> Option<usize>,
    ) {
        let number = |packet: &mut Packet| route(packet).map_or(DROP, |port| port as u16);
        if let Some(port) = self.split(batch, number) {
            self.push_batch(port, batch);
        }
    }

    /// As [`Context::push_each`], under the conditions of [`Context::forward`]. For classes with
    /// a loop so short that an `Option` counts: `route` says the number of the output, or
    /// [`DROP`].
    #[inline(always)]
    pub fn forward_each(&mut self, batch: &mut Batch, route: impl FnMut(&mut Packet) -> u16) {
        if let Some(port) = self.split(batch, route) {
            self.forward(port, batch);
        }
    }

    /// The one output that all packets are for, or `None` if there is none: then all packets
    /// have been sent.
    #[inline(always)]
    fn split(
        &mut self,
        batch: &mut Batch,
        mut route: impl FnMut(&mut Packet) -> u16,
    ) -> Option<usize> {
        // All are the same if what all have in common is what any has.
        let (mut all, mut any) = (u16::MAX, 0);
        for (packet, place) in batch.iter_mut().zip(&mut self.core.ports) {
            let port = route(packet);
            *place = port;
            all &= port;
            any |= port;
        }
        if all == any && all != DROP {
            return Some(usize::from(all));
        }
        self.push_mixed(batch);
        None
    }

    /// Sends each packet out of its own output, as [`Core::ports`] says.
    #[inline(never)]
    fn push_mixed(&mut self, batch: &mut Batch) {
        let ports = std::mem::take(&mut self.core.ports);
        // A batch for each output, so that the work list is asked once for each.
        let mut lanes = std::mem::take(&mut self.core.lanes);
        for (packet, port) in batch.drain().zip(&ports) {
            if *port == DROP {
                continue;
            }
            let lane = match lanes.iter().position(|(of, _)| of == port) {
                Some(at) => lanes.get_mut(at),
                None => {
                    lanes.push((*port, self.core.work.take_batch()));
                    lanes.last_mut()
                }
            };
            if let Some((_, lane)) = lane {
                // As many as come from one batch fit into another.
                let _ = lane.push(packet);
            }
        }
        for (port, mut lane) in lanes.drain(..) {
            self.push_batch(usize::from(port), &mut lane);
            self.core.work.give_batch(lane);
        }
        (self.core.ports, self.core.lanes) = (ports, lanes);
    }

    #[inline(always)]
    fn target(&self, port: usize) -> Option<u32> {
        let wiring = &self.core.wiring;
        let output = at(&wiring.output_base, self.me, port)?;
        wiring.targets.get(output).copied().filter(|input| *input != UNCONNECTED)
    }

    /// Asks whatever is connected to pull input `port` for up to `max` packets, which are
    /// added to `batch`. Returns how many came.
    #[inline(always)]
    pub fn pull(&mut self, port: usize, max: usize, batch: &mut Batch) -> usize {
        let max = max.min(batch.room()).min(self.core.most);
        let before = batch.len();
        let wiring = &self.core.wiring;
        let source = at(&wiring.input_base, self.me, port)
            .and_then(|input| wiring.sources.get(input).copied().flatten());
        if let Some(source) = source {
            with_element(
                self.core,
                self.elements,
                self.devices,
                source.element as usize,
                |element, context| element.pull(source.port as usize, max, batch, context),
            );
            if self.core.trace.is_some() {
                crate::trace::pulled(self.core, source, batch, before);
            }
        }
        batch.len() - before
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        count(&self.core.wiring.input_base, self.me)
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        count(&self.core.wiring.output_base, self.me)
    }

    /// Time of this round on a clock that never goes back, in nanoseconds.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// Time of this round in nanoseconds since 1970.
    pub fn wall_ns(&self) -> u64 {
        self.core.now_ns.wrapping_add(self.core.wall_offset_ns)
    }

    /// Sets this element's timer number `timer` to a time of [`Context::now_ns`].
    pub fn schedule(&mut self, timer: u32, at_ns: u64) {
        self.core.timers.schedule((self.me, timer), at_ns);
    }

    /// Stops this element's timer number `timer`.
    pub fn unschedule(&mut self, timer: u32) {
        self.core.timers.unschedule((self.me, timer));
    }

    /// Where new packets come from.
    pub fn arena(&self) -> &Arena {
        &self.core.arena
    }

    /// An empty batch from the stock; give it back with [`Context::give_batch`].
    #[inline(always)]
    pub fn take_batch(&mut self) -> Batch {
        self.core.work.take_batch()
    }

    /// Gives a batch back to the stock; packets in it are dropped.
    #[inline(always)]
    pub fn give_batch(&mut self, batch: Batch) {
        self.core.work.give_batch(batch);
    }

    /// The interfaces. In handlers there are none.
    #[inline(always)]
    pub fn devices(&mut self) -> &mut dyn Devices {
        self.devices
    }

    /// Name of this element.
    pub fn name(&self) -> &str {
        self.core.names.get(self.me).map_or("", String::as_str)
    }

    /// Writes a line where the router writes its messages.
    pub fn log(&mut self, line: &str) {
        self.core.say(line);
    }

    /// Asks the router to stop, as `STOP true` and the `stop` handler do: at once, unless an
    /// element like `DriverManager` decides about it.
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Takes requests to stop back: the router goes on as if they had not been made.
    pub fn cancel_stops(&mut self) {
        self.core.stops = 0;
    }

    /// Takes what has been written to handlers of this element while it runs, with the values,
    /// oldest first. What it does not take is written when it has come to its end.
    pub fn take_writes(&mut self) -> Vec<(String, String)> {
        let me = self.me;
        let own = self.core.deferred.extract_if(.., |(index, _, _)| *index == me);
        own.map(|(_, handler, value)| (handler, value)).collect()
    }

    /// Most packets of one turn, where the configuration does not say: a batch, or one where
    /// packets go one by one.
    pub fn burst(&self) -> usize {
        self.core.most
    }

    /// Whether a signal is active: there may be packets, or room.
    pub fn is_active(&mut self, signal: &Signal) -> bool {
        crate::signal::is_active(self.core, self.elements, self.devices, signal)
    }

    /// Waits for a descriptor: [`Element::descriptor_ready`] is called with `token` whenever it
    /// is ready, until [`Context::unwatch`].
    pub fn watch(&mut self, token: u32, interest: Interest, descriptor: Rc<dyn AsFd>) {
        self.unwatch(token, interest);
        self.core.watched.push(Watched::new(self.me, token, interest, descriptor));
    }

    /// Ends what [`Context::watch`] began.
    pub fn unwatch(&mut self, token: u32, interest: Interest) {
        let me = self.me;
        self.core.watched.retain(|watched| !watched.is(me, token, interest));
    }

    /// Number of this element.
    pub fn index(&self) -> usize {
        self.me
    }

    /// Number of the element of this name, seen from this element.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.core.find_from(self.name(), name)
    }

    /// Names of all elements, by number.
    pub fn names(&self) -> &[String] {
        &self.core.names
    }

    /// Class of element `index`.
    pub fn class_of(&self, index: usize) -> Option<&'static str> {
        self.core.classes.get(index).copied()
    }

    /// Numbers of the elements before input `port` of element `index`, or before all its
    /// inputs.
    pub fn sources(&self, index: usize, port: Option<usize>) -> Vec<usize> {
        let wiring = &self.core.wiring;
        let mut found = Vec::new();
        for (number, input) in wiring.inputs_of(index).enumerate() {
            if port.is_some_and(|port| port != number) {
                continue;
            }
            let pulled = wiring.sources.get(input).copied().flatten();
            found.extend(pulled.map(|source| source.element as usize));
            for element in 0..self.core.names.len() {
                let mut targets = wiring.outputs_of(element).map(|at| wiring.targets.get(at));
                if targets.any(|target| target.is_some_and(|t| *t as usize == input)) {
                    found.push(element);
                }
            }
        }
        found
    }

    /// Numbers of the elements behind output `port` of element `index`, or behind all its
    /// outputs.
    pub fn targets(&self, index: usize, port: Option<usize>) -> Vec<usize> {
        let wiring = &self.core.wiring;
        let mut found = Vec::new();
        for (number, output) in wiring.outputs_of(index).enumerate() {
            if port.is_some_and(|port| port != number) {
                continue;
            }
            let target = wiring.targets.get(output).and_then(|at| wiring.inputs.get(*at as usize));
            found.extend(target.map(|input| input.element as usize));
            let from = Port { element: index as u32, port: number as u32 };
            let pulls = wiring.inputs.iter().zip(&wiring.sources);
            let pulls = pulls.filter(|(_, source)| **source == Some(from));
            found.extend(pulls.map(|(input, _)| input.element as usize));
        }
        found
    }

    /// Names that stand for addresses, as this element sees them.
    pub fn address_names(&mut self) -> &Names {
        let scope = self.core.names.get(self.me).map_or("", String::as_str);
        self.core.address_names.enter(scope);
        &self.core.address_names
    }

    /// Calls `call` with another element, which can reach all others meanwhile. `None` if that
    /// one runs itself.
    pub fn with_element<R>(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> R,
    ) -> Option<R> {
        with_element(self.core, self.elements, self.devices, index, call)
    }

    /// Another element, by the number [`InitContext::find`] gave. `None` while it runs itself.
    pub fn element(&mut self, index: usize) -> Option<&mut dyn Element> {
        self.elements.get_mut(index)?.as_deref_mut()
    }
}

/// What an element can reach while it is initialised.
pub struct InitContext<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) elements: &'a mut [Slot],
    pub(crate) devices: &'a dyn Devices,
    pub(crate) me: usize,
}

impl InitContext<'_> {
    /// See [`Devices::selects`].
    pub fn selects(&self) -> bool {
        self.devices.selects()
    }

    /// Notes something odd that does not stop the router.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.core.warnings.push(message.into());
    }

    /// Asks for [`crate::Element::run_task`] in every round; `tickets` in 1024ths of a turn.
    pub fn add_task(&mut self, tickets: u32) {
        self.core.tasks.push(Task { element: self.me, tickets, worked: true });
    }

    /// As [`Context::schedule`].
    pub fn schedule(&mut self, timer: u32, at_ns: u64) {
        self.core.timers.schedule((self.me, timer), at_ns);
    }

    /// As [`Context::now_ns`].
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// Where new packets come from.
    pub fn arena(&self) -> &Arena {
        &self.core.arena
    }

    /// The interface of this name and its number.
    pub fn interface(&self, name: &str) -> Option<(usize, &Interface)> {
        let index = self.devices.index(name)?;
        Some((index, self.devices.interface(index)?))
    }

    /// Opens a file or socket.
    ///
    /// # Errors
    /// Why not: [`ConfigError::NotGranted`] if the router may not have it.
    pub fn open(&self, resource: &Resource) -> Result<OwnedFd, ConfigError> {
        self.devices.open(resource).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                ConfigError::NotGranted { resource: resource.to_string() }
            }
            _ => {
                let text = error.to_string();
                let reason = text.split(" (os error").next().unwrap_or(&text);
                ConfigError::other(format!("{}: {reason}", resource.what()))
            }
        })
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        count(&self.core.wiring.input_base, self.me)
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        count(&self.core.wiring.output_base, self.me)
    }

    /// Whether output `port` is a connected push output.
    pub fn is_push_output(&self, port: usize) -> bool {
        at(&self.core.wiring.output_base, self.me, port)
            .and_then(|output| self.core.wiring.targets.get(output))
            .is_some_and(|input| *input != UNCONNECTED)
    }

    /// Whether input `port` is a pull input: packets come only when asked for.
    pub fn is_pull(&self, port: usize) -> bool {
        at(&self.core.wiring.input_base, self.me, port)
            .and_then(|input| self.core.wiring.sources.get(input).copied().flatten())
            .is_some()
    }

    /// Name of this element.
    pub fn name(&self) -> &str {
        self.core.names.get(self.me).map_or("", String::as_str)
    }

    /// Number of the element of this name, seen from this element: inside a compound
    /// element, its own neighbours come first.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.core.find_from(self.name(), name)
    }

    /// Number of this element.
    pub fn index(&self) -> usize {
        self.me
    }

    /// Names of all elements, by number.
    pub fn names(&self) -> &[String] {
        &self.core.names
    }

    /// Class of element `index`.
    pub fn class_of(&self, index: usize) -> Option<&'static str> {
        self.core.classes.get(index).copied()
    }

    /// As [`Context::burst`].
    pub fn burst(&self) -> usize {
        self.core.most
    }

    /// Whoever pulls from output `output` of this element gets its packets from whatever input
    /// `input` gets them from, without it.
    pub fn pull_through(&mut self, output: usize, input: usize) {
        let wiring = &mut self.core.wiring;
        let source = at(&wiring.input_base, self.me, input)
            .and_then(|input| wiring.sources.get(input).copied().flatten());
        let own = Port { element: self.me as u32, port: output as u32 };
        if source.is_some() {
            for place in wiring.sources.iter_mut().filter(|place| **place == Some(own)) {
                *place = source;
            }
        }
    }

    /// What to ask ([`Context::is_active`]) whether there may be packets for a pull input.
    /// Elements that are initialised later have no other answer then.
    pub fn upstream(&self, port: usize) -> Signal {
        crate::signal::upstream(self.core, self.elements, self.me, port)
    }

    /// What to ask whether there may be room behind a push output.
    pub fn downstream(&self, port: usize) -> Signal {
        crate::signal::downstream(self.core, self.elements, self.me, port)
    }

    /// As [`Context::watch`].
    pub fn watch(&mut self, token: u32, interest: Interest, descriptor: Rc<dyn AsFd>) {
        self.core.watched.push(Watched::new(self.me, token, interest, descriptor));
    }

    /// Puts a copy of every message into `copies`. Whoever asks takes them out again.
    pub fn overhear(&mut self, copies: Rc<RefCell<Vec<String>>>) {
        self.core.overheard.push(copies);
    }

    /// Asks for [`Element::caught_signal`] when this signal of the operating system comes.
    pub fn catch_signal(&mut self, signal: i32) {
        self.core.signals.push((signal, self.me));
    }

    /// Asks for [`Element::stop_requested`] when something asks the router to stop. Returns
    /// whether no other element has.
    pub fn manage_stops(&mut self) -> bool {
        let first = self.core.manager.is_none();
        self.core.manager.get_or_insert(self.me);
        first
    }

    /// Asks the router to stop, as [`Context::stop`].
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// How many turns element `index` gets among others, in 1024ths.
    pub fn set_tickets(&mut self, index: usize, tickets: u32) {
        self.core.set_tickets(index, tickets);
    }

    /// Writes a line where the router writes its messages.
    pub fn log(&mut self, line: &str) {
        self.core.say(line);
    }

    /// Names that stand for addresses, as this element sees them.
    pub fn address_names(&mut self) -> &Names {
        let scope = self.core.names.get(self.me).map_or("", String::as_str);
        self.core.address_names.enter(scope);
        &self.core.address_names
    }

    /// Lends what the element can reach while it runs: for handlers of others. Those that are
    /// initialised later may not know yet what to answer.
    pub fn with_context<R>(&mut self, call: impl FnOnce(&mut Context<'_>) -> R) -> R {
        call(&mut Context {
            core: self.core,
            elements: self.elements,
            devices: &mut NoDevices,
            me: self.me,
        })
    }

    /// Another element by number.
    pub fn element(&mut self, index: usize) -> Option<&mut dyn Element> {
        self.elements.get_mut(index)?.as_deref_mut()
    }
}
