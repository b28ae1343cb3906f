//! The slices' reserved CPU and memory: admitted, and kept by control groups.
//!
//! A slice's routers are in a group each, `slice_SLICE/ROUTER`. The slice's CPU share is a quota of
//! the group above them, and a weight that gives it precedence until that is used up. So it gets
//! exactly its share.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use europa_api::{Bytes, Cores, Documents, Fault, Key, Slice};
use europa_plan::RouterId;
use europa_sandbox::SandboxError;
use europa_sandbox::cgroup::{Cgroups, Controller, CpuQuota, Limits};

use crate::NodeError;
use crate::routers::Router;

/// No slice waits longer than this for its reservation.
const PERIOD: Duration = Duration::from_millis(5);
/// Time in which one turn makes groups.
const ENOUGH: Duration = Duration::from_millis(1);
/// CPU weight of slices with a reservation, and of those without.
const RESERVED: u64 = 10_000;
const ORDINARY: u64 = 100;

/// The name of a slice's group. No other has it: names of slices have no `_`.
fn group(slice: &str) -> String {
    format!("slice_{slice}")
}

/// The name of the group of a router.
pub(crate) fn router_group(router: &RouterId) -> String {
    format!("{}/{}", group(router.slice()), router.name())
}

/// The reservation of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reserved {
    cpu: Option<Cores>,
    memory: Option<Bytes>,
}

fn reserved(slice: &Slice) -> Reserved {
    let Some(reservation) = &slice.reservation else { return Reserved::default() };
    Reserved {
        cpu: reservation.cpu.map(|cpu| cpu.value),
        memory: reservation.memory.map(|memory| memory.value),
    }
}

impl Reserved {
    fn limits(self) -> Limits {
        let quota = self.cpu.map(|cores| PERIOD * cores.thousandths() / 1000);
        Limits {
            cpu_weight: Some(if self.cpu.is_some() { RESERVED } else { ORDINARY }),
            cpu_quota: Some(CpuQuota { quota, period: PERIOD }),
            memory_bytes: Some(self.memory.map_or(u64::MAX, |memory| memory.0)),
            ..Limits::default()
        }
    }
}

/// The groups of slices.
#[derive(Default)]
pub(crate) struct SliceGroups {
    /// The last setting of each.
    made: BTreeMap<String, Reserved>,
    /// The refused settings of each.
    tried: BTreeMap<String, Reserved>,
    /// Some groups are still to be made.
    are_behind: bool,
}

impl SliceGroups {
    /// Sets the groups of slices to the documents; returns the errors. Costs little if they are. Many
    /// groups are made in several turns: see [`Self::are_behind`].
    pub(crate) fn follow(
        &mut self,
        cgroups: &Cgroups,
        instance: &str,
        documents: &Documents,
        routers: &[Router],
    ) -> Vec<SandboxError> {
        let (mut failed, begun) = (Vec::new(), Instant::now());
        self.are_behind = false;
        for slice in &documents.slices {
            let wanted = reserved(slice);
            if self.made.get(&**slice.name) == Some(&wanted) {
                continue;
            }
            if begun.elapsed() > ENOUGH {
                self.are_behind = true;
                break;
            }
            let made = cgroups.group(instance, &group(&slice.name));
            match made.and_then(|made| made.set(&wanted.limits())) {
                Ok(()) => drop(self.made.insert(slice.name.to_string(), wanted)),
                // Tried again with the next change, as the kernel refuses a limit below the present
                // use; reported once.
                Err(error) => {
                    let tried = self.tried.insert(slice.name.to_string(), wanted);
                    failed.extend((tried.as_ref() != Some(&wanted)).then_some(error));
                }
            }
        }
        self.remove_others(cgroups, instance, documents, routers, &mut failed);
        failed
    }

    /// Whether some groups are still to be made: the next turn goes on.
    pub(crate) fn are_behind(&self) -> bool {
        self.are_behind
    }

    /// Removes the groups of slices that have no document and no router.
    fn remove_others(
        &mut self,
        cgroups: &Cgroups,
        instance: &str,
        documents: &Documents,
        routers: &[Router],
        failed: &mut Vec<SandboxError>,
    ) {
        let documented = documents.slices.iter().map(|slice| &**slice.name);
        let there: HashSet<&str> =
            documented.chain(routers.iter().map(|router| router.plan.name.slice())).collect();
        let gone = self.made.extract_if(.., |name, _| !there.contains(&**name));
        for (name, _) in gone {
            failed.extend(cgroups.remove(instance, &group(&name)).err());
            self.tried.remove(&name);
        }
    }
}

