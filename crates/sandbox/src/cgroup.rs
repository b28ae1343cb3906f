//! Control groups of version 1 and 2 behind one type.
//!
//! Europa's groups are `europa/<instance>/<name>` under the root of each mounted hierarchy, or
//! `europa/<instance>/<parent>/<name>` if several groups share limits. Version 1 has one tree per
//! controller, version 2 one tree for all; a machine may have both, with each controller in exactly
//! one of them. A missing controller is skipped, and listed by [`Cgroups::missing`].

mod files;
mod remove;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::utsname::uname;

use crate::error::SandboxError;
use files::{read, write};

/// The folder under each hierarchy's root that holds all of Europa's groups.
const TOP: &str = "europa";
/// The CPU weight of Europa's group and of an instance's group: as much as ten ordinary groups. The
/// kernel weighs a group like a single process outside of the group. With the default, the switch
/// and all routers together would have the same share as one compiler process, and packets would
/// wait longer than a receive ring allows (measured: 90 ms).
const WEIGHT: u64 = 1000;
/// The CPU weight on kernels that forget the time that a group has used. With a weight of 200, a
/// killed router is back after 44 ms beside busy hosts; with 100, after 49 ms.
const FORGOTTEN_WEIGHT: u64 = 200;
/// These kernels forget the used time whenever the group's weight on a CPU changes, which happens
/// at each turn of a quota: commit 6d71a9c61604 in 6.13 and stable kernels since 6.12, reverted in
/// 7.0. A heavy group then keeps ordinary processes and kernel threads from the CPU (measured: two
/// slices with quotas and two without, all spinning: 118 s; with a weight of two processes: 0.1 s).
const FORGETFUL: std::ops::Range<(u64, u64)> = (6, 12)..(7, 0);

/// A resource that the kernel can account and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Weight and quota of CPU time.
    Cpu,
    /// CPU time used (in version 2 part of every group).
    CpuAccounting,
    /// Which CPUs.
    CpuSet,
    /// Memory limit.
    Memory,
    /// Number of tasks.
    Pids,
}

impl Controller {
    /// All that Europa uses.
    pub const ALL: [Self; 5] =
        [Self::Cpu, Self::CpuAccounting, Self::CpuSet, Self::Memory, Self::Pids];

    /// The kernel's name in version 1.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuAccounting => "cpuacct",
            Self::CpuSet => "cpuset",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }

    /// The consequence of its absence.
    pub fn consequence(self) -> &'static str {
        match self {
            Self::Cpu => "routers share CPU time equally; no reservation and no cap",
            Self::CpuAccounting => "CPU time per router is not shown",
            Self::CpuSet => "routers are not kept off the switch's cores",
            Self::Memory => "a router's memory is bounded by its address space only",
            Self::Pids => "a router's threads are bounded by its user's limit only",
        }
    }
}

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// One hierarchy for each controller, or for a few controllers together.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A mounted tree of control groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Its mount point.
    pub root: PathBuf,
}

/// The controllers of this machine.
#[derive(Clone, Debug, Default)]
pub struct Cgroups {
    controllers: BTreeMap<Controller, Hierarchy>,
}

/// Limits of a group; `None` keeps the present value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Share of CPU time under contention, 1 to 10 000; 100 is the default.
    pub cpu_weight: Option<u64>,
    /// Most CPU time in each period.
    pub cpu_quota: Option<CpuQuota>,
    /// Memory in bytes, including swap; the largest number means no limit.
    pub memory_bytes: Option<u64>,
    /// Number of tasks.
    pub tasks: Option<u64>,
    /// CPUs in the kernel's list form: `0-1,4`.
    pub cpus: Option<String>,
}

/// A limit of CPU time: `quota` in every `period`, over all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// CPU time; at least 1 ms. `None` means no limit.
    pub quota: Option<Duration>,
    /// Wall time; 1 ms to 1 s.
    pub period: Duration,
}

