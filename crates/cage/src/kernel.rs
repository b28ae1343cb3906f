//! A program of `run: kernel`: its stages and constants, its rights, and its maps.
//!
//! Pure: only the node calls the kernel. Maps of devices become plain maps with the router's own
//! numbers, as a program never redirects by itself.

use crate::cage::{Cage, Caged, Program};
use crate::check::{check_kernel, check_user};
use crate::instruction::{CALL, call};
use crate::leak::{Findings, analyse};
use crate::link::{Linked, link, link_with_stages};
use crate::object::Object;
use crate::problem::{Place, Problem, Problems};
use crate::{MapDefinition, MapKind, values};

/// Most bytes of all maps of a program.
pub const MAX_MAP_BYTES: u64 = 256 << 20;
/// In a map of devices: the router's own process.
pub const TO_PROCESS: u32 = 0x8000_0000;
/// Flags of maps that a program may ask for: no preallocation, an LRU list for each CPU, and access
/// rights.
const MAP_FLAGS: u32 = 1 | 2 | 128 | 256;

/// A router's settings for its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the function or section; `None` if there is only one.
    pub program: Option<String>,
    /// Names and values of constants.
    pub constants: Vec<(String, String)>,
    /// Stages: map, index, and name of the program.
    pub tail_calls: Vec<(String, u32, String)>,
    /// First entries of maps: map, key, value.
    pub entries: Vec<(String, String, String)>,
}

/// Whose programs are loaded with which rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A tenant's: the verifier follows the rules for users without privileges.
    Tenant,
    /// An operator's programs: those that the verifier accepts from a user with access to kernel
    /// memory, except those that [`crate::leak`] refuses.
    Operator,
}

/// A map as the kernel gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kernel's number of its type.
    pub type_number: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Most entries.
    pub max_entries: u32,
    /// The kernel's `BPF_F_...`.
    pub flags: u32,
}

impl Shape {
    /// The shape of a map.
    pub fn of(map: &MapDefinition) -> Shape {
        let array = MapKind::Array as u32;
        let type_number = match map.kind() {
            Some(MapKind::Devmap | MapKind::Cpumap | MapKind::Xskmap) => array,
            Some(MapKind::DevmapHash) => MapKind::Hash as u32,
            _ => map.type_number,
        };
        let value_bytes = match redirects(map) {
            true => map.value_bytes.max(4),
            false => map.value_bytes,
        };
        let flags = match (redirects(map), &map.data) {
            (true, _) => 0,
            (false, Some((_, true))) => map.flags,
            (false, _) => map.flags & MAP_FLAGS,
        };
        let (key_bytes, max_entries) = (map.key_bytes, map.max_entries);
        Shape { type_number, key_bytes, value_bytes, max_entries, flags }
    }

    /// Bytes of its keys and values; those of a ring buffer are its entries. The sizes come from a
    /// possibly hostile object, so nothing may overflow.
    pub fn bytes(&self) -> u64 {
        let each = match self.type_number == MapKind::Ringbuf as u32 {
            true => 1,
            false => u64::from(self.key_bytes) + u64::from(self.value_bytes),
        };
        each.saturating_mul(u64::from(self.max_entries))
    }
}

/// Whether a map's values select the output of frames.
fn redirects(map: &MapDefinition) -> bool {
    matches!(
        map.kind(),
        Some(MapKind::Devmap | MapKind::DevmapHash | MapKind::Cpumap | MapKind::Xskmap)
    )
}

/// A program that is ready to be loaded.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its object, with the constants of its router.
    pub object: Object,
    linked: Linked,
    findings: Findings,
    /// Maps of stages, indices, and places in [`Ready::programs`].
    pub tail_calls: Vec<(usize, u32, usize)>,
    /// First entries of maps: number, key, value.
    pub entries: Vec<(usize, Vec<u8>, Vec<u8>)>,
}

