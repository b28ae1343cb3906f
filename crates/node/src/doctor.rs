//! Checks of this machine, and the consequences.

use std::fmt;
use std::time::Instant;

use europa_pool::Geometry;
use europa_port::Namespace;
use europa_sandbox::{State, report};
use europa_substrate::{Kicker, PortMode, Substrate};
use serde::Serialize;

use crate::Instance;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It exists and works: a test succeeded.
    Works,
    /// It is missing; Europa runs with less.
    Limited,
    /// Without it Europa does not run.
    Fatal,
}

/// The result of a test.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The attempted operation.
    pub what: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The observation, and the consequence or remedy.
    pub detail: String,
}

impl Finding {
    /// Whether Europa cannot run without it.
    pub fn is_fatal(&self) -> bool {
        self.verdict == Verdict::Fatal
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Works => "ok     ",
            Verdict::Limited => "limited",
            Verdict::Fatal => "FATAL  ",
        };
        write!(f, "{mark}  {}: {}", self.what, self.detail)
    }
}

/// Measures of the sandbox without which a router is still locked in.
const SECOND_FENCES: [&str; 3] = ["landlock", "cgroup ", "user namespaces"];

/// The consequence of a missing measure of the sandbox.
fn verdict(measure: &str, state: State) -> Verdict {
    match state {
        State::Full => Verdict::Works,
        // Landlock is a second barrier, and limits are not essential.
        State::Partial => Verdict::Limited,
        State::Missing if SECOND_FENCES.iter().any(|fence| measure.starts_with(fence)) => {
            Verdict::Limited
        }
        State::Missing => Verdict::Fatal,
    }
}

/// Tests everything that Europa needs, in temporary namespaces.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel()];
    if !nix::unistd::geteuid().is_root() {
        findings.push(Finding {
            what: "privilege".into(),
            verdict: Verdict::Fatal,
            detail: "this needs root; run `sudo europa doctor`".into(),
        });
        return findings;
    }
    findings.push(run_directory());
    findings.extend(killed_nodes());
    findings.extend(substrate());
    findings.extend(report().into_iter().map(|finding| Finding {
        what: finding.measure.to_owned(),
        verdict: verdict(finding.measure, finding.state),
        detail: finding.detail,
    }));
    findings.extend(crate::uplinks::findings());
    findings
}

fn kernel() -> Finding {
    let name = nix::sys::utsname::uname();
    let release =
        name.map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let new_enough = version >= (6, 1);
    Finding {
        what: "kernel".into(),
        verdict: if new_enough { Verdict::Works } else { Verdict::Fatal },
        detail: if new_enough {
            format!("Linux {release}")
        } else {
            format!("Linux {release}: the programs need 6.1 or newer")
        },
    }
}

/// Whether the run directory is in memory. The node writes there before it answers, so a slow disk
/// delays its answers.
fn run_directory() -> Finding {
    let directory = std::path::Path::new("/run/europa");
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    let (verdict, detail) = match nix::sys::statfs::statfs(there) {
        Ok(found) if found.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC => {
            (Verdict::Works, format!("{} is in memory", directory.display()))
        }
        Ok(_) => (
            Verdict::Limited,
            format!(
                "{0} is on a disk, whose delays become the node's: `mount -t tmpfs tmpfs {0}`",
                directory.display()
            ),
        ),
        Err(error) => (Verdict::Limited, format!("{}: {error}", there.display())),
    };
    Finding { what: "run directory".into(), verdict, detail }
}

/// Killed nodes whose routers continue.
fn killed_nodes() -> Vec<Finding> {
    let found = Instance::all().into_iter().filter(|instance| instance.is_orphaned());
    let finding = |instance: Instance| {
        let name = instance.name();
        Finding {
            what: "killed node".into(),
            verdict: Verdict::Limited,
            detail: format!(
                "{name} was killed, and what it has started goes on: start it again to adopt that, \
                 or take it away with `europa --instance {name} down`"
            ),
        }
    };
    found.map(finding).collect()
}

/// Loads the programs, makes a pool, attaches, and kicks.
fn substrate() -> Vec<Finding> {
    let directory = std::env::temp_dir().join(format!("europa-doctor-{}", std::process::id()));
    let mut findings = Vec::new();
    let mut note = |what: &str, result: Result<String, String>| {
        let missing = match what {
            // Packets leave one by one.
            "merged TCP segments" => Verdict::Limited,
            _ => Verdict::Fatal,
        };
        findings.push(Finding {
            what: what.to_owned(),
            verdict: if result.is_ok() { Verdict::Works } else { missing },
            detail: result.unwrap_or_else(|error| error),
        });
    };
    let started = Instant::now();
    match Substrate::open(&directory) {
        Err(error) => {
            note("transmit program", Err(error.to_string()));
        }
        Ok(mut substrate) => {
            note("transmit program", Ok(format!("loaded in {:?}", started.elapsed())));
            let namespace = Namespace::fresh().map_err(|error| error.to_string());
            let receive = namespace.clone().and_then(|namespace| {
                let started = Instant::now();
                substrate
                    .attach_port(1, &namespace, 1, [0; 6], PortMode::Generic, true)
                    .and_then(|port| substrate.detach_port(port))
                    .map_err(|error| error.to_string())?;
                Ok(format!("loaded, attached and detached in {:?}", started.elapsed()))
            });
            note("receive program", receive);
            let started = Instant::now();
            let geometry = Geometry { slots: 256, slot_bytes: 2048, interfaces: 2 };
            let pool = substrate
                .create_pool(geometry)
                .and_then(|pool| {
                    substrate.retire_pool(&pool)?;
                    substrate.delete_pool(pool)
                })
                .map(|()| format!("made and deleted in {:?}", started.elapsed()))
                .map_err(|error| error.to_string());
            note("packet pool", pool);
            note("live frames", kick(&substrate, namespace));
            let started = Instant::now();
            let drained = substrate.drained_program().map_err(|error| error.to_string());
            let loaded = drained.map(|_| format!("program loaded in {:?}", started.elapsed()));
            note("merged TCP segments", loaded);
        }
    }
    if let Err(error) = Substrate::remove(&directory) {
        note("cleaning up", Err(error.to_string()));
    }
    findings
}

/// Runs the transmit program over an empty list.
fn kick(substrate: &Substrate, namespace: Result<Namespace, String>) -> Result<String, String> {
    let program = substrate.transmit_program(0).map_err(|error| error.to_string())?;
    substrate.parking().park(0, &program, &namespace?).map_err(|error| error.to_string())?;
    let mut kicker = Kicker::new(program);
    let started = Instant::now();
    let kicks = 100;
    for _ in 0..kicks {
        kicker.kick(1, 64).map_err(|error| error.to_string())?;
    }
    Ok(format!("a kick takes {:.1} µs", started.elapsed().as_secs_f64() * 1e6 / f64::from(kicks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_locks_routers_in_is_fatal_if_missing() {
        for (measure, wanted) in [
            ("landlock", Verdict::Limited),
            ("user namespaces", Verdict::Limited),
            ("cgroup memory", Verdict::Limited),
            ("cgroup cpuset", Verdict::Limited),
            ("seccomp", Verdict::Fatal),
            ("namespaces", Verdict::Fatal),
        ] {
            assert_eq!(verdict(measure, State::Missing), wanted, "{measure}");
            assert_eq!(verdict(measure, State::Full), Verdict::Works, "{measure}");
        }
    }
}
