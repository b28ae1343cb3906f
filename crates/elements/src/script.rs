//! # Script
//!
//! ## Synopsis
//! `Script([TYPE type,] INSTRUCTION, ...)`
//!
//! ## Ports
//! None; a script for packets has one input and any number of outputs, push or pull.
//!
//! ## Description
//! A small language that reads and writes handlers, waits, and decides. Each argument is an
//! instruction; they are carried out one after the other.
//!
//! In the text of instructions, `$x` and `${x}` stand for a variable, `$(handler arguments)`
//! for what a read handler answers. A handler without an element is the script's own, like
//! `$(add 1 2)`, or the router's. `$args`, `$1`, `$2` ... are what `run` was given, `$#` their
//! number, `$0` the handler that was called, `$write` whether it was written, `$input` the
//! input that a packet came to, `$?` 0 if the last `write` succeeded, and `$$` the number of
//! the process.
//!
//! Instructions; those with a `q` remove a layer of quotes from their text:
//! - `set VARIABLE TEXT`, `setq`: sets a variable.
//! - `init VARIABLE TEXT`, `initq`: the same, once, when the router starts.
//! - `export VARIABLE [TEXT]`, `exportq`: the same, and a read handler shows the variable.
//! - `print [>FILE | >>FILE] TEXT or HANDLER`, `printq`: a line on standard output or in a file.
//!   Text that starts with a letter, `@` or `_` names a handler. `printn`, `printnq`: no newline.
//! - `save HANDLER FILE`, `append HANDLER FILE`: the same with a handler.
//! - `read HANDLER [ARGUMENTS]`, `readq`: a handler's name and answer among the messages.
//! - `write HANDLER [VALUE]`, `writeq`: writes a handler.
//! - `wait TIME`, `wait_time TIME`: waits so long, or until a step.
//! - `pause [COUNT]`, `wait`, `wait_step`, `wait_stop`: waits until `step` is written COUNT times.
//! - `label NAME`, `goto NAME [CONDITION]`, `loop`: jumps; `begin`, `end`, `exit`, `stop` and
//!   `error` are labels too. A script that jumps 1000 times without waiting is given up.
//! - `return [VALUE]`, `returnq`: ends the script with a value.
//! - `end`: ends it. A script for packets sends the packet to output 0.
//! - `exit`: ends it; a script for packets drops the packet, one for signals comes no more.
//! - `stop`: ends it and asks the router to stop.
//! - `error [MESSAGE]`, `errorq`: ends it with an error.
//!
//! ## Arguments
//! - TYPE (keyword): when the script runs. `ACTIVE`: when the router starts, the default
//!   without ports. `PASSIVE`: when its `run` handler is called. `PACKET`: for each packet, the
//!   default with ports; `return` says the output. `PROXY`: for any handler that the script does
//!   not have. `DRIVER`: as `DriverManager`. `SIGNAL name ...`: when the process gets a signal.
//!
//! ## Handlers
//! - `step`, `goto`, `run` (write), `run` (read): go on, jump, start from the beginning.
//! - `add`, `sub`, `mul`, `div`, `idiv`, `mod`, `rem`, `min`, `max`, `neg`, `abs` (read with
//!   arguments): arithmetic.
//! - `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `not`, `and`, `or`, `nand`, `nor`, `if`, `in`: logic.
//! - `first`, `length`, `unquote`, `sprintf`, `random`, `now`, `htons`, `htonl`, `ntohs`,
//!   `ntohl`: text and numbers.
//! - `readable`, `writable`: whether all these handlers are there.
//! - `cat`, `catq`: a file. `kill SIGNAL PROCESS...`: sends a signal.
//! - `get`, `shift` (read), `set` (write): variables.
//!
//! ## See also
//! `DriverManager`

pub(crate) mod expand;
mod format;
mod functions;
mod program;
mod words;

use std::io::Write as _;
use std::time::Duration;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, Handler,
    HandlerError, InitContext, Names, Target, Value,
};

pub(crate) use self::words::{quoted, shift_word, unquoted};

use self::expand::{Form, Reference, expand};
use self::program::{Action, End, Instruction, Jump};

/// A script that jumps so often without waiting is given up.
const MOST_JUMPS: u32 = 1000;

/// When the script runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    Signal(Vec<i32>),
}

/// Who steps a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Handler,
    Router,
    Timer,
    Jump,
}

