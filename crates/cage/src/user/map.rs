//! Maps in this process's memory, with the kernel's answers.
//!
//! There is one CPU here, so maps with a value for each CPU have one value.

use crate::definition::{MapDefinition, MapKind};
use crate::problem::Problem;
use crate::user::hash::Table;
use crate::user::ring::Ring;

pub(super) const ENOENT: i64 = -2;
pub(super) const E2BIG: i64 = -7;
pub(super) const EEXIST: i64 = -17;
pub(super) const EINVAL: i64 = -22;

/// Flags of an update.
const NO_EXIST: u64 = 1;
const EXIST: u64 = 2;
/// Longest key, in bytes.
pub(super) const MAX_KEY_BYTES: usize = 512;
/// Bytes that are kept for the reader of a perf event array.
const EVENT_BYTES: usize = 1 << 16;
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;

/// A map.
#[derive(Debug)]
pub struct Map {
    kind: MapKind,
    name: String,
    key_bytes: usize,
    value_bytes: usize,
    max_entries: u32,
    /// Distance of two values in memory.
    stride: usize,
    /// An address of a value is its number shifted by this, plus an offset.
    shift: u32,
    read_only: bool,
    values: Vec<u8>,
    index: Index,
}

/// How keys select values.
#[derive(Debug)]
enum Index {
    /// The key is the number; all values exist.
    Array,
    /// The key is the number; the value may be absent: a device, a socket, the start of a program.
    Sparse(Vec<bool>),
    Table(Table),
    Ring(Ring),
}

