//! Programs of routers with `run: kernel`: loaded beside the loop, then entered.

mod fib;

pub(crate) use self::fib::Tables;

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use europa_cage::cage::{Cage, MapOf};
use europa_cage::kernel::{Ready, Rights, Settings, Shape, entry_bytes};
use europa_cage::verifier::explain;
use europa_cage::{MapDefinition, MapKind, Member, Problem, Problems, values};
use europa_channel::{Channel, pair};
use europa_plan::CagePlan;
use europa_router::orders::{Answer, Order};
use europa_substrate::verify::{Candidate, MapShape, Refused, load};
use europa_substrate::{CAGE, HeldMap, Judge, JudgeSource, Substrate};

use self::fib::Filler;
use crate::{Doing, NodeError};

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
    programs: Vec<OwnedFd>,
    targets: HeldMap,
    /// The tables of `bpf_fib_lookup`, if the program calls it.
    tables: Option<Arc<Tables>>,
    /// By their numbers in the object.
    pub(crate) maps: HashMap<usize, HeldMap>,
    /// The judge, if it was not seated yet.
    judge: Option<Judge>,
    /// Stages of each device: they stay while there is a descriptor.
    _stages: Vec<HeldMap>,
}

/// The node's part that loading needs.
pub(crate) struct Means {
    shared: Vec<(&'static str, OwnedFd)>,
    /// Maps of the program that runs.
    kept: Vec<HeldMap>,
    /// Its tables of routes, which a mirror fills.
    tables: Option<Arc<Tables>>,
    /// The judge, if it must be loaded, too.
    judge: Option<JudgeSource>,
}

impl Means {
    /// For a program that takes the place of that of these interfaces, if there is one.
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

/// Has the verifier take this thread for one without privileges but to load programs.
fn drop_privileges() -> Result<(), caps::errors::CapsError> {
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN)?;
    caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_PERFMON)
}

/// The kernel's view of a map.
fn shape(definition: &MapDefinition) -> MapShape<'_> {
    let Shape { type_number, key_bytes, value_bytes, max_entries, flags } = Shape::of(definition);
    let data = definition.data.as_ref().map(|(bytes, constant)| (bytes.as_slice(), *constant));
    MapShape {
        name: &definition.name,
        type_number,
        key_bytes,
        value_bytes,
        max_entries,
        flags,
        data,
    }
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
    /// The program for frames that come in by a device, with stages of its own.
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

/// Programs that run, and those that are about to.
#[derive(Default)]
pub(crate) struct Cages {
    /// By router: the program, and the interfaces that it stands for.
    in_force: HashMap<String, (Loaded, Vec<u32>)>,
    ready: HashMap<String, Loaded>,
    failed: HashMap<String, (CagePlan, String)>,
    pub(crate) under_way: HashMap<String, CagePlan>,
    judged: bool,
    /// By router: the mirror that fills its tables of routes, and its namespace.
    fillers: HashMap<String, Follower>,
    /// Those that have been left, and when: receive programs may be at work in them, and their stages stay
    /// only while there is a descriptor.
    left: Vec<(Loaded, Instant)>,
}

/// A thread that fills tables from a mirror.
struct Follower {
    tables: Arc<Tables>,
    namespace: u64,
    stop: Arc<AtomicBool>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The state of a router's program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is loaded.
    Loaded,
    /// A thread loads it, or one that it is no longer to be.
    UnderWay,
    /// It cannot be, and why.
    Failed(String),
    /// Nothing.
    None,
}

impl Cages {
    /// Whether the judge has been seated.
    pub(crate) fn is_judged(&self) -> bool {
        self.judged
    }

    pub(crate) fn state(&self, router: &str, plan: &CagePlan) -> State {
        let is = |loaded: &Loaded| loaded.plan == *plan;
        if self.in_force.get(router).is_some_and(|(loaded, _)| is(loaded))
            || self.ready.get(router).is_some_and(is)
        {
            return State::Loaded;
        }
        if self.under_way.contains_key(router) {
            return State::UnderWay;
        }
        match self.failed.get(router).filter(|(failed, _)| failed == plan) {
            Some((_, why)) => State::Failed(why.clone()),
            None => State::None,
        }
    }