/// Carries out instructions; with `DRIVER` it is a `DriverManager`.
#[derive(Default)]
pub(crate) struct Scripted<const DRIVER: bool> {
    kind: Kind,
    program: Vec<Instruction>,
    variables: Vec<(String, String)>,
    exports: Vec<String>,
    position: usize,
    /// Blocking instructions passed so far.
    steps: u64,
    /// While the script runs: steps that were asked for meanwhile.
    running: Option<u64>,
    /// What `run` was called with, and as which handler.
    called: Call,
    status: i32,
    returned: String,
    random: u64,
}

#[derive(Clone, Debug, Default)]
struct Call {
    arguments: String,
    handler: String,
    write: bool,
}

/// Runs when it is asked to.
pub(crate) type Script = Scripted<false>;

impl Class for Scripted<false> {
    const INFO: ClassInfo = ClassInfo::new("Script", "-/-").processing("ah/ah");
}

impl Class for Scripted<true> {
    const INFO: ClassInfo = ClassInfo::new("DriverManager", "0/0");
}

const SIGNALS: &[(&str, i32)] = &[
    ("ABRT", 6),
    ("ALRM", 14),
    ("HUP", 1),
    ("INT", 2),
    ("IO", 29),
    ("PIPE", 13),
    ("QUIT", 3),
    ("TERM", 15),
    ("TSTP", 20),
    ("USR1", 10),
    ("USR2", 12),
];

/// Number of a signal of this name or number.
fn signal(word: &str) -> Option<i32> {
    let named = SIGNALS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
    named.or_else(|| word.parse().ok()).filter(|number| (0..32).contains(number))
}

fn kind(text: &str) -> Option<Kind> {
    let mut rest = text;
    let word = shift_word(&mut rest);
    let kind = match word {
        "SIGNAL" => {
            let mut numbers = Vec::new();
            while !rest.is_empty() {
                numbers.push(signal(shift_word(&mut rest))?);
            }
            return (!numbers.is_empty()).then_some(Kind::Signal(numbers));
        }
        "ACTIVE" => Kind::Active,
        "PASSIVE" => Kind::Passive,
        "PACKET" | "PUSH" => Kind::Packet,
        "PROXY" => Kind::Proxy,
        "DRIVER" => Kind::Driver,
        _ => return None,
    };
    rest.is_empty().then_some(kind)
}

