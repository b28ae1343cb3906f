//! Shortens programs: a test with a known result is not repeated, and steps that compare the same
//! bytes become one.

use super::program::{Next, Program, Step, Test};

/// Programs with more steps than this are not optimised: the time grows with the square of their
/// number.
const MAX_STEPS: usize = 1000;
/// Most distinguished paths to a step. For example, two paths (TCP and UDP) lead to every
/// comparison of ports.
const MAX_WAYS: usize = 4;

/// Optimises a program whose steps lead only forward.
pub(super) fn optimise(program: &mut Program) {
    if program.steps.len() <= MAX_STEPS {
        thread(program);
        sweep(program);
        while merge(program) {
            sweep(program);
        }
    }
    sweep(program);
}

/// A field is greater than 2^n - 1 if one of the bits above these is set.
pub(super) fn masked(mut step: Step) -> Step {
    let Test { mask, value, greater, .. } = step.test;
    // These are numbers of the field; its lowest bit is the lowest bit of the mask.
    let (field, value) =
        (mask >> (mask.trailing_zeros() & 31), value >> (mask.trailing_zeros() & 31));
    let whole = field & field.wrapping_add(1) == 0;
    if greater && whole && value & value.wrapping_add(1) == 0 {
        step.test.greater = false;
        step.test.mask &= !step.test.value;
        step.test.value = 0;
        (step.yes, step.no) = (step.no, step.yes);
        step.short_yes = !step.short_yes;
    }
    step
}

/// The known facts about the bytes of a test: they match or not, or are missing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fact {
    test: Test,
    fits: bool,
    perhaps_short: bool,
}

impl Fact {
    fn of(step: &Step, fits: bool) -> Fact {
        Fact { test: step.test, fits, perhaps_short: step.short_yes == fits }
    }

    /// Whether these facts decide that a step leads to `yes`.
    fn decides(self, step: &Step) -> Option<bool> {
        let (known, asked) = (self.test, step.test);
        if (known.base, known.at) != (asked.base, asked.at) {
            return None;
        }
        let same =
            (known.mask, known.value, known.greater) == (asked.mask, asked.value, asked.greater);
        if same {
            return (!self.perhaps_short || step.short_yes == self.fits).then_some(self.fits);
        }
        if known.greater || asked.greater {
            return None;
        }
        let common = known.mask & asked.mask;
        let differs = (known.value ^ asked.value) & common != 0;
        if self.fits && !self.perhaps_short {
            if differs {
                return (!step.short_yes || asked.needed() <= known.needed()).then_some(false);
            }
            return (common == asked.mask).then_some(true);
        }
        // This test asks for all that did not fit, and more.
        (!self.fits && common == known.mask && !differs && !step.short_yes).then_some(false)
    }
}

/// The tests with known results on a path, in order.
type Way = Vec<Fact>;

fn decided(way: &Way, step: &Step) -> Option<bool> {
    way.iter().rev().find_map(|fact| fact.decides(step))
}

/// Redirects every branch past steps whose result is the same on all paths to them. Steps lead only
/// forward, so one pass is enough.
fn thread(program: &mut Program) {
    // By step: the ways to it.
    let mut ways: Vec<Vec<Way>> = vec![Vec::new(); program.steps.len()];
    if let Next::Step(number) = program.start
        && let Some(entry) = ways.get_mut(number)
    {
        entry.push(Way::new());
    }
    for number in 0..program.steps.len() {
        let here = ways.get_mut(number).map(std::mem::take).unwrap_or_default();
        let Some(mut step) = program.steps.get(number).copied() else { continue };
        for fits in [true, false] {
            let fact = Fact::of(&step, fits);
            let taken = here.iter().filter(|way| decided(way, &step).is_none_or(|d| d == fits));
            let taken: Vec<Way> =
                taken.map(|way| way.iter().copied().chain([fact]).collect()).collect();
            let next = if fits { &mut step.yes } else { &mut step.no };
            *next = furthest(&program.steps, *next, &taken);
            if let Next::Step(to) = *next
                && let Some(entry) = ways.get_mut(to)
            {
                entry.extend(taken);
                if entry.len() > MAX_WAYS {
                    *entry = vec![common(entry)];
                }
            }
        }
        if let Some(place) = program.steps.get_mut(number) {
            *place = step;
        }
    }
}

/// The facts that hold on all paths.
fn common(ways: &[Way]) -> Way {
    let (first, others) = ways.split_first().unwrap_or((const { &Way::new() }, &[]));
    first.iter().filter(|fact| others.iter().all(|way| way.contains(fact))).copied().collect()
}

/// The last step that all paths from `next` reach.
fn furthest(steps: &[Step], next: Next, ways: &[Way]) -> Next {
    let places = |way: &Way| {
        let follow = |next: &Next| match *next {
            Next::Step(number) => {
                let step = steps.get(number)?;
                Some(if decided(way, step)? { step.yes } else { step.no })
            }
            _ => None,
        };
        std::iter::successors(Some(next), follow).collect::<Vec<Next>>()
    };
    let places: Vec<Vec<Next>> = ways.iter().map(places).collect();
    let Some((first, others)) = places.split_first() else { return next };
    let all = |place: &&Next| others.iter().all(|places| places.contains(place));
    first.iter().rev().find(all).copied().unwrap_or(next)
}

/// Merges two successive steps that compare parts of the same four bytes, if one comparison has the
/// same result. Returns whether there were any.
fn merge(program: &mut Program) -> bool {
    let mut merged = false;
    for number in (0..program.steps.len()).rev() {
        let Some(step) = program.steps.get(number).copied() else { continue };
        let Next::Step(second) = step.yes else { continue };
        let Some(second) = program.steps.get(second).copied() else { continue };
        if let Some(both) =
            [second, inverted(second)].iter().find_map(|second| joined(&step, second))
            && let Some(place) = program.steps.get_mut(number)
        {
            *place = both;
            merged = true;
        }
    }
    merged
}

