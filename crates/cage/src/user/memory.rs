//! Regions and their bounds.
//!
//! An address is a number whose top four bits name its region; the others are an offset. A forged
//! address reaches at most the program's own memory.

use crate::user::map::Map;

/// Bits of the offset.
const REGION_SHIFT: u32 = 60;
const FRAME: u64 = 1;
const STACK: u64 = 2;
const VALUE: u64 = 3;
const CONTEXT: u64 = 4;
const MAP: u64 = 5;
const FUNCTION: u64 = 6;
/// Position of the map's number in an address of a value.
const NUMBER_SHIFT: u32 = 48;
const NUMBER_MASK: u64 = 0xfff;
const OFFSET_MASK: u64 = (1 << NUMBER_SHIFT) - 1;

/// Bytes of stack of one function.
pub(super) const STACK_BYTES: usize = 512;
/// Deepest nesting of functions.
pub(super) const MAX_DEPTH: usize = 8;

/// Address of the context.
pub(super) const CONTEXT_ADDRESS: u64 = CONTEXT << REGION_SHIFT;

/// A map itself, for helpers.
pub(super) fn map_address(number: usize) -> u64 {
    MAP << REGION_SHIFT | number as u64
}

/// A byte in a map's values.
pub(super) fn value_address(number: usize, offset: u64) -> u64 {
    VALUE << REGION_SHIFT | (number as u64 & NUMBER_MASK) << NUMBER_SHIFT | offset & OFFSET_MASK
}

/// The address of a function, for helpers that call it.
pub(super) fn function_address(place: u32) -> u64 {
    FUNCTION << REGION_SHIFT | u64::from(place)
}

/// The map that an address names.
pub(super) fn map_number(address: u64) -> Option<usize> {
    (address >> REGION_SHIFT == MAP).then_some((address & NUMBER_MASK) as usize)
}

/// The map and the offset in its values that an address names.
pub(super) fn value_place(address: u64) -> Option<(usize, usize)> {
    let number = (address >> NUMBER_SHIFT & NUMBER_MASK) as usize;
    (address >> REGION_SHIFT == VALUE).then_some((number, (address & OFFSET_MASK) as usize))
}

/// The function that an address names.
pub(super) fn function_place(address: u64) -> Option<usize> {
    (address >> REGION_SHIFT == FUNCTION).then_some((address & 0xffff_ffff) as usize)
}

/// End of the stack of the function at this depth.
pub(super) fn stack_end(depth: usize) -> u64 {
    STACK << REGION_SHIFT | (((depth + 1) * STACK_BYTES) as u64)
}

/// A frame in its buffer: metadata from `meta`, the frame itself from `start` to `end`.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Headroom, frame and tailroom. Bytes outside of the frame may have any value: a program's
    /// uncovered bytes are zeroed first.
    pub buffer: &'a mut [u8],
    /// Start of the metadata; `start` if there are none.
    pub meta: usize,
    /// First byte of the frame.
    pub start: usize,
    /// Behind the last byte of the frame.
    pub end: usize,
}

/// Shortest frame that helpers leave, in bytes.
const MIN_FRAME: usize = 14;
/// Most bytes of metadata.
const MAX_META: usize = 252;
pub(super) const EINVAL: i64 = -22;
const EACCES: i64 = -13;

