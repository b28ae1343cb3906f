//! Links, checks and loads the program of a kernel router.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

use europa_cage::budget::{self, Stage};
use europa_cage::cage::{Cage, Caged, MapOf};
use europa_cage::hook::Hook;
use europa_cage::kernel::{Ready, Rights, Settings, TO_USER};
use europa_cage::verifier::explain;
use europa_cage::{MapKind, Place, Problem, Problems};
use europa_plan::{CageLimits, CagePlan};
use europa_substrate::verify::{
    Candidate, Kind, Refused, followed_instructions, load_as, possible_cpus,
};
use europa_substrate::{CAGE, HeldMap, Judge, JudgeSource, Substrate};

use super::fib::Tables;
use super::hooks::Hooked;
use super::shape::shape;
use crate::NodeError;

/// Maps of the node that every program in a cage uses.
const SHARED: [&str; 3] = ["judges", "caged", "cage_zeros"];
/// Number of `bpf_fib_lookup`.
const FIB_LOOKUP: i32 = 69;
/// Most entries of a map of sockets that lead to the user part: one for each queue of a device.
const SOCKETS: u32 = 1024;
/// The table of a router's devices, as the cage calls it.
const TARGETS: &str = "cage_targets";

/// A program that the kernel has accepted.
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
    /// The judge, if it is not in use yet.
    pub(super) judge: Option<Judge>,
    /// Bytes of its maps.
    pub(super) map_bytes: u64,
    /// Programs in Linux's own path of packets, and where they are attached.
    pub(super) hooks: Vec<(Hook, OwnedFd)>,
    pub(super) hooked: Hooked,
    /// Stages of each device: they exist while there is a descriptor.
    _stages: Vec<HeldMap>,
}

/// The data of the node that loading needs.
pub(crate) struct Means {
    shared: Vec<(&'static str, OwnedFd)>,
    /// Maps of the program that runs.
    kept: Vec<HeldMap>,
    /// Tables of routes that a mirror already fills.
    tables: Option<Arc<Tables>>,
    /// The judge, if it must be loaded too.
    judge: Option<JudgeSource>,
    /// Bytes of the maps of its slice's other programs.
    others_bytes: u64,
}

impl Means {
    /// The data for a program that replaces the former program of these interfaces, if one exists.
    pub(crate) fn new(
        substrate: &Substrate,
        interfaces: &[u32],
        tables: Option<Arc<Tables>>,
        with_judge: bool,
        others_bytes: u64,
    ) -> Result<Means, NodeError> {
        let shared = SHARED.iter().map(|name| Ok((*name, substrate.cage_map(name)?)));
        let shared = shared.collect::<Result<_, NodeError>>()?;
        let kept = match interfaces.first() {
            Some(first) => substrate.maps_of_cage(*first)?,
            None => Vec::new(),
        };
        let judge = with_judge.then(|| substrate.judge());
        Ok(Means { shared, kept, tables, judge, others_bytes })
    }

