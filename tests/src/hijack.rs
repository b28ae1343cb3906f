//! Takes over a running router, like an attacker with an exploit of the router's program.
//!
//! Europa does not support this. The test stops the process by `ptrace`, as root may, writes
//! `tests/hostile/hostile.c` over its code, and continues the process there. The new code is inside
//! the sandbox that Europa built, with the router's descriptors: its pool, waker, bells, status
//! page, log and control socket.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::command::{Error, run};

/// The attacks of the hostile program, in the order of its `enum attack`.
pub const ATTACKS: [&str; 13] = [
    "forged descriptors",
    "slots returned twice",
    "flood",
    "forbidden frames",
    "frames changed while sent",
    "header and cursors",
    "garbage everywhere",
    "waker's position",
    "rings never drained",
    "descriptors misused",
    "nonsense to the node",
    "read-only memory written",
    "files opened",
];

/// Addresses of the router that is taken over and of the attacked one, each on the left and on the
/// right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours {
    /// Ethernet addresses of the router that is taken over.
    pub own_macs: [[u8; 6]; 2],
    /// Ethernet addresses of its hosts.
    pub own_hosts: [[u8; 6]; 2],
    /// Ethernet addresses of the other tenant's router.
    pub other_macs: [[u8; 6]; 2],
    /// Ethernet addresses of the other tenant's hosts.
    pub other_hosts: [[u8; 6]; 2],
    /// First two bytes of the tenant's own IP addresses.
    pub own_net: [u8; 2],
    /// First two bytes of the other tenant's IP addresses.
    pub other_net: [u8; 2],
}

/// `struct orders` of the hostile program.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Orders {
    pool: u64,
    pool_bytes: u64,
    waker: u64,
    read_only: [u64; 16],
    read_only_bytes: [u64; 16],
    control: u32,
    only: u32,
    own_macs: [[u8; 6]; 2],
    own_hosts: [[u8; 6]; 2],
    other_macs: [[u8; 6]; 2],
    other_hosts: [[u8; 6]; 2],
    own_net: [u8; 2],
    other_net: [u8; 2],
    reserved: u32,
    forbidden_call: u64,
    arguments: [u64; 6],
    report: Report,
}

/// The report of the hostile program.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Report {
    /// How many times the program made each of [`ATTACKS`].
    pub rounds: [u64; ATTACKS.len()],
    /// Attacks that succeeded although they must fail.
    pub breaches: u64,
    /// The last such success: the attack in the upper half, the number of its attempt in the lower.
    pub breach: u64,
    /// The result of the last forbidden system call that did not end the program.
    pub call_returned: i64,
    /// Number of forbidden system calls that did not end the program.
    pub calls_returned: u64,
}

/// A router that has been taken over.
#[derive(Debug)]
pub struct Hijacked {
    memory: File,
    orders_at: u64,
    pid: i32,
}

/// A line of `/proc/PID/maps`.
struct Mapping {
    start: u64,
    bytes: u64,
    rights: String,
    what: String,
}

fn mappings(pid: i32) -> Result<Vec<Mapping>, Error> {
    let path = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&path).map_err(Error::io(path))?;
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16));
        let (start, end) = (start.ok()?, end.ok()?);
        let rights = words.next()?.to_owned();
        let what = words.nth(3).unwrap_or_default().to_owned();
        Some(Mapping { start, bytes: end - start, rights, what })
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// Compiles the hostile program to bytes that run at any address.
fn compile() -> Result<Vec<u8>, Error> {
    let folder = tempfile::tempdir().map_err(Error::io("a temporary folder"))?;
    let file = folder.path().join("hostile.bin");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
    let argument = |path: PathBuf| path.to_string_lossy().into_owned();
    let (source, target) = (argument(sources.join("hostile.c")), argument(file.clone()));
    let script = format!("-Wl,-T,{}", argument(sources.join("flat.ld")));
    let fixed = [
        "cc",
        "-O2",
        "-Wall",
        "-Werror",
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-fPIE",
        "-fno-jump-tables",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-fno-tree-loop-distribute-patterns",
        "-fno-asynchronous-unwind-tables",
        "-Wl,--build-id=none",
        "-Wl,--oformat=binary",
        "-o",
    ];
    run(&[&fixed[..], &[&target, &source, &script]].concat())?;
    fs::read(&file).map_err(Error::io("the hostile program"))
}

