//! The sshd of a node: its files, and its process.
//!
//! The folder `/run/europa/.ssh/NAME` has the configuration, both sockets, and the program
//! `europa`, mounted there, because the account may have no access to the program's own folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use europa_sandbox::cgroup::{Cgroups, Group, Limits};
use europa_sandbox::{Child, SpawnSpec, end_descendants, inherited, keep_orphans, spawn};
use europa_slowpath::environment::PATH;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::account::{ACCOUNT, Account};
use super::attend::{Happened, Ward};
use crate::backoff::Backoff;
use crate::events::Events;
use crate::program::find;
use crate::{Doing, Instance, Lifetime, NodeError};

/// The program.
pub(super) const SSHD: &str = "sshd";
/// How long its processes may take to end, and to end when they are killed.
const GRACE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(2);
/// Most memory and processes of sshd and its connections, outside of routers.
const MEMORY_BYTES: u64 = 2 << 30;
const TASKS: u64 = 4096;
/// Its weight beside routers, which have 100 each: keys of unknown callers cost time too.
const CPU_WEIGHT: u64 = 50;
/// The folder in which sshd locks its processes without rights in.
const EMPTY: &str = "/run/sshd";

/// The program `europa` for the account.
pub(super) fn program(instance: &Instance) -> PathBuf {
    instance.ssh().join("europa")
}

/// The sshd of a node, with its files.
pub(super) struct Daemon {
    instance: Instance,
    running: Option<Running>,
    backoff: Backoff,
    due: Instant,
}

struct Running {
    child: Child,
    /// Closing it ends the process.
    _stay: OwnedFd,
    since: Instant,
}

fn refused(why: impl std::fmt::Display) -> NodeError {
    NodeError::Refused(format!("--ssh: {why}"))
}

/// The configuration. All other settings are sshd's defaults.
fn configuration(instance: &Instance, at: SocketAddr, key: &Path) -> String {
    let (name, europa) = (instance.name(), program(instance));
    format!(
        "# Written by the node at each start.\n\
         ListenAddress {at}\n\
         HostKey {key}\n\
         PidFile none\n\
         AllowUsers {ACCOUNT}\n\
         AuthenticationMethods publickey\n\
         AuthorizedKeysFile none\n\
         AuthorizedKeysCommand {europa} --instance {name} ssh-keys %t %k\n\
         AuthorizedKeysCommandUser {ACCOUNT}\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         PermitRootLogin no\n\
         UsePAM no\n\
         DisableForwarding yes\n\
         AllowTcpForwarding no\n\
         AllowStreamLocalForwarding no\n\
         AllowAgentForwarding no\n\
         X11Forwarding no\n\
         PermitTunnel no\n\
         PermitTTY yes\n\
         PermitUserEnvironment no\n\
         PermitUserRC no\n\
         AcceptEnv EUROPA_ROUTER\n\
         PrintMotd no\n\
         PrintLastLog no\n\
         MaxAuthTries 6\n\
         MaxStartups 128:30:256\n\
         PerSourceMaxStartups 64\n\
         LoginGraceTime 20\n\
         ClientAliveInterval 30\n\
         ClientAliveCountMax 3\n\
         LogLevel INFO\n",
        key = key.display(),
        europa = europa.display()
    )
}

impl Daemon {
    /// Makes the files, and has sshd check them.
    pub(super) fn prepare(
        instance: &Instance,
        lifetime: Lifetime,
        at: SocketAddr,
        account: &Account,
    ) -> Result<Daemon, NodeError> {
        let sshd = find(SSHD)
            .ok_or_else(|| refused("this machine has no sshd: apt-get install openssh-server"))?;
        let folder = instance.ssh();
        let what = || format!("making {}", folder.display());
        let make = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
        make(Path::new(EMPTY), 0o755).doing(format!("making {EMPTY}"))?;
        make(&folder, 0o755).doing(what())?;
        chown(&folder, Some(0), Some(account.group.as_raw())).doing(what())?;
        // For any umask. The folders above have nothing for other users.
        for (above, mode) in folder.ancestors().take(3).zip([0o750, 0o755, 0o755]) {
            fs::set_permissions(above, fs::Permissions::from_mode(mode)).doing(what())?;
        }
        show_program(instance).doing(what())?;
        let key = host_key(&instance.ssh_keys(lifetime))?;
        let file = config_file(instance);
        fs::write(&file, configuration(instance, at, &key)).doing(what())?;
        let checked = Command::new(sshd).arg("-t").arg("-f").arg(&file).output();
        let checked = checked.doing("having sshd check its configuration")?;
        if !checked.status.success() {
            return Err(refused(String::from_utf8_lossy(&checked.stderr).trim()));
        }
        // sshd reports this only in its log.
        await_port(at).doing(format!("listening at {at} for SSH"))?;
        let (instance, backoff) = (instance.clone(), Backoff::new());
        Ok(Daemon { instance, running: None, backoff, due: Instant::now() })
    }

