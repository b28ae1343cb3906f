//! The users of a router's slow path: its root has no rights on the host.
//!
//! A router's network namespace belongs to that user namespace. So all capabilities of a program
//! there apply only to the router's own network, mounts and processes: files and devices of the
//! host treat it as an unknown user.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{chown, fchown, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use serde::{Deserialize, Serialize};

/// The first of the numbers that slow paths' users and groups have on the host. They are otherwise
/// unused, as sub-users of `adduser` end below, and so do those of systemd's containers.
const FIRST_ID: u32 = 0x7000_0000;
/// Number of users and groups of each slow path.
const IDS: u32 = 65_536;
/// Most slow paths of a machine: all numbers up to those that are negative as `int`.
const RANGES: u32 = 4096;
/// Where it is noted whose a range is, beside the folders of all nodes: no node's name has a dot.
const CLAIMS: &str = ".ids";
/// The file in a slow path's folder with its range.
const FILE: &str = "ids";

/// The users and groups of one slow path: a range of its own, so that each slow path has separate
/// limits by user in the kernel (processes, pipes, watches).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The host's number of its user and group 0.
    first: u32,
}

impl Ids {
    /// The range of the slow path with this folder; claims one if it has none yet.
    ///
    /// # Errors
    /// No range is free, or the claim cannot be written.
    pub fn of(folder: &Path) -> io::Result<Ids> {
        if let Some(there) = Ids::read(folder) {
            return Ok(there);
        }
        fs::create_dir_all(folder)?;
        let taken = ["/etc/subuid", "/etc/subgid"];
        let taken: Vec<_> = taken
            .iter()
            .flat_map(|path| delegated(&fs::read_to_string(path).unwrap_or_default()))
            .collect();
        let ids = claim(&claims(folder), folder, &taken)?;
        fs::write(folder.join(FILE), ids.first.to_string())?;
        Ok(ids)
    }

    /// The range that was claimed for a folder.
    pub fn read(folder: &Path) -> Option<Ids> {
        let first = fs::read_to_string(folder.join(FILE)).ok()?.trim().parse().ok()?;
        Some(Ids { first })
    }

    /// Releases the range of a removed folder. No process runs under its users.
    pub fn release(self, folder: &Path) {
        let claims = claims(folder);
        let Ok(_lock) = lock(&claims) else { return };
        let place = claims.join(self.number().to_string());
        if fs::read_link(&place).is_ok_and(|owner| owner == folder) && !folder.exists() {
            let _ = fs::remove_file(place);
            // Fails while others have one.
            let _ = fs::remove_dir(claims);
        }
    }

    /// The number of its range: less than 4096, and of no other slow path of the machine.
    pub fn number(self) -> u32 {
        self.first.saturating_sub(FIRST_ID) / IDS
    }

    /// The host's number of one of its users or groups.
    pub(crate) fn on_host(self, id: u32) -> u32 {
        self.first.saturating_add(id.min(IDS - 1))
    }

    /// Changes the owner of a file or directory to a user and group of the slow path.
    pub(crate) fn give(self, path: &Path, user: u32, group: u32) -> io::Result<()> {
        chown(path, Some(self.on_host(user)), Some(self.on_host(group)))
    }

    /// Makes a directory below `root`, with all above it that are missing; all of them are the
    /// slow path's root's.
    pub(crate) fn make_folder(self, root: &Path, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent().filter(|parent| parent.starts_with(root)) {
            self.make_folder(root, parent)?;
        }
        fs::create_dir_all(folder)?;
        self.give(folder, 0, 0)
    }

    /// Changes the owner of an open file to the root of the slow path, which can then open it
    /// again.
    ///
    /// # Errors
    /// The file system's error.
    pub fn give_to_root(self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.on_host(0)), Some(self.on_host(0)))
    }
}

/// The folder of claims, for a folder `NODES/NAME/slow/ROUTER`.
fn claims(folder: &Path) -> PathBuf {
    folder.ancestors().nth(3).unwrap_or(Path::new("/run/europa")).join(CLAIMS)
}

