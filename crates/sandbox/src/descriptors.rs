//! Closes the descriptors that the process must not hold: with the descriptor of a BPF program it
//! could inject packets.

use std::os::fd::RawFd;

use nix::errno::Errno;

use crate::error::{SandboxError, Step};

/// Closes every descriptor above 2 that is not in `keep`.
pub(crate) fn close_others(keep: &[RawFd]) -> Result<(), SandboxError> {
    for (first, last) in gaps(keep) {
        // SAFETY: close_range takes no pointers. No code in this process uses the closed
        // descriptors again: `enter` runs first in main, and by contract the role does not know
        // descriptors outside the profile.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        Errno::result(result).step("closing descriptors")?;
    }
    Ok(())
}

/// The ranges between the descriptors to keep, from 3 to the largest possible.
fn gaps(keep: &[RawFd]) -> Vec<(u32, u32)> {
    let mut keep: Vec<u32> =
        keep.iter().filter_map(|&fd| u32::try_from(fd).ok()).filter(|&fd| fd > 2).collect();
    keep.sort_unstable();
    keep.dedup();
    let mut ranges = Vec::with_capacity(keep.len() + 1);
    let mut first = 3;
    for fd in keep {
        if fd > first {
            ranges.push((first, fd - 1));
        }
        first = fd + 1;
    }
    ranges.push((first, u32::MAX));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_leave_what_is_kept() {
        type Case = (&'static [RawFd], &'static [(u32, u32)]);
        let table: [Case; 5] = [
            (&[], &[(3, u32::MAX)]),
            (&[3, 4], &[(5, u32::MAX)]),
            (&[7, 5, 5], &[(3, 4), (6, 6), (8, u32::MAX)]),
            (&[0, 1, 2, -1], &[(3, u32::MAX)]),
            (&[i32::MAX], &[(3, i32::MAX as u32 - 1), (i32::MAX as u32 + 1, u32::MAX)]),
        ];
        for (keep, wanted) in table {
            assert_eq!(gaps(keep), wanted, "{keep:?}");
        }
    }
}
