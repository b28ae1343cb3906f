//! Classic BPF: the virtual machine that runs compiled pcap filters (bpf(4), and
//! `Documentation/networking/filter.rst` of Linux).
//!
//! A program is checked when it is made. It only jumps forward and inside itself, and ends with a
//! return, so every run ends. Any other fault makes a run reject the packet.

use std::fmt;
use std::str::FromStr;

/// Longest program that the kernel allows.
pub const MAX_INSTRUCTIONS: usize = 4096;
/// Words of scratch memory.
const MEMORY: usize = 16;

/// One instruction, as libpcap's compiler writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Number of instructions to skip if a condition holds.
    pub if_true: u8,
    /// Number of instructions to skip if it does not hold.
    pub if_false: u8,
    /// A constant.
    pub k: u32,
}

/// The reason why instructions are not a valid program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The program is empty or too long.
    #[error("a filter has 1 to {MAX_INSTRUCTIONS} instructions, not {0}")]
    Length(usize),
    /// An unknown or forbidden instruction.
    #[error("instruction {at}: {what}")]
    Instruction {
        /// Its number, from 0.
        at: usize,
        /// The mistake.
        what: &'static str,
    },
    /// The text does not describe a program.
    #[error("not the text of a filter program: '{0}'")]
    Text(String),
}

/// A checked program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

// Classes.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;
// Sizes.
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
// Modes of loads.
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const MSH: u16 = 0xa0;
/// The operand is the register X, not the constant.
const X: u16 = 0x08;

impl Program {
    /// Checks a program.
    ///
    /// # Errors
    /// The instruction and the mistake in it.
    pub fn new(instructions: Vec<Instruction>) -> Result<Program, ProgramError> {
        let count = instructions.len();
        if count == 0 || count > MAX_INSTRUCTIONS {
            return Err(ProgramError::Length(count));
        }
        for (at, instruction) in instructions.iter().enumerate() {
            let ahead = count - at - 1;
            instruction.check(ahead).map_err(|what| ProgramError::Instruction { at, what })?;
        }
        Ok(Program(instructions))
    }

    /// Its instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Whether the filter accepts a packet of `length` bytes that begins with `data`. Reading
    /// beyond `data` rejects the packet, as in the kernel.
    pub fn matches(&self, data: &[u8], length: usize) -> bool {
        self.run(data, length).is_some_and(|bytes| bytes > 0)
    }

    /// The program's result: the number of bytes to keep.
    fn run(&self, data: &[u8], length: usize) -> Option<u32> {
        let (mut a, mut x) = (0u32, 0u32);
        let mut memory = [0u32; MEMORY];
        let mut next = 0usize;
        loop {
            let Instruction { code, if_true, if_false, k } = *self.0.get(next)?;
            next += 1;
            let operand = if code & X != 0 { x } else { k };
            match code & 7 {
                LD => {
                    let at = match code & 0xe0 {
                        IMM => {
                            a = k;
                            continue;
                        }
                        MEM => {
                            a = *memory.get(k as usize)?;
                            continue;
                        }
                        LEN => {
                            a = length as u32;
                            continue;
                        }
                        IND => x.checked_add(k)?,
                        _ => k,
                    };
                    a = load(data, at as usize, code)?;
                }
                LDX => {
                    x = match code & 0xe0 {
                        IMM => k,
                        MEM => *memory.get(k as usize)?,
                        LEN => length as u32,
                        // Length of an IPv4 header.
                        _ => u32::from(data.get(k as usize)? & 15) * 4,
                    };
                }
                ST => *memory.get_mut(k as usize)? = a,
                STX => *memory.get_mut(k as usize)? = x,
                ALU => {
                    a = match code & 0xf0 {
                        0x00 => a.wrapping_add(operand),
                        0x10 => a.wrapping_sub(operand),
                        0x20 => a.wrapping_mul(operand),
                        0x30 => a.checked_div(operand)?,
                        0x40 => a | operand,
                        0x50 => a & operand,
                        0x60 => a.checked_shl(operand).unwrap_or(0),
                        0x70 => a.checked_shr(operand).unwrap_or(0),
                        0x80 => a.wrapping_neg(),
                        0x90 => a.checked_rem(operand)?,
                        _ => a ^ operand,
                    };
                }
                JMP => {
                    let holds = match code & 0xf0 {
                        0x00 => {
                            next += k as usize;
                            continue;
                        }
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        _ => a & operand != 0,
                    };
                    next += usize::from(if holds { if_true } else { if_false });
                }
                RET => return Some(if code & 0x18 == 0x10 { a } else { k }),
                _ if code & 0xf8 == 0 => x = a,
                _ => a = x,
            }
        }
    }
}

