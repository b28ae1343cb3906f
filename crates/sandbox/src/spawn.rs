//! Starts a role process from the node, which is root and has threads.
//!
//! The child is made like in `posix_spawn`: `clone` with shared memory, and the calling thread
//! sleeps until exec. So nothing is copied, even if the node is large (no page tables, no
//! copy-on-write faults afterwards). The child writes an error into the caller's memory, and `exec`
//! has happened when `spawn` returns. The cost is a rule: between clone and exec the child makes
//! only raw system calls, on memory prepared before; it allocates nothing and takes no lock.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

use crate::cgroup::{Group, Join};
use crate::clone::clone_and_wait;
use crate::error::{SandboxError, Step};

/// The process to start. The program is always the running binary itself (`/proc/self/exe`, which
/// also works after an update has replaced the file).
pub struct SpawnSpec<'a> {
    /// `argv`, the program's name first: `["europa", "router", ...]`.
    pub arguments: Vec<&'a OsStr>,
    /// Environment, `NAME=value`; nothing is inherited.
    pub environment: Vec<&'a OsStr>,
    /// Passed to the process as descriptors 3, 4, ... in this order; they stay open across exec.
    /// All other descriptors of the caller are closed at exec, even those without close-on-exec.
    /// Sockets should be stream or seqpacket: the process could send to other addresses by a
    /// datagram socket.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// Standard output and error.
    pub log: BorrowedFd<'a>,
    /// The process joins this group before exec, so that all its resources are counted.
    pub group: Option<&'a Group>,
    /// Whether the process is number 1 of a new pid namespace. Signals with the default action do
    /// not reach such a process, even from outside: the role must install a handler for `SIGTERM`.
    /// `SIGKILL` always works, and the end of the process ends all processes of the namespace.
    pub pid_namespace: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// A signal killed the process: `SIGSYS` comes from the system call filter; a `SIGKILL` that
    /// the node did not send comes from the memory limit.
    Signal(Signal),
    /// The process was adopted: only its parent learns the result.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "ended with code {code}"),
            Exit::Signal(signal) => write!(f, "killed by {signal}"),
            Exit::Unknown => write!(f, "ended; it was adopted, so how is not known"),
        }
    }
}

/// A started process. Until it is [committed](Child::commit), dropping this value kills and reaps
/// the process: a start that fails half-way leaves nothing behind.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    pidfd: OwnedFd,
    exit: Option<Exit>,
    /// Whether another process, which has ended, started this one.
    adopted: bool,
    /// Whether the process continues when its owner ends.
    committed: bool,
}

/// The identity of a process: different from that of all others, including later ones with the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The process's number in the node's pid namespace.
    pub pid: u32,
    /// The time at which the process was started, in clock ticks since the start of the machine.
    pub started: u64,
}

impl Identity {
    /// The identity of process `pid`, if it exists.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain any character.
        let rest = stat.rsplit_once(") ")?.1;
        Some(Self { pid, started: rest.split(' ').nth(19)?.parse().ok()? })
    }

    /// Time since its start.
    pub fn age(&self) -> Duration {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).max(1);
        let started = Duration::from_secs_f64(self.started as f64 / ticks as f64);
        let up = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
        up.saturating_sub(started)
    }
}

impl Child {
    /// Takes over a process that another process has started; `None` if it has ended.
    ///
    /// # Errors
    /// The error of pidfd_open(2).
    pub fn adopt(process: Identity) -> Result<Option<Self>, SandboxError> {
        let Identity { pid, .. } = process;
        let Some(pidfd) = open(pid)? else { return Ok(None) };
        // This is checked while the descriptor prevents the reuse of the process's number.
        if Identity::of(pid) != Some(process) {
            return Ok(None);
        }
        let mut child = Self { pid, pidfd, exit: None, adopted: true, committed: true };
        Ok(if child.try_wait()?.is_some() { None } else { Some(child) })
    }

    /// The process id in the node's pid namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// From now on the process outlives its owner, so that the next node can adopt it.
    pub fn commit(&mut self) {
        self.committed = true;
    }

