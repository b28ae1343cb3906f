//! Container images as root directories. An OCI layout (a folder or an archive) or an archive of
//! `docker save` is unpacked once into a store, under the digest of its configuration.
//!
//! Archives may be hostile. An unpacked file always lies inside its root directory, whatever the
//! archive contains. Devices are skipped, and bytes, entries and layers are limited. Only root can
//! reach the store, so no other user of the machine can use files of an image, including
//! set-user-ID programs.
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
    /// The digest of the image's configuration, 64 hexadecimal digits: Docker's number of the
    /// image.
    pub digest: String,
}

/// True if `path` names an image: a file, or a folder that is an OCI layout. Other folders are no
/// images.
pub fn is_image(path: &Path) -> bool {
    path.is_file() || path.join(source::LAYOUT).is_file()
}
