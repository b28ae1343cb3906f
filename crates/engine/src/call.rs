//! Calling handlers: of elements, and of the router itself.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::graph::{ConnectionView, GraphElementView, GraphView};
use crate::handler::{COMMON, Flags, GLOBAL, HandlerError, TASK, letters};
use crate::state::{Core, Port, UNCONNECTED, with_element};
use crate::trace::Tracer;

/// A call of a handler that belongs to the router itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Read the handler's value, with this parameter.
    Read(&'a str),
    /// Set this value.
    Write(&'a str),
}

/// Answers calls of a handler that the router's owner has added to it.
pub type Answer = Box<dyn FnMut(Request<'_>) -> Result<String, HandlerError>>;

/// A handler that was added to the router itself.
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) flags: Flags,
    pub(crate) answer: Answer,
}

/// Whose handler a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A handler of an element: the element's number, and the handler's name.
    Element(usize, String),
    /// A handler of the router.
    Global(String),
}

impl Context<'_> {
    /// Reads a handler: `element.handler`, or a name alone for one of the router's. The name is
    /// resolved from this element's compound outwards.
    ///
    /// # Errors
    /// If the handler does not exist or cannot answer. A running element (this one, or one that
    /// waits for this one) cannot answer.
    pub fn read_handler(&mut self, path: &str, parameter: &str) -> Result<String, HandlerError> {
        match self.target_of(path)? {
            Target::Element(index, handler) => self.read_of(index, &handler, parameter),
            Target::Global(handler) => self.read_global(&handler, parameter),
        }
    }

    /// Writes a handler; the name is resolved as by [`Context::read_handler`]. A write to a running
    /// element is delayed until its run ends.
    ///
    /// # Errors
    /// If there is no such handler, or the value is invalid.
    pub fn write_handler(&mut self, path: &str, value: &str) -> Result<(), HandlerError> {
        match self.target_of(path)? {
            Target::Element(index, handler) => self.write_of(index, &handler, value),
            Target::Global(handler) => self.write_global(&handler, value),
        }
    }

    /// The owner of the handler `path`.
    ///
    /// # Errors
    /// If there is no such element or handler.
    pub fn target_of(&self, path: &str) -> Result<Target, HandlerError> {
        let found = path.rsplit_once('.').filter(|(element, _)| !element.is_empty());
        let Some((element, name)) = found else {
            let name = path.trim_start_matches('.');
            return match self.core.global_flags(name) {
                Some(_) => Ok(Target::Global(name.to_owned())),
                None => Err(HandlerError::NotFound(name.to_owned())),
            };
        };
        let index = self
            .core
            .find_from(self.name(), element)
            .ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        Ok(Target::Element(index, name.to_owned()))
    }

    /// The abilities of a handler of the router itself; `None` if it does not exist.
    pub fn global_flags(&self, name: &str) -> Option<Flags> {
        self.core.global_flags(name)
    }

    /// The abilities of an element's handler; `None` if it does not exist. If the element is
    /// running, only the common handlers are known.
    pub fn handler_flags(&self, index: usize, name: &str) -> Option<Flags> {
        if let Some(Some(element)) = self.elements.get(index) {
            if let Some(own) = element.handlers().iter().find(|handler| handler.name == name) {
                return Some(own.flags);
            }
            if let Some(flags) = element.dynamic_handler(name) {
                return Some(flags);
            }
        }
        self.common_flags(index, name)
    }

    fn common_flags(&self, index: usize, name: &str) -> Option<Flags> {
        let of_tasks = TASK.iter().filter(|_| self.core.task(index).is_some());
        COMMON.iter().chain(of_tasks).find(|handler| handler.name == name).map(|h| h.flags)
    }

    /// All handlers of an element with their abilities: its own and those of all elements.
    pub(crate) fn handlers_of(&self, index: usize) -> Vec<(String, Flags)> {
        let mut all = Vec::new();
        if let Some(Some(element)) = self.elements.get(index) {
            all.extend(element.handlers().iter().map(|own| (own.name.to_owned(), own.flags)));
            all.extend(element.dynamic_handlers());
        }
        let of_tasks = TASK.iter().filter(|_| self.core.task(index).is_some());
        for common in COMMON.iter().chain(of_tasks) {
            if !all.iter().any(|(name, _)| name == common.name) {
                all.push((common.name.to_owned(), common.flags));
            }
        }
        all
    }

    fn check(&self, index: usize, name: &str, wanted: Flags) -> Result<(), HandlerError> {
        let path = || match self.core.names.get(index) {
            Some(element) => format!("{element}.{name}"),
            None => name.to_owned(),
        };
        let flags = self.handler_flags(index, name);
        let flags = flags.ok_or_else(|| HandlerError::NotFound(path()))?;
        match flags.has(wanted) {
            true => Ok(()),
            false if wanted == Flags::READ => Err(HandlerError::WriteOnly(path())),
            false => Err(HandlerError::ReadOnly(path())),
        }
    }

    /// Reads a handler of element number `index`.
    ///
    /// # Errors
    /// The same as for [`Context::read_handler`].
    pub fn read_of(
        &mut self,
        index: usize,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let running = self.elements.get(index).is_some_and(Option::is_none);
        if running && self.common_flags(index, handler).is_none() {
            return Err(HandlerError::Busy(
                self.core.names.get(index).cloned().unwrap_or_default(),
            ));
        }
        self.check(index, handler, Flags::READ)?;
        if !self.has_own(index, handler) {
            return self.read_common(index, handler);
        }
        with_element(self.core, self.elements, self.devices, index, |element, context| {
            element.read(handler, parameter, context)
        })
        .unwrap_or_else(|| Err(HandlerError::NotFound(handler.to_owned())))
    }

    /// Writes a handler of element number `index`.
    ///
    /// # Errors
    /// The same as for [`Context::write_handler`].
    pub fn write_of(
        &mut self,
        index: usize,
        handler: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if self.elements.get(index).is_some_and(Option::is_none) {
            self.core.deferred.push((index, handler.to_owned(), value.to_owned()));
            return Ok(());
        }
        if handler == "config" && !self.has_own(index, handler) {
            return self.reconfigure(index, value.to_owned());
        }
        self.check(index, handler, Flags::WRITE)?;
        if let Some((keyword, position)) = self.own_keyword(index, handler) {
            let changed = self.core.with_argument(index, keyword, position, value.trim());
            return self.reconfigure(index, changed);
        }
        if !self.has_own(index, handler) {
            return self.write_common(index, handler, value);
        }
        with_element(self.core, self.elements, self.devices, index, |element, context| {
            element.write(handler, value, context)
        })
        .unwrap_or_else(|| Err(HandlerError::NotFound(handler.to_owned())))
    }

    fn has_own(&self, index: usize, handler: &str) -> bool {
        let element = self.elements.get(index).and_then(Option::as_ref);
        element.is_some_and(|element| {
            element.handlers().iter().any(|own| own.name == handler)
                || element.dynamic_handler(handler).is_some()
        })
    }

    /// The argument that a handler changes, if it changes one.
    fn own_keyword(&self, index: usize, name: &str) -> Option<(&'static str, Option<usize>)> {
        let element = self.elements.get(index)?.as_ref()?;
        element.handlers().iter().find(|own| own.name == name)?.argument
    }

    /// Gives an element another configuration while it runs.
    fn reconfigure(&mut self, index: usize, text: String) -> Result<(), HandlerError> {
        let arguments = split(&text);
        let mut names = std::mem::take(&mut self.core.address_names);
        let own = self.core.names.get(index).cloned().unwrap_or_default();
        names.enter(&own);
        let (inputs, outputs) = self.core.wiring.ports_of(index);
        let mut given = Arguments::new(&arguments, &mut names, inputs, outputs);
        let result =
            with_element(self.core, self.elements, self.devices, index, |element, context| {
                element.reconfigure(&mut given, context)
            });
        let (errors, warnings) = given.into_notes();
        self.core.address_names = names;
        if !warnings.is_empty() {
            let class = self.core.classes.get(index).copied().unwrap_or_default();
            let lines: String =
                warnings.iter().map(|text| format!("\n  warning: {text}")).collect();
            self.core.say(&format!("While configuring '{own} :: {class}':{lines}"));
        }
        match result {
            Some(Some(Ok(()))) if errors.is_empty() => {
                if let Some(described) = self.core.described.get_mut(index) {
                    described.arguments = arguments;
                }
                Ok(())
            }
            Some(Some(result)) => {
                let error = errors.into_iter().next().or(result.err());
                Err(HandlerError::Other(error.map_or_else(String::new, |e| e.to_string())))
            }
            _ => Err(HandlerError::ReadOnly(format!("{own}.config"))),
        }
    }

    /// Carries out the writes that were delayed while elements ran.
    #[cold]
    pub(crate) fn write_deferred(&mut self) {
        for (index, handler, value) in std::mem::take(&mut self.core.deferred) {
            if let Err(error) = self.write_of(index, &handler, &value) {
                let name = self.core.names.get(index).cloned().unwrap_or_default();
                self.core.say_of(index, &format!("While calling '{name}.{handler}':\n  {error}"));
            }
        }
    }

    fn read_common(&mut self, index: usize, handler: &str) -> Result<String, HandlerError> {
        let not_found = || HandlerError::NotFound(handler.to_owned());
        let core = &mut *self.core;
        let described = core.described.get(index).ok_or_else(not_found)?;
        let account = core.accounts.get(index).copied().unwrap_or_default();
        match handler {
            "class" => Ok(described.info.name.to_owned()),
            "name" => Ok(core.names.get(index).cloned().unwrap_or_default()),
            "config" => Ok(described.arguments.join(", ")),
            "handlers" => Ok(describe(&self.handlers_of(index))),
            "packets" => Ok(account.packets.to_string()),
            "batches" => Ok(account.batches.to_string()),
            "ports" => Ok(core.ports(index)),
            "scheduled" => {
                let ready = with_element(
                    self.core,
                    self.elements,
                    self.devices,
                    index,
                    |element, context| element.ready(context),
                );
                let task = self.core.task(index).ok_or_else(not_found)?;
                Ok(ready.flatten().unwrap_or(task.worked).to_string())
            }
            "tickets" => {
                core.task(index).map(|task| task.tickets.to_string()).ok_or_else(not_found)
            }
            "home_thread" => Ok(core.home_thread(index).to_string()),
            _ => Err(not_found()),
        }
    }

    fn write_common(
        &mut self,
        index: usize,
        handler: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let wanted = || HandlerError::value(handler, value, "number of tickets, 1 or more");
        let tickets = value.trim().parse().ok().filter(|n| (1..=1 << 15).contains(n));
        self.core.set_tickets(index, tickets.ok_or_else(wanted)?);
        Ok(())
    }

    /// Reads a handler of the router itself.
    pub(crate) fn read_global(
        &mut self,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        match self.core.global_flags(handler) {
            None => return Err(HandlerError::NotFound(handler.to_owned())),
            Some(flags) if !flags.has(Flags::READ) => {
                return Err(HandlerError::WriteOnly(handler.to_owned()));
            }
            Some(_) => {}
        }
        if let Some(answer) = self.core.added(handler, Request::Read(parameter)) {
            return answer;
        }
        let core = &*self.core;
        match handler {
            "version" => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            "list" => {
                let names: String = core.names.iter().map(|name| format!("{name}\n")).collect();
                Ok(format!("{}\n{names}", core.names.len()))
            }
            "handlers" => {
                let added = core.globals.iter().map(|global| (global.name.clone(), global.flags));
                let own = GLOBAL.iter().map(|handler| (handler.name.to_owned(), handler.flags));
                Ok(describe(&own.chain(added).collect::<Vec<_>>()))
            }
            "graph" => core.graph(),
            "super_packets" => Ok(core.first_to_cut().map_or_else(
                || "kept".to_owned(),
                |element| format!("in segments, as {element} keeps no longer ones"),
            )),
            "trace" => {
                let now_ns = core.now_ns;
                let fetched = core.trace.as_ref().map(|t| t.borrow_mut().fetch(now_ns));
                serde_json::to_string(&fetched.unwrap_or_default())
                    .map_err(|error| HandlerError::Other(error.to_string()))
            }
            other => Err(HandlerError::NotFound(other.to_owned())),
        }
    }

    /// Writes a handler of the router itself.
    pub(crate) fn write_global(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        match self.core.global_flags(handler) {
            None => return Err(HandlerError::NotFound(handler.to_owned())),
            Some(flags) if !flags.has(Flags::WRITE) => {
                return Err(HandlerError::ReadOnly(handler.to_owned()));
            }
            Some(_) => {}
        }
        if let Some(answer) = self.core.added(handler, Request::Write(value)) {
            return answer.map(drop);
        }
        match handler {
            "trace" if value.trim().is_empty() => self.core.trace = None,
            "trace" => {
                let trace = Tracer::parse(value, self.core).map_err(HandlerError::Other)?;
                self.core.trace = Some(trace);
            }
            _ => self.core.stops += 1,
        }
        Ok(())
    }
}

