//! The files of a slow path: their places, and the paths of the machine that they hide.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::User;

use crate::place::{self, Rights, Way};
use crate::users::Ids;
use crate::view;

/// Directories that every router has for itself.
pub(crate) const OWN: [&str; 5] = ["/run", "/root", "/tmp", "/var/log", "/var/tmp"];
/// Directories that are not replaced as a whole for a file in them.
const SHARED: [&str; 4] = ["/", "/etc", "/usr", "/var"];

/// A file or, with a slash at the end of its path, a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its path for programs.
    pub path: String,
    /// Its contents.
    pub text: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Its permissions.
    pub mode: Option<u32>,
}

/// The place of a slow path's files.
pub(crate) struct Place<'a> {
    /// Its own directories.
    pub(crate) root: &'a Path,
    /// Its root directory, and the folder below it.
    pub(crate) view: Option<&'a (PathBuf, PathBuf)>,
    pub(crate) ids: Ids,
    /// The root directory whose lists name the owners of files; none: the machine's.
    pub(crate) users_of: Option<&'a Path>,
}

impl Place<'_> {
    /// The directory in which a file is written, and its path there.
    pub(crate) fn of(&self, path: &str) -> (&Path, PathBuf) {
        let Some((view, lower)) = self.view else { return (self.root, path.into()) };
        let path = view::resolve(lower, Path::new(path));
        if own(&path) { (self.root, path) } else { (view.as_path(), path) }
    }

    /// Empties a directory of the overlay that the slow path has for itself.
    pub(crate) fn begin(&self, file: &FileSpec) -> io::Result<()> {
        let (root, path) = self.of(&file.path);
        let place = root.join(path.strip_prefix("/").unwrap_or(&path));
        let is_view = self.view.is_some_and(|(view, _)| view == root);
        if is_view && file.path.ends_with('/') && place.is_dir() {
            fs::remove_dir_all(place)?;
        }
        Ok(())
    }

    /// Puts a file or directory in its place.
    pub(crate) fn lay(&self, file: &FileSpec) -> io::Result<()> {
        let is_directory = file.path.ends_with('/');
        let (user, group) = match (&file.owner, self.users_of) {
            (None, _) => (0, 0),
            (Some(owner), Some(root)) => europa_image::ids(root, owner)?,
            (Some(owner), None) => {
                let user = User::from_name(owner)?;
                let user =
                    user.ok_or_else(|| io::Error::other(format!("there is no user {owner}")))?;
                (user.uid.as_raw(), user.gid.as_raw())
            }
        };
        let rights = |user, group, mode| Rights {
            user: self.ids.on_host(user),
            group: self.ids.on_host(group),
            mode,
        };
        let mode = file.mode.unwrap_or(if is_directory { 0o755 } else { 0o644 });
        let (above, own) = (rights(0, 0, 0o755), rights(user, group, mode));
        let (root, path) = self.of(&file.path);
        if is_directory {
            return place::make_folder(root, &path, above, Some(own));
        }
        let is_bound = self.view.is_none() && cover(&file.path) == Some(path.as_path());
        let way = if is_bound { Way::Overwrite } else { Way::Swap };
        place::write(root, &path, file.text.as_bytes(), (above, own), way)
    }

    /// The paths that these files hide.
    pub(crate) fn binds(&self, files: &[FileSpec]) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let inside = |root: &Path, path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let seen = self.view.map_or(Path::new("/"), |(view, _)| view.as_path());
        // A slow path of an older node may lack some.
        let own = OWN.iter().map(|own| (inside(self.root, Path::new(own)), PathBuf::from(own)));
        let mut binds: Vec<(PathBuf, PathBuf)> =
            own.filter(|(from, to)| from.is_dir() && inside(seen, to).is_dir()).collect();
        if self.view.is_some() {
            return Ok(binds);
        }
        for file in files {
            if let Some(missing) = missing_on_host(&file.path) {
                return Err(io::Error::other(format!(
                    "{}: the host has no {}; put the file below /run, or set `root: /`",
                    file.path,
                    missing.display()
                )));
            }
            let Some(covered) = cover(&file.path) else { continue };
            let bind = (inside(self.root, covered), covered.to_owned());
            if !binds.contains(&bind) {
                binds.push(bind);
            }
        }
        Ok(binds)
    }
}

/// The host's path that a file hides from programs; `None` if it is in a directory of the router.
pub fn cover(path: &str) -> Option<&Path> {
    (!own(Path::new(path))).then(|| covered(path))
}

/// Whether a path is in a directory that every router has for itself.
pub fn own(path: &Path) -> bool {
    OWN.iter().any(|own| path.starts_with(own))
}

/// The host's path that a file covers: its directory, or only the file in a directory with many
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
