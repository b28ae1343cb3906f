//! The rights of linked programs: helpers and maps by an allow-list, tail calls only from programs.

use crate::instruction::{self, call, wide};
use crate::link::Linked;
use crate::object::Object;
use crate::problem::Problem;
use crate::{MapKind, helper};

/// Number of `bpf_tail_call`.
const TAIL_CALL: i32 = 12;
/// Number of `bpf_loop`.
const LOOP: i32 = 181;
/// The maximum number of reported mistakes.
const MAX_PROBLEMS: usize = 64;

/// Checks a program that runs in user mode. The error lists all mistakes.
pub fn check_user(object: &Object, linked: &Linked) -> Vec<Problem> {
    let allowed = helper::is_allowed;
    check(object, linked, "an XDP program of a router", allowed, map_mistake)
}

/// Checks a program in Linux's own path of packets; all mistakes.
pub fn check_hook(object: &Object, linked: &Linked, by_tc: bool) -> Vec<Problem> {
    let what = if by_tc { "a program by tc" } else { "a program of type cgroup_skb" };
    let allowed = |number| helper::is_allowed_in_hook(number, by_tc);
    check(object, linked, what, allowed, hook_map_mistake)
}

fn check(
    object: &Object,
    linked: &Linked,
    kind: &str,
    is_allowed: impl Fn(u32) -> bool,
    map_mistake: impl Fn(&Object, usize) -> Option<(String, String)>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    // The second half of a wide load is no instruction.
    let mut second = false;
    for (at, instruction) in linked.code.iter().enumerate() {
        if std::mem::take(&mut second) {
            continue;
        }
        second = instruction.code == instruction::LOAD_WIDE;
        let mistake = match (instruction.code, instruction.src) {
            (instruction::CALL, call::HELPER) => {
                let number = instruction.immediate.cast_unsigned();
                (!is_allowed(number)).then(|| {
                    let what = format!("`{}` is not allowed in {kind}", helper::name(number));
                    (what, helper::remedy(number).to_owned())
                })
            }
            (instruction::CALL, call::KERNEL_FUNCTION) => Some((
                "kernel functions (kfuncs) are not allowed".to_owned(),
                "use a helper".to_owned(),
            )),
            (instruction::LOAD_WIDE, wide::MAP) => {
                map_mistake(object, instruction.immediate as usize)
            }
            _ => None,
        };
        if let Some((what, remedy)) = mistake {
            problems.push(linked.problem(object, at, what, remedy));
        }
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    problems
}

/// Checks the rules that a program in the kernel must follow in addition to [`check_user`].
pub fn check_kernel(object: &Object, linked: &Linked) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut second = false;
    for (at, instruction) in linked.code.iter().enumerate() {
        if std::mem::take(&mut second) {
            continue;
        }
        second = instruction.code == instruction::LOAD_WIDE;
        let is_call = instruction.code == instruction::CALL && instruction.src == call::HELPER;
        if is_call && instruction.immediate == LOOP {
            problems.push(linked.problem(
                object,
                at,
                "`bpf_loop` is not allowed in the kernel: nobody bounds how long it runs",
                "write a `for` loop with a constant bound, which the verifier follows",
            ));
        }
        if is_call && instruction.immediate == TAIL_CALL {
            let start = linked.function_of(at).map(|function| function.start);
            if start.is_some_and(|start| !linked.entries.contains(&start)) {
                problems.push(linked.problem(
                    object,
                    at,
                    "a tail call from a function that a program calls",
                    "move `bpf_tail_call` into the function marked `SEC(\"xdp\")`: Linux before \
                     6.10 trusts such a function's result",
                ));
            }
        }
    }
    problems
}

/// The mistake in a map that an instruction names.
fn map_mistake(object: &Object, number: usize) -> Option<(String, String)> {
    let map = object.maps.get(number)?;
    if map.kind().is_some() {
        return None;
    }
    let known: Vec<&str> = MapKind::ALL.iter().map(|(_, name)| *name).collect();
    Some((
        format!("map '{}': map type {} is not allowed", map.name, map.type_number),
        format!("allowed: {}", known.join(", ")),
    ))
}

/// The same for a program in Linux's own path of packets, which calls no stages and redirects nothing.
fn hook_map_mistake(object: &Object, number: usize) -> Option<(String, String)> {
    let map = object.maps.get(number)?;
    let own = [
        MapKind::ProgArray,
        MapKind::Devmap,
        MapKind::DevmapHash,
        MapKind::Cpumap,
        MapKind::Xskmap,
    ];
    let kind = map.kind();
    if kind.is_some_and(|kind| own.contains(&kind)) {
        let what = format!("map '{}' is one of the XDP program only", map.name);
        return Some((what, "share arrays, hash tables and records".to_owned()));
    }
    map_mistake(object, number)
}
