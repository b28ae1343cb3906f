//! Carries a script's instructions out.

use std::io::Write as _;
use std::time::Duration;

use europa_engine::{Context, HandlerError, Names, Value};

use super::calls::declaration;
use super::expand::Form;
use super::program::{Action, End, Instruction, Jump};
use super::{By, Call, Kind, Scripted, shift_word, unquoted};

/// A script ends with an error if it jumps this often without waiting.
const MOST_JUMPS: u32 = 1000;

impl<const DRIVER: bool> Scripted<DRIVER> {
    /// Whether the script has reached an `exit`; it gets no events after that.
    pub(super) fn has_exited(&self) -> bool {
        matches!(
            self.program.get(self.position).map(|instruction| &instruction.action),
            Some(Action::Ends(End::Exit) | Action::Goto(Jump::Ends(End::Exit)))
        )
    }

    /// Executes instructions until `steps` blocking ones are done. Returns the number of jumps, and
    /// whether the script now waits (it has not ended).
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

    /// Jumps to instruction `to`; the pauses from there up to `before` count from the beginning
    /// again.
    pub(super) fn jump(&mut self, to: usize, before: usize) {
        for instruction in self.program.iter_mut().take(before).skip(to) {
            if let Action::Pause { seen, .. } = &mut instruction.action {
                *seen = 0;
            }
        }
        self.position = to;
    }

    pub(super) fn value(&mut self, text: &str, quoted: bool, context: &mut Context<'_>) -> String {
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
        // The script continues if no process reads its output.
        drop(match &mut file {
            Some(file) => file.write_all(out.as_bytes()),
            None => {
                let mut out_stream = std::io::stdout().lock();
                out_stream.write_all(out.as_bytes()).and_then(|()| out_stream.flush())
            }
        });
    }

    /// The result of a script at its last instruction.
    pub(super) fn complete(&mut self) -> (Result<String, HandlerError>, bool) {
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
    pub(super) fn run(
        &mut self,
        call: Call,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let outer = std::mem::replace(&mut self.called, call);
        self.position = 0;
        // A script that waits continues with the arguments of its call.
        let waits = self.go(0, By::Jump, context) && self.position < self.program.len();
        if !waits {
            self.called = outer;
        }
        self.complete().0
    }

    /// Runs steps, and further steps for requests during the run. Returns whether it waits.
    pub(super) fn go(&mut self, steps: u64, by: By, context: &mut Context<'_>) -> bool {
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

    /// The output that the script chooses for a packet.
    pub(super) fn output(&mut self, input: usize, context: &mut Context<'_>) -> Option<usize> {
        self.set("input", input.to_string());
        self.position = 0;
        self.go(0, By::Jump, context);
        self.complete().0.ok()?.trim().parse().ok()
    }
}
