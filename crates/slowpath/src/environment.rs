//! The view of a program in a slow path: the router's network, the host's files for reading only,
//! and directories and files of the router's own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process;

use caps::{CapSet, Capability};
use europa_port::Namespace;
use nix::mount::{MntFlags, MsFlags, mount, umount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{User, sethostname};
use serde::{Deserialize, Serialize};

use crate::place::{self, Rights, Way};
use crate::users::{Ids, become_root};

/// Directories that every router has for itself.
const OWN: [&str; 5] = ["/run", "/root", "/tmp", "/var/log", "/var/tmp"];
/// The bytes that a router's programs may write together. It is memory, and counts as theirs.
const WRITTEN: &str = "mode=0755,size=256m,nr_inodes=64k";
/// Where mounts are put together. It stays: its removal would remove the files of others there.
const ASIDE: &str = "/run/.europa";
/// Directories that are not replaced as a whole for a file in them.
const SHARED: [&str; 4] = ["/", "/etc", "/usr", "/var"];
/// Devices that programs see; all of them are open to every user on any machine.
const DEVICES: [&str; 7] = ["full", "net/tun", "null", "random", "tty", "urandom", "zero"];
/// Capabilities of every program. As root of a user namespace it has them for the router's
/// network, processes and files, and not for the host's.
const KEPT: [Capability; 14] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_SETPCAP,
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_KILL,
    Capability::CAP_SYS_CHROOT,
    Capability::CAP_SYS_NICE,
    Capability::CAP_AUDIT_WRITE,
];

/// A file or, with a slash at the end of its path, a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Where programs see it.
    pub path: String,
    /// Its contents.
    pub text: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Its permissions.
    pub mode: Option<u32>,
}

/// The view of one router's programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the network namespace.
    pub namespace: String,
    /// `slice/router`.
    pub router: String,
    /// Its control group's name.
    pub group: String,
    /// Its users and groups.
    pub ids: Ids,
    /// The mounts: source and target.
    binds: Vec<(PathBuf, PathBuf)>,
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes the files of [`Environment::make`] below `folder`, and all files written there.
///
/// # Errors
/// The kernel's error.
pub fn remove(folder: &Path) -> io::Result<()> {
    // Programs that still run there keep it until they end.
    let _ = umount2(&folder.join("root"), MntFlags::MNT_DETACH);
    fs::remove_dir_all(folder)
}

/// A file system of its own for the writes of a router's programs: full, it is full for them alone.
fn mount_root(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let is_mounted = device(root)? != device(root.parent().unwrap_or(root))?;
    if is_mounted || fs::read_dir(root)?.next().is_some() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("europa"), root, Some("tmpfs"), flags, Some(WRITTEN))?)
}

impl Environment {
    /// Makes the directories and files below `folder`, and notes their places there.
    ///
    /// # Errors
    /// A file with an impossible path, or a user that does not exist.
    pub fn make(
        folder: &Path,
        namespace: &str,
        router: &str,
        files: &[FileSpec],
    ) -> io::Result<Environment> {
        let root = folder.join("root");
        mount_root(&root)?;
        let ids = Ids::of(folder)?;
        for own in OWN {
            let place = root.join(own.trim_start_matches('/'));
            make_folder(&root, &place, ids)?;
        }
        fs::create_dir_all(root.join(ASIDE.trim_start_matches('/')))?;
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        for file in files {
            lay(&root, file, ids).map_err(|error| named(error, Path::new(&file.path)))?;
        }
        let group = group(router);
        let (namespace, router) = (namespace.into(), router.into());
        let binds = binds(&root, files)?;
        let environment = Environment { namespace, router, group, ids, binds };
        environment.note(folder)?;
        Ok(environment)
    }

    /// Removes the files `gone` below `folder` and writes `changed`, so that `all` are there, while
    /// programs run. Programs see it at once, but for files that begin to hide the host's: only
    /// programs that enter later see those.
    ///
    /// # Errors
    /// A file with an impossible path, or a user that does not exist.
    pub fn change(
        folder: &Path,
        gone: &[FileSpec],
        changed: &[&FileSpec],
        all: &[FileSpec],
    ) -> io::Result<()> {
        let root = folder.join("root");
        let environment = Environment::read(folder)?;
        let named = |file: &FileSpec, error| named(error, Path::new(&file.path));
        for file in gone {
            place::remove(&root, Path::new(&file.path)).map_err(|error| named(file, error))?;
        }
        for file in changed {
            lay(&root, file, environment.ids).map_err(|error| named(file, error))?;
        }
        Environment { binds: binds(&root, all)?, ..environment }.note(folder)
    }

