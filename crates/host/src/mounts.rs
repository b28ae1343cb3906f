//! The file system of a host: an overlay over the machine's, with separate `/dev`, `/proc`, `/run`
//! and `/sys`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use crate::{Bind, Inside, at, table};

const NONE: Option<&str> = None;
/// Limit of the files that a host's programs write, all together, in memory.
const WRITTEN: &str = "mode=0755,size=256m,nr_inodes=64k";
/// Devices that programs see; all of them are open to every user on any machine.
const DEVICES: [&str; 7] = ["full", "net/tun", "null", "random", "tty", "urandom", "zero"];
/// Files in `/proc` by which root changes or reads the whole machine.
const READ_ONLY: [&str; 6] = ["bus", "fs", "irq", "sys", "sysrq-trigger", "acpi"];
const HIDDEN: [&str; 5] = ["kcore", "keys", "latency_stats", "sched_debug", "timer_list"];
/// The list of names.
const HOSTS: &str = "/etc/hosts";
/// Mount point of the machine's files while the host's root directory is made.
const MACHINE: &str = "/.machine";

/// Makes the root directory of the calling process, which must have its own mount, pid and network
/// namespaces. `aside` is an empty directory of the machine.
///
/// # Errors
/// The kernel's error.
pub(crate) fn make(aside: &Path, inside: &Inside) -> io::Result<()> {
    let shown = inside.root.as_deref().unwrap_or(Path::new("/"));
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    // Paths are resolved before mounts hide them.
    let binds = inside.binds.iter().map(found).collect::<io::Result<Vec<_>>>()?;
    mount(Some("europa"), aside, Some("tmpfs"), MsFlags::empty(), Some(WRITTEN))
        .map_err(at(aside))?;
    let root = aside.join("root");
    fs::create_dir(&root)?;
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    let mut layers = Layers { aside, count: 0 };
    let is_machine = shown == Path::new("/");
    if let Err(error) = layers.overlay(shown, &root) {
        if !is_machine {
            return Err(error);
        }
        tracing::info!("programs of a host cannot write: no overlay over /: {error}");
        stand_in(&root)?;
    }
    let below = if is_machine { table::below_root(&text) } else { Vec::new() };
    for path in below {
        let target = root.join(path.strip_prefix("/").unwrap_or(&path));
        // A place that another mount hides cannot be reached, neither here nor on the machine.
        if target.exists()
            && let Err(error) = layers.put(&path, &target)
        {
            tracing::warn!("a host does not see {}: {error}", path.display());
        }
    }
    if !is_machine {
        for place in ["dev", "proc", "run", "sys", "tmp"] {
            fs::create_dir_all(root.join(place))?;
        }
    }
    let run = aside.join("run");
    fs::create_dir(&run)?;
    for name in ["lock", "netns"] {
        fs::create_dir(run.join(name))?;
    }
    mount(Some(&run), &root.join("run"), NONE, MsFlags::MS_BIND, NONE)?;
    devices(&root.join("dev"))?;
    kernel(&root)?;
    let machine = root.join(MACHINE.trim_start_matches('/'));
    fs::create_dir(&machine)?;
    chdir(&root)?;
    pivot_root(".", &machine)?;
    chdir("/")?;
    for bind in &binds {
        put(bind)?;
    }
    umount2(MACHINE, MntFlags::MNT_DETACH)?;
    fs::remove_dir(MACHINE)?;
    // From here on no file of the machine can be reached, except through binds.
    if !binds.iter().any(|bind| Path::new(HOSTS).starts_with(&bind.to))
        && let Err(error) = add_name(&inside.host)
    {
        tracing::info!("{HOSTS} does not name the host: {error}");
    }
    Ok(())
}

/// Adds the host's own name to the hosts file, where programs look before they ask a server.
fn add_name(host: &str) -> io::Result<()> {
    let before = fs::read(HOSTS).unwrap_or_default();
    let newline = if before.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(HOSTS)?;
    file.write_all(format!("{newline}127.0.1.1 {host}\n").as_bytes())
}

/// The layers of overlays.
struct Layers<'a> {
    aside: &'a Path,
    count: u32,
}

impl Layers<'_> {
    /// Shows `from` at `to`. If the kernel cannot make an overlay, programs can only read.
    fn put(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if from.is_dir() {
            match self.overlay(from, to) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::info!("no overlay over {}: {error}", from.display()),
            }
        }
        bind(from, to, true)
    }

    /// Shows the directory `from` at `to` with a layer for writes.
    fn overlay(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // These characters have a special meaning in a mount's options.
        let plain = from.to_str().filter(|text| !text.contains([',', ':', '\\', '"']));
        let Some(lower) = plain else {
            return Err(io::Error::other(
                "its name has a character that mount(8) takes as its own",
            ));
        };
        let layer = self.aside.join(self.count.to_string());
        self.count += 1;
        let (upper, work) = (layer.join("upper"), layer.join("work"));
        fs::create_dir_all(&upper)?;
        fs::create_dir(&work)?;
        // The root of an overlay has the owner and the permissions of its upper layer.
        let like = fs::metadata(from)?;
        chown(&upper, Some(like.uid()), Some(like.gid()))?;
        fs::set_permissions(&upper, like.permissions())?;
        let options =
            format!("lowerdir={lower},upperdir={},workdir={}", upper.display(), work.display());
        mount(Some("europa"), to, Some("overlay"), MsFlags::empty(), Some(&*options))
            .map_err(at(to))
    }
}

