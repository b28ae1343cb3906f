//! The system calls of each role, with reasons. All other calls are forbidden.

use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS, CLONE_THREAD, CLONE_VM, PROT_EXEC, c_long,
};

use crate::profile::Role;

/// Calls that are needed for one reason.
pub(super) struct Group {
    /// The reason why a process needs it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the reader, and for the test that every group has one")
    )]
    pub(super) reason: &'static str,
    /// The calls.
    pub(super) calls: &'static [Call],
}

/// One system call; allowed if all tests hold.
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) tests: &'static [Test],
}

/// A test of one argument, counted from 0.
pub(super) enum Test {
    /// Argument equals value.
    Equal(u8, u64),
    /// The argument equals the value in the bits of the mask: (argument, mask, value).
    Masked(u8, u64, u64),
    /// The argument equals one of the values.
    OneOf(u8, &'static [u64]),
}

const fn any(number: c_long) -> Call {
    Call { number, tests: &[] }
}

const fn when(number: c_long, tests: &'static [Test]) -> Call {
    Call { number, tests }
}

/// `SIOCETHTOOL`, which libc does not name.
const SIOCETHTOOL: u64 = 0x8946;
/// The `bpf` command that runs a program, which libc does not name either.
const BPF_PROG_TEST_RUN: u64 = 10;
/// Flags that a thread does not have.
const NEW_NAMESPACE: i32 = CLONE_NEWNS
    | CLONE_NEWNET
    | CLONE_NEWIPC
    | CLONE_NEWUTS
    | CLONE_NEWPID
    | CLONE_NEWUSER
    | CLONE_NEWCGROUP;

/// System calls of every role.
const COMMON: &[Group] = &[
    Group {
        reason: "use of descriptors that were handed over: pipes that wake, control socket, log",
        calls: &[
            any(libc::SYS_read),
            any(libc::SYS_readv),
            any(libc::SYS_write),
            any(libc::SYS_writev),
            any(libc::SYS_recvmsg),
            any(libc::SYS_recvfrom),
            any(libc::SYS_sendmsg),
            // No destination address: the socket must already have a peer.
            when(libc::SYS_sendto, &[Test::Equal(5, 0)]),
            any(libc::SYS_shutdown),
            any(libc::SYS_close),
            any(libc::SYS_close_range),
            any(libc::SYS_fstat),
        ],
    },
    Group {
        reason: "standard library: blocking mode, close-on-exec, duplicates; not owner or signal of a descriptor",
        calls: &[
            when(
                libc::SYS_fcntl,
                &[Test::OneOf(
                    1,
                    &[
                        libc::F_DUPFD as u64,
                        libc::F_GETFD as u64,
                        libc::F_SETFD as u64,
                        libc::F_GETFL as u64,
                        libc::F_SETFL as u64,
                        libc::F_DUPFD_CLOEXEC as u64,
                    ],
                )],
            ),
            when(libc::SYS_ioctl, &[Test::OneOf(1, &[libc::FIONBIO, libc::FIOCLEX])]),
            when(
                libc::SYS_setsockopt,
                &[
                    Test::Equal(1, libc::SOL_SOCKET as u64),
                    Test::OneOf(2, &[libc::SO_RCVTIMEO as u64, libc::SO_SNDTIMEO as u64]),
                ],
            ),
            when(
                libc::SYS_getsockopt,
                &[
                    Test::Equal(1, libc::SOL_SOCKET as u64),
                    Test::OneOf(
                        2,
                        &[
                            libc::SO_RCVTIMEO as u64,
                            libc::SO_SNDTIMEO as u64,
                            libc::SO_ERROR as u64,
                            libc::SO_PEERCRED as u64,
                        ],
                    ),
                ],
            ),
        ],
    },
    Group {
        reason: "sleeping until the peer rings",
        calls: &[
            any(libc::SYS_epoll_create1),
            any(libc::SYS_epoll_ctl),
            any(libc::SYS_epoll_pwait),
            any(libc::SYS_epoll_pwait2),
            any(libc::SYS_ppoll),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_epoll_wait),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_poll),
            any(libc::SYS_signalfd4),
        ],
    },
    Group {
        reason: "memory that is data: pools by descriptor, heap, stacks; never executable",
        calls: &[
            when(libc::SYS_mmap, &[Test::Masked(2, PROT_EXEC as u64, 0)]),
            when(libc::SYS_mprotect, &[Test::Masked(2, PROT_EXEC as u64, 0)]),
            any(libc::SYS_munmap),
            any(libc::SYS_mremap),
            any(libc::SYS_madvise),
            any(libc::SYS_brk),
        ],
    },
    Group {
        reason: "time and waiting; the clock is normally read without a system call",
        calls: &[
            any(libc::SYS_clock_gettime),
            any(libc::SYS_clock_getres),
            any(libc::SYS_gettimeofday),
            any(libc::SYS_nanosleep),
            any(libc::SYS_clock_nanosleep),
            any(libc::SYS_sched_yield),
            any(libc::SYS_restart_syscall),
        ],
    },
    Group {
        reason: "locks, and the barrier of adaptive polling",
        calls: &[any(libc::SYS_futex), any(libc::SYS_membarrier)],
    },
    Group {
        reason: "who am I: thread names in messages, number of CPUs, hash seeds",
        calls: &[
            any(libc::SYS_getpid),
            any(libc::SYS_gettid),
            any(libc::SYS_sched_getaffinity),
            any(libc::SYS_getrandom),
            any(libc::SYS_getcpu),
            any(libc::SYS_getrusage),
            when(libc::SYS_prctl, &[Test::Equal(0, libc::PR_SET_NAME as u64)]),
        ],
    },
    Group {
        reason: "signal handlers (SIGTERM must end the process) and abort",
        calls: &[
            any(libc::SYS_rt_sigaction),
            any(libc::SYS_rt_sigprocmask),
            any(libc::SYS_rt_sigreturn),
            any(libc::SYS_rt_sigtimedwait),
            any(libc::SYS_sigaltstack),
            // This reaches no process outside the pid namespace.
            any(libc::SYS_tgkill),
        ],
    },
    Group {
        reason: "ending, as a thread or a process",
        calls: &[any(libc::SYS_exit), any(libc::SYS_exit_group)],
    },
];

