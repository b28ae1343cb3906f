//! A running graph.

use std::io::Write as _;
use std::time::Instant;

use europa_pool::{Arena, BATCH};

use crate::arguments::Arguments;
use crate::call::{Answer, Global};
use crate::config_error::ConfigError;
use crate::context::Context;
use crate::devices::{Devices, NoDevices};
use crate::element::Phase;
use crate::graph::Graph;
use crate::handler::{Flags, HandlerError};
use crate::init_context::InitContext;
use crate::ledger::Ledger;
use crate::lines::Lines;
use crate::names::Names;
use crate::pass::{self, Chain};
use crate::registry::Registry;
use crate::room::Rooms;
use crate::select::{Interest, Watched};
use crate::state::{Account, Core, Described, Port, Slot, UNCONNECTED, Wiring, at, with_element};
use crate::timers::Timers;
use crate::trace;
use crate::turns::Turns;
use crate::work::{Stock, Work, WorkList};

/// A full turn of a task, in tickets.
const TURN: u64 = 1024;
/// Most batches of one round: packets that circulate in a graph must not keep tasks from their
/// turn.
const MAX_BATCHES: usize = 4096;
/// Most requests to stop that are handled together.
const MOST_STOPS: usize = 1024;
/// Most timers that fire in one round.
const MAX_TIMERS: usize = 1024;

/// A finding while a graph is built: an error, or a warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no such class.
    #[error("{name}: unknown element class '{class}'")]
    UnknownClass {
        /// The element.
        element: usize,
        /// Its name.
        name: String,
        /// The request.
        class: String,
    },
    /// An element rejects its configuration.
    #[error("{name} :: {class}: {error}")]
    Config {
        /// Whether the error came during initialisation, after the configuration.
        initializing: bool,
        /// The element.
        element: usize,
        /// Its name.
        name: String,
        /// Its class.
        class: String,
        /// The error.
        error: ConfigError,
    },
    /// A possible mistake that does not prevent the graph from running.
    #[error("{name} :: {class}: warning: {message}")]
    Warning {
        /// Whether the warning came during initialisation, after the configuration.
        initializing: bool,
        /// The element.
        element: usize,
        /// Its name.
        name: String,
        /// Its class.
        class: String,
        /// The warning.
        message: String,
    },
}

/// When a round ends, even with work left.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// A cheap clock: it is read after each batch.
    pub clock: fn() -> u64,
    /// The clock's reading after which no new work begins.
    pub until: u64,
}

/// A graph with its state. Run it with [`Router::run_once`].
pub struct Router {
    pub(crate) elements: Vec<Slot>,
    /// By input: the chain of a pass that starts there.
    chains: Vec<Option<Chain>>,
    turns: u64,
    /// By element: nanoseconds spent, if profiling is on.
    profile: Option<Vec<u64>>,
    limit: Option<Limit>,
    /// Whether the last round ended at its limit.
    cut: bool,
    /// The first task of the next round: the one after the task at which the last round was cut.
    first_task: usize,
    pub(crate) core: Core,
    /// Mistakes and warnings; warnings only, once the router is built.
    notes: Vec<BuildError>,
}

impl Router {
    /// All mistakes and warnings, in the order in which they were found. Configuration stops before
    /// initialisation if there is a mistake.
    ///
    /// # Errors
    /// All mistakes and warnings, in the order in which they were found. Configuration stops before
    /// initialisation if there is a mistake.
    pub fn build(
        graph: &Graph,
        registry: &Registry,
        arena: &Arena,
        devices: &dyn Devices,
        now_ns: u64,
    ) -> Result<Router, Vec<BuildError>> {
        let mut router = Router::make(graph, registry, arena, now_ns)?;
        router.configure(devices)?;
        router.initialize(devices)?;
        if !graph.one_by_one {
            router.chains =
                pass::chains(registry.passes(), &mut router.elements, &router.core.wiring);
        }
        Ok(router)
    }

    /// Makes and configures all elements, but initialises none: no device, file or socket is
    /// touched. Returns the warnings.
    ///
    /// # Errors
    /// All mistakes and warnings, in the order in which they were found.
    pub fn check(
        graph: &Graph,
        registry: &Registry,
        arena: &Arena,
        devices: &dyn Devices,
    ) -> Result<Vec<BuildError>, Vec<BuildError>> {
        let mut router = Router::make(graph, registry, arena, 0)?;
        router.configure(devices)?;
        Ok(std::mem::take(&mut router.notes))
    }

