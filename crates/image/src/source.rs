//! The files of an image by name: those of a folder, or of an archive, which may be compressed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, copy};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::error::{at, wrong};

/// The file that marks a folder as an OCI layout.
pub(crate) const LAYOUT: &str = "oci-layout";
/// Most files of an archive: blobs, not files of layers.
const MOST_FILES: usize = 4096;
/// Most links that lead from one file of an archive to another.
const MOST_LINKS: usize = 4;
/// First bytes of gzip and of zstd.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The place of an image's files.
pub(crate) enum Source {
    /// A folder.
    Folder(PathBuf),
    /// An archive, and its index.
    Archive(File, HashMap<String, Entry>),
}

/// A file of an archive.
pub(crate) enum Entry {
    /// Its first byte and its bytes.
    At(u64, u64),
    /// Another name.
    Link(String),
}

impl Source {
    /// Opens `path`. A compressed archive is unpacked to the file `scratch`, with at most `most`
    /// bytes.
    pub(crate) fn open(path: &Path, scratch: &Path, most: u64) -> io::Result<Source> {
        if path.is_dir() {
            return Ok(Source::Folder(path.to_owned()));
        }
        let mut file = File::open(path)?;
        let mut first = [0; 4];
        let length = file.read(&mut first)?;
        file.rewind()?;
        if is_packed(first.get(..length).unwrap_or_default()) {
            let mut plain = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(scratch)
                .map_err(at(scratch.display()))?;
            let mut bounded = unpacked(file)?.take(most);
            if copy(&mut bounded, &mut plain)? == most {
                return Err(wrong(format!("it unpacks to more than {most} bytes")));
            }
            plain.rewind()?;
            file = plain;
        }
        let index = index(&mut file)?;
        Ok(Source::Archive(file, index))
    }

    /// Opens the file `name`.
    pub(crate) fn file(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("it has no {name}"));
        match self {
            Source::Folder(folder) => {
                let name = plain(name).ok_or_else(missing)?;
                let file = File::open(folder.join(&name)).map_err(at(&name))?;
                if !file.metadata()?.is_file() {
                    return Err(wrong(format!("{name} is no file")));
                }
                Ok(Box::new(BufReader::new(file)))
            }
            Source::Archive(archive, index) => {
                let mut name = plain(name).ok_or_else(missing)?;
                for _ in 0..MOST_LINKS {
                    match index.get(&name) {
                        Some(Entry::At(first, bytes)) => {
                            let mut file = archive.try_clone()?;
                            file.seek(SeekFrom::Start(*first))?;
                            return Ok(Box::new(BufReader::new(file).take(*bytes)));
                        }
                        Some(Entry::Link(other)) => name.clone_from(other),
                        None => return Err(missing()),
                    }
                }
                Err(wrong(format!("links lead from {name} to each other")))
            }
        }
    }

    /// Whether it has a file `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Source::Folder(folder) => folder.join(name).is_file(),
            Source::Archive(_, index) => index.contains_key(name),
        }
    }

    /// Reads a file of at most `most` bytes.
    pub(crate) fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(wrong(format!("{name} has more than {most} bytes")));
        }
        Ok(bytes)
    }
}

/// The places of all files of an archive.
fn index(file: &mut File) -> io::Result<HashMap<String, Entry>> {
    let no_archive =
        |error: io::Error| wrong(format!("neither an OCI layout nor an archive: {error}"));
    let mut index = HashMap::new();
    let mut archive = tar::Archive::new(BufReader::new(file));
    // Blobs and layers of an image have short names, so entries with long names are skipped.
    for entry in archive.entries_with_seek()?.raw(true) {
        let entry = entry.map_err(no_archive)?;
        let Some(name) = entry.path().ok().as_deref().and_then(Path::to_str).and_then(plain) else {
            continue;
        };
        let header = entry.header().entry_type();
        let found = if header.is_file() {
            Entry::At(entry.raw_file_position(), entry.size())
        } else if header.is_symlink() || header.is_hard_link() {
            let Some(to) = entry.link_name()? else { continue };
            // A symbolic link is relative to the folder of its file.
            let folder = Path::new(&name).parent().filter(|_| header.is_symlink());
            let to = folder.unwrap_or(Path::new("")).join(to);
            let Some(to) = to.to_str().and_then(flat) else { continue };
            Entry::Link(to)
        } else {
            continue;
        };
        index.insert(name, found);
        if index.len() > MOST_FILES {
            return Err(wrong(format!("it has more than {MOST_FILES} files")));
        }
    }
    if index.is_empty() {
        return Err(wrong("it is neither an OCI layout nor an archive of an image"));
    }
    Ok(index)
}

/// A relative path without `.`; `None` if it leads upward or is absolute.
fn plain(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// A path in which `..` removes the part before it; `None` if that leads out of the archive.
fn flat(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

fn is_packed(first: &[u8]) -> bool {
    first.starts_with(&GZIP) || first.starts_with(&ZSTD)
}

/// Unpacks gzip or zstd, recognised by the first bytes; other data passes unchanged.
pub(crate) fn unpacked<R: Read + 'static>(reader: R) -> io::Result<Box<dyn Read>> {
    let mut reader = reader;
    let mut first = [0; 4];
    let mut length = 0;
    while let Some(rest) = first.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest)? {
            0 => break,
            more => length += more,
        }
    }
    let begin = first.get(..length).unwrap_or_default().to_vec();
    let all = io::Cursor::new(begin.clone()).chain(reader);
    Ok(if begin.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(BufReader::new(all)))
    } else if begin.starts_with(&ZSTD) {
        let decoder = StreamingDecoder::new(BufReader::new(all));
        Box::new(decoder.map_err(|error| wrong(format!("zstd: {error}")))?)
    } else {
        Box::new(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for (path, wanted) in [
            ("a/b", Some("a/b")),
            ("./a//b/.", Some("a/b")),
            ("/a", None),
            ("a/../b", None),
            ("", None),
        ] {
            assert_eq!(plain(path).as_deref(), wanted, "{path}");
        }
        assert_eq!(flat("x/../y/layer.tar").as_deref(), Some("y/layer.tar"));
        assert_eq!(flat("x/../../y"), None);
    }
}
