//! The loop over instructions.
//!
//! Fuel is taken only at backward jumps and calls: as many units as instructions can follow until
//! the next of them. Straight code needs no count.

use crate::user::machine::{Cause, Fault, Host, Target};
use crate::user::memory::{MAX_DEPTH, Memory, Outside, stack_end};
use crate::user::print::Trace;
use crate::user::step::{Step, atomic, code};

/// One run of a program on a frame.
pub(super) struct Run<'a, 'b> {
    pub(super) steps: &'a [Step],
    /// Where functions begin and end.
    pub(super) functions: &'a [(usize, usize)],
    pub(super) memory: Memory<'a, 'b>,
    pub(super) scratch: &'a mut [u8],
    pub(super) trace: &'a mut Trace,
    pub(super) host: &'a mut dyn Host,
    pub(super) fuel: i64,
    pub(super) tail_calls: u32,
    pub(super) target: Target,
}

/// The registers that a called function must not change, and its return address.
#[derive(Clone, Copy, Default)]
struct Caller {
    kept: [u64; 5],
    back: usize,
}

/// The effect of a helper on the program's course.
pub(super) enum Next {
    /// The program continues with this result.
    Result(u64),
    /// Another program takes over.
    Tail(usize),
}

impl Run<'_, '_> {
    /// Runs from `pc` on with two arguments, until the function returns.
    #[allow(clippy::too_many_lines, reason = "one arm for each instruction")]
    pub(super) fn execute(
        &mut self,
        mut pc: usize,
        arguments: [u64; 2],
        base: usize,
    ) -> Result<u64, Fault> {
        let steps = self.steps;
        let mut regs = [0_u64; 16];
        let mut callers = [Caller::default(); MAX_DEPTH];
        let mut depth = base;
        [regs[1], regs[2]] = arguments;
        regs[10] = stack_end(base);
        let mut fuel = self.fuel;
        loop {
            let Some(step) = steps.get(pc) else {
                return Err(Fault { at: pc, cause: Cause::Instruction });
            };
            pc += 1;
            let (d, s) = (usize::from(step.dst & 15), usize::from(step.src & 15));
            let k = step.immediate;
            macro_rules! stop {
                ($cause:expr) => {
                    return Err(Fault { at: pc - 1, cause: $cause })
                };
            }
            macro_rules! burn {
                ($units:expr) => {
                    fuel -= $units as i64;
                    if fuel < 0 {
                        stop!(Cause::Fuel);
                    }
                };
            }
            macro_rules! jump {
                ($condition:expr) => {
                    if $condition {
                        let target = step.offset as usize;
                        if target < pc {
                            burn!(pc - target);
                        }
                        pc = target;
                    }
                };
            }
            macro_rules! set {
                ($value:expr) => {
                    regs[d] = $value
                };
            }
            macro_rules! set32 {
                ($value:expr) => {
                    regs[d] = u64::from($value)
                };
            }
            macro_rules! load {
                ($bytes:literal, $as:expr) => {{
                    let address = regs[s].wrapping_add_signed(i64::from(step.offset));
                    match self.memory.load::<$bytes>(address) {
                        Ok(value) => regs[d] = $as(value),
                        Err(Outside) => {
                            stop!(Cause::Memory { address, bytes: $bytes, write: false })
                        }
                    }
                }};
            }
            macro_rules! store {
                ($bytes:literal, $value:expr) => {{
                    let address = regs[d].wrapping_add_signed(i64::from(step.offset));
                    let value = $value;
                    if let Err(Outside) = self.memory.store::<$bytes>(address, value) {
                        stop!(Cause::Memory { address, bytes: $bytes, write: true })
                    }
                }};
            }
            match step.code {
                // Arithmetic with 64 bits.
                0x07 => set!(regs[d].wrapping_add(k)),
                0x0f => set!(regs[d].wrapping_add(regs[s])),
                0x17 => set!(regs[d].wrapping_sub(k)),
                0x1f => set!(regs[d].wrapping_sub(regs[s])),
                0x27 => set!(regs[d].wrapping_mul(k)),
                0x2f => set!(regs[d].wrapping_mul(regs[s])),
                0x37 => set!(regs[d].checked_div(k).unwrap_or(0)),
                0x3f => set!(regs[d].checked_div(regs[s]).unwrap_or(0)),
                0x47 => set!(regs[d] | k),
                0x4f => set!(regs[d] | regs[s]),
                0x57 => set!(regs[d] & k),
                0x5f => set!(regs[d] & regs[s]),
                0x67 => set!(regs[d] << (k & 63)),
                0x6f => set!(regs[d] << (regs[s] & 63)),
                0x77 => set!(regs[d] >> (k & 63)),
                0x7f => set!(regs[d] >> (regs[s] & 63)),
                0x87 => set!(regs[d].wrapping_neg()),
                0x97 => set!(regs[d].checked_rem(k).unwrap_or(regs[d])),
                0x9f => set!(regs[d].checked_rem(regs[s]).unwrap_or(regs[d])),
                0xa7 => set!(regs[d] ^ k),
                0xaf => set!(regs[d] ^ regs[s]),
                0xb7 => set!(k),
                0xbf => set!(regs[s]),
                0xc7 => set!((regs[d].cast_signed() >> (k & 63)).cast_unsigned()),
                0xcf => set!((regs[d].cast_signed() >> (regs[s] & 63)).cast_unsigned()),
                // Arithmetic with 32 bits.
                0x04 => set32!((regs[d] as u32).wrapping_add(k as u32)),
                0x0c => set32!((regs[d] as u32).wrapping_add(regs[s] as u32)),
                0x14 => set32!((regs[d] as u32).wrapping_sub(k as u32)),
                0x1c => set32!((regs[d] as u32).wrapping_sub(regs[s] as u32)),
                0x24 => set32!((regs[d] as u32).wrapping_mul(k as u32)),
                0x2c => set32!((regs[d] as u32).wrapping_mul(regs[s] as u32)),
                0x34 => set32!((regs[d] as u32).checked_div(k as u32).unwrap_or(0)),
                0x3c => set32!((regs[d] as u32).checked_div(regs[s] as u32).unwrap_or(0)),
                0x44 => set32!(regs[d] as u32 | k as u32),
                0x4c => set32!(regs[d] as u32 | regs[s] as u32),
                0x54 => set32!(regs[d] as u32 & k as u32),
                0x5c => set32!(regs[d] as u32 & regs[s] as u32),
                0x64 => set32!((regs[d] as u32) << (k & 31)),
                0x6c => set32!((regs[d] as u32) << (regs[s] & 31)),
                0x74 => set32!(regs[d] as u32 >> (k & 31)),
                0x7c => set32!(regs[d] as u32 >> (regs[s] & 31)),
                0x84 => set32!((regs[d] as u32).wrapping_neg()),
                0x94 => set32!(remainder32(regs[d], k)),
                0x9c => set32!(remainder32(regs[d], regs[s])),
                0xa4 => set32!(regs[d] as u32 ^ k as u32),
                0xac => set32!(regs[d] as u32 ^ regs[s] as u32),
                0xb4 => set32!(k as u32),
                0xbc => set32!(regs[s] as u32),
                0xc4 => set32!((regs[d] as i32 >> (k & 31)).cast_unsigned()),
                0xcc => set32!((regs[d] as i32 >> (regs[s] & 31)).cast_unsigned()),
                // Jumps that compare 64 bits.
                0x05 => jump!(true),
                0x15 => jump!(regs[d] == k),
                0x1d => jump!(regs[d] == regs[s]),
                0x25 => jump!(regs[d] > k),
                0x2d => jump!(regs[d] > regs[s]),
                0x35 => jump!(regs[d] >= k),
                0x3d => jump!(regs[d] >= regs[s]),
                0x45 => jump!(regs[d] & k != 0),
                0x4d => jump!(regs[d] & regs[s] != 0),
                0x55 => jump!(regs[d] != k),
                0x5d => jump!(regs[d] != regs[s]),
                0x65 => jump!(regs[d].cast_signed() > k.cast_signed()),
                0x6d => jump!(regs[d].cast_signed() > regs[s].cast_signed()),
                0x75 => jump!(regs[d].cast_signed() >= k.cast_signed()),
                0x7d => jump!(regs[d].cast_signed() >= regs[s].cast_signed()),
                0xa5 => jump!(regs[d] < k),
                0xad => jump!(regs[d] < regs[s]),
                0xb5 => jump!(regs[d] <= k),
                0xbd => jump!(regs[d] <= regs[s]),
                0xc5 => jump!(regs[d].cast_signed() < k.cast_signed()),
                0xcd => jump!(regs[d].cast_signed() < regs[s].cast_signed()),
                0xd5 => jump!(regs[d].cast_signed() <= k.cast_signed()),
                0xdd => jump!(regs[d].cast_signed() <= regs[s].cast_signed()),
                // Jumps that compare 32 bits.
                0x16 => jump!(regs[d] as u32 == k as u32),
                0x1e => jump!(regs[d] as u32 == regs[s] as u32),
                0x26 => jump!(regs[d] as u32 > k as u32),
                0x2e => jump!(regs[d] as u32 > regs[s] as u32),
                0x36 => jump!(regs[d] as u32 >= k as u32),
                0x3e => jump!(regs[d] as u32 >= regs[s] as u32),
                0x46 => jump!(regs[d] as u32 & k as u32 != 0),
                0x4e => jump!(regs[d] as u32 & regs[s] as u32 != 0),
                0x56 => jump!(regs[d] as u32 != k as u32),
                0x5e => jump!(regs[d] as u32 != regs[s] as u32),
                0x66 => jump!(regs[d] as i32 > k as i32),
                0x6e => jump!(regs[d] as i32 > regs[s] as i32),
                0x76 => jump!(regs[d] as i32 >= k as i32),
                0x7e => jump!(regs[d] as i32 >= regs[s] as i32),
                0xa6 => jump!((regs[d] as u32) < k as u32),
                0xae => jump!((regs[d] as u32) < regs[s] as u32),
                0xb6 => jump!(regs[d] as u32 <= k as u32),
                0xbe => jump!(regs[d] as u32 <= regs[s] as u32),
                0xc6 => jump!((regs[d] as i32) < k as i32),
                0xce => jump!((regs[d] as i32) < regs[s] as i32),
                0xd6 => jump!(regs[d] as i32 <= k as i32),
                0xde => jump!(regs[d] as i32 <= regs[s] as i32),
                // Memory.
                0x18 => {
                    regs[d] = k;
                    pc += 1;
                }
                0x61 => load!(4, |value| value),
                0x69 => load!(2, |value| value),
                0x71 => load!(1, |value| value),
                0x79 => load!(8, |value| value),
                0x81 => load!(4, |value: u64| i64::from(value as i32).cast_unsigned()),
                0x89 => load!(2, |value: u64| i64::from(value as i16).cast_unsigned()),
                0x91 => load!(1, |value: u64| i64::from(value as i8).cast_unsigned()),
                0x62 => store!(4, k),
                0x6a => store!(2, k),
                0x72 => store!(1, k),
                0x7a => store!(8, k),
                0x63 => store!(4, regs[s]),
                0x6b => store!(2, regs[s]),
                0x73 => store!(1, regs[s]),
                0x7b => store!(8, regs[s]),
                code::ATOMIC32 | code::ATOMIC64 => {
                    let address = regs[d].wrapping_add_signed(i64::from(step.offset));
                    let wide = step.code == code::ATOMIC64;
                    let (operand, expected) = (regs[s], regs[0]);
                    match self.atomic(address, wide, k as i32, operand, expected) {
                        Ok(None) => {}
                        Ok(Some((true, old))) => regs[0] = old,
                        Ok(Some((false, old))) => regs[s] = old,
                        Err(Outside) => {
                            let bytes = if wide { 8 } else { 4 };
                            stop!(Cause::Memory { address, bytes, write: true })
                        }
                    }
                }
                // The rest.
                0x95 => {
                    if depth == base {
                        self.fuel = fuel;
                        return Ok(regs[0]);
                    }
                    depth -= 1;
                    let Some(caller) = callers.get(depth) else { stop!(Cause::Depth) };
                    [regs[6], regs[7], regs[8], regs[9], regs[10]] = caller.kept;
                    pc = caller.back;
                }
                code::HELPER => {
                    self.fuel = fuel;
                    let given = [regs[1], regs[2], regs[3], regs[4], regs[5]];
                    match self.help(k, given, depth) {
                        Ok(Next::Result(value)) => regs[0] = value,
                        Ok(Next::Tail(place)) => {
                            regs[1] = given[0];
                            pc = place;
                            self.fuel -= self.steps.len() as i64;
                        }
                        Err(Stopped::Here(cause)) => stop!(cause),
                        Err(Stopped::Inside(fault)) => return Err(fault),
                    }
                    fuel = self.fuel;
                    burn!(1);
                }
                code::CALL => {
                    if depth + 1 >= MAX_DEPTH {
                        stop!(Cause::Depth);
                    }
                    let Some(caller) = callers.get_mut(depth) else { stop!(Cause::Depth) };
                    caller.kept = [regs[6], regs[7], regs[8], regs[9], regs[10]];
                    caller.back = pc;
                    depth += 1;
                    regs[10] = stack_end(depth);
                    pc = step.offset as usize;
                    // The instruction has the function's length as its immediate.
                    burn!(step.immediate);
                }
                code::TO_LE => set!(regs[d] & width_mask(k)),
                code::TO_BE | code::SWAP => {
                    let swapped = regs[d].swap_bytes();
                    set!(swapped >> (64 - k));
                }
                code::EXTEND64 => set!(extend(regs[s], step.offset).cast_unsigned()),
                code::EXTEND32 => set32!(extend(regs[s], step.offset) as u32),
                code::SIGNED_DIV64 => set!(divide(regs[d], k)),
                code::SIGNED_DIV64_REGISTER => set!(divide(regs[d], regs[s])),
                code::SIGNED_REM64 => set!(remainder(regs[d], k)),
                code::SIGNED_REM64_REGISTER => set!(remainder(regs[d], regs[s])),
                code::SIGNED_DIV32 => set32!(divide_short(regs[d], k)),
                code::SIGNED_DIV32_REGISTER => set32!(divide_short(regs[d], regs[s])),
                code::SIGNED_REM32 => set32!(remainder_short(regs[d], k)),
                code::SIGNED_REM32_REGISTER => set32!(remainder_short(regs[d], regs[s])),
                _ => stop!(Cause::Instruction),
            }
        }
    }