    /// Makes all elements of a graph.
    fn make(
        graph: &Graph,
        registry: &Registry,
        arena: &Arena,
        now_ns: u64,
    ) -> Result<Router, Vec<BuildError>> {
        let mut errors = Vec::new();
        let mut elements = Vec::new();
        let mut described = Vec::new();
        for (element, declared) in graph.elements.iter().enumerate() {
            let class = &declared.class;
            match (registry.info(class), registry.make(class)) {
                (Some(info), Some(made)) => {
                    elements.push(Some(made));
                    described
                        .push(Described { info: *info, arguments: declared.arguments.clone() });
                }
                _ => errors.push(BuildError::UnknownClass {
                    element,
                    name: declared.name.clone(),
                    class: class.clone(),
                }),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let wiring = wire(graph);
        let names: Vec<String> = graph.elements.iter().map(|e| e.name.clone()).collect();
        let bounds = wiring.output_base.windows(2);
        let most_outputs =
            bounds.map(|of| of.iter().rev().copied().reduce(|a, b| a - b)).max().flatten();
        let most_outputs = most_outputs.unwrap_or(0) as usize;
        let mut core = Core {
            work: WorkList::new(wiring.inputs.len()),
            forward: UNCONNECTED,
            wiring,
            timers: Timers::default(),
            arena: arena.clone(),
            rooms: Rooms::of(arena.capacity()),
            now_ns,
            wall_offset_ns: 0,
            accounts: vec![Account::default(); elements.len()],
            ledger: Ledger::of(elements.len()),
            lines: Lines::of(elements.len()),
            tasks: Vec::new(),
            turns: Turns::default(),
            ports: vec![0; BATCH],
            lanes: Vec::with_capacity(most_outputs),
            index: names.iter().cloned().zip(0..).collect(),
            names,
            classes: described.iter().map(|described: &Described| described.info.name).collect(),
            trace: None,
            stops: 0,
            stopped: false,
            manager: None,
            described,
            address_names: Names::default(),
            globals: Vec::new(),
            deferred: Vec::new(),
            warnings: Vec::new(),
            overheard: Vec::new(),
            watched: Vec::new(),
            sleepers: Vec::new(),
            signals: Vec::new(),
            most: if graph.one_by_one { 1 } else { BATCH },
            // A full log is no reason to end.
            log: Box::new(|line| drop(writeln!(std::io::stderr(), "{line}"))),
        };
        if graph.one_by_one {
            core.work.one_by_one();
        }
        let (chains, notes) = (Vec::new(), Vec::new());
        Ok(Router {
            elements,
            chains,
            turns: 0,
            profile: None,
            limit: None,
            cut: false,
            first_task: 0,
            core,
            notes,
        })
    }

    /// The first element that does not keep super-packets, as `name :: Class`; `None` if all do.
    pub fn first_to_cut(&self) -> Option<String> {
        self.core.first_to_cut()
    }

    /// Elements in the order in which they are configured.
    fn order(&self) -> Vec<usize> {
        let phase = |index: &usize| self.core.described.get(*index).map(|d| d.info.phase);
        let mut order: Vec<usize> = (0..self.elements.len()).collect();
        order.sort_by_key(|index| phase(index).unwrap_or(Phase::Default));
        order
    }

    fn configure(&mut self, devices: &dyn Devices) -> Result<(), Vec<BuildError>> {
        let mut names = Names::default();
        let own = (0..).map_while(|index| devices.interface(index));
        for interface in devices.others().iter().chain(own) {
            let entry = names.entry(&interface.name);
            entry.mac = Some(interface.mac);
            entry.ipv4 = interface.address.or(entry.ipv4);
        }
        devices.name_addresses(&mut names);
        let mut wrong = false;
        for index in self.order() {
            let (inputs, outputs) = self.core.wiring.ports_of(index);
            let (Some(described), Some(Some(element))) =
                (self.core.described.get(index), self.elements.get_mut(index))
            else {
                continue;
            };
            names.enter(self.core.names.get(index).map_or("", String::as_str));
            let mut arguments = Arguments::new(&described.arguments, &mut names, inputs, outputs);
            let result = element.configure(&mut arguments);
            let (noted, warnings) = arguments.into_notes();
            wrong |= self.note(index, false, warnings, noted.into_iter().chain(result.err()));
        }
        self.core.address_names = names;
        if wrong { Err(std::mem::take(&mut self.notes)) } else { Ok(()) }
    }

    fn initialize(&mut self, devices: &dyn Devices) -> Result<(), Vec<BuildError>> {
        let mut wrong = false;
        for index in self.order() {
            let Some(mut element) = self.elements.get_mut(index).and_then(Option::take) else {
                continue;
            };
            let result = element.initialize(&mut InitContext {
                core: &mut self.core,
                elements: &mut self.elements,
                devices,
                me: index,
            });
            if let Some(slot) = self.elements.get_mut(index) {
                *slot = Some(element);
            }
            let warnings = std::mem::take(&mut self.core.warnings);
            wrong |= self.note(index, true, warnings, result.err());
        }
        if wrong { Err(std::mem::take(&mut self.notes)) } else { Ok(()) }
    }

    /// Records an element's messages. Returns whether there are mistakes.
    fn note(
        &mut self,
        element: usize,
        initializing: bool,
        warnings: Vec<String>,
        errors: impl IntoIterator<Item = ConfigError>,
    ) -> bool {
        let name = || self.core.names.get(element).cloned().unwrap_or_default();
        let class = || self.core.described.get(element).map_or("", |d| d.info.name).to_owned();
        self.notes.extend(warnings.into_iter().map(|message| BuildError::Warning {
            initializing,
            element,
            name: name(),
            class: class(),
            message,
        }));
        let before = self.notes.len();
        self.notes.extend(errors.into_iter().map(|error| BuildError::Config {
            initializing,
            element,
            name: name(),
            class: class(),
            error,
        }));
        self.notes.len() > before
    }

    /// Warnings from configuration and initialisation.
    pub fn warnings(&self) -> &[BuildError] {
        &self.notes
    }

    /// One round: due timers, one turn of each task, and all pending packets. Returns whether there
    /// was any work; if not, the caller may sleep until a packet arrives or
    /// [`Router::next_timer_ns`].
    ///
    /// `now_ns` is the time of this round on a monotonic clock. Elements use this time, so the
    /// clock is read once a round and not once a packet.
    pub fn run_once(&mut self, now_ns: u64, devices: &mut dyn Devices) -> bool {
        // A handler may have been called after the time of this round was read.
        let now_ns = now_ns.max(self.core.now_ns);
        match self.core.trace.clone() {
            None => self.round(now_ns, devices),
            Some(trace) if trace.borrow_mut().begin(now_ns) => {
                self.round(now_ns, &mut trace::Watched { inner: devices, trace })
            }
            Some(_) => {
                self.core.trace = None;
                self.round(now_ns, devices)
            }
        }
    }

    /// Like [`Router::run_once`], but only until `limit`, which is checked after each batch and
    /// each task. The next round continues with the task after the last one, so that each task has
    /// its turn.
    pub fn run_within(&mut self, now_ns: u64, devices: &mut dyn Devices, limit: Limit) -> bool {
        self.limit = Some(limit);
        let worked = self.run_once(now_ns, devices);
        self.limit = None;
        worked
    }

    /// Lets the next rounds use batches of a stock that several routers share.
    pub fn lend(&mut self, stock: &mut Stock) {
        self.core.work.lend(stock);
    }

    /// Returns the batches of [`Router::lend`], except those in which packets wait.
    pub fn give_back(&mut self, stock: &mut Stock) {
        self.core.work.give_back(stock);
    }

    /// Whether the last round ended at its limit.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// Whether this round has reached its limit.
    #[inline(always)]
    fn is_over(&mut self) -> bool {
        if let Some(limit) = self.limit {
            self.cut |= (limit.clock)() >= limit.until;
        }
        self.cut
    }

    fn round(&mut self, now_ns: u64, devices: &mut dyn Devices) -> bool {
        self.core.now_ns = now_ns;
        self.cut = false;
        if self.core.lines.due_ns <= now_ns {
            self.core.tell_left_out();
        }
        let mut budget = MAX_BATCHES;
        // A handler may have given work to idle elements.
        let mut worked = self.core.stops > 0 || !self.core.deferred.is_empty();
        self.settle(devices);
        if self.core.stopped {
            // Packets that a handler sent before the end are still delivered, as in Click.
            self.deliver(&mut budget, devices);
            return true;
        }
        worked |= self.deliver(&mut budget, devices);
        if self.cut {
            return true;
        }
        worked |= self.take_turns(&mut budget, devices);
        if self.core.stopped || self.cut {
            return true;
        }
        for _ in 0..MAX_TIMERS {
            if self.is_over() {
                return true;
            }
            let Some((index, timer)) = self.core.timers.pop(now_ns) else { break };
            with_element(&mut self.core, &mut self.elements, devices, index, |element, context| {
                element.run_timer(timer, context);
            });
            if !self.core.deferred.is_empty() {
                self.context(devices).write_deferred();
            }
            worked = true;
            if self.core.work.len() > 0 {
                self.deliver(&mut budget, devices);
            }
            if self.core.stops > 0 {
                self.attend(devices);
            }
            if self.core.stopped {
                self.deliver(&mut budget, devices);
                return true;
            }
        }
        worked
    }

    /// Gives a turn to each task, or as many turns as its share allows. Returns whether a task
    /// found work.
    #[inline]
    fn take_turns(&mut self, budget: &mut usize, devices: &mut dyn Devices) -> bool {
        let mut worked = false;
        if self.core.shared_unevenly() {
            let tickets: u64 = self.core.tasks.iter().map(|task| u64::from(task.tickets)).sum();
            for _ in 0..(tickets / TURN).max(self.core.tasks.len() as u64) {
                let Some(task) = self.core.next_turn() else { break };
                worked |= self.take_turn(task, budget, devices);
                if self.core.stopped || self.is_over() {
                    return true;
                }
            }
            if worked {
                return true;
            }
            // The turn of a waiting task may be far away, and the process must not sleep before it,
            // so all tasks are called.
        }
        let (first, tasks) = (std::mem::take(&mut self.first_task), self.core.tasks.len());
        for task in (first..tasks).chain(0..first.min(tasks)) {
            worked |= self.take_turn(task, budget, devices);
            if self.core.stopped {
                return true;
            }
            if self.is_over() {
                self.first_task = (task + 1) % tasks;
                return true;
            }
        }
        worked
    }

    /// Runs a turn of a task, and all work that follows from it. Returns whether there was any
    /// work.
    #[inline]
    fn take_turn(&mut self, task: usize, budget: &mut usize, devices: &mut dyn Devices) -> bool {
        let Some(entry) = self.core.tasks.get(task) else { return false };
        let index = entry.element;
        let begun = self.profile.is_some().then(Instant::now);
        let did =
            with_element(&mut self.core, &mut self.elements, devices, index, |element, context| {
                element.run_task(context)
            });
        self.charge(index, begun);
        let mut worked = did.unwrap_or(false);
        if let Some(entry) = self.core.tasks.get_mut(task) {
            entry.worked = worked;
        }
        if !self.core.deferred.is_empty() {
            self.context(devices).write_deferred();
            worked = true;
        }
        worked |= self.deliver(budget, devices);
        if self.core.stops > 0 {
            self.attend(devices);
            worked = true;
        }
        if self.core.stopped {
            self.deliver(budget, devices);
        }
        worked
    }

    /// Handles pending packets until none are left or the budget is used up.
    #[inline]
    fn deliver(&mut self, budget: &mut usize, devices: &mut dyn Devices) -> bool {
        let mut worked = false;
        while *budget > 0
            && let Some(mut work) = self.core.work.pop()
        {
            worked = true;
            // A batch that is the only pending work passes from element to element directly.
            while let Some(next) = self.hand_over(&mut work, devices) {
                *budget = if self.is_over() { 0 } else { budget.saturating_sub(1) };
                if *budget == 0 || self.core.work.len() > 0 {
                    self.core.work.push_batch(next, &mut work.batch);
                    break;
                }
                work.input = next;
            }
            *budget = if self.is_over() { 0 } else { budget.saturating_sub(1) };
            self.core.work.give_batch(work.batch);
        }
        worked
    }

    /// Gives a batch to its element. Returns the next input of its rest, if any.
    #[inline(always)]
    fn hand_over(&mut self, work: &mut Work, devices: &mut dyn Devices) -> Option<u32> {
        if self.core.trace.is_some()
            && trace::hand_over(
                &mut self.core,
                &mut self.elements,
                devices,
                work.input,
                &mut work.batch,
            )
        {
            return None;
        }
        self.turns += 1;
        if let Some(Some(chain)) = self.chains.get(work.input as usize)
            && let Some(next) =
                chain.run(&mut self.core, &mut self.elements, devices, &mut work.batch)
        {
            return (next != UNCONNECTED && !work.batch.is_empty()).then_some(next);
        }
        let &Port { element, port } = self.core.wiring.inputs.get(work.input as usize)?;
        let index = element as usize;
        if let Some(account) = self.core.accounts.get_mut(index) {
            account.batches += 1;
            account.packets += work.batch.len() as u64;
        }
        self.core.forward = UNCONNECTED;
        let begun = self.profile.is_some().then(Instant::now);
        with_element(&mut self.core, &mut self.elements, devices, index, |element, context| {
            element.push(port as usize, &mut work.batch, context);
            // Packets that the element leaves in the batch are dropped, and count as dropped by it.
            if context.core.forward == UNCONNECTED {
                work.batch.clear();
            }
        });
        self.charge(index, begun);
        if !self.core.deferred.is_empty() {
            self.context(devices).write_deferred();
        }
        let next = std::mem::replace(&mut self.core.forward, UNCONNECTED);
        (next != UNCONNECTED && !work.batch.is_empty()).then_some(next)
    }

    /// Adds the time since `begun` to an element's account.
    #[inline(always)]
    fn charge(&mut self, index: usize, begun: Option<Instant>) {
        if let Some(begun) = begun
            && let Some(spent) = self.profile.as_mut().and_then(|profile| profile.get_mut(index))
        {
            *spent += begun.elapsed().as_nanos() as u64;
        }
    }

    /// Begins to measure the time of each element. From now on each element runs on its own,
    /// without passes. The time of a pull counts for the element that pulls.
    pub fn measure(&mut self) {
        self.profile = Some(vec![0; self.elements.len()]);
        self.chains.clear();
    }

    /// Nanoseconds that element `index` has taken since [`Router::measure`].
    pub fn spent_ns(&self, index: usize) -> Option<u64> {
        self.profile.as_ref()?.get(index).copied()
    }

    /// Sets the time for handlers that are called between rounds: the last round of an idle graph
    /// may be long ago.
    pub fn set_now_ns(&mut self, now_ns: u64) {
        self.core.now_ns = now_ns.max(self.core.now_ns);
    }

    /// When the next timer is due, on the clock of [`Router::run_once`].
    pub fn next_timer_ns(&self) -> Option<u64> {
        let lines_ns = Some(self.core.lines.due_ns).filter(|due_ns| *due_ns < u64::MAX);
        self.core.timers.next_ns().into_iter().chain(lines_ns).min()
    }

    /// Whether packets are pending; if so, do not sleep.
    pub fn is_busy(&self) -> bool {
        self.core.work.len() > 0
    }

    /// Whether an element or a handler asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.core.stopped
    }

    /// The difference between the clock of [`Router::run_once`] and nanoseconds since 1970.
    pub fn set_wall_offset_ns(&mut self, offset_ns: u64) {
        self.core.wall_offset_ns = offset_ns;
    }

    /// Sets the destination of `Print` and similar elements; the default is standard error.
    pub fn set_log(&mut self, log: Box<dyn FnMut(&str)>) {
        self.core.log = log;
    }

    /// Sets how many lines an element may write in a second, 100 by default; `None` for no limit.
    /// Lines of handlers, configuration and initialisation are not limited.
    pub fn set_line_limit(&mut self, limit: Option<u32>) {
        self.core.lines.set_limit(limit);
    }

    /// How often a batch was given to an element, or to a pass that works for several elements.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Number of the element of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.core.index.get(name).copied()
    }

