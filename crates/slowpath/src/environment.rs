//! What a program in a slow path sees: the router's network, the host's files for reading
//! only, and directories and files of the router's own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use europa_port::Namespace;
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{User, sethostname};
use serde::{Deserialize, Serialize};

/// Directories that every router has for itself.
const OWN: [&str; 4] = ["/run", "/tmp", "/var/log", "/var/tmp"];
/// Directories that are not replaced as a whole for a file in them.
const SHARED: [&str; 4] = ["/", "/etc", "/usr", "/var"];
/// Capabilities of every program, which reach no further than its namespaces and its files.
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
    /// What stands in it.
    pub text: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Its permissions.
    pub mode: Option<u32>,
}

/// What programs of one router see.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the network namespace.
    pub namespace: String,
    /// `slice/router`.
    pub router: String,
    /// Its control group's name.
    pub group: String,
    /// What is put in the place of what.
    binds: Vec<(PathBuf, PathBuf)>,
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Environment {
    /// Makes the directories and files below `folder`, and notes there what goes where.
    ///
    /// # Errors
    /// A file that cannot be where it is to be, or a user that is not there.
    pub fn make(
        folder: &Path,
        namespace: &str,
        router: &str,
        files: &[FileSpec],
    ) -> io::Result<Environment> {
        let root = folder.join("root");
        let mut binds: Vec<(PathBuf, PathBuf)> = Vec::new();
        let inside = |path: &str| root.join(path.trim_start_matches('/'));
        for own in OWN {
            fs::create_dir_all(inside(own))?;
            binds.push((inside(own), own.into()));
        }
        fs::set_permissions(inside("/tmp"), fs::Permissions::from_mode(0o1777))?;
        for file in files {
            let target = Path::new(&file.path);
            let place = inside(&file.path);
            let is_own = OWN.iter().any(|own| target.starts_with(own));
            let is_directory = file.path.ends_with('/');
            if is_directory {
                fs::create_dir_all(&place).map_err(|error| named(error, &place))?;
            } else {
                if let Some(parent) = place.parent() {
                    fs::create_dir_all(parent).map_err(|error| named(error, parent))?;
                }
                fs::write(&place, &file.text).map_err(|error| named(error, &place))?;
            }
            let mode = file.mode.unwrap_or(if is_directory { 0o755 } else { 0o644 });
            fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
            if let Some(owner) = &file.owner {
                let user = User::from_name(owner)?.ok_or_else(|| {
                    io::Error::other(format!("{}: there is no user {owner}", file.path))
                })?;
                chown(&place, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
            }
            if is_own {
                continue;
            }
            let directory = if is_directory { Some(target) } else { target.parent() };
            let directory = directory.unwrap_or(Path::new("/"));
            let bind = if SHARED.iter().any(|shared| Path::new(shared) == directory) {
                (place, target.to_owned())
            } else {
                (inside(&directory.to_string_lossy()), directory.to_owned())
            };
            if !bind.1.exists() {
                return Err(io::Error::other(format!(
                    "{}: the host has no {}; put the file below /run",
                    file.path,
                    bind.1.display()
                )));
            }
            if !binds.contains(&bind) {
                binds.push(bind);
            }
        }
        let group = router.replace('/', "_");
        let environment =
            Environment { namespace: namespace.into(), router: router.into(), group, binds };
        fs::write(folder.join("environment.json"), serde_json::to_vec(&environment)?)?;
        Ok(environment)
    }

    /// Reads what [`Environment::make`] noted.
    ///
    /// # Errors
    /// There is nothing.
    pub fn read(folder: &Path) -> io::Result<Environment> {
        Ok(serde_json::from_slice(&fs::read(folder.join("environment.json"))?)?)
    }

    /// Puts the calling process, which has one thread, into the environment; with `own_pids` it
    /// is the first of its process numbers. Afterwards it has no other capabilities than those
    /// of every program here and `more`, and cannot get them back.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn enter(&self, own_pids: bool, more: &[String]) -> io::Result<()> {
        let more = more.iter().map(|name| capability(name)).collect::<Result<Vec<_>, _>>()?;
        let network = Namespace::named(&self.namespace)?;
        setns(network, CloneFlags::CLONE_NEWNET)?;
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
        sethostname(self.router.rsplit('/').next().unwrap_or("router"))?;
        let here = std::env::current_dir().unwrap_or("/".into());
        self.mounts(own_pids)?;
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

    fn mounts(&self, own_pids: bool) -> io::Result<()> {
        const NONE: Option<&str> = None;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
        // The sources lie below /run, which is hidden by the first of these.
        for (from, to) in self.binds.iter().rev() {
            mount(Some(from), to, NONE, MsFlags::MS_BIND, NONE)
                .map_err(|errno| named(errno.into(), to))?;
        }
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
            // Mounts that others hide cannot be reached, here or by anybody.
            let _ = mount(NONE, path, NONE, flags, NONE);
        }
        let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        if own_pids {
            mount(Some("proc"), "/proc", Some("proc"), harmless, NONE)?;
        }
        // A view of the router's devices; where it is refused, the host's stays.
        if mount(Some("sysfs"), "/sys", Some("sysfs"), harmless | MsFlags::MS_RDONLY, NONE).is_err()
        {
            tracing::debug!("/sys shows the host's devices");
        }
        // Of the kernel's settings only the network's are the router's.
        let aside = "/run/.net";
        fs::create_dir_all(aside)?;
        mount(Some("/proc/sys/net"), aside, NONE, MsFlags::MS_BIND, NONE)?;
        mount(Some("/proc/sys"), "/proc/sys", NONE, MsFlags::MS_BIND, NONE)?;
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | harmless;
        mount(NONE, "/proc/sys", NONE, read_only, NONE)?;
        mount(Some(aside), "/proc/sys/net", NONE, MsFlags::MS_BIND, NONE)?;
        umount(aside)?;
        Ok(())
    }
}

/// A capability by its name, with or without `cap_`, in small letters or capitals.
fn capability(name: &str) -> io::Result<Capability> {
    let upper = name.to_uppercase();
    let full = if upper.starts_with("CAP_") { upper } else { format!("CAP_{upper}") };
    full.parse().map_err(|_| io::Error::other(format!("{name} is no capability")))
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

/// A program's variables: few, and the same everywhere.
pub fn variables(router: &str) -> Vec<(&'static OsStr, String)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    [("PATH", path), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("EUROPA_ROUTER", router)]
        .map(|(name, value)| (OsStr::new(name), value.to_owned()))
        .to_vec()
}
