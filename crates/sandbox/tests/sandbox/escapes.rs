//! Escape attempts: each is one system call, with the required result.

use libc::*;

/// The required result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The filter kills the process.
    Killed,
    /// The call fails with this error.
    Fails(i32),
    /// The call works.
    Works,
}
use Outcome::{Fails, Killed, Works};

/// One try.
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    pub number: c_long,
    pub arguments: [usize; 6],
    /// The required results of the role `router`.
    pub router: Outcome,
    /// The required results of `switch`.
    pub switch: Outcome,
    /// The required results of `program`.
    pub program: Outcome,
    /// The required results of the other measures, without the system call filter
    /// (`Enforcement::Log`). `None`: the other measures do not stop this call.
    pub unfiltered: Option<Outcome>,
}

/// Represents the address of "/etc/passwd"; addresses are not constants, so `inside::resolve`
/// inserts it.
pub(crate) const PASSWD: usize = usize::MAX - 1;
/// Represents the address of "/".
pub(crate) const ROOT: usize = usize::MAX - 2;
/// Represents the address of "/new", which does not exist.
pub(crate) const NEW: usize = usize::MAX - 5;
/// Represents the address of 256 zero bytes.
pub(crate) const ZEROES: usize = usize::MAX - 3;
/// Represents the address of a `struct sockaddr_in` with 127.0.0.1 port 1.
pub(crate) const LOCALHOST: usize = usize::MAX - 4;

const fn all(
    name: &'static str,
    number: c_long,
    arguments: [usize; 6],
    filtered: Outcome,
    unfiltered: Option<Outcome>,
) -> Escape {
    Escape {
        name,
        number,
        arguments,
        router: filtered,
        switch: filtered,
        program: filtered,
        unfiltered,
    }
}

const HERE: usize = AT_FDCWD as usize;
const INET: usize = AF_INET as usize;