    /// Names of all elements, by number.
    pub fn names(&self) -> &[String] {
        &self.core.names
    }

    /// The packet counts of element `index`.
    pub fn account(&self, index: usize) -> Option<Account> {
        self.core.accounts.get(index).copied()
    }

    /// Element number `index`, to look at its state in tests.
    pub fn element(&mut self, index: usize) -> Option<&mut dyn crate::Element> {
        self.elements.get_mut(index)?.as_deref_mut()
    }

    /// Takes over the state of elements of the same name and class from a previous router, and the
    /// pending packets of such elements.
    pub fn take_state(&mut self, old: &mut Router) {
        let now_ns = self.core.now_ns.max(old.core.now_ns);
        self.core.now_ns = now_ns;
        for index in 0..self.elements.len() {
            if let Some(other) = self.counterpart(index, old)
                && let Some(Some(element)) = self.elements.get_mut(index)
                && let Some(previous) = old.element(other)
            {
                element.take_state(previous);
            }
        }
        self.take_ledger(old);
        while let Some(mut work) = old.core.work.pop() {
            let port = old.core.wiring.inputs.get(work.input as usize).copied();
            if let Some(Port { element, port }) = port
                && let Some(element) = old.counterpart(element as usize, self)
                && let Some(input) = at(&self.core.wiring.input_base, element, port as usize)
            {
                self.core.work.push_batch(input as u32, &mut work.batch);
            }
            old.core.work.give_batch(work.batch);
        }
        for index in 0..self.elements.len() {
            let elements = &mut self.elements;
            with_element(&mut self.core, elements, &mut NoDevices, index, |element, context| {
                element.resume(context);
            });
        }
    }