    /// One atomic operation. Returns the fetched value, and whether it goes into register 0.
    fn atomic(
        &mut self,
        address: u64,
        wide: bool,
        operation: i32,
        operand: u64,
        expected: u64,
    ) -> Result<Option<(bool, u64)>, Outside> {
        let memory = &mut self.memory;
        let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
        let old = if wide { memory.load::<8>(address)? } else { memory.load::<4>(address)? };
        let new = match operation & !atomic::FETCH {
            atomic::ADD => old.wrapping_add(operand),
            atomic::OR => old | operand,
            atomic::AND => old & operand,
            atomic::XOR => old ^ operand,
            _ if operation == atomic::EXCHANGE => operand,
            _ if old == expected & mask => operand,
            _ => old,
        };
        if wide {
            memory.store::<8>(address, new)?;
        } else {
            memory.store::<4>(address, new)?;
        }
        let fetches = operation & atomic::FETCH != 0;
        Ok(fetches.then_some((operation == atomic::COMPARE, old)))
    }
}

/// Why a helper ended the program.
pub(super) enum Stopped {
    /// At the call.
    Here(Cause),
    /// In a function that the helper called.
    Inside(Fault),
}

impl From<Cause> for Stopped {
    fn from(cause: Cause) -> Stopped {
        Stopped::Here(cause)
    }
}

