//! Maps as an object file declares them.

use crate::btf::{Btf, TypeId};
use crate::bytes::u32_at;
use crate::elf::{Elf, Section};
use crate::problem::Problem;

/// A map type that programs of tenants may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PerfEventArray = 4,
    PercpuHash = 5,
    PercpuArray = 6,
    LruHash = 9,
    LruPercpuHash = 10,
    LpmTrie = 11,
    Devmap = 14,
    Cpumap = 16,
    Xskmap = 17,
    DevmapHash = 25,
    Ringbuf = 27,
}

impl MapKind {
    /// All kinds, with their names in answers.
    pub const ALL: [(MapKind, &'static str); 14] = [
        (MapKind::Hash, "BPF_MAP_TYPE_HASH"),
        (MapKind::Array, "BPF_MAP_TYPE_ARRAY"),
        (MapKind::ProgArray, "BPF_MAP_TYPE_PROG_ARRAY"),
        (MapKind::PerfEventArray, "BPF_MAP_TYPE_PERF_EVENT_ARRAY"),
        (MapKind::PercpuHash, "BPF_MAP_TYPE_PERCPU_HASH"),
        (MapKind::PercpuArray, "BPF_MAP_TYPE_PERCPU_ARRAY"),
        (MapKind::LruHash, "BPF_MAP_TYPE_LRU_HASH"),
        (MapKind::LruPercpuHash, "BPF_MAP_TYPE_LRU_PERCPU_HASH"),
        (MapKind::LpmTrie, "BPF_MAP_TYPE_LPM_TRIE"),
        (MapKind::Devmap, "BPF_MAP_TYPE_DEVMAP"),
        (MapKind::Cpumap, "BPF_MAP_TYPE_CPUMAP"),
        (MapKind::Xskmap, "BPF_MAP_TYPE_XSKMAP"),
        (MapKind::DevmapHash, "BPF_MAP_TYPE_DEVMAP_HASH"),
        (MapKind::Ringbuf, "BPF_MAP_TYPE_RINGBUF"),
    ];

    /// The type with this number.
    pub fn from_number(number: u32) -> Option<MapKind> {
        MapKind::ALL.iter().map(|(kind, _)| *kind).find(|kind| *kind as u32 == number)
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        MapKind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// A map, or a section of global variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDefinition {
    /// Its name in the source; the section's for global variables.
    pub name: String,
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
    /// Type of keys, if known.
    pub key_type: Option<TypeId>,
    /// Type of values, if known.
    pub value_type: Option<TypeId>,
    /// Functions that a program array starts with: index and name.
    pub programs: Vec<(u32, String)>,
    /// Global variables: their initial bytes, and whether they are constants.
    pub data: Option<(Vec<u8>, bool)>,
}

impl MapDefinition {
    /// Its type, if programs may use it.
    pub fn kind(&self) -> Option<MapKind> {
        MapKind::from_number(self.type_number)
    }

    /// The map that holds a section of global variables.
    pub(crate) fn of_data(section: &Section) -> MapDefinition {
        let read_only = section.name.starts_with(".rodata");
        MapDefinition {
            name: section.name.clone(),
            type_number: MapKind::Array as u32,
            key_bytes: 4,
            // Below MAX_DATA_BYTES.
            value_bytes: section.bytes.len() as u32,
            max_entries: 1,
            flags: if read_only { 1 << 7 } else { 0 },
            key_type: None,
            value_type: None,
            programs: Vec::new(),
            data: Some((section.bytes.clone(), read_only)),
        }
    }
}

/// A map that is declared by a structure in the section `.maps`.
pub(crate) fn from_btf(btf: &Btf, name: &str, of: TypeId) -> Result<MapDefinition, Problem> {
    let mut map = MapDefinition {
        name: name.to_owned(),
        type_number: 0,
        key_bytes: 0,
        value_bytes: 0,
        max_entries: 0,
        flags: 0,
        key_type: None,
        value_type: None,
        programs: Vec::new(),
        data: None,
    };
    let wrong = |member: &str| {
        Problem::new(
            format!("map '{name}': '{member}' cannot be read"),
            "declare it as `__uint(max_entries, 1024)` or `__type(key, __u32)` does",
        )
    };
    let members = btf.members(of);
    if members.is_empty() {
        return Err(Problem::new(
            format!("map '{name}' is not declared by a structure"),
            "write `struct { __uint(type, BPF_MAP_TYPE_ARRAY); ... } name SEC(\".maps\");`",
        ));
    }
    for member in members {
        let of = member.of;
        let field = btf.member_name(member);
        let number = || btf.number(of).ok_or_else(|| wrong(field));
        match field {
            "type" => map.type_number = number()?,
            "key_size" => map.key_bytes = number()?,
            "value_size" => map.value_bytes = number()?,
            "max_entries" => map.max_entries = number()?,
            "map_flags" => map.flags = number()?,
            "key" | "value" => {
                let of = btf.pointee(of).ok_or_else(|| wrong(field))?;
                let bytes = btf.size(of).ok_or_else(|| wrong(field))?;
                if field == "key" {
                    (map.key_bytes, map.key_type) = (bytes, Some(of));
                } else {
                    (map.value_bytes, map.value_type) = (bytes, Some(of));
                }
            }
            // Europa decides about pinning; the other fields are checked where they are used.
            "pinning" | "values" | "numa_node" | "map_extra" => {}
            _ => {
                return Err(Problem::new(
                    format!("map '{name}': unknown attribute '{field}'"),
                    "known: type, key, value, key_size, value_size, max_entries, map_flags, \
                     pinning, values",
                ));
            }
        }
    }
    Ok(map)
}

/// The maps of the section `maps`, which old programs have: numbers in a row.
pub(crate) fn legacy(elf: &Elf, section: usize) -> Vec<(usize, Result<MapDefinition, Problem>)> {
    let Some(bytes) = elf.sections.get(section).map(|section| section.bytes.as_slice()) else {
        return Vec::new();
    };
    let named = elf
        .symbols
        .iter()
        .enumerate()
        .filter(|(_, symbol)| symbol.section == Some(section) && !symbol.name.is_empty());
    let read = |at: u64| {
        let at = usize::try_from(at).ok()?;
        Some([0, 4, 8, 12, 16].map(|field| u32_at(bytes, at.saturating_add(field))))
    };
    named
        .map(|(number, symbol)| {
            let map = match read(symbol.value) {
                Some([Some(type_number), Some(key), Some(value), Some(max_entries), flags]) => {
                    Ok(MapDefinition {
                        name: symbol.name.clone(),
                        type_number,
                        key_bytes: key,
                        value_bytes: value,
                        max_entries,
                        flags: if symbol.size >= 20 { flags.unwrap_or(0) } else { 0 },
                        key_type: None,
                        value_type: None,
                        programs: Vec::new(),
                        data: None,
                    })
                }
                _ => Err(Problem::new(
                    format!("map '{}' in section 'maps' is cut off", symbol.name),
                    "declare it as `struct bpf_map_def`",
                )),
            };
            (number, map)
        })
        .collect()
}
