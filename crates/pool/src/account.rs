//! Accounts the memory of routers that share a process.
//!
//! A counting allocator: the bytes that a thread has allocated minus those that it has freed, since
//! [`enter`]. It works in processes with [`Counting`] as their global allocator. In other processes
//! all accounts remain empty.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocation of at least this size is a table that reserves addresses and uses pages only when
/// they are written. For example, a table of routes reserves 48 MiB, and a few routes use some
/// pages. Tables are counted separately; the code that writes a table reports its use by
/// [`charge`].
pub const TABLE_BYTES: usize = 8 << 20;

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of all allocations that are no tables, and of the used parts of tables. Negative if
    /// the thread has freed memory of others.
    pub bytes: i64,
    /// In tables, filled or not.
    pub table_bytes: i64,
}

thread_local! {
    static NOW: Cell<Account> = const { Cell::new(Account { bytes: 0, table_bytes: 0 }) };
}

/// Counts this thread's later allocations for `account`. Returns the former account.
pub fn enter(account: Account) -> Account {
    NOW.replace(account)
}

/// The bytes charged to this thread.
pub fn current() -> Account {
    NOW.get()
}

/// Charges bytes to this thread that no allocation reports: the parts of a table that are in use. A
/// negative number credits them.
pub fn charge(bytes: i64) {
    // While a thread ends, this variable no longer exists; the allocation then counts for no
    // router.
    let _ = NOW.try_with(|now| {
        let mut account = now.get();
        account.bytes = account.bytes.wrapping_add(bytes);
        now.set(account);
    });
}

fn count(bytes: usize, sign: i64) {
    // While a thread ends, this variable no longer exists; the allocation then counts for no
    // router.
    let _ = NOW.try_with(|now| {
        let mut account = now.get();
        let of = if bytes >= TABLE_BYTES { &mut account.table_bytes } else { &mut account.bytes };
        // No allocation is longer than the largest signed number.
        *of = of.wrapping_add(sign.wrapping_mul(bytes as i64));
        now.set(account);
    });
}

/// The system's allocator, which counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

// SAFETY: every call passes its arguments to the system's allocator; counting touches no allocated
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(bytes, 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static HEAP: Counting = Counting;

    #[test]
    fn each_has_what_it_took() {
        let outer = enter(Account::default());
        let mine = vec![1u8; 1000];
        let table = vec![0u8; TABLE_BYTES];
        charge(4096);
        let first = enter(Account::default());
        assert_eq!((first.bytes, first.table_bytes), (5096, TABLE_BYTES as i64));
        let mut other = Vec::with_capacity(10);
        other.resize(5000, 1u8);
        drop(other);
        assert_eq!(enter(first), Account::default());
        drop((mine, table));
        charge(-4096);
        assert_eq!(enter(outer), Account::default());
    }
}
