//! A running graph.

use std::io::Write as _;

use europa_pool::{Arena, BATCH};

use crate::arguments::{Arguments, ConfigError};
use crate::context::{Account, Core, InitContext, Port, Slot, UNCONNECTED, Wiring, with_element};
use crate::devices::{Devices, NoDevices};
use crate::element::{ClassInfo, Phase};
use crate::graph::{ConnectionView, Graph, GraphElementView, GraphView};
use crate::handler::{COMMON, Flags, GLOBAL, Handler, HandlerError};
use crate::names::Names;
use crate::pass::{self, Chain};
use crate::registry::Registry;
use crate::timers::Timers;
use crate::trace::{self, Tracer, Watched};
use crate::work::{Work, WorkList};

/// A full turn of a task, in tickets.
const TURN: u32 = 1024;
/// Most batches that are worked on in one round, so that a graph that leads packets in a
/// circle for ever still lets others have their turn.
const MAX_BATCHES: usize = 4096;
/// Most timers that fire in one round.
const MAX_TIMERS: usize = 1024;

/// Why a graph cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no such class.
    #[error("{name}: unknown element class '{class}'")]
    UnknownClass {
        /// The element.
        element: usize,
        /// Its name.
        name: String,
        /// What was asked for.
        class: String,
    },
    /// An element does not like its configuration.
    #[error("{name} :: {class}: {error}")]
    Config {
        /// The element.
        element: usize,
        /// Its name.
        name: String,
        /// Its class.
        class: String,
        /// What is wrong.
        error: ConfigError,
    },
}

/// What is known of each element beside its state.
struct Described {
    info: ClassInfo,
    arguments: Vec<String>,
}

/// A graph with its state. Give it turns with [`Router::run_once`].
pub struct Router {
    elements: Vec<Slot>,
    described: Vec<Described>,
    /// By input: the pass that starts there.
    chains: Vec<Option<Chain>>,
    turns: u64,
    core: Core,
    warnings: Vec<String>,
}

impl Router {
    /// Makes, configures and initialises all elements of a graph.
    ///
    /// # Errors
    /// All mistakes found; configuration stops before initialisation if there is one.
    pub fn build(
        graph: &Graph,
        registry: &Registry,
        arena: &Arena,
        devices: &dyn Devices,
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
        let core = Core {
            work: WorkList::new(wiring.inputs.len()),
            forward: UNCONNECTED,
            wiring,
            timers: Timers::default(),
            arena: arena.clone(),
            now_ns,
            wall_offset_ns: 0,
            accounts: vec![Account::default(); elements.len()],
            tasks: Vec::new(),
            ports: vec![0; BATCH],
            lanes: Vec::with_capacity(most_outputs),
            index: names.iter().cloned().zip(0..).collect(),
            names,
            classes: described.iter().map(|described: &Described| described.info.name).collect(),
            trace: None,
            stopped: false,
            // A log that is full is no reason to end.
            log: Box::new(|line| drop(writeln!(std::io::stderr(), "{line}"))),
        };
        let warnings = Vec::new();
        let mut router =
            Router { elements, described, chains: Vec::new(), turns: 0, core, warnings };
        router.configure(devices)?;
        router.initialize(devices)?;
        router.chains = pass::chains(registry.passes(), &mut router.elements, &router.core.wiring);
        Ok(router)
    }

    /// Elements in the order in which they are configured.
    fn order(&self) -> Vec<usize> {
        let phase = |index: &usize| self.described.get(*index).map(|d| d.info.phase);
        let mut order: Vec<usize> = (0..self.elements.len()).collect();
        order.sort_by_key(|index| phase(index).unwrap_or(Phase::Default));
        order
    }

