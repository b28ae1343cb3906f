//! The known facts about a register.

/// A range of numbers of 64 bits without sign, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Range {
    pub(super) const ALL: Range = Range { low: 0, high: u64::MAX };

    pub(super) fn one(number: u64) -> Range {
        Range { low: number, high: number }
    }

    /// Numbers that fit into `bytes` bytes.
    pub(super) fn of_bytes(bytes: usize) -> Range {
        Range { low: 0, high: if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 } }
    }

    pub(super) fn constant(self) -> Option<u64> {
        (self.low == self.high).then_some(self.low)
    }

    pub(super) fn join(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Both ends changed by the same function, or all numbers if it overflows.
    pub(super) fn map(self, by: impl Fn(u64) -> Option<u64>) -> Range {
        match (by(self.low), by(self.high)) {
            (Some(low), Some(high)) if low <= high => Range { low, high },
            _ => Range::ALL,
        }
    }

    /// The low 32 bits.
    pub(super) fn short(self) -> Range {
        if self.high <= u64::from(u32::MAX) { self } else { Range::of_bytes(4) }
    }
}

/// The target of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Context,
    /// A function's stack by its depth, at these distances from its end.
    Stack {
        depth: u8,
        low: i32,
        high: i32,
    },
    Frame,
    FrameEnd,
    /// The low 32 bits of a place in the frame, valid only for computing a distance.
    FrameLow,
    /// A map's value.
    Value,
    /// A record of a ring buffer.
    Record,
    Map(u16),
    Function(u32),
}

/// The known facts about a register or eight bytes of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// It is not set on some path.
    Unset,
    Number(Range),
    /// A pointer, or NULL; pointers of one origin are NULL together.
    Pointer(Region, u32),
    /// A pointer or a number, or different pointers.
    Mixed,
}

impl Value {
    pub(super) const NUMBER: Value = Value::Number(Range::ALL);

    /// Whether it may be a pointer.
    pub(super) fn is_pointer(self) -> bool {
        matches!(self, Value::Pointer(..) | Value::Mixed)
    }

    pub(super) fn join(self, other: Value) -> Value {
        match (self, other) {
            (a, b) if a == b => a,
            (Value::Number(a), Value::Number(b)) => Value::Number(a.join(b)),
            (Value::Unset, other) | (other, Value::Unset) => {
                // The verifier refuses its use; its possible values must be kept.
                if other.is_pointer() { Value::Mixed } else { Value::Unset }
            }
            (Value::Number(number), pointer @ Value::Pointer(..))
            | (pointer @ Value::Pointer(..), Value::Number(number))
                if number.constant() == Some(0) =>
            {
                pointer
            }
            (Value::Pointer(a, from_a), Value::Pointer(b, from_b)) => {
                let origin = if from_a == from_b { from_a } else { u32::MAX };
                match (a, b) {
                    (
                        Region::Stack { depth: x, low, high },
                        Region::Stack { depth: y, low: other_low, high: other_high },
                    ) if x == y => {
                        let (low, high) = (low.min(other_low), high.max(other_high));
                        Value::Pointer(Region::Stack { depth: x, low, high }, origin)
                    }
                    (a, b) if a == b => Value::Pointer(a, origin),
                    _ => Value::Mixed,
                }
            }
            _ => Value::Mixed,
        }
    }

    /// The same, but a growing value becomes as large as possible, so that loops end.
    pub(super) fn widen(self, newer: Value) -> Value {
        match (self, self.join(newer)) {
            (Value::Number(old), Value::Number(new)) if old != new => {
                let low = if new.low < old.low { 0 } else { old.low };
                let high = if new.high > old.high { u64::MAX } else { old.high };
                Value::Number(Range { low, high })
            }
            (
                Value::Pointer(Region::Stack { low: a, high: b, .. }, _),
                Value::Pointer(Region::Stack { depth, low, high }, origin),
            ) if (a, b) != (low, high) => {
                Value::Pointer(Region::Stack { depth, low: -512, high: 0 }, origin)
            }
            (_, joined) => joined,
        }
    }
}
