//! Click and FastClick: the elements of an IPv4 router between packet sockets, in one thread.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::shell;
use crate::sink::{Checks, Hook, Sink};
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::{MAC, OTHER_CORE, Testbed, format_mac};

/// The text that Click prints when it is ready.
const READY: &str = "ready";
const PATIENCE: Duration = Duration::from_secs(5);

/// Click or FastClick.
pub(crate) struct Click {
    name: &'static str,
    program: Option<PathBuf>,
    running: Option<Running>,
}

/// A process with its file, and a program that prevents Linux from forwarding the same packets.
struct Running {
    child: Child,
    _file: NamedTempFile,
    _taken: Sink,
}

impl Click {
    /// The original Click, which handles one packet after the other.
    pub(crate) fn original(options: &Options) -> Self {
        let program = options.click.clone().or_else(|| shell::find("click"));
        Self { name: "click", program, running: None }
    }

    /// FastClick, a Click with batches, by Barbette and others.
    pub(crate) fn fast(options: &Options) -> Self {
        let program = options.fastclick.clone().or_else(|| shell::find("fastclick"));
        Self { name: "fastclick", program, running: None }
    }
}

/// The configuration, with the addresses and neighbours of the other systems.
fn configuration() -> String {
    let way = |number: usize, own: &str| {
        let [mac, neighbour] = if number == 0 { [MAC[1], MAC[0]] } else { [MAC[2], MAC[3]] }
            .map(|mac| format_mac(&mac));
        format!(
            "FromDevice(r{number}, METHOD LINUX, SNIFFER true, TIMESTAMP false, BURST 32)\n\
             -> c{number} :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> routes;\n\
             c{number}[1] -> Discard;\n\
             routes[{number}] -> DropBroadcasts -> DecIPTTL -> FixIPSrc({own})\n\
             -> IPFragmenter(1500) -> EtherEncap(0x0800, {mac}, {neighbour}) -> Queue(1024)\n\
             -> ToDevice(r{number}, METHOD LINUX, BURST 32);\n"
        )
    };
    format!(
        "routes :: RadixIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 10.1.0.0/16 10.0.1.2 1);\n\
         {}{}Script(print \"{READY}\");\n",
        way(0, "10.0.0.1"),
        way(1, "10.0.1.1")
    )
}

impl System for Click {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self) -> Result<(), String> {
        match self.program {
            Some(_) => Ok(()),
            None => Err(format!("there is none on PATH, and --{} was not said", self.name)),
        }
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        [Hook::Tcx, Hook::Xdp].map(|sink| Arrangement { placement: Placement::Own, sink }).to_vec()
    }

    fn hops(&self) -> u8 {
        1
    }

    fn sends_frames(&self) -> bool {
        false
    }

    fn setup(&mut self, testbed: &Testbed) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        let file = NamedTempFile::with_suffix(".click").context("a file for Click")?;
        std::fs::write(file.path(), configuration()).context("a file for Click")?;
        let said = tempfile::NamedTempFile::new().context("a file for what Click says")?;
        let output = || said.reopen().context("a file for what Click says");
        // After Click has got its copy, Linux would look up a route and drop the packet. This
        // program drops it earlier, at less cost; Click uses iptables for this if it is installed.
        let taken = Sink::attach_to(&testbed.router, "r0", Hook::Tcx, Checks::default())?;
        let child = Command::new("ip")
            .args(["netns", "exec", testbed.router.name(), "taskset", "-c"])
            .arg(OTHER_CORE.to_string())
            .args([program, file.path()])
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            .spawn()
            .context(program.display().to_string())?;
        let running = self.running.insert(Running { child, _file: file, _taken: taken });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(said.path()).context("what Click says")?;
            if text.lines().any(|line| line == READY) {
                return Ok(());
            }
            let ended = running.child.try_wait().context(self.name)?.is_some();
            if ended || Instant::now() > deadline {
                let message = format!("does not forward: {}", text.trim());
                return Err(Error::System { system: self.name, message });
            }
            interrupt::sleep(Duration::from_millis(20))?;
        }
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        self.running = None;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A killed Click leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