/// Loads a number, with the size in `code`, in network byte order.
fn load(data: &[u8], at: usize, code: u16) -> Option<u32> {
    let bytes = match code & 0x18 {
        BYTE => 1,
        HALF => 2,
        _ => 4,
    };
    let bytes = data.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

impl Instruction {
    /// `ahead` instructions follow.
    fn check(&self, ahead: usize) -> Result<(), &'static str> {
        let Instruction { code, if_true, if_false, k } = *self;
        let known = match code & 7 {
            LD => match code & 0xf8 & !0x18 {
                ABS | IND => code & 0x18 != 0x18,
                IMM | MEM | LEN => code & 0x18 == 0,
                _ => false,
            },
            LDX => matches!(code & 0xf8, IMM | MEM | LEN) || code & 0xf8 == MSH | BYTE,
            ST | STX => code & 0xf8 == 0,
            ALU => code & 0xf0 <= 0xa0,
            JMP => code & 0xf0 <= 0x40 && code & 0xf8 != X,
            RET => matches!(code & 0xf8, 0x00 | 0x10),
            MISC => matches!(code & 0xf8, 0x00 | 0x80),
            _ => false,
        };
        if !known || code > 0xff {
            return Err("unknown");
        }
        let memory =
            matches!(code & 7, ST | STX) || matches!(code & 7, LD | LDX) && code & 0xe0 == MEM;
        if memory && k as usize >= MEMORY {
            return Err("outside the scratch memory");
        }
        if code & 7 == ALU && code & X == 0 && matches!(code & 0xf0, 0x30 | 0x90) && k == 0 {
            return Err("division by zero");
        }
        if code & 7 == JMP {
            let furthest = match code & 0xf0 {
                0x00 => k as usize,
                _ => usize::from(if_true.max(if_false)),
            };
            if furthest >= ahead {
                return Err("jumps out of the program");
            }
        } else if code & 7 != RET && ahead == 0 {
            return Err("the last one does not return");
        }
        Ok(())
    }
}

