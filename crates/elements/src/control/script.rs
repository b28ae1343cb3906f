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
//! In the text of instructions, `$x` and `${x}` stand for a variable, `$(handler arguments)` for
//! the value of a read handler. A handler without an element is the script's own, like `$(add 1
//! 2)`, or the router's. `$args`, `$1`, `$2` ... are the arguments of `run`, and `$#` is their
//! number. `$0` is the handler that was called, and `$write` says whether it was written. `$input`
//! is the input of the packet. `$?` is 0 if the last `write` succeeded, and `$$` is the number of
//! the process.
//!
//! A variable is empty until an instruction sets it.
//!
//! Instructions; those with a `q` remove a layer of quotes from their text:
//! - `set VARIABLE TEXT`, `setq`: sets a variable.
//! - `init VARIABLE TEXT`, `initq`: the same, once, when the router starts.
//! - `export VARIABLE [TEXT]`, `exportq`: the same, and a read handler shows the variable.
//! - `print [>FILE | >>FILE] TEXT or HANDLER`, `printq`: a line on standard output or in a file.
//!   Text that starts with a letter, `@` or `_` names a handler. `printn`, `printnq`: no newline.
//! - `save HANDLER FILE`, `append HANDLER FILE`: the same with a handler.
//! - `read HANDLER [ARGUMENTS]`, `readq`: prints a handler's name and answer with the messages.
//! - `write HANDLER [VALUE]`, `writeq`: writes a handler.
//! - `wait TIME`, `wait_time TIME`: waits for TIME, or until a step.
//! - `pause [COUNT]`, `wait`, `wait_step`, `wait_stop`: waits until `step` is written COUNT times.
//! - `label NAME`, `goto NAME [CONDITION]`, `loop`: jumps; `begin`, `end`, `exit`, `stop` and
//!   `error` are labels too. A script ends with an error if it jumps 1000 times without waiting.
//! - `return [VALUE]`, `returnq`: ends the script with a value.
//! - `end`: ends the script. A script for packets sends the packet to output 0.
//! - `exit`: ends the script. A script for packets drops the packet; a script for signals gets no
//!   more signals.
//! - `stop`: ends the script and asks the router to stop.
//! - `error [MESSAGE]`, `errorq`: ends the script with an error.
//!
//! ## Arguments
//! - TYPE (keyword): when the script runs. `ACTIVE`: when the router starts, the default without
//!   ports. `PASSIVE`: when its `run` handler is called. `PACKET`: for each packet, the default
//!   with ports; `return` gives the output. `PROXY`: for any handler that the script does not have.
//!   `DRIVER`: as `DriverManager`. `SIGNAL name ...`: when the process gets a signal.
//!
//! ## Handlers
//! - `step`, `goto`, `run` (write), `run` (read): continue, jump, start from the beginning.
//! - `add`, `sub`, `mul`, `div`, `idiv`, `mod`, `rem`, `min`, `max`, `neg`, `abs` (read with
//!   arguments): arithmetic.
//! - `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `not`, `and`, `or`, `nand`, `nor`, `if`, `in`: logic.
//! - `first`, `length`, `unquote`, `sprintf`, `random`, `now`, `htons`, `htonl`, `ntohs`,
//!   `ntohl`: text and numbers.
//! - `readable`, `writable`: whether all these handlers exist.
//! - `cat`, `catq`: the content of a file. `kill SIGNAL PROCESS...`: sends a signal.
//! - `get`, `shift` (read), `set` (write): read, shorten and set variables.
//!
//! ## See also
//! `DriverManager`

mod calls;
pub(crate) mod expand;
mod format;
mod functions;
mod own;
mod program;
mod run;
mod words;

use std::time::Duration;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, Handler, HandlerError,
    InitContext, Names, Value, arguments,
};

pub(crate) use self::words::{quoted, shift_word, unquoted};

use self::expand::Form;
use self::own::HANDLERS;
use self::program::{Action, End, Instruction};

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

/// The trigger of a script's steps.
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
    /// While the script runs: steps that were requested during its run.
    running: Option<u64>,
    /// The argument of `run`, and the handler's name.
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
    const INFO: ClassInfo = ClassInfo::new("Script", "-/-")
        .processing("ah/ah")
        .not_inline("runs a program of its own, which may never come to an end");
}

impl Class for Scripted<true> {
    const INFO: ClassInfo = ClassInfo::new("DriverManager", "0/0")
        .not_inline("runs a program of its own, which may never come to an end")
        .keeps_long();
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

impl<const DRIVER: bool> Element for Scripted<DRIVER>
where
    Scripted<DRIVER>: Class,
{
    arguments! { this, given;
        let form = keyword "TYPE": String;
        let instructions = rest "INSTRUCTION": "instruction";
        then {
            let ports = given.inputs() + given.outputs() > 0;
            this.kind = match form {
                Some(text) => kind(&text).ok_or_else(|| ConfigError::other("bad TYPE"))?,
                None if DRIVER => Kind::Driver,
                None if ports => Kind::Packet,
                None => Kind::Active,
            };
            if this.kind == Kind::Packet && given.inputs() == 0 {
                return Err(ConfigError::other("PACKET script must have inputs"));
            }
            if this.kind != Kind::Packet && ports {
                return Err(ConfigError::other("ports allowed only on PACKET scripts"));
            }
            let driver = this.kind == Kind::Driver;
            let last = if driver { End::Stop } else { End::Done };
            match program::parse(&instructions, last, driver) {
                Ok(program) => this.program = program,
                Err(errors) => {
                    for (index, message) in errors {
                        given.error(ConfigError::at(index, message));
                    }
                }
            }
            for instruction in &this.program {
                if let Action::Init { variable, exported: true, .. } = &instruction.action {
                    this.exports.push(variable.clone());
                }
                // A variable that any instruction sets is empty until then.
                if let Action::Set { variable, .. } | Action::Init { variable, .. } =
                    &instruction.action
                {
                    this.variables.push((variable.clone(), String::new()));
                }
            }
        }
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
        if !self.has_exited() {
            let _ = self.run(Call { handler: "run".to_owned(), ..Call::default() }, context);
        }
        if self.has_exited() {
            context.release_signals();
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