    /// A thread has come to its end.
    pub(crate) fn done(&mut self, router: &str, outcome: Result<Loaded, Problems>) {
        let plan = self.under_way.remove(router);
        match (outcome, plan) {
            (Ok(loaded), _) => drop(self.ready.insert(router.to_owned(), loaded)),
            (Err(problems), Some(plan)) => {
                let why = format!("{}: {problems}", plan.file);
                self.failed.insert(router.to_owned(), (plan, why));
            }
            (Err(_), None) => {}
        }
    }

    /// Lets a failed program be tried again.
    pub(crate) fn forget_failure(&mut self, router: &str) {
        self.failed.remove(router);
    }

    /// Has a router's program stand for its interfaces; whether something was done.
    pub(crate) fn enter(
        &mut self,
        substrate: &Substrate,
        router: &str,
        plan: &CagePlan,
        interfaces: &[u32],
    ) -> Result<bool, NodeError> {
        if let Some((loaded, entered)) = self.in_force.get(router)
            && loaded.plan == *plan
            && entered == interfaces
        {
            return Ok(false);
        }
        let new = self.ready.get(router).is_some_and(|loaded| loaded.plan == *plan);
        let loaded = match new {
            true => self.ready.remove(router),
            false => self.in_force.remove(router).map(|(loaded, _)| loaded),
        };
        let Some(mut loaded) = loaded else { return Ok(false) };
        if let Some(judge) = loaded.judge.take().filter(|_| !self.judged) {
            substrate.seat_judge(&judge)?;
            self.judged = true;
        }
        Substrate::set_targets(&loaded.targets, interfaces)?;
        for (interface, program) in interfaces.iter().zip(&loaded.programs) {
            substrate.set_cage(*interface, program.as_fd())?;
        }
        self.in_force.insert(router.to_owned(), (loaded, interfaces.to_vec()));
        Ok(true)
    }

    /// Tables of routes of the router's program, if it asks for routes.
    pub(crate) fn tables(&self, router: &str) -> Option<Arc<Tables>> {
        self.running(router)?.tables.clone()
    }

    /// The other end of a mirror that fills a router's tables from Linux in the namespace of this
    /// inode; none if one does already, or the program asks for no routes.
    pub(crate) fn fill(
        &mut self,
        router: &str,
        namespace: u64,
    ) -> Result<Option<Channel<Order, Answer>>, NodeError> {
        let Some(running) = self.running(router) else { return Ok(None) };
        let Some(tables) = running.tables.clone() else { return Ok(None) };
        let interfaces = running.plan.interfaces;
        let is_filled = self.fillers.get(router).is_some_and(|follower| {
            Arc::ptr_eq(&follower.tables, &tables) && follower.namespace == namespace
        });
        if is_filled {
            return Ok(None);
        }
        let failed = |error| NodeError::Channel { who: format!("routes of {router}"), error };
        let (feed, theirs) = pair().map_err(failed)?;
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let filler = Filler::new(Arc::clone(&tables), interfaces);
        let run = move || filler.run(Channel::new(theirs), &stopped);
        let thread = thread::Builder::new().name("routes".into());
        thread.spawn(run).doing(format!("following the routes of {router}"))?;
        self.fillers.insert(router.to_owned(), Follower { tables, namespace, stop });
        Ok(Some(feed))
    }

    /// The program of a router that runs.
    pub(crate) fn running(&self, router: &str) -> Option<&Loaded> {
        self.in_force.get(router).map(|(loaded, _)| loaded)
    }

    /// Forgets programs of routers that are not there any more.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone = self.in_force.extract_if(|router, _| !is_there(router));
        let now = Instant::now();
        self.left.extend(gone.map(|(_, (loaded, _))| (loaded, now)));
        self.left.retain(|(_, since)| since.elapsed() < AT_WORK);
        self.fillers.retain(|router, _| is_there(router));
    }
}

/// Longest that a receive program may be at work.
const AT_WORK: Duration = Duration::from_secs(1);
/// Most entries of a map in one answer.
const MOST_ENTRIES: usize = 1024;
/// Sections of variables.
const SECTIONS: [&str; 3] = [".rodata", ".data", ".bss"];

