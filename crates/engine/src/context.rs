//! An element's surroundings while it runs.

use std::os::fd::AsFd;
use std::rc::Rc;

use europa_pool::{Arena, Batch, Packet};

use crate::devices::Devices;
use crate::element::Element;
use crate::names::Names;
use crate::select::{Interest, Watched};
use crate::signal::Signal;
use crate::state::{Core, Port, Slot, UNCONNECTED, at, count, with_element};

/// The value by which [`Context::forward_each`] drops a packet.
pub const DROP: u16 = u16::MAX;

/// An element's surroundings while it runs: its ports, the clock, timers, packets, devices.
pub struct Context<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) elements: &'a mut [Slot],
    pub(crate) devices: &'a mut dyn Devices,
    pub(crate) me: usize,
}

impl Context<'_> {
    /// Sends one packet out of push output `port`. The packet is dropped if nothing is connected.
    /// The receiver runs later, never inside this call.
    #[inline(always)]
    pub fn push(&mut self, port: usize, packet: Packet) {
        match self.target(port) {
            Some(input) => self.core.work.push(input, packet),
            None => self.lose(port, packet),
        }
    }

    /// Drops a packet for an output without a connection.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, port: usize, packet: Packet) {
        self.core.ledger.lose(self.me, port, 1);
        drop(packet);
    }

    /// Drops packets for an output without a connection.
    #[cold]
    #[inline(never)]
    fn lose_all(&mut self, port: usize, batch: &mut Batch) {
        self.core.ledger.lose(self.me, port, batch.len());
        batch.clear();
    }

    /// Sends all packets of `batch` out of push output `port`, and leaves `batch` empty. Copies
    /// nothing if the receiving input has no waiting packets.
    #[inline(always)]
    pub fn push_batch(&mut self, port: usize, batch: &mut Batch) {
        match self.target(port) {
            Some(input) => self.core.work.push_batch(input, batch),
            None => self.lose_all(port, batch),
        }
    }

    /// Sends the rest of the batch out of push output `port`. Call it only in [`Element::push`],
    /// with the batch of that call, and as its last action. If no other work is pending, the batch
    /// passes directly to the receiver, without the work list.
    #[inline(always)]
    pub fn forward(&mut self, port: usize, batch: &mut Batch) {
        match self.target(port) {
            Some(input) => self.core.forward = input,
            None => self.lose_all(port, batch),
        }
    }

    /// Sends each packet out of the push output that `route` names; drops it for `None`. `batch` is
    /// empty afterwards. Copies nothing if one output gets all packets.
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

    /// Works as [`Context::push_each`], under the conditions of [`Context::forward`]. For classes
    /// with a very short loop: `route` returns the number of the output, or [`DROP`], because an
    /// `Option` would cost time.
    #[inline(always)]
    pub fn forward_each(&mut self, batch: &mut Batch, route: impl FnMut(&mut Packet) -> u16) {
        if let Some(port) = self.split(batch, route) {
            self.forward(port, batch);
        }
    }

    /// The single output of all packets. `None` if packets go to several outputs: then all of them
    /// have been sent.
    #[inline(always)]
    fn split(
        &mut self,
        batch: &mut Batch,
        mut route: impl FnMut(&mut Packet) -> u16,
    ) -> Option<usize> {
        // All numbers are equal if their bitwise "and" equals their "or".
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

    /// Sends each packet to its own output, as listed in [`Core::ports`].
    #[inline(never)]
    fn push_mixed(&mut self, batch: &mut Batch) {
        let ports = std::mem::take(&mut self.core.ports);
        // Collects a batch for each output, so that the work list is searched once for each output.
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
                // A batch has room for the packets of another batch.
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

    /// Pulls up to `max` packets from the peer of pull input `port` and adds them to `batch`.
    /// Returns their number.
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

    /// Time of this round on a monotonic clock, in nanoseconds.
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

    /// The arena for new packets.
    pub fn arena(&self) -> &Arena {
        &self.core.arena
    }

    /// An empty batch from the stock; return it with [`Context::give_batch`].
    #[inline(always)]
    pub fn take_batch(&mut self) -> Batch {
        self.core.work.take_batch()
    }

    /// Returns a batch to the stock; packets in it are dropped.
    #[inline(always)]
    pub fn give_batch(&mut self, batch: Batch) {
        self.core.work.give_batch(batch);
    }

    /// The interfaces; none in handlers.
    #[inline(always)]
    pub fn devices(&mut self) -> &mut dyn Devices {
        self.devices
    }

    /// Name of this element.
    pub fn name(&self) -> &str {
        self.core.names.get(self.me).map_or("", String::as_str)
    }

    /// Writes a line to the router's messages. If an element writes many lines in a second
    /// ([`Router::set_line_limit`](crate::Router::set_line_limit)), further lines are only counted.
    pub fn log(&mut self, line: &str) {
        self.core.say_of(self.me, line);
    }

    /// Like [`Context::log`], for a line about a packet: the text is made only if it is written.
    /// `line` gets the element's name. If it returns nothing, no line is written.
    pub fn log_with<L: Into<Option<String>>>(&mut self, line: impl FnOnce(&str) -> L) {
        if self.core.lines.admit(self.me, self.core.now_ns)
            && let Some(line) = line(self.name()).into()
        {
            self.core.say(&line);
        }
    }

    /// Requests that the router stops, as `STOP true` and the `stop` handler do: at once, unless an
    /// element like `DriverManager` decides about it.
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Cancels requests to stop: the router continues as if they had not been made.
    pub fn cancel_stops(&mut self) {
        self.core.stops = 0;
    }

    /// Takes the writes to this element's handlers that arrived during its run, with the values,
    /// oldest first. Other writes are carried out after its run.
    pub fn take_writes(&mut self) -> Vec<(String, String)> {
        let me = self.me;
        let own = self.core.deferred.extract_if(.., |(index, _, _)| *index == me);
        own.map(|(_, handler, value)| (handler, value)).collect()
    }

    /// Default number of packets of one turn: a batch, or a single packet in one-by-one graphs.
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
        self.core.watches += 1;
        self.core.watched.push(Watched::new(self.me, token, interest, descriptor));
    }

    /// Ends a watch of [`Context::watch`].
    pub fn unwatch(&mut self, token: u32, interest: Interest) {
        let me = self.me;
        self.core.watched.retain(|watched| !watched.is(me, token, interest));
    }

    /// Stops catching signals of the operating system, which then have their default effect.
    pub fn release_signals(&mut self) {
        let me = self.me;
        self.core.signals.retain(|(_, element)| *element != me);
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

    /// Names of addresses that this element can use.
    pub fn address_names(&mut self) -> &Names {
        let scope = self.core.names.get(self.me).map_or("", String::as_str);
        self.core.address_names.enter(scope);
        &self.core.address_names
    }

    /// Calls `call` with another element, which can reach all others during the call. `None` if
    /// that element is running.
    pub fn with_element<R>(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> R,
    ) -> Option<R> {
        with_element(self.core, self.elements, self.devices, index, call)
    }

    /// Another element, by the number [`InitContext::find`](crate::InitContext::find) returned.
    /// `None` while it is running.
    pub fn element(&mut self, index: usize) -> Option<&mut dyn Element> {
        self.elements.get_mut(index)?.as_deref_mut()
    }
}
