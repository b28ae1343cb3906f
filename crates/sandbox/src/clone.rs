//! The system call `clone3` with shared memory and a separate stack, which libc does not offer.
//! libc's `clone` cannot start a process in a control group. Moving the process there afterwards
//! takes a global lock and waits for RCU: 6 ms in the median, 17 ms at worst (Linux 6.18), more
//! than all other parts of a start.

use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::errno::Errno;

/// The child's stack until exec: the child calls a dozen small wrappers, one inside the other.
const STACK_BYTES: usize = 64 * 1024;
/// `CLONE_INTO_CGROUP`; libc's constant has an unsuitable type.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of the kernel, as of Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Runs `entry(argument)` in a new process that shares this process's memory, while the calling
/// thread sleeps until that process has executed a program or exited. Its exit code is the result
/// of `entry`. Returns its pid and pidfd.
///
/// # Safety
///
/// `entry` must be fit for a process that shares the memory of a stopped thread and of running
/// threads: it makes raw system calls only, without allocation, lock or panic. All signals must be
/// blocked. `argument` must be valid for its use by `entry`.
pub(crate) unsafe fn clone_and_wait(
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
    pid_namespace: bool,
    cgroup: Option<BorrowedFd<'_>>,
) -> nix::Result<(u32, OwnedFd)> {
    // u128, because both architectures require a stack aligned to 16 bytes.
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let mut pidfd: RawFd = -1;
    let mut flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD) as u64;
    if pid_namespace {
        flags |= libc::CLONE_NEWPID as u64;
    }
    if cgroup.is_some() {
        flags |= INTO_CGROUP;
    }
    let arguments = Arguments {
        flags,
        pidfd: ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        cgroup: cgroup.map_or(0, |folder| folder.as_raw_fd() as u64),
        ..Arguments::default()
    };
    // SAFETY: `arguments`, `pidfd` and `stack` live until after the call, which returns only when
    // the child no longer uses this process's memory (CLONE_VFORK).
    let result = unsafe { clone3(&arguments, entry, argument) };
    let pid = u32::try_from(result).map_err(|_| Errno::from_raw(-result as c_int))?;
    // SAFETY: the kernel just created this descriptor for us alone.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Makes the system call. Returns a negative errno or the pid. The child never leaves the `asm`
/// block: it starts on the new stack with the parent's registers, calls `entry` and exits.
///
/// # Safety
///
/// The same as for [`clone_and_wait`]; in addition, the stack in `arguments` is aligned and
/// private.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(
    arguments: &Arguments,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_long {
    let result: c_long;
    // SAFETY: for the parent this is a system call with its clobbers. Only the child runs the lines
    // before the label, on an empty and aligned stack, where `call` is legal.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "mov edi, eax",
            "mov eax, {exit_group}",
            "syscall",
            "ud2",
            "2:",
            exit_group = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") ptr::from_ref(arguments),
            in("rsi") size_of::<Arguments>(),
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same, as a raw system call.
///
/// # Safety
///
/// # Safety
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(
    arguments: &Arguments,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_long {
    let result: c_long;
    // SAFETY: as above.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x22",
            "mov x8, {exit_group}",
            "svc #0",
            "brk #1",
            "2:",
            exit_group = const libc::SYS_exit_group,
            in("x8") libc::SYS_clone3,
            inlateout("x0") ptr::from_ref(arguments) as c_long => result,
            in("x1") size_of::<Arguments>(),
            in("x21") argument,
            in("x22") entry,
        );
    }
    result
}
