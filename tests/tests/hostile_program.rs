//! A tenant's own data plane, built against the SDK, attacks all others, and affects none.

mod tenants;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::skip_without;
use nix::libc;
use tenants::streams::{Both, RATE, await_forwarding, unseen, watch};
use tenants::{Tenants, seconds};

/// Attacks that do not end by themselves, and the counters that show them.
const LASTING: [(&str, &str); 8] = [
    ("frames", "foreign source MAC address"),
    ("pool", ""),
    ("rings", "bad length"),
    ("refused", ""),
    ("descriptors", ""),
    ("threads", ""),
    ("spin", ""),
    ("log", ""),
];

/// System calls that no program may make: the kernel ends the caller.
const CALLS: [(&str, libc::c_long); 9] = [
    ("bpf", libc::SYS_bpf),
    ("ptrace", libc::SYS_ptrace),
    ("kill", libc::SYS_kill),
    ("unshare", libc::SYS_unshare),
    ("setns", libc::SYS_setns),
    ("mount", libc::SYS_mount),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("perf_event_open", libc::SYS_perf_event_open),
];

/// Seconds that a program runs which ends by itself.
const RUN: f64 = 0.5;

/// `tests/hostile/program.c`, compiled, in a folder that every user may read.
fn compiled() -> (tempfile::TempDir, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-pthread", "-I"])
        .arg(root.join("../sdk/c"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("hostile/program.c"))
        .output()
        .expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    (folder, program)
}

/// The ends of the other tenant's program so far, one line each.
fn ends(tenants: &Tenants) -> Vec<String> {
    let log = tenants.log("node");
    let ends = log.lines().filter(|line| line.contains("router other/r1: Ended"));
    ends.map(str::to_owned).collect()
}

/// Makes the program the other tenant's data plane, with this command.
fn become_hostile(tenants: &Tenants, command: &[&str]) {
    let file = tenants.with_program(command);
    let start = Instant::now();
    tenants.europa(&["apply", &file.path().to_string_lossy()]);
    eprintln!("{:?}: applied in {:?}", &command[1..], start.elapsed());
}

/// Waits until the program has printed this text.
fn await_saying(tenants: &Tenants, text: &str) {
    let start = Instant::now();
    while !tenants.log("other.r1").contains(text) {
        assert!(start.elapsed() < Duration::from_secs(10), "it never said '{text}'");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until the program has ended `count` times in total. Returns the time that this took.
fn await_ends(tenants: &Tenants, count: usize) -> Duration {
    let start = Instant::now();
    while ends(tenants).len() < count {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", ends(tenants));
        sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// Makes the program the other tenant's data plane; the program soon ends as `how` says. `apply`
/// may already report that end.
fn end_soon(tenants: &Tenants, command: &[&str], how: &str) {
    let before = ends(tenants).len();
    let file = tenants.with_program(command);
    let applied = tenants.attempt(&["apply", &file.path().to_string_lossy()]);
    let last = if applied.status.success() {
        await_ends(tenants, before + 1);
        ends(tenants).pop().unwrap_or_default()
    } else {
        applied.stderr
    };
    assert!(last.contains(how), "{command:?}: {last}");
}

/// Checks that the program's log has no attack that succeeded.
fn nothing_breached(tenants: &Tenants) {
    let said = tenants.log("other.r1");
    let breaches: Vec<_> = said.lines().filter(|line| line.contains("BREACH")).collect();
    assert!(breaches.is_empty(), "{breaches:?}");
}

#[test]
fn a_hostile_program_harms_nobody_but_itself() {
    skip_without!("nft", "bridge", "tcpdump", "ping", "cc");
    let (_folder, program) = compiled();
    let program = program.to_str().expect("a path");
    let tenants = Tenants::new();
    tenants.up();
    let pids = (tenants.node_pid(), tenants.switch_pid(), tenants.router_pid("victim"));
    let watches = [0, 1].map(|side| watch(&tenants, side));
    let both = Both::start(&tenants.victim);

    let mut slowest = Duration::ZERO;
    for (what, counted) in LASTING {
        become_hostile(&tenants, &[program, what]);
        // A flood removes its own first line from the log when the node cuts the log.
        let first = if what == "log" { "0".repeat(999) } else { format!("begun {what}") };
        await_saying(&tenants, &first);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds()) / LASTING.len() as u32 {
            sleep(Duration::from_millis(200));
            let asked = Instant::now();
            let text = tenants.router("other")["interfaces"].to_string();
            slowest = slowest.max(asked.elapsed());
            assert!(!text.is_empty());
        }
        let text = tenants.router("other")["interfaces"].to_string();
        assert!(text.contains(counted), "nothing was refused as {counted}: {text}");
        nothing_breached(&tenants);
    }
    eprintln!("`europa stats` took at most {slowest:?}");
    let log = std::fs::metadata(tenants.directory().join("log/other.r1.log")).expect("a log");
    assert!(log.len() <= 32 << 20, "it has written {} bytes into its log", log.len());

    // A program that takes all memory is ended, and no other process is.
    end_soon(&tenants, &[program, "memory"], "SIGKILL");
    // This program runs on after the refused change.
    become_hostile(&tenants, &[program, "frames"]);
    for (name, number) in CALLS {
        eprintln!("call {name}");
        end_soon(&tenants, &[program, "call", &number.to_string()], "SIGSYS");
    }

    // The node restarts a program that ends repeatedly later and later.
    for (what, how) in [("crash", "SIGSEGV"), ("end", "")] {
        let before = ends(&tenants).len();
        become_hostile(&tenants, &[program, what]);
        let start = Instant::now();
        await_ends(&tenants, before + 4);
        sleep(Duration::from_secs(2));
        let (times, elapsed) = (ends(&tenants).len() - before, start.elapsed());
        let last = ends(&tenants).pop().unwrap_or_default();
        assert!(last.contains(how), "{what}: {last}");
        // The program runs for half a second. Its restarts come at once, after 100 ms, 200 ms, 400
        // ms ...
        let (mut most, mut until, mut wait) = (2, RUN, 0.0);
        while until < elapsed.as_secs_f64() {
            most += 1;
            until += RUN + wait;
            wait = if wait == 0.0 { 0.1 } else { wait * 2.0 };
        }
        assert!(times <= most, "{what}: {times} times in {elapsed:?}");
        eprintln!("{what}: {times} times in {elapsed:?}");
    }

    let forwarded = both.stop();
    for (sent, received) in &forwarded {
        eprintln!("the neighbour: {received:?} of {sent}");
    }
    eprintln!("{}", tenants.europa(&["stats"]));
    for (sent, received) in &forwarded {
        assert!(*sent > u64::from(RATE) && received.is_perfect(), "of {sent}: {received:?}");
    }
    let now = (tenants.node_pid(), tenants.switch_pid(), tenants.router_pid("victim"));
    assert_eq!(now, pids, "nobody else has ended");
    nothing_breached(&tenants);
    let ping = tenants.victim.a.ping(&tenants.victim.addresses[1], 5, &[]).expect("a ping");
    assert!(ping.is_perfect());
    unseen(watches);

    // The program's owner can apply a correct data plane again.
    tenants.europa(&["apply", &tenants.changed().path().to_string_lossy()]);
    await_forwarding(&tenants, &tenants.other);
}