impl Core {
    /// Number of the element with this name, resolved from element `from`: elements of the same
    /// compound have precedence.
    pub(crate) fn find_from(&self, from: &str, name: &str) -> Option<usize> {
        let mut scope = from;
        while let Some((outer, _)) = scope.rsplit_once('/') {
            if let Some(index) = self.index.get(&format!("{outer}/{name}")) {
                return Some(*index);
            }
            scope = outer;
        }
        self.index.get(name).copied()
    }

    fn global_flags(&self, name: &str) -> Option<Flags> {
        let added = self.globals.iter().find(|global| global.name == name);
        let own = || GLOBAL.iter().find(|handler| handler.name == name).map(|h| h.flags);
        added.map(|global| global.flags).or_else(own)
    }

    /// The answer of an added handler; `None` if the name is no added handler.
    fn added(&mut self, name: &str, request: Request<'_>) -> Option<Result<String, HandlerError>> {
        let global = self.globals.iter_mut().find(|global| global.name == name)?;
        Some((global.answer)(request))
    }

    /// An element's configuration with one argument changed.
    fn with_argument(
        &self,
        index: usize,
        keyword: &str,
        position: Option<usize>,
        value: &str,
    ) -> String {
        let arguments = self.described.get(index).map_or(&[][..], |d| d.arguments.as_slice());
        let is_keyword = |text: &str| {
            let word = text.split_ascii_whitespace().next().unwrap_or_default();
            word.starts_with(|c: char| c.is_ascii_uppercase())
                && word.len() < text.len()
                && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        let mut at = 0;
        let mut kept: Vec<String> = Vec::new();
        for argument in arguments {
            let keeps = if is_keyword(argument) {
                argument.split_ascii_whitespace().next() != Some(keyword)
            } else {
                at += 1;
                position != Some(at - 1)
            };
            if keeps {
                kept.push(argument.clone());
            }
        }
        kept.push(format!("{keyword} {value}"));
        kept.join(", ")
    }

    /// The graph as JSON, with the packet counts of each element.
    fn graph(&self) -> Result<String, HandlerError> {
        let wiring = &self.wiring;
        let elements = self.described.iter().zip(&self.names).zip(&self.accounts);
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

    /// An element's ports and connections, in Click's form.
    fn ports(&self, index: usize) -> String {
        let wiring = &self.wiring;
        let name = |element: usize| self.names.get(element).map_or("", String::as_str);
        let from = |port: Port| format!("{} [{}]", name(port.element as usize), port.port);
        let to = |port: &Port| format!("[{}] {}", port.port, name(port.element as usize));
        let (inputs, outputs) = (wiring.inputs_of(index), wiring.outputs_of(index));
        let mut text = format!("{} input{}\n", inputs.len(), plural(inputs.len()));
        for input in inputs {
            let (how, peers) = match wiring.sources.get(input).copied().flatten() {
                Some(source) => ("pull", vec![from(source)]),
                None => {
                    let all = (0..self.names.len()).flat_map(|element| {
                        wiring.outputs_of(element).enumerate().map(move |(port, at)| {
                            (at, Port { element: element as u32, port: port as u32 })
                        })
                    });
                    let here = all.filter(|(at, _)| {
                        wiring.targets.get(*at).is_some_and(|target| *target as usize == input)
                    });
                    ("push", here.map(|(_, port)| from(port)).collect())
                }
            };
            text += &format!("{how}\t-\t{}\n", peers.join(", "));
        }
        text += &format!("{} output{}\n", outputs.len(), plural(outputs.len()));
        for (port, output) in outputs.enumerate() {
            let target = wiring.targets.get(output).and_then(|i| wiring.inputs.get(*i as usize));
            let (how, peers) = match target {
                Some(target) => ("push", vec![to(target)]),
                None => {
                    let own = Some(Port { element: index as u32, port: port as u32 });
                    let pulling = wiring.inputs.iter().zip(&wiring.sources);
                    let pulling = pulling.filter(|(_, source)| **source == own);
                    ("pull", pulling.map(|(input, _)| to(input)).collect())
                }
            };
            text += &format!("{how}\t-\t{}\n", peers.join(", "));
        }
        text
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A line for each handler: name and abilities, as Click's handler `handlers` answers.
fn describe(handlers: &[(String, Flags)]) -> String {
    handlers.iter().map(|(name, flags)| format!("{name}\t{}\n", letters(*flags))).collect()
}

/// Splits a configuration string at its commas, outside of quotes and parentheses.
pub(crate) fn split(text: &str) -> Vec<String> {
    let (mut arguments, mut current) = (Vec::new(), String::new());
    let (mut quote, mut depth, mut escaped) = (None, 0u32, false);
    for c in text.chars() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', Some('"')) => escaped = true,
            ('"' | '\'', None) => quote = Some(c),
            ('"' | '\'', Some(open)) if open == c => quote = None,
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                arguments.push(std::mem::take(&mut current).trim().to_owned());
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    let last = current.trim();
    if !last.is_empty() || !arguments.is_empty() {
        arguments.push(last.to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn arguments_are_split_outside_of_quotes() {
        for (text, expected) in [
            ("", &[][..]),
            ("a", &["a"]),
            (" a , b ", &["a", "b"]),
            ("a, (b, c), 'd, e'", &["a", "(b, c)", "'d, e'"]),
            (r#""a\", b", c"#, &[r#""a\", b""#, "c"]),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
