//! Unpacked images: `STORE/DIGEST/root`, with the settings next to it in `image.json`. `STORE/seen`
//! contains links from paths, with their state at a time, to digests.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

use crate::error::{ImageError, at, wrong};
use crate::layer::{Left, unpack};
use crate::manifest::{Layer, Manifest, Summed, hex};
use crate::source::{Source, unpacked};
use crate::tree::Tree;
use crate::{Config, Image};

/// The limits of one image.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all files of all layers.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 30, entries: 2_000_000 }
    }
}

/// Opens the image at `path`, and unpacks it into `store` unless that was done before. Takes
/// seconds for each gigabyte.
///
/// # Errors
/// It is no image with one root directory for this machine, is damaged or too large, or the store
/// cannot be written. In this case nothing of it stays in the store.
pub fn open(path: &Path, store: &Path) -> Result<Image, ImageError> {
    open_within(path, store, Limits::default())
}

/// The same within other limits.
///
/// # Errors
/// As for [`open`].
pub fn open_within(path: &Path, store: &Path, limits: Limits) -> Result<Image, ImageError> {
    have(path, store, limits).map_err(|error| ImageError::new(path, error))
}

fn have(path: &Path, store: &Path, limits: Limits) -> io::Result<Image> {
    fs::create_dir_all(store)?;
    // Files of an image may be set-user-ID, so no other user of the machine may reach them.
    fs::set_permissions(store, Permissions::from_mode(0o700))?;
    let seen = store.join("seen").join(key(path)?);
    if let Some(image) = known(store, &seen) {
        return Ok(image);
    }
    // Only one process at a time unpacks.
    let _lock = Flock::lock(File::open(store)?, FlockArg::LockExclusive)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    let new = store.join(".new");
    let _ = fs::remove_dir_all(&new);
    fs::create_dir(&new)?;
    let made = unpack_new(path, store, &new, limits);
    let _ = fs::remove_dir_all(&new);
    let image = made?;
    fs::create_dir_all(store.join("seen"))?;
    let _ = fs::remove_file(&seen);
    symlink(&image.digest, &seen)?;
    Ok(image)
}

/// The name under which an image is recorded; it changes when the image's file changes.
fn key(path: &Path) -> io::Result<String> {
    let file = if path.is_dir() { path.join("index.json") } else { path.to_owned() };
    let found = fs::metadata(&file).map_err(at(file.display()))?;
    let facts = (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    Ok(hex(&Sha256::digest(format!("{} {facts:?}", path.display()))))
}

/// The image that was recorded as `seen`, if it still exists.
fn known(store: &Path, seen: &Path) -> Option<Image> {
    let digest = fs::read_link(seen).ok()?.to_str()?.to_owned();
    let place = store.join(&digest);
    let config = serde_json::from_slice(&fs::read(place.join("image.json")).ok()?).ok()?;
    Some(Image { root: place.join("root"), config, digest })
}

fn unpack_new(path: &Path, store: &Path, new: &Path, limits: Limits) -> io::Result<Image> {
    let source = Source::open(path, &new.join("archive"), limits.bytes)?;
    let manifest = Manifest::read(&source)?;
    let place = store.join(&manifest.digest);
    let root = place.join("root");
    let Manifest { config, digest, layers } = manifest;
    if !place.is_dir() {
        let new_root = new.join("image/root");
        fs::create_dir_all(&new_root)?;
        fs::set_permissions(&new_root, Permissions::from_mode(0o755))?;
        let tree = Tree::open(&new_root)?;
        let mut left = Left::of(limits);
        for (layer, number) in layers.iter().zip(1..) {
            one(&source, layer, &tree, &mut left).map_err(|error| {
                io::Error::new(error.kind(), format!("layer {number} of {}: {error}", layers.len()))
            })?;
        }
        fs::write(new.join("image/image.json"), serde_json::to_vec::<Config>(&config)?)?;
        fs::rename(new.join("image"), &place)?;
    }
    Ok(Image { root, config, digest })
}

fn one(source: &Source, layer: &Layer, tree: &Tree, left: &mut Left) -> io::Result<()> {
    // The file is checked first: a damaged file may unpack to anything.
    if let Some(digest) = &layer.digest {
        Summed::new(source.file(&layer.file)?).check(digest, u64::MAX)?;
    }
    // Headers and padding of blocks are not counted.
    let most = left.bytes.saturating_add(left.entries.saturating_mul(2048));
    let mut plain = Summed::new(unpacked(source.file(&layer.file)?)?);
    unpack(&mut plain, tree, left)?;
    plain.check(&layer.plain_digest, most).map_err(|error| wrong(format!("its content: {error}")))
}