impl<const DRIVER: bool> Scripted<DRIVER> {
    fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.variables.iter().find(|(own, _)| own == name) {
            return Some(value.clone());
        }
        let arguments = &self.called.arguments;
        match name {
            "?" => Some(self.status.to_string()),
            "args" => Some(arguments.clone()),
            "$" => Some(std::process::id().to_string()),
            "0" => Some(self.called.handler.clone()),
            "write" => Some(self.called.write.to_string()),
            "#" => Some(words(arguments).count().to_string()),
            _ => {
                let number: usize = name.parse().ok()?;
                let word = words(arguments).nth(number.checked_sub(1)?);
                Some(word.unwrap_or_default().to_owned())
            }
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match self.variables.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    fn complain(&self, context: &mut Context<'_>, message: &str) {
        match message.starts_with(CALLING) {
            true => context.log(message),
            false => {
                let name = declaration::<DRIVER>(context);
                context.log(&format!("While executing '{name}':\n  {message}"));
            }
        }
    }

    /// Puts variables and answers of handlers into a text.
    fn expand(&mut self, text: &str, form: Form, context: &mut Context<'_>) -> String {
        expand(text, form, &mut |reference| match reference {
            Reference::Variable(name) => self.variable(&name),
            Reference::Handler(call) => match self.read_call(&call, false, context) {
                Ok((_, answer)) => Some(answer),
                Err(error) => {
                    self.complain(context, &error);
                    None
                }
            },
        })
    }

    /// Whether `name` is a handler of this script.
    fn has(&self, name: &str) -> bool {
        HANDLERS.iter().any(|handler| handler.name == name)
            || self.exports.iter().any(|export| export == name)
    }

    /// Calls the read handler at the start of `call`; returns its whole name, and the answer.
    fn read_call(
        &mut self,
        call: &str,
        unquote: bool,
        context: &mut Context<'_>,
    ) -> Result<(String, String), String> {
        let mut rest = call;
        let path = shift_word(&mut rest);
        let parameter = if unquote { unquoted(rest) } else { rest.to_owned() };
        let me = context.index();
        let found = match context.target_of(path) {
            _ if !path.contains('.') && self.has(path) => Target::Element(me, path.to_owned()),
            found => found.map_err(|error| not_found(path, &error, "read"))?,
        };
        match found {
            Target::Element(index, handler) if index == me => {
                let name = format!("{}.{handler}", context.name());
                let answer = self.answer(&handler, &parameter, context);
                answer.map(|text| (name, text)).map_err(|error| error.to_string())
            }
            Target::Element(index, handler) => {
                let element = context.names().get(index).cloned().unwrap_or_default();
                let name = format!("{element}.{handler}");
                match context.read_of(index, &handler, &parameter) {
                    Ok(text) => Ok((name, text)),
                    Err(error) => Err(not_found(&name, &error, "read")),
                }
            }
            Target::Global(handler) => match context.read_handler(path, &parameter) {
                Ok(text) => Ok((handler, text)),
                Err(error) => Err(not_found(&handler, &error, "read")),
            },
        }
    }

    fn write_call(
        &mut self,
        call: &str,
        unquote: bool,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let mut rest = call;
        let path = shift_word(&mut rest);
        let value = if unquote { unquoted(rest) } else { rest.to_owned() };
        let me = context.index();
        let own = !path.contains('.') && self.has(path);
        let found = match context.target_of(path) {
            _ if own => Target::Element(me, path.to_owned()),
            found => found.map_err(|error| not_found(path, &error, "write"))?,
        };
        match found {
            Target::Element(index, handler) if index == me => self
                .order(&handler, &value, context)
                .map_err(|error| not_found(path, &error, "write")),
            Target::Element(index, handler) => {
                let element = context.names().get(index).cloned().unwrap_or_default();
                let name = format!("{element}.{handler}");
                context.write_of(index, &handler, &value).map_err(|e| not_found(&name, &e, "write"))
            }
            Target::Global(handler) => context
                .write_handler(path, &value)
                .map_err(|error| not_found(&handler, &error, "write")),
        }
    }

    /// Carries out instructions for `steps` blocking ones. Returns jumps made, and whether the
    /// script waits now (rather than having ended).
    fn step(
        &mut self,
        steps: u64,
        by: By,
        mut jumps: u32,
        context: &mut Context<'_>,
    ) -> (u32, bool) {
        let until = self.steps.saturating_add(steps);
        while self.steps <= until && jumps < MOST_JUMPS {
            let at = self.position;
            let Some(Instruction { action, text }) = self.program.get(at).cloned() else { break };
            self.position += 1;
            match action {
                Action::Begin { open } => {
                    if open {
                        self.steps += 1;
                        self.set_action(at, Action::Begin { open: false });
                    }
                }
                Action::Pause { count, mut seen } => {
                    let passed = until.saturating_sub(self.steps).min(count.saturating_sub(seen));
                    self.steps += passed;
                    seen += passed;
                    self.set_action(at, Action::Pause { count, seen });
                    if seen < count {
                        self.position = at;
                        return (jumps + 1, true);
                    }
                }
                Action::Wait => {
                    if self.steps == until {
                        let time = self.expand(&text, Form::Plain, context);
                        match Duration::parse(time.trim(), &Names::default()) {
                            Some(time) => {
                                let at_ns = context.now_ns() + time.as_nanos() as u64;
                                context.schedule(0, at_ns);
                                self.position = at;
                            }
                            None => self.complain(context, "syntax error at 'wait'"),
                        }
                        return (jumps + 1, true);
                    }
                    self.steps += 1;
                    context.unschedule(0);
                }
                Action::Print { quoted, newline } => self.print(&text, quoted, newline, context),
                Action::Read { quoted } => {
                    let call = self.expand(&text, Form::Plain, context);
                    match self.read_call(&call, quoted, context) {
                        Ok((name, answer)) => context.log(&format!("{name}:\n{answer}\n")),
                        Err(error) => self.complain(context, &error),
                    }
                }
                Action::Write { quoted } => {
                    let call = self.expand(&text, Form::Plain, context);
                    self.status = 0;
                    if let Err(error) = self.write_call(&call, quoted, context) {
                        self.status = -22;
                        self.complain(context, &error);
                    }
                }
                Action::Set { variable, quoted } => {
                    let value = self.value(&text, quoted, context);
                    self.set(&variable, value);
                }
                Action::Init { .. } | Action::Label(_) => {}
                Action::Return { quoted } => {
                    self.returned = self.value(&text, quoted, context);
                    if self.position == at + 1 {
                        self.position = at;
                        return (jumps + 1, false);
                    }
                }
                Action::Goto(jump) => {
                    let condition = self.expand(&text, Form::Plain, context);
                    match bool::parse(condition.trim(), &Names::default()) {
                        None if !condition.trim().is_empty() => {
                            self.complain(context, &format!("bad condition '{condition}'"));
                        }
                        Some(false) => {}
                        _ => match jump {
                            Jump::To(to) => self.jump(to, at),
                            Jump::Ends(end) => {
                                self.position = at;
                                self.ended(end, by, context);
                                return (jumps + 1, false);
                            }
                        },
                    }
                }
                Action::Error { quoted } => {
                    let message = self.value(&text, quoted, context);
                    if !message.is_empty() {
                        self.complain(context, &message);
                    }
                    self.position = at;
                    return (jumps + 1, false);
                }
                Action::Ends(end) => {
                    self.position = at;
                    self.ended(end, by, context);
                    return (jumps + 1, false);
                }
            }
            if self.position != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MOST_JUMPS {
            let line = format!("{}: too many jumps, giving up", declaration::<DRIVER>(context));
            context.log(&line);
            self.position = self.program.len();
            context.unschedule(0);
        }
        (jumps + 1, true)
    }

    fn ended(&mut self, end: End, by: By, context: &mut Context<'_>) {
        if end == End::Stop {
            self.steps += 1;
            if by != By::Router {
                context.stop();
            }
        }
    }

    fn set_action(&mut self, at: usize, action: Action) {
        if let Some(instruction) = self.program.get_mut(at) {
            instruction.action = action;
        }
    }

    /// Goes to instruction `to`; pauses from there up to `before` begin anew.
    fn jump(&mut self, to: usize, before: usize) {
        for instruction in self.program.iter_mut().take(before).skip(to) {
            if let Action::Pause { seen, .. } = &mut instruction.action {
                *seen = 0;
            }
        }
        self.position = to;
    }

    fn value(&mut self, text: &str, quoted: bool, context: &mut Context<'_>) -> String {
        let value = self.expand(text, Form::Plain, context);
        if quoted { unquoted(&value) } else { value }
    }

    fn print(&mut self, text: &str, quoted: bool, newline: bool, context: &mut Context<'_>) {
        let mut rest = text;
        let mut file = None;
        if let Some(target) = rest.strip_prefix('>') {
            let append = target.starts_with('>');
            rest = target.strip_prefix('>').unwrap_or(target).trim_start();
            let name = unquoted(shift_word(&mut rest));
            if name != "-" && !name.is_empty() {
                let mut options = std::fs::OpenOptions::new();
                options.create(true).write(true).append(append).truncate(!append);
                match options.open(&name) {
                    Ok(opened) => file = Some(opened),
                    Err(error) => return self.complain(context, &format!("{name}: {error}")),
                }
            }
        }
        let is_handler = |c: char| c.is_ascii_alphabetic() || c == '@' || c == '_';
        let result = if rest.starts_with(is_handler) {
            let call = self.expand(rest, Form::Plain, context);
            self.read_call(&call, quoted, context).map(|(_, answer)| answer)
        } else {
            Ok(unquoted(&self.expand(rest, Form::Quoted, context)))
        };
        let mut out = match result {
            Ok(out) => out,
            Err(error) => return self.complain(context, &error),
        };
        if newline && !out.ends_with('\n') {
            out.push('\n');
        }
        // Nobody reads it: that is no reason to end.
        drop(match &mut file {
            Some(file) => file.write_all(out.as_bytes()),
            None => {
                let mut out_stream = std::io::stdout().lock();
                out_stream.write_all(out.as_bytes()).and_then(|()| out_stream.flush())
            }
        });
    }

    /// How the script came to its last instruction: what it returns.
    fn complete(&mut self) -> (Result<String, HandlerError>, bool) {
        let last = self.program.get(self.position).map(|instruction| &instruction.action);
        let (result, stops) = match last {
            Some(Action::Return { .. }) => (Ok(std::mem::take(&mut self.returned)), false),
            Some(Action::Error { .. } | Action::Ends(End::Error))
            | Some(Action::Goto(Jump::Ends(End::Error))) => {
                (Err(HandlerError::Other(String::new())), false)
            }
            Some(Action::Ends(End::Stop) | Action::Goto(Jump::Ends(End::Stop))) => {
                (Ok(String::new()), true)
            }
            Some(Action::Ends(End::Done) | Action::Goto(Jump::Ends(End::Done)))
                if self.kind == Kind::Packet =>
            {
                (Ok("0".to_owned()), false)
            }
            _ => (Ok(String::new()), false),
        };
        (result, stops)
    }

    /// Runs from the beginning, for a handler or a signal.
    fn run(&mut self, call: Call, context: &mut Context<'_>) -> Result<String, HandlerError> {
        let outer = std::mem::replace(&mut self.called, call);
        self.position = 0;
        // One that waits goes on with what it was called with.
        let waits = self.go(0, By::Jump, context) && self.position < self.program.len();
        if !waits {
            self.called = outer;
        }
        self.complete().0
    }

    /// Steps, and steps again for what was asked for meanwhile. Returns whether it waits.
    fn go(&mut self, steps: u64, by: By, context: &mut Context<'_>) -> bool {
        if let Some(more) = &mut self.running {
            *more += steps;
            return true;
        }
        let (mut next, mut by, mut jumps) = (Some(steps), by, 0);
        let mut waits = true;
        while let Some(steps) = next {
            self.running = Some(0);
            (jumps, waits) = self.step(steps, by, jumps, context);
            by = By::Handler;
            next = self.running.take().filter(|more| *more > 0);
        }
        waits
    }

    /// Answers one of the script's own read handlers.
    fn answer(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let other = |message: String| HandlerError::Other(message);
        if let Some(answer) = functions::call(handler, parameter) {
            return answer.map_err(other);
        }
        let mut rest = parameter.trim();
        match handler {
            "run" => {
                let arguments = parameter.to_owned();
                self.run(Call { arguments, handler: handler.to_owned(), write: false }, context)
            }
            "now" => Ok(crate::print::seconds(context.wall_ns())),
            "random" => self.random(rest).map_err(|message| other(message.to_owned())),
            "readable" | "writable" => {
                let wanted = if handler == "readable" { Flags::READ } else { Flags::WRITE };
                let all = words(rest).all(|path| self.can(path, wanted, context));
                Ok(all.to_string())
            }
            "cat" | "catq" => {
                let name = unquoted(rest);
                let bytes = std::fs::read(&name).map_err(|e| other(format!("{name}: {e}")))?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Ok(if handler == "catq" { quoted(&text) } else { text })
            }
            "kill" => kill(rest).map(|()| String::new()).map_err(other),
            "get" => {
                let name = shift_word(&mut rest);
                let found = self.variable(name);
                found.ok_or_else(|| other(format!("undefined variable '{name}'")))
            }
            "shift" => self.shift(rest).map_err(other),
            _ if self.exports.iter().any(|export| export == handler) => {
                Ok(self.variable(handler).unwrap_or_default())
            }
            _ if self.kind == Kind::Proxy => {
                let call = Call {
                    arguments: parameter.to_owned(),
                    handler: handler.to_owned(),
                    write: false,
                };
                self.run(call, context)
            }
            _ => Err(HandlerError::NotFound(format!("{}.{handler}", context.name()))),
        }
    }

    fn can(&self, path: &str, wanted: Flags, context: &Context<'_>) -> bool {
        if !path.contains('.') && self.has(path) {
            return HANDLERS.iter().any(|h| h.name == path && h.flags.has(wanted));
        }
        match context.target_of(path) {
            Ok(Target::Element(index, handler)) => {
                context.handler_flags(index, &handler).is_some_and(|flags| flags.has(wanted))
            }
            Ok(Target::Global(_)) => true,
            Err(_) => false,
        }
    }

    /// Takes the first word off a variable.
    fn shift(&mut self, text: &str) -> Result<String, String> {
        let name = if text.is_empty() { "args" } else { text };
        let value = match self.variables.iter_mut().find(|(own, _)| own == name) {
            Some((_, value)) => value,
            None if name == "args" => &mut self.called.arguments,
            None => return Err(format!("undefined variable '{name}'")),
        };
        let mut rest = value.as_str();
        let word = shift_word(&mut rest).to_owned();
        *value = rest.to_owned();
        Ok(word)
    }

    fn random(&mut self, text: &str) -> Result<String, &'static str> {
        // Xorshift64: scripts need something irregular, not secrets.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let value = self.random >> 33;
        let numbers: Option<Vec<u64>> = words(text).map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([]) => Ok(value.to_string()),
            Some([0]) => Err("bad N"),
            Some([n]) => Ok((value % n).to_string()),
            Some([from, to]) if from <= to => {
                Ok((from + value % (to - from).saturating_add(1)).to_string())
            }
            _ => Err("bad N"),
        }
    }

