//! Routers inside the switch: checks permitted fields, and their bounds.

use crate::fast_path::Choice;
use crate::problem::Problem;
use crate::router::{Poll, Router, Run};
use crate::source::Place;

/// Nanoseconds of a turn. Less is not enough for one packet; more delays other routers.
const BUDGET_NS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000;
/// Bytes of memory. Less is not enough for an empty graph.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 64_000..=1_000_000_000;

/// Checks where a router runs, and its settings for that.
pub(super) fn inline(router: &Router, problems: &mut Vec<Problem>) {
    if router.run != Run::Inline {
        if let Some(inline) = &router.inline {
            let message = "`inline:` is for routers that run inside the switch";
            problems.push(
                Problem::new(inline.place, message)
                    .label("this one has a process of its own")
                    .help("`run: inline` has it run there"),
            );
        }
        return;
    }
    let mut refuse = |place: Place, what: &str, label: &str| {
        let message = format!("a router that runs inside the switch {what}");
        let help = "a router with `run: isolated`, the default, may have it";
        problems.push(Problem::new(place, message).label(label).help(help));
    };
    if let Some(Choice::Program(program)) = router.fast_path.choice() {
        let place = program.first().map_or(router.fast_path.place, |word| word.place);
        refuse(place, "cannot be a program", "foreign code has a process of its own");
    }
    if let Some(elements) = &router.fast_path.elements {
        refuse(
            elements.place,
            "has Europa's own elements only",
            "foreign code has a process of its own",
        );
    }
    if let Some(grant) = router.grants.first() {
        refuse(grant.place, "has neither files nor sockets", "others would wait for it");
    }
    if let Some(cpu) = router.cpu.first() {
        refuse(cpu.place, "has no CPU of its own", "it runs where the switch does");
    }
    if router.poll == Poll::Busy {
        refuse(router.name.place, "cannot have `poll: busy`", "it waits as the switch does");
    }
    let Some(inline) = &router.inline else { return };
    let mut range = |place: Place, inside: bool, what: String| {
        if !inside {
            problems.push(Problem::new(place, what).label("out of range"));
        }
    };
    if let Some(budget) = &inline.budget {
        let what = format!("a budget is 1us to 10ms, not {}", budget.value);
        range(budget.place, BUDGET_NS.contains(&budget.ns), what);
    }
    if let Some(memory) = &inline.memory {
        let what = format!("a quota of memory is 64kB to 1GB, not {}", memory.value);
        range(memory.place, MEMORY_BYTES.contains(&memory.value.0), what);
    }
}
