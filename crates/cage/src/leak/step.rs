//! One instruction: its effect on a state, or why it is refused.

use crate::instruction::{Instruction, LOAD_WIDE, wide};
use crate::leak::helpers::{self, Gives, Takes};
use crate::leak::state::{Byte, State};
use crate::leak::value::{Range, Region, Value};
use crate::object::Object;

/// Why an instruction is refused, in words for its author.
pub(super) type Refusal = &'static str;

pub(super) const ARITHMETIC: Refusal = "arithmetic that makes a number of a pointer";
pub(super) const COMPARISON: Refusal = "a comparison that tells where a pointer points";
pub(super) const STORE: Refusal = "a pointer is stored where it can be read as a number";
pub(super) const PARTIAL: Refusal = "a part of a stored pointer is read";
pub(super) const NUMBER: Refusal = "a pointer where a helper wants a number";
pub(super) const MEMORY: Refusal = "a helper reads memory that contains a pointer";
pub(super) const VERDICT: Refusal = "a pointer is returned as a number";
pub(super) const UNKNOWN: Refusal = "an access that cannot be followed";

/// Places in the frame, whose distance is no secret; whole, and their low halves.
const PLACES: &[Region] = &[Region::Frame, Region::FrameEnd];
const SHORT_PLACES: &[Region] = &[Region::Frame, Region::FrameEnd, Region::FrameLow];

/// Functions whose stacks the cage clears, by depth, and from where on.
pub(super) type Unset = Vec<(u8, i32)>;

fn get(state: &State, register: u8) -> Value {
    state.registers.get(usize::from(register)).copied().unwrap_or(Value::Mixed)
}

fn set(state: &mut State, register: u8, value: Value) {
    if let Some(place) = state.registers.get_mut(usize::from(register)) {
        *place = value;
    }
}

/// Arithmetic and moves.
pub(super) fn arithmetic(state: &mut State, instruction: Instruction) -> Result<(), Refusal> {
    let Instruction { code, dst, src, offset, immediate } = instruction;
    let (is_wide, operation) = (code & 7 == 7, code & 0xf0);
    let by = match code & 8 {
        0 => Value::Number(Range::one(i64::from(immediate).cast_unsigned())),
        _ => get(state, src),
    };
    let old = get(state, dst);
    // Byte order has no second operand; a move has no first.
    let unary = matches!(operation, 0x80 | 0xd0);
    let first = if operation == 0xb0 { Value::NUMBER } else { old };
    let second = if unary { Value::NUMBER } else { by };
    let new = match (operation, first, second) {
        (0xb0, _, by) if is_wide && offset == 0 => by,
        (0x00, Value::Pointer(..), Value::Number(by)) if is_wide => moved(old, by, false)?,
        (0x10, Value::Pointer(..), Value::Number(by)) if is_wide => moved(old, by, true)?,
        (0x00, Value::Number(by), Value::Pointer(..)) if is_wide => moved(second, by, false)?,
        (0x10, Value::Pointer(a, _), Value::Pointer(b, _)) => {
            let places = if is_wide { PLACES } else { SHORT_PLACES };
            if !places.contains(&a) || !places.contains(&b) {
                return Err(ARITHMETIC);
            }
            if is_wide { Value::NUMBER } else { Value::Number(Range::of_bytes(4)) }
        }
        (0xb0, _, Value::Pointer(place, _)) if offset == 0 && SHORT_PLACES.contains(&place) => {
            Value::Pointer(Region::FrameLow, 0)
        }
        (_, a, b) if a.is_pointer() || b.is_pointer() => return Err(ARITHMETIC),
        (_, Value::Number(a), Value::Number(b)) => {
            let result = numbers(operation, a, b, is_wide);
            Value::Number(if is_wide { result } else { result.short() })
        }
        (0xb0, _, Value::Number(by)) => Value::Number(by.short()),
        _ => Value::NUMBER,
    };
    set(state, dst, new);
    Ok(())
}

