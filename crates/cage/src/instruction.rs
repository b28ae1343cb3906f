//! One eBPF instruction of eight bytes, and the codes that this crate names.

/// One instruction, decoded from its eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Class, source and operation.
    pub code: u8,
    /// Destination register.
    pub dst: u8,
    /// Source register, or the meaning of an immediate.
    pub src: u8,
    /// Offset of a jump, in instructions, or of a memory access, in bytes.
    pub offset: i16,
    /// Immediate operand.
    pub immediate: i32,
}

/// Bytes of an instruction.
pub const BYTES: usize = 8;

/// Loads an immediate of 64 bits; takes two places.
pub const LOAD_WIDE: u8 = 0x18;
/// Calls a helper or a function.
pub const CALL: u8 = 0x85;
/// Returns.
pub const EXIT: u8 = 0x95;
/// Jumps by the offset.
pub const JUMP: u8 = 0x05;
/// Jumps by the immediate.
pub const JUMP_LONG: u8 = 0x06;
/// `register = register`, 64 bits.
pub const MOVE: u8 = 0xbf;
/// `register = immediate`, 64 bits.
pub const MOVE_IMMEDIATE: u8 = 0xb7;

/// The meaning of the source register of [`LOAD_WIDE`] for its immediate.
pub mod wide {
    /// A map.
    pub const MAP: u8 = 1;
    /// A place in the value of a map with one entry.
    pub const MAP_VALUE: u8 = 2;
    /// A function.
    pub const FUNCTION: u8 = 4;
}

/// The meaning of the source register of [`CALL`] for its immediate.
pub mod call {
    /// A helper's number.
    pub const HELPER: u8 = 0;
    /// Distance of a function, in instructions.
    pub const FUNCTION: u8 = 1;
    /// A function of the kernel.
    pub const KERNEL_FUNCTION: u8 = 2;
}

impl Instruction {
    /// Reads eight bytes.
    pub fn read(bytes: [u8; BYTES]) -> Instruction {
        let [code, registers, low, high, immediate @ ..] = bytes;
        Instruction {
            code,
            dst: registers & 15,
            src: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    /// The eight bytes.
    pub fn write(self) -> [u8; BYTES] {
        let [low, high] = self.offset.to_le_bytes();
        let [a, b, c, d] = self.immediate.to_le_bytes();
        [self.code, self.src << 4 | self.dst, low, high, a, b, c, d]
    }

    /// Class: the low three bits of the code.
    pub fn class(self) -> u8 {
        self.code & 7
    }

    /// The distance of a jump in instructions, from the next one; `None` if this is no jump.
    pub fn jump(self) -> Option<i64> {
        match (self.code, self.class()) {
            (CALL | EXIT, _) => None,
            (JUMP_LONG, _) => Some(i64::from(self.immediate)),
            (_, 5 | 6) => Some(i64::from(self.offset)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for bytes in [[0x18, 0x21, 0xff, 0x7f, 1, 2, 3, 0x84], [0x95, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Instruction::read(bytes).write(), bytes);
        }
        let jump = Instruction::read([0x55, 0x01, 0xfe, 0xff, 0, 0, 0, 0]);
        assert_eq!((jump.dst, jump.jump()), (1, Some(-2)));
        assert_eq!(Instruction::read([EXIT, 0, 0, 0, 0, 0, 0, 0]).jump(), None);
    }
}
