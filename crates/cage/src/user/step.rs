//! Instructions, checked and decoded before anything runs.

use crate::instruction::{CALL, EXIT, Instruction, JUMP, JUMP_LONG, LOAD_WIDE, call, wide};
use crate::link::Linked;
use crate::object::Object;
use crate::problem::Problems;
use crate::user::memory;

/// An instruction in the form that [`super::execute`] runs: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The instruction's code, or a code of [`code`].
    pub(super) code: u16,
    pub(super) dst: u8,
    pub(super) src: u8,
    /// Offset of a memory access; place of the target of a jump or call.
    pub(super) offset: i32,
    /// The immediate operand, with its sign extended.
    pub(super) immediate: u64,
}

/// Codes in addition to the instruction set's, for instructions that differ by offset or immediate.
pub(super) mod code {
    pub(in crate::user) const HELPER: u16 = 0x100;
    pub(in crate::user) const CALL: u16 = 0x101;
    pub(in crate::user) const TO_LE: u16 = 0x103;
    pub(in crate::user) const TO_BE: u16 = 0x104;
    pub(in crate::user) const SWAP: u16 = 0x105;
    /// Signed division and remainder: the code's own byte is added.
    pub(in crate::user) const SIGNED: u16 = 0x200;
    pub(in crate::user) const SIGNED_DIV64: u16 = SIGNED + 0x37;
    pub(in crate::user) const SIGNED_DIV64_REGISTER: u16 = SIGNED + 0x3f;
    pub(in crate::user) const SIGNED_REM64: u16 = SIGNED + 0x97;
    pub(in crate::user) const SIGNED_REM64_REGISTER: u16 = SIGNED + 0x9f;
    pub(in crate::user) const SIGNED_DIV32: u16 = SIGNED + 0x34;
    pub(in crate::user) const SIGNED_DIV32_REGISTER: u16 = SIGNED + 0x3c;
    pub(in crate::user) const SIGNED_REM32: u16 = SIGNED + 0x94;
    pub(in crate::user) const SIGNED_REM32_REGISTER: u16 = SIGNED + 0x9c;
    /// Moves that extend a sign from 8, 16 or 32 bits: by the width in `offset`.
    pub(in crate::user) const EXTEND64: u16 = 0x106;
    pub(in crate::user) const EXTEND32: u16 = 0x107;
    pub(in crate::user) const ATOMIC32: u16 = 0x108;
    pub(in crate::user) const ATOMIC64: u16 = 0x109;
}

/// Atomic operations, by the immediate.
pub(super) mod atomic {
    pub(in crate::user) const ADD: i32 = 0x00;
    pub(in crate::user) const OR: i32 = 0x40;
    pub(in crate::user) const AND: i32 = 0x50;
    pub(in crate::user) const XOR: i32 = 0xa0;
    pub(in crate::user) const FETCH: i32 = 0x01;
    pub(in crate::user) const EXCHANGE: i32 = 0xe1;
    pub(in crate::user) const COMPARE: i32 = 0xf1;
}

/// Decodes all functions.
///
/// # Errors
/// All instructions that are no instructions, and jumps that lead out of their function.
pub(super) fn decode(object: &Object, linked: &Linked) -> Result<Vec<Step>, Problems> {
    let mut steps = Vec::with_capacity(linked.code.len());
    let mut problems = Vec::new();
    let mut second = false;
    for (at, instruction) in linked.code.iter().enumerate() {
        let step = if second {
            second = false;
            // Never reached: the wide load before it skips it.
            Ok(Step { code: u16::MAX, dst: 0, src: 0, offset: 0, immediate: 0 })
        } else {
            second = instruction.code == LOAD_WIDE;
            one(linked, at, *instruction)
        };
        match step {
            Ok(step) => steps.push(step),
            Err(what) => {
                steps.push(Step { code: u16::MAX, dst: 0, src: 0, offset: 0, immediate: 0 });
                // An error lists the first mistakes.
                if problems.len() < 32 {
                    problems.push(linked.problem(object, at, what, "compile it with clang"));
                }
            }
        }
    }
    for function in &linked.functions {
        let last = function.end.checked_sub(1).and_then(|last| linked.code.get(last));
        let ends = last.is_some_and(|last| matches!(last.code, EXIT | 0x05 | 0x06));
        if !ends && let Some(last) = function.end.checked_sub(1) {
            let what = "the function does not end with a return or a jump";
            problems.push(linked.problem(object, last, what, "return a value on every path"));
        }
    }
    if problems.is_empty() { Ok(steps) } else { Err(Problems(problems)) }
}

