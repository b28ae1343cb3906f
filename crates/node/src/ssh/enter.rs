//! `europa ssh-enter`: becomes the shell, the command or the sshd of a session inside the router.

use std::convert::Infallible;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use europa_sandbox::take_terminal;
use europa_slowpath::environment::{Environment, folder, variables};
use europa_slowpath::init;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::statfs::fstatfs;
use nix::unistd::{Uid, User, setsid};

use super::daemon::SSHD;
use crate::Instance;
use crate::program::find;

/// The directory of sshd's files inside a router.
const INSIDE: &str = "/run/europa-ssh";
/// `f_type` of anonymous pipes and of terminals (statfs(2)).
const PIPES: i64 = 0x5049_5045;
const TERMINALS: i64 = 0x1cd1;

/// The program that `europa ssh-enter` becomes.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Standard input is a terminal, which becomes that of the session.
    pub terminal: bool,
    /// The kind of terminal.
    pub term: Option<String>,
    /// An sshd that accepts the keys of `words`.
    pub sshd: bool,
    /// Empty for a shell, or one command line.
    pub words: Vec<String>,
}

/// Enters a router whose pid namespace and control group this process has, and executes the program
/// of a session. Returns only an error.
///
/// # Errors
/// The router cannot be entered, or the program cannot be executed.
pub fn enter(instance: &Instance, router: &str, entry: &Entry) -> Result<Infallible, String> {
    let failed = |error: io::Error| format!("entering {router}: {error}");
    init::begin_anew().map_err(failed)?;
    // This process ends together with `europa ssh-attend`.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(error.into()))?;
    setsid().map_err(|error| failed(error.into()))?;
    if entry.terminal {
        take_terminal(io::stdin().as_fd()).map_err(failed)?;
    }
    let folder = folder(&instance.directory(), router);
    let mut environment = Environment::read(&folder).map_err(failed)?;
    if entry.sshd {
        environment = environment.with_open_root(&folder).map_err(failed)?;
    }
    give_standard(&environment).map_err(failed)?;
    environment.enter(&[]).map_err(failed)?;
    // A change of user ids resets it.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(error.into()))?;
    // From here on this process has no rights on the machine.
    let home = variables(router).into_iter().find(|(name, _)| *name == "HOME");
    if home.is_none_or(|(_, home)| std::env::set_current_dir(home).is_err()) {
        std::env::set_current_dir("/").map_err(failed)?;
    }
    let mut command = program(entry)?;
    command.envs(environment.variables()).envs(entry.term.iter().map(|term| ("TERM", term)));
    let name = command.get_program().to_string_lossy().into_owned();
    Err(format!("{name}: {}", command.exec()))
}

/// Changes the owner of the standard descriptors to the router's root, which may then open them by
/// `/dev/stdout`. Applies only to terminals and pipes that sshd has made.
fn give_standard(environment: &Environment) -> io::Result<()> {
    let all =
        [io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?];
    for one in all.into_iter().chain([io::stderr().as_fd().try_clone_to_owned()?]) {
        let file = File::from(one);
        let kind = fstatfs(&file)?.filesystem_type().0;
        if matches!(kind, PIPES | TERMINALS) {
            environment.ids.give_to_root(&file)?;
        }
    }
    Ok(())
}

/// The command to execute, inside the router.
fn program(entry: &Entry) -> Result<Command, String> {
    if entry.sshd {
        return sshd(&entry.words).map_err(|error| format!("sshd inside the router: {error}"));
    }
    let user = User::from_uid(Uid::from_raw(0)).ok().flatten();
    let shell = user.map(|user| user.shell).filter(|shell| shell.is_file());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    let mut command = Command::new(&shell);
    command.env_clear().env("SHELL", &shell);
    match entry.words.first() {
        Some(line) => {
            command.args(["-c", line]);
        }
        // A login shell, as sshd starts it.
        None => {
            let name = shell.file_name().unwrap_or_default().to_string_lossy();
            command.arg0(format!("-{name}"));
        }
    }
    Ok(command)
}

/// An sshd that serves one connection over its standard input and output.
fn sshd(keys: &[String]) -> io::Result<Command> {
    let folder = |path: &str, mode: u32| DirBuilder::new().recursive(true).mode(mode).create(path);
    folder("/run/sshd", 0o755)?;
    folder(INSIDE, 0o700)?;
    let own = std::process::id();
    let key = format!("{INSIDE}/host_key");
    if fs::metadata(&key).is_err() {
        let new = format!("{key}.{own}");
        let keygen = find("ssh-keygen").ok_or_else(|| missing("ssh-keygen"))?;
        let made = Command::new(keygen)
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &new])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .status()?;
        if !made.success() {
            return Err(io::Error::other("no host key could be made"));
        }
        // Another session may have made a key meanwhile.
        let _ = fs::hard_link(&new, &key);
        let _ = fs::remove_file(&new);
        let _ = fs::remove_file(format!("{new}.pub"));
    }
    // Each user's keys have one name: files do not become more with each login.
    let mut hasher = DefaultHasher::new();
    keys.hash(&mut hasher);
    let known = format!("{INSIDE}/keys-{:016x}", hasher.finish());
    let new = format!("{known}.{own}");
    fs::write(&new, keys.join("\n") + "\n")?;
    fs::rename(&new, &known)?;
    let mut command = Command::new(find(SSHD).ok_or_else(|| missing(SSHD))?);
    command.env_clear().args(["-i", "-f", "/dev/null"]);
    for option in [
        format!("HostKey={key}"),
        format!("AuthorizedKeysFile={known}"),
        "AuthenticationMethods=publickey".into(),
        "PermitRootLogin=prohibit-password".into(),
        // The machine's own directories have an unknown owner there.
        "StrictModes=no".into(),
        "UsePAM=no".into(),
        "PidFile=none".into(),
        "PrintMotd=no".into(),
        "PrintLastLog=no".into(),
        "X11Forwarding=no".into(),
        "Subsystem=sftp internal-sftp".into(),
        "LogLevel=QUIET".into(),
    ] {
        command.args(["-o", &option]);
    }
    Ok(command)
}

fn missing(program: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("this machine has no {program}"))
}
