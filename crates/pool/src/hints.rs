//! Hints that make memory accesses faster and do not change memory.

/// Prefetches the cache line in which `value` starts.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at(value);
}

/// Requests huge pages for the memory of `values`, including unused capacity. Accesses in random
/// order then need no walk through page tables. Unused memory still takes no pages. If the kernel
/// refuses, nothing changes.
pub fn huge_pages<T>(values: &Vec<T>) {
    const HUGE: usize = 2 << 20;
    let bytes = values.capacity().saturating_mul(size_of::<T>());
    let begin = values.as_ptr().addr().next_multiple_of(HUGE);
    let end = (values.as_ptr().addr() + bytes) / HUGE * HUGE;
    if cfg!(miri) || begin >= end {
        return;
    }
    let address = values.as_ptr().cast_mut().cast::<libc::c_void>().with_addr(begin);
    // SAFETY: the pages lie inside a live allocation; the advice changes nothing in them.
    let _ = unsafe { libc::madvise(address, end - begin, libc::MADV_HUGEPAGE) };
}

/// Like [`prefetch`], for any address.
#[inline(always)]
pub(crate) fn prefetch_at<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction belongs to SSE, which is part of x86-64; it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
