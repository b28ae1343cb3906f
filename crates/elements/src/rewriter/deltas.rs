//! Sequence numbers of a TCP flow whose segments have become longer or shorter.

use europa_packet::checksum;

use crate::shared::fields::{be16, be32, set};

/// Most changes stored for a direction: a sender repeats only recent segments.
const MOST: usize = 16;
/// If sequence numbers have advanced this far after a change, no segment from before the change is
/// in transit.
const LONG_AGO: u32 = 1 << 30;

/// An offset for all numbers from a certain one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    /// `None`: for all numbers.
    from: Option<u32>,
    by: u32,
}

/// Whether a sequence number is at or after another one (RFC 9293 section 3.4).
fn reached(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() >= 0
}

impl Change {
    fn holds(self, number: u32) -> bool {
        self.from.is_none_or(|from| reached(number, from))
    }
}

/// The change of the sequence numbers of both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deltas {
    /// By direction, oldest first.
    changes: [Vec<Change>; 2],
}

impl Deltas {
    /// From sequence number `from` on, the data of a direction is longer by `by` bytes.
    pub(crate) fn add(&mut self, back: bool, from: u32, by: i32) {
        let changes = &mut self.changes[usize::from(back)];
        if let Some(Change { from: Some(last), .. }) = changes.last()
            && !reached(from, *last)
        {
            return;
        }
        // If the same segment comes again, its change is replaced.
        changes.pop_if(|last| last.from == Some(from));
        let before = changes.last().map_or(0, |last| last.by);
        changes.push(Change { from: Some(from), by: before.wrapping_add_signed(by) });
        let old = changes.iter().rposition(|change| {
            change.from.is_some_and(|old| reached(from, old.wrapping_add(LONG_AGO)))
        });
        let old = old.unwrap_or(0).max(changes.len().saturating_sub(MOST));
        if old > 0 {
            changes.drain(..old);
            if let Some(first) = changes.first_mut() {
                first.from = None;
            }
        }
    }

    fn sequence(&self, back: bool, number: u32) -> u32 {
        let changes = &self.changes[usize::from(back)];
        let holds = changes.iter().rev().find(|change| change.holds(number));
        holds.map_or(number, |change| number.wrapping_add(change.by))
    }

    /// Translates an acknowledgement number that the other side sends for a direction's data.
    fn acknowledgement(&self, back: bool, number: u32) -> u32 {
        let changes = &self.changes[usize::from(back)];
        let before = |change: &Change| number.wrapping_sub(change.by);
        let holds = changes.iter().rev().find(|change| change.holds(before(change)));
        holds.map_or(number, before)
    }

    /// Changes the numbers of a segment of a direction, and its checksum by difference.
    pub(crate) fn apply(&mut self, back: bool, segment: &mut [u8]) {
        let (Some(sequence), Some(acknowledged)) = (be32(segment, 4), be32(segment, 8)) else {
            return;
        };
        let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
        if header < 20 || segment.len() < header {
            return;
        }
        let changes = &mut self.changes[usize::from(back)];
        if let [.., last] = &mut changes[..]
            && last.from.is_some_and(|from| reached(sequence, from.wrapping_add(LONG_AGO)))
        {
            *changes = vec![Change { from: None, ..*last }];
        }
        change(segment, 4, self.sequence(back, sequence));
        change(segment, 8, self.acknowledgement(!back, acknowledged));
        let mut at = 20;
        while at + 1 < header {
            let [kind, length] = [segment[at], segment[at + 1]].map(usize::from);
            match kind {
                0 => return,
                1 => at += 1,
                // SACK (RFC 2018): pairs of sequence numbers of data that the other side has
                // received.
                5 if length % 8 == 2 && at + length <= header => {
                    for place in (at + 2..at + length).step_by(4) {
                        let number = be32(segment, place).unwrap_or(0);
                        change(segment, place, self.acknowledgement(!back, number));
                    }
                    at += length;
                }
                _ if length < 2 => return,
                _ => at += length,
            }
        }
    }
}

/// Writes 32 bits of a segment.
fn change(segment: &mut [u8], at: usize, new: u32) {
    let (Some(old), Some(check)) = (be32(segment, at), be16(segment, 16)) else { return };
    set(segment, at, new.to_be_bytes());
    // A byte at an odd offset has the weight of the other byte of its word.
    let turn = |value: u32| if at.is_multiple_of(2) { value } else { value.rotate_right(8) };
    set(segment, 16, checksum::update_u32(check, turn(old), turn(new)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_move_from_a_change_on() {
        let mut deltas = Deltas::default();
        deltas.add(false, 30, -12);
        for (number, moved) in [(0, 0), (29, 29), (30, 18), (36, 24)] {
            assert_eq!(deltas.sequence(false, number), moved);
            assert_eq!(deltas.sequence(true, number), number);
        }
        for (moved, number) in [(0, 0), (17, 17), (18, 30), (24, 36)] {
            assert_eq!(deltas.acknowledgement(false, moved), number);
        }
        deltas.add(false, 65, -12);
        deltas.add(false, 65, -12);
        for (number, moved) in [(30, 18), (64, 52), (65, 41)] {
            assert_eq!(deltas.sequence(false, number), moved);
        }
        // Far behind the changes, only the last one is known.
        let mut segment = [0; 20];
        segment[4..8].copy_from_slice(&1_100_000_000u32.to_be_bytes());
        segment[12] = 0x50;
        deltas.apply(false, &mut segment);
        assert_eq!(be32(&segment, 4), Some(1_099_999_976));
        assert_eq!(deltas.sequence(false, 0), 0u32.wrapping_sub(24));
    }

    #[test]
    fn options_and_checksums_follow() {
        for padding in 0..4 {
            let mut segment = vec![0u8; 20];
            segment.extend(std::iter::repeat_n(1, padding));
            segment.extend([5, 10]);
            segment.extend(1u32.to_be_bytes());
            segment.extend(18u32.to_be_bytes());
            segment.resize(36, 0);
            segment[12] = 0x90;
            segment[8..12].copy_from_slice(&18u32.to_be_bytes());
            let check = checksum::checksum(&segment);
            segment[16..18].copy_from_slice(&check.to_be_bytes());
            let mut deltas = Deltas::default();
            deltas.add(false, 30, -12);
            deltas.apply(true, &mut segment);
            assert_eq!(be32(&segment, 8), Some(30));
            assert_eq!(be32(&segment, 22 + padding), Some(1));
            assert_eq!(be32(&segment, 26 + padding), Some(30));
            assert!(checksum::verify(&segment), "{padding}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut deltas = Deltas::default();
        for step in 0..1000 {
            deltas.add(true, step * 10, 1);
        }
        assert_eq!(deltas.changes[1].len(), MOST);
        assert_eq!(deltas.sequence(true, 9990), 10990);
        assert_eq!(deltas.sequence(true, 0), 984 + 1);
    }
}
