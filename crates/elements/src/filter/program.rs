//! Expressions about packets as programs: steps that compare four bytes each.

use std::fmt::Write as _;

use europa_engine::Packet;

use super::optimise;

/// The base of a comparison's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Mac,
    Network,
    Transport,
}

impl Base {
    /// The offset that listings of programs add. Offsets from the Ethernet header count from two
    /// bytes before it.
    fn shown(self) -> usize {
        match self {
            Base::Mac => 0,
            Base::Network => 256,
            Base::Transport => 512,
        }
    }
}

/// One comparison. It fails if the packet is too short for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) base: Base,
    /// A multiple of four.
    pub(super) at: usize,
    pub(super) mask: u32,
    pub(super) value: u32,
    /// Whether the bytes must be greater than the value, not equal.
    pub(super) greater: bool,
    /// Whether the comparison is negated. It still fails if the packet is too short.
    pub(super) negated: bool,
}

impl Test {
    pub(super) fn equal(base: Base, at: usize, mask: u32, value: u32) -> Test {
        Test { base, at, mask, value, greater: false, negated: false }
    }

    /// Bytes that the packet must have.
    pub(super) fn needed(self) -> usize {
        self.at + 4 - (self.mask.trailing_zeros() as usize / 8).min(4)
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Const(bool),
    Test(Test),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    If(Box<[Expr; 3]>),
}

/// The successor of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Drop,
    Output(u16),
    /// Only during compilation: a step's number, counted from the end.
    Step(usize),
}

/// A comparison and where it leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) test: Test,
    pub(super) yes: Next,
    pub(super) no: Next,
    /// A packet that is too short has the target of matching packets.
    pub(super) short_yes: bool,
}

/// Patterns and the targets of matching packets.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) start: Next,
}

impl Default for Program {
    fn default() -> Program {
        Program { steps: Vec::new(), start: Next::Drop }
    }
}

impl Program {
    /// Compiles patterns: the first match decides the target of a packet.
    pub(super) fn compile(patterns: &[(Expr, Next)]) -> Program {
        let mut program = Program::default();
        for (expr, next) in patterns.iter().rev() {
            program.start = program.add(expr, *next, program.start);
        }
        program.turn_round();
        optimise::optimise(&mut program);
        program
    }

    /// Adds the steps of an expression, the last first.
    fn add(&mut self, expr: &Expr, yes: Next, no: Next) -> Next {
        match expr {
            Expr::Const(true) => yes,
            Expr::Const(false) => no,
            Expr::Not(inner) => self.add(inner, no, yes),
            Expr::And(all) => all.iter().rev().fold(yes, |yes, one| self.add(one, yes, no)),
            Expr::Or(all) => all.iter().rev().fold(no, |no, one| self.add(one, yes, no)),
            Expr::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let otherwise = self.add(otherwise, yes, no);
                let then = self.add(then, yes, no);
                self.add(condition, then, otherwise)
            }
            Expr::Test(_) if yes == no => yes,
            Expr::Test(test) => {
                // For a packet that is too short, the test is false, negated or not.
                let (fits, fails) = if test.negated { (no, yes) } else { (yes, no) };
                let step = Step { test: *test, yes: fits, no: fails, short_yes: test.negated };
                self.steps.push(optimise::masked(step));
                Next::Step(self.steps.len() - 1)
            }
        }
    }

    /// Steps were added from the last to the first.
    fn turn_round(&mut self) {
        let last = self.steps.len().wrapping_sub(1);
        let turn = |next: Next| match next {
            Next::Step(number) => Next::Step(last - number),
            other => other,
        };
        self.steps.reverse();
        self.start = turn(self.start);
        for step in &mut self.steps {
            (step.yes, step.no) = (turn(step.yes), turn(step.no));
        }
    }

    /// The output of a packet, or `None`.
    #[inline]
    pub(crate) fn run(&self, packet: &Packet) -> Option<usize> {
        let mut next = self.start;
        loop {
            let number = match next {
                Next::Step(number) => number,
                Next::Output(output) => return Some(usize::from(output)),
                Next::Drop => return None,
            };
            let step = self.steps.get(number)?;
            let test = &step.test;
            let header = match test.base {
                Base::Mac => packet.mac_header(),
                Base::Network => packet.network_header(),
                Base::Transport => packet.transport_header(),
            };
            let word = |header| match test.base {
                Base::Mac => mac_word(header, test),
                _ => word(header, test),
            };
            let fits = match header.and_then(word) {
                Some(word) if test.greater => word & test.mask > test.value,
                Some(word) => word & test.mask == test.value,
                None => step.short_yes,
            };
            next = if fits { step.yes } else { step.no };
        }
    }

    /// Outputs that no packet is sent to.
    pub(super) fn unused(&self, outputs: usize) -> Vec<usize> {
        let mut all = self.steps.iter().flat_map(|step| [step.yes, step.no]).chain([self.start]);
        let all: Vec<Next> = all.by_ref().collect();
        (0..outputs).filter(|output| !all.contains(&Next::Output(*output as u16))).collect()
    }
}

/// Like [`word`], for offsets that begin two bytes before the Ethernet header, so that the bytes
/// after the header are at a multiple of four.
fn mac_word(header: &[u8], test: &Test) -> Option<u32> {
    if header.len() + 2 < test.needed() {
        return None;
    }
    let byte = |at: usize| at.checked_sub(2).and_then(|at| header.get(at)).copied().unwrap_or(0);
    Some((test.at..test.at + 4).fold(0, |all, at| all << 8 | u32::from(byte(at))))
}

/// Four bytes; bytes outside the mask may be missing. `None` if other bytes are missing.
#[inline(always)]
fn word(header: &[u8], test: &Test) -> Option<u32> {
    if let Some(bytes) = header.get(test.at..).and_then(<[u8]>::first_chunk::<4>) {
        return Some(u32::from_be_bytes(*bytes));
    }
    if header.len() < test.needed() {
        return None;
    }
    let rest = header.get(test.at..)?;
    Some(
        rest.iter()
            .zip([24, 16, 8, 0])
            .fold(0, |all, (byte, shift)| all | u32::from(*byte) << shift),
    )
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |next: Next| match next {
            Next::Step(number) => format!("step {number}"),
            Next::Output(output) => format!("[{output}]"),
            Next::Drop => "[X]".to_owned(),
        };
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            let Test { base, at, mask, value, greater, .. } = step.test;
            let sign = if greater { '>' } else { '/' };
            let (offset, yes, no) = (base.shown() + at, name(step.yes), name(step.no));
            let short = if step.short_yes { "  short->yes" } else { "" };
            let line = format!(
                "{number:2} {offset:3}{sign}{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}"
            );
            writeln!(text, "{line}")?;
        }
        if self.steps.is_empty() {
            writeln!(text, "all->{}", name(self.start))?;
        }
        let safe = self.steps.iter().map(|step| step.test.base.shown() + step.test.needed()).max();
        writeln!(text, "safe length {}", safe.unwrap_or(0))?;
        writeln!(text, "alignment offset 0")?;
        f.write_str(&text)
    }
}