/// A pointer that is moved by a number.
fn moved(pointer: Value, by: Range, back: bool) -> Result<Value, Refusal> {
    let Value::Pointer(region, origin) = pointer else { return Err(ARITHMETIC) };
    Ok(match region {
        Region::Stack { depth, low, high } => {
            // A distance is a signed number; a far one may be any number.
            let near =
                |number: u64| i32::try_from(number.cast_signed()).ok().filter(|n| n.abs() <= 1024);
            let both = near(by.low).zip(near(by.high)).filter(|(from, to)| from <= to);
            let (from, to) = both.unwrap_or((-1024, 1024));
            let (from, to) = if back { (-to, -from) } else { (from, to) };
            let (low, high) =
                (low.saturating_add(from).max(-512), high.saturating_add(to).min(512));
            Value::Pointer(Region::Stack { depth, low, high }, origin)
        }
        Region::FrameEnd | Region::FrameLow | Region::Map(_) | Region::Function(_) => {
            return Err(ARITHMETIC);
        }
        other => Value::Pointer(other, origin),
    })
}

/// The result of arithmetic on numbers, as precisely as the analysis follows it.
fn numbers(operation: u8, a: Range, b: Range, is_wide: bool) -> Range {
    let (a, b) = if is_wide { (a, b) } else { (a.short(), b.short()) };
    match operation {
        0x00 => Range { low: a.low.wrapping_add(b.low), high: a.high.wrapping_add(b.high) }
            .checked(a.low.checked_add(b.low).is_some() == a.high.checked_add(b.high).is_some()),
        0x10 => match b.constant() {
            Some(by) => a.map(|number| number.checked_sub(by)),
            None => Range::ALL,
        },
        0x20 => match (a.high.checked_mul(b.high), a.low.checked_mul(b.low)) {
            (Some(high), Some(low)) => Range { low, high },
            _ => Range::ALL,
        },
        0x50 => Range { low: 0, high: a.high.min(b.high) },
        0x60 => match b.constant().filter(|by| *by < 64) {
            Some(by) => a.map(|number| number.checked_mul(1 << by)),
            None => Range::ALL,
        },
        0x70 => match b.constant().filter(|by| *by < 64) {
            Some(by) => a.map(|number| Some(number >> by)),
            None => Range { low: 0, high: a.high },
        },
        0x90 if b.low > 0 => Range { low: 0, high: (b.high - 1).min(a.high) },
        0xb0 => b,
        _ => Range::ALL,
    }
}

impl Range {
    /// The same range, or all numbers.
    fn checked(self, good: bool) -> Range {
        if good && self.low <= self.high { self } else { Range::ALL }
    }
}

/// A wide load. `function` is the place that its immediate leads to.
pub(super) fn load_wide(state: &mut State, instruction: Instruction, high: i32, function: usize) {
    let low = instruction.immediate.cast_unsigned();
    let value = match instruction.src {
        wide::MAP => Value::Pointer(Region::Map(low as u16), 0),
        wide::MAP_VALUE => Value::Pointer(Region::Value, 0),
        wide::FUNCTION => Value::Pointer(Region::Function(function as u32), 0),
        _ => Value::Number(Range::one(u64::from(low) | u64::from(high.cast_unsigned()) << 32)),
    };
    set(state, instruction.dst, value);
}

/// Bytes that a memory access is for.
fn bytes(code: u8) -> usize {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}

/// Offset of `ingress_ifindex` in the context.
const DEVICE: i16 = 12;

/// Whether a read is that of the frame's receiving device.
pub(super) fn reads_device(state: &State, instruction: Instruction) -> bool {
    let of_context = matches!(get(state, instruction.src), Value::Pointer(Region::Context, _));
    of_context && instruction.offset == DEVICE && bytes(instruction.code) == 4
}