    /// Writes down the programs' view, for processes that enter.
    fn note(&self, folder: &Path) -> io::Result<()> {
        let (path, new) = (folder.join("environment.json"), folder.join("environment.json.new"));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, &path)
    }

    /// Reads the notes of [`Environment::make`].
    ///
    /// # Errors
    /// There is nothing.
    pub fn read(folder: &Path) -> io::Result<Environment> {
        Ok(serde_json::from_slice(&fs::read(folder.join("environment.json"))?)?)
    }

    /// The same view for an sshd, which refuses a locked root: the machine's `/etc/shadow` cannot be
    /// read there, and other sources of accounts may have root locked. `folder` is that of
    /// [`Environment::make`]. A file of the router's own is left as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn with_open_root(mut self, folder: &Path) -> io::Result<Environment> {
        let target = Path::new("/etc/shadow");
        let is_own = self.binds.iter().any(|(_, to)| target.starts_with(to));
        if is_own || !target.exists() {
            return Ok(self);
        }
        // No program of the router can reach this folder.
        let (file, new) = (folder.join("shadow"), folder.join(format!("shadow.{}", process::id())));
        fs::write(&new, "root:*:::::::\n")?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o444))?;
        fs::rename(&new, &file)?;
        self.binds.push((file, target.to_owned()));
        Ok(self)
    }

    /// Puts the calling process, which has one thread and the process numbers that programs are
    /// to see, into the environment. Afterwards it has no other capabilities than those
    /// of every program here and `more`, and cannot get them back.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn enter(&self, more: &[String]) -> io::Result<()> {
        let more = more.iter().map(|name| capability(name)).collect::<Result<Vec<_>, _>>()?;
        let network = Namespace::named(&self.namespace)?;
        let users = network.owner()?;
        setns(network, CloneFlags::CLONE_NEWNET)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        let here = std::env::current_dir().unwrap_or("/".into());
        self.mounts()?;
        become_root(users)?;
        sethostname(self.router.rsplit('/').next().unwrap_or("router"))?;
        // Terminals that `sshd` and the like make belong to the slow path.
        let options = Some("newinstance,ptmxmode=0666,mode=0620,gid=5");
        mount(Some("devpts"), "/dev/pts", Some("devpts"), MsFlags::MS_NOSUID, options)?;
        // The old place may be hidden now, or still lead to the host's files.
        if std::env::set_current_dir(&here).is_err() {
            std::env::set_current_dir("/")?;
        }
        for one in caps::all() {
            if !KEPT.contains(&one) && !more.contains(&one) {
                // Those that this process has not cannot be dropped, and need not be.
                let _ = caps::drop(None, CapSet::Bounding, one);
                for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
                    let _ = caps::drop(None, set, one);
                }
            }
        }
        Ok(())
    }

    fn mounts(&self) -> io::Result<()> {
        const NONE: Option<&str> = None;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
        // The sources lie below /run, which is hidden by the first of these.
        for (from, to) in self.binds.iter().rev() {
            mount(Some(from), to, NONE, MsFlags::MS_BIND, NONE)
                .map_err(|errno| named(errno.into(), to))?;
        }
        devices()?;
        let own: Vec<&Path> = self.binds.iter().map(|(_, to)| to.as_path()).collect();
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        for line in table.lines() {
            let mut words = line.split(' ').skip(4);
            let (Some(at), Some(options)) = (words.next(), words.next()) else { continue };
            let path = Path::new(at);
            let special = ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
            if special || own.contains(&path) {
                continue;
            }
            let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            for (word, flag) in [
                ("nosuid", MsFlags::MS_NOSUID),
                ("nodev", MsFlags::MS_NODEV),
                ("noexec", MsFlags::MS_NOEXEC),
                ("noatime", MsFlags::MS_NOATIME),
                ("nodiratime", MsFlags::MS_NODIRATIME),
                ("relatime", MsFlags::MS_RELATIME),
            ] {
                if options.split(',').any(|option| option == word) {
                    flags |= flag;
                }
            }
            // No process can reach mounts below other mounts.
            let _ = mount(NONE, path, NONE, flags, NONE);
        }
        let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), harmless, NONE)?;
        // A view of the router's devices; where it is refused, the host's stays.
        if mount(Some("sysfs"), "/sys", Some("sysfs"), harmless | MsFlags::MS_RDONLY, NONE).is_err()
        {
            tracing::debug!("/sys shows the host's devices");
        }
        // Of the kernel's settings only the network's are the router's.
        let aside = ASIDE;
        mount(Some("/proc/sys/net"), aside, NONE, MsFlags::MS_BIND, NONE)?;
        mount(Some("/proc/sys"), "/proc/sys", NONE, MsFlags::MS_BIND, NONE)?;
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | harmless;
        mount(NONE, "/proc/sys", NONE, read_only, NONE)?;
        mount(Some(aside), "/proc/sys/net", NONE, MsFlags::MS_BIND, NONE)?;
        umount(aside)?;
        Ok(())
    }
}

