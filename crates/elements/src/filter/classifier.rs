//! # Classifier
//!
//! ## Synopsis
//! `Classifier(PATTERN, ...)`
//!
//! ## Ports
//! One input, as many outputs as patterns, push.
//!
//! ## Description
//! Sends each packet out of the output of the first pattern that fits, and drops those that fit
//! none. A pattern is a list of clauses `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, separated by spaces.
//! A packet matches if it has all these bytes under their masks. A clause after `!` must not hold.
//! The pattern `-` fits every packet. A clause about bytes behind the end of the packet does not
//! hold.
//!
//! ## Arguments
//! - OFFSET: decimal, from the start of the packet.
//! - VALUE: hexadecimal digits, an even number; `?` stands for any digit.
//! - MASK: as many hexadecimal digits.
//!
//! ## Handlers
//! - `program` (read): the compiled patterns, a step a line: four bytes at an offset are compared
//!   under a mask.
//!
//! ## See also
//! `Switch`, `CheckPaint`

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, DROP, Each, Element, Packet, Verdict,
    handlers,
};

/// Sorts packets by contents.
pub(crate) struct Classifier {
    program: Vec<Step>,
    start: Target,
    first: Code,
    /// Groups of successive steps that compare the same bytes, as one load and a list.
    chains: Vec<Chain>,
    usual: Usual,
}

/// The bytes of the last packet that one comparison decided, in network order.
struct Usual {
    offset: u32,
    mask: u32,
    value: u32,
    output: u16,
}

impl Usual {
    /// A pattern that no packet matches.
    const NOTHING: Usual = Usual { offset: 0, mask: 0, value: 1, output: DROP };
}

/// The values that the bytes under a mask may have.
#[derive(Debug)]
struct Chain {
    offset: u32,
    needed: usize,
    mask: u32,
    /// The first match applies.
    cases: Vec<(u32, Code)>,
    otherwise: Code,
}

impl Chain {
    /// The target of a packet from here.
    fn follow(&self, data: &[u8]) -> Code {
        let word = match data.get(self.offset as usize..).and_then(<[u8]>::first_chunk::<4>) {
            Some(bytes) => u32::from_be_bytes(*bytes),
            None if data.len() >= self.needed => last_word(data, self.offset as usize),
            None => return self.otherwise,
        };
        self.case(word & self.mask)
    }

    #[inline(always)]
    fn case(&self, found: u32) -> Code {
        for (value, then) in &self.cases {
            if *value == found {
                return *then;
            }
        }
        self.otherwise
    }
}

/// A target in one word: the number of a chain, or with the top bit an output or [`DROP`]. Decoding
/// an enum of three variants would take a third of a packet's time.
type Code = u32;

/// The top bit.
const DONE: Code = 1 << 31;

impl Target {
    fn code(self) -> Code {
        match self {
            Target::Drop => DONE | Code::from(DROP),
            Target::Output(output) => DONE | Code::from(output),
            Target::Step(step) => Code::from(step),
        }
    }
}

impl Default for Classifier {
    fn default() -> Classifier {
        Classifier {
            program: Vec::new(),
            start: Target::Drop,
            first: DONE | Code::from(DROP),
            chains: Vec::new(),
            usual: Usual::NOTHING,
        }
    }
}

impl Class for Classifier {
    const INFO: ClassInfo =
        ClassInfo::new("Classifier", "1/-").processing("h/h").inline().keeps_long();
}

/// Compares four bytes.
#[derive(Clone, Copy, Debug)]
struct Step {
    offset: usize,
    /// Bytes that the packet must have for the comparison to hold.
    needed: usize,
    mask: u32,
    value: u32,
    yes: Target,
    no: Target,
}

/// The next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Target {
    #[default]
    Drop,
    Output(u16),
    Step(u16),
}

/// One comparison of four bytes, part of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    offset: usize,
    mask: u32,
    value: u32,
}

impl Test {
    fn needed(self) -> usize {
        self.offset + 4 - self.mask.trailing_zeros() as usize / 8
    }

    /// The result of this test that follows from the outcome of `known`, if any.
    fn implied(self, known: Test, outcome: bool) -> Option<bool> {
        if self.offset != known.offset {
            return None;
        }
        if outcome {
            let common = self.mask & known.mask;
            if (self.value ^ known.value) & common != 0 {
                return Some(false);
            }
            (common == self.mask).then_some(true)
        } else {
            // It asks for all that the other one asked for, and more.
            let common = self.mask & known.mask;
            (common == known.mask && (self.value & common) == known.value).then_some(false)
        }
    }
}

