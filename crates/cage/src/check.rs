//! The rights of linked programs: helpers and maps by allow-list, tail calls from programs only.

use crate::instruction::{self, call, wide};
use crate::link::Linked;
use crate::object::Object;
use crate::problem::Problem;
use crate::{MapKind, helper};

/// Number of `bpf_tail_call`.
const TAIL_CALL: i32 = 12;
/// Number of `bpf_loop`.
const LOOP: i32 = 181;
/// Most mistakes that are reported.
const MAX_PROBLEMS: usize = 64;

/// Checks a program that runs in user mode; all mistakes.
pub fn check_user(object: &Object, linked: &Linked) -> Vec<Problem> {
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
                (!helper::is_allowed(number)).then(|| {
                    let what = format!(
                        "`{}` is not allowed in an XDP program of a router",
                        helper::name(number)
                    );
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

/// Checks the rules for a program in the kernel beyond [`check_user`].
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

/// The mistake of a map that an instruction names.
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