    /// Number of the element in another router that has the name and class of this one.
    fn counterpart(&self, index: usize, other: &Router) -> Option<usize> {
        let found = other.find(self.core.names.get(index)?)?;
        let same = self.core.classes.get(index) == other.core.classes.get(found);
        same.then_some(found)
    }

    /// All handlers of an element with their abilities: its own and those of all elements.
    pub fn handlers(&mut self, index: usize) -> Vec<(String, Flags)> {
        self.context(&mut NoDevices).handlers_of(index)
    }

    /// Reads a handler: `element.handler`, or a name alone for one of the router's.
    ///
    /// # Errors
    /// If the handler does not exist, or has no answer.
    pub fn read(&mut self, path: &str, parameter: &str) -> Result<String, HandlerError> {
        self.context(&mut NoDevices).read_handler(path, parameter)
    }

    /// Writes a handler: `element.handler`, or a name alone for one of the router's.
    ///
    /// # Errors
    /// If there is no such handler, or the value is invalid.
    pub fn write(&mut self, path: &str, value: &str) -> Result<(), HandlerError> {
        let mut devices = NoDevices;
        let mut context = self.context(&mut devices);
        let result = context.write_handler(path, value);
        if !context.core.deferred.is_empty() {
            context.write_deferred();
        }
        self.attend(&mut devices);
        result
    }