/// Decodes one instruction.
fn one(linked: &Linked, at: usize, instruction: Instruction) -> Result<Step, String> {
    let Instruction { code: byte, dst, src, offset, immediate } = instruction;
    let writes = matches!(instruction.class(), 0 | 1 | 4 | 7);
    if dst > 10 || src > 10 || (dst == 10 && writes) {
        return Err(format!("instruction {byte:#04x} with registers {dst} and {src} is not valid"));
    }
    let sign_extended = i64::from(immediate).cast_unsigned();
    let step = Step {
        code: u16::from(byte),
        dst,
        src,
        offset: i32::from(offset),
        immediate: sign_extended,
    };
    let unknown = || {
        Err(format!(
            "instruction {byte:#04x} (offset {offset}, immediate {immediate}) is not known"
        ))
    };
    match byte {
        LOAD_WIDE => load_wide(linked, at, step, instruction),
        CALL if src == call::HELPER => Ok(Step { code: code::HELPER, ..step }),
        CALL if src == call::FUNCTION => {
            let target = target(linked, at, i64::from(immediate), true)?;
            // How long the function is: its cost until its first jump back or call.
            let length = linked.function_of(target as usize).map_or(0, |of| of.end - of.start);
            Ok(Step { code: code::CALL, offset: target, immediate: length as u64, ..step })
        }
        CALL => Err("kernel functions (kfuncs) are not allowed".into()),
        EXIT => Ok(step),
        _ => match instruction.class() {
            5 | 6 if matches!(byte, 0x05 | 0x06) || byte >> 4 != 0 && byte >> 4 <= 0xd => {
                if byte & 0xf0 == 0x80 || byte & 0xf0 == 0x90 {
                    return unknown();
                }
                let distance = instruction.jump().unwrap_or(0);
                let code = if byte == JUMP_LONG { JUMP } else { byte };
                let offset = target(linked, at, distance, false)?;
                Ok(Step { code: u16::from(code), offset, ..step })
            }
            4 | 7 => arithmetic(step, instruction).map_or_else(unknown, Ok),
            1 if matches!(byte, 0x61 | 0x69 | 0x71 | 0x79 | 0x81 | 0x89 | 0x91) => Ok(step),
            2 if matches!(byte, 0x62 | 0x6a | 0x72 | 0x7a) => Ok(step),
            3 if matches!(byte, 0x63 | 0x6b | 0x73 | 0x7b) => Ok(step),
            3 if matches!(byte, 0xc3 | 0xdb) => {
                use atomic::{ADD, AND, COMPARE, EXCHANGE, FETCH, OR, XOR};
                let plain = [ADD, OR, AND, XOR].contains(&(immediate & !FETCH));
                if !plain && immediate != EXCHANGE && immediate != COMPARE {
                    return unknown();
                }
                let code = if byte == 0xc3 { code::ATOMIC32 } else { code::ATOMIC64 };
                Ok(Step { code, ..step })
            }
            _ => unknown(),
        },
    }
}

/// Moves and arithmetic. `None` for unknown codes.
fn arithmetic(step: Step, instruction: Instruction) -> Option<Step> {
    let Instruction { code: byte, offset, immediate, .. } = instruction;
    let wide = byte & 7 == 7;
    match (byte & 0xf0, offset) {
        (0xd0, 0) => {
            if !matches!(immediate, 16 | 32 | 64) {
                return None;
            }
            let code = match (wide, byte & 8 != 0) {
                (false, false) => code::TO_LE,
                (false, true) => code::TO_BE,
                (true, false) => code::SWAP,
                (true, true) => return None,
            };
            Some(Step { code, ..step })
        }
        (0x30 | 0x90, 1) => Some(Step { code: code::SIGNED + u16::from(byte), offset: 0, ..step }),
        (0xb0, 8 | 16 | 32) if byte & 8 != 0 && (wide || offset != 32) => {
            Some(Step { code: if wide { code::EXTEND64 } else { code::EXTEND32 }, ..step })
        }
        (0x80, 0) if byte & 8 == 0 => Some(step),
        (0x80 | 0xe0 | 0xf0, _) => None,
        (_, 0) => Some(step),
        _ => None,
    }
}

/// A wide load as one step, which skips the second half.
fn load_wide(
    linked: &Linked,
    at: usize,
    step: Step,
    instruction: Instruction,
) -> Result<Step, String> {
    let Some(second) = linked.code.get(at + 1).filter(|second| second.code == 0) else {
        return Err("half of a wide load".into());
    };
    let within = linked.function_of(at).is_some_and(|function| at + 1 < function.end);
    if !within {
        return Err("half of a wide load".into());
    }
    let (low, high) = (instruction.immediate.cast_unsigned(), second.immediate.cast_unsigned());
    let immediate = match instruction.src {
        0 => u64::from(low) | u64::from(high) << 32,
        wide::MAP => memory::map_address(low as usize),
        wide::MAP_VALUE => memory::value_address(low as usize, u64::from(high)),
        wide::FUNCTION => {
            let target = target(linked, at, i64::from(instruction.immediate), true)?;
            memory::function_address(target.cast_unsigned())
        }
        _ => return Err("a wide load of an unknown kind".into()),
    };
    Ok(Step { immediate, ..step })
}

/// The place that a jump or call leads to.
fn target(linked: &Linked, at: usize, distance: i64, function: bool) -> Result<i32, String> {
    let out = || "a jump out of its function".to_owned();
    // Both are small: code has a bounded length.
    let target = usize::try_from(at as i64 + 1 + distance).map_err(|_| out())?;
    if function {
        let starts = linked.functions.binary_search_by_key(&target, |of| of.start).is_ok();
        if !starts {
            return Err("a call of a place where no function starts".into());
        }
    } else {
        let own = linked.function_of(at).ok_or_else(out)?;
        if !(own.start..own.end).contains(&target) {
            return Err(out());
        }
        let before = target.checked_sub(1).filter(|before| *before >= own.start);
        let before = before.and_then(|before| linked.code.get(before));
        let into = linked.code.get(target).is_some_and(|second| second.code == 0);
        if into && before.is_some_and(|first| first.code == LOAD_WIDE) {
            return Err("a jump into the middle of a wide load".into());
        }
    }
    i32::try_from(target).map_err(|_| out())
}