impl Cgroups {
    /// Reads the mounts.
    pub fn detect() -> Result<Self, SandboxError> {
        let path = Path::new("/proc/self/mountinfo");
        let mounts = fs::read_to_string(path).map_err(|source| failed(path, source))?;
        Ok(Self::from_mounts(&mounts))
    }

    /// Reads the lines of `mountinfo`. A controller mounted in version 1 cannot be in version 2 at
    /// the same time, so the order does not matter.
    fn from_mounts(mounts: &str) -> Self {
        let mut controllers = BTreeMap::new();
        for line in mounts.lines() {
            // "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
            let Some((place, kind)) = line.split_once(" - ") else { continue };
            let Some(root) = place.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut kind = kind.split(' ');
            let (version, names) = match (kind.next(), kind.nth(1)) {
                (Some("cgroup"), Some(options)) => {
                    (Version::V1, options.split(',').map(str::to_owned).collect())
                }
                (Some("cgroup2"), _) => {
                    let names =
                        fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
                    let mut names: Vec<String> =
                        names.split_whitespace().map(str::to_owned).collect();
                    if names.iter().any(|name| name == "cpu") {
                        names.push("cpuacct".to_owned());
                    }
                    (Version::V2, names)
                }
                _ => continue,
            };
            for controller in Controller::ALL {
                if names.iter().any(|name| name == controller.name()) {
                    controllers
                        .entry(controller)
                        .or_insert_with(|| Hierarchy { version, root: root.clone() });
                }
            }
        }
        Self { controllers }
    }

    /// The hierarchy of a controller, if the machine has it.
    pub fn hierarchy(&self, controller: Controller) -> Option<&Hierarchy> {
        self.controllers.get(&controller)
    }

    /// The missing controllers.
    pub fn missing(&self) -> Vec<Controller> {
        Controller::ALL
            .into_iter()
            .filter(|controller| !self.controllers.contains_key(controller))
            .collect()
    }

    fn at(&self, instance: &str, name: &str) -> Result<Group, SandboxError> {
        let mut path = Path::new(TOP).join(plain(instance)?);
        for part in name.split('/') {
            path.push(plain(part)?);
        }
        Ok(Group { path, controllers: self.controllers.clone() })
    }

    /// The group `europa/<instance>/<name>`; makes the group if it does not exist. A name may
    /// contain one slash, for a group below another.
    pub fn group(&self, instance: &str, name: &str) -> Result<Group, SandboxError> {
        let group = self.at(instance, name)?;
        for hierarchy in self.trees() {
            make(&hierarchy, &group.path)?;
        }
        let limits = Limits { cpu_weight: Some(weight()), ..Limits::default() };
        for parent in [Path::new(TOP).to_owned(), Path::new(TOP).join(instance)] {
            let controllers = self.controllers.clone();
            Group { path: parent, controllers }.set(&limits)?;
        }
        Ok(group)
    }

    /// Kills the processes in a group and in the groups below, and removes these groups.
    pub fn remove(&self, instance: &str, name: &str) -> Result<(), SandboxError> {
        self.at(instance, name)?.remove()
    }

    /// Names of the groups of an instance, including leftovers of a killed run. Groups below others
    /// come before these.
    pub fn names(&self, instance: &str) -> Result<Vec<String>, SandboxError> {
        let mut names = Vec::new();
        for hierarchy in self.trees() {
            let top = hierarchy.root.join(TOP).join(plain(instance)?);
            for name in files::folders(&top)? {
                let below = files::folders(&top.join(&name))?;
                names.extend(below.into_iter().map(|one| format!("{name}/{one}")));
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names.reverse();
        Ok(names)
    }

    /// Removes the folders of an instance that has no groups any more, and `europa`
    /// itself after the last instance.
    pub fn remove_instance(&self, instance: &str) -> Result<(), SandboxError> {
        for hierarchy in self.trees() {
            let top = hierarchy.root.join(TOP);
            remove::folder(&top.join(plain(instance)?))?;
            // As intended, this fails while other instances exist.
            let _ = fs::remove_dir(&top);
        }
        Ok(())
    }

    /// The distinct hierarchies: in version 1, several controllers may share one.
    fn trees(&self) -> Vec<Hierarchy> {
        trees(&self.controllers)
    }
}

/// The weight of all of Europa on this kernel.
fn weight() -> u64 {
    let release = uname().map(|name| name.release().to_string_lossy().into_owned());
    if release.is_ok_and(|release| is_forgetful(&release)) { FORGOTTEN_WEIGHT } else { WEIGHT }
}

/// Whether the kernel of this release forgets the time that groups have used.
fn is_forgetful(release: &str) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|text| text.parse().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| FORGETFUL.contains(&version))
}