    /// The surroundings of an element outside the graph.
    fn context<'a>(&'a mut self, devices: &'a mut dyn Devices) -> Context<'a> {
        Context { core: &mut self.core, elements: &mut self.elements, devices, me: usize::MAX }
    }

    /// Adds a handler to the router itself.
    pub fn add_global(&mut self, name: &str, flags: Flags, answer: Answer) {
        self.core.globals.push(Global { name: name.to_owned(), flags, answer });
    }

    /// Descriptors that elements wait for. The caller of the router waits for them too, and reports
    /// the ready ones by [`Router::descriptor_ready`].
    pub fn watched(&self) -> &[Watched] {
        &self.core.watched
    }

    /// Informs elements that the process is about to wait for their descriptors. Returns whether
    /// one of them already has work. The caller must call [`Router::wake_up`] after it, whatever
    /// the result.
    pub fn fall_asleep(&mut self) -> bool {
        let elements = &mut self.elements;
        self.core.sleepers.iter().fold(false, |due, index| {
            let element = elements.get_mut(*index).and_then(Option::as_mut);
            element.is_some_and(|element| element.fall_asleep()) || due
        })
    }

    /// Informs elements that the process is awake again.
    pub fn wake_up(&mut self) {
        for index in &self.core.sleepers {
            if let Some(element) = self.elements.get_mut(*index).and_then(Option::as_mut) {
                element.wake_up();
            }
        }
    }

