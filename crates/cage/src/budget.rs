//! Instructions that a program may take for one frame, with the stages that it calls.
//!
//! Pure: the kernel's verifier says how many instructions it followed in each program.

use std::fmt::Write as _;

use crate::problem::Problem;

/// Most tail calls for one frame: `MAX_TAIL_CALL_CNT` of Linux.
const TAIL_CALLS: usize = 33;

/// A program that was loaded: the first one of a router, or a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Its function.
    pub name: String,
    /// Instructions that the verifier followed in it.
    pub instructions: u32,
    /// Places of the stages that it may call.
    pub next: Vec<usize>,
}

/// Checks that the chain of stages with the most instructions, from the first stage on, has at most `most`.
///
/// A stage that may call itself, or an earlier one, counts once for each call that Linux allows.
///
/// # Errors
/// The chain has more. The problem names the stage that has most of them.
pub fn check(stages: &[Stage], most: u64) -> Result<(), Problem> {
    let (all, chain) = deepest(stages);
    if all <= most {
        return Ok(());
    }
    let share = |place: usize| {
        let each = stages.get(place).map_or(0, |stage| u64::from(stage.instructions));
        each * chain.iter().filter(|other| **other == place).count() as u64
    };
    let name = |place: usize| stages.get(place).map_or("", |stage| stage.name.as_str());
    let largest = chain.iter().copied().max_by_key(|place| share(*place)).unwrap_or(0);
    let what = match chain.as_slice() {
        [only] => format!("the verifier follows {all} instructions in '{}'", name(*only)),
        _ => format!(
            "the verifier follows {all} instructions along the stages {}: '{}' has {} of them",
            path(&chain, name),
            name(largest),
            share(largest)
        ),
    };
    let remedy = format!(
        "a program has at most {most} with the `programs` of its slice; give the loops of '{}' \
         fewer rounds, or run the program in the element XDP",
        name(largest)
    );
    Err(Problem { function: Some(name(largest).to_owned()), ..Problem::new(what, remedy) })
}

/// The names of a chain; a stage that follows itself is named once, with its number of calls.
fn path<'a>(chain: &[usize], name: impl Fn(usize) -> &'a str) -> String {
    let mut text = String::new();
    for same in chain.chunk_by(|one, other| one == other) {
        let Some(first) = same.first() else { continue };
        let before = if text.is_empty() { "" } else { ", " };
        // Writing to a string succeeds.
        let _ = write!(text, "{before}{}", name(*first));
        if same.len() > 1 {
            let _ = write!(text, " ({} times)", same.len());
        }
    }
    text
}

/// The most instructions of a chain that begins at the first stage, and the chain.
pub fn deepest(stages: &[Stage]) -> (u64, Vec<usize>) {
    let own = |place: usize| stages.get(place).map_or(0, |stage| u64::from(stage.instructions));
    // Of each stage: the most instructions with so many calls left, and the next stage.
    let mut rounds: Vec<Vec<(u64, Option<usize>)>> =
        vec![(0..stages.len()).map(|place| (own(place), None)).collect()];
    for _ in 0..TAIL_CALLS {
        let shorter = rounds.last().map_or(&[][..], Vec::as_slice);
        let follow = |(place, stage): (usize, &Stage)| {
            let known = stage.next.iter().filter_map(|next| Some((shorter.get(*next)?.0, *next)));
            match known.max_by_key(|(instructions, _)| *instructions) {
                Some((instructions, next)) => (own(place) + instructions, Some(next)),
                None => (own(place), None),
            }
        };
        let longer = stages.iter().enumerate().map(follow).collect();
        rounds.push(longer);
    }
    let all = rounds.last().and_then(|round| round.first()).map_or(0, |(all, _)| *all);
    let (mut chain, mut place) = (Vec::new(), 0);
    for round in rounds.iter().rev() {
        let Some((_, next)) = round.get(place) else { break };
        chain.push(place);
        match next {
            Some(next) => place = *next,
            None => break,
        }
    }
    (all, chain)
}