/// One control group, in all hierarchies at once.
#[derive(Clone, Debug)]
pub struct Group {
    path: PathBuf,
    controllers: BTreeMap<Controller, Hierarchy>,
}

impl Group {
    /// Sets limits. A limit whose controller is missing is skipped: the caller has
    /// reported [`Cgroups::missing`].
    pub fn set(&self, limits: &Limits) -> Result<(), SandboxError> {
        if let Some(weight) = limits.cpu_weight {
            let weight = weight.clamp(1, 10_000);
            match self.folder(Controller::Cpu) {
                // The default weight is 100 in `Limits` and 1024 in version 1; version 1 requires at least 2.
                Some((Version::V1, folder)) => {
                    write(&folder.join("cpu.shares"), (weight * 1024 / 100).max(2))?
                }
                Some((Version::V2, folder)) => write(&folder.join("cpu.weight"), weight)?,
                None => {}
            }
        }
        if let Some(CpuQuota { quota, period }) = limits.cpu_quota {
            let (quota, period) = (quota.map(|quota| quota.as_micros()), period.as_micros());
            match self.folder(Controller::Cpu) {
                Some((Version::V1, folder)) => {
                    write(&folder.join("cpu.cfs_period_us"), period)?;
                    let quota = quota.map_or("-1".to_owned(), |quota| quota.to_string());
                    write(&folder.join("cpu.cfs_quota_us"), quota)?;
                }
                Some((Version::V2, folder)) => {
                    let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
                    write(&folder.join("cpu.max"), format!("{quota} {period}"))?
                }
                None => {}
            }
        }
        if let Some(bytes) = limits.memory_bytes {
            match self.folder(Controller::Memory) {
                Some((Version::V1, folder)) => files::set_memory_v1(&folder, bytes)?,
                Some((Version::V2, folder)) => {
                    write(&folder.join("memory.max"), bytes)?;
                    files::write_if_there(&folder.join("memory.swap.max"), 0)?;
                }
                None => {}
            }
        }
        if let (Some(tasks), Some((_, folder))) = (limits.tasks, self.folder(Controller::Pids)) {
            write(&folder.join("pids.max"), tasks)?;
        }
        if let (Some(cpus), Some((_, folder))) = (&limits.cpus, self.folder(Controller::CpuSet)) {
            write(&folder.join("cpuset.cpus"), cpus)?;
        }
        Ok(())
    }

    /// Moves a running process with all its threads into the group. This takes 6 to 17 ms;
    /// [`spawn`](crate::spawn()) does it earlier and faster.
    pub fn add(&self, pid: u32) -> Result<(), SandboxError> {
        self.folders().iter().try_for_each(|folder| write(&folder.join("cgroup.procs"), pid))
    }

    /// CPU time used by the group so far.
    pub fn cpu_time(&self) -> Result<Option<Duration>, SandboxError> {
        Ok(match self.folder(Controller::CpuAccounting) {
            Some((Version::V1, folder)) => {
                Some(Duration::from_nanos(read(&folder.join("cpuacct.usage"))?))
            }
            Some((Version::V2, folder)) => {
                Some(Duration::from_micros(files::field(&folder.join("cpu.stat"), "usage_usec")?))
            }
            None => None,
        })
    }