/// Only one process at a time changes claims, which several nodes share.
fn lock(claims: &Path) -> io::Result<Flock<File>> {
    let folder = File::open(claims)?;
    Flock::lock(folder, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

/// Finds a free range: a link `CLAIMS/NUMBER` leads to the folder of its owner.
fn claim(claims: &Path, folder: &Path, taken: &[Range<u64>]) -> io::Result<Ids> {
    fs::create_dir_all(claims)?;
    let _lock = lock(claims)?;
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    // The same one each time if it is free, so that few are tried.
    let begin = u32::try_from(hasher.finish() % u64::from(RANGES)).unwrap_or(0);
    for number in (begin..RANGES).chain(0..begin) {
        let ids = Ids { first: FIRST_ID + number * IDS };
        let own = u64::from(ids.first)..u64::from(ids.first) + u64::from(IDS);
        if taken.iter().any(|taken| taken.start < own.end && own.start < taken.end) {
            continue;
        }
        let place = claims.join(number.to_string());
        if let Ok(owner) = fs::read_link(&place) {
            let node = owner.ancestors().nth(2).unwrap_or(&owner);
            if owner == folder {
                return Ok(ids);
            }
            if node.exists() {
                continue;
            }
            // Its node was removed with all its objects.
            fs::remove_file(&place)?;
        }
        symlink(folder, &place)?;
        return Ok(ids);
    }
    Err(io::Error::other(format!(
        "all {RANGES} ranges of users are taken: this machine has as many slow paths"
    )))
}

/// The ranges of `/etc/subuid` or `/etc/subgid`, lines of `NAME:FIRST:COUNT`.
fn delegated(text: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let mut words = line.split(':').skip(1);
        let first: u64 = words.next()?.trim().parse().ok()?;
        let count: u64 = words.next()?.trim().parse().ok()?;
        Some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

/// The message of [`hold`] when its namespaces exist.
const READY: &[u8] = b"ready\n";

/// A process that makes a user and a network namespace, reports this on standard output, and holds
/// them until it is killed. Needs a process with one thread.
///
/// # Errors
/// The kernel's error.
pub fn hold() -> io::Result<std::convert::Infallible> {
    use std::io::Write as _;
    set_pdeathsig(Signal::SIGKILL)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// Waits for the message of [`hold`] and maps users and groups into its user namespace.
///
/// # Errors
/// Another message with the reason of a failure, or the kernel refuses the numbers.
pub fn appoint(process: u32, ids: Ids, mut says: impl io::Read) -> io::Result<()> {
    let mut word = [0; READY.len()];
    let mut length = 0;
    while let Some(rest) = word.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match says.read(rest)? {
            0 => break,
            more => length += more,
        }
    }
    if word != READY {
        let mut said = String::from_utf8_lossy(word.get(..length).unwrap_or_default()).into_owned();
        says.read_to_string(&mut said)?;
        return Err(io::Error::other(format!("no user namespace: {}", said.trim())));
    }
    for table in ["uid_map", "gid_map"] {
        let path = format!("/proc/{process}/{table}");
        fs::write(&path, format!("0 {} {IDS}", ids.first))
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    }
    Ok(())
}

/// Makes the calling process, which must have one thread, root of a user namespace, with its own
/// mounts; it cannot undo the former ones.
pub(crate) fn become_root(namespace: OwnedFd) -> io::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWUSER)?;
    // A mount namespace of a user namespace with fewer rights has copies of the mounts, which the
    // kernel locks (mount_namespaces(7)).
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
    setgroups(&[])?;
    let (user, group) = (Uid::from_raw(0), Gid::from_raw(0));
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_has_a_range_of_its_own() {
        let nodes = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| nodes.path().join("n").join("slow").join(name);
        let all: Vec<Ids> =
            (0..40).map(|n| Ids::of(&folder(&format!("s.r{n}"))).expect("a range")).collect();
        for (place, ids) in all.iter().enumerate() {
            assert!(ids.first >= FIRST_ID && ids.on_host(u32::MAX) - ids.first == IDS - 1);
            assert!(all.iter().skip(place + 1).all(|other| other != ids), "{ids:?} twice");
        }
        assert_eq!(Ids::of(&folder("s.r7")).expect("a range"), all[7], "found again");
        // Its claim is found without its own file too.
        fs::remove_file(folder("s.r7").join(FILE)).expect("a file");
        assert_eq!(Ids::of(&folder("s.r7")).expect("a range"), all[7]);

        all[7].release(&folder("s.r7"));
        assert!(claims(&folder("s.r7")).join(all[7].number().to_string()).is_symlink(), "in use");
        fs::remove_dir_all(folder("s.r7")).expect("gone");
        all[7].release(&folder("s.r7"));
        assert!(!claims(&folder("s.r7")).join(all[7].number().to_string()).is_symlink());
    }

    #[test]
    fn ranges_that_others_have_are_left_alone() {
        let nodes = tempfile::tempdir().expect("a folder");
        let folder = nodes.path().join("n/slow/s.r1");
        let all = u64::from(FIRST_ID)..u64::from(FIRST_ID) + u64::from(RANGES) * u64::from(IDS);
        let last = all.end - u64::from(IDS);
        let text = format!("a:{}:{}\nbroken\n", all.start, last - all.start);
        let ids = claim(&claims(&folder), &folder, &delegated(&text)).expect("the last one");
        assert_eq!(u64::from(ids.first), last);
        let error = claim(&claims(&folder), &folder, &[all]).expect_err("none is left");
        assert!(error.to_string().contains("4096 ranges"), "{error}");
    }
}