fn width_mask(bits: u64) -> u64 {
    u64::MAX >> (64 - bits)
}

fn extend(value: u64, bits: i32) -> i64 {
    match bits {
        8 => i64::from(value as i8),
        16 => i64::from(value as i16),
        _ => i64::from(value as i32),
    }
}

/// Division with the result zero for a zero divisor.
fn divide(a: u64, b: u64) -> u64 {
    let (a, b) = (a.cast_signed(), b.cast_signed());
    if b == 0 { 0 } else { a.wrapping_div(b).cast_unsigned() }
}

fn divide_short(a: u64, b: u64) -> u32 {
    let (a, b) = (a as i32, b as i32);
    if b == 0 { 0 } else { a.wrapping_div(b).cast_unsigned() }
}

/// The rest of a division by zero is the dividend.
fn remainder(a: u64, b: u64) -> u64 {
    let (a, b) = (a.cast_signed(), b.cast_signed());
    if b == 0 { a } else { a.wrapping_rem(b) }.cast_unsigned()
}

fn remainder_short(a: u64, b: u64) -> u32 {
    let (a, b) = (a as i32, b as i32);
    if b == 0 { a } else { a.wrapping_rem(b) }.cast_unsigned()
}

fn remainder32(a: u64, b: u64) -> u32 {
    (a as u32).checked_rem(b as u32).unwrap_or(a as u32)
}
