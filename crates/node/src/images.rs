//! Container images as root directories of slow paths and hosts. They are unpacked into a store of the
//! instance's own, which goes with all its objects.

use std::fs;
use std::path::{Path, PathBuf};

use europa_api::{At, Problem};
use europa_image::{Image, is_image};

use crate::{Instance, NodeError};

/// Where an instance unpacks images: on a disk, as they are large.
fn store(instance: &Instance) -> PathBuf {
    Path::new("/var/lib/europa").join(instance.name()).join("images")
}

/// The image that `root` names, unpacked; `None` if it names a folder. Takes seconds for a large one
/// that is not there yet: not for the loop.
pub(crate) fn open(instance: &Instance, root: &str) -> Result<Option<Image>, NodeError> {
    let path = Path::new(root);
    if !is_image(path) {
        return Ok(None);
    }
    let image = europa_image::open(path, &store(instance));
    image.map(Some).map_err(|error| NodeError::Refused(error.to_string()))
}

/// Removes all unpacked images of an instance. Programs that still run in one keep its files.
pub(crate) fn remove(instance: &Instance) {
    let store = store(instance);
    if let Err(error) = fs::remove_dir_all(&store)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("removing {}: {error}", store.display());
    }
    // A folder with the state of a lasting node stays.
    let _ = store.parent().map(fs::remove_dir);
}

/// The mistake of a root directory.
pub(crate) fn no_root(root: &At<String>) -> Option<Problem> {
    let path = Path::new(&root.value);
    let found = path.is_dir() || is_image(path);
    (!found).then(|| {
        Problem::new(root.place, format!("this machine has no folder or image {}", root.value))
            .label("neither a folder nor an image")
            .help(
                "a folder with a file system, an OCI layout, or an archive of `docker save`; `/` is the \
                 machine's own file system",
            )
    })
}