    /// Carries out one of the script's own write handlers.
    fn order(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let text = value.trim();
        match handler {
            "step" => {
                let (steps, by) = match text {
                    "router" => (1, By::Router),
                    "" => (1, By::Handler),
                    _ => {
                        let count = text.parse::<u64>();
                        let wanted = |_| HandlerError::value(handler, text, "number of steps");
                        (count.map_err(wanted)?, By::Handler)
                    }
                };
                self.go(steps, by, context);
            }
            "goto" => match program::find(&self.program, text) {
                Some(Jump::To(to)) => {
                    self.jump(to, self.program.len());
                    self.go(0, By::Jump, context);
                }
                _ => return Err(HandlerError::Other("jump to nonexistent label".to_owned())),
            },
            "set" => {
                let mut rest = text;
                let name = shift_word(&mut rest).to_owned();
                match name.as_str() {
                    "" => return Err(HandlerError::Other("no variable".to_owned())),
                    "args" => rest.clone_into(&mut self.called.arguments),
                    _ => self.set(&name, rest.to_owned()),
                }
            }
            _ => {
                let call =
                    Call { arguments: value.to_owned(), handler: handler.to_owned(), write: true };
                return self.run(call, context).map(drop);
            }
        }
        self.complete().0.map(drop)
    }

