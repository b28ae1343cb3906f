//! Container images as root directories: an OCI layout (a folder or an archive) or an archive of
//! `docker save` is unpacked once into a store, by the digest of its configuration.
//!
//! Archives may be hostile. An unpacked file lies inside its root directory whatever the archive
//! says, devices are left out, and bytes, entries and layers are bounded. The store belongs to root
//! alone, so no other user of the machine reaches files of an image, set-user-ID programs included.
//!
//! | file       | concern                                                   |
//! |------------|-----------------------------------------------------------|
//! | `source`   | files of an image by name, in a folder or an archive      |
//! | `manifest` | which layers and which configuration                      |
//! | `layer`    | a layer over those below, with whiteouts                  |
//! | `extension`| long names and attributes of the next file of a layer     |
//! | `tree`     | changes of files below a root directory, never outside it |
//! | `store`    | unpacked images                                           |
//! | `users`    | users by name, as in the image's own files                |
//! | `mapped`   | the files of an image, owned by users of a user namespace |
//!
//! Sources: OCI image specification 1.1, `image-layout.md`, `manifest.md`, `config.md`, `layer.md`.

mod error;
mod extension;
mod layer;
mod manifest;
mod mapped;
mod source;
mod store;
mod tree;
mod users;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::ImageError;
pub use manifest::Config;
pub use mapped::show_mapped;
pub use store::{Limits, open, open_within};
pub use users::ids;

/// An unpacked image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its root directory.
    pub root: PathBuf,
    /// The settings of its programs.
    pub config: Config,
    /// The digest of its configuration, 64 hexadecimal digits: its number for Docker.
    pub digest: String,
}

/// True if `path` names an image and no plain folder: a file, or a folder that is an OCI layout.
pub fn is_image(path: &Path) -> bool {
    path.is_file() || path.join(source::LAYOUT).is_file()
}
