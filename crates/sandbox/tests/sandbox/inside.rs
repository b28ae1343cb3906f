//! The sandboxed process: it enters the sandbox, reports, waits for a byte, and acts. Its exit code
//! is the result: 0, or the errno of the call.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::mem;
use std::os::fd::FromRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use europa_sandbox::{Enforcement, Mount, Profile, enter};

use crate::escapes::{ESCAPES, LOCALHOST, NEW, PASSWD, ROOT, ZEROES};

/// Folders that the system's own programs need.
const SYSTEM: [&str; 4] = ["/bin", "/lib", "/lib64", "/usr"];

pub(crate) fn profile(role: &str) -> Profile {
    let mut profile = match role {
        "switch" => Profile::switch(),
        "program" => {
            let mounts = SYSTEM.iter().filter(|path| PathBuf::from(path).exists());
            let mounts = mounts.map(|path| Mount { source: path.into(), target: path.into() });
            Profile::program("program", 7, mounts.collect())
        }
        "mortal" => Profile { die_with_parent: true, ..Profile::router("router", 7) },
        "no-user-namespace" => Profile { user_namespace: false, ..Profile::router("router", 7) },
        "unfiltered" => Profile { enforcement: Enforcement::Log, ..Profile::router("router", 7) },
        _ => Profile::router("router", 7),
    };
    // 5 is also passed but not in the list, so it must be closed.
    profile.descriptors = vec![3, 4];
    profile
}

static TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_terminate(_: libc::c_int) {
    TERMINATED.store(true, Ordering::Relaxed);
}

pub(crate) fn act(arguments: &[String]) -> ! {
    let (role, act) = (arguments[2].as_str(), arguments[3].as_str());
    if act == "threaded" {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(5)));
    }
    if act == "look" {
        // The descriptors that `spawn` passed, and that of the folder itself.
        println!("{} open", std::fs::read_dir("/proc/self/fd").expect("readable").count());
        std::process::exit(0);
    }
    if act == "terminate" {
        // SAFETY: the handler stores to an atomic, which a signal handler may do.
        unsafe { libc::signal(libc::SIGTERM, on_terminate as *const () as libc::sighandler_t) };
    }
    if let Err(error) = enter(&profile(role)) {
        println!("{error}");
        std::process::exit(250);
    }
    // SAFETY: descriptor 3 is the control socket, by the test's own convention.
    let mut control = unsafe { File::from_raw_fd(3) };
    control.write_all(b"r").expect("the test listens");
    let mut byte = [0];
    // The read was interrupted by a signal or ended by the test: in both cases continue.
    let _ = control.read(&mut byte);
    let code = match act {
        "return" | "threaded" => 0,
        "terminate" => i32::from(!TERMINATED.load(Ordering::Relaxed)),
        "panic" => panic!("on purpose"),
        "thread" => i32::from(std::thread::spawn(|| 5).join().ok() != Some(5)),
        "eat" => eat(128 << 20),
        "fork" => fork(),
        "shell" => shell(),
        "kick" => kick(),
        number => escape(number.parse().expect("an index")),
    };
    // Not std's exit: this makes exactly one call, which is in the list. SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(255)
}

fn escape(index: usize) -> i32 {
    let escape = &ESCAPES[index];
    let [a, b, c, d, e, f] = escape.arguments.map(resolve);
    // SAFETY: deliberately without guarantee: the kernel returns an error or kills the process;
    // nothing is used afterwards.
    if unsafe { libc::syscall(escape.number, a, b, c, d, e, f) } < 0 { errno() } else { 0 }
}

fn resolve(argument: usize) -> usize {
    match argument {
        PASSWD => c"/etc/passwd".as_ptr() as usize,
        NEW => c"/new".as_ptr() as usize,
        ROOT => c"/".as_ptr() as usize,
        ZEROES => Box::leak(Box::new([0_u64; 32])).as_ptr() as usize,
        LOCALHOST => {
            let address = [2_u8, 0, 0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            Box::leak(Box::new(address)).as_ptr() as usize
        }
        number => number,
    }
}

/// Uses memory beyond the limit of the control group.
fn eat(bytes: usize) -> i32 {
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    i32::from(memory[bytes / 2] == 2)
}

fn fork() -> i32 {
    // SAFETY: a child would only exit.
    match unsafe { libc::fork() } {
        -1 => errno(),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(0) },
        _ => 0,
    }
}

/// Executes a program of the system, as a user's data plane would.
fn shell() -> i32 {
    let script = "echo hello; read line </etc/passwd || echo no passwd; echo x >/usr/x || echo read-only; true & echo never";
    let argv = ["sh", "-c", script].map(|text| CString::new(text).expect("no null"));
    match nix::unistd::execve(c"/bin/sh", &argv, &[] as &[CString]) {
        Ok(never) => match never {},
        Err(error) => error as i32,
    }
}

/// Runs the BPF program that was passed as descriptor 4: once for its verdict, then with live
/// frames, as the switch does.
fn kick() -> i32 {
    const LIVE_FRAMES: u32 = 2;
    #[repr(C)]
    #[derive(Default)]
    struct TestRun {
        program: u32,
        verdict: u32,
        in_bytes: u32,
        out_bytes: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context: [u64; 3],
        flags: u32,
        cpu: u32,
        batch: u32,
        unused: u32,
    }
    let frame = [0_u8; 64];
    for (flags, verdict) in [(0, 1), (LIVE_FRAMES, 0)] {
        let data_in = frame.as_ptr() as u64;
        let mut run =
            TestRun { program: 4, in_bytes: 64, data_in, repeat: 4, flags, ..TestRun::default() };
        // SAFETY: command 10 with its attributes; the frame lives until after the call.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, 10, &raw mut run, mem::size_of::<TestRun>()) };
        if result < 0 {
            return errno();
        }
        if run.verdict != verdict {
            return 254;
        }
    }
    0
}