    /// The output that the script chooses for a packet.
    fn output(&mut self, input: usize, context: &mut Context<'_>) -> Option<usize> {
        self.set("input", input.to_string());
        self.position = 0;
        self.go(0, By::Jump, context);
        self.complete().0.ok()?.trim().parse().ok()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = shift_word(&mut rest);
        (!word.is_empty()).then_some(word)
    })
}

/// What errors of handlers begin with.
const CALLING: &str = "While calling";

/// An error of a handler, in the words of Click where it is not there.
fn not_found(name: &str, error: &HandlerError, how: &str) -> String {
    match error {
        HandlerError::NotFound(_) | HandlerError::WriteOnly(_) | HandlerError::ReadOnly(_) => {
            format!("no '{name}' {how} handler")
        }
        other => format!("{CALLING} '{name}':\n  {other}"),
    }
}

fn declaration<const DRIVER: bool>(context: &Context<'_>) -> String {
    let class = if DRIVER { "DriverManager" } else { "Script" };
    format!("{} :: {class}", context.name())
}

fn kill(text: &str) -> Result<(), String> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let mut words = words(text);
    let number = words.next().and_then(signal).ok_or("bad SIGNO")?;
    let signal = Signal::try_from(number).ok();
    for word in words {
        let process = word.parse().map_err(|_| "bad PID")?;
        kill(Pid::from_raw(process), signal)
            .map_err(|error| format!("kill({process}, {number}): {error}"))?;
    }
    Ok(())
}