/// A read from memory.
pub(super) fn load(
    state: &mut State,
    instruction: Instruction,
    unset: &mut Unset,
) -> Result<(), Refusal> {
    let Instruction { code, dst, src, offset, .. } = instruction;
    let count = bytes(code);
    // Reads that extend a sign.
    let number =
        if code & 0xe0 == 0x80 { Value::NUMBER } else { Value::Number(Range::of_bytes(count)) };
    let value = match get(state, src) {
        Value::Pointer(Region::Context, _) => match offset {
            0 | 8 => Value::Pointer(Region::Frame, 0),
            4 => Value::Pointer(Region::FrameEnd, 0),
            DEVICE if count == 4 => number,
            16.. => number,
            _ => return Err(UNKNOWN),
        },
        Value::Pointer(Region::Stack { depth, low, high }, _) => {
            let (low, high) = (low + i32::from(offset), high + i32::from(offset));
            let Some(stack) = state.stacks.get(usize::from(depth)) else { return Err(UNKNOWN) };
            let whole = if low == high && count == 8 { stack.slot(low) } else { None };
            match (stack.read(low, high, count), whole) {
                (Byte::Pointer, Some(value)) => value,
                (Byte::Pointer, None) => return Err(PARTIAL),
                (Byte::Unset, _) => {
                    unset.push((depth, low));
                    number
                }
                (Byte::Data, Some(value @ Value::Number(_))) => value,
                (Byte::Data, _) => number,
            }
        }
        Value::Pointer(Region::Frame | Region::Value | Region::Record, _) => number,
        _ => return Err(UNKNOWN),
    };
    set(state, dst, value);
    Ok(())
}

/// A write to memory; `atomic` with the fetched value.
pub(super) fn store(
    state: &mut State,
    instruction: Instruction,
    unset: &mut Unset,
) -> Result<(), Refusal> {
    let Instruction { code, dst, src, offset, immediate } = instruction;
    let (count, atomic) = (bytes(code), code & 0xe0 == 0xc0);
    let value = match code & 7 {
        2 => Value::Number(Range::one(i64::from(immediate).cast_unsigned())),
        _ => get(state, src),
    };
    if atomic && (value.is_pointer() || (immediate == 0xf1 && get(state, 0).is_pointer())) {
        return Err(STORE);
    }
    match get(state, dst) {
        Value::Pointer(Region::Stack { depth, low, high }, _) => {
            let (low, high) = (low + i32::from(offset), high + i32::from(offset));
            let Some(stack) = state.stacks.get_mut(usize::from(depth)) else { return Err(UNKNOWN) };
            if atomic {
                match stack.read(low, high, count) {
                    Byte::Pointer => return Err(PARTIAL),
                    Byte::Unset => unset.push((depth, low)),
                    Byte::Data => {}
                }
            }
            if value.is_pointer() {
                if count != 8 || value == Value::Mixed || !stack.write_pointer(low, high, value) {
                    return Err(STORE);
                }
            } else {
                stack.write_data(low, high, count, if atomic { Value::NUMBER } else { value });
            }
        }
        Value::Pointer(Region::Frame | Region::Value | Region::Record, _)
            if !value.is_pointer() => {}
        Value::Pointer(..) if value.is_pointer() => return Err(STORE),
        _ => return Err(UNKNOWN),
    }
    if atomic && immediate & 1 != 0 {
        set(state, if immediate == 0xf1 { 0 } else { src }, Value::Number(Range::of_bytes(count)));
    }
    Ok(())
}

/// A comparison: the states where it holds and where it does not.
pub(super) fn compare(state: &State, instruction: Instruction) -> Result<(State, State), Refusal> {
    let Instruction { code, dst, src, immediate, .. } = instruction;
    let (is_wide, operation) = (code & 7 == 5, code & 0xf0);
    let left = get(state, dst);
    let right = match code & 8 {
        0 => Value::Number(Range::one(i64::from(immediate).cast_unsigned())),
        _ => get(state, src),
    };
    let (mut holds, mut not) = (state.clone(), state.clone());
    let equality = matches!(operation, 0x10 | 0x50);
    let null = |value: Value| matches!(value, Value::Number(range) if range.constant() == Some(0));
    match (left, right) {
        (Value::Number(number), Value::Number(limit)) => {
            if let Some(limit) =
                limit.constant().filter(|_| is_wide || number.high <= u64::from(u32::MAX))
            {
                let limit = if is_wide { limit } else { limit & u64::from(u32::MAX) };
                let (yes, no) = split(operation, number, limit);
                set(&mut holds, dst, Value::Number(yes));
                set(&mut not, dst, Value::Number(no));
            }
        }
        (Value::Pointer(a, _), Value::Pointer(b, _)) if is_wide => {
            let places = PLACES.contains(&a) && PLACES.contains(&b);
            if !places || operation == 0x40 {
                return Err(COMPARISON);
            }
        }
        (Value::Pointer(_, origin), other) | (other, Value::Pointer(_, origin))
            if is_wide && equality && null(other) =>
        {
            let is_null = if operation == 0x10 { &mut holds } else { &mut not };
            if origin != 0 && origin != u32::MAX {
                is_null.is_null(origin);
            } else if origin == u32::MAX && left.is_pointer() {
                set(is_null, dst, Value::Number(Range::one(0)));
            }
        }
        (Value::Unset, _) | (_, Value::Unset) => {}
        _ => return Err(COMPARISON),
    }
    Ok((holds, not))
}