/// Thread creation, for profiles with more than one thread.
pub(super) const THREADS: &[Group] = &[Group {
    reason: "worker threads, but neither processes nor namespaces",
    calls: &[
        when(
            libc::SYS_clone,
            &[Test::Masked(
                0,
                (CLONE_THREAD | CLONE_VM | NEW_NAMESPACE) as u64,
                (CLONE_THREAD | CLONE_VM) as u64,
            )],
        ),
        any(libc::SYS_set_robust_list),
        any(libc::SYS_rseq),
    ],
}];

/// Memory shared with a memif peer, for routers that are granted one.
pub(super) const SHARED_MEMORY: &[Group] = &[
    Group {
        reason: "own memory for a peer, sealed so that it cannot shrink; never executable, as `mmap` is",
        calls: &[
            any(libc::SYS_memfd_create),
            any(libc::SYS_ftruncate),
            any(libc::SYS_eventfd2),
            when(libc::SYS_fcntl, &[Test::Equal(1, libc::F_ADD_SEALS as u64)]),
        ],
    },
    Group {
        reason: "whether a peer's memory can go away: seals, kind of file system, length; no file by name",
        calls: &[
            when(libc::SYS_fcntl, &[Test::Equal(1, libc::F_GET_SEALS as u64)]),
            any(libc::SYS_fstatfs),
            // libc's form of fstat for a descriptor. There are no files to name.
            when(libc::SYS_newfstatat, &[Test::Equal(3, libc::AT_EMPTY_PATH as u64)]),
        ],
    },
    Group {
        reason: "eventfds that a peer shares: the only ways to signal and read them that never wait",
        calls: &[
            any(libc::SYS_io_setup),
            any(libc::SYS_io_submit),
            any(libc::SYS_io_getevents),
            any(libc::SYS_io_destroy),
            any(libc::SYS_preadv2),
        ],
    },
];

/// A process that outlives its node receives orders from the next node.
const CONTROL: Group = Group {
    reason: "the connections of nodes to the listening socket that was handed over",
    calls: &[any(libc::SYS_accept4)],
};

/// Routers and the switch poll.
const POLLER: Group = Group {
    reason: "whether a poller interrupts others when it wakes up: only itself, and no priority",
    calls: &[when(
        libc::SYS_sched_setscheduler,
        &[Test::Equal(0, 0), Test::OneOf(1, &[libc::SCHED_OTHER as u64, libc::SCHED_BATCH as u64])],
    )],
};

const ROUTER: &[Group] = &[CONTROL, POLLER];

const SWITCH: &[Group] = &[
    CONTROL,
    POLLER,
    Group {
        reason: "the kick: one run of the transmit program, the only bpf command",
        calls: &[when(libc::SYS_bpf, &[Test::Equal(0, BPF_PROG_TEST_RUN)])],
    },
    Group {
        reason: "frames that live frames cannot carry leave by packet sockets that were handed over",
        calls: &[any(libc::SYS_sendmmsg), any(libc::SYS_sendto), any(libc::SYS_recvmmsg)],
    },
    Group {
        reason: "drop counters of devices; whether what was sent by a packet socket has left it",
        calls: &[when(libc::SYS_ioctl, &[Test::OneOf(1, &[SIOCETHTOOL, libc::TIOCOUTQ])])],
    },
    Group {
        reason: "workers: own timers and wake-ups, a core each",
        calls: &[
            any(libc::SYS_timerfd_create),
            any(libc::SYS_timerfd_settime),
            any(libc::SYS_eventfd2),
            any(libc::SYS_sched_setaffinity),
        ],
    },
];