    /// Informs an element that its descriptor is ready, unless it no longer waits for it.
    pub fn descriptor_ready(
        &mut self,
        element: usize,
        token: u32,
        interest: Interest,
        devices: &mut dyn Devices,
    ) {
        if self.core.watched.iter().any(|watched| watched.is(element, token, interest)) {
            with_element(&mut self.core, &mut self.elements, devices, element, |e, context| {
                e.descriptor_ready(token, interest, context);
            });
            self.settle(devices);
        }
    }

    /// Signals of the operating system that elements catch.
    pub fn signals(&self) -> impl Iterator<Item = i32> {
        self.core.signals.iter().map(|(signal, _)| *signal)
    }

    /// Informs elements of a caught signal of the operating system.
    pub fn caught_signal(&mut self, signal: i32, devices: &mut dyn Devices) {
        let wanted = self.core.signals.iter().filter(|(wanted, _)| *wanted == signal);
        let elements: Vec<usize> = wanted.map(|(_, element)| *element).collect();
        for element in elements {
            with_element(&mut self.core, &mut self.elements, devices, element, |e, context| {
                e.caught_signal(signal, context);
            });
        }
        self.settle(devices);
    }

    /// Requests that the router stops, as its `stop` handler does.
    pub fn request_stop(&mut self) {
        self.core.stops += 1;
        self.attend(&mut NoDevices);
    }

