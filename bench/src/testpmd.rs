//! DPDK's testpmd, if Debian's package is installed: two processes over memif, or one between two
//! devices over AF_XDP.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::shell;
use crate::statistics::Spread;
use crate::testbed::{MAC, OTHER_CORE, SENDER_CORE, Testbed, format_mac};

const PROGRAM: &str = "dpdk-testpmd";
/// Time after the start whose figures do not count. testpmd prints figures once a second.
const STARTS: Duration = Duration::from_millis(5000);
/// testpmd forwards once it has printed this.
const READY: &str = "NIC statistics";
/// Time limit of testpmd's start, and of its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks whether testpmd can be measured here; the error contains the reason if not.
pub(crate) fn available() -> std::result::Result<(), String> {
    match shell::exists(PROGRAM) {
        true => Ok(()),
        false => Err(format!("{PROGRAM} is not installed (Debian: dpdk-dev, librte-net-memif23)")),
    }
}

/// Checks whether testpmd can forward over AF_XDP here; the error contains the reason if not.
pub(crate) fn knows_af_xdp() -> std::result::Result<(), String> {
    const LIBRARY: &str = "librte_net_af_xdp";
    available()?;
    match shell::run("ldconfig -p") {
        Ok(libraries) if !libraries.contains(LIBRARY) => {
            Err(format!("DPDK's {LIBRARY} is not installed (Debian: librte-net-af-xdp23)"))
        }
        // If the check itself is impossible, testpmd will report the error.
        _ => Ok(()),
    }
}

/// Starts one testpmd on the core that the sender does not use. It forwards between `r0` and `r1`
/// of a testbed, with new Ethernet addresses.
pub(crate) fn between(testbed: &Testbed) -> Result<Running> {
    let folder = tempfile::tempdir().context("a folder for testpmd")?;
    let log = folder.path().join("log");
    let arguments = [
        "--vdev=net_af_xdp0,iface=r0".to_owned(),
        "--vdev=net_af_xdp1,iface=r1".to_owned(),
        "--".to_owned(),
        "--forward-mode=mac".to_owned(),
        format!("--eth-peer=0,{}", format_mac(&MAC[0])),
        format!("--eth-peer=1,{}", format_mac(&MAC[3])),
    ];
    let mut command = Command::new("ip");
    command.args(["netns", "exec", testbed.router.name(), PROGRAM]);
    let mut running = start(command, &arguments, OTHER_CORE, &log)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = std::fs::read_to_string(&log).context("what testpmd said")?;
        if said.contains(READY) {
            return Ok(running);
        }
        let ended = running.0.try_wait().context(PROGRAM)?.is_some();
        if ended || Instant::now() > deadline {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let message = format!("does not forward: {}", last.unwrap_or("it says nothing"));
            return Err(Error::System { system: "testpmd-af-xdp", message });
        }
        interrupt::sleep(Duration::from_millis(50))?;
    }
}

/// Runs two testpmd over memif, each on its own core: one sends, and the other sends back. Returns
/// the packets a second that are sent back.
pub(crate) fn echo(time: Duration) -> Result<f64> {
    let folder = tempfile::tempdir().context("a folder for testpmd")?;
    let (path, log) = (folder.path().join("memif.sock"), folder.path().join("log"));
    let server = memif(&path, "server", "io", OTHER_CORE, &log)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while !path.exists() {
        if Instant::now() > deadline {
            return Err(Error::Other(format!("{PROGRAM} does not listen at {}", path.display())));
        }
        interrupt::sleep(Duration::from_millis(50))?;
    }
    let other = folder.path().join("other");
    let client = memif(&path, "client", "flowgen", SENDER_CORE, &other)?;
    interrupt::sleep(STARTS + time)?;
    client.end()?;
    server.end()?;
    let text = std::fs::read_to_string(&log).context("what testpmd said")?;
    let rates = rates(&text, "Tx-pps:");
    Spread::of(&rates)
        .map(|spread| spread.median)
        .ok_or_else(|| Error::Other(format!("{PROGRAM} sent nothing: {text}")))
}

/// The figures after a word, without those of the first seconds.
fn rates(text: &str, word: &str) -> Vec<f64> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix(word)?.split_whitespace().next()?.parse().ok())
        .filter(|rate| *rate > 0.0)
        .skip(2)
        .collect()
}

/// A running testpmd, which is killed when this is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Ends testpmd in order: it then prints its figures and detaches its programs.
    pub(crate) fn end(mut self) -> Result<()> {
        let pid = i32::try_from(self.0.id()).unwrap_or(i32::MAX);
        kill(Pid::from_raw(pid), Signal::SIGINT).context("ending testpmd")?;
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait().context("ending testpmd")?.is_none() {
            if Instant::now() > deadline {
                return Err(Error::Other(format!("{PROGRAM} does not end")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts one of the two testpmd over memif.
fn memif(path: &Path, role: &str, mode: &str, core: usize, log: &Path) -> Result<Running> {
    let arguments = [
        format!("--vdev=net_memif0,role={role},socket-abstract=no,socket={}", path.display()),
        "--".to_owned(),
        format!("--forward-mode={mode}"),
    ];
    start(Command::new(PROGRAM), &arguments, core, log)
}

/// Starts one testpmd with both threads on one core.
fn start(mut command: Command, arguments: &[String], core: usize, log: &Path) -> Result<Running> {
    let child = command
        .arg(format!("--lcores=0@{core},1@{core}"))
        .args(["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "192"])
        .args(arguments)
        .args(["--total-num-mbufs=16384", "--stats-period=1"])
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
