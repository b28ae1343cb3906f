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

mod pattern;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, DROP, Each, Element, Packet, Verdict, arguments,
    handlers,
};

use self::pattern::{Compiler, MAX_STEPS, Step, Target, clause};

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
    /// A comparison that no packet fits.
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

/// A target in one word: the number of a chain; or, with the top bit set, an output or [`DROP`].
/// Decoding an enum of three variants would take a third of a packet's time.
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
        // A packet like the last one needs only this comparison.
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
        // If the first comparison of four bytes decides, packets with the same bytes have the same
        // output.
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
        // No step can find packets of this length or more too short.
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
    arguments! { this, given;
        let texts = rest "PATTERN": "OFFSET/VALUE[%MASK] in hexadecimal, or '-'";
        then {
            if texts.len() != given.outputs() {
                let (patterns, outputs) = (texts.len(), given.outputs());
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
            this.start = compiler.compile((0, 0, 0), &mut Vec::new());
            this.program = compiler.program;
            this.chain();
            this.first = this.start.code();
            if this.program.len() >= MAX_STEPS {
                return Err(ConfigError::other(format!("patterns need over {MAX_STEPS} comparisons")));
            }
            let reached = |output: usize| {
                let output = Target::Output(output as u16);
                this.start == output
                    || this.program.iter().any(|step| step.yes == output || step.no == output)
            };
            for output in (0..patterns.len()).filter(|output| !reached(*output)) {
                given.warn(format!("output {output} matches no packets"));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.forward_each(batch, |packet| self.output(packet));
    }

    handlers! { this, context, value;
        read "program" [CALM] => this.listing();
    }
}

#[cfg(test)]
mod tests;