    /// Starts it, if it does not run.
    pub(super) fn look(&mut self, events: &Events) {
        let now = Instant::now();
        if let Some(running) = &mut self.running {
            let Ok(Some(exit)) = running.child.try_wait() else { return };
            events.warn("node", "", "SshEnded", format!("sshd {exit}; it is started again"));
            self.due = self.backoff.failed(running.since.elapsed(), now);
            self.running = None;
        }
        if now < self.due {
            return;
        }
        match self.start() {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                tracing::warn!("{error}");
                self.due = self.backoff.failed(Duration::ZERO, now);
            }
        }
    }

    fn start(&self) -> Result<Running, NodeError> {
        let log = self.instance.log("ssh");
        let log = OpenOptions::new().create(true).append(true).open(log).doing("opening a log")?;
        let group = group(&self.instance);
        let (theirs, stay) = io::pipe().doing("making a pipe")?;
        let arguments = ["europa", "--instance", self.instance.name(), "ssh-daemon"];
        let child = spawn(&SpawnSpec {
            arguments: arguments.map(|word| word.as_ref()).to_vec(),
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group: group.as_ref(),
            pid_namespace: false,
        })?;
        Ok(Running { child, _stay: stay.into(), since: Instant::now() })
    }

    /// Ends it, with all its connections.
    pub(super) fn end(&mut self) {
        let Some(Running { child, _stay: stay, .. }) = self.running.take() else { return };
        drop(stay);
        let mut wait = [PollFd::new(child.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(2 * PATIENCE).unwrap_or(PollTimeout::ZERO);
        // Killed, if it has not ended by then, as `child` is dropped.
        let _ = poll(&mut wait, timeout);
    }
}

/// Waits until a port is free: the sshd of a killed node may end later.
fn await_port(at: SocketAddr) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match TcpListener::bind(at) {
            Ok(_) => return Ok(()),
            Err(error) if since.elapsed() > GRACE + PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The control group of sshd; `None` if groups do not work.
fn group(instance: &Instance) -> Option<Group> {
    let group = Cgroups::detect().ok()?.group(instance.name(), "ssh").ok()?;
    let limits = Limits {
        memory_bytes: Some(MEMORY_BYTES),
        tasks: Some(TASKS),
        cpu_weight: Some(CPU_WEIGHT),
        ..Limits::default()
    };
    if let Err(error) = group.set(&limits) {
        tracing::warn!("limits of sshd: {error}");
    }
    Some(group)
}

fn config_file(instance: &Instance) -> PathBuf {
    instance.ssh().join("sshd_config")
}

/// Makes this program accessible to the account. sshd executes only files that root alone can
/// change: others are copied.
fn show_program(instance: &Instance) -> io::Result<()> {
    let (own, shown) = (Path::new("/proc/self/exe"), program(instance));
    let found = fs::metadata(own)?;
    if found.uid() == 0 && found.mode() & 0o022 == 0 && found.mode() & 0o005 == 0o005 {
        File::create(&shown)?;
        const NONE: Option<&str> = None;
        return Ok(mount(Some(own), &shown, NONE, MsFlags::MS_BIND, NONE)?);
    }
    fs::copy(own, &shown)?;
    chown(&shown, Some(0), Some(0))?;
    fs::set_permissions(&shown, fs::Permissions::from_mode(0o755))
}

/// The file with the key that identifies this node to clients; makes it if it does not exist.
fn host_key(folder: &Path) -> Result<PathBuf, NodeError> {
    let key = folder.join("host_key");
    if key.exists() {
        return Ok(key);
    }
    let what = || format!("making {}", key.display());
    DirBuilder::new().recursive(true).mode(0o700).create(folder).doing(what())?;
    let keygen = find("ssh-keygen")
        .ok_or_else(|| refused("this machine has no ssh-keygen: apt-get install openssh-client"))?;
    let made = Command::new(keygen)
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "europa", "-f"])
        .arg(&key)
        .stdin(Stdio::null())
        .output()
        .doing(what())?;
    match made.status.success() {
        true => Ok(key),
        false => Err(refused(String::from_utf8_lossy(&made.stderr).trim())),
    }
}

/// `europa ssh-daemon`: runs sshd until it or the node ends. Then it ends all connections.
///
/// # Errors
/// The kernel's error.
pub fn supervise(instance: &Instance) -> Result<u8, String> {
    let failed = |error: io::Error| format!("sshd: {error}");
    let [stay] = inherited().map_err(|error| error.to_string())?;
    keep_orphans().map_err(failed)?;
    let sshd = find(SSHD).ok_or("this machine has no sshd")?;
    let mut command = Command::new(sshd);
    command.args(["-D", "-e", "-f"]).arg(config_file(instance)).env_clear().env("PATH", PATH);
    let ward = Ward::start(command.current_dir("/")).map_err(failed)?;
    let happened = ward.wait(&[stay.as_fd()]).map_err(failed)?;
    end_descendants(GRACE, PATIENCE);
    Ok(match happened {
        Happened::Ended(code) => code,
        Happened::Readable => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_forwarded_and_only_keys_count() {
        let instance = Instance::new("lab").expect("a name");
        let at = "[2001:db8::1]:2222".parse().expect("an address");
        let text = configuration(&instance, at, Path::new("/x/host_key"));
        for wanted in [
            "ListenAddress [2001:db8::1]:2222\n",
            "AuthorizedKeysCommand /run/europa/.ssh/lab/europa --instance lab ssh-keys %t %k\n",
            "DisableForwarding yes\n",
            "AcceptEnv EUROPA_ROUTER\n",
        ] {
            assert!(text.contains(wanted), "{wanted}");
        }
        assert!(!text.contains("Subsystem"));
    }
}