/// The ranges of a number where a comparison holds, and where not.
fn split(operation: u8, number: Range, limit: u64) -> (Range, Range) {
    let below = Range { low: number.low, high: number.high.min(limit.saturating_sub(1)) };
    let up_to = Range { low: number.low, high: number.high.min(limit) };
    let above = Range { low: number.low.max(limit.saturating_add(1)), high: number.high };
    let from = Range { low: number.low.max(limit), high: number.high };
    let one = Range::one(limit);
    let (yes, no) = match operation {
        0x10 => (one, number),
        0x50 => (number, one),
        0x20 => (above, up_to),
        0x30 => (from, below),
        0xa0 => (below, from),
        0xb0 => (up_to, above),
        _ => (number, number),
    };
    // An empty range belongs to a path that is never taken, so any range is valid.
    let sane = |range: Range| if range.low <= range.high { range } else { number };
    (sane(yes), sane(no))
}

/// A helper's call, callbacks apart. `origin` is new for its result.
pub(super) fn help(
    object: &Object,
    state: &mut State,
    helper: u32,
    origin: u32,
    unset: &mut Unset,
) -> Result<(), Refusal> {
    let (takes, gives) = helpers::signature(helper).ok_or(UNKNOWN)?;
    let [_, a, b, c, d, e, ..] = state.registers;
    let arguments = [a, b, c, d, e];
    for (at, takes) in takes.iter().copied().enumerate() {
        let Some(argument) = arguments.get(at).copied() else { break };
        match takes {
            Takes::Number if argument.is_pointer() => return Err(NUMBER),
            Takes::Number
            | Takes::Context
            | Takes::Map
            | Takes::Function
            | Takes::Anything
            | Takes::Record => {}
            memory => {
                let bytes = helpers::bytes_of(object, memory, at, &arguments);
                touch(state, argument, memory, bytes, unset)?;
            }
        }
    }
    for register in 1..=5 {
        set(state, register, Value::Unset);
    }
    let result = match gives {
        Gives::Number => Value::NUMBER,
        Gives::Value => Value::Pointer(Region::Value, origin),
        Gives::Record => Value::Pointer(Region::Record, origin),
    };
    set(state, 0, result);
    Ok(())
}

/// Memory that a helper reads or writes.
fn touch(
    state: &mut State,
    argument: Value,
    takes: Takes,
    bytes: Option<usize>,
    unset: &mut Unset,
) -> Result<(), Refusal> {
    let (depth, low, high) = match argument {
        Value::Pointer(Region::Stack { depth, low, high }, _) => (depth, low, high),
        Value::Pointer(Region::Frame | Region::Value | Region::Record, _) => return Ok(()),
        // NULL, with no bytes.
        Value::Number(_) => return Ok(()),
        _ => return Err(UNKNOWN),
    };
    let Some(stack) = state.stacks.get_mut(usize::from(depth)) else { return Err(UNKNOWN) };
    if takes != Takes::Writes {
        match stack.read(low, high, bytes.unwrap_or(crate::leak::state::STACK)) {
            Byte::Pointer => return Err(MEMORY),
            Byte::Unset => unset.push((depth, low)),
            Byte::Data => {}
        }
    }
    if let (Takes::Writes | Takes::Both(_), Some(bytes)) = (takes, bytes) {
        stack.write_data(low, high, bytes, Value::NUMBER);
    }
    Ok(())
}

/// Whether an instruction is the first half of a wide load.
pub(super) fn is_wide_load(instruction: Instruction) -> bool {
    instruction.code == LOAD_WIDE
}