    /// Whether handlers of running elements were written, or a stop was requested.
    #[inline(always)]
    fn settle(&mut self, devices: &mut dyn Devices) {
        if !self.core.deferred.is_empty() {
            self.context(devices).write_deferred();
        }
        if self.core.stops > 0 {
            self.attend(devices);
        }
    }

    /// Ends the router as a signal does: an element that decides about stops runs all its steps;
    /// after that the router stops in any case.
    pub fn end(&mut self, now_ns: u64, devices: &mut dyn Devices) {
        self.core.now_ns = now_ns.max(self.core.now_ns);
        self.core.stops = MOST_STOPS as u32;
        self.attend(devices);
        self.core.stopped = true;
        let mut budget = MAX_BATCHES;
        self.deliver(&mut budget, devices);
    }

    /// Decides about requests to stop.
    #[cold]
    fn attend(&mut self, devices: &mut dyn Devices) {
        // Bounds a manager that always continues and requests again: it would occupy the round
        // forever.
        for _ in 0..MOST_STOPS {
            if self.core.stops == 0 || self.core.stopped {
                break;
            }
            self.core.stops -= 1;
            let goes_on = self.core.manager.and_then(|manager| {
                with_element(&mut self.core, &mut self.elements, devices, manager, |e, context| {
                    e.stop_requested(context)
                })
            });
            self.core.stopped = goes_on != Some(true);
        }
        if !self.core.deferred.is_empty() {
            self.context(devices).write_deferred();
        }
    }
}

/// Flattens connections.
fn wire(graph: &Graph) -> Wiring {
    let base = |port_of: &dyn Fn(usize) -> Option<usize>| {
        let mut base = vec![0u32];
        for element in 0..graph.elements.len() {
            let count = port_of(element).map_or(0, |port| port as u32 + 1);
            base.push(base.last().copied().unwrap_or(0) + count);
        }
        base
    };
    let connections = || graph.connections.iter();
    let input_base =
        base(&|element| connections().filter(|c| c.to == element).map(|c| c.input).max());
    let output_base =
        base(&|element| connections().filter(|c| c.from == element).map(|c| c.output).max());
    let total = |base: &[u32]| base.last().copied().unwrap_or(0) as usize;
    let mut wiring = Wiring {
        sources: vec![None; total(&input_base)],
        targets: vec![UNCONNECTED; total(&output_base)],
        inputs: Vec::with_capacity(total(&input_base)),
        input_base,
        output_base,
    };
    for (element, bounds) in wiring.input_base.windows(2).enumerate() {
        if let [start, end] = bounds {
            let ports = 0..end - start;
            wiring.inputs.extend(ports.map(|port| Port { element: element as u32, port }));
        }
    }
    for c in connections() {
        let place = |base: &[u32], element: usize, port: usize| {
            base.get(element).map(|start| *start as usize + port)
        };
        let input = place(&wiring.input_base, c.to, c.input);
        let output = place(&wiring.output_base, c.from, c.output);
        let (Some(input), Some(output)) = (input, output) else { continue };
        if c.pull {
            if let Some(source) = wiring.sources.get_mut(input) {
                *source = Some(Port { element: c.from as u32, port: c.output as u32 });
            }
        } else if let Some(target) = wiring.targets.get_mut(output) {
            *target = input as u32;
        }
    }
    wiring
}

impl Drop for Router {
    fn drop(&mut self) {
        for element in self.elements.iter_mut().flatten() {
            element.cleanup(&mut |line| self.core.say(line));
        }
    }
}