/// The form of `tcpdump -ddd`: the number of instructions, then four numbers each.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.len())?;
        for Instruction { code, if_true, if_false, k } in &self.0 {
            write!(f, " {code} {if_true} {if_false} {k}")?;
        }
        Ok(())
    }
}

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Program, ProgramError> {
        let bad = |word: &str| ProgramError::Text(word.to_owned());
        let numbers: Vec<u32> = text
            .split_whitespace()
            .map(|word| word.parse().map_err(|_| bad(word)))
            .collect::<Result<_, _>>()?;
        let (count, rest) = numbers.split_first().ok_or_else(|| bad(text))?;
        let (instructions, left) = rest.as_chunks::<4>();
        if !left.is_empty() || instructions.len() != *count as usize {
            return Err(bad(text));
        }
        let small = |number: u32| u8::try_from(number).map_err(|_| bad(&number.to_string()));
        let instruction = |[code, if_true, if_false, k]: &[u32; 4]| {
            Ok(Instruction {
                code: u16::try_from(*code).map_err(|_| bad(&code.to_string()))?,
                if_true: small(*if_true)?,
                if_false: small(*if_false)?,
                k: *k,
            })
        };
        Program::new(instructions.iter().map(instruction).collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(port: u8, fragment: u8) -> Vec<u8> {
        let mut packet = vec![0; 14 + 24 + 8];
        packet[12] = 8;
        packet[14] = 0x46;
        packet[21] = fragment;
        packet[23] = 17;
        packet[14 + 24 + 3] = port;
        packet
    }

    #[test]
    fn a_compiled_filter_tells_packets_apart() {
        // `ip and udp dst port 53`, as libpcap compiles it for Ethernet.
        let program: Program =
            "11 40 0 0 12 21 0 8 2048 48 0 0 23 21 0 6 17 40 0 0 20 69 4 0 8191 \
            177 0 0 14 72 0 0 16 21 0 1 53 6 0 0 262144 6 0 0 0"
                .parse()
                .unwrap();
        assert_eq!(program.to_string().parse(), Ok(program.clone()));
        for (packet, wanted) in [
            (udp(53, 0), true),
            (udp(54, 0), false),
            (udp(53, 1), false),
            (udp(53, 0)[..30].to_vec(), false),
            (Vec::new(), false),
        ] {
            assert_eq!(program.matches(&packet, packet.len()), wanted, "{packet:?}");
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for (text, why) in [
            ("0", "a filter has 1 to 4096 instructions, not 0"),
            ("1 0 0 0 0", "instruction 0: the last one does not return"),
            ("2 5 0 0 1 6 0 0 0", "instruction 0: jumps out of the program"),
            ("2 21 0 1 1 6 0 0 0", "instruction 0: jumps out of the program"),
            ("2 52 0 0 0 6 0 0 0", "instruction 0: division by zero"),
            ("2 96 0 0 16 6 0 0 0", "instruction 0: outside the scratch memory"),
            ("2 255 0 0 0 6 0 0 0", "instruction 0: unknown"),
            ("2 6 0 0 0", "not the text of a filter program: '2 6 0 0 0'"),
            ("1 6 0 0 x", "not the text of a filter program: 'x'"),
        ] {
            assert_eq!(text.parse::<Program>().map_err(|e| e.to_string()), Err(why.into()));
        }
    }

    #[test]
    fn arithmetic() {
        let run = |lines: &[(u16, u32)]| {
            let mut all: Vec<_> = lines.iter().map(|(code, k)| (*code, *k)).collect();
            all.push((0x16, 0));
            let instruction = |(code, k)| Instruction { code, if_true: 0, if_false: 0, k };
            Program::new(all.into_iter().map(instruction).collect()).unwrap().run(&[], 60)
        };
        for (lines, result) in [
            (&[(0x80, 0)][..], Some(60)),
            (&[(0x00, 7), (0x04, u32::MAX)], Some(6)),
            (&[(0x00, 7), (0x07, 0), (0x1c, 0)], Some(0)),
            (&[(0x00, 7), (0x3c, 0)], None),
            (&[(0x00, 9), (0x94, 5)], Some(4)),
            (&[(0x00, 1), (0x64, 32)], Some(0)),
            (&[(0x00, 1), (0x84, 0)], Some(u32::MAX)),
            (&[(0x00, 5), (0x02, 3), (0x00, 0), (0x61, 3), (0x87, 0)], Some(5)),
            (&[(0x00, 12), (0xa4, 10)], Some(6)),
        ] {
            assert_eq!(run(lines), result, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn no_program_runs_for_ever_or_breaks(
            words in prop::collection::vec((0u16..256, 0u8..4, 0u8..4, 0u32..40), 1..30),
            data in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let instruction = |(code, if_true, if_false, k)| Instruction { code, if_true, if_false, k };
            if let Ok(program) = Program::new(words.into_iter().map(instruction).collect()) {
                program.matches(&data, data.len());
            }
        }
    }
}
