//! The source line of each instruction (`.BTF.ext`).

use std::collections::HashMap;

use crate::btf::Btf;
use crate::bytes::{u16_at, u32_at};
use crate::problem::Place;

/// Source lines of all sections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// By section name: offset in bytes, file, text, line and column; sorted.
    sections: HashMap<String, Vec<Line>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    offset: u32,
    file: u32,
    text: u32,
    place: u32,
}

impl Lines {
    /// Reads the section `.BTF.ext`. `None` if it is malformed.
    pub(crate) fn read(section: &[u8], btf: &Btf) -> Option<Lines> {
        if u16_at(section, 0)? != 0xeb9f {
            return None;
        }
        let header = u32_at(section, 4)? as usize;
        let (offset, length) = (u32_at(section, 16)? as usize, u32_at(section, 20)? as usize);
        let start = header.checked_add(offset)?;
        let mut rest = section.get(start..start.checked_add(length)?)?;
        let mut lines = Lines::default();
        if rest.is_empty() {
            return Some(lines);
        }
        let record = u32_at(rest, 0)? as usize;
        if !(16..=64).contains(&record) {
            return None;
        }
        rest = rest.get(4..)?;
        while !rest.is_empty() {
            let (name, count) = (u32_at(rest, 0)?, u32_at(rest, 4)? as usize);
            let end = count.checked_mul(record)?.checked_add(8)?;
            let records = rest.get(8..end)?.chunks_exact(record).map(|line| {
                Some(Line {
                    offset: u32_at(line, 0)?,
                    file: u32_at(line, 4)?,
                    text: u32_at(line, 8)?,
                    place: u32_at(line, 12)?,
                })
            });
            let records: Vec<Line> = records.collect::<Option<_>>()?;
            let of = lines.sections.entry(btf.string(name).to_owned()).or_default();
            of.extend(records);
            rest = rest.get(end..)?;
        }
        lines.sections.values_mut().for_each(|of| of.sort_unstable());
        Some(lines)
    }

    /// The line of the instruction at `offset` bytes in a section, of the function that starts at
    /// `function`.
    pub(crate) fn place(
        &self,
        btf: &Btf,
        section: &str,
        function: u64,
        offset: u64,
    ) -> Option<Place> {
        let lines = self.sections.get(section)?;
        let after = lines.partition_point(|line| u64::from(line.offset) <= offset);
        let line = lines.get(after.checked_sub(1)?)?;
        (u64::from(line.offset) >= function).then(|| Place {
            file: btf.string(line.file).to_owned(),
            line: line.place >> 10,
            column: line.place & 1023,
            text: btf.string(line.text).to_owned(),
        })
    }
}
