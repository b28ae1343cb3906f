//! The processes that this binary starts from itself.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use europa_node::{Instance, Lifetime, Settings};
use europa_rest::Rest;
use europa_sandbox::{Mount, Profile, enter, schedule};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow};
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register_conditional_shutdown;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::exit::Failure;

/// The descriptor of the control socket in a process that the node has started.
const CONTROL: i32 = 3;

/// Writes a log. A process continues if its log cannot be written.
fn subscriber() -> SubscriberBuilder {
    tracing_subscriber::fmt().with_ansi(false).log_internal_errors(false)
}

/// Writes the lines of a log in a separate thread, so that a process that logs never waits for a
/// disk. The thread runs until the guard is dropped. It blocks all signals: the main thread handles
/// SIGTERM, and ends the process in order.
fn beside(to: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    // A thread inherits the mask of the thread that starts it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let log = NonBlockingBuilder::default().thread_name("log").finish(to);
    if let Ok(before) = before {
        // This cannot fail: the kernel returned this mask.
        let _ = before.thread_set_mask();
    }
    log
}

/// Sets the name of this process that `ps` and `top` show; it was started as `/proc/self/exe`.
pub(crate) fn name_process(name: &CStr) {
    // A name is worth no failure.
    let _ = nix::sys::prctl::set_name(name);
}

/// Raises the limit of open files to the hard limit. Processes that a node starts inherit the
/// limit, and set their own.
pub(crate) fn raise_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // A container's filter may refuse it; then the present limit applies.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Runs the node: in the foreground, or in the background if `up` started it.
pub(crate) fn node(
    instance: Instance,
    lifetime: Lifetime,
    (settings, interface): (Settings, europa_rest::Settings),
) -> Result<ExitCode, Failure> {
    // Threads are made later and inherit this name.
    name_process(c"europa-node");
    let subscriber = subscriber();
    let (standard, _standard) = beside(std::io::stderr());
    let mut _log = None;
    if lifetime == Lifetime::Temporary {
        // Standard error is the log.
        subscriber.with_writer(standard).init();
        // A separate session, so that closing the terminal does not end it.
        let _ = nix::unistd::setsid();
    } else {
        std::fs::create_dir_all(instance.logs())?;
        let log = instance.log("node");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let (file, guard) = beside(log);
        _log = Some(guard);
        subscriber.with_writer(standard.and(file)).init();
    }
    let front = move |behind| {
        let rest = Rest::start(interface, behind)?;
        Ok(move || rest.end())
    };
    finish(europa_node::run(instance, lifetime, settings, front))
}

/// The switch.
pub(crate) fn switch(cpus: &[usize]) -> Result<ExitCode, Failure> {
    let mut profile = Profile::switch();
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    let (log, _log) = beside(std::io::stderr());
    subscriber().with_writer(log).init();
    finish(europa_switch::run(control))
}

/// Longest file that a router may write; longer ones are truncated.
const WRITTEN_BYTES: u64 = 4 << 30;

/// Most descriptors of a router that shares memory. Each memif has some for its peer, and one for
/// each client that has not sent its request yet; one message may contain 253.
const SHARED_DESCRIPTORS: u64 = 1024;
/// Longest memory region that such a router may make for a peer; the kernel counts it as a file.
const SHARED_BYTES: u64 = 160 << 20;

/// Runs an isolated router; the program `elements` contains further elements of the owner.
pub(crate) fn router(
    number: u32,
    name: &str,
    cpus: &[usize],
    (writes, shares): (bool, bool),
    elements: Option<&str>,
) -> Result<ExitCode, Failure> {
    let mut profile = match elements {
        Some(file) => Profile::program(name, number, mounts(&[file.to_owned()])),
        None => Profile::router(name, number),
    };
    profile.limits.open_files = profile.limits.open_files.max(128);
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
    // The sandbox has named the process after the router, but the router's name is also in the
    // arguments.
    name_process(c"europa-router");
    match elements {
        Some(file) => finish(europa_router::extended::become_extended(control, file)),
        None => finish(europa_router::run(control, europa_router::none)),
    }
}

/// The signaller of a slice.
pub(crate) fn signaller(number: u32, slice: &str, cpus: &[usize]) -> Result<ExitCode, Failure> {
    // A signaller has a router's rights: sockets from the node, a clock, and memory.
    let mut profile = Profile::router(slice, number);
    profile.limits.open_files = SIGNALLER_DESCRIPTORS;
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    name_process(c"europa-signal");
    finish(europa_signaller::run(control))
}

/// Most descriptors of a signaller: one for each router of its slice with signalling.
const SIGNALLER_DESCRIPTORS: u64 = 4096;

/// Folders that every program may read: the system's programs and libraries.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/bin"];

/// The files that a program can read: the system's, and those that its command names by an absolute
/// path.
fn mounts(command: &[String]) -> Vec<Mount> {
    let words = command.iter().map(Path::new);
    let named = words.filter(|word| word.is_absolute() && !word.starts_with("/usr"));
    let seen = SYSTEM.map(Path::new).into_iter().chain(named).filter(|path| path.exists());
    seen.map(|path| Mount { source: path.into(), target: path.into() }).collect()
}

/// Runs a user's program as data plane: a router process that executes another program.
pub(crate) fn program(
    number: u32,
    name: &str,
    cpus: &[usize],
    command: &[String],
) -> Result<ExitCode, Failure> {
    let mut profile = Profile::program(name, number, mounts(command));
    profile.descriptors = vec![CONTROL];
    let control = locked_in(&profile, cpus)?;
    finish(europa_router::become_program(control, command))
}

/// Binds the process to the CPUs and enters the sandbox; only the control socket stays open.
fn locked_in(profile: &Profile, cpus: &[usize]) -> Result<OwnedFd, Failure> {
    schedule(cpus).map_err(|error| error.to_string())?;
    // Process 1 of a pid namespace ends only by a signal with a handler. When the machine shuts
    // down, the node that would end it may already have ended.
    register_conditional_shutdown(SIGTERM, 128 + SIGTERM, Arc::new(AtomicBool::new(true)))
        .map_err(|error| error.to_string())?;
    enter(profile).map_err(|error| error.to_string())?;
    // SAFETY: the node passes the control socket with this number. `enter` has closed all other
    // descriptors, and no other code in this process uses it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(CONTROL) })
}

fn finish<E: std::fmt::Display>(result: Result<(), E>) -> Result<ExitCode, Failure> {
    result.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string().into())
}