/// A clause: all tests must hold; negated, one must fail.
#[derive(Clone, Debug)]
struct Clause {
    tests: Vec<Test>,
    negated: bool,
}

/// More steps than this are not optimised further.
const MAX_STEPS: usize = 4096;

/// Compiles patterns to steps. Each step passes its result on, so that no path tests twice, and
/// common beginnings of patterns are tested once.
struct Compiler<'a> {
    patterns: &'a [Vec<Clause>],
    program: Vec<Step>,
}

impl Compiler<'_> {
    /// The target of a packet with these `facts` that has reached this test.
    fn compile(&mut self, at: (usize, usize, usize), facts: &mut Vec<(Test, bool)>) -> Target {
        let (pattern, clause, test) = at;
        let Some(clauses) = self.patterns.get(pattern) else { return Target::Drop };
        let Some(current) = clauses.get(clause) else { return Target::Output(pattern as u16) };
        // An empty list of tests holds; negated, it does not.
        let Some(asked) = current.tests.get(test).copied() else {
            let next = if current.negated { (pattern + 1, 0, 0) } else { (pattern, clause + 1, 0) };
            return self.compile(next, facts);
        };
        let yes = (pattern, clause, test + 1);
        let no = if current.negated { (pattern, clause + 1, 0) } else { (pattern + 1, 0, 0) };
        let known = facts.iter().find_map(|(fact, outcome)| asked.implied(*fact, *outcome));
        match known {
            Some(true) => self.compile(yes, facts),
            Some(false) => self.compile(no, facts),
            None => self.step(asked, yes, no, facts),
        }
    }

    fn step(
        &mut self,
        asked: Test,
        yes: (usize, usize, usize),
        no: (usize, usize, usize),
        facts: &mut Vec<(Test, bool)>,
    ) -> Target {
        let number = self.program.len();
        if number >= MAX_STEPS {
            return Target::Drop;
        }
        let Test { offset, mask, value } = asked;
        let unknown = Target::Drop;
        self.program.push(Step {
            offset,
            needed: asked.needed(),
            mask,
            value,
            yes: unknown,
            no: unknown,
        });
        facts.push((asked, true));
        let yes = self.compile(yes, facts);
        facts.pop();
        facts.push((asked, false));
        let no = self.compile(no, facts);
        facts.pop();
        if let Some(step) = self.program.get_mut(number) {
            (step.yes, step.no) = (yes, no);
        }
        Target::Step(number as u16)
    }
}

/// One hexadecimal digit: its value and the mask of its bits.
fn nibble(digit: u8, wildcard: bool) -> Option<(u8, u8)> {
    match digit {
        b'?' if wildcard => Some((0, 0)),
        digit => Some((char::from(digit).to_digit(16)? as u8, 15)),
    }
}

/// Bytes and masks from hexadecimal digits.
fn digits(text: &str, wildcard: bool) -> Option<Vec<(u8, u8)>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| {
            let ((high, high_mask), (low, low_mask)) =
                (nibble(*high, wildcard)?, nibble(*low, wildcard)?);
            Some((high << 4 | low, high_mask << 4 | low_mask))
        })
        .collect()
}

/// Reads a clause.
fn clause(text: &str) -> Option<Clause> {
    let (text, negated) = match text.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (offset, pattern) = text.split_once('/')?;
    let offset: usize = offset.parse().ok().filter(|offset| *offset < 65536)?;
    let (value, mask) = match pattern.split_once('%') {
        Some((value, mask)) => (value, Some(digits(mask, false)?)),
        None => (pattern, None),
    };
    let mut bytes = digits(value, true)?;
    if let Some(mask) = mask {
        if mask.len() != bytes.len() {
            return None;
        }
        for ((_, byte_mask), (mask, _)) in bytes.iter_mut().zip(mask) {
            *byte_mask &= mask;
        }
    }
    // In words of four bytes that start at multiples of four, so that clauses about the
    // same bytes can be compared with each other.
    let mut tests: Vec<Test> = Vec::new();
    for (at, (value, mask)) in (offset..).zip(bytes) {
        let (word, shift) = (at / 4 * 4, 24 - at % 4 * 8);
        let (value, mask) = (u32::from(value & mask) << shift, u32::from(mask) << shift);
        match tests.last_mut().filter(|last| last.offset == word) {
            Some(last) => (last.value, last.mask) = (last.value | value, last.mask | mask),
            None => tests.push(Test { offset: word, mask, value }),
        }
    }
    tests.retain(|test| test.mask != 0);
    Some(Clause { tests, negated })
}

