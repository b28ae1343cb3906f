//! All paths, function by function: each call is followed with its arguments.

use std::collections::{BTreeSet, HashMap};

use crate::instruction::{CALL, EXIT, call};
use crate::leak::Findings;
use crate::leak::state::State;
use crate::leak::step::{self, Refusal};
use crate::leak::value::{Region, Value};
use crate::link::Linked;
use crate::object::Object;
use crate::problem::Problem;

/// Most instructions that are looked at, counting each again for each path.
const MAX_STEPS: usize = 4_000_000;
/// Most calls that are distinguished.
const MAX_CALLS: usize = 20_000;
/// Deepest nesting of calls.
const MAX_DEPTH: usize = 8;
/// Number of joins at one place after which a growing value becomes unknown.
const PATIENCE: u32 = 4;
/// Number of `bpf_loop`.
const LOOP: u32 = 181;

/// One call on one path of calls.
struct Frame {
    /// The function's first instruction.
    start: usize,
    /// The calling frame, its next instruction, and whether a helper called.
    caller: Option<(usize, usize, bool)>,
    /// The caller's state at the call, if it waits for it.
    kept: Option<State>,
    depth: usize,
}

/// The analysis under way.
pub(super) struct Walk<'a> {
    object: &'a Object,
    linked: &'a Linked,
    frames: Vec<Frame>,
    /// By calling frame and place.
    known: HashMap<(usize, usize), usize>,
    /// States where paths meet: joins so far.
    states: HashMap<(usize, usize), (State, u32)>,
    waiting: Vec<(usize, usize)>,
    refused: BTreeSet<(usize, Refusal)>,
    findings: Findings,
    steps: usize,
}

/// The successor of an instruction on a path.
enum Next {
    On,
    Jump(usize),
    Both(usize, Box<(State, State)>),
    End,
}