/// The same step with the opposite test of a single bit. A step that tests more bits stays
/// unchanged.
fn inverted(step: Step) -> Step {
    if step.test.greater || step.test.mask.count_ones() != 1 {
        return step;
    }
    let test = Test { value: step.test.value ^ step.test.mask, ..step.test };
    Step { test, yes: step.no, no: step.yes, short_yes: !step.short_yes }
}

/// One step for two: the second follows if the first one fits; otherwise both have the same target.
fn joined(first: &Step, second: &Step) -> Option<Step> {
    let (a, b) = (first.test, second.test);
    let same_bytes = (a.base, a.at) == (b.base, b.at) && !a.greater && !b.greater;
    let overlap = a.mask & b.mask;
    if !same_bytes || first.no != second.no || (a.value ^ b.value) & overlap != 0 {
        return None;
    }
    // A packet that has only the bytes of the first step must go to the same target as a packet
    // that is too short for both.
    let short =
        first.short_yes == second.short_yes || (!first.short_yes && b.needed() <= a.needed());
    let test = Test { mask: a.mask | b.mask, value: a.value | b.value, ..a };
    short.then_some(Step { test, short_yes: first.short_yes && second.short_yes, ..*second })
}

/// Removes steps that decide nothing or are never reached.
fn sweep(program: &mut Program) {
    // Steps are handled from the last one on, so that all targets of a step are settled before it.
    let mut replaced: Vec<Next> = (0..program.steps.len()).map(Next::Step).collect();
    let follow = |next: Next, replaced: &[Next]| match next {
        Next::Step(number) => replaced.get(number).copied().unwrap_or(Next::Drop),
        other => other,
    };
    for number in (0..program.steps.len()).rev() {
        if let Some(step) = program.steps.get_mut(number) {
            (step.yes, step.no) = (follow(step.yes, &replaced), follow(step.no, &replaced));
            if step.yes == step.no
                && let Some(place) = replaced.get_mut(number)
            {
                *place = step.yes;
            }
        }
    }
    program.start = follow(program.start, &replaced);
    let mut reached = vec![false; program.steps.len()];
    let mark = |next: Next, reached: &mut [bool]| {
        if let Next::Step(number) = next
            && let Some(place) = reached.get_mut(number)
        {
            *place = true;
        }
    };
    mark(program.start, &mut reached);
    for (number, step) in program.steps.iter().enumerate() {
        if reached.get(number) == Some(&true) {
            mark(step.yes, &mut reached);
            mark(step.no, &mut reached);
        }
    }
    let mut numbers = Vec::new();
    let mut count = 0;
    for reached in &reached {
        numbers.push(Next::Step(count));
        count += usize::from(*reached);
    }
    let mut keep = reached.iter();
    program.steps.retain(|_| keep.next() == Some(&true));
    program.start = follow(program.start, &numbers);
    for step in &mut program.steps {
        (step.yes, step.no) = (follow(step.yes, &numbers), follow(step.no, &numbers));
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Arena;
    use proptest::prelude::*;

    use super::*;
    use crate::filter::program::Base;

    fn step() -> impl Strategy<Value = (Step, usize, usize)> {
        let masks = prop::sample::select(vec![0xff, 0xff00, 0xffff, 0x20, 0x3000_0000, u32::MAX]);
        let test = (0usize..2, masks, any::<u32>(), 0usize..8, any::<bool>());
        (test, any::<bool>(), 0usize..9, 0usize..9).prop_map(
            |((at, mask, value, bits, greater), short_yes, yes, no)| {
                // Values that packets have; for greater-than comparisons also all ones.
                let low = mask >> mask.trailing_zeros();
                let number = if greater { low >> bits } else { value & 0x1111_1111 };
                let value = number << mask.trailing_zeros() & mask;
                let test = Test { greater, ..Test::equal(Base::Network, at * 4, mask, value) };
                (Step { test, yes: Next::Drop, no: Next::Drop, short_yes }, yes, no)
            },
        )
    }

    /// A target: a few steps ahead, or an output.
    fn leads(to: usize, number: usize, steps: usize) -> Next {
        match to {
            0 => Next::Drop,
            1..4 => Next::Output(to as u16),
            _ if number + to - 3 < steps => Next::Step(number + to - 3),
            _ => Next::Output(4),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn no_packet_goes_elsewhere(
            steps in prop::collection::vec(step(), 1..10),
            packets in prop::collection::vec([0u8..0x34, 0u8..4, 0u8..0x22, 0u8..0x12, 0u8..0x34, 0u8..4, 0u8..0x22, 0u8..0x12], 20),
        ) {
            let count = steps.len();
            let steps = steps.into_iter().enumerate().map(|(number, (step, yes, no))| Step {
                yes: leads(yes, number, count),
                no: leads(no, number, count),
                ..step
            });
            let plain = Program { steps: steps.collect(), start: Next::Step(0) };
            let mut optimised = plain.clone();
            for step in &mut optimised.steps {
                *step = masked(*step);
            }
            optimise(&mut optimised);
            prop_assert!(optimised.steps.len() <= plain.steps.len());
            let arena = Arena::heap(2, 2048);
            for bytes in packets {
                let mut packet = arena.packet(&bytes).unwrap();
                packet.set_network_header(0, 8);
                prop_assert_eq!(plain.run(&packet), optimised.run(&packet), "{}{}", plain, optimised);
            }
        }
    }
}
