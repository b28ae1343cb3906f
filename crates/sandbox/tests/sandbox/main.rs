//! Tests the sandbox from inside and outside. Needs root.
//!
//! The binary spawns itself, as the node spawns roles: with `--act` it is a sandboxed process
//! (`inside.rs`), otherwise it runs the list of tests (`cases.rs`). An argument without dashes
//! selects the tests whose names contain it.

#![allow(unsafe_code)] // Forbidden system calls have no safe wrapper.

mod cases;
mod escapes;
mod inside;
mod start;

use std::panic;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == "--act") {
        inside::act(&arguments);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: needs root");
        return;
    }
    // The process then has groups and an ignored signal that the sandbox must remove. SAFETY:
    // ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
    nix::unistd::setgroups(&[0, 7].map(nix::unistd::Gid::from_raw)).expect("root may");
    let filter = arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    let mut failed = 0;
    for (name, test) in cases::ALL {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            let good = panic::catch_unwind(test).is_ok();
            println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
            failed += u32::from(!good);
        }
    }
    if failed > 0 {
        println!("{failed} failed");
        std::process::exit(1);
    }
}