impl Frame<'_> {
    /// `bpf_xdp_adjust_head`.
    pub(super) fn adjust_head(&mut self, by: i32) -> i64 {
        let meta_bytes = self.start - self.meta;
        let Some(start) = self.start.checked_add_signed(by as isize) else { return EINVAL };
        if start < meta_bytes || start + MIN_FRAME > self.end {
            return EINVAL;
        }
        let meta = start - meta_bytes;
        if let Some(uncovered) = self.buffer.get_mut(meta.min(self.meta)..self.meta) {
            uncovered.fill(0);
        }
        if meta_bytes > 0 {
            self.buffer.copy_within(self.meta..self.start, meta);
        }
        (self.start, self.meta) = (start, meta);
        0
    }

    /// `bpf_xdp_adjust_tail`.
    pub(super) fn adjust_tail(&mut self, by: i32) -> i64 {
        let Some(end) = self.end.checked_add_signed(by as isize) else { return EINVAL };
        if end > self.buffer.len() || end < self.start + MIN_FRAME {
            return EINVAL;
        }
        if let Some(uncovered) = self.buffer.get_mut(self.end..end.max(self.end)) {
            uncovered.fill(0);
        }
        self.end = end;
        0
    }

    /// `bpf_xdp_adjust_meta`.
    pub(super) fn adjust_meta(&mut self, by: i32) -> i64 {
        let meta = self.meta.checked_add_signed(by as isize);
        let Some(meta) = meta.filter(|meta| *meta <= self.start) else { return EINVAL };
        let bytes = self.start - meta;
        if !bytes.is_multiple_of(4) || bytes > MAX_META {
            return EACCES;
        }
        if let Some(uncovered) = self.buffer.get_mut(meta.min(self.meta)..self.meta) {
            uncovered.fill(0);
        }
        self.meta = meta;
        0
    }

    /// The frame without metadata.
    pub fn data(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

/// An access out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside;

/// All that a program may reach while it runs.
pub(super) struct Memory<'a, 'b> {
    pub(super) frame: &'a mut Frame<'b>,
    pub(super) stack: &'a mut [u8; STACK_BYTES * MAX_DEPTH],
    pub(super) maps: &'a mut [Map],
    /// Ingress device, receive queue.
    pub(super) numbers: [u32; 2],
}

impl Memory<'_, '_> {
    /// The bytes from an address on.
    #[inline(always)]
    pub(super) fn bytes(&self, address: u64, count: usize) -> Result<&[u8], Outside> {
        let offset = (address & OFFSET_MASK) as usize;
        match address >> REGION_SHIFT {
            FRAME => {
                let end = offset.wrapping_add(count);
                if offset < self.frame.meta || end > self.frame.end {
                    return Err(Outside);
                }
                self.frame.buffer.get(offset..end).ok_or(Outside)
            }
            STACK => self.stack.get(offset..offset.wrapping_add(count)).ok_or(Outside),
            VALUE => {
                let number = (address >> NUMBER_SHIFT & NUMBER_MASK) as usize;
                self.maps.get(number).and_then(|map| map.bytes(offset, count)).ok_or(Outside)
            }
            _ => Err(Outside),
        }
    }

    /// The same, to change.
    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, address: u64, count: usize) -> Result<&mut [u8], Outside> {
        let offset = (address & OFFSET_MASK) as usize;
        match address >> REGION_SHIFT {
            FRAME => {
                let end = offset.wrapping_add(count);
                if offset < self.frame.meta || end > self.frame.end {
                    return Err(Outside);
                }
                self.frame.buffer.get_mut(offset..end).ok_or(Outside)
            }
            STACK => self.stack.get_mut(offset..offset.wrapping_add(count)).ok_or(Outside),
            VALUE => {
                let number = (address >> NUMBER_SHIFT & NUMBER_MASK) as usize;
                let map = self.maps.get_mut(number);
                map.and_then(|map| map.bytes_mut(offset, count)).ok_or(Outside)
            }
            _ => Err(Outside),
        }
    }

    /// `N` bytes as a number.
    #[inline(always)]
    pub(super) fn load<const N: usize>(&self, address: u64) -> Result<u64, Outside> {
        if address >> REGION_SHIFT == CONTEXT {
            return self.context(address & OFFSET_MASK, N);
        }
        let bytes = self.bytes(address, N)?;
        let bytes: &[u8; N] = bytes.first_chunk().ok_or(Outside)?;
        let mut number = [0; 8];
        number.first_chunk_mut::<N>().ok_or(Outside)?.copy_from_slice(bytes);
        Ok(u64::from_le_bytes(number))
    }

    /// Stores the low `N` bytes of a number.
    #[inline(always)]
    pub(super) fn store<const N: usize>(
        &mut self,
        address: u64,
        value: u64,
    ) -> Result<(), Outside> {
        let bytes = self.bytes_mut(address, N)?;
        let to: &mut [u8; N] = bytes.first_chunk_mut().ok_or(Outside)?;
        to.copy_from_slice(value.to_le_bytes().first_chunk::<N>().ok_or(Outside)?);
        Ok(())
    }

    /// A field of `struct xdp_md`. The three places in the frame are whole addresses.
    #[inline(always)]
    fn context(&self, offset: u64, bytes: usize) -> Result<u64, Outside> {
        let place = |place: usize| Ok(FRAME << REGION_SHIFT | place as u64);
        match (offset, bytes) {
            (0, 4) => place(self.frame.start),
            (4, 4) => place(self.frame.end),
            (8, 4) => place(self.frame.meta),
            (12.., _) if offset + bytes as u64 <= 24 && bytes <= 4 => {
                let [ingress, queue] = self.numbers;
                let field = match offset / 4 {
                    3 => ingress,
                    4 => queue,
                    _ => 0,
                };
                let within = offset % 4;
                if within + bytes as u64 > 4 {
                    return Err(Outside);
                }
                let mask = u64::MAX >> (64 - bytes * 8);
                Ok(u64::from(field) >> (within * 8) & mask)
            }
            _ => Err(Outside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_uncovered_is_zero() {
        let mut buffer = [7; 128];
        let mut frame = Frame { buffer: &mut buffer, meta: 64, start: 64, end: 100 };
        assert_eq!(frame.adjust_meta(-8), 0);
        assert_eq!(frame.buffer.get(56..64), Some(&[0; 8][..]));
        frame.buffer[56..64].fill(9);
        assert_eq!(frame.adjust_head(-4), 0);
        assert_eq!(frame.buffer.get(52..66), Some(&[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7, 7][..]));
        assert_eq!(frame.adjust_tail(4), 0);
        assert_eq!(frame.buffer.get(99..104), Some(&[7, 0, 0, 0, 0][..]));
        for (result, wanted) in [
            (frame.adjust_head(-61), EINVAL),
            (frame.adjust_head(31), EINVAL),
            (frame.adjust_tail(25), EINVAL),
            (frame.adjust_tail(-31), EINVAL),
            (frame.adjust_meta(9), EINVAL),
            (frame.adjust_meta(-1), EACCES),
        ] {
            assert_eq!(result, wanted);
        }
    }
}
