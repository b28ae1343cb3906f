//! Europa: routers with `builtin: ipv4`, each in its own process or inside the switch.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::Pid;
use tempfile::NamedTempFile;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::shell;
use crate::sink::Hook;
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::Testbed;

/// The desired state, as YAML.
pub(crate) const DOCUMENTS: &str = include_str!("europa.yaml");
/// The same for three routers in a row.
pub(crate) const CHAIN: &str = include_str!("chain.yaml");

/// Name of the benchmark's node, so that a node of this machine's users continues to run.
const INSTANCE: &str = "bench";
/// The REST socket of the benchmark's node.
pub(crate) const SOCKET: &str = "/run/europa/bench/node.sock";
/// The folder with the node's records of processes.
pub(crate) const KEPT: &str = "/run/europa/bench/kept";

/// The routers between the two ports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    /// A router in a separate process.
    Isolated,
    /// A router inside the switch.
    Inline,
    /// A router that never sleeps.
    Busy,
    /// Three isolated routers, joined by links.
    Chain,
}

/// Europa: `europa up FILE` starts it, and `europa down` stops it.
pub(crate) struct Europa {
    program: Option<PathBuf>,
    between: Between,
    up: bool,
}

impl Europa {
    /// The given program, or the one built together with this program.
    pub(crate) fn new(given: Option<PathBuf>) -> Self {
        Self::with(Between::Isolated, given)
    }

    fn with(between: Between, given: Option<PathBuf>) -> Self {
        let beside = || {
            let path = std::env::current_exe().ok()?.with_file_name("europa");
            path.is_file().then_some(path)
        };
        Self { program: given.or_else(beside), between, up: false }
    }

    /// The same system with its router inside the switch.
    pub(crate) fn inline(given: Option<PathBuf>) -> Self {
        Self::with(Between::Inline, given)
    }

    /// The same system with a router that never sleeps.
    pub(crate) fn busy(given: Option<PathBuf>) -> Self {
        Self::with(Between::Busy, given)
    }

    /// Three routers in a row.
    pub(crate) fn chain(given: Option<PathBuf>) -> Self {
        Self::with(Between::Chain, given)
    }

    /// The objects to start.
    fn documents(&self) -> String {
        match self.between {
            Between::Isolated => DOCUMENTS.to_owned(),
            Between::Inline => DOCUMENTS.replace("\nfast_path:", "\nrun: inline\nfast_path:"),
            Between::Busy => DOCUMENTS.replace("\nfast_path:", "\npoll: busy\nfast_path:"),
            Between::Chain => CHAIN.to_owned(),
        }
    }
}

impl System for Europa {
    fn name(&self) -> &'static str {
        match self.between {
            Between::Isolated => "europa",
            Between::Inline => "europa-inline",
            Between::Busy => "europa-busy",
            Between::Chain => "europa-chain",
        }
    }

    fn available(&self) -> Result<(), String> {
        let Some(program) = &self.program else {
            return Err("no `europa` beside this program; build it or say --europa".into());
        };
        let help = shell::run_words(&[&program.to_string_lossy(), "help", "up"]);
        match help {
            Ok(text) if text.contains("FILE") => Ok(()),
            _ => Err(format!("{} knows no `up FILE`", program.display())),
        }
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        vec![Arrangement { placement: Placement::Own, sink: Hook::Xdp }]
    }

    fn hops(&self) -> u8 {
        if self.between == Between::Chain { 3 } else { 1 }
    }

    fn sends_frames(&self) -> bool {
        true
    }

    fn setup(&mut self, _: &Testbed) -> Result<()> {
        // If `up` fails halfway, teardown must still remove its objects.
        self.up = true;
        self.with_file("up", &self.documents())
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        match std::mem::take(&mut self.up) {
            true => self.call(&["down"]),
            false => Ok(()),
        }
    }
}

impl Europa {
    /// Applies other documents, until [`System::teardown`].
    pub(crate) fn up_with(&mut self, documents: &str) -> Result<()> {
        self.up = true;
        self.with_file("up", documents)
    }