impl<'a> Walk<'a> {
    pub(super) fn new(object: &'a Object, linked: &'a Linked) -> Walk<'a> {
        Walk {
            object,
            linked,
            frames: Vec::new(),
            known: HashMap::new(),
            states: HashMap::new(),
            waiting: Vec::new(),
            refused: BTreeSet::new(),
            findings: Findings::default(),
            steps: 0,
        }
    }

    pub(super) fn run(mut self) -> Findings {
        for entry in self.linked.entries.clone() {
            let frame = self.frames.len();
            self.frames.push(Frame { start: entry, caller: None, kept: None, depth: 0 });
            self.arrive(frame, entry, &State::entry());
            while let Some((frame, at)) = self.waiting.pop() {
                if self.steps > MAX_STEPS || self.frames.len() > MAX_CALLS {
                    self.findings.problems.push(Problem::new(
                        "the program has too many paths for the check that no address leaves it",
                        "make functions smaller, or call them less often",
                    ));
                    return self.findings;
                }
                if let Some((state, _)) = self.states.get(&(frame, at)) {
                    let state = state.clone();
                    self.follow(frame, at, state);
                }
            }
        }
        for (at, what) in &self.refused {
            let remedy = "store and calculate with offsets and with the bytes that are meant; \
                          pointers stay in variables";
            self.findings.problems.push(self.linked.problem(self.object, *at, *what, remedy));
        }
        self.findings
    }

    /// A path reaches a place.
    fn arrive(&mut self, frame: usize, at: usize, state: &State) {
        let changed = match self.states.get_mut(&(frame, at)) {
            Some((known, joins)) => {
                *joins += 1;
                known.join(state, *joins > PATIENCE)
            }
            None => {
                self.states.insert((frame, at), (state.clone(), 0));
                true
            }
        };
        if changed {
            self.waiting.push((frame, at));
        }
    }

    /// Follows a path until it meets another one, or ends.
    fn follow(&mut self, frame: usize, start: usize, mut state: State) {
        let mut at = start;
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            match self.one(frame, at, &mut state) {
                Ok(Next::On) => {
                    let first = self.linked.code.get(at).copied();
                    at += if first.is_some_and(step::is_wide_load) { 2 } else { 1 };
                }
                Ok(Next::Jump(target)) => return self.arrive(frame, target, &state),
                Ok(Next::Both(target, states)) => {
                    let (holds, not) = *states;
                    self.arrive(frame, target, &holds);
                    return self.arrive(frame, at + 1, &not);
                }
                Ok(Next::End) => return,
                Err(what) => {
                    self.refused.insert((at, what));
                    return;
                }
            }
        }
    }

    fn one(&mut self, frame: usize, at: usize, state: &mut State) -> Result<Next, Refusal> {
        let Some(instruction) = self.linked.code.get(at).copied() else { return Ok(Next::End) };
        let mut unset = Vec::new();
        let target = || instruction.jump().map_or(at, |by| (at as i64 + 1 + by) as usize);
        let result = match (instruction.code, instruction.class()) {
            (EXIT, _) => self.leave(frame, state),
            (CALL, _) if instruction.src == call::FUNCTION => {
                let start = (at as i64 + 1 + i64::from(instruction.immediate)) as usize;
                let [_, a, b, c, d, e, ..] = state.registers;
                self.enter(frame, at, start, state, [a, b, c, d, e], false)
            }
            (CALL, _) if instruction.src == call::HELPER => {
                let helper = instruction.immediate.cast_unsigned();
                let [_, _, function, with, ..] = state.registers;
                let origin = at as u32 + 1;
                let helped = step::help(self.object, state, helper, origin, &mut unset);
                match (helped, helper, function) {
                    (Ok(()), LOOP, Value::Pointer(Region::Function(start), _)) => {
                        let none = Value::Unset;
                        let given = [Value::NUMBER, with, none, none, none];
                        // The loop's body may not run at all.
                        let entered = self.enter(frame, at, start as usize, state, given, true);
                        entered.map(|_| Next::On)
                    }
                    (Ok(()), LOOP, _) => Err(step::UNKNOWN),
                    (Ok(()), ..) => Ok(Next::On),
                    (Err(what), ..) => Err(what),
                }
            }
            (CALL, _) => Err(step::UNKNOWN),
            (0x05 | 0x06, _) => Ok(Next::Jump(target())),
            (_, 5 | 6) => step::compare(state, instruction)
                .map(|states| Next::Both(target(), Box::new(states))),
            (_, 4 | 7) => step::arithmetic(state, instruction).map(|()| Next::On),
            (_, 0) if step::is_wide_load(instruction) => {
                let high = self.linked.code.get(at + 1).map_or(0, |second| second.immediate);
                let function = (at as i64 + 1 + i64::from(instruction.immediate)) as usize;
                step::load_wide(state, instruction, high, function);
                Ok(Next::On)
            }
            (_, 1) => {
                if step::reads_device(state, instruction) {
                    self.findings.device_reads.insert(at);
                }
                step::load(state, instruction, &mut unset).map(|()| Next::On)
            }
            (_, 2 | 3) => step::store(state, instruction, &mut unset).map(|()| Next::On),
            _ => Err(step::UNKNOWN),
        };
        for (depth, lowest) in unset {
            self.clear(frame, usize::from(depth), lowest);
        }
        result
    }

    /// The stack at this depth, seen from a frame, needs clearing from `lowest` on.
    fn clear(&mut self, frame: usize, depth: usize, lowest: i32) {
        let mut at = Some(frame);
        while let Some(frame) = at.and_then(|at| self.frames.get(at)) {
            if frame.depth == depth {
                let known = self.findings.to_clear.entry(frame.start).or_insert(lowest);
                *known = lowest.min(*known);
                return;
            }
            at = frame.caller.map(|(caller, ..)| caller);
        }
    }

    /// Follows a call.
    fn enter(
        &mut self,
        frame: usize,
        at: usize,
        start: usize,
        state: &State,
        arguments: [Value; 5],
        callback: bool,
    ) -> Result<Next, Refusal> {
        let depth = self.frames.get(frame).map_or(0, |frame| frame.depth) + 1;
        if depth >= MAX_DEPTH {
            return Err(step::UNKNOWN);
        }
        let called = match self.known.get(&(frame, at)) {
            Some(called) => *called,
            None => {
                let called = self.frames.len();
                let caller = Some((frame, at, callback));
                self.frames.push(Frame { start, caller, kept: None, depth });
                self.known.insert((frame, at), called);
                called
            }
        };
        if let Some(frame) = self.frames.get_mut(called) {
            match &mut frame.kept {
                Some(kept) => {
                    kept.join(state, true);
                }
                None => frame.kept = Some(state.clone()),
            }
        }
        self.arrive(called, start, &state.call(arguments));
        Ok(Next::End)
    }

    /// A function returns.
    fn leave(&mut self, frame: usize, state: &State) -> Result<Next, Refusal> {
        let result = state.registers[0];
        let Some(Frame { caller, kept, start, .. }) = self.frames.get(frame) else {
            return Ok(Next::End);
        };
        let Some((caller, at, callback)) = *caller else {
            return if result.is_pointer() { Err(step::VERDICT) } else { Ok(Next::End) };
        };
        if callback && result.is_pointer() {
            return Err(step::VERDICT);
        }
        let (start, Some(mut back)) = (*start, kept.clone()) else { return Ok(Next::End) };
        back.stacks = state.stacks.clone();
        back.stacks.pop();
        for register in back.registers.iter_mut().skip(1).take(5) {
            *register = Value::Unset;
        }
        back.registers[0] = if callback { Value::NUMBER } else { result };
        if callback {
            // The next turn begins with the rest of this one.
            let again = self.states.get(&(frame, start)).map(|(entry, _)| {
                let [_, a, b, c, d, e, ..] = entry.registers;
                back.call([a, b, c, d, e])
            });
            if let Some(again) = again {
                self.arrive(frame, start, &again);
            }
        }
        self.arrive(caller, at + 1, &back);
        Ok(Next::End)
    }
}