/// A program may contain Europa's router and elements of the program's owner.
const PROGRAM: &[Group] = &[
    CONTROL,
    POLLER,
    Group {
        reason: "starting the user's program; whatever it may execute lies in its read-only mounts",
        calls: &[any(libc::SYS_execve)],
    },
    Group {
        reason: "the loader and interpreters: reading the read-only mounts, mapping code",
        calls: &[
            any(libc::SYS_openat),
            any(libc::SYS_newfstatat),
            any(libc::SYS_statx),
            any(libc::SYS_readlinkat),
            any(libc::SYS_faccessat),
            any(libc::SYS_faccessat2),
            any(libc::SYS_getdents64),
            any(libc::SYS_lseek),
            any(libc::SYS_pread64),
            any(libc::SYS_fadvise64),
            any(libc::SYS_getcwd),
            any(libc::SYS_mmap),
            any(libc::SYS_mprotect),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_open),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_stat),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_lstat),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_readlink),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_access),
            #[cfg(target_arch = "x86_64")]
            when(
                libc::SYS_arch_prctl,
                // ARCH_SET_FS: thread-local storage. 0x3001: the loader asks for CET.
                &[Test::OneOf(0, &[0x1002, 0x3001])],
            ),
        ],
    },
    Group {
        reason: "start-up of C libraries: thread bookkeeping, identity, limits (reading is all the hard limits leave)",
        calls: &[
            any(libc::SYS_set_tid_address),
            any(libc::SYS_set_robust_list),
            any(libc::SYS_rseq),
            any(libc::SYS_prlimit64),
            any(libc::SYS_getuid),
            any(libc::SYS_geteuid),
            any(libc::SYS_getgid),
            any(libc::SYS_getegid),
            any(libc::SYS_getppid),
            any(libc::SYS_uname),
            any(libc::SYS_sysinfo),
        ],
    },
    Group {
        reason: "an event loop and shared memory of its own",
        calls: &[
            any(libc::SYS_eventfd2),
            any(libc::SYS_pipe2),
            any(libc::SYS_timerfd_create),
            any(libc::SYS_timerfd_settime),
            any(libc::SYS_memfd_create),
            any(libc::SYS_ftruncate),
            any(libc::SYS_dup),
            any(libc::SYS_dup3),
            any(libc::SYS_sched_setaffinity),
            any(libc::SYS_recvmmsg),
            any(libc::SYS_sendmmsg),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_dup2),
        ],
    },
];

/// Calls that harmless libraries make: they fail with `EPERM`, and the library continues. In
/// Europa's own roles, code that panics must still be able to print its place.
const REFUSED: &[Group] = &[
    Group {
        reason: "backtraces, available_parallelism and locale look-ups open files; there are none",
        calls: &[
            any(libc::SYS_openat),
            any(libc::SYS_newfstatat),
            any(libc::SYS_statx),
            any(libc::SYS_readlinkat),
            any(libc::SYS_faccessat),
            any(libc::SYS_getcwd),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_open),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_stat),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_readlink),
            #[cfg(target_arch = "x86_64")]
            any(libc::SYS_access),
        ],
    },
    Group {
        reason: "is this a terminal, name this mapping, is this socket listening: unneeded answers",
        calls: &[
            any(libc::SYS_ioctl),
            any(libc::SYS_prctl),
            any(libc::SYS_getsockopt),
            any(libc::SYS_setsockopt),
            any(libc::SYS_getsockname),
            any(libc::SYS_getpeername),
            any(libc::SYS_lseek),
        ],
    },
];

/// Calls that ordinary programs make: for a user's program they fail with an error that the program
/// can handle. All other calls kill the program, as in every role.
const PROGRAM_REFUSED: &[Group] = &[Group {
    reason: "ordinary programs and interpreters try these and cope without",
    calls: &[
        any(libc::SYS_socket),
        any(libc::SYS_connect),
        any(libc::SYS_clone),
        any(libc::SYS_unlinkat),
        any(libc::SYS_mkdirat),
        any(libc::SYS_fcntl),
        any(libc::SYS_sendto),
        any(libc::SYS_sched_setscheduler),
        #[cfg(target_arch = "x86_64")]
        any(libc::SYS_arch_prctl),
        // Python tries to store its compiled files.
        #[cfg(target_arch = "x86_64")]
        any(libc::SYS_mkdir),
        #[cfg(target_arch = "x86_64")]
        any(libc::SYS_unlink),
        #[cfg(target_arch = "x86_64")]
        any(libc::SYS_rename),
    ],
}];

/// The system calls of `role`, without those for threads.
pub(super) fn allowed(role: Role) -> impl Iterator<Item = &'static Group> {
    let own: &[Group] = match role {
        Role::Router => ROUTER,
        Role::Switch => SWITCH,
        Role::Program => PROGRAM,
    };
    COMMON.iter().chain(own)
}

/// Calls that fail for `role` without killing it, unless [`allowed`].
pub(super) fn refused(role: Role) -> impl Iterator<Item = &'static Group> {
    let own: &[Group] = match role {
        Role::Router | Role::Switch => &[],
        Role::Program => PROGRAM_REFUSED,
    };
    REFUSED.iter().chain(own)
}