    /// The data for a program that is only tested.
    fn apart(cage: &Cage) -> std::io::Result<Means> {
        let made = SHARED.iter().filter_map(|name| Some((*name, cage.map(name)?)));
        let shared = made.map(|(name, map)| Ok((name, HeldMap::create(&shape(map))?.map)));
        Ok(Means {
            shared: shared.collect::<std::io::Result<_>>()?,
            kept: Vec::new(),
            tables: None,
            judge: None,
            others_bytes: 0,
        })
    }
}

/// Submits a program to this machine's kernel in the same form as for a kernel router.
///
/// # Errors
/// A mistake that the author must correct, or the kernel's error.
pub fn try_in_kernel(file: &[u8], settings: Settings, rights: Rights) -> Result<(), Problems> {
    let failed = |what: String| Problem::new(what, "");
    let means = Means::apart(&Cage::read(CAGE)?).map_err(|error| failed(error.to_string()))?;
    let object = Arc::new(file.to_vec());
    let (file, field) = (String::new(), "object");
    let plan = CagePlan {
        file,
        field,
        object,
        settings,
        rights,
        interfaces: 1,
        has_user_part: false,
        has_slow_path: true,
        limits: CageLimits::of(None),
    };
    // Privileges are dropped for a whole thread.
    let tried = thread::spawn(move || prepare(plan, means).map(drop)).join();
    tried.map_err(|_| failed("the program could not be tried".into()))?
}

/// Links, checks and loads a router's program. This takes as long as the verifier needs.
///
/// # Errors
/// A mistake that the author must correct, or the kernel's error.
pub(crate) fn prepare(plan: CagePlan, means: Means) -> Result<Loaded, Problems> {
    let told = |error: &dyn std::fmt::Display| Problems::from(Problem::new(error.to_string(), ""));
    let cage = Cage::read(CAGE)?;
    let ready = Ready::new(&plan.object, &plan.settings, plan.rights)?;
    let Means { shared, kept, tables, judge, others_bytes } = means;
    let map_bytes = ready.map_bytes(cpus().map_err(|error| told(&error))?);
    within_slice(&plan, map_bytes, others_bytes)?;
    let judge = judge.map(|judge| judge.load()).transpose().map_err(|error| told(&error))?;
    let maps = make_maps(&ready, kept, plan.has_user_part).map_err(|error| told(&error))?;
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
        most_instructions: plan.limits.instructions,
    };
    let (mut programs, mut stages) = (Vec::new(), Vec::new());
    for device in 1..=plan.interfaces as u32 {
        programs.push(maker.device(device, &mut stages)?);
    }
    let hooks = maker.hooks()?;
    Ok(Loaded {
        ready,
        programs,
        targets,
        tables,
        maps,
        judge,
        map_bytes,
        hooks,
        hooked: Hooked::default(),
        _stages: stages,
        plan,
    })
}

/// CPUs that this machine may have.
fn cpus() -> std::io::Result<u64> {
    // Cannot truncate.
    possible_cpus().map(|cpus| cpus as u64)
}

/// Whether the maps of a slice's programs fit the slice's memory.
fn within_slice(plan: &CagePlan, own: u64, others: u64) -> Result<(), Problem> {
    let Some(most) = plan.limits.slice_map_bytes else { return Ok(()) };
    if own.saturating_add(others) <= most {
        return Ok(());
    }
    let what = format!(
        "the program's maps have {own} bytes, and those of the slice's other programs {others}: \
         the slice has {most}"
    );
    Err(Problem::new(
        what,
        "give the maps fewer entries, or raise `reservation.memory` of the slice",
    ))
}

/// The maps of a program, by their numbers in the object. Maps of the same name and shape are kept.
fn make_maps(
    ready: &Ready,
    mut kept: Vec<HeldMap>,
    has_user_part: bool,
) -> std::io::Result<HashMap<usize, HeldMap>> {
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
                HeldMap::create(&shape)?
            }
        };
        maps.insert(number, map);
    }
    for (number, key, value) in ready.entries.iter().filter(|(number, ..)| fresh.contains(number)) {
        if let Some(map) = maps.get(number) {
            map.update(key, value)?;
        }
    }
    let sockets = ready.maps().filter(|(_, of)| of.kind() == Some(MapKind::Xskmap));
    for map in sockets.filter(|_| has_user_part).filter_map(|(number, _)| maps.get(&number)) {
        open_sockets(map)?;
    }
    Ok(maps)
}

/// Has a map of sockets lead to the user part, as far as it leads nowhere. Programs name the queue of
/// the device that received a packet.
fn open_sockets(map: &HeldMap) -> std::io::Result<()> {
    for queue in 0..map.max_entries.min(SOCKETS) {
        let key = queue.to_ne_bytes();
        let is_set = |values: Vec<Vec<u8>>| values.iter().flatten().any(|byte| *byte != 0);
        if !map.get(&key)?.is_some_and(is_set) {
            let mut value = (TO_USER | queue).to_ne_bytes().to_vec();
            value.resize(map.value_bytes as usize, 0);
            map.update(&key, &value)?;
        }
    }
    Ok(())
}

