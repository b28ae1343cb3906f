//! The environment of a program in a slow path: the router's network, the host's files for reading
//! only, and the router's own directories and files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process;

use caps::{CapSet, Capability};
use europa_image::Image;
use europa_port::Namespace;
use nix::mount::{MntFlags, MsFlags, mount, umount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;
use serde::{Deserialize, Serialize};

pub use crate::files::{FileSpec, cover, missing_on_host, own};
use crate::files::{OWN, Place};
use crate::place;
use crate::users::{Ids, become_root};
use crate::view;

/// The total size of files that a router's programs may write. It is memory, and counts for them.
const WRITTEN: &str = "mode=0755,size=256m,nr_inodes=64k";
/// The folder in which mounts are assembled. It is never removed, as that would remove the files of
/// other processes there.
const ASIDE: &str = "/run/.europa";
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
    /// Its own root directory, and the folder below it.
    #[serde(default)]
    view: Option<(PathBuf, PathBuf)>,
    /// The image with the files of that folder.
    #[serde(default)]
    image: Option<Image>,
}

/// The root directory of a router's programs, if they may write to it.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// A folder of the machine. Its files stay whose they are.
    Folder(&'a Path),
    /// An image. Its files belong to users of the slow path.
    Image(&'a Image),
}

impl Root<'_> {
    fn folder(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::Image(image) => &image.root,
        }
    }
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes the files of [`Environment::make`] below `folder`, and all files written there.
///
/// # Errors
/// The kernel's error.
pub fn remove(folder: &Path) -> io::Result<()> {
    view::remove(folder);
    // Running programs keep it until they end.
    let _ = umount2(&folder.join("root"), MntFlags::MNT_DETACH);
    fs::remove_dir_all(folder)
}

