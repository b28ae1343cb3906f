//! Links, checks and loads the program of a kernel router.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

use europa_cage::cage::{Cage, MapOf};
use europa_cage::kernel::{Ready, Rights, Settings};
use europa_cage::verifier::explain;
use europa_cage::{MapKind, Problem, Problems};
use europa_plan::CagePlan;
use europa_substrate::verify::{Candidate, Refused, load};
use europa_substrate::{CAGE, HeldMap, Judge, JudgeSource, Substrate};

use super::fib::Tables;
use super::shape::shape;
use crate::NodeError;

/// Maps of the node's that every program in a cage works with.
const SHARED: [&str; 3] = ["judges", "caged", "cage_zeros"];
/// Number of `bpf_fib_lookup`.
const FIB_LOOKUP: i32 = 69;
/// The table of a router's devices, as the cage calls it.
const TARGETS: &str = "cage_targets";

/// A program that the kernel has taken.
pub(crate) struct Loaded {
    pub(crate) plan: CagePlan,
    pub(crate) ready: Ready,
    /// One for each device.
    pub(super) programs: Vec<OwnedFd>,
    pub(super) targets: HeldMap,
    /// The tables of `bpf_fib_lookup`, if the program calls it.
    pub(super) tables: Option<Arc<Tables>>,
    /// Maps by their numbers in the object.
    pub(crate) maps: HashMap<usize, HeldMap>,
    /// The judge, if it was not seated yet.
    pub(super) judge: Option<Judge>,
    /// Stages of each device: they exist while there is a descriptor.
    _stages: Vec<HeldMap>,
}

/// The node's part that loading needs.
pub(crate) struct Means {
    shared: Vec<(&'static str, OwnedFd)>,
    /// Maps of the program that runs.
    kept: Vec<HeldMap>,
    /// Its tables of routes, filled by a mirror.
    tables: Option<Arc<Tables>>,
    /// The judge, if it must be loaded, too.
    judge: Option<JudgeSource>,
}

impl Means {
    /// For a program that replaces the former program of these interfaces, if there is one.
    pub(crate) fn new(
        substrate: &Substrate,
        interfaces: &[u32],
        tables: Option<Arc<Tables>>,
        with_judge: bool,
    ) -> Result<Means, NodeError> {
        let shared = SHARED.iter().map(|name| Ok((*name, substrate.cage_map(name)?)));
        let shared = shared.collect::<Result<_, NodeError>>()?;
        let kept = match interfaces.first() {
            Some(first) => substrate.maps_of_cage(*first)?,
            None => Vec::new(),
        };
        Ok(Means { shared, kept, tables, judge: with_judge.then(|| substrate.judge()) })
    }

    /// For a program that is only tried.
    fn apart(cage: &Cage) -> std::io::Result<Means> {
        let made = SHARED.iter().filter_map(|name| Some((*name, cage.map(name)?)));
        let shared = made.map(|(name, map)| Ok((name, HeldMap::create(&shape(map))?.map)));
        Ok(Means {
            shared: shared.collect::<std::io::Result<_>>()?,
            kept: Vec::new(),
            tables: None,
            judge: None,
        })
    }
}

/// Asks this machine's kernel about a program, as a kernel router would have it.
///
/// # Errors
/// The mistake for its author to mend, or the kernel's error.
pub fn try_in_kernel(file: &[u8], settings: Settings, rights: Rights) -> Result<(), Problems> {
    let failed = |what: String| Problem::new(what, "");
    let means = Means::apart(&Cage::read(CAGE)?).map_err(|error| failed(error.to_string()))?;
    let object = Arc::new(file.to_vec());
    let (file, field) = (String::new(), "object");
    let plan = CagePlan { file, field, object, settings, rights, interfaces: 1 };
    // Privileges are dropped for a whole thread.
    let tried = thread::spawn(move || prepare(plan, means).map(drop)).join();
    tried.map_err(|_| failed("the program could not be tried".into()))?
}

/// Links, checks and loads a router's program. Takes the verifier's time.
///
/// # Errors
/// The mistake for its author to mend, or the kernel's error.
pub(crate) fn prepare(plan: CagePlan, means: Means) -> Result<Loaded, Problems> {
    let told = |error: &dyn std::fmt::Display| Problems::from(Problem::new(error.to_string(), ""));
    let cage = Cage::read(CAGE)?;
    let ready = Ready::new(&plan.object, &plan.settings, plan.rights)?;
    let Means { shared, mut kept, tables, judge } = means;
    let judge = judge.map(|judge| judge.load()).transpose().map_err(|error| told(&error))?;
    let mut maps = HashMap::new();
    let mut fresh = Vec::new();
    for (number, definition) in ready.maps() {
        if definition.kind() == Some(MapKind::ProgArray) {
            continue;
        }
        let shape = shape(definition);
        // Variables start again.
        let same = |map: &HeldMap| definition.data.is_none() && map.is(&shape);
        let map = match kept.iter().position(same) {
            Some(place) => kept.swap_remove(place),
            None => {
                fresh.push(number);
                HeldMap::create(&shape).map_err(|error| told(&error))?
            }
        };
        maps.insert(number, map);
    }
    for (number, key, value) in ready.entries.iter().filter(|(number, ..)| fresh.contains(number)) {
        if let Some(map) = maps.get(number) {
            map.update(key, value).map_err(|error| told(&error))?;
        }
    }
    let tables = match (ready.calls(FIB_LOOKUP), tables) {
        (false, _) => None,
        (true, Some(tables)) => Some(tables),
        (true, None) => Some(Arc::new(Tables::new(&cage).map_err(|error| told(&error))?)),
    };
    let targets = Substrate::new_targets().map_err(|error| told(&error))?;
    if plan.rights == Rights::Tenant {
        drop_privileges().map_err(|error| told(&error))?;
    }
    let maker = Maker {
        cage: &cage,
        ready: &ready,
        shared: &shared,
        targets: &targets,
        tables: tables.as_deref(),
        maps: &maps,
    };
    let (mut programs, mut stages) = (Vec::new(), Vec::new());
    for device in 1..=plan.interfaces as u32 {
        programs.push(maker.device(device, &mut stages)?);
    }
    Ok(Loaded { ready, programs, targets, tables, maps, judge, _stages: stages, plan })
}

/// Drops this thread's privileges, except for loading programs, so that the verifier applies its
/// strict rules.
fn drop_privileges() -> Result<(), caps::errors::CapsError> {
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN)?;
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_PERFMON)
}