/// Makes a root directory in memory. Its directories are those of the machine, read-only.
fn stand_in(root: &Path) -> io::Result<()> {
    mount(Some(root), root, NONE, MsFlags::MS_BIND, NONE).map_err(at(root))?;
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let (from, to) = (entry.path(), root.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            let is_own =
                ["dev", "proc", "run", "sys", "tmp"].iter().any(|own| entry.file_name() == *own);
            if !is_own {
                bind(&from, &to, true)?;
            }
        }
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))
}

/// Binds a file or directory.
fn bind(from: &Path, to: &Path, read_only: bool) -> io::Result<()> {
    mount(Some(from), to, NONE, MsFlags::MS_BIND, NONE).map_err(at(to))?;
    if read_only {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(NONE, to, NONE, flags, NONE).map_err(at(to))?;
    }
    Ok(())
}

/// The bind with symbolic links in the machine's path resolved.
fn found(bind: &Bind) -> io::Result<Bind> {
    let from = fs::canonicalize(&bind.from).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", bind.from.display()))
    })?;
    Ok(Bind { from, ..bind.clone() })
}

/// Mounts the source of a bind at its place, which is made if it is missing.
fn put(bound: &Bind) -> io::Result<()> {
    let from = Path::new(MACHINE).join(bound.from.strip_prefix("/").unwrap_or(&bound.from));
    if !bound.to.exists() {
        let folder = if from.is_dir() { Some(&*bound.to) } else { bound.to.parent() };
        fs::create_dir_all(folder.unwrap_or(Path::new("/")))?;
        if !from.is_dir() {
            fs::File::create(&bound.to)?;
        }
    }
    bind(&from, &bound.to, bound.read_only)
}

/// Makes a `/dev` with a few harmless devices.
fn devices(dev: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID;
    mount(Some("tmpfs"), dev, Some("tmpfs"), flags, Some("mode=0755,size=1m")).map_err(at(dev))?;
    for device in DEVICES {
        let (from, to) = (Path::new("/dev").join(device), dev.join(device));
        if !from.exists() {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::File::create(&to)?;
        mount(Some(&from), &to, NONE, MsFlags::MS_BIND, NONE).map_err(at(&to))?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(to, dev.join(name))?;
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777)] {
        fs::create_dir(dev.join(name))?;
        fs::set_permissions(dev.join(name), fs::Permissions::from_mode(mode))?;
    }
    // The host has its own terminals, for `sshd` and similar programs.
    let options = Some("newinstance,ptmxmode=0666,mode=0620,gid=5");
    mount(Some("devpts"), &dev.join("pts"), Some("devpts"), flags, options)?;
    Ok(())
}

/// Mounts `/proc` and `/sys`. Of the kernel's settings the host can write only those of the
/// network.
fn kernel(root: &Path) -> io::Result<()> {
    let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let read_only = |path: &Path| -> io::Result<()> {
        mount(Some(path), path, NONE, MsFlags::MS_BIND, NONE).map_err(at(path))?;
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | harmless;
        mount(NONE, path, NONE, flags, NONE).map_err(at(path))
    };
    // These files are mounted again, writable, over the read-only rest.
    let writable = |path: &Path, aside: &Path, above: &Path| -> io::Result<()> {
        mount(Some(path), aside, NONE, MsFlags::MS_BIND, NONE).map_err(at(path))?;
        read_only(above)?;
        mount(Some(aside), path, NONE, MsFlags::MS_BIND, NONE).map_err(at(path))?;
        umount2(aside, MntFlags::MNT_DETACH).map_err(at(aside))
    };
    // Nothing is mounted there yet.
    let aside = root.join("run/netns");
    let proc = root.join("proc");
    mount(Some("proc"), &proc, Some("proc"), harmless, NONE).map_err(at(&proc))?;
    for name in READ_ONLY {
        let path = proc.join(name);
        match name {
            "sys" => writable(&path.join("net"), &aside, &path)?,
            _ if path.exists() => read_only(&path)?,
            _ => {}
        }
    }
    for name in HIDDEN {
        let path = proc.join(name);
        if path.exists() {
            mount(Some("/dev/null"), &path, NONE, MsFlags::MS_BIND, NONE).map_err(at(&path))?;
        }
    }
    let sys = root.join("sys");
    mount(Some("sysfs"), &sys, Some("sysfs"), harmless, NONE).map_err(at(&sys))?;
    let devices: PathBuf = sys.join("devices/virtual/net");
    if devices.exists() {
        return writable(&devices, &aside, &sys);
    }
    read_only(&sys)
}
