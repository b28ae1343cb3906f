//! Cuts frames that are longer than the underlay carries into parts of equal length. The last part
//! may be shorter.

use crate::header::{HEADER_BYTES, MOST_HEADER_BYTES, Part};

/// Most parts of a frame: the reassembly has one bit for each in a word.
pub const MOST_PARTS: u8 = 64;

/// How a frame is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes of the frame.
    pub frame_bytes: u16,
    /// Number of parts; 1 for a frame that is sent as a whole.
    pub count: u8,
    /// Bytes of each part except the last.
    pub stride: u16,
}

impl Split {
    /// How a frame of `frame_bytes` is cut for UDP payloads of up to `most_bytes`. `None` if the
    /// frame needs too many parts, or is longer than a slot.
    pub fn of(frame_bytes: usize, most_bytes: usize) -> Option<Split> {
        let length = u16::try_from(frame_bytes).ok()?;
        if frame_bytes + HEADER_BYTES <= most_bytes {
            return Some(Split { frame_bytes: length, count: 1, stride: length });
        }
        let room = most_bytes.checked_sub(MOST_HEADER_BYTES).filter(|room| *room > 0)?;
        let count = u8::try_from(frame_bytes.div_ceil(room)).ok()?;
        // A frame that fits into one packet only without a part option is cut into two parts.
        let count = count.max(2);
        let stride = frame_bytes.div_ceil(count.into());
        // Parts of equal length can leave the last one empty: 9 bytes in 6 parts of 2.
        let is_full = stride * usize::from(count - 1) < frame_bytes;
        (count <= MOST_PARTS && is_full).then_some(Split {
            frame_bytes: length,
            count,
            stride: stride as u16,
        })
    }

    /// How the sender cut the frame of a received part; `None` if no sender cuts a frame like this.
    pub fn of_part(part: Part) -> Option<Split> {
        let Part { index, count, frame_bytes } = part;
        if !(2..=MOST_PARTS).contains(&count) || index >= count {
            return None;
        }
        let stride = frame_bytes.div_ceil(count.into());
        // Each part has at least a byte: a frame of 9 bytes cannot have 6 parts of 2.
        let before_last = stride.checked_mul(u16::from(count - 1))?;
        (before_last < frame_bytes).then_some(Split { frame_bytes, count, stride })
    }

    /// The range of part `index` in the frame.
    pub fn range(&self, index: u8) -> std::ops::Range<usize> {
        let start = usize::from(self.stride) * usize::from(index);
        let end = (start + usize::from(self.stride)).min(self.frame_bytes.into());
        start.min(end)..end
    }

    /// The option of part `index`; `None` for a frame that is sent as a whole.
    pub fn part(&self, index: u8) -> Option<Part> {
        let Split { frame_bytes, count, .. } = *self;
        (count > 1).then_some(Part { index, count, frame_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_as_the_underlay_needs() {
        for (frame, most, wanted) in [
            (1514, 1550, Some((1, 1514))),
            (1514, 1549, Some((2, 757))),
            (1514, 1472, Some((2, 757))),
            (1514, 548, Some((4, 379))),
            (60, 96, Some((1, 60))),
            (60, 95, Some((2, 30))),
            (9018, 1472, Some((7, 1289))),
            (65535, 1472, Some((46, 1425))),
            (65536, 1472, None),
            // Too many parts, no room at all.
            (1514, 60, None),
            (1514, 44, None),
            (1514, 0, None),
        ] {
            let split = Split::of(frame, most).map(|split| (split.count, split.stride));
            assert_eq!(split, wanted, "{frame} in {most}");
        }
    }

    #[test]
    fn parts_that_no_sender_makes() {
        for (index, count, frame_bytes) in [
            (0, 0, 100),
            (0, 1, 100),
            (2, 2, 100),
            (0, 65, 1000),
            (0, 6, 9),
            (0, 2, 0),
            (0, 64, 63),
        ] {
            let part = Part { index, count, frame_bytes };
            assert_eq!(Split::of_part(part), None, "{part:?}");
        }
    }
}