/// Loads the programs of each device.
struct Maker<'a> {
    cage: &'a Cage,
    ready: &'a Ready,
    shared: &'a [(&'static str, OwnedFd)],
    targets: &'a HeldMap,
    tables: Option<&'a Tables>,
    maps: &'a HashMap<usize, HeldMap>,
}

impl Maker<'_> {
    /// The program for frames from a device, with its own stages.
    fn device(&self, device: u32, stages: &mut Vec<HeldMap>) -> Result<OwnedFd, Problems> {
        let told = |error: std::io::Error| Problem::new(format!("stages: {error}"), "");
        let mut arrays: HashMap<usize, HeldMap> = HashMap::new();
        for (number, definition) in self.ready.maps() {
            if definition.kind() == Some(MapKind::ProgArray) {
                let made = HeldMap::create(&shape(definition));
                arrays.insert(number, made.map_err(told)?);
            }
        }
        let program = self.load(0, device, &arrays)?;
        let mut loaded: HashMap<usize, OwnedFd> = HashMap::new();
        for (map, index, stage) in &self.ready.tail_calls {
            if !loaded.contains_key(stage) {
                loaded.insert(*stage, self.load(*stage, device, &arrays)?);
            }
            if let (Some(map), Some(stage)) = (arrays.get(map), loaded.get(stage)) {
                let number = stage.as_raw_fd().to_ne_bytes();
                let entered = map.update(&index.to_ne_bytes(), &number);
                entered.map_err(told)?;
            }
        }
        stages.extend(arrays.into_values());
        Ok(program)
    }

    fn load(
        &self,
        number: usize,
        device: u32,
        arrays: &HashMap<usize, HeldMap>,
    ) -> Result<OwnedFd, Problems> {
        let caged = self.ready.caged(self.cage, number, device);
        let descriptor = |map: usize| self.descriptor(MapOf::number(map), arrays).unwrap_or(-1);
        let instructions = caged.image.with_maps(descriptor);
        let license = CString::new(self.ready.object.license()).unwrap_or_default();
        let candidate = Candidate {
            instructions: &instructions,
            btf: &caged.image.btf,
            functions: &caged.image.functions,
            lines: &caged.image.lines,
            license: &license,
            frags: true,
        };
        load(&candidate).map_err(|refused| match refused {
            Refused::Verifier(log) => explain(&log, |at| self.ready.place(&caged, at)).into(),
            Refused::System(error) => {
                Problem::new(format!("the kernel could not be asked: {error}"), "").into()
            }
        })
    }

    fn descriptor(&self, map: MapOf, arrays: &HashMap<usize, HeldMap>) -> Option<RawFd> {
        match map {
            MapOf::Cage(number) => match self.cage.maps().nth(number)? {
                TARGETS => Some(self.targets.map.as_raw_fd()),
                name => {
                    if let Some(table) = self.tables.and_then(|tables| tables.map(name)) {
                        return Some(table.map.as_raw_fd());
                    }
                    let found = self.shared.iter().find(|(shared, _)| *shared == name)?;
                    Some(found.1.as_raw_fd())
                }
            },
            MapOf::Program(number) => {
                let map = arrays.get(&number).or_else(|| self.maps.get(&number))?;
                Some(map.map.as_raw_fd())
            }
        }
    }
}