/// Puts a file or directory in its place below `root`.
fn lay(root: &Path, file: &FileSpec, ids: Ids) -> io::Result<()> {
    let (path, is_directory) = (Path::new(&file.path), file.path.ends_with('/'));
    let (user, group) = match &file.owner {
        None => (0, 0),
        Some(owner) => {
            let user = User::from_name(owner)?;
            let user = user.ok_or_else(|| io::Error::other(format!("there is no user {owner}")))?;
            (user.uid.as_raw(), user.gid.as_raw())
        }
    };
    let rights =
        |user, group, mode| Rights { user: ids.on_host(user), group: ids.on_host(group), mode };
    let mode = file.mode.unwrap_or(if is_directory { 0o755 } else { 0o644 });
    let (above, own) = (rights(0, 0, 0o755), rights(user, group, mode));
    if is_directory {
        return place::make_folder(root, path, above, Some(own));
    }
    let way = if cover(&file.path) == Some(path) { Way::Overwrite } else { Way::Swap };
    place::write(root, path, file.text.as_bytes(), (above, own), way)
}

/// The host's paths that these files hide.
fn binds(root: &Path, files: &[FileSpec]) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    // A slow path of an older node may lack some.
    let own = OWN.iter().map(|own| (inside(Path::new(own)), PathBuf::from(own)));
    let mut binds: Vec<(PathBuf, PathBuf)> =
        own.filter(|(from, to)| from.is_dir() && to.is_dir()).collect();
    for file in files {
        if let Some(missing) = missing_on_host(&file.path) {
            return Err(io::Error::other(format!(
                "{}: the host has no {}; put the file below /run",
                file.path,
                missing.display()
            )));
        }
        let Some(covered) = cover(&file.path) else { continue };
        let bind = (inside(covered), covered.to_owned());
        if !binds.contains(&bind) {
            binds.push(bind);
        }
    }
    Ok(binds)
}

/// The host's path that a file hides from programs; nothing if it is in a directory of the router's
/// own.
pub fn cover(path: &str) -> Option<&Path> {
    (!own(Path::new(path))).then(|| covered(path))
}

/// Whether a path is in a directory that every router has for itself.
pub fn own(path: &Path) -> bool {
    OWN.iter().any(|own| path.starts_with(own))
}

/// The host's path that a file covers: its directory, or the one file in a directory with too many
/// other uses.
fn covered(path: &str) -> &Path {
    let target = Path::new(path);
    let directory = if path.ends_with('/') { Some(target) } else { target.parent() };
    let directory = directory.unwrap_or(Path::new("/"));
    if SHARED.iter().any(|shared| Path::new(shared) == directory) { target } else { directory }
}

/// The host's directory that a file needs.
pub fn missing_on_host(path: &str) -> Option<&Path> {
    let covered = covered(path);
    (!own(Path::new(path)) && !covered.exists()).then_some(covered)
}

/// Makes a directory below `root`, with all above it that are missing; all of them are the
/// slow path's root's.
fn make_folder(root: &Path, folder: &Path, ids: Ids) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| parent.starts_with(root)) {
        make_folder(root, parent, ids)?;
    }
    fs::create_dir_all(folder)?;
    ids.give(folder, 0, 0)
}

/// Puts a few harmless devices in the place of the host's.
fn devices() -> io::Result<()> {
    const NONE: Option<&str> = None;
    let aside = Path::new(ASIDE);
    mount(Some("tmpfs"), aside, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=0755,size=1m"))?;
    for device in DEVICES {
        let (from, to) = (Path::new("/dev").join(device), aside.join(device));
        if !from.exists() {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::File::create(&to)?;
        mount(Some(&from), &to, NONE, MsFlags::MS_BIND, NONE)?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(to, aside.join(name))?;
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777)] {
        fs::create_dir(aside.join(name))?;
        fs::set_permissions(aside.join(name), fs::Permissions::from_mode(mode))?;
    }
    mount(Some(aside), "/dev", NONE, MsFlags::MS_MOVE, NONE)?;
    Ok(())
}

/// A capability by its name, with or without `cap_`, in small letters or capitals.
fn capability(name: &str) -> io::Result<Capability> {
    let upper = name.to_uppercase();
    let full = if upper.starts_with("CAP_") { upper } else { format!("CAP_{upper}") };
    full.parse().map_err(|_| io::Error::other(format!("{name} is no capability")))
}

/// The control group of a router's programs. It is not that of its fast path: a program that
/// takes all memory there is must not have that killed.
pub fn group(router: &str) -> String {
    format!("{}_programs", router.replace('/', "_"))
}

/// Where the environment of a router is, below a node's own directory.
pub fn folder(node: &Path, router: &str) -> PathBuf {
    node.join("slow").join(router.replace('/', "."))
}

/// Whether every name in `capabilities` is one.
///
/// # Errors
/// The first that is none.
pub fn check_capabilities(capabilities: &[String]) -> io::Result<()> {
    capabilities.iter().try_for_each(|name| capability(name).map(drop))
}

/// Where programs are searched.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program's variables: few, and the same everywhere.
pub fn variables(router: &str) -> Vec<(&'static OsStr, String)> {
    [("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("EUROPA_ROUTER", router)]
        .map(|(name, value)| (OsStr::new(name), value.to_owned()))
        .to_vec()
}