/// Thousandths of a core that can be reserved: all but one core, which is the switch's, or half
/// of the only one.
fn reservable(cores: usize) -> u32 {
    match u32::try_from(cores).unwrap_or(u32::MAX) {
        0 | 1 => 500,
        cores => (cores - 1).saturating_mul(1000),
    }
}

/// Bytes of memory that this machine has.
fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Whether the slices' reserved CPU and memory fit.
///
/// # Errors
/// The excess or the unavailable, and its document.
pub(crate) fn check(
    documents: &Documents,
    cgroups: &Cgroups,
    cores: usize,
) -> Result<(), NodeError> {
    fits(documents, cgroups, reservable(cores), machine_bytes().unwrap_or(u64::MAX))
}

fn fits(documents: &Documents, cgroups: &Cgroups, cores: u32, bytes: u64) -> Result<(), NodeError> {
    let (mut cores_left, mut bytes_left) = (cores, bytes);
    for slice in &documents.slices {
        let Reserved { cpu, memory } = reserved(slice);
        let refused = |field: &str, label: &str, why: String| {
            let key = Key::new("slice", slice.name.to_string());
            NodeError::from(Fault::new(key, &["reservation", field], why).label(label))
        };
        let there = |controller: Controller, field: &str| match cgroups.hierarchy(controller) {
            Some(_) => Ok(()),
            None => {
                let why = format!("this machine has no control groups for `{field}`");
                Err(refused(field, "cannot be kept", why))
            }
        };
        let name = &**slice.name;
        if let Some(cpu) = cpu {
            there(Controller::Cpu, "cpu")?;
            let Some(less) = cores_left.checked_sub(cpu.thousandths()) else {
                let why = format!(
                    "slice {name:?} wants {cpu} of CPU cores, and {} of {} are left",
                    Cores::new(cores_left),
                    Cores::new(cores)
                );
                return Err(refused("cpu", "more than is left", why));
            };
            cores_left = less;
        }
        if let Some(memory) = memory {
            there(Controller::Memory, "memory")?;
            let Some(less) = bytes_left.checked_sub(memory.0) else {
                let megabytes = |bytes| bytes / 1_000_000;
                let why = format!(
                    "slice {name:?} wants {memory} of memory, and {}MB of {}MB are left",
                    megabytes(bytes_left),
                    megabytes(bytes)
                );
                return Err(refused("memory", "more than is left", why));
            };
            bytes_left = less;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use europa_api::Source;

    use super::*;

    #[test]
    fn groups_and_limits() {
        assert_eq!(router_group(&RouterId::new("red/r1")), "slice_red/r1");
        let quarter = Reserved { cpu: Some(Cores::new(250)), memory: None };
        let limits = quarter.limits();
        let quota = Some(CpuQuota { quota: Some(Duration::from_micros(1250)), period: PERIOD });
        assert_eq!((limits.cpu_quota, limits.cpu_weight), (quota, Some(RESERVED)));
        assert_eq!([0, 1, 2, 16].map(reservable), [500, 500, 1000, 15_000]);
        assert!(machine_bytes().is_some_and(|bytes| bytes > 1 << 26));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_is_left() {
        let Ok(cgroups) = Cgroups::detect() else { return };
        if !cgroups.missing().is_empty() {
            println!("skipped: some controllers are missing");
            return;
        }
        for (red, blue, why) in [
            ("cpu: 0.75", "cpu: 0.25, memory: 1GB", None),
            (
                "cpu: 0.75",
                "cpu: 0.5",
                Some("slice \"blue\" wants 0.5 of CPU cores, and 0.25 of 1 are left"),
            ),
            (
                "memory: 1GB",
                "memory: 1100MB",
                Some("slice \"blue\" wants 1100MB of memory, and 1000MB of 2000MB are left"),
            ),
        ] {
            let text = format!(
                "kind: slice\nname: red\nreservation: {{{red}}}\n---\n\
                 kind: slice\nname: blue\nreservation: {{{blue}}}\n"
            );
            let documents =
                europa_api::parse(&[Source { path: "t.yaml".into(), text }]).expect("documents");
            let found = fits(&documents, &cgroups, 1000, 2_000_000_000);
            let found = found.err().map(|error| error.to_string());
            assert_eq!(found.is_some(), why.is_some(), "{found:?}");
            if let (Some(found), Some(why)) = (found, why) {
                assert!(found.contains(why), "{found}");
            }
        }
    }
}
