//! DPDK's testpmd, where Debian's package is installed: two of them over memif.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::shell;
use crate::statistics::Spread;
use crate::testbed::{OTHER_CORE, SENDER_CORE};

const PROGRAM: &str = "dpdk-testpmd";
/// It says its figures once a second, and the first ones do not count.
const STARTS: Duration = Duration::from_millis(5000);

/// Why it cannot be measured here.
pub(crate) fn available() -> std::result::Result<(), String> {
    match shell::exists(PROGRAM) {
        true => Ok(()),
        false => Err(format!("{PROGRAM} is not installed (Debian: dpdk-dev, librte-net-memif23)")),
    }
}

/// One sends and one sends back, over memif, each on a core of its own: packets a second that are
/// sent back.
pub(crate) fn echo(time: Duration) -> Result<f64> {
    let folder = tempfile::tempdir().context("a folder for testpmd")?;
    let (path, log) = (folder.path().join("memif.sock"), folder.path().join("log"));
    let server = start(&path, "server", "io", OTHER_CORE, &log)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while !path.exists() {
        if Instant::now() > deadline {
            return Err(Error::Other(format!("{PROGRAM} does not listen at {}", path.display())));
        }
        interrupt::sleep(Duration::from_millis(50))?;
    }
    let other = folder.path().join("other");
    let client = start(&path, "client", "flowgen", SENDER_CORE, &other)?;
    interrupt::sleep(STARTS + time)?;
    client.end()?;
    server.end()?;
    let text = std::fs::read_to_string(&log).context("what testpmd said")?;
    let rates = rates(&text, "Tx-pps:");
    Spread::of(&rates)
        .map(|spread| spread.median)
        .ok_or_else(|| Error::Other(format!("{PROGRAM} sent nothing: {text}")))
}

/// The figures behind a word, without those of its first seconds.
fn rates(text: &str, word: &str) -> Vec<f64> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix(word)?.split_whitespace().next()?.parse().ok())
        .filter(|rate| *rate > 0.0)
        .skip(2)
        .collect()
}

/// A running one, which is killed when this is dropped.
struct Running(Child);

impl Running {
    /// It says what it has to say when it ends in peace.
    fn end(mut self) -> Result<()> {
        let pid = i32::try_from(self.0.id()).unwrap_or(i32::MAX);
        kill(Pid::from_raw(pid), Signal::SIGINT).context("ending testpmd")?;
        self.0.wait().context("ending testpmd").map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts one; both its threads have one core.
fn start(path: &Path, role: &str, mode: &str, core: usize, log: &Path) -> Result<Running> {
    let socket = path.display();
    let child = Command::new(PROGRAM)
        .arg(format!("--lcores=0@{core},1@{core}"))
        .args(["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "192"])
        .arg(format!("--vdev=net_memif0,role={role},socket-abstract=no,socket={socket}"))
        .args(["--", "--total-num-mbufs=16384", "--stats-period=1"])
        .arg(format!("--forward-mode={mode}"))
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(log).context("a log for testpmd")?)
        .stderr(Stdio::null())
        .spawn()
        .context(PROGRAM)?;
    Ok(Running(child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_figures_do_not_count() {
        let text = "  Tx-pps:  0   Tx-bps: 0\n Tx-pps: 5 \n Tx-pps: 6 \n Rx-pps: 1\n Tx-pps: 7 x\n";
        assert_eq!(rates(text, "Tx-pps:"), [7.0]);
    }
}
