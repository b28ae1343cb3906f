//! The trait of every element.

use std::any::Any;

use europa_pool::Batch;

use crate::argument::Argument;
use crate::arguments::Arguments;
use crate::config_error::ConfigError;
use crate::context::Context;
use crate::handler::{Flags, Handler, HandlerError};
use crate::init_context::InitContext;
use crate::select::Interest;
use crate::signal::Notifies;

/// Properties of a class that are known before any element of it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// Name in configurations.
    pub name: &'static str,
    /// Numbers of input and output ports as Click writes them: `"1/1-2"`, `"-/-"`, `"1"`.
    pub ports: &'static str,
    /// Push (`h`), pull (`l`) or either (`a`) by port as Click writes it: `"a/ah"`.
    pub processing: &'static str,
    /// Which input's packets may leave by which output, as Click writes it: `"x/x"`.
    pub flow: &'static str,
    /// When elements of this class are configured and initialised.
    pub phase: Phase,
    /// Whether its elements may run inside the switch's worker, which waits for them. If not, the
    /// reason, phrased to follow "it".
    pub inline: Result<(), &'static str>,
    /// Whether packets end in its elements on purpose; otherwise packets that end there are lost.
    pub consumes: bool,
    /// Other names of the class in configurations.
    pub also: &'static [&'static str],
    /// The heading under which lists show the class; empty if it has none.
    pub category: &'static str,
    /// Whether its elements keep super-packets: they handle an unsegmented packet of TCP as they
    /// would handle each of its segments.
    pub keeps_long: bool,
}

/// The reason against running inside the switch, for classes that declare nothing.
const UNKNOWN_WORK: &str = "is not known to do bounded work and nothing else";

impl ClassInfo {
    /// A class whose ports may be push or pull, and whose inputs all flow to all outputs.
    pub const fn new(name: &'static str, ports: &'static str) -> ClassInfo {
        let (processing, flow, phase) = ("a/a", "x/x", Phase::Default);
        let inline = Err(UNKNOWN_WORK);
        let also: &[&str] = &[];
        let (consumes, keeps_long, category) = (false, false, "");
        ClassInfo {
            name,
            ports,
            processing,
            flow,
            phase,
            inline,
            consumes,
            keeps_long,
            also,
            category,
        }
    }

    /// The same class with this processing code.
    pub const fn processing(self, processing: &'static str) -> ClassInfo {
        ClassInfo { processing, ..self }
    }

    /// The same with this flow code.
    pub const fn flow(self, flow: &'static str) -> ClassInfo {
        ClassInfo { flow, ..self }
    }

    /// The same in this phase.
    pub const fn phase(self, phase: Phase) -> ClassInfo {
        ClassInfo { phase, ..self }
    }

    /// The same class, which may run inside the switch's worker. A review has found three things.
    /// Its work on a packet, a timer or a turn is bounded. It keeps no more than the pool's slots
    /// or its arguments allow. It needs no files, sockets or threads. The router's quota bounds its
    /// memory, and the worker bounds its log lines.
    pub const fn inline(self) -> ClassInfo {
        ClassInfo { inline: Ok(()), ..self }
    }

    /// The same class, kept out of the switch's worker for this reason, phrased to follow "it".
    pub const fn not_inline(self, why: &'static str) -> ClassInfo {
        ClassInfo { inline: Err(why), ..self }
    }

    /// The same class, whose elements end packets on purpose: a sink, or an element that consumes
    /// packets or replaces a packet by others. An element that also loses packets reports their
    /// number by [`Element::lost`].
    pub const fn consumes(self) -> ClassInfo {
        ClassInfo { consumes: true, ..self }
    }

    /// The same class, whose elements keep super-packets. A review has found that they handle a
    /// super-packet as they would handle each of its segments. They read and change headers before
    /// the payload, but not the payload, the length of the TCP header, or bytes behind an Ethernet
    /// header. The TCP checksum of a super-packet is undefined: each segment gets a new one. They
    /// compare lengths of segments ([`Packet::is_longer_than`](crate::Packet::is_longer_than)), and
    /// count segments unless their page says otherwise. If a router has an element of another
    /// class, it gets segments.
    pub const fn keeps_long(self) -> ClassInfo {
        ClassInfo { keeps_long: true, ..self }
    }

    /// The same with other names.
    pub const fn also(self, also: &'static [&'static str]) -> ClassInfo {
        ClassInfo { also, ..self }
    }
}

/// All elements of one phase are configured before those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Names addresses and the like.
    Info,
    /// Most elements.
    Default,
    /// Inspects other elements.
    Last,
}

/// A class of elements. The registry makes elements from it.
pub trait Class: Element + Default {
    /// Name, ports, processing, flow.
    const INFO: ClassInfo;
}