impl Map {
    /// Makes a map. `budget` is the memory left for all maps together, in bytes.
    ///
    /// # Errors
    /// The mistake of the definition.
    pub(super) fn new(definition: &MapDefinition, budget: &mut u64) -> Result<Map, Problem> {
        let name = &definition.name;
        let wrong =
            |what: String, remedy: &str| Problem::new(format!("map '{name}': {what}"), remedy);
        let kind = definition.kind().ok_or_else(|| {
            let known: Vec<&str> = MapKind::ALL.iter().map(|(_, name)| *name).collect();
            let what = format!("map type {} is not allowed", definition.type_number);
            Problem::new(format!("map '{name}': {what}"), format!("allowed: {}", known.join(", ")))
        })?;
        let (mut key_bytes, mut value_bytes) =
            (definition.key_bytes as usize, definition.value_bytes as usize);
        let mut max_entries = definition.max_entries;
        if matches!(kind, MapKind::ProgArray | MapKind::PerfEventArray | MapKind::Xskmap) {
            (key_bytes, value_bytes) = (4, 4);
        }
        match kind {
            MapKind::PerfEventArray => max_entries = max_entries.max(1),
            MapKind::Ringbuf => {
                if !max_entries.is_power_of_two() || max_entries < 4096 {
                    let what = format!("{max_entries} bytes");
                    return Err(wrong(
                        what,
                        "a ring buffer has a power of two of bytes, 4096 or more",
                    ));
                }
                (key_bytes, value_bytes) = (0, 0);
            }
            _ if max_entries == 0 => {
                return Err(wrong("no entries".into(), "set `max_entries`"));
            }
            _ => {}
        }
        let table = Table::is_for(kind);
        if kind != MapKind::Ringbuf {
            let fits =
                if table { (1..=MAX_KEY_BYTES).contains(&key_bytes) } else { key_bytes == 4 };
            let wanted = if table { "1 to 512" } else { "4" };
            if !fits || value_bytes == 0 {
                return Err(wrong(
                    format!("keys of {key_bytes} bytes, values of {value_bytes}"),
                    &format!("keys have {wanted} bytes, values at least 1"),
                ));
            }
        }
        if kind == MapKind::LpmTrie && !(5..=260).contains(&key_bytes) {
            let what = format!("keys of {key_bytes} bytes");
            return Err(wrong(
                what,
                "a key is a prefix length of 4 bytes and 1 to 256 bytes of address",
            ));
        }
        let stride = value_bytes.next_multiple_of(8);
        let each = stride as u64 + if table { key_bytes as u64 + 24 } else { 1 };
        let bytes = match kind {
            MapKind::Ringbuf => u64::from(max_entries) * 2,
            MapKind::PerfEventArray => 2 * EVENT_BYTES as u64,
            _ => each.saturating_mul(u64::from(max_entries)),
        };
        *budget = budget.checked_sub(bytes).ok_or_else(|| {
            wrong(
                format!("{bytes} bytes, of which {} are left for maps", *budget),
                "make `max_entries` smaller, or raise MEMORY",
            )
        })?;
        let values = || vec![0; stride * max_entries as usize];
        let (values, index) = match kind {
            MapKind::Array | MapKind::PercpuArray => (values(), Index::Array),
            MapKind::ProgArray | MapKind::Devmap | MapKind::Cpumap | MapKind::Xskmap => {
                (values(), Index::Sparse(vec![false; max_entries as usize]))
            }
            MapKind::Ringbuf => (Vec::new(), Index::Ring(Ring::new(max_entries as usize))),
            MapKind::PerfEventArray => (Vec::new(), Index::Ring(Ring::new(EVENT_BYTES))),
            _ => (values(), Index::Table(Table::new(kind, key_bytes, max_entries))),
        };
        let mut map = Map {
            kind,
            name: name.clone(),
            key_bytes,
            value_bytes,
            max_entries,
            stride,
            // The distance is twice the length: memory behind each value is invalid.
            shift: value_bytes.max(1).next_power_of_two().trailing_zeros() + 1,
            read_only: definition.flags & READ_ONLY_FOR_PROGRAMS != 0,
            values,
            index,
        };
        if let Some((bytes, _)) = &definition.data {
            map.values.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
        Ok(map)
    }

    /// A placeholder for a map that no linked function uses.
    pub(super) fn unused() -> Map {
        Map {
            kind: MapKind::Array,
            name: String::new(),
            key_bytes: 4,
            value_bytes: 0,
            max_entries: 0,
            stride: 0,
            shift: 0,
            read_only: true,
            values: Vec::new(),
            index: Index::Array,
        }
    }

    /// Whether another program may continue to use it.
    pub(super) fn can_move(&self) -> bool {
        self.kind != MapKind::ProgArray && !self.name.starts_with('.') && !self.name.is_empty()
    }

    /// Whether it has the same name and shape.
    pub(super) fn is_like(&self, other: &Map) -> bool {
        let shape = |map: &Map| (map.kind, map.key_bytes, map.value_bytes, map.max_entries);
        self.name == other.name && shape(self) == shape(other) && self.read_only == other.read_only
    }

    /// Whether programs may not change its values.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Its type.
    pub fn kind(&self) -> MapKind {
        self.kind
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of a value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Most entries.
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// The bytes at an address, which `shift` splits into the number of the value and an offset.
    #[inline(always)]
    fn range(&self, offset: usize, count: usize) -> Option<std::ops::Range<usize>> {
        let within = offset & ((1 << self.shift) - 1);
        if within + count > self.value_bytes {
            return None;
        }
        let start = (offset >> self.shift) * self.stride + within;
        Some(start..start + count)
    }

    #[inline(always)]
    pub(super) fn bytes(&self, offset: usize, count: usize) -> Option<&[u8]> {
        match &self.index {
            Index::Ring(ring) => ring.bytes(offset, count),
            _ => self.values.get(self.range(offset, count)?),
        }
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, offset: usize, count: usize) -> Option<&mut [u8]> {
        if self.read_only {
            return None;
        }
        let range = self.range(offset, count);
        match &mut self.index {
            Index::Ring(ring) => ring.bytes_mut(offset, count),
            _ => self.values.get_mut(range?),
        }
    }

    /// Offset of a value in an address.
    #[inline(always)]
    pub(super) fn address_of(&self, number: u32) -> u64 {
        u64::from(number) << self.shift
    }

    /// The value of a number.
    #[inline(always)]
    pub(super) fn value(&self, number: u32) -> Option<&[u8]> {
        let start = number as usize * self.stride;
        self.values.get(start..start + self.value_bytes)
    }

    fn set_value(&mut self, number: u32, value: &[u8]) {
        let start = number as usize * self.stride;
        if let Some(to) = self.values.get_mut(start..start + self.value_bytes) {
            to.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        }
    }

    /// The number of the value of a key.
    #[inline(always)]
    pub(super) fn find(&mut self, key: &[u8]) -> Option<u32> {
        match &mut self.index {
            Index::Table(table) => table.find(key),
            index => {
                let number = u32::from_le_bytes(*key.first_chunk()?);
                let there = match index {
                    Index::Array => number < self.max_entries,
                    Index::Sparse(set) => set.get(number as usize).copied().unwrap_or(false),
                    _ => false,
                };
                there.then_some(number)
            }
        }
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        let number = if key.len() == self.key_bytes { self.find(key)? } else { return None };
        self.value(number)
    }

    /// Sets the value of a key; 0, or a negative error number of the kernel.
    pub fn update(&mut self, key: &[u8], value: &[u8], flags: u64) -> i64 {
        // Bit 2 asks for a lock around the copy; only this thread runs here.
        let flags = flags & !4;
        if flags > EXIST || key.len() != self.key_bytes || value.len() != self.value_bytes {
            return EINVAL;
        }
        let number = match &mut self.index {
            Index::Ring(_) => return EINVAL,
            Index::Table(table) => match table.insert(key, flags == NO_EXIST, flags == EXIST) {
                Ok(number) => number,
                Err(error) => return error,
            },
            index => {
                let Some(number) = key.first_chunk().map(|key| u32::from_le_bytes(*key)) else {
                    return EINVAL;
                };
                if number >= self.max_entries {
                    return E2BIG;
                }
                if flags == NO_EXIST {
                    return EEXIST;
                }
                if let Index::Sparse(set) = index
                    && let Some(set) = set.get_mut(number as usize)
                {
                    *set = true;
                }
                number
            }
        };
        self.set_value(number, value);
        0
    }

    /// Removes a key; 0, or a negative error number of the kernel.
    pub fn delete(&mut self, key: &[u8]) -> i64 {
        if key.len() != self.key_bytes {
            return EINVAL;
        }
        match &mut self.index {
            Index::Table(table) => table.remove(key),
            Index::Sparse(set) => {
                let number = key.first_chunk().map_or(u32::MAX, |key| u32::from_le_bytes(*key));
                match set.get_mut(number as usize) {
                    Some(set) => {
                        *set = false;
                        0
                    }
                    None => EINVAL,
                }
            }
            _ => EINVAL,
        }
    }

    /// The first four bytes of a value: a device, a CPU, a socket, the start of a program.
    #[inline(always)]
    pub(super) fn number_at(&mut self, key: u32) -> Option<u32> {
        let number = self.find(&key.to_le_bytes())?;
        Some(u32::from_le_bytes(*self.value(number)?.first_chunk()?))
    }

    /// The first four bytes of all values that are set. Allocates nothing.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let is_set = move |number: &u32| match &self.index {
            Index::Sparse(set) => set.get(*number as usize).copied().unwrap_or(false),
            Index::Table(table) => table.is_used(*number),
            _ => false,
        };
        let set = (0..self.max_entries).filter(is_set);
        set.filter_map(move |number| Some(u32::from_le_bytes(*self.value(number)?.first_chunk()?)))
    }

    /// All keys with their values.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let numbered = |number: u32| (number.to_le_bytes().to_vec(), number);
        let keys: Vec<(Vec<u8>, u32)> = match &self.index {
            Index::Array => (0..self.max_entries).map(numbered).collect(),
            Index::Sparse(set) => {
                (0..).zip(set).filter(|(_, set)| **set).map(|(n, _)| numbered(n)).collect()
            }
            Index::Table(table) => table.keys().collect(),
            Index::Ring(_) => Vec::new(),
        };
        let value = |number| self.value(number).unwrap_or_default().to_vec();
        keys.into_iter().map(|(key, number)| (key, value(number))).collect()
    }

    pub(super) fn ring(&mut self) -> Option<&mut Ring> {
        match &mut self.index {
            Index::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    /// Takes the records that the program has written to a ring buffer or as perf events.
    pub fn take_records(&mut self, most: usize) -> Vec<Vec<u8>> {
        self.ring().map(|ring| ring.take(most)).unwrap_or_default()
    }

    /// Records that found no room.
    pub fn lost_records(&self) -> u64 {
        match &self.index {
            Index::Ring(ring) => ring.lost(),
            _ => 0,
        }
    }
}
