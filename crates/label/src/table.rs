//! The label table: two loads for each look-up.

/// Labels of a page.
const PAGE: usize = 1024;
/// Pages of all 2^20 labels.
const PAGES: usize = 1024;
/// No value.
const NONE: u32 = u32::MAX;

/// A label that cannot be in a table: reserved (below 16), or of more than 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLabel(
    /// The label.
    pub u32,
);

struct Page {
    used: u32,
    values: [u32; PAGE],
}

/// Values by label. A page of 1,024 labels has memory while one of them is in use.
pub struct Table {
    pages: Vec<Option<Box<Page>>>,
    len: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// An empty table.
    pub fn new() -> Self {
        Self { pages: (0..PAGES).map(|_| None).collect(), len: 0 }
    }

    /// The value of a label.
    #[inline(always)]
    pub fn get(&self, label: u32) -> Option<u32> {
        let page = self.pages.get(label as usize / PAGE)?.as_ref()?;
        page.values.get(label as usize % PAGE).copied().filter(|value| *value != NONE)
    }

    /// Sets a label's value, below 2^32 - 1. Returns the former value.
    ///
    /// # Errors
    /// The label is reserved or too large.
    pub fn insert(&mut self, label: u32, value: u32) -> Result<Option<u32>, BadLabel> {
        let place = self.pages.get_mut(label as usize / PAGE).filter(|_| label >= 16);
        let page = place.ok_or(BadLabel(label))?;
        let page = page.get_or_insert_with(|| Box::new(Page { used: 0, values: [NONE; PAGE] }));
        let slot = page.values.get_mut(label as usize % PAGE).ok_or(BadLabel(label))?;
        let old = std::mem::replace(slot, value.min(NONE - 1));
        if old == NONE {
            page.used += 1;
            self.len += 1;
        }
        Ok(Some(old).filter(|old| *old != NONE))
    }

    /// Takes a label's value away.
    pub fn remove(&mut self, label: u32) -> Option<u32> {
        let place = self.pages.get_mut(label as usize / PAGE)?;
        let page = place.as_mut()?;
        let slot = page.values.get_mut(label as usize % PAGE)?;
        let old = std::mem::replace(slot, NONE);
        if old == NONE {
            return None;
        }
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            *place = None;
        }
        Some(old)
    }

    /// Number of labels with values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no label has a value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_and_go_and_leave_no_page() {
        let mut table = Table::new();
        let labels = [16, 17, 1023, 1024, 0xf_ffff];
        for (value, label) in labels.iter().enumerate() {
            assert_eq!(table.insert(*label, value as u32), Ok(None));
        }
        assert_eq!(table.insert(17, 9), Ok(Some(1)));
        assert_eq!((table.get(17), table.get(18), table.len()), (Some(9), None, 5));
        for label in labels {
            assert!(table.remove(label).is_some());
            assert_eq!(table.remove(label), None);
        }
        assert!(table.is_empty() && table.pages.iter().all(Option::is_none));
    }

    #[test]
    fn reserved_and_impossible_labels_are_refused() {
        let mut table = Table::new();
        for label in [0, 3, 15, 1 << 20, u32::MAX] {
            assert_eq!(table.insert(label, 0), Err(BadLabel(label)));
            assert_eq!((table.get(label), table.remove(label)), (None, None));
        }
    }
}
