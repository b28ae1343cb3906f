//! Registers and stacks at one place of a program.

use crate::leak::value::{Region, Value};

/// Bytes of a function's stack.
pub(super) const STACK: usize = 512;
const SLOTS: usize = STACK / 8;

/// The kind of a byte of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    /// Never written on some path.
    Unset,
    /// Part of a number.
    Data,
    /// Part of a pointer.
    Pointer,
}

impl Byte {
    fn join(self, other: Byte) -> Byte {
        match (self, other) {
            (Byte::Pointer, _) | (_, Byte::Pointer) => Byte::Pointer,
            (Byte::Unset, _) | (_, Byte::Unset) => Byte::Unset,
            _ => Byte::Data,
        }
    }
}

/// The stack of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    bytes: Box<[Byte; STACK]>,
    /// The value of eight aligned bytes.
    slots: Box<[Value; SLOTS]>,
}

impl Stack {
    fn new() -> Stack {
        Stack { bytes: Box::new([Byte::Unset; STACK]), slots: Box::new([Value::Unset; SLOTS]) }
    }

    /// The places of `count` bytes at a distance from the end.
    fn range(low: i32, high: i32, count: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(STACK as i32 + low).unwrap_or(0).min(STACK);
        let end = usize::try_from(STACK as i32 + high).unwrap_or(0).saturating_add(count);
        start..end.clamp(start, STACK)
    }

    /// The result of a read of `count` bytes, at any distance from `low` to `high`.
    pub(super) fn read(&self, low: i32, high: i32, count: usize) -> Byte {
        let range = Stack::range(low, high, count);
        let bytes = self.bytes.get(range).unwrap_or_default();
        bytes.iter().copied().reduce(Byte::join).unwrap_or(Byte::Data)
    }

    /// The value of eight aligned bytes.
    pub(super) fn slot(&self, at: i32) -> Option<Value> {
        let place = usize::try_from(STACK as i32 + at).ok()?;
        if !place.is_multiple_of(8) {
            return None;
        }
        let whole = self.bytes.get(place..place + 8)?;
        let first = *whole.first()?;
        let slot = *self.slots.get(place / 8)?;
        let is_whole = whole.iter().all(|byte| *byte == first);
        // Parts of a pointer that was overwritten are no pointer, and no number either.
        (is_whole && slot.is_pointer() == (first == Byte::Pointer)).then_some(slot)
    }

    /// Writes a number of `count` bytes at one distance, or at any distance of a range.
    pub(super) fn write_data(&mut self, low: i32, high: i32, count: usize, value: Value) {
        let range = Stack::range(low, high, count);
        let exact = low == high;
        for slot in range.start / 8..range.end.div_ceil(8) {
            if let Some(slot) = self.slots.get_mut(slot)
                && (exact || !slot.is_pointer())
            {
                *slot = Value::NUMBER;
            }
        }
        if exact {
            if let Some(bytes) = self.bytes.get_mut(range.clone()) {
                bytes.fill(Byte::Data);
            }
            if count == 8
                && range.start.is_multiple_of(8)
                && let Some(slot) = self.slots.get_mut(range.start / 8)
            {
                *slot = value;
            }
        }
    }

    /// Stores a pointer. `false` if it is not whole and aligned.
    pub(super) fn write_pointer(&mut self, low: i32, high: i32, value: Value) -> bool {
        let range = Stack::range(low, high, 8);
        if low != high || range.len() != 8 || !range.start.is_multiple_of(8) {
            return false;
        }
        if let Some(slot) = self.slots.get_mut(range.start / 8) {
            *slot = value;
        }
        if let Some(bytes) = self.bytes.get_mut(range) {
            bytes.fill(Byte::Pointer);
        }
        true
    }

    fn join(&mut self, other: &Stack, widen: bool) -> bool {
        let mut changed = false;
        for (mine, other) in self.bytes.iter_mut().zip(other.bytes.iter()) {
            let joined = mine.join(*other);
            changed |= joined != *mine;
            *mine = joined;
        }
        for (mine, other) in self.slots.iter_mut().zip(other.slots.iter()) {
            let joined = if widen { mine.widen(*other) } else { mine.join(*other) };
            changed |= joined != *mine;
            *mine = joined;
        }
        changed
    }
}

/// Registers and stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) registers: [Value; 11],
    /// By depth.
    pub(super) stacks: Vec<Stack>,
}

impl State {
    /// The state at a program's start.
    pub(super) fn entry() -> State {
        let mut registers = [Value::Unset; 11];
        registers[1] = Value::Pointer(Region::Context, 0);
        registers[10] = frame_pointer(0);
        State { registers, stacks: vec![Stack::new()] }
    }

    /// The state at the start of a called function.
    pub(super) fn call(&self, arguments: [Value; 5]) -> State {
        let mut called = State { registers: [Value::Unset; 11], stacks: self.stacks.clone() };
        called.stacks.push(Stack::new());
        for (to, from) in called.registers.iter_mut().skip(1).zip(arguments) {
            *to = from;
        }
        called.registers[10] = frame_pointer(self.stacks.len());
        called
    }

    /// Adds the state of another path. Returns whether it adds information.
    pub(super) fn join(&mut self, other: &State, widen: bool) -> bool {
        let mut changed = false;
        for (mine, other) in self.registers.iter_mut().zip(&other.registers) {
            let joined = if widen { mine.widen(*other) } else { mine.join(*other) };
            changed |= joined != *mine;
            *mine = joined;
        }
        for (mine, other) in self.stacks.iter_mut().zip(&other.stacks) {
            changed |= mine.join(other, widen);
        }
        changed
    }

    /// All values of one origin are NULL.
    pub(super) fn is_null(&mut self, origin: u32) {
        let null = Value::Number(crate::leak::value::Range::one(0));
        let mut clear = |value: &mut Value| {
            if matches!(value, Value::Pointer(_, from) if *from == origin) {
                *value = null;
            }
        };
        self.registers.iter_mut().for_each(&mut clear);
    }
}

fn frame_pointer(depth: usize) -> Value {
    // At most eight.
    Value::Pointer(Region::Stack { depth: depth as u8, low: 0, high: 0 }, 0)
}
