//! A root directory of a router's own: an overlay over a folder of the machine. Programs can write
//! everywhere; their files are in the router's file system and are removed with it.
//!
//! The overlay is mounted once, in the node's mount namespace: two mounts of the same layers would
//! not see each other's writes. Each program that enters makes it its root directory.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use crate::users::Ids;

const NONE: Option<&str> = None;
/// Mount point of the machine's files while the mounts of a program are made.
pub(crate) const MACHINE: &str = "/.machine";
/// Directories in which root of the slow path may make, replace and remove files. In all other
/// directories it has the rights of any user to files of the machine.
const WRITABLE: [&str; 20] = [
    "/",
    "/etc",
    "/home",
    "/mnt",
    "/opt",
    "/srv",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
];
/// Files that programs extend in place: the slow path gets its own copies.
const COPIED: [&str; 4] = ["/etc/hosts", "/etc/hostname", "/etc/sysctl.conf", "/etc/resolv.conf"];
/// The longest file that is copied, in bytes.
const LONGEST: u64 = 64 << 10;
/// Most symbolic links on the path to a file, as in the kernel.
const MOST_LINKS: usize = 40;

/// The place of the layer for writes.
const LAYER: &str = ".layer";

/// The place of the overlay below a slow path's folder.
pub(crate) fn place(folder: &Path) -> PathBuf {
    folder.join("view")
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// [`make`] over the root directory `image` of an image, whose owners are users of the slow path.
/// `users` opens its user namespace.
pub(crate) fn make_mapped(
    folder: &Path,
    image: &Path,
    written: &Path,
    own: &[&str],
    (ids, users): (Ids, impl FnOnce() -> io::Result<OwnedFd>),
) -> io::Result<PathBuf> {
    let below = folder.join("image");
    fs::create_dir_all(&below)?;
    if written.join(LAYER).exists() {
        return Ok(place(folder));
    }
    europa_image::show_mapped(image, &below, users()?)?;
    let made = make(folder, (&below, image), written, own, ids);
    // The overlay keeps the mount.
    umount2(&below, MntFlags::MNT_DETACH)?;
    made
}

/// Mounts the overlay over `lower` below `folder`; messages name `told`. `written` is the file system
/// for writes, and `own` has the directories that other mounts will cover.
pub(crate) fn make(
    folder: &Path,
    (lower, told): (&Path, &Path),
    written: &Path,
    own: &[&str],
    ids: Ids,
) -> io::Result<PathBuf> {
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("an overlay over {}: {error}", told.display()))
    };
    let view = place(folder);
    fs::create_dir_all(&view)?;
    let layer = written.join(LAYER);
    if layer.exists() {
        return Ok(view);
    }
    // These characters have a special meaning in a mount's options.
    let (Some(below), Some(above)) = (plain(lower), plain(&layer)) else {
        return Err(failed(io::Error::other("its path has one of the characters , : \\ \"")));
    };
    let upper = layer.join("upper");
    fs::create_dir_all(&upper)?;
    fs::create_dir(layer.join("work"))?;
    for path in WRITABLE {
        give_folder(&inside(lower, path), &inside(&upper, path), ids)?;
    }
    for path in COPIED {
        copy(&inside(lower, path), &inside(&upper, path), ids)?;
    }
    for path in own.iter().chain(&[MACHINE, "/dev", "/proc", "/sys"]) {
        if !inside(lower, path).is_dir() {
            ids.make_folder(&upper, &inside(&upper, path))?;
        }
    }
    let options = format!("lowerdir={below},upperdir={above}/upper,workdir={above}/work");
    let made = mount(Some("europa"), &view, Some("overlay"), MsFlags::MS_NODEV, Some(&*options));
    if let Err(errno) = made {
        // The existence of the layers means that the overlay exists.
        fs::remove_dir_all(&layer)?;
        return Err(failed(errno.into()));
    }
    Ok(view)
}

/// A path as text, if it is valid in a mount's options.
fn plain(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| !text.contains([',', ':', '\\', '"']))
}

/// Gives the slow path's root a directory that all may read; its files keep their owners.
fn give_folder(lower: &Path, upper: &Path, ids: Ids) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(lower) else { return Ok(()) };
    if !found.is_dir() || found.permissions().mode() & 0o005 != 0o005 {
        return Ok(());
    }
    fs::create_dir_all(upper)?;
    fs::set_permissions(upper, found.permissions())?;
    ids.give(upper, 0, 0)
}