/// Fewer than four bytes at an offset; bytes behind the end count as zero.
#[cold]
fn last_word(data: &[u8], offset: usize) -> u32 {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(data.iter().skip(offset)) {
        *to = *from;
    }
    u32::from_be_bytes(bytes)
}

impl Classifier {
    /// The output for a packet, or [`DROP`].
    #[inline(always)]
    pub(crate) fn output(&mut self, packet: &Packet) -> u16 {
        // Packets like the last one are done after one look.
        if let Some(bytes) = packet.bytes::<4>(self.usual.offset)
            && u32::from_ne_bytes(*bytes) & self.usual.mask == self.usual.value
        {
            return self.usual.output;
        }
        self.output_all(packet)
    }

    #[inline(never)]
    fn output_all(&mut self, packet: &Packet) -> u16 {
        let data = packet.data();
        let code = self.classify(self.first, data);
        // If the first comparison of four bytes decided: the same bytes, the same output.
        if let Some(chain) = self.chains.get(self.first as usize)
            && let Some(bytes) = packet.bytes::<4>(chain.offset)
        {
            let found = u32::from_be_bytes(*bytes) & chain.mask;
            if chain.case(found) == code && code & DONE != 0 {
                self.usual = Usual {
                    offset: chain.offset,
                    mask: chain.mask.to_be(),
                    value: found.to_be(),
                    output: code as u16,
                };
            }
        }
        // An output or DROP is in the lower half.
        code as u16
    }

    /// The output for a packet, beginning at `code`.
    fn classify(&self, mut code: Code, data: &[u8]) -> Code {
        // Chains only lead forward, so this ends.
        while code & DONE == 0
            && let Some(chain) = self.chains.get(code as usize)
        {
            code = chain.follow(data);
        }
        code
    }

    /// Makes a chain of each step, so that targets keep their numbers.
    fn chain(&mut self) {
        let step = |target: Target| match target {
            Target::Step(number) => self.program.get(usize::from(number)),
            _ => None,
        };
        self.chains = self
            .program
            .iter()
            .map(|first| {
                let mut cases = vec![(first.value, first.yes.code())];
                let mut otherwise = first.no;
                while let Some(next) = step(otherwise)
                    && (next.offset, next.mask) == (first.offset, first.mask)
                {
                    cases.push((next.value, next.yes.code()));
                    otherwise = next.no;
                }
                let Step { offset, needed, mask, .. } = *first;
                // Below 65536, as it was read.
                let offset = offset as u32;
                Chain { offset, needed, mask, cases, otherwise: otherwise.code() }
            })
            .collect();
    }

    /// The program as Click writes it, a line a step.
    fn listing(&self) -> String {
        let name = |target: Target| match target {
            Target::Drop => "[X]".to_owned(),
            Target::Output(output) => format!("[{output}]"),
            Target::Step(step) => format!("step {step}"),
        };
        let line = |(number, step): (usize, &Step)| {
            let (yes, no) = (name(step.yes), name(step.no));
            format!(
                "{number:2}  {:2}/{:08x}%{:08x}  yes->{yes}  no->{no}\n",
                step.offset, step.value, step.mask
            )
        };
        let mut text: String = self.program.iter().enumerate().map(line).collect();
        if text.is_empty() {
            text = format!("all->{}\n", name(self.start));
        }
        // Packets that are as long are never found to be too short.
        let safe = self.program.iter().map(|step| step.needed).max().unwrap_or(0);
        text + &format!("safe length {safe}\nalignment offset 0\n")
    }
}

impl Each for Classifier {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, main: u16) -> Verdict {
        match self.output(packet) {
            output if output == main => Verdict::ON,
            output => Verdict::out(output),
        }
    }
}