/// An element: a piece of packet processing with ports.
///
/// An element sees one batch at a time and never calls another element's methods on the packet
/// path: it passes packets to [`Context`]. The engine needs one virtual call for each batch. The
/// packet path must not allocate, lock, log, read a clock or panic.
///
/// Most elements implement [`Element::process`] only, which works on push and pull paths alike;
/// sources, queues, classifiers and schedulers implement `push` and `pull`.
pub trait Element: Any {
    /// The arguments that this class takes. [`arguments!`](macro@crate::arguments) writes this and
    /// [`Element::configure`] from one table.
    fn arguments(&self) -> &'static [Argument] {
        &[]
    }

    /// Reads the configuration arguments. Other elements may not exist yet.
    ///
    /// # Errors
    /// The argument and its mistake. Further mistakes can be noted in `arguments`.
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        arguments.finish()
    }

    /// Prepares for packets: all elements are configured and connected now.
    ///
    /// # Errors
    /// The missing argument.
    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let _ = context;
        Ok(())
    }

    /// Works on packets in place. Packets left in `batch` leave by output 0 (or to the pulling
    /// element). The element drops removed packets or sends them by another output with
    /// [`Context::push`]. The batch may be empty.
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let _ = (batch, context);
    }

    /// Takes packets that arrive at input `port`. Packets left in `batch` are dropped.
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let _ = port;
        self.process(batch, context);
        context.forward(0, batch);
    }

    /// Adds up to `max` packets to `batch` in answer to a pull from output `port`. The batch has
    /// room for `max` packets. Packets that it already contains must stay untouched.
    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let _ = port;
        if batch.is_empty() {
            context.pull(0, max, batch);
            self.process(batch, context);
        } else {
            let mut own = context.take_batch();
            context.pull(0, max, &mut own);
            self.process(&mut own, context);
            batch.append(&mut own);
            context.give_batch(own);
        }
    }

    /// Does one turn of the element's own work, about a batch. It is called in every round if the
    /// element has called [`InitContext::add_task`]. Returns whether it found work, so that the
    /// process can sleep when no task has any.
    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Called when a timer set by [`Context::schedule`] is due.
    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        let _ = (timer, context);
    }

    /// The handlers of this class, in addition to those of every element.
    fn handlers(&self) -> &'static [Handler] {
        &[]
    }

    /// Answers a read handler of [`Element::handlers`].
    ///
    /// # Errors
    /// The reason why there is no answer.
    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let _ = (parameter, context);
        Err(HandlerError::NotFound(handler.to_owned()))
    }

    /// Carries out a write handler that [`Element::handlers`] lists.
    ///
    /// # Errors
    /// The mistake of the value.
    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let _ = (value, context);
        Err(HandlerError::NotFound(handler.to_owned()))
    }

    /// The abilities of a handler that [`Element::handlers`] does not list, because its name
    /// follows from the configuration. `None` if it does not exist.
    fn dynamic_handler(&self, name: &str) -> Option<Flags> {
        let _ = name;
        None
    }

    /// The handlers of [`Element::dynamic_handler`], if they can be listed.
    fn dynamic_handlers(&self) -> Vec<(String, Flags)> {
        Vec::new()
    }

    /// Takes another configuration while it runs, and keeps its state as far as possible. After a
    /// mistake, nothing is changed. `None` if the element cannot do this.
    fn reconfigure(
        &mut self,
        arguments: &mut Arguments<'_>,
        context: &mut Context<'_>,
    ) -> Option<Result<(), ConfigError>> {
        let _ = (arguments, context);
        None
    }

    /// Whether the element itself knows if it has packets or room. If not, the search continues
    /// with the elements behind it.
    fn notifies(&self) -> Notifies {
        Notifies::NOTHING
    }

    /// Whether pull output `port` has packets now; see [`Element::notifies`].
    fn has_packets(&mut self, port: usize, context: &mut Context<'_>) -> bool {
        let _ = (port, context);
        true
    }

    /// Whether push input `port` has room now; see [`Element::notifies`].
    fn has_room(&mut self, port: usize, context: &mut Context<'_>) -> bool {
        let _ = (port, context);
        true
    }

    /// Number of packets that were lost in this element, if its class consumes packets
    /// ([`ClassInfo::consumes`]).
    fn lost(&self) -> u64 {
        0
    }

    /// Number of packets that the element holds until they are pulled; `None` if it is no queue.
    /// Elements that drop early read this number.
    fn held(&self) -> Option<usize> {
        None
    }

    /// Whether a turn of the element's task would find work; `None` if only a turn can find out.
    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        let _ = context;
        None
    }

    /// Called when a descriptor that the element waits for ([`Context::watch`]) is ready.
    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        let _ = (token, interest, context);
    }

    /// Called before the process sleeps if the element has called [`InitContext::add_sleeper`]: an
    /// element that polls must now enable wake-ups by its peers. Returns whether it has work
    /// already, so that the process does not sleep.
    fn fall_asleep(&mut self) -> bool {
        false
    }

    /// Called after [`Element::fall_asleep`], when the process has woken up.
    fn wake_up(&mut self) {}

    /// Called after a signal of the operating system that the element catches
    /// ([`InitContext::catch_signal`]).
    fn caught_signal(&mut self, signal: i32, context: &mut Context<'_>) {
        let _ = (signal, context);
    }

    /// Called at a request to stop, if this element decides about such requests
    /// ([`InitContext::manage_stops`]). Returns whether the router continues.
    fn stop_requested(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Hot swap: takes over the state of the element with the same name and class in the previous
    /// router. `old` can be downcast: `(old as &mut dyn Any).downcast_mut::<Self>()`.
    fn take_state(&mut self, old: &mut dyn Element) {
        let _ = old;
    }

    /// Hot swap: called after [`Element::take_state`] of all elements, to set timers and similar
    /// things for the new state.
    fn resume(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }

    /// Called once when the router ends, even if it never ran.
    fn cleanup(&mut self, log: &mut dyn FnMut(&str)) {
        let _ = log;
    }
}