/// Drops this thread's privileges, except for loading programs, so that the verifier applies its
/// strict rules.
fn drop_privileges() -> Result<(), caps::errors::CapsError> {
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN)?;
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_PERFMON)
}

fn unasked(error: std::io::Error) -> Problem {
    Problem::new(format!("the kernel could not be asked: {error}"), "")
}

/// Loads the programs of each device.
struct Maker<'a> {
    cage: &'a Cage,
    ready: &'a Ready,
    shared: &'a [(&'static str, OwnedFd)],
    targets: &'a HeldMap,
    tables: Option<&'a Tables>,
    maps: &'a HashMap<usize, HeldMap>,
    most_instructions: u64,
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
        let mut costs = vec![Stage::default(); self.ready.programs()];
        let program = self.load(0, device, &arrays, &mut costs)?;
        let mut loaded: HashMap<usize, OwnedFd> = HashMap::new();
        for (map, index, stage) in &self.ready.tail_calls {
            if !loaded.contains_key(stage) {
                loaded.insert(*stage, self.load(*stage, device, &arrays, &mut costs)?);
            }
            if let (Some(map), Some(stage)) = (arrays.get(map), loaded.get(stage)) {
                let number = stage.as_raw_fd().to_ne_bytes();
                let entered = map.update(&index.to_ne_bytes(), &number);
                entered.map_err(told)?;
            }
        }
        budget::check(&costs, self.most_instructions)?;
        stages.extend(arrays.into_values());
        Ok(program)
    }

    /// Loads a program by its number, and notes what it may take for a frame.
    fn load(
        &self,
        number: usize,
        device: u32,
        arrays: &HashMap<usize, HeldMap>,
        costs: &mut [Stage],
    ) -> Result<OwnedFd, Problems> {
        let caged = self.ready.caged(self.cage, number, device);
        let place = |at| self.ready.place(&caged, at);
        let program = self.submit(&caged, Kind::Xdp, arrays, place)?;
        let instructions = followed_instructions(program.as_fd()).map_err(unasked)?;
        if let Some(cost) = costs.get_mut(number) {
            *cost = self.ready.stage(&caged, number, instructions);
        }
        Ok(program)
    }

    /// Asks the verifier about instructions. `place` has the author's line of each.
    fn submit(
        &self,
        caged: &Caged,
        kind: Kind,
        arrays: &HashMap<usize, HeldMap>,
        place: impl Fn(usize) -> Option<Place>,
    ) -> Result<OwnedFd, Problems> {
        let descriptor = |map: usize| self.descriptor(MapOf::number(map), arrays).unwrap_or(-1);
        let instructions = caged.image.with_maps(descriptor);
        let license = CString::new(self.ready.object.license()).unwrap_or_default();
        let candidate = Candidate {
            instructions: &instructions,
            btf: &caged.image.btf,
            functions: &caged.image.functions,
            lines: &caged.image.lines,
            license: &license,
            frags: kind == Kind::Xdp,
        };
        load_as(&candidate, kind).map_err(|refused| match refused {
            Refused::Verifier(log) => explain(&log, place).into(),
            Refused::System(error) => unasked(error).into(),
        })
    }

    /// The programs in Linux's own path of packets.
    fn hooks(&self) -> Result<Vec<(Hook, OwnedFd)>, Problems> {
        let none = HashMap::new();
        let mut hooks = Vec::new();
        for of in &self.ready.hooks {
            let object = &self.ready.object;
            let caged = of.caged(object, self.cage);
            let kind = match of.hook {
                Hook::TcIngress | Hook::TcEgress => Kind::Tc,
                Hook::CgroupIngress => Kind::Cgroup { ingress: true },
                Hook::CgroupEgress => Kind::Cgroup { ingress: false },
            };
            let place = |at| of.place(object, &caged, at);
            let program = self.submit(&caged, kind, &none, place)?;
            let instructions = followed_instructions(program.as_fd()).map_err(unasked)?;
            let stage = Stage { name: of.name(object).to_owned(), instructions, next: Vec::new() };
            budget::check(&[stage], self.most_instructions)?;
            hooks.push((of.hook, program));
        }
        Ok(hooks)
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