impl Ready {
    /// Reads, links and checks a program.
    ///
    /// # Errors
    /// All mistakes that are found.
    pub fn new(file: &[u8], settings: &Settings, rights: Rights) -> Result<Ready, Problems> {
        let mut object = Object::read(file)?;
        for (name, value) in &settings.constants {
            values::set_constant(&mut object, name, value)?;
        }
        let entry = object.program(settings.program.as_deref())?;
        let (linked, mut programs) = link_with_stages(&object, entry)?;
        let in_use = object.maps.iter().zip(&linked.used).filter(|(_, used)| **used);
        let declared = in_use.flat_map(|(map, _)| {
            map.programs.iter().map(|(index, name)| (map.name.clone(), *index, name.clone()))
        });
        let mut stages: Vec<(String, u32, usize)> = Vec::new();
        for (map, index, name) in declared.chain(settings.tail_calls.iter().cloned()) {
            let number = object.program(Some(&name))?;
            let place = programs.iter().position(|of| *of == number).unwrap_or_else(|| {
                programs.push(number);
                programs.len() - 1
            });
            stages.push((map, index, place));
        }
        let linked = link(&object, &programs)?;
        let mut problems = check_user(&object, &linked);
        problems.extend(check_kernel(&object, &linked));
        let findings = analyse(&object, &linked);
        if rights == Rights::Operator {
            problems.extend(findings.problems.iter().cloned());
        }
        let mut tail_calls = Vec::new();
        for (map, index, place) in stages {
            match used(&object, &linked, &map) {
                Ok(number) => tail_calls.push((number, index, place)),
                Err(problem) => problems.push(problem),
            }
        }
        let mut entries = Vec::new();
        for (map, key, value) in &settings.entries {
            match first_entry(&object, &linked, map, key, value) {
                Ok(entry) => entries.push(entry),
                Err(problem) => problems.push(problem),
            }
        }
        let pairs = object.maps.iter().zip(&linked.used).filter(|(_, used)| **used);
        let each = pairs.map(|(map, _)| Shape::of(map).bytes());
        let bytes = each.fold(0_u64, u64::saturating_add);
        if bytes > MAX_MAP_BYTES {
            let what = format!("the program's maps have {} MiB", bytes >> 20);
            problems.push(Problem::new(what, format!("at most {} MiB", MAX_MAP_BYTES >> 20)));
        }
        match problems.is_empty() {
            true => Ok(Ready { object, linked, findings, tail_calls, entries }),
            false => Err(Problems(problems)),
        }
    }

    /// The number of programs: Europa calls the first one, the others are its stages.
    pub fn programs(&self) -> usize {
        self.linked.entries.len()
    }

    fn program(&self) -> Program<'_> {
        Program { object: &self.object, linked: &self.linked, findings: &self.findings }
    }

    /// The loaded form of a program, for frames from a device of the router.
    pub fn caged(&self, cage: &Cage, number: usize, device: u32) -> Caged {
        let entry = self.linked.entries.get(number).copied().unwrap_or(0);
        match number {
            0 => cage.around(&self.program(), entry, device),
            _ => cage.stage(&self.program(), entry, device),
        }
    }

    /// The author's line of an instruction that was loaded.
    pub fn place(&self, caged: &Caged, at: usize) -> Option<Place> {
        caged.place(&self.program(), at)
    }

    /// Whether the program calls a helper, by its number.
    pub fn calls(&self, helper: i32) -> bool {
        self.linked.code.iter().any(|instruction| {
            let is_call = instruction.code == CALL && instruction.src == call::HELPER;
            is_call && instruction.immediate == helper
        })
    }

    /// Numbers of the maps that the program uses.
    pub fn maps(&self) -> impl Iterator<Item = (usize, &MapDefinition)> {
        let pairs = self.object.maps.iter().enumerate().zip(&self.linked.used);
        pairs.filter(|(_, used)| **used).map(|(map, _)| map)
    }
}

/// The number of a map by its name, if the program uses it.
fn used(object: &Object, linked: &Linked, name: &str) -> Result<usize, Problem> {
    let found = object.maps.iter().position(|map| map.name == name);
    let found = found.filter(|number| linked.used.get(*number) == Some(&true));
    found.ok_or_else(|| {
        let all: Vec<&str> = object.maps.iter().map(|map| map.name.as_str()).collect();
        Problem::new(
            format!("the program uses no map '{name}'"),
            format!("its maps: {}", all.join(", ")),
        )
    })
}

/// A first entry of a map.
fn first_entry(
    object: &Object,
    linked: &Linked,
    name: &str,
    key: &str,
    value: &str,
) -> Result<(usize, Vec<u8>, Vec<u8>), Problem> {
    let number = used(object, linked, name)?;
    let wrong = |why: String| Problem::new(format!("map '{name}': {why}"), "");
    let map = object.maps.get(number).ok_or_else(|| wrong("it is not there".into()))?;
    let (key, value) = entry_bytes(object, map, key, value).map_err(wrong)?;
    Ok((number, key, value))
}

/// The bytes of an entry's key and value, as the kernel's map has them.
///
/// # Errors
/// The unreadable part.
pub fn entry_bytes(
    object: &Object,
    map: &MapDefinition,
    key: &str,
    value: &str,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    let shape = Shape::of(map);
    let key = values::parse(&object.btf, map.key_type, shape.key_bytes as usize, key)?;
    let length = shape.value_bytes as usize;
    if !redirects(map) {
        return Ok((key, values::parse(&object.btf, map.value_type, length, value)?));
    }
    let number: u32 = value.trim().parse().map_err(|_| {
        format!("a map of devices holds numbers of interfaces, from 1 on, not '{value}'")
    })?;
    let is_device = matches!(map.kind(), Some(MapKind::Devmap | MapKind::DevmapHash));
    let number = if is_device { number } else { TO_PROCESS | number };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length, 0);
    Ok((key, bytes))
}