    /// The way in which the process ended, or `None` while it runs. Never blocks.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, SandboxError> {
        self.wait_with(WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG)
    }

    /// Blocks until it has ended.
    pub fn wait(&mut self) -> Result<Exit, SandboxError> {
        loop {
            match self.wait_with(WaitPidFlag::WEXITED) {
                Ok(Some(exit)) => return Ok(exit),
                Ok(None) | Err(SandboxError::Step { source: Errno::EINTR, .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait_with(&mut self, flags: WaitPidFlag) -> Result<Option<Exit>, SandboxError> {
        if self.exit.is_none() && self.adopted {
            let block = !flags.contains(WaitPidFlag::WNOHANG);
            let timeout = if block { PollTimeout::NONE } else { PollTimeout::ZERO };
            let mut wait = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
            let ended = poll(&mut wait, timeout).step("waiting for a process")? > 0;
            self.exit = ended.then_some(Exit::Unknown);
        } else if self.exit.is_none() {
            self.exit =
                match waitid(Id::PIDFd(self.pidfd.as_fd()), flags).step("waiting for a process")? {
                    WaitStatus::Exited(_, code) => Some(Exit::Code(code)),
                    WaitStatus::Signaled(_, signal, _) => Some(Exit::Signal(signal)),
                    _ => None,
                };
        }
        Ok(self.exit)
    }

    /// Sends a signal; a process that has already ended is no error.
    pub fn kill(&self, signal: Signal) -> Result<(), SandboxError> {
        match send_signal(self.pidfd.as_fd(), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error).step("sending a signal"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.committed && self.exit.is_none() && self.kill(Signal::SIGKILL).is_ok() {
            // A killed process ends at once.
            let _ = self.wait();
        }
    }
}

impl AsFd for Child {
    /// The pidfd: becomes readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// A descriptor of process `pid`; `None` if it does not exist.
pub(crate) fn open(pid: u32) -> Result<Option<OwnedFd>, SandboxError> {
    // SAFETY: pidfd_open takes two integers.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match Errno::result(result) {
        // SAFETY: the kernel just created this descriptor for us alone.
        Ok(raw) => Ok(Some(unsafe { OwnedFd::from_raw_fd(raw as RawFd) })),
        Err(Errno::ESRCH | Errno::EINVAL) => Ok(None),
        Err(error) => Err(error).step("opening a process"),
    }
}

/// Sends a signal through a pidfd, which cannot reach a later process with the same number.
pub(crate) fn send_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> nix::Result<()> {
    let info = ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed and means the one of kill(2).
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal as c_int, info, 0)
    };
    Errno::result(result).map(drop)
}

/// The child's data, prepared by the parent, which is suspended.
struct Plan {
    /// Sources of descriptors 0, 1, 2, 3, ...
    sources: Vec<RawFd>,
    /// Files to which the child writes "0", which puts the child into the group.
    groups: Vec<RawFd>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Step and errno of a failure; step 0: none.
    failed: (usize, c_int),
}

/// Names of the child's steps, for the error message.
const STEPS: [&str; 5] = [
    "",
    "joining the control group",
    "handing over descriptors",
    "closing other descriptors at exec",
    "executing /proc/self/exe",
];

/// Starts the running binary in another role.
///
/// Returns when the child has executed it (about half a millisecond). The child is still root: its
/// first act must be [`enter`](crate::enter).
pub fn spawn(spec: &SpawnSpec<'_>) -> Result<Child, SandboxError> {
    let arguments = strings(&spec.arguments)?;
    let environment = strings(&spec.environment)?;
    let null = File::open("/dev/null").map_err(errno).step("opening /dev/null")?;
    let join = spec.group.map_or(Ok(Join::default()), Group::join)?;
    let mut sources = vec![null.as_raw_fd(), spec.log.as_raw_fd(), spec.log.as_raw_fd()];
    sources.extend(spec.descriptors.iter().map(AsRawFd::as_raw_fd));
    if sources.len() > MAX_DESCRIPTORS {
        return Err(SandboxError::Refused(format!(
            "{} descriptors, at most {MAX_DESCRIPTORS}",
            sources.len()
        )));
    }
    let mut plan = Plan {
        sources,
        groups: join.tasks.iter().map(AsRawFd::as_raw_fd).collect(),
        argv: pointers(&arguments),
        envp: pointers(&environment),
        failed: (0, 0),
    };

    // A signal handler must not run in the child, which shares this process's memory: signals are
    // blocked until the child has reset all handlers.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before))
        .step("blocking signals")?;
    let folder = join.folder.as_ref().map(AsFd::as_fd);
    // SAFETY: `plan` outlives the call and no other thread touches it meanwhile; `child_main` makes
    // raw system calls on prepared data; signals are blocked.
    let made = unsafe {
        clone_and_wait(child_main, ptr::from_mut(&mut plan).cast(), spec.pid_namespace, folder)
    };
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None).step("unblocking signals")?;

    let (pid, pidfd) = made.step("creating a process")?;
    let mut child = Child { pid, pidfd, exit: None, adopted: false, committed: false };
    let (step, code) = plan.failed;
    if step != 0 {
        child.wait()?;
        return Err(Errno::from_raw(code)).step(STEPS.get(step).copied().unwrap_or_default());
    }
    Ok(child)
}

/// Starts the process as [`spawn`] does, but in another pid namespace below the caller's own:
/// `namespace` is a descriptor of it. `pid_namespace` of `spec` must be false.
pub fn spawn_within(
    namespace: BorrowedFd<'_>,
    spec: &SpawnSpec<'_>,
) -> Result<Child, SandboxError> {
    // Children of a thread that has chosen a pid namespace start there. Such a thread can start no
    // more threads, so this is a temporary one.
    std::thread::scope(|scope| {
        let born = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWPID).step("entering a pid namespace")?;
            spawn(spec)
        });
        born.join()
            .unwrap_or_else(|_| Err(SandboxError::Refused("a helper thread panicked".into())))
    })
}