impl Hijacked {
    /// Takes over a router's process. The process makes all attacks in turn, or only one.
    ///
    /// # Errors
    /// There is no C compiler, or the process is not a router's.
    pub fn take(pid: i32, whom: &Neighbours, only: Option<usize>) -> Result<Hijacked, Error> {
        let missing =
            |what: &str| Error::io(format!("no {what}"))(std::io::ErrorKind::NotFound.into());
        let program = compile()?;
        let all = mappings(pid)?;
        let shared: Vec<&Mapping> = all.iter().filter(|m| m.rights.ends_with('s')).collect();
        let writable: Vec<&&Mapping> =
            shared.iter().filter(|m| m.rights == "rw-s" && m.what.contains("bpf")).collect();
        let pool = writable.iter().max_by_key(|m| m.bytes).ok_or_else(|| missing("pool"))?;
        let waker = writable.iter().find(|m| m.bytes == 4096).ok_or_else(|| missing("waker"))?;
        let code = all
            .iter()
            .find(|m| {
                m.rights == "r-xp" && m.bytes > program.len() as u64 && !m.what.starts_with('[')
            })
            .ok_or_else(|| missing("code"))?;
        let mut orders = Orders::new_zeroed();
        (orders.pool, orders.pool_bytes, orders.waker) = (pool.start, pool.bytes, waker.start);
        let places = orders.read_only.iter_mut().zip(&mut orders.read_only_bytes);
        for (mapping, place) in shared.iter().filter(|m| m.rights == "r--s").zip(places) {
            (*place.0, *place.1) = (mapping.start, mapping.bytes);
        }
        // The node passes the control socket as descriptor 3.
        orders.control = 3;
        orders.only = only.map_or(0, |attack| attack as u32 + 1);
        orders.own_macs = whom.own_macs;
        orders.own_hosts = whom.own_hosts;
        orders.other_macs = whom.other_macs;
        orders.other_hosts = whom.other_hosts;
        (orders.own_net, orders.other_net) = (whom.own_net, whom.other_net);
        let path = format!("/proc/{pid}/mem");
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(Error::io(format!("opening {path}")))?;
        let orders_at = possess(pid, &memory, code.start, &program, orders.as_bytes())
            .map_err(Error::io(format!("taking process {pid} over")))?;
        Ok(Hijacked { memory, orders_at, pid })
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The counters of the hostile program.
    ///
    /// # Errors
    /// The process has ended.
    pub fn report(&self) -> Result<Report, Error> {
        let mut report = Report::new_zeroed();
        let at = self.orders_at + std::mem::offset_of!(Orders, report) as u64;
        self.memory
            .read_exact_at(report.as_mut_bytes(), at)
            .map_err(Error::io("reading what the hostile program did"))?;
        Ok(report)
    }

    /// Makes the hostile program do a system call.
    ///
    /// # Errors
    /// The process has ended.
    pub fn call(&self, number: i64, arguments: [u64; 6]) -> Result<(), Error> {
        let write = |value: &[u8], offset: usize| {
            let at = self.orders_at + offset as u64;
            let what = "telling the hostile program to make a call";
            self.memory.write_all_at(value, at).map_err(Error::io(what))
        };
        write(arguments.as_bytes(), std::mem::offset_of!(Orders, arguments))?;
        write(&number.to_ne_bytes(), std::mem::offset_of!(Orders, forbidden_call))
    }
}

/// Stops a process, puts `program` over its code and `orders` on its stack, and continues it at the
/// first byte of `program`. Returns the address of the orders.
#[cfg(target_arch = "x86_64")]
fn possess(
    pid: i32,
    memory: &File,
    code: u64,
    program: &[u8],
    orders: &[u8],
) -> std::io::Result<u64> {
    let pid = Pid::from_raw(pid);
    ptrace::seize(pid, ptrace::Options::empty())?;
    ptrace::interrupt(pid)?;
    waitpid(pid, Some(WaitPidFlag::__WALL))?;
    let mut registers = ptrace::getregs(pid)?;
    memory.write_all_at(program, code)?;
    // Overwrites the frames of functions to which the program never returns.
    let orders_at = registers.rsp & !63;
    memory.write_all_at(orders, orders_at)?;
    registers.rip = code;
    registers.rdi = orders_at;
    // As after a call: a return address below a multiple of 16, beyond the red zone.
    registers.rsp = orders_at - 256 - 8;
    // Cancels the interrupted system call, so that it does not restart.
    registers.orig_rax = u64::MAX;
    registers.rax = 0;
    ptrace::setregs(pid, registers)?;
    ptrace::detach(pid, None)?;
    Ok(orders_at)
}

#[cfg(not(target_arch = "x86_64"))]
fn possess(_: i32, _: &File, _: u64, _: &[u8], _: &[u8]) -> std::io::Result<u64> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Whether routers can be taken over on this machine.
pub fn can_hijack() -> bool {
    cfg!(target_arch = "x86_64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_laid_out_as_the_program_expects() {
        // 3 words, 32 of mappings, 2 halves, 52 bytes and 4, and the call.
        assert_eq!(std::mem::offset_of!(Orders, forbidden_call), 24 + 256 + 8 + 56);
        let header = include_str!("../hostile/hostile.c");
        let wanted = format!("_Static_assert(sizeof(struct orders) == {},", size_of::<Orders>());
        assert!(header.contains(&wanted), "{wanted}");
    }
}