/// Mounts a separate file system for the writes of a router's programs: if it is full, that affects
/// only them.
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
    /// Makes the directories and files below `folder`, and notes their places there. `shown` is the
    /// root directory of its programs, if they may write to it.
    ///
    /// # Errors
    /// A file with an impossible path, a user that does not exist, or no overlay over `shown`.
    pub fn make(
        folder: &Path,
        namespace: &str,
        router: &str,
        files: &[FileSpec],
        shown: Option<Root<'_>>,
    ) -> io::Result<Environment> {
        let root = folder.join("root");
        mount_root(&root)?;
        let ids = Ids::of(folder)?;
        for own in OWN {
            let place = root.join(own.trim_start_matches('/'));
            ids.make_folder(&root, &place)?;
        }
        fs::create_dir_all(root.join(ASIDE.trim_start_matches('/')))?;
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        let users = || Namespace::named(namespace)?.owner();
        let view = match shown {
            Some(Root::Folder(lower)) => {
                Some(view::make(folder, (lower, lower), &root, &OWN, ids)?)
            }
            Some(Root::Image(image)) => {
                Some(view::make_mapped(folder, &image.root, &root, &OWN, (ids, users))?)
            }
            None => None,
        };
        let lower = shown.map(|shown| shown.folder().to_owned());
        let view = view.zip(lower);
        let image = match shown {
            Some(Root::Image(image)) => Some(image.clone()),
            _ => None,
        };
        let users_of = image.as_ref().map(|image| &*image.root);
        let place = Place { root: &root, view: view.as_ref(), ids, users_of };
        for file in files {
            place.begin(file).map_err(|error| named(error, Path::new(&file.path)))?;
        }
        for file in files {
            place.lay(file).map_err(|error| named(error, Path::new(&file.path)))?;
        }
        let group = group(router);
        let (namespace, router) = (namespace.into(), router.into());
        let binds = place.binds(files)?;
        let environment = Environment { namespace, router, group, ids, binds, view, image };
        environment.note(folder)?;
        Ok(environment)
    }

    /// Removes the files `gone` below `folder` and writes `changed`, so that `all` are there, while
    /// programs run. Programs see the change at once, except files that begin to hide the host's:
    /// only programs that enter later see those.
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
        let users_of = environment.image.as_ref().map(|image| &*image.root);
        let (view, ids) = (environment.view.as_ref(), environment.ids);
        let place = Place { root: &root, view, ids, users_of };
        for file in gone {
            let (root, path) = place.of(&file.path);
            place::remove(root, &path).map_err(|error| named(file, error))?;
        }
        for file in changed {
            place.lay(file).map_err(|error| named(file, error))?;
        }
        let binds = place.binds(all)?;
        Environment { binds, ..environment }.note(folder)
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
    /// There are none.
    pub fn read(folder: &Path) -> io::Result<Environment> {
        Ok(serde_json::from_slice(&fs::read(folder.join("environment.json"))?)?)
    }

    /// The same environment for an sshd, which refuses a locked root: the machine's `/etc/shadow`
    /// cannot be read there, and other sources of accounts may have root locked. `folder` is that
    /// of [`Environment::make`]. A file of the router is not changed.
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

    /// Moves the calling process into the environment; it must have one thread and be in the
    /// programs' pid namespace. Afterwards it has only the capabilities of every program here and
    /// `more`, and cannot regain others.
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
        // The slow path has its own terminals, for `sshd` and similar programs.
        let options = Some("newinstance,ptmxmode=0666,mode=0620,gid=5");
        mount(Some("devpts"), "/dev/pts", Some("devpts"), MsFlags::MS_NOSUID, options)?;
        // The old directory may be hidden now, or still be the host's.
        if std::env::set_current_dir(&here).is_err() {
            std::env::set_current_dir("/")?;
        }
        for one in caps::all() {
            if !KEPT.contains(&one) && !more.contains(&one) {
                // Capabilities that this process does not have cannot be dropped, and need not be.
                let _ = caps::drop(None, CapSet::Bounding, one);
                for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
                    let _ = caps::drop(None, set, one);
                }
            }
        }
        Ok(())
    }

    /// The command of its image; empty without one.
    pub fn command(&self) -> Vec<String> {
        self.image.as_ref().map(|image| image.config.words()).unwrap_or_default()
    }

    /// The variables of its image.
    pub fn of_image(&self) -> Vec<(String, String)> {
        self.image.as_ref().map(|image| image.config.environment.clone()).unwrap_or_default()
    }

    /// A program's variables: those of every program, then those of its image.
    pub fn variables(&self) -> Vec<(String, String)> {
        let own = variables(&self.router).into_iter();
        let own = own.map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        own.chain(self.of_image()).collect()
    }

    /// The working directory in which `words` begin, and their user and group. For a process that
    /// is inside.
    ///
    /// # Errors
    /// The image has no such user.
    pub fn beginning(&self, words: &[String]) -> io::Result<(PathBuf, Option<(u32, u32)>)> {
        let config = self.image.as_ref().map(|image| &image.config);
        config.map_or_else(|| Ok((PathBuf::from("/"), None)), |config| config.beginning(words))
    }

    fn mounts(&self) -> io::Result<()> {
        const NONE: Option<&str> = None;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
        let machine = match &self.view {
            Some((view, lower)) => {
                view::enter(view, lower)?;
                Path::new(view::MACHINE)
            }
            None => Path::new("/"),
        };
        // The sources are below /run, which the first of these hides.
        for (from, to) in self.binds.iter().rev() {
            let from = machine.join(from.strip_prefix("/").unwrap_or(from));
            mount(Some(&from), to, NONE, MsFlags::MS_BIND, NONE)
                .map_err(|errno| named(errno.into(), to))?;
        }
        if self.view.is_some() {
            view::forget_machine()?;
        }
        devices()?;
        let own: Vec<&Path> = self.binds.iter().map(|(_, to)| to.as_path()).collect();
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        for line in table.lines() {
            let mut words = line.split(' ').skip(4);
            let (Some(at), Some(options)) = (words.next(), words.next()) else { continue };
            let path = Path::new(at);
            let special = ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
            let is_view = self.view.is_some() && path == Path::new("/");
            if special || is_view || own.contains(&path) {
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
        // The router's devices; if the mount is refused, the host's view stays.
        if mount(Some("sysfs"), "/sys", Some("sysfs"), harmless | MsFlags::MS_RDONLY, NONE).is_err()
        {
            tracing::debug!("/sys shows the host's devices");
        }
        // Of the kernel's settings only those of the network belong to the router.
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

/// The control group of a router's programs. It differs from that of its fast path, so that a
/// program that uses all memory does not get the fast path killed.
pub fn group(router: &str) -> String {
    format!("{}_programs", router.replace('/', "_"))
}

/// The folder of a router's environment, below a node's own directory.
pub fn folder(node: &Path, router: &str) -> PathBuf {
    node.join("slow").join(router.replace('/', "."))
}

/// Checks that every name in `capabilities` is one.
///
/// # Errors
/// The first that is none.
pub fn check_capabilities(capabilities: &[String]) -> io::Result<()> {
    capabilities.iter().try_for_each(|name| capability(name).map(drop))
}

/// The search path of programs.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program's variables: few, and the same everywhere.
pub fn variables(router: &str) -> Vec<(&'static OsStr, String)> {
    [("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("EUROPA_ROUTER", router)]
        .map(|(name, value)| (OsStr::new(name), value.to_owned()))
        .to_vec()
}