/// The child between clone and exec.
extern "C" fn child_main(plan: *mut c_void) -> c_int {
    // SAFETY: `clone_and_wait` passes its exclusive reference, and sleeps until the child has
    // executed or ended.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let step = match run(plan) {
        Ok(never) => match never {},
        Err(step) => step,
    };
    plan.failed = (step, Errno::last_raw());
    127
}

/// Returns the number of the failed step; errno has the reason.
fn run(plan: &Plan) -> Result<std::convert::Infallible, usize> {
    let count = c_int::try_from(plan.sources.len()).unwrap_or(c_int::MAX);
    // SAFETY: only system calls that are safe after vfork, on integers and on memory that
    // `plan` keeps alive; argv and envp end with null (`pointers`). The signal table and
    // the descriptor table are the child's own copies.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::setsid();
        for &file in &plan.groups {
            check(libc::write(file, c"0".as_ptr().cast(), 1) as c_int, 1)?;
        }
        // First duplicates every source above the targets, so that no target overwrites a source.
        // The final duplicates have no close-on-exec, the intermediate ones have it.
        let mut target = 0;
        let mut lifted = [-1 as RawFd; MAX_DESCRIPTORS];
        for (&source, place) in plan.sources.iter().zip(&mut lifted) {
            *place = check(libc::fcntl(source, libc::F_DUPFD_CLOEXEC, count), 2)?;
        }
        for &copy in lifted.iter().take(plan.sources.len()) {
            check(libc::dup2(copy, target), 2)?;
            target += 1;
        }
        let result =
            libc::syscall(libc::SYS_close_range, count, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        check(result as c_int, 3)?;
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::execve(c"/proc/self/exe".as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
    }
    Err(4)
}

/// The maximum number of passed descriptors, including the three standard ones.
const MAX_DESCRIPTORS: usize = 256;

fn check(result: c_int, step: usize) -> Result<c_int, usize> {
    if result < 0 { Err(step) } else { Ok(result) }
}

fn strings(values: &[&OsStr]) -> Result<Vec<CString>, SandboxError> {
    values
        .iter()
        .map(|value| {
            CString::new(value.as_bytes())
                .map_err(|_| SandboxError::Refused(format!("{value:?} contains a null byte")))
        })
        .collect()
}

fn pointers(values: &[CString]) -> Vec<*const c_char> {
    values.iter().map(|value| value.as_ptr()).chain([ptr::null()]).collect()
}

fn errno(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_is_adopted_is_the_one_that_was_meant() {
        let mut process = Command::new("sleep").arg("100").spawn().expect("sleep");
        let identity = Identity::of(process.id()).expect("it runs");
        assert!(identity.age() < Duration::from_secs(60), "{:?}", identity.age());
        let later = Identity { started: identity.started + 1, ..identity };
        assert!(Child::adopt(later).expect("looked").is_none(), "another one of its number");
        let mut child = Child::adopt(identity).expect("looked").expect("it runs");
        assert_eq!(child.try_wait().expect("looked"), None);
        child.kill(Signal::SIGKILL).expect("a signal");
        assert_eq!(child.wait().expect("it ends"), Exit::Unknown);
        // The parent has not yet asked for the result.
        assert!(Child::adopt(identity).expect("looked").is_none(), "it has ended");
        process.wait().expect("it has ended");
        assert!(Child::adopt(identity).expect("looked").is_none(), "it is gone");
    }
}
