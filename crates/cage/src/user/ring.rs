//! Ring buffers, and programs' perf events.
//!
//! A record is a header of 8 bytes (length, state) and its bytes, at a multiple of 8. The buffer
//! has twice its length, so that no record is cut at the end.

/// State of a reserved record.
const BUSY: u32 = 1;
const DONE: u32 = 2;
const DISCARDED: u32 = 3;
const HEADER: usize = 8;

/// Records between a program and its reader.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    size: usize,
    /// Bytes written and read since the start.
    written: usize,
    read: usize,
    lost: u64,
}

impl Ring {
    /// A ring of a power of two of bytes.
    pub(super) fn new(size: usize) -> Ring {
        Ring { bytes: vec![0; size * 2], size, written: 0, read: 0, lost: 0 }
    }

    fn place(&self, position: usize) -> usize {
        position & (self.size - 1)
    }

    fn header(&self, place: usize) -> (u32, u32) {
        let word = |at: usize| {
            let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        (word(place), word(place + 4))
    }

    fn set_header(&mut self, place: usize, length: u32, state: u32) {
        let header = [length.to_le_bytes(), state.to_le_bytes()];
        if let Some(to) = self.bytes.get_mut(place..place + HEADER) {
            to.copy_from_slice(header.as_flattened());
        }
    }

    /// Room for a record; the offset of its first byte.
    pub(super) fn reserve(&mut self, length: usize) -> Option<usize> {
        let whole = length.checked_add(HEADER)?.next_multiple_of(8);
        if self.written - self.read + whole > self.size {
            self.lost += 1;
            return None;
        }
        let place = self.place(self.written);
        // A length below the size, which has 32 bits.
        self.set_header(place, length as u32, BUSY);
        self.bytes.get_mut(place + HEADER..place + whole)?.fill(0);
        self.written += whole;
        Some(place + HEADER)
    }

    /// Ends a reserved record. `false` if there is none at this offset.
    pub(super) fn finish(&mut self, offset: usize, keep: bool) -> bool {
        let Some(place) = offset.checked_sub(HEADER) else { return false };
        let (length, state) = self.header(place);
        if state != BUSY {
            return false;
        }
        self.set_header(place, length, if keep { DONE } else { DISCARDED });
        true
    }

    pub(super) fn bytes(&self, offset: usize, count: usize) -> Option<&[u8]> {
        self.bytes.get(offset..offset.checked_add(count)?)
    }

    pub(super) fn bytes_mut(&mut self, offset: usize, count: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(offset..offset.checked_add(count)?)
    }

    /// Bytes that the reader has not taken.
    pub(super) fn waiting(&self) -> usize {
        self.written - self.read
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn positions(&self) -> (usize, usize) {
        (self.read, self.written)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes finished records, in order.
    pub(super) fn take(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        while records.len() < most && self.read < self.written {
            let place = self.place(self.read);
            let (length, state) = self.header(place);
            if state == BUSY {
                break;
            }
            let bytes = self.bytes(place + HEADER, length as usize).unwrap_or_default();
            if state == DONE {
                records.push(bytes.to_vec());
            }
            // A program can write into headers: it never makes the reader run ahead.
            let whole = (length as usize + HEADER).next_multiple_of(8);
            self.read = self.read.saturating_add(whole).min(self.written);
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_and_the_rest_is_counted() {
        let mut ring = Ring::new(64);
        for turn in 0..100_u8 {
            let kept = ring.reserve(5).unwrap();
            ring.bytes_mut(kept, 5).unwrap().fill(turn);
            let dropped = ring.reserve(16).unwrap();
            assert!(ring.reserve(17).is_none());
            assert!(ring.finish(dropped, false) && !ring.finish(dropped, true));
            assert!(ring.take(9).is_empty(), "the first one is not finished");
            assert!(ring.finish(kept, true));
            assert_eq!(ring.take(9), [vec![turn; 5]]);
        }
        assert_eq!((ring.lost(), ring.waiting()), (100, 0));
    }
}