    /// Memory in use, in bytes.
    pub fn memory_bytes(&self) -> Result<Option<u64>, SandboxError> {
        Ok(match self.folder(Controller::Memory) {
            Some((Version::V1, folder)) => Some(read(&folder.join("memory.usage_in_bytes"))?),
            Some((Version::V2, folder)) => Some(read(&folder.join("memory.current"))?),
            None => None,
        })
    }

    /// The number of processes that the kernel has killed because the group reached its memory
    /// limit. `None` without the controller, and with version 1 before Linux 4.13.
    pub fn memory_kills(&self) -> Option<u64> {
        let (version, folder) = self.folder(Controller::Memory)?;
        let file = match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        files::field(&folder.join(file), "oom_kill").ok()
    }

    /// Kills the processes in the group and in the groups below, and removes these groups. This
    /// takes as long as the kernel needs to reap the processes. A missing group is no error.
    pub fn remove(&self) -> Result<(), SandboxError> {
        let mut folders = Vec::new();
        for folder in self.folders() {
            folders.extend(files::folders(&folder)?.into_iter().map(|one| folder.join(one)));
            folders.push(folder);
        }
        for folder in &folders {
            remove::kill_all(folder)?;
        }
        folders.iter().try_for_each(|folder| remove::folder(folder))
    }

    /// The descriptors that a new process needs in order to start inside the group.
    pub(crate) fn join(&self) -> Result<Join, SandboxError> {
        let mut join = Join::default();
        for hierarchy in trees(&self.controllers) {
            let folder = hierarchy.root.join(&self.path);
            match hierarchy.version {
                Version::V1 => {
                    join.tasks.push(open(&folder.join("tasks"), OpenOptions::new().write(true))?)
                }
                Version::V2 => join.folder = Some(open(&folder, OpenOptions::new().read(true))?),
            }
        }
        Ok(join)
    }

    fn folder(&self, controller: Controller) -> Option<(Version, PathBuf)> {
        self.controllers
            .get(&controller)
            .map(|hierarchy| (hierarchy.version, hierarchy.root.join(&self.path)))
    }

    fn folders(&self) -> Vec<PathBuf> {
        trees(&self.controllers).iter().map(|hierarchy| hierarchy.root.join(&self.path)).collect()
    }
}

/// The files with which a process joins a group, see [`crate::spawn`].
#[derive(Default)]
pub(crate) struct Join {
    /// Version 1: files to which the process writes `0`, which means "the writing task". These are
    /// not `cgroup.procs`: a task that moves only itself needs no global lock.
    pub(crate) tasks: Vec<OwnedFd>,
    /// Version 2: the folder, for `clone3`.
    pub(crate) folder: Option<OwnedFd>,
}

fn open(path: &Path, options: &OpenOptions) -> Result<OwnedFd, SandboxError> {
    options.open(path).map(OwnedFd::from).map_err(|source| failed(path, source))
}

fn trees(controllers: &BTreeMap<Controller, Hierarchy>) -> Vec<Hierarchy> {
    let mut trees: Vec<Hierarchy> = controllers.values().cloned().collect();
    trees.sort_unstable();
    trees.dedup();
    trees
}

/// Makes `path` and its parents usable in one hierarchy.
fn make(hierarchy: &Hierarchy, path: &Path) -> Result<(), SandboxError> {
    let mut folder = hierarchy.root.clone();
    for component in path.components() {
        if hierarchy.version == Version::V2 {
            files::enable_controllers(&folder)?;
        }
        let parent = folder.clone();
        folder.push(component);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&folder, error)),
        }
        if hierarchy.version == Version::V1 {
            files::inherit_cpuset(&parent, &folder)?;
        }
    }
    Ok(())
}

/// Checks that a name is one folder and not a file of the kernel.
fn plain(name: &str) -> Result<&str, SandboxError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.len() <= 128 && name.bytes().all(good) {
        Ok(name)
    } else {
        Err(SandboxError::Refused(format!(
            "{name:?} is no name for a control group: letters, digits, '-' and '_' only"
        )))
    }
}

fn failed(path: &Path, source: io::Error) -> SandboxError {
    SandboxError::Cgroup { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
