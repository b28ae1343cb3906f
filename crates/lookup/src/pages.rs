//! The memory behind a large array.

use europa_pool::account;

const PAGE_BYTES: usize = 4096;

/// Pages of an array that have been written. They count for the router that wrote them until the
/// array is freed. So a table of routes counts with its real size if routers share a process.
pub(crate) struct Pages {
    seen: Box<[u64]>,
    count: usize,
}

impl Pages {
    /// No page yet, of an array of this many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        let words = bytes.div_ceil(PAGE_BYTES).div_ceil(64);
        Self { seen: vec![0; words].into_boxed_slice(), count: 0 }
    }

    /// Counts the pages of bytes `first` to `last`, which are about to be written.
    pub(crate) fn touch(&mut self, first: usize, last: usize) {
        let before = self.count;
        for page in first / PAGE_BYTES..=last / PAGE_BYTES {
            let Some(word) = self.seen.get_mut(page / 64) else { break };
            let bit = 1 << (page % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
        if self.count > before {
            account::charge(((self.count - before) * PAGE_BYTES) as i64);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.count * PAGE_BYTES
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        account::charge(-(self.bytes() as i64));
    }
}
