//! The type information of an object file (`.BTF`), for maps and values.
//!
//! Types refer to each other by number and references may be circular; every walk here is bounded.

use crate::bytes::{u16_at, u32_at};

/// Deepest nesting of types that is followed.
const MAX_DEPTH: u32 = 32;
/// Most types.
const MAX_TYPES: usize = 1 << 18;

/// Longest string that is compared: a file may name a long one in each of its records.
const MAX_STRING_BYTES: usize = 1024;

/// A type, by its number.
pub type TypeId = u32;

/// A member of a structure, or a variable of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    name: u32,
    /// Its type.
    pub of: TypeId,
    /// Bits from the start of the structure; bytes for a variable of a section.
    pub offset: u32,
    /// Bits, if it is a bit field; else 0.
    pub bits: u8,
}

/// The kinds of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Integer {
        /// Whether it can be negative.
        signed: bool,
        /// Whether it is a `bool`.
        boolean: bool,
    },
    /// A pointer.
    Pointer(TypeId),
    /// An array.
    Array {
        /// The type of its elements.
        of: TypeId,
        /// How many.
        count: u32,
    },
    /// A structure, or a union.
    Structure(Vec<Member>),
    /// An enumeration: names and values.
    Enumeration(Vec<(u32, i64)>),
    /// `typedef`, `const`, `volatile`, `restrict` or a tag, with its base type.
    Other(TypeId),
    /// A variable.
    Variable(TypeId),
    /// Variables of a section.
    Section(Vec<Member>),
    /// A function or its prototype, a forward declaration, a floating-point number.
    Opaque,
}

#[derive(Clone, Debug)]
struct Type {
    name: u32,
    kind: Kind,
    size: u32,
}

/// All types of an object.
#[derive(Clone, Debug, Default)]
pub struct Btf {
    strings: Vec<u8>,
    types: Vec<Type>,
}

/// Bytes of the header.
const HEADER: usize = 24;

impl Btf {
    /// Reads the section `.BTF`. `None` if it is malformed.
    pub fn read(section: &[u8]) -> Option<Btf> {
        if u16_at(section, 0)? != 0xeb9f {
            return None;
        }
        let header = u32_at(section, 4)? as usize;
        let part = |at: usize| {
            let (offset, length) =
                (u32_at(section, at)? as usize, u32_at(section, at + 4)? as usize);
            let start = header.checked_add(offset)?;
            section.get(start..start.checked_add(length)?)
        };
        if header < HEADER {
            return None;
        }
        let (mut rest, strings) = (part(8)?, part(16)?.to_vec());
        let void = Type { name: 0, kind: Kind::Opaque, size: 0 };
        let mut types = vec![void];
        while !rest.is_empty() {
            if types.len() >= MAX_TYPES {
                return None;
            }
            let (read, length) = read_type(rest)?;
            types.push(read);
            rest = rest.get(length..)?;
        }
        Some(Btf { strings, types })
    }

