//! Patterns of `Classifier`, and their compilation to steps.

/// Compares four bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) offset: usize,
    /// Bytes that the packet must have; else the comparison does not hold.
    pub(super) needed: usize,
    pub(super) mask: u32,
    pub(super) value: u32,
    pub(super) yes: Target,
    pub(super) no: Target,
}

/// The next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    #[default]
    Drop,
    Output(u16),
    Step(u16),
}

/// One comparison of four bytes, of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) offset: usize,
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Test {
    pub(super) fn needed(self) -> usize {
        self.offset + 4 - self.mask.trailing_zeros() as usize / 8
    }

    /// The result of this test that follows from the outcome of `known`, if any.
    pub(super) fn implied(self, known: Test, outcome: bool) -> Option<bool> {
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
            // This test asks for all that the known test asked for, and more.
            let common = self.mask & known.mask;
            (common == known.mask && (self.value & common) == known.value).then_some(false)
        }
    }
}

/// A clause: all its tests must hold; if it is negated, one of them must fail.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) tests: Vec<Test>,
    pub(super) negated: bool,
}

/// Programs with more steps than this are not optimised further.
pub(super) const MAX_STEPS: usize = 4096;

/// Compiles patterns to steps. Each step passes on what it has found, so that no path repeats a
/// test. Common beginnings of patterns are tested once.
pub(super) struct Compiler<'a> {
    pub(super) patterns: &'a [Vec<Clause>],
    pub(super) program: Vec<Step>,
}

impl Compiler<'_> {
    /// The target of a packet with these `facts` that has reached this test.
    pub(super) fn compile(
        &mut self,
        at: (usize, usize, usize),
        facts: &mut Vec<(Test, bool)>,
    ) -> Target {
        let (pattern, clause, test) = at;
        let Some(clauses) = self.patterns.get(pattern) else { return Target::Drop };
        let Some(current) = clauses.get(clause) else { return Target::Output(pattern as u16) };
        // An empty list of tests holds; if it is negated, it does not hold.
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

    pub(super) fn step(
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

/// One hexadecimal digit: its value, and a mask of its bits that are compared.
pub(super) fn nibble(digit: u8, wildcard: bool) -> Option<(u8, u8)> {
    match digit {
        b'?' if wildcard => Some((0, 0)),
        digit => Some((char::from(digit).to_digit(16)? as u8, 15)),
    }
}

/// Bytes and masks from hexadecimal digits.
pub(super) fn digits(text: &str, wildcard: bool) -> Option<Vec<(u8, u8)>> {
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
pub(super) fn clause(text: &str) -> Option<Clause> {
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
    // Clauses become words of four bytes at multiples of four, so that clauses about the same bytes
    // can be compared with each other.
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