impl Loaded {
    /// Maps and variables by name.
    fn map(&self, name: &str) -> Option<(&MapDefinition, &HeldMap)> {
        let (number, definition) = self.ready.maps().find(|(_, of)| of.name == name)?;
        Some((definition, self.maps.get(&number)?))
    }

    /// The contents of a map or a variable of the program; of a map with a key only that entry.
    ///
    /// # Errors
    /// There is none of this name, or no such key.
    pub(crate) fn read(&self, name: &str, key: &str) -> Result<String, String> {
        let btf = &self.ready.object.btf;
        if let Some((section, variable)) = self.variable(name) {
            let value = section.get(&[0; 4]).map_err(|error| error.to_string())?;
            let bytes = value.and_then(|values| values.into_iter().next()).unwrap_or_default();
            let place = variable.offset as usize..;
            let size = btf.size(variable.of).unwrap_or(0) as usize;
            let bytes = bytes.get(place).and_then(|rest| rest.get(..size)).unwrap_or_default();
            return Ok(values::format(btf, Some(variable.of), bytes));
        }
        let (definition, map) = self.map(name).ok_or_else(|| self.unknown(name))?;
        let told = |values: Vec<Vec<u8>>| -> String {
            let each = values.iter().map(|of| values::format(btf, definition.value_type, of));
            match map.is_per_cpu() {
                // One for each CPU.
                true => format!("[{}]", each.collect::<Vec<_>>().join(", ")),
                false => each.collect(),
            }
        };
        let get = |key: &[u8]| map.get(key).map_err(|error| error.to_string());
        if !key.trim().is_empty() {
            let bytes = map.key_bytes as usize;
            let wanted = values::parse(btf, definition.key_type, bytes, key)?;
            let none = || format!("'{name}' has no key {}", key.trim());
            return get(&wanted)?.map(told).ok_or_else(none);
        }
        let keys = map.keys(MOST_ENTRIES + 1).map_err(|error| error.to_string())?;
        let mut text = String::new();
        for one in keys.iter().take(MOST_ENTRIES) {
            // It may have gone meanwhile.
            let Some(value) = get(one)? else { continue };
            let one = values::format(btf, definition.key_type, one);
            text += &format!("{one}={}\n", told(value));
        }
        if keys.len() > MOST_ENTRIES {
            text += &format!("(more than {MOST_ENTRIES} entries: ask for a key)\n");
        }
        Ok(text)
    }

    /// Writes lines `KEY=VALUE`, or `-KEY` for an entry that goes, into a map.
    ///
    /// # Errors
    /// There is no map of this name, or an unreadable value.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        if self.variable(name).is_some() {
            return Err(format!("'{name}' is a variable: `constants` of the document sets it"));
        }
        let (definition, map) = self.map(name).ok_or_else(|| self.unknown(name))?;
        let object = &self.ready.object;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(key) = line.strip_prefix('-').filter(|rest| !rest.contains('=')) {
                let bytes = map.key_bytes as usize;
                let key = values::parse(&object.btf, definition.key_type, bytes, key)?;
                map.remove(&key).map_err(|error| format!("{line}: {error}"))?;
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| format!("expected KEY=VALUE or -KEY, found '{line}'"))?;
            let (key, value) = entry_bytes(object, definition, key, value)?;
            map.update(&key, &value).map_err(|error| format!("{line}: {error}"))?;
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<(&HeldMap, Member)> {
        SECTIONS.iter().find_map(|section| {
            let btf = &self.ready.object.btf;
            let (_, variable) = btf.variables(section).find(|(of, _)| *of == name)?;
            Some((self.map(section)?.1, variable))
        })
    }

    fn unknown(&self, name: &str) -> String {
        let maps = self.ready.maps().map(|(_, map)| map.name.as_str());
        let maps = maps.filter(|map| !map.starts_with('.'));
        let variables = SECTIONS
            .iter()
            .flat_map(|section| self.ready.object.btf.variables(section).map(|(name, _)| name));
        let all: Vec<&str> = maps.chain(variables).collect();
        format!("the program has no map or variable '{name}': it has {}", all.join(", "))
    }
}
