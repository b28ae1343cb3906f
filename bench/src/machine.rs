//! The description of the machine, without which figures mean nothing.

use serde::Serialize;

use crate::shell;

/// Machine and time of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Processor model.
    pub(crate) cpu: String,
    /// Cores that are online.
    pub(crate) cores: usize,
    /// Hypervisor, or `none`.
    pub(crate) virtualization: String,
    /// Kernel release.
    pub(crate) kernel: String,
    /// UTC, ISO 8601.
    pub(crate) date: String,
    /// Commit of the work tree in which the benchmark was started.
    pub(crate) commit: String,
}

impl Machine {
    /// The description in one line, with the day.
    pub(crate) fn in_short(&self) -> String {
        let Self { cpu, cores, kernel, date, commit, virtualization } = self;
        let day = date.get(..10).unwrap_or(date);
        format!("{cpu}, {cores} cores, {virtualization}, Linux {kernel}, {day}, commit {commit}")
    }

    /// Reads the description from the system; an unavailable value is `unknown`.
    pub(crate) fn describe() -> Self {
        let unknown = || "unknown".to_owned();
        let ask = |line: &str| shell::run(line).ok().map(|text| text.trim().to_owned());
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = info
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map(|(_, name)| name.trim().to_owned());
        let hypervisor = ask("lscpu").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("Hypervisor vendor"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let changed = ask("git status --porcelain --untracked-files=no")
            .is_some_and(|changes| !changes.is_empty());
        let commit = ask("git rev-parse --short=12 HEAD")
            .map(|commit| if changed { commit + " with changes" } else { commit });
        Self {
            cpu: cpu.unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            virtualization: hypervisor.unwrap_or_else(|| "none".into()),
            kernel: ask("uname -r").unwrap_or_else(unknown),
            date: ask("date -u +%Y-%m-%dT%H:%M:%SZ").unwrap_or_else(unknown),
            commit: commit.unwrap_or_else(unknown),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cpu, cores, virtualization, kernel, date, commit } = self;
        write!(f, "{cpu}, {cores} cores, hypervisor {virtualization}, Linux {kernel}, ")?;
        write!(f, "{date}, commit {commit}")
    }
}