    fn configure(&mut self, devices: &dyn Devices) -> Result<(), Vec<BuildError>> {
        let mut names = Names::default();
        for interface in (0..).map_while(|index| devices.interface(index)) {
            let entry = names.entry(&interface.name);
            entry.mac = Some(interface.mac);
            entry.ipv4 = interface.address;
        }
        let mut errors = Vec::new();
        for index in self.order() {
            let base = |base: &[u32]| match base.get(index..index + 2) {
                Some([start, end]) => (end - start) as usize,
                _ => 0,
            };
            let wiring = &self.core.wiring;
            let (inputs, outputs) = (base(&wiring.input_base), base(&wiring.output_base));
            let (Some(described), Some(Some(element))) =
                (self.described.get(index), self.elements.get_mut(index))
            else {
                continue;
            };
            let mut arguments = Arguments::new(&described.arguments, &mut names, inputs, outputs);
            let result = element.configure(&mut arguments);
            let (noted, warnings) = arguments.into_notes();
            self.warnings.extend(warnings);
            let found = noted.into_iter().chain(result.err());
            errors.extend(found.map(|error| self.error(index, error)).collect::<Vec<_>>());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn initialize(&mut self, devices: &dyn Devices) -> Result<(), Vec<BuildError>> {
        let mut errors = Vec::new();
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
            errors.extend(result.err().map(|error| self.error(index, error)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn error(&self, element: usize, error: ConfigError) -> BuildError {
        BuildError::Config {
            element,
            name: self.core.names.get(element).cloned().unwrap_or_default(),
            class: self.described.get(element).map_or("", |d| d.info.name).to_owned(),
            error,
        }
    }

    /// Warnings from configuration.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// One round: timers that are due, one turn of each task, and all packets that are under
    /// way. Returns whether anything was done; if not, the caller may sleep until a packet
    /// arrives or [`Router::next_timer_ns`].
    ///
    /// `now_ns` is the time of this round, on a clock that never goes back; elements see no
    /// other, so the clock is read once a round and not once a packet.
    pub fn run_once(&mut self, now_ns: u64, devices: &mut dyn Devices) -> bool {
        match self.core.trace.clone() {
            None => self.round(now_ns, devices),
            Some(trace) if trace.borrow_mut().begin(now_ns) => {
                self.round(now_ns, &mut Watched { inner: devices, trace })
            }
            Some(_) => {
                self.core.trace = None;
                self.round(now_ns, devices)
            }
        }
    }

    fn round(&mut self, now_ns: u64, devices: &mut dyn Devices) -> bool {
        self.core.now_ns = now_ns;
        let mut budget = MAX_BATCHES;
        let mut worked = false;
        for _ in 0..MAX_TIMERS {
            let Some((index, timer)) = self.core.timers.pop(now_ns) else { break };
            with_element(&mut self.core, &mut self.elements, devices, index, |element, context| {
                element.run_timer(timer, context);
            });
            worked = true;
        }
        worked |= self.deliver(&mut budget, devices);
        for task in 0..self.core.tasks.len() {
            let Some(entry) = self.core.tasks.get_mut(task) else { break };
            let index = entry.element;
            entry.credit = entry.credit.saturating_add(entry.tickets);
            while let Some(entry) = self.core.tasks.get_mut(task)
                && entry.credit >= TURN
            {
                entry.credit -= TURN;
                let did = with_element(
                    &mut self.core,
                    &mut self.elements,
                    devices,
                    index,
                    |element, context| element.run_task(context),
                );
                worked |= did.unwrap_or(false);
                worked |= self.deliver(&mut budget, devices);
            }
        }
        worked
    }

    /// Works on packets under way until there are none or the budget is used up.
    #[inline]
    fn deliver(&mut self, budget: &mut usize, devices: &mut dyn Devices) -> bool {
        let mut worked = false;
        while *budget > 0
            && let Some(mut work) = self.core.work.pop()
        {
            worked = true;
            // A batch that is alone under way goes from element to element in hand.
            while let Some(next) = self.hand_over(&mut work, devices) {
                *budget = budget.saturating_sub(1);
                if *budget == 0 || self.core.work.len() > 0 {
                    self.core.work.push_batch(next, &mut work.batch);
                    break;
                }
                work.input = next;
            }
            *budget = budget.saturating_sub(1);
            self.core.work.give_batch(work.batch);
        }
        worked
    }

    /// Gives a batch to the element that it is for. Returns the input that what is left of it
    /// goes to, if any.
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
        with_element(&mut self.core, &mut self.elements, devices, index, |element, context| {
            element.push(port as usize, &mut work.batch, context);
        });
        let next = std::mem::replace(&mut self.core.forward, UNCONNECTED);
        (next != UNCONNECTED && !work.batch.is_empty()).then_some(next)
    }

    /// When the next timer is due, on the clock of [`Router::run_once`].
    pub fn next_timer_ns(&self) -> Option<u64> {
        self.core.timers.next_ns()
    }

    /// Whether packets are under way; if so, do not sleep.
    pub fn is_busy(&self) -> bool {
        self.core.work.len() > 0
    }

    /// Whether an element or a handler asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.core.stopped
    }

    /// What to add to the clock of [`Router::run_once`] for nanoseconds since 1970.
    pub fn set_wall_offset_ns(&mut self, offset_ns: u64) {
        self.core.wall_offset_ns = offset_ns;
    }

    /// Where `Print` and the like write; standard error if never set.
    pub fn set_log(&mut self, log: Box<dyn FnMut(&str)>) {
        self.core.log = log;
    }

    /// How often a batch was given to an element, or to several that one pass works for.
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

    /// What has gone through element `index`.
    pub fn account(&self, index: usize) -> Option<Account> {
        self.core.accounts.get(index).copied()
    }

    /// Element number `index`, to look at its state in tests.
    pub fn element(&mut self, index: usize) -> Option<&mut dyn crate::Element> {
        self.elements.get_mut(index)?.as_deref_mut()
    }

    /// Takes over the state of elements of the same name and class from a previous router.
    pub fn take_state(&mut self, old: &mut Router) {
        for (index, name) in self.core.names.iter().enumerate() {
            let class = |router: &Vec<Described>, i: usize| router.get(i).map(|d| d.info.name);
            if let Some(other) = old.find(name)
                && class(&old.described, other) == class(&self.described, index)
                && let Some(Some(element)) = self.elements.get_mut(index)
                && let Some(previous) = old.element(other)
            {
                element.take_state(previous);
            }
        }
    }

    /// All handlers of an element: its own and those that every element has.
    pub fn handlers(&self, index: usize) -> Vec<Handler> {
        let own =
            self.elements.get(index).and_then(Option::as_ref).map_or(&[][..], |e| e.handlers());
        let common = COMMON.iter().filter(|c| !own.iter().any(|o| o.name == c.name));
        own.iter().chain(common).copied().collect()
    }

    /// Reads a handler: `element.handler`, or a name alone for one of the router's.
    ///
    /// # Errors
    /// If there is no such handler, or it has no answer.
    pub fn read(&mut self, path: &str, parameter: &str) -> Result<String, HandlerError> {
        let Some((index, handler)) = self.resolve(path, Flags::READ)? else {
            return self.read_global(path);
        };
        if !self.has_own(index, handler) {
            return self.read_common(index, handler);
        }
        with_element(
            &mut self.core,
            &mut self.elements,
            &mut NoDevices,
            index,
            |element, context| element.read(handler, parameter, context),
        )
        .unwrap_or_else(|| Err(HandlerError::NotFound(path.to_owned())))
    }

    /// Writes a handler: `element.handler`, or a name alone for one of the router's.
    ///
    /// # Errors
    /// If there is no such handler, or the value does not do.
    pub fn write(&mut self, path: &str, value: &str) -> Result<(), HandlerError> {
        let Some((index, handler)) = self.resolve(path, Flags::WRITE)? else {
            return self.write_global(path, value);
        };
        with_element(
            &mut self.core,
            &mut self.elements,
            &mut NoDevices,
            index,
            |element, context| element.write(handler, value, context),
        )
        .unwrap_or_else(|| Err(HandlerError::NotFound(path.to_owned())))
    }

    fn has_own(&self, index: usize, handler: &str) -> bool {
        let element = self.elements.get(index).and_then(Option::as_ref);
        element.is_some_and(|element| element.handlers().iter().any(|h| h.name == handler))
    }

    /// Element and handler that `path` names, or `None` for one of the router's own.
    fn resolve<'p>(
        &self,
        path: &'p str,
        flag: Flags,
    ) -> Result<Option<(usize, &'p str)>, HandlerError> {
        let (place, name, handlers) = match path.rsplit_once('.').filter(|(e, _)| !e.is_empty()) {
            Some((element, name)) => {
                let index = self
                    .find(element)
                    .ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
                (Some((index, name)), name, self.handlers(index))
            }
            None => (None, path.trim_start_matches('.'), GLOBAL.to_vec()),
        };
        let Some(handler) = handlers.iter().find(|handler| handler.name == name) else {
            return Err(HandlerError::NotFound(name.to_owned()));
        };
        match handler.flags.has(flag) {
            true => Ok(place),
            false if flag == Flags::READ => Err(HandlerError::WriteOnly(name.to_owned())),
            false => Err(HandlerError::ReadOnly(name.to_owned())),
        }
    }

    fn write_global(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        match handler.trim_start_matches('.') {
            "trace" if value.trim().is_empty() => self.core.trace = None,
            "trace" => {
                let trace = Tracer::parse(value, &self.core).map_err(HandlerError::Other)?;
                self.core.trace = Some(trace);
            }
            _ => self.core.stopped = true,
        }
        Ok(())
    }

    /// The graph as JSON, with what has gone through each element.
    fn graph(&self) -> Result<String, HandlerError> {
        let wiring = &self.core.wiring;
        let elements = self.described.iter().zip(&self.core.names).zip(&self.core.accounts);
        let elements = elements.map(|((described, name), account)| GraphElementView {
            name: name.clone(),
            class: described.info.name.to_owned(),
            config: described.arguments.join(", "),
            packets: account.packets,
        });
        let mut connections = Vec::new();
        for (element, bounds) in wiring.output_base.windows(2).enumerate() {
            let [start, end] = *bounds else { continue };
            for (output, flat) in (start..end).enumerate() {
                let target = wiring.targets.get(flat as usize).copied().unwrap_or(UNCONNECTED);
                if let Some(to) = wiring.inputs.get(target as usize) {
                    let (to, input) = (to.element as usize, to.port as usize);
                    connections.push(ConnectionView {
                        from: element,
                        output,
                        to,
                        input,
                        pull: false,
                    });
                }
            }
        }
        for (to, source) in wiring.inputs.iter().zip(&wiring.sources) {
            if let Some(source) = source {
                connections.push(ConnectionView {
                    from: source.element as usize,
                    output: source.port as usize,
                    to: to.element as usize,
                    input: to.port as usize,
                    pull: true,
                });
            }
        }
        let view = GraphView { elements: elements.collect(), connections };
        serde_json::to_string(&view).map_err(|error| HandlerError::Other(error.to_string()))
    }

    fn read_global(&self, handler: &str) -> Result<String, HandlerError> {
        let lines = |lines: &mut dyn Iterator<Item = &str>| -> String {
            lines.flat_map(|line| [line, "\n"]).collect()
        };
        match handler.trim_start_matches('.') {
            "version" => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            "list" => {
                let names = lines(&mut self.core.names.iter().map(String::as_str));
                Ok(format!("{}\n{names}", self.core.names.len()))
            }
            "handlers" => Ok(describe(GLOBAL)),
            "graph" => self.graph(),
            "trace" => {
                let now_ns = self.core.now_ns;
                let fetched = self.core.trace.as_ref().map(|t| t.borrow_mut().fetch(now_ns));
                serde_json::to_string(&fetched.unwrap_or_default())
                    .map_err(|error| HandlerError::Other(error.to_string()))
            }
            other => Err(HandlerError::NotFound(other.to_owned())),
        }
    }

    fn read_common(&self, index: usize, handler: &str) -> Result<String, HandlerError> {
        let not_found = || HandlerError::NotFound(handler.to_owned());
        let described = self.described.get(index).ok_or_else(not_found)?;
        let account = self.account(index).unwrap_or_default();
        match handler {
            "class" => Ok(described.info.name.to_owned()),
            "name" => Ok(self.core.names.get(index).cloned().unwrap_or_default()),
            "config" => Ok(described.arguments.join(", ")),
            "handlers" => Ok(describe(&self.handlers(index))),
            "packets" => Ok(account.packets.to_string()),
            "batches" => Ok(account.batches.to_string()),
            "ports" => Ok(self.ports(index)),
            _ => Err(not_found()),
        }
    }

    /// Ports and connections, in Click's form.
    fn ports(&self, index: usize) -> String {
        let wiring = &self.core.wiring;
        let name = |element: u32| self.core.names.get(element as usize).map_or("", String::as_str);
        let range = |base: &[u32]| match base.get(index..index + 2) {
            Some(&[start, end]) => start as usize..end as usize,
            _ => 0..0,
        };
        let (inputs, outputs) = (range(&wiring.input_base), range(&wiring.output_base));
        let mut text = format!("{} input{}\n", inputs.len(), plural(inputs.len()));
        for input in inputs.clone() {
            match wiring.sources.get(input).copied().flatten() {
                Some(from) => text += &format!("pull\t{} [{}]\n", name(from.element), from.port),
                None => text += "push\n",
            }
        }
        text += &format!("{} output{}\n", outputs.len(), plural(outputs.len()));
        for output in outputs {
            let target = wiring.targets.get(output).and_then(|i| wiring.inputs.get(*i as usize));
            match target {
                Some(to) => text += &format!("push\t[{}] {}\n", to.port, name(to.element)),
                None => text += "pull\n",
            }
        }
        text
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A line a handler: name and what it can do, as Click's `handlers` handler answers.
fn describe(handlers: &[Handler]) -> String {
    let letters = [
        (Flags::READ, 'r'),
        (Flags::WRITE, 'w'),
        (Flags::PARAMETER, '+'),
        (Flags::RAW, '%'),
        (Flags::CALM, '.'),
        (Flags::EXPENSIVE, '$'),
        (Flags::UNCOMMON, 'U'),
        (Flags::BUTTON, 'b'),
        (Flags::CHECKBOX, 'c'),
    ];
    let line = |handler: &Handler| {
        let set = letters.iter().filter(|(flag, _)| handler.flags.has(*flag));
        format!("{}\t{}\n", handler.name, set.map(|(_, letter)| *letter).collect::<String>())
    };
    handlers.iter().map(line).collect()
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
            element.cleanup();
        }
    }
}
