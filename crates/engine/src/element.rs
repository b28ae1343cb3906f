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

/// The facts about a class before any element of it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// Name in configurations.
    pub name: &'static str,
    /// Numbers of input and output ports as Click writes them: `"1/1-2"`, `"-/-"`, `"1"`.
    pub ports: &'static str,
    /// Push (`h`), pull (`l`) or either (`a`) by port as Click writes it: `"a/ah"`.
    pub processing: &'static str,
    /// Which input's packets may leave by which output as Click writes it: `"x/x"`.
    pub flow: &'static str,
    /// When elements of this class are configured and initialised.
    pub phase: Phase,
    /// Whether its elements may run inside the switch's worker, which waits for them; if not,
    /// the reason, to be read after "it".
    pub inline: Result<(), &'static str>,
    /// Whether packets end in its elements on purpose; else those that end there are lost.
    pub consumes: bool,
    /// Other names of the class in configurations.
    pub also: &'static [&'static str],
    /// The heading under which lists show the class; empty without one.
    pub category: &'static str,
    /// Whether its elements keep super-packets: do to a packet of TCP that is yet to be cut what
    /// they would do to each of its segments.
    pub keeps_long: bool,
}

/// The reason that keeps a class without a statement out of the switch.
const UNKNOWN_WORK: &str = "is not known to do bounded work and nothing else";

impl ClassInfo {
    /// A class whose ports may be push or pull, and all inputs flow to all outputs.
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

    /// The same with this processing code.
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

    /// The same, which may run inside the switch's worker. A review has found that its work on a
    /// packet, a timer or a turn is bounded, that it keeps no more than the pool's slots or its
    /// arguments allow, and that it needs neither files nor sockets nor threads. The router's quota
    /// bounds its memory, the worker its lines of a log.
    pub const fn inline(self) -> ClassInfo {
        ClassInfo { inline: Ok(()), ..self }
    }

    /// The same, kept out of the switch's worker for this reason, to be read after "it".
    pub const fn not_inline(self, why: &'static str) -> ClassInfo {
        ClassInfo { inline: Err(why), ..self }
    }

    /// The same, whose elements end packets on purpose: a sink, or an element that takes packets
    /// meant for itself or replaces one by others. One that loses some as well tells how many by
    /// [`Element::lost`].
    pub const fn consumes(self) -> ClassInfo {
        ClassInfo { consumes: true, ..self }
    }

    /// The same, whose elements keep super-packets. A review has found that they do to a super-packet
    /// what they would do to each of its segments: they read and change headers before the payload,
    /// and none of payload, length of the TCP header, or bytes behind an Ethernet header. The
    /// checksum of TCP means nothing in a super-packet: each segment gets a new one. What compares
    /// lengths asks for those of segments ([`Packet::is_longer_than`](crate::Packet::is_longer_than)),
    /// what counts packets counts segments or says that it does not. A router with an element of
    /// another class gets segments.
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
    /// Gives names to addresses and the like.
    Info,
    /// Most elements.
    Default,
    /// Looks at others.
    Last,
}

/// A class of elements. The registry makes elements from it.
pub trait Class: Element + Default {
    /// Name, ports, processing, flow.
    const INFO: ClassInfo;
}

/// An element: a piece of packet processing with ports.
///
/// An element sees one batch at a time and never calls another element's methods on the
/// packet path; it hands packets to [`Context`]. One virtual call a batch is all that the
/// engine costs it. The packet path must not allocate, lock, log, read a clock or panic.
///
/// Most elements implement [`Element::process`] only, which works on push and pull paths
/// alike; sources, queues, classifiers and schedulers implement `push` and `pull`.
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

    /// Works on packets in place. Packets left in `batch` go on by output 0 (or to the pulling
    /// element); removed ones it drops or sends by another output with [`Context::push`]. The batch
    /// may be empty.
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let _ = (batch, context);
    }

    /// Takes packets that arrive at input `port`. Those left in `batch` are dropped.
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let _ = port;
        self.process(batch, context);
        context.forward(0, batch);
    }

    /// Adds up to `max` packets to `batch`, which output `port` is asked for. The batch may
    /// already have packets, which are not to be touched, and has room for `max`.
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

    /// Does one turn of the element's own work, about a batch. Called in every round if the element
    /// asked for it by [`InitContext::add_task`]. Returns whether there was any, so that the
    /// process can sleep when no task has work.
    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Called when a timer set by [`Context::schedule`] is due.
    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        let _ = (timer, context);
    }

    /// The handlers of this class, beside those that every element has.
    fn handlers(&self) -> &'static [Handler] {
        &[]
    }

    /// Answers a read handler that [`Element::handlers`] lists.
    ///
    /// # Errors
    /// Why there is no answer.
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

    /// The abilities of a handler that [`Element::handlers`] does not list: its name is known only
    /// from the configuration. `None` if there is none.
    fn dynamic_handler(&self, name: &str) -> Option<Flags> {
        let _ = name;
        None
    }

    /// The handlers that [`Element::dynamic_handler`] knows, if they can be listed.
    fn dynamic_handlers(&self) -> Vec<(String, Flags)> {
        Vec::new()
    }

    /// Takes another configuration while it runs and keeps its state as far as possible; changes
    /// nothing if there is a mistake. `None` from an element that cannot do that.
    fn reconfigure(
        &mut self,
        arguments: &mut Arguments<'_>,
        context: &mut Context<'_>,
    ) -> Option<Result<(), ConfigError>> {
        let _ = (arguments, context);
        None
    }

    /// Whether the element itself can tell if it has packets or room; if not, a search continues
    /// with the elements beyond it.
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

    /// Of the packets that have ended in an element whose class consumes packets
    /// ([`ClassInfo::consumes`]), how many were lost.
    fn lost(&self) -> u64 {
        0
    }

    /// How many packets the element holds until they are pulled; `None` from one that is no
    /// queue. Elements that drop early ask their queues.
    fn held(&self) -> Option<usize> {
        None
    }

    /// Whether a turn of the element's task would find work; `None` if only trying tells.
    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        let _ = context;
        None
    }

    /// Called when a descriptor that the element waits for ([`Context::watch`]) is ready.
    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        let _ = (token, interest, context);
    }

    /// Called before the process sleeps if the element asked for it ([`InitContext::add_sleeper`]):
    /// one that only looks, while it is awake, has others wake it now. Returns whether there is
    /// something to do already, so that the process does not sleep.
    fn fall_asleep(&mut self) -> bool {
        false
    }

    /// Called after [`Element::fall_asleep`], when the process is awake again.
    fn wake_up(&mut self) {}

    /// Called when a signal of the operating system came that the element has asked for
    /// ([`InitContext::catch_signal`]).
    fn caught_signal(&mut self, signal: i32, context: &mut Context<'_>) {
        let _ = (signal, context);
    }

    /// Called when something asks the router to stop and this element decides about it
    /// ([`InitContext::manage_stops`]). Returns whether the router is to go on.
    fn stop_requested(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Hot swap: takes over the state of the element with the same name and class in the previous
    /// router. `old` can be downcast: `(old as &mut dyn Any).downcast_mut::<Self>()`.
    fn take_state(&mut self, old: &mut dyn Element) {
        let _ = old;
    }

    /// Hot swap: called after [`Element::take_state`] of all elements, to set timers and the like
    /// for the new state.
    fn resume(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }

    /// Called once when the router goes, whether or not it ever ran.
    fn cleanup(&mut self, log: &mut dyn FnMut(&str)) {
        let _ = log;
    }
}