#[rustfmt::skip]
pub(crate) const ESCAPES: &[Escape] = &[
    // The file system.
    Escape { program: Fails(ENOENT), ..all("open /etc/passwd", SYS_openat, [HERE, PASSWD, 0, 0, 0, 0], Fails(EPERM), Some(Fails(ENOENT))) },
    Escape { program: Works, ..all("open the root", SYS_openat, [HERE, ROOT, O_RDONLY as usize, 0, 0, 0], Fails(EPERM), Some(Fails(EACCES))) },
    Escape { program: Fails(EROFS), ..all("create a file", SYS_openat, [HERE, NEW, (O_CREAT | O_WRONLY) as usize, 0, 0, 0], Fails(EPERM), Some(Fails(EROFS))) },
    all("mount", SYS_mount, [ZEROES, ROOT, ZEROES, MS_BIND as usize, 0, 0], Killed, Some(Fails(EPERM))),
    all("umount", SYS_umount2, [ROOT, MNT_DETACH as usize, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("chroot", SYS_chroot, [ROOT, 0, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("open by handle", SYS_open_by_handle_at, [HERE, ZEROES, 0, 0, 0, 0], Killed, None),
    all("new mount api", SYS_open_tree, [HERE, ROOT, OPEN_TREE_CLONE as usize, 0, 0, 0], Killed, Some(Fails(EPERM))),
    // The network.
    Escape { program: Fails(EPERM), ..all("socket", SYS_socket, [INET, SOCK_STREAM as usize, 0, 0, 0, 0], Killed, Some(Works)) },
    all("raw socket", SYS_socket, [AF_PACKET as usize, SOCK_RAW as usize, 0, 0, 0, 0], Killed, Some(Fails(EPERM))).program_refused(),
    all("netlink socket", SYS_socket, [AF_NETLINK as usize, SOCK_RAW as usize, 0, 0, 0, 0], Killed, None).program_refused(),
    all("socketpair", SYS_socketpair, [AF_UNIX as usize, SOCK_STREAM as usize, 0, ZEROES, 0, 0], Killed, None),
    all("bind", SYS_bind, [3, LOCALHOST, 16, 0, 0, 0], Killed, None),
    all("connect", SYS_connect, [3, LOCALHOST, 16, 0, 0, 0], Killed, None).program_refused(),
    all("send elsewhere", SYS_sendto, [3, ZEROES, 1, 0, LOCALHOST, 16], Killed, None).switch_fails(EISCONN).program_refused(),
    // The kernel's large interfaces.
    all("bpf: create a map", SYS_bpf, [0, ZEROES, 72, 0, 0, 0], Killed, None),
    all("bpf: load a program", SYS_bpf, [5, ZEROES, 72, 0, 0, 0], Killed, None),
    all("bpf: map by id", SYS_bpf, [14, ZEROES, 72, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("bpf: update a map", SYS_bpf, [2, ZEROES, 72, 0, 0, 0], Killed, None),
    all("bpf: run a program", SYS_bpf, [10, ZEROES, 72, 0, 0, 0], Killed, None).switch_fails(EINVAL),
    all("io_uring", SYS_io_uring_setup, [1, ZEROES, 0, 0, 0, 0], Killed, None),
    all("perf events", SYS_perf_event_open, [ZEROES, 0, usize::MAX - 9, 0, 0, 0], Killed, None),
    all("userfaultfd", SYS_userfaultfd, [0, 0, 0, 0, 0, 0], Killed, None),
    all("keys", SYS_keyctl, [0, 0, 0, 0, 0, 0], Killed, None),
    all("kernel log", SYS_syslog, [10, 0, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("load a module", SYS_init_module, [ZEROES, 1, ZEROES, 0, 0, 0], Killed, None),
    all("boot another kernel", SYS_kexec_load, [0, 0, 0, 0, 0, 0], Killed, None),
    all("set the clock", SYS_clock_settime, [0, ZEROES, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    // Other processes.
    all("trace", SYS_ptrace, [PTRACE_ATTACH as usize, 2, 0, 0, 0, 0], Killed, Some(Fails(ESRCH))),
    all("kill another", SYS_kill, [2, SIGKILL as usize, 0, 0, 0, 0], Killed, Some(Fails(ESRCH))),
    all("write memory of another", SYS_process_vm_writev, [2, ZEROES, 1, ZEROES, 1, 0], Killed, None),
    all("descriptor of another", SYS_pidfd_open, [2, 0, 0, 0, 0, 0], Killed, Some(Fails(ESRCH))),
    all("fork", SYS_clone, [SIGCHLD as usize, 0, 0, 0, 0, 0], Killed, Some(Fails(EAGAIN))).program_refused(),
    all("clone3", SYS_clone3, [ZEROES, 88, 0, 0, 0, 0], Fails(ENOSYS), None),
    all("execve", SYS_execve, [PASSWD, 0, 0, 0, 0, 0], Killed, Some(Fails(ENOENT))).program_fails(ENOENT),
    all("execveat", SYS_execveat, [HERE, PASSWD, 0, 0, 0, 0], Killed, None),
    // Privilege.
    all("user 0", SYS_setuid, [0, 0, 0, 0, 0, 0], Killed, Some(Fails(EINVAL))),
    all("group 0", SYS_setgid, [0, 0, 0, 0, 0, 0], Killed, Some(Fails(EINVAL))),
    all("groups", SYS_setgroups, [0, 0, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("capabilities", SYS_capset, [ZEROES, ZEROES, 0, 0, 0, 0], Killed, None),
    all("join a namespace", SYS_setns, [3, 0, 0, 0, 0, 0], Killed, None),
    all("new namespace", SYS_unshare, [CLONE_NEWNET as usize, 0, 0, 0, 0, 0], Killed, Some(Fails(EPERM))),
    all("another filter", SYS_seccomp, [SECCOMP_SET_MODE_FILTER as usize, 0, 0, 0, 0, 0], Killed, None),
    all("dumpable again", SYS_prctl, [PR_SET_DUMPABLE as usize, 1, 0, 0, 0, 0], Fails(EPERM), None),
    all("a tracer of my choice", SYS_prctl, [PR_SET_PTRACER as usize, 1, 0, 0, 0, 0], Fails(EPERM), None),
    all("real-time priority", SYS_sched_setscheduler, [0, SCHED_FIFO as usize, ZEROES, 0, 0, 0], Killed, None).program_refused(),
    // Execution of code that was not present at the start.
    all("executable memory", SYS_mmap, [0, 4096, (PROT_WRITE | PROT_EXEC) as usize, (MAP_PRIVATE | MAP_ANONYMOUS) as usize, usize::MAX, 0], Killed, None).program_works(),
    all("make memory executable", SYS_mprotect, [0, 4096, PROT_EXEC as usize, 0, 0, 0], Killed, None).program_fails(ENOMEM),
    all("push characters", SYS_ioctl, [1, TIOCSTI as usize, ZEROES, 0, 0, 0], Fails(EPERM), None),
    all("signal owner of a socket", SYS_fcntl, [3, F_SETOWN as usize, 1, 0, 0, 0], Killed, None).program_refused(),
    all("network device by ioctl", SYS_ioctl, [3, SIOCSIFFLAGS as usize, ZEROES, 0, 0, 0], Fails(EPERM), None),
    // Calls that must work: they check the list above.
    all("time", SYS_clock_gettime, [0, ZEROES, 0, 0, 0, 0], Works, Some(Works)),
    all("plain memory", SYS_mmap, [0, 4096, PROT_READ as usize, (MAP_PRIVATE | MAP_ANONYMOUS) as usize, usize::MAX, 0], Works, Some(Works)),
    all("epoll", SYS_epoll_create1, [0, 0, 0, 0, 0, 0], Works, Some(Works)),
    all("process name", SYS_prctl, [PR_SET_NAME as usize, ZEROES, 0, 0, 0, 0], Works, Some(Works)),
];

impl Escape {
    const fn program_refused(self) -> Self {
        self.program_fails(EPERM)
    }

    const fn program_fails(mut self, errno: i32) -> Self {
        self.program = Fails(errno);
        self
    }

    const fn program_works(mut self) -> Self {
        self.program = Works;
        self
    }

    const fn switch_fails(mut self, errno: i32) -> Self {
        self.switch = Fails(errno);
        self
    }
}