const fn function(name: &'static str) -> Handler {
    Handler::read(name).with(Flags::PARAMETER)
}

const HANDLERS: &[Handler] = &[
    Handler::write("step"),
    Handler::write("goto"),
    Handler::both("run").with(Flags::PARAMETER),
    function("add"),
    function("sub"),
    function("min"),
    function("max"),
    function("mul"),
    function("div"),
    function("idiv"),
    function("mod"),
    function("rem"),
    function("neg"),
    function("abs"),
    function("eq"),
    function("ne"),
    function("gt"),
    function("ge"),
    function("lt"),
    function("le"),
    function("not"),
    function("sprintf"),
    function("first"),
    function("random"),
    function("and"),
    function("or"),
    function("nand"),
    function("nor"),
    function("if"),
    function("in"),
    Handler::read("now"),
    function("readable"),
    function("writable"),
    function("length"),
    function("unquote"),
    function("htons"),
    function("htonl"),
    function("ntohs"),
    function("ntohl"),
    function("cat").with(Flags::PRIVATE),
    function("catq").with(Flags::PRIVATE),
    function("kill").with(Flags::PRIVATE),
    function("get"),
    Handler::write("set"),
    function("shift"),
];

impl<const DRIVER: bool> Element for Scripted<DRIVER>
where
    Scripted<DRIVER>: Class,
{
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let ports = arguments.inputs() + arguments.outputs() > 0;
        let given = arguments.keyword::<String>("TYPE")?;
        self.kind = match given {
            Some(text) => kind(&text).ok_or_else(|| ConfigError::other("bad TYPE"))?,
            None if DRIVER => Kind::Driver,
            None if ports => Kind::Packet,
            None => Kind::Active,
        };
        if self.kind == Kind::Packet && arguments.inputs() == 0 {
            return Err(ConfigError::other("PACKET script must have inputs"));
        }
        if self.kind != Kind::Packet && ports {
            return Err(ConfigError::other("ports allowed only on PACKET scripts"));
        }
        let driver = self.kind == Kind::Driver;
        let last = if driver { End::Stop } else { End::Done };
        match program::parse(&arguments.rest(), last, driver) {
            Ok(program) => self.program = program,
            Err(errors) => {
                for (index, message) in errors {
                    arguments.error(ConfigError::at(index, message));
                }
            }
        }
        for instruction in &self.program {
            if let Action::Init { variable, exported: true, .. } = &instruction.action {
                self.exports.push(variable.clone());
            }
        }
        Ok(())
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.random = (context.now_ns() ^ (context.index() as u64) << 32) | 1;
        context.with_context(|context| {
            for instruction in self.program.clone() {
                if let Action::Init { variable, quoted, .. } = instruction.action {
                    let value = self.value(&instruction.text, quoted, context);
                    self.set(&variable, value);
                }
            }
        });
        match &self.kind {
            Kind::Driver => {
                if !context.manage_stops() {
                    return Err(ConfigError::other("router has more than one driver script"));
                }
            }
            Kind::Signal(numbers) => {
                numbers.iter().for_each(|number| context.catch_signal(*number));
                return Ok(());
            }
            Kind::Active => {}
            Kind::Passive | Kind::Packet | Kind::Proxy => return Ok(()),
        }
        let first = self.program.first_mut();
        match first.map(|first| (&mut first.action, first.text.clone())) {
            Some((Action::Wait, text)) => {
                let time = context.with_context(|c| self.expand(&text, Form::Plain, c));
                let time = Duration::parse(time.trim(), &Names::default());
                let time = time.ok_or_else(|| ConfigError::other("syntax error at 'wait'"))?;
                context.schedule(0, context.now_ns() + time.as_nanos() as u64);
            }
            Some((Action::Begin { open }, _)) => {
                *open = true;
                if self.kind == Kind::Driver {
                    context.stop();
                } else {
                    context.schedule(0, context.now_ns());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.go(1, By::Timer, context);
    }

    fn stop_requested(&mut self, context: &mut Context<'_>) -> bool {
        self.go(1, By::Router, context) && self.position < self.program.len()
    }

    fn caught_signal(&mut self, _: i32, context: &mut Context<'_>) {
        let exited = matches!(
            self.program.get(self.position).map(|instruction| &instruction.action),
            Some(Action::Ends(End::Exit) | Action::Goto(Jump::Ends(End::Exit)))
        );
        if !exited {
            let _ = self.run(Call { handler: "run".to_owned(), ..Call::default() }, context);
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.drain() {
            if let Some(output) = self.output(port, context) {
                context.push(output, packet);
            }
        }
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(0, max, &mut own);
        for packet in own.drain() {
            match self.output(0, context) {
                Some(0) => drop(batch.push(packet)),
                Some(port) => context.push(port, packet),
                None => {}
            }
        }
        context.give_batch(own);
    }

    fn handlers(&self) -> &'static [Handler] {
        HANDLERS
    }

    fn dynamic_handler(&self, name: &str) -> Option<Flags> {
        if self.exports.iter().any(|export| export == name) {
            return Some(Flags::READ);
        }
        let any = Flags::READ.with(Flags::WRITE).with(Flags::PARAMETER);
        let common = ["name", "class", "config", "ports", "handlers", "packets", "batches"];
        (self.kind == Kind::Proxy && !common.contains(&name)).then_some(any)
    }

    fn dynamic_handlers(&self) -> Vec<(String, Flags)> {
        self.exports.iter().map(|export| (export.clone(), Flags::READ)).collect()
    }

    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        self.answer(handler, parameter, context)
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.order(handler, value, context)
    }
}