/// Copies a small file that all may read.
fn copy(lower: &Path, upper: &Path, ids: Ids) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(lower) else { return Ok(()) };
    let parent = upper.parent().is_some_and(Path::is_dir);
    let readable = found.permissions().mode() & 0o004 != 0;
    if !parent || !found.is_file() || !readable || found.len() > LONGEST {
        return Ok(());
    }
    fs::copy(lower, upper)?;
    ids.give(upper, 0, 0)
}

/// Unmounts the overlay, if there is one.
pub(crate) fn remove(folder: &Path) {
    // Running programs keep it until they end.
    let _ = umount2(&place(folder), MntFlags::MNT_DETACH);
}

/// A path with the symbolic links of `lower` resolved; absolute ones begin at the root directory in
/// it.
pub(crate) fn resolve(lower: &Path, path: &Path) -> PathBuf {
    let mut rest: Vec<PathBuf> = parts(path);
    let mut found = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            found.pop();
            continue;
        }
        let next = found.join(&part);
        match fs::read_link(lower.join(next.strip_prefix("/").unwrap_or(&next))) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    found = PathBuf::from("/");
                }
                rest.extend(parts(&target));
            }
            _ => found = next,
        }
    }
    found
}

/// The names in a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path
        .components()
        .rev()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// Makes the overlay the root directory of the calling process, which must have its own private
/// mount namespace. The machine's files are at [`MACHINE`] until [`forget_machine`].
pub(crate) fn enter(view: &Path, lower: &Path) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let below = if lower == Path::new("/") { outermost(&table) } else { Vec::new() };
    pivot_root(view, &inside(view, MACHINE))?;
    chdir("/")?;
    for top in ["/dev", "/proc", "/sys"] {
        attach(Path::new(top))?;
    }
    for path in below.iter().filter(|path| path.is_dir()) {
        // A file system that was unmounted meanwhile is skipped.
        let _ = attach(path);
    }
    Ok(())
}

/// Shows a path of the machine, with all mounts below it, at the same path.
fn attach(path: &Path) -> io::Result<()> {
    let from = Path::new(MACHINE).join(path.strip_prefix("/").unwrap_or(path));
    Ok(mount(Some(&from), path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?)
}

/// Takes the machine's files away from [`MACHINE`].
pub(crate) fn forget_machine() -> io::Result<()> {
    Ok(umount2(MACHINE, MntFlags::MNT_DETACH)?)
}

/// The mounts below `/` that are in no other one. Programs have separate `/dev`, `/proc`, `/run`
/// and `/sys`.
fn outermost(table: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|at| !at.contains('\\'))
        .map(PathBuf::from)
        .filter(|path| {
            let own = ["/dev", "/proc", "/sys", "/run"];
            path != Path::new("/") && !own.iter().any(|own| path.starts_with(own))
        })
        .collect();
    paths.sort();
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !found.iter().any(|outer| path.starts_with(outer)) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside() {
        let lower = tempfile::tempdir().unwrap();
        let root = lower.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        symlink("usr/bin", root.join("bin")).unwrap();
        symlink("/run", root.join("usr/run")).unwrap();
        symlink("../../../..", root.join("usr/up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for (path, wanted) in [
            ("/bin/x", "/usr/bin/x"),
            ("/usr/run/a/b", "/run/a/b"),
            ("/usr/up/etc/x", "/etc/x"),
            ("/etc/config/01.sh", "/etc/config/01.sh"),
            ("/loop/x", "/loop/x"),
        ] {
            assert_eq!(resolve(root, Path::new(path)), Path::new(wanted), "{path}");
        }
    }

    #[test]
    fn outer_mounts_are_found() {
        let text = "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /home rw - ext4 b rw\n\
             3 2 8:3 / /home/x rw - ext4 c rw\n4 1 0:5 / /proc rw - proc proc rw\n\
             5 1 0:6 / /run/europa rw - tmpfs t rw\n6 1 8:4 / /homes rw - ext4 d rw\n";
        assert_eq!(outermost(text), [Path::new("/home"), Path::new("/homes")]);
    }
}
