//! An element's surroundings during its initialisation.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use europa_pool::Arena;
use europa_resource::Resource;

use crate::config_error::ConfigError;
use crate::context::Context;
use crate::devices::{Devices, Interface, NoDevices};
use crate::element::Element;
use crate::names::Names;
use crate::room::{Purpose, Share};
use crate::select::{Interest, Watched};
use crate::signal::Signal;
use crate::state::{Core, Port, Slot, Task, UNCONNECTED, at, count};

/// An element's surroundings during its initialisation.
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

    /// Notes a warning, which does not stop the router.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.core.warnings.push(message.into());
    }

    /// Requests [`crate::Element::run_task`] in every round; `tickets` in 1024ths of a turn.
    pub fn add_task(&mut self, tickets: u32) {
        self.core.tasks.push(Task { element: self.me, tickets, worked: true, thread: 0 });
    }

    /// Requests calls of [`Element::fall_asleep`] and [`Element::wake_up`].
    pub fn add_sleeper(&mut self) {
        self.core.sleepers.push(self.me);
    }

    /// Like [`Context::schedule`].
    pub fn schedule(&mut self, timer: u32, at_ns: u64) {
        self.core.timers.schedule((self.me, timer), at_ns);
    }

    /// Like [`Context::now_ns`].
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// The arena for new packets.
    pub fn arena(&self) -> &Arena {
        &self.core.arena
    }

    /// This element's limit in the packet pool.
    pub fn share(&self, purpose: Purpose) -> Share {
        self.core.rooms.share(purpose)
    }

    /// The interface of this name and its number.
    pub fn interface(&self, name: &str) -> Option<(usize, &Interface)> {
        let index = self.devices.index(name)?;
        Some((index, self.devices.interface(index)?))
    }

    /// Opens a file or socket.
    ///
    /// # Errors
    /// The reason why it cannot be opened: [`ConfigError::NotGranted`] if the router has no grant
    /// for it.
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

    /// Whether input `port` is a pull input.
    pub fn is_pull(&self, port: usize) -> bool {
        at(&self.core.wiring.input_base, self.me, port)
            .and_then(|input| self.core.wiring.sources.get(input).copied().flatten())
            .is_some()
    }

    /// Name of this element.
    pub fn name(&self) -> &str {
        self.core.names.get(self.me).map_or("", String::as_str)
    }

    /// Number of the element with this name, resolved from this element: inside a compound element,
    /// elements of the same compound have precedence.
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

    /// Like [`Context::burst`].
    pub fn burst(&self) -> usize {
        self.core.most
    }

    /// Makes pulls pass through: an element that pulls from output `output` of this element gets
    /// its packets directly from the source of input `input`.
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

    /// The signal ([`Context::is_active`]) for packets at a pull input. It knows only the elements
    /// that were initialised before this one.
    pub fn upstream(&self, port: usize) -> Signal {
        crate::signal::upstream(self.core, self.elements, self.me, port)
    }

    /// The signal for room behind a push output.
    pub fn downstream(&self, port: usize) -> Signal {
        crate::signal::downstream(self.core, self.elements, self.me, port)
    }

    /// Like [`Context::watch`].
    pub fn watch(&mut self, token: u32, interest: Interest, descriptor: Rc<dyn AsFd>) {
        self.core.watches += 1;
        self.core.watched.push(Watched::new(self.me, token, interest, descriptor));
    }

    /// Copies every message into `copies`. The caller must remove them.
    pub fn overhear(&mut self, copies: Rc<RefCell<Vec<String>>>) {
        self.core.overheard.push(copies);
    }

    /// Requests [`Element::caught_signal`] for this signal of the operating system.
    pub fn catch_signal(&mut self, signal: i32) {
        self.core.signals.push((signal, self.me));
    }

    /// Requests [`Element::stop_requested`] for requests to stop. Returns false if another element
    /// has already done so.
    pub fn manage_stops(&mut self) -> bool {
        let first = self.core.manager.is_none();
        self.core.manager.get_or_insert(self.me);
        first
    }

    /// Asks the router to stop, as [`Context::stop`].
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Sets the share of turns of element `index`, in 1024ths.
    pub fn set_tickets(&mut self, index: usize, tickets: u32) {
        self.core.set_tickets(index, tickets);
    }

    /// Assigns the task of element `index` to a thread of the configuration.
    pub fn set_home_thread(&mut self, index: usize, thread: u32) {
        self.core.set_home_thread(index, thread);
    }

    /// Writes a line where the router writes its messages.
    pub fn log(&mut self, line: &str) {
        self.core.say(line);
    }

    /// Names of addresses that this element can use.
    pub fn address_names(&mut self) -> &Names {
        let scope = self.core.names.get(self.me).map_or("", String::as_str);
        self.core.address_names.enter(scope);
        &self.core.address_names
    }

    /// Gives access to the element's surroundings, for handlers of other elements. Elements that
    /// are initialised later may not have an answer yet.
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
