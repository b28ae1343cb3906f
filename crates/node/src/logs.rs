//! The processes' logs: bounded, and shown from their end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::{Doing, NodeError};

/// Interval of checks of their lengths.
const BOUND_EVERY: Duration = Duration::from_secs(2);
/// A longer log is restarted; this much of its end is kept in a second file.
const MOST_BYTES: u64 = 4 << 20;
/// Number of bytes at a log's end that are searched for its last lines.
const TAIL_BYTES: u64 = 1 << 20;

/// Limits the logs of a directory in a thread of its own, until it is dropped: a slow disk, or a
/// tenant that writes much, must not delay the loop.
pub(crate) struct LogThread {
    /// Dropping it ends the thread.
    _end: Sender<()>,
}

impl LogThread {
    /// Looks at the logs of `directory` from now on.
    pub(crate) fn start(directory: PathBuf) -> Result<Self, NodeError> {
        let (end, ended) = channel();
        let work = move || {
            while ended.recv_timeout(BOUND_EVERY) == Err(RecvTimeoutError::Timeout) {
                bound(&directory);
            }
        };
        let thread = std::thread::Builder::new().name("logs".into());
        thread.spawn(work).doing("starting a thread for the logs")?;
        Ok(Self { _end: end })
    }
}

/// Bounds all logs of a directory. Processes write with `O_APPEND`, so a truncated log continues at
/// its new end; lines written between copy and truncation are lost.
fn bound(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let is_long = entry.metadata().is_ok_and(|found| found.len() > MOST_BYTES);
        if is_log
            && is_long
            && let Err(error) = cut(&path)
        {
            tracing::warn!("cutting {}: {error}", path.display());
        }
    }
}

/// Keeps a log's end in a second file, limited because the log may grow meanwhile.
fn cut(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
    io::copy(&mut file.take(MOST_BYTES), &mut File::create(older(path))?)?;
    OpenOptions::new().write(true).truncate(true).open(path).map(drop)
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

/// The last `lines` lines of a log, and how many bytes it has now.
///
/// # Errors
/// The log cannot be read.
pub fn tail(path: &Path, lines: usize) -> io::Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    // The last line's own end does not count.
    let own_end = usize::from(bytes.last() == Some(&b'\n'));
    let first = ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1) + own_end).unwrap_or(0);
    let first = if lines == 0 { bytes.len() } else { first };
    Ok((bytes.split_off(first), length))
}

/// The text after byte `from`, and the present length of the log. A log that has become shorter was
/// cut, and is shown from its beginning.
///
/// # Errors
/// The log cannot be read.
pub fn since(path: &Path, from: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = if length < from { 0 } else { from };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let end = from + bytes.len() as u64;
    Ok((bytes, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn tails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        for (text, lines, wanted) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\n", 0, ""),
            ("", 3, ""),
            ("a\n", 1, "a\n"),
        ] {
            fs::write(&path, text).unwrap();
            let (found, length) = tail(&path, lines).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), wanted, "{text:?} {lines}");
            assert_eq!(length, text.len() as u64);
        }
    }

    #[test]
    fn long_logs_begin_again_under_their_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut writer = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        writer.write_all(&vec![b'x'; MOST_BYTES as usize + 1]).unwrap();
        bound(folder.path());
        writer.write_all(b"new\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new\n");
        assert_eq!(fs::metadata(older(&path)).unwrap().len(), MOST_BYTES);
        assert_eq!(since(&path, MOST_BYTES).unwrap(), (b"new\n".to_vec(), 4));
        bound(folder.path());
        assert_eq!(fs::read(&path).unwrap(), b"new\n");
    }
}