impl Element for Classifier {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let texts = arguments.rest();
        if texts.len() != arguments.outputs() {
            let (patterns, outputs) = (texts.len(), arguments.outputs());
            let message = format!("{patterns} patterns for {outputs} connected outputs");
            return Err(ConfigError::other(message));
        }
        let mut patterns = Vec::new();
        for (index, text) in texts {
            let clauses = if text.trim() == "-" { "" } else { text };
            let read = |word| {
                clause(word).ok_or_else(|| ConfigError::Value {
                    name: "PATTERN".to_owned(),
                    index: Some(index),
                    found: word.to_owned(),
                    wanted: "OFFSET/VALUE[%MASK] in hexadecimal, or '-'".to_owned(),
                })
            };
            if text.trim().is_empty() {
                return Err(ConfigError::at(index, "PATTERN: empty; '-' fits every packet"));
            }
            patterns.push(clauses.split_whitespace().map(read).collect::<Result<Vec<_>, _>>()?);
        }
        let mut compiler = Compiler { patterns: &patterns, program: Vec::new() };
        self.start = compiler.compile((0, 0, 0), &mut Vec::new());
        self.program = compiler.program;
        self.chain();
        self.first = self.start.code();
        if self.program.len() >= MAX_STEPS {
            return Err(ConfigError::other(format!("patterns need over {MAX_STEPS} comparisons")));
        }
        let reached = |output: usize| {
            let output = Target::Output(output as u16);
            self.start == output
                || self.program.iter().any(|step| step.yes == output || step.no == output)
        };
        for output in (0..patterns.len()).filter(|output| !reached(*output)) {
            arguments.warn(format!("output {output} matches no packets"));
        }
        arguments.finish()
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.forward_each(batch, |packet| self.output(packet));
    }

    handlers! { this, context, value;
        read "program" [CALM] => this.listing();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use proptest::prelude::*;

    fn build(patterns: &[&str]) -> Bench {
        Bench::with_outputs("Classifier", patterns, patterns.len())
    }

    #[test]
    fn the_usual_patterns_take_few_steps() {
        let mut bench = build(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]);
        let program = " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
                       1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
                       2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
                       3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
                       safe length 22\nalignment offset 0\n";
        assert_eq!(bench.router.read("e.program", ""), Ok(program.into()));
    }

    #[test]
    fn bad_patterns_are_named() {
        let wanted = "expected OFFSET/VALUE[%MASK] in hexadecimal, or '-'";
        for bad in ["12", "12/080", "x/08", "12/08%080", "12/zz", "12/", "12/08%??"] {
            let error = Bench::error("Classifier", &[bad, "-", "-", "-"]);
            assert_eq!(error, format!("PATTERN: {wanted}, found '{bad}'"));
        }
        assert_eq!(Bench::error("Classifier", &["-"]), "1 patterns for 4 connected outputs");
    }

    #[test]
    fn patterns_that_cannot_fit_are_warned_of() {
        let bench = build(&["12/0806 12/0800", "0/4?", "0/45"]);
        let warnings: Vec<String> =
            bench.router.warnings().iter().map(ToString::to_string).collect();
        let wanted =
            [0, 2].map(|n| format!("e :: Classifier: warning: output {n} matches no packets"));
        assert_eq!(warnings, wanted);
    }

    /// The manual's own example.
    fn fits(pattern: &str, data: &[u8]) -> bool {
        pattern == "-"
            || pattern.split(' ').all(|text| {
                let negated = text.starts_with('!');
                let (offset, value) = text.trim_start_matches('!').split_once('/').unwrap();
                let (value, mask) = value.split_once('%').unwrap_or((value, ""));
                let offset: usize = offset.parse().unwrap();
                let holds = value.bytes().enumerate().all(|(digit, wanted)| {
                    let mask =
                        mask.get(digit..=digit).map_or(15, |m| u8::from_str_radix(m, 16).unwrap());
                    if wanted == b'?' || mask == 0 {
                        return true;
                    }
                    let wanted = char::from(wanted).to_digit(16).unwrap() as u8;
                    let Some(byte) = data.get(offset + digit / 2) else { return false };
                    let found = if digit % 2 == 0 { byte >> 4 } else { byte & 15 };
                    (found ^ wanted) & mask == 0
                });
                holds != negated
            })
    }

    fn pattern() -> impl Strategy<Value = String> {
        let clause = (
            "!?",
            0usize..9,
            prop::collection::vec("[01?][01?]", 1..4),
            prop::option::of("[0137f]{6}"),
        )
            .prop_map(|(not, offset, value, mask)| {
                let value = value.concat();
                let mask =
                    mask.map(|mask| format!("%{}", &mask[..value.len()])).unwrap_or_default();
                format!("{not}{offset}/{value}{mask}")
            });
        prop_oneof![
            1 => Just("-".to_owned()),
            9 => prop::collection::vec(clause, 1..4).prop_map(|clauses| clauses.join(" ")),
        ]
    }

    proptest! {
        #[test]
        fn the_program_does_what_the_patterns_say(
            patterns in prop::collection::vec(pattern(), 1..5),
            packets in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x10), Just(0x11)], 0..13), 1..20),
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let mut bench = build(&patterns);
            for data in packets {
                let expected = patterns.iter().position(|pattern| fits(pattern, &data));
                let out = bench.push(0, &[&data]);
                prop_assert_eq!(out.first().map(|(output, _)| *output), expected, "{:?}", data);
            }
        }
    }
}
