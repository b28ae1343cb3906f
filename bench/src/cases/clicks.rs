//! Click and FastClick as references of `graph`: the same elements between a source that copies
//! packets and a sink that drops them, in one thread.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::generator::internet_checksum;
use crate::shell;
use crate::statistics::Spread;

/// Number of different frames that a source copies.
const FRAMES: usize = 8192;
/// Readings of the counter, and seconds between two readings.
const READINGS: u32 = 6;
const SECONDS: f64 = 0.5;

/// The two programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The original Click, which handles one packet after the other.
    Click,
    /// FastClick, a Click with batches, by Barbette and others.
    FastClick,
}

/// An installed Click program.
pub(super) struct Click {
    kind: Kind,
    program: PathBuf,
    folder: TempDir,
}

/// The installed programs, and a note for each missing one.
pub(super) fn present(options: &Options) -> Result<(Vec<Click>, Vec<String>)> {
    let (mut there, mut notes) = (Vec::new(), Vec::new());
    for (kind, given) in [(Kind::FastClick, &options.fastclick), (Kind::Click, &options.click)] {
        let name = kind.name();
        match given.clone().or_else(|| shell::find(name)) {
            Some(program) => {
                let folder = tempfile::tempdir().context("a folder for Click")?;
                there.push(Click { kind, program, folder });
            }
            None => notes.push(format!(
                "{name}: not available, there is none on PATH, and --{name} was not said."
            )),
        }
    }
    Ok((there, notes))
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Click => "click",
            Self::FastClick => "fastclick",
        }
    }
}

impl Click {
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Measures the nanoseconds a packet takes with these routes.
    pub(super) fn measure(&self, routes: &[String]) -> Result<f64> {
        let dump = self.folder.path().join("frames.pcap");
        let file = self.folder.path().join("graph.click");
        write_dump(&dump, routes)?;
        std::fs::write(&file, configuration(self.kind, routes, &dump)).context("a Click file")?;
        let words =
            ["taskset", "-c", "1", &self.program.to_string_lossy(), &file.to_string_lossy()];
        let (said, told) = shell::run_both(&words)?;
        nanoseconds(&said)
            .or_else(|| nanoseconds(&told))
            .ok_or_else(|| Error::Other(format!("{} passed nothing on: {said}{told}", self.name())))
    }
}

/// The median of the readings in a text with one `COUNT TIME` a line.
fn nanoseconds(text: &str) -> Option<f64> {
    let reading = |line: &str| -> Option<(f64, f64)> {
        let (count, time) = line.split_once(' ')?;
        Some((count.parse().ok()?, time.trim().parse().ok()?))
    };
    let readings: Vec<(f64, f64)> = text.lines().filter_map(reading).collect();
    let each = readings.windows(2).filter_map(|two| {
        let ([before, after], packets) = ([two[0], two[1]], two[1].0 - two[0].0);
        (packets > 0.0).then(|| (after.1 - before.1) * 1e9 / packets)
    });
    Some(Spread::of(&each.collect::<Vec<f64>>())?.median)
}

/// The configuration. FastClick replays frames from memory. Click cannot do that: it sends copies
/// of one frame, with random destinations among the same number of addresses.
fn configuration(kind: Kind, routes: &[String], dump: &Path) -> String {
    let source = match kind {
        Kind::FastClick => format!(
            "FromDump({}, STOP false) -> ReplayUnqueue(STOP -1, BURST 32, LIMIT {FRAMES}, \
             VERBOSE 0, QUICK_CLONE false)",
            dump.display()
        ),
        Kind::Click => format!("InfiniteSource(DATA \\<{}>, BURST 32)", hex(&frame(0x0a01_0203))),
    };
    let address = match (kind, routes.len()) {
        (Kind::FastClick, _) => "GetIPAddress(16)".to_owned(),
        (Kind::Click, 0..=2) => format!("SetRandIPAddress(10.1.0.0/16, {FRAMES})"),
        (Kind::Click, _) => format!("SetRandIPAddress(0.0.0.0/0, {FRAMES})"),
    };
    let mut table = String::from("0.0.0.0/0 10.0.0.254 0");
    for (number, route) in routes.iter().enumerate() {
        table.push_str(&format!(", {route} 10.0.0.{} 0", number % 200 + 1));
    }
    let readings: Vec<String> =
        (0..READINGS).map(|_| format!("wait {SECONDS}, print \"$(d.count) $(now)\"")).collect();
    format!(
        "d :: Discard; c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
         t :: PaintTee(2); {source} -> c; c[0] -> d; c[1] -> d; c[3] -> d; t[1] -> d;\n\
         c[2] -> Paint(1) -> Strip(14) -> CheckIPHeader(INTERFACES 18.26.4.1/24 18.26.7.1/24)\n\
         -> {address} -> RadixIPLookup({table})\n\
         -> DropBroadcasts -> t -> IPGWOptions(18.26.4.1) -> FixIPSrc(18.26.4.1) -> DecIPTTL\n\
         -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> d;\n\
         Script(wait 1, {}, stop);\n",
        readings.join(", ")
    )
}

/// A UDP frame of 64 bytes.
fn frame(destination: u32) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    frame[14..30].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 8, 7]);
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    let checksum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes frames to random addresses in random routes into a libpcap file.
fn write_dump(path: &Path, routes: &[String]) -> Result<()> {
    let mut bytes = Vec::with_capacity(24 + FRAMES * 80);
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    let mut random: u64 = 88_172_645_463_325_252;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..FRAMES {
        let at = next() as usize % routes.len().max(1);
        let (network, bits) = routes.get(at).and_then(|route| parse(route)).unwrap_or((0, 0));
        let below = u32::MAX.checked_shr(bits).unwrap_or(0);
        for word in [0, 0, 64, 64_u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(frame(network & !below | next() as u32 & below));
    }
    let mut file = std::fs::File::create(path).context("a file of frames")?;
    file.write_all(&bytes).context("a file of frames")
}

/// Parses a route like `10.1.0.0/16`.
fn parse(route: &str) -> Option<(u32, u32)> {
    let (address, bits) = route.split_once('/')?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    Some((address.into(), bits.parse().ok().filter(|bits| *bits <= 32)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_give_the_median() {
        let text = "100 1.0\nsomething\n200 1.5\n1200 2.0\n6200 2.5\n";
        assert_eq!(nanoseconds(text), Some(5e5));
        assert_eq!(nanoseconds("nothing\n"), None);
    }

    #[test]
    fn frames_go_to_addresses_of_routes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dump");
        write_dump(&path, &["10.1.0.0/16".into()]).expect("written");
        let bytes = std::fs::read(&path).expect("there");
        assert_eq!(bytes.len(), 24 + FRAMES * 80);
        for record in bytes[24..].chunks(80) {
            assert_eq!(record[16 + 30..16 + 32], [10, 1]);
            assert_eq!(internet_checksum(&record[30..50]), 0);
        }
    }

    #[test]
    fn both_kinds_have_every_element_and_route() {
        let routes = ["10.1.0.0/16".to_owned(), "10.2.0.0/16".to_owned()];
        for kind in [Kind::Click, Kind::FastClick] {
            let text = configuration(kind, &routes, Path::new("x.pcap"));
            for word in ["CheckIPHeader", "10.2.0.0/16 10.0.0.2 0", "DecIPTTL", "EtherEncap"] {
                assert!(text.contains(word), "{kind:?}: {word}");
            }
        }
    }
}
