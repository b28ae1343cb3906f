//! Unpacks a layer over those below it. Names that begin with `.wh.` remove files (OCI `layer.md`,
//! "Whiteouts").

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tar::EntryType;

use crate::error::{at, wrong};
use crate::extension::Extensions;
use crate::store::Limits;
use crate::tree::{Attributes, Tree, inside};

/// Removes the file with the rest of this name.
const WHITEOUT: &[u8] = b".wh.";
/// Removes everything in its folder that lower layers have put there.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The remaining limits for further entries of an image.
pub(crate) struct Left {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Left {
    pub(crate) fn of(limits: Limits) -> Left {
        Left { bytes: limits.bytes, entries: limits.entries }
    }
}

/// Unpacks a layer, which is an uncompressed archive, into `tree`.
pub(crate) fn unpack(content: impl Read, tree: &Tree, left: &mut Left) -> io::Result<()> {
    let mut archive = tar::Archive::new(content);
    // Paths that this layer itself has made; its whiteouts do not remove them.
    let mut own: BTreeSet<PathBuf> = BTreeSet::new();
    let mut next = Extensions::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        left.entries = left
            .entries
            .checked_sub(1)
            .ok_or_else(|| wrong("it has more files than an image may have"))?;
        if next.take(&mut entry)? {
            continue;
        }
        let extensions = mem::take(&mut next);
        let told = String::from_utf8_lossy(&extensions.path(&entry)).into_owned();
        put(&mut entry, &extensions, (tree, &mut own), left).map_err(at(format!("{told:.200}")))?;
    }
    Ok(())
}

fn put(
    entry: &mut tar::Entry<'_, impl Read>,
    extensions: &Extensions,
    (tree, own): (&Tree, &mut BTreeSet<PathBuf>),
    left: &mut Left,
) -> io::Result<()> {
    let path = inside(&extensions.path(entry))?;
    let Some(last) = path.file_name() else { return Ok(()) };
    if last.as_bytes() == OPAQUE {
        return clear(tree, path.parent().unwrap_or(Path::new("")), own);
    }
    if let Some(gone) = last.as_bytes().strip_prefix(WHITEOUT) {
        let gone = path.with_file_name(name_of(gone)?);
        return match tree.place(&gone, false) {
            Ok(place) => place.remove(),
            // Its folder is missing, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
    }
    let (user, group) = extensions.owner(entry)?;
    let header = entry.header();
    let number = |value: u64| u32::try_from(value).ok().filter(|value| *value < u32::MAX);
    let attributes = Attributes {
        user: number(user).ok_or_else(|| wrong("its owner is no user"))?,
        group: number(group).ok_or_else(|| wrong("its group is no group"))?,
        mode: header.mode()? & 0o7777,
        changed: header.mtime().unwrap_or(0),
    };
    let place = tree.place(&path, true)?;
    match header.entry_type() {
        EntryType::Directory => place.directory(attributes)?,
        EntryType::GNUSparse => return Err(wrong("a sparse file")),
        EntryType::Regular | EntryType::Continuous => {
            // One extra byte shows that the file is too long.
            let bytes = place.file(entry.take(left.bytes.saturating_add(1)), attributes)?;
            left.bytes = left
                .bytes
                .checked_sub(bytes)
                .ok_or_else(|| wrong("it has more bytes than an image may have"))?;
        }
        EntryType::Symlink => {
            let to = extensions.link(entry).ok_or_else(|| wrong("a link to nothing"))?;
            place.link(Path::new(OsStr::from_bytes(&to)), attributes)?;
        }
        EntryType::Link => {
            let to = extensions.link(entry).ok_or_else(|| wrong("a link to nothing"))?;
            place.hard_link(&tree.place(&inside(&to)?, false)?)?;
        }
        EntryType::Fifo => place.pipe(attributes)?,
        // Devices are skipped: programs use those of the host.
        _ => return Ok(()),
    }
    own.insert(path);
    Ok(())
}

/// The name that a whiteout removes.
fn name_of(name: &[u8]) -> io::Result<&OsStr> {
    if matches!(name, b"" | b"." | b"..") || name.starts_with(WHITEOUT) {
        return Err(wrong("it takes no file away"));
    }
    Ok(OsStr::from_bytes(name))
}

/// Removes everything in `folder` that this layer has not made.
fn clear(tree: &Tree, folder: &Path, own: &BTreeSet<PathBuf>) -> io::Result<()> {
    let names = match tree.names(folder) {
        // This layer has a file here, with nothing below it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        other => other?,
    };
    for name in names {
        let path = folder.join(name);
        // Paths are sorted by their parts, so paths below a path follow it.
        let is_own = own.range(path.clone()..).next().is_some_and(|own| own.starts_with(&path));
        if is_own {
            // Directories of this layer may contain files of lower layers.
            clear(tree, &path, own)?;
        } else {
            tree.place(&path, false)?.remove()?;
        }
    }
    Ok(())
}
