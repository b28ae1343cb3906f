//! The processes that this binary starts itself as.

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use europa_node::{Instance, Lifetime, Settings};
use europa_sandbox::{Mount, Profile, enter, schedule};
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register_conditional_shutdown;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::exit::Failure;

/// Where the control socket is in a process that the node has started.
const CONTROL: i32 = 3;

/// Says what happens. A log that cannot be written is no reason to end.
fn subscriber() -> SubscriberBuilder {
    tracing_subscriber::fmt().with_ansi(false).log_internal_errors(false)
}

/// The node: in the foreground, or started by `up` in the background.
pub(crate) fn node(
    instance: Instance,
    lifetime: Lifetime,
    settings: Settings,
) -> Result<ExitCode, Failure> {
    let subscriber = subscriber();
    if lifetime == Lifetime::Temporary {
        // Standard error is the log.
        subscriber.with_writer(std::io::stderr).init();
        // A session of its own: a terminal that closes does not take it along.
        let _ = nix::unistd::setsid();
    } else {
        std::fs::create_dir_all(instance.logs())?;
        let log = instance.log("node");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        subscriber.with_writer(std::io::stderr.and(Arc::new(log))).init();
    }
    finish(europa_node::run(instance, lifetime, settings))
}

/// The switch.
pub(crate) fn switch(cpus: &[usize]) -> Result<ExitCode, Failure> {
    let mut profile = Profile::switch();
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    subscriber().with_writer(std::io::stderr).init();
    finish(europa_switch::run(control))
}

/// Longest file that a router may write: larger ones are cut there.
const WRITTEN_BYTES: u64 = 4 << 30;

/// Most descriptors of a router that shares memory: each memif has a few for its peer and one
/// for each client that has not said yet what it wants, and one message may bring 253.
const SHARED_DESCRIPTORS: u64 = 1024;
/// Longest piece of memory that it may make for a peer. The kernel counts it as a file.
const SHARED_BYTES: u64 = 160 << 20;

/// An isolated router.
pub(crate) fn router(
    number: u32,
    name: &str,
    cpus: &[usize],
    writes: bool,
    shares: bool,
) -> Result<ExitCode, Failure> {
    let mut profile = Profile::router(name, number);
    profile.limits.open_files = 128;
    if writes {
        profile.limits.file_bytes = WRITTEN_BYTES;
    }
    if shares {
        profile.shares_memory = true;
        profile.limits.open_files = SHARED_DESCRIPTORS;
        profile.limits.file_bytes = profile.limits.file_bytes.max(SHARED_BYTES);
    }
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    finish(europa_router::run(control))
}

/// What every program may read: the system's own programs and libraries.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/bin"];

/// A data plane of a user's own: a router's process that becomes another program.
pub(crate) fn program(
    number: u32,
    name: &str,
    cpus: &[usize],
    command: &[String],
) -> Result<ExitCode, Failure> {
    let words = command.iter().map(Path::new);
    let named = words.filter(|word| word.is_absolute() && !word.starts_with("/usr"));
    let seen = SYSTEM.map(Path::new).into_iter().chain(named).filter(|path| path.exists());
    let mounts = seen.map(|path| Mount { source: path.into(), target: path.into() }).collect();
    let mut profile = Profile::program(name, number, mounts);
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    finish(europa_router::become_program(control, command))
}

/// Takes its place on the CPUs and enters the sandbox; the control socket is what is left.
fn locked_in(profile: &Profile, cpus: &[usize]) -> Result<OwnedFd, Failure> {
    schedule(cpus).map_err(|error| error.to_string())?;
    // The first process of a pid namespace ends only by a signal that it asked for. At the end of
    // the machine nobody else ends what a dead node has left.
    register_conditional_shutdown(SIGTERM, 128 + SIGTERM, Arc::new(AtomicBool::new(true)))
        .map_err(|error| error.to_string())?;
    enter(profile).map_err(|error| error.to_string())?;
    // SAFETY: the node hands the control socket over as this number, `enter` has closed
    // every other, and nothing else in this process knows of it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(CONTROL) })
}

fn finish<E: std::fmt::Display>(result: Result<(), E>) -> Result<ExitCode, Failure> {
    result.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string().into())
}
