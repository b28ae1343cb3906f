//! The folder of a new crate or program.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// A folder that is new.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder for a new project: the given one, or one with the project's name.
    pub(super) fn new(name: &str, folder: Option<&PathBuf>) -> Result<Folder, Failure> {
        check_name(name)?;
        let folder = folder.cloned().unwrap_or_else(|| PathBuf::from(name));
        if folder.exists() {
            return Err(format!("{} exists already", folder.display()).into());
        }
        Ok(Folder(folder))
    }

    /// Writes a file, and makes the folders on its path.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&path, text));
        written.map_err(|error| Failure::from(format!("{}: {error}", path.display())))
    }

    /// The absolute path; documents name programs by it.
    pub(super) fn absolute(&self) -> Result<PathBuf, Failure> {
        std::path::absolute(&self.0)
            .map_err(|error| Failure::from(format!("{}: {error}", self.0.display())))
    }

    pub(super) fn into_path(self) -> PathBuf {
        self.0
    }
}

/// A dependency in Cargo.toml on a crate of Europa's sources: a Git repository, or a folder in which the
/// crate is at `place`.
pub(super) fn dependency(source: &str, place: &str) -> Result<String, Failure> {
    if !Path::new(source).is_dir() {
        return Ok(format!("{{ git = \"{source}\" }}"));
    }
    let path = Path::new(source).join(place);
    let path = path.canonicalize().map_err(|error| {
        format!("{}: {error}: --source names the folder of Europa's sources", path.display())
    })?;
    Ok(format!("{{ path = \"{}\" }}", path.display()))
}

/// Refuses a name that is invalid for a crate.
fn check_name(name: &str) -> Result<(), Failure> {
    let fits = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !fits || name.split('-').any(str::is_empty) {
        let what = "is no name: write small letters, digits and single '-', like `every-third`";
        return Err(format!("{name:?} {what}").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        assert!(check_name("every-third").is_ok());
        for wrong in ["", "Every", "a--b", "-a", "a-", "a/b", "1a", "ä"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