    /// Runs `europa COMMAND FILE` with these documents.
    pub(crate) fn with_file(&self, command: &str, documents: &str) -> Result<()> {
        let file = NamedTempFile::with_suffix(".yaml").context("making a file for europa")?;
        std::fs::write(file.path(), documents).context("writing a file for europa")?;
        self.call(&[command, &file.path().to_string_lossy()])
    }

    /// Kills the node without warning: SIGKILL to the process that answers at its socket.
    pub(crate) fn kill_node(&self) -> Result<()> {
        let socket = UnixStream::connect(SOCKET).context(SOCKET)?;
        let node = getsockopt(&socket, PeerCredentials).context(SOCKET)?;
        kill(Pid::from_raw(node.pid()), Signal::SIGKILL).context("killing the node")?;
        // The socket is closed once the process has ended.
        let _ = (&socket).read(&mut [0]);
        Ok(())
    }

    /// The path of the program.
    pub(crate) fn program(&self) -> String {
        self.program.as_deref().unwrap_or(Path::new("europa")).to_string_lossy().into_owned()
    }

    /// Kills a router's process and waits until the node has started a new one.
    pub(crate) fn kill_router(&self, name: &str) -> Result<()> {
        let router = || -> Result<(i32, u64)> {
            let text = self.ask(&["stats", "--json"])?;
            let stats: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let routers = stats["routers"].as_array().cloned().unwrap_or_default();
            let router = routers.iter().find(|router| router["name"] == name);
            let router = router.cloned().unwrap_or_default();
            let pid = router["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            Ok((pid.unwrap_or(0), router["restarts"].as_u64().unwrap_or(0)))
        };
        let failed = |what: &str| Error::System { system: "europa", message: what.to_owned() };
        let (pid, restarts) = router()?;
        if pid <= 0 {
            return Err(failed("the router has no process"));
        }
        kill(Pid::from_raw(pid), Signal::SIGKILL).context("killing the router")?;
        let limit = Instant::now() + Duration::from_secs(10);
        while router()?.1 == restarts {
            if Instant::now() > limit {
                return Err(failed("the killed router is not started again"));
            }
            interrupt::sleep(Duration::from_millis(5))?;
        }
        Ok(())
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Result<()> {
        self.ask(arguments).map(drop)
    }

    /// Runs `europa` with these arguments. Returns its output.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String> {
        let program = self.program.as_deref().unwrap_or(Path::new("europa")).to_string_lossy();
        let words = [&[&*program, "--instance", INSTANCE], arguments].concat();
        shell::run_words(&words)
            .map_err(|error| Error::System { system: "europa", message: error.to_string() })
    }
}

/// Makes a testbed and an idle Europa; both are removed afterwards.
pub(crate) fn on_testbed<T>(
    options: &Options,
    work: impl FnOnce(&Testbed, &mut Europa) -> Result<T>,
) -> Result<T> {
    let testbed = Testbed::routed()?;
    let mut europa = Europa::new(options.europa.clone());
    let done = work(&testbed, &mut europa);
    let torn_down = europa.teardown(&testbed);
    done.and_then(|value| torn_down.map(|()| value))
}

/// After a panic or an interruption, only this removes Europa's objects.
impl Drop for Europa {
    fn drop(&mut self) {
        if self.up {
            let _ = self.call(&["down"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{MAC, format_mac};

    #[test]
    fn documents_are_valid_and_name_the_testbeds_addresses() {
        for (system, routers, run) in [
            (Europa::new(None), 1, europa_api::Run::Isolated),
            (Europa::inline(None), 1, europa_api::Run::Inline),
            (Europa::chain(None), 3, europa_api::Run::Isolated),
        ] {
            let file = NamedTempFile::with_suffix(".yaml").expect("a temporary file");
            std::fs::write(file.path(), system.documents()).expect("written");
            let documents = europa_api::load(&[file.path()]).expect("valid documents");
            assert_eq!((documents.ports.len(), documents.routers.len()), (2, routers));
            assert_eq!(documents.routers[0].run, run);
            for mac in MAC {
                assert!(system.documents().contains(&format_mac(&mac)), "{mac:?}");
            }
        }
    }
}
