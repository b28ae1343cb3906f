//! Headers that extend the next entry of an archive: long names of GNU tar, and attributes of pax
//! (POSIX.1-2008, "pax Interchange Format"). They are read here, with a size limit, because the
//! `tar` crate reads them without one.

use std::borrow::Cow;
use std::io::{self, Read};

use tar::{Entry, EntryType, PaxExtensions};

use crate::error::wrong;

/// Most bytes of such a header.
const MOST_BYTES: u64 = 64 << 10;

/// The extensions of the next entry.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    user: Option<u64>,
    group: Option<u64>,
}

impl Extensions {
    /// Reads an entry that extends the next one. Returns whether it was such an entry.
    pub(crate) fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> io::Result<bool> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.name = Some(text(entry)?),
            EntryType::GNULongLink => self.link = Some(text(entry)?),
            EntryType::XHeader => self.take_pax(&content(entry)?)?,
            EntryType::XGlobalHeader => drop(content(entry)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_pax(&mut self, records: &[u8]) -> io::Result<()> {
        for record in PaxExtensions::new(records) {
            let record = record?;
            let value = record.value_bytes();
            match record.key_bytes() {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"uid" => self.user = Some(number(value)?),
                b"gid" => self.group = Some(number(value)?),
                b"size" => return Err(wrong("a file of 8 GiB or more")),
                key if key.starts_with(b"GNU.sparse") => return Err(wrong("a sparse file")),
                // Times and extended attributes.
                _ => {}
            }
        }
        Ok(())
    }

    /// The path of `entry`.
    pub(crate) fn path<'e>(&'e self, entry: &'e Entry<'_, impl Read>) -> Cow<'e, [u8]> {
        self.name.as_deref().map_or_else(|| entry.path_bytes(), Cow::Borrowed)
    }

    /// The target of a link.
    pub(crate) fn link<'e>(&'e self, entry: &'e Entry<'_, impl Read>) -> Option<Cow<'e, [u8]>> {
        self.link.as_deref().map(Cow::Borrowed).or_else(|| entry.link_name_bytes())
    }

    /// The numbers of user and group.
    pub(crate) fn owner(&self, entry: &Entry<'_, impl Read>) -> io::Result<(u64, u64)> {
        let header = entry.header();
        let user = self.user.map_or_else(|| header.uid(), Ok)?;
        Ok((user, self.group.map_or_else(|| header.gid(), Ok)?))
    }
}

fn content(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let size = entry.size();
    if size > MOST_BYTES {
        return Err(wrong(format!("a header with {size} bytes: at most {MOST_BYTES} are read")));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A name, which ends with a zero byte.
fn text(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = content(entry)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn number(text: &[u8]) -> io::Result<u64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| wrong("an owner without a number"))
}
