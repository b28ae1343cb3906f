//! Captures by `tcpdump`.

use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::command::{Error, Process, run};
use crate::namespace::Namespace;

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    folder: TempDir,
}

/// A finished capture, a pcap file that is removed when dropped.
#[derive(Debug)]
pub struct Captured {
    folder: TempDir,
}

const FILE: &str = "capture.pcap";

impl Namespace {
    /// Starts to capture the packets of a device, received and sent, that pass a tcpdump filter.
    /// Returns when the capture has begun.
    ///
    /// # Errors
    /// `tcpdump` is missing or refuses the filter.
    pub fn capture(&self, device: &str, filter: &str) -> Result<Capture, Error> {
        let folder = tempfile::tempdir().map_err(Error::io("a temporary folder"))?;
        let file = folder.path().join(FILE);
        let file = file.to_string_lossy();
        // tcpdump stays root: another user could not write the file. Its default buffer holds 32
        // packets, fewer than arrive while it waits for a core.
        let argv = ["tcpdump", "-Z", "root", "-n", "-U", "--immediate-mode"];
        let room = ["-s", "65535", "-B", "16384"];
        let what = ["-i", device, "-w", &file, filter];
        let mut process = self.start(&[&argv[..], &room, &what].concat())?;
        process.wait_for("listening on", Duration::from_secs(5))?;
        Ok(Capture { process, folder })
    }
}

impl Capture {
    /// Ends the capture when no packet has arrived for a short time, or after two seconds.
    ///
    /// # Errors
    /// `tcpdump` does not end.
    pub fn stop(self) -> Result<Captured, Error> {
        let size = || self.folder.path().join(FILE).metadata().map_or(0, |file| file.len());
        for _ in 0..20 {
            let before = size();
            thread::sleep(Duration::from_millis(100));
            if size() == before {
                break;
            }
        }
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(5))?;
        Ok(Captured { folder: self.folder })
    }
}

impl Captured {
    /// The pcap file.
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(FILE)
    }

    /// The bytes of each packet, tags included.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn frames(&self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.packets()?.into_iter().map(|(_, frame)| frame).collect())
    }

    /// The arrival time of each packet since 1970, to the microsecond.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn times(&self) -> Result<Vec<Duration>, Error> {
        Ok(self.packets()?.into_iter().map(|(time, _)| time).collect())
    }

    fn packets(&self) -> Result<Vec<(Duration, Vec<u8>)>, Error> {
        let bytes = std::fs::read(self.path()).map_err(Error::io("a capture"))?;
        // tcpdump on this machine wrote the file: a header of 24 bytes, and one of 16 before each
        // packet.
        let mut rest = bytes.get(24..).unwrap_or_default();
        let mut packets = Vec::new();
        while let Some((header, after)) = rest.split_at_checked(16) {
            let field = |at: usize| {
                u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            let time = Duration::new(field(0).into(), field(4).saturating_mul(1000));
            let Some((frame, after)) = after.split_at_checked(field(8) as usize) else { break };
            packets.push((time, frame.to_vec()));
            rest = after;
        }
        Ok(packets)
    }

    /// One line for each packet, as `tcpdump -n -e` prints it.
    ///
    /// # Errors
    /// `tcpdump` cannot read the file or the filter.
    pub fn lines(&self, filter: &str) -> Result<Vec<String>, Error> {
        let path = self.path();
        let file = path.to_string_lossy();
        let output = run(&["tcpdump", "-n", "-e", "-t", "-r", &file, filter])?;
        Ok(output.stdout.lines().map(str::to_owned).collect())
    }

    /// Fields of each packet that passes a display filter of `tshark`.
    ///
    /// # Errors
    /// `tshark` is missing or knows no such field.
    pub fn fields(&self, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>, Error> {
        tshark(&self.path(), filter, fields)
    }
}

/// Fields of each packet of a file that passes a display filter of `tshark`.
///
/// # Errors
/// `tshark` is missing, cannot read the file or knows no such field.
pub fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>, Error> {
    let file = file.to_string_lossy();
    let wanted = fields.iter().flat_map(|field| ["-e", field]);
    let argv =
        ["tshark", "-n", "-r", &file, "-Y", filter, "-T", "fields"].into_iter().chain(wanted);
    let output = run(&argv.collect::<Vec<_>>())?;
    Ok(output.stdout.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}