    /// The string at this offset, cut at 1024 bytes.
    pub fn string(&self, offset: u32) -> &str {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let rest = rest.get(..MAX_STRING_BYTES).unwrap_or(rest);
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        rest.get(..end).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// Its kind.
    pub fn kind(&self, id: TypeId) -> &Kind {
        self.types.get(id as usize).map_or(&Kind::Opaque, |found| &found.kind)
    }

    /// The type's name; may be empty.
    pub fn name(&self, id: TypeId) -> &str {
        self.types.get(id as usize).map_or("", |found| self.string(found.name))
    }

    /// A member's name.
    pub fn member_name(&self, member: &Member) -> &str {
        self.string(member.name)
    }

    /// The type behind `typedef`, `const` and the like.
    pub fn resolve(&self, mut id: TypeId) -> TypeId {
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                Kind::Other(of) => id = *of,
                _ => break,
            }
        }
        id
    }

    /// Bytes of a value of this type.
    pub fn size(&self, id: TypeId) -> Option<u32> {
        let (mut id, mut times) = (id, 1_u32);
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                Kind::Other(of) | Kind::Variable(of) => id = *of,
                Kind::Array { of, count } => {
                    times = times.checked_mul(*count)?;
                    id = *of;
                }
                Kind::Pointer(_) => return times.checked_mul(8),
                Kind::Opaque => return None,
                _ => return self.types.get(id as usize)?.size.checked_mul(times),
            }
        }
        None
    }

    /// The variables of a data section, with their names.
    pub fn variables(&self, section: &str) -> impl Iterator<Item = (&str, Member)> {
        let found = self.types.iter().find_map(|of| match &of.kind {
            Kind::Section(members) if self.string(of.name) == section => Some(members.as_slice()),
            _ => None,
        });
        found.unwrap_or_default().iter().filter_map(|member| match self.kind(member.of) {
            Kind::Variable(of) => Some((self.name(member.of), Member { of: *of, ..*member })),
            _ => None,
        })
    }

    /// Sets the places of a section's variables, which clang leaves to symbols.
    pub(crate) fn set_offsets(&mut self, section: &str, place: impl Fn(&str) -> Option<u32>) {
        let found = self
            .types
            .iter()
            .position(|of| matches!(of.kind, Kind::Section(_)) && self.string(of.name) == section);
        let Some(number) = found else { return };
        let places: Vec<Option<u32>> = match self.types.get(number).map(|of| &of.kind) {
            Some(Kind::Section(members)) => {
                members.iter().map(|member| place(self.name(member.of))).collect()
            }
            _ => return,
        };
        if let Some(Type { kind: Kind::Section(members), .. }) = self.types.get_mut(number) {
            for (member, place) in members.iter_mut().zip(places) {
                member.offset = place.unwrap_or(member.offset);
            }
        }
    }

    /// Members of the structure that a map is declared by.
    pub fn members(&self, id: TypeId) -> &[Member] {
        match self.kind(self.resolve(id)) {
            Kind::Structure(members) => members,
            _ => &[],
        }
    }

    /// The target of a member declared by `__type`.
    pub fn pointee(&self, id: TypeId) -> Option<TypeId> {
        match self.kind(self.resolve(id)) {
            Kind::Pointer(of) => Some(*of),
            _ => None,
        }
    }

    /// The number that a member declared by `__uint` means: it points to an array of this length.
    pub fn number(&self, id: TypeId) -> Option<u32> {
        match self.kind(self.resolve(self.pointee(id)?)) {
            Kind::Array { count, .. } => Some(*count),
            _ => None,
        }
    }
}

/// One type and its length in the section.
fn read_type(bytes: &[u8]) -> Option<(Type, usize)> {
    let (name, info, size) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?, u32_at(bytes, 8)?);
    let count = (info & 0xffff) as usize;
    let flag = info >> 31 != 0;
    let list = |each: usize| bytes.get(12..12 + count * each);
    let members = || -> Option<Vec<Member>> {
        list(12)?
            .chunks_exact(12)
            .map(|member| {
                let place = u32_at(member, 8)?;
                Some(Member {
                    name: u32_at(member, 0)?,
                    of: u32_at(member, 4)?,
                    offset: if flag { place & 0x00ff_ffff } else { place },
                    bits: if flag { (place >> 24) as u8 } else { 0 },
                })
            })
            .collect()
    };
    let (kind, extra) = match info >> 24 & 31 {
        1 => {
            let encoding = u32_at(bytes, 12)? >> 24 & 15;
            (Kind::Integer { signed: encoding & 1 != 0, boolean: encoding & 4 != 0 }, 4)
        }
        2 => (Kind::Pointer(size), 0),
        3 => (Kind::Array { of: u32_at(bytes, 12)?, count: u32_at(bytes, 20)? }, 12),
        4 | 5 => (Kind::Structure(members()?), count * 12),
        6 => {
            let values = list(8)?.chunks_exact(8).map(|value| {
                let number = u32_at(value, 4)?;
                let number = if flag { i64::from(number.cast_signed()) } else { number.into() };
                Some((u32_at(value, 0)?, number))
            });
            (Kind::Enumeration(values.collect::<Option<_>>()?), count * 8)
        }
        8..=11 | 18 => (Kind::Other(size), 0),
        13 => (Kind::Opaque, count * 8),
        14 => (Kind::Variable(size), 4),
        15 => {
            let variables = list(12)?.chunks_exact(12).map(|variable| {
                let (of, offset) = (u32_at(variable, 0)?, u32_at(variable, 4)?);
                Some(Member { name: 0, of, offset, bits: 0 })
            });
            (Kind::Section(variables.collect::<Option<_>>()?), count * 12)
        }
        7 | 12 | 16 => (Kind::Opaque, 0),
        17 => (Kind::Opaque, 4),
        19 => {
            let values = list(12)?.chunks_exact(12).map(|value| {
                let number = u64::from(u32_at(value, 4)?) | u64::from(u32_at(value, 8)?) << 32;
                Some((u32_at(value, 0)?, number.cast_signed()))
            });
            (Kind::Enumeration(values.collect::<Option<_>>()?), count * 12)
        }
        _ => return None,
    };
    bytes.get(12..12 + extra)?;
    Some((Type { name, kind, size }, 12 + extra))
}
