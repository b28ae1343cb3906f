//! Linked code in the form that `BPF_PROG_LOAD` takes: instructions, types of functions, lines.
//!
//! The types are minimal: each function takes the context. All functions but the program itself are
//! static, so that the verifier follows every call.

use std::collections::HashMap;

use crate::instruction::{BYTES, Instruction, LOAD_WIDE, wide};
use crate::link::Linked;
use crate::object::Object;
use crate::problem::Place;

/// The instructions to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Instructions, eight bytes each, without maps.
    pub instructions: Vec<u8>,
    /// Types and strings.
    pub btf: Vec<u8>,
    /// Records of functions: 8 bytes each.
    pub functions: Vec<u8>,
    /// Records of lines: 16 bytes each.
    pub lines: Vec<u8>,
    /// Instructions that refer to maps, and the maps' numbers in [`Object::maps`].
    maps: Vec<(usize, usize)>,
}

/// Kinds of types.
const INTEGER: u32 = 1;
const POINTER: u32 = 2;
const STRUCTURE: u32 = 4;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
/// Linkage of functions.
const GLOBAL: u32 = 1;
/// Number of types before those of the functions.
const PROTOTYPE_ID: u32 = 4;

/// Strings by their contents.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    known: HashMap<String, u32>,
}

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        if self.bytes.is_empty() {
            self.bytes.push(0);
        }
        if text.is_empty() {
            return 0;
        }
        if let Some(offset) = self.known.get(text) {
            return *offset;
        }
        // Below the numbers of an object file.
        let offset = self.bytes.len() as u32;
        self.bytes.extend(text.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
        self.known.insert(text.to_owned(), offset);
        offset
    }
}

/// Makes a function's name valid as a C identifier.
fn identifier(name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().take(100).map(good).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        format!("_{name}")
    } else {
        name
    }
}

/// A function of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name.
    pub(crate) name: String,
    /// Number of its first instruction.
    pub(crate) start: usize,
    /// Number of the instruction behind its last.
    pub(crate) end: usize,
}

impl Image {
    /// The image of linked code; its first entry is the program.
    pub fn new(object: &Object, linked: &Linked) -> Image {
        let name = |number: usize| object.functions.get(number).map_or("", |of| &of.name);
        let parts = linked.functions.iter().map(|of| Part {
            name: name(of.function).to_owned(),
            start: of.start,
            end: of.end,
        });
        let parts: Vec<Part> = parts.collect();
        Image::assemble(&linked.code, &parts, |at| linked.place(object, at))
    }

    /// Makes the image of these functions; the first one is the program.
    pub(crate) fn assemble(
        code: &[Instruction],
        parts: &[Part],
        place: impl Fn(usize) -> Option<Place>,
    ) -> Image {
        let mut strings = Strings::default();
        let mut types = Vec::new();
        let mut word = |word: u32| types.extend(word.to_le_bytes());
        let kind = |kind: u32, count: u32| kind << 24 | count;
        for of in [strings.add("int"), kind(INTEGER, 0), 4, 1 << 24 | 32] {
            word(of);
        }
        for of in [strings.add("xdp_md"), kind(STRUCTURE, 0), 24, 0, kind(POINTER, 0), 2] {
            word(of);
        }
        // PROTOTYPE_ID: int (struct xdp_md *ctx).
        for of in [0, kind(PROTOTYPE, 1), 1, strings.add("ctx"), 3] {
            word(of);
        }
        let mut functions = Vec::new();
        let mut lines = Vec::new();
        for (number, part) in (0_u32..).zip(parts) {
            let name = identifier(&part.name);
            // Two static functions may have one name.
            let name = strings.add(&if number == 0 { name } else { format!("{name}_{number}") });
            let linkage = if number == 0 { GLOBAL } else { 0 };
            for of in [name, kind(FUNCTION, linkage), PROTOTYPE_ID] {
                word(of);
            }
            // Below MAX_INSTRUCTIONS.
            let start = part.start as u32;
            functions.extend(start.to_le_bytes());
            functions.extend((PROTOTYPE_ID + 1 + number).to_le_bytes());
            let mut last = None;
            let mut second = false;
            for at in part.start..part.end {
                if std::mem::take(&mut second) {
                    continue;
                }
                second = code.get(at).is_some_and(|of| of.code == LOAD_WIDE);
                let here = place(at);
                if here == last && at != part.start {
                    continue;
                }
                let (file, text, position) = match &here {
                    Some(place) => (
                        strings.add(&place.file),
                        strings.add(&place.text),
                        place.line << 10 | place.column.min(1023),
                    ),
                    None => (strings.add("unknown"), 0, 0),
                };
                for of in [at as u32, file, text, position] {
                    lines.extend(of.to_le_bytes());
                }
                last = here;
            }
        }
        let mut btf = vec![0x9f, 0xeb, 1, 0];
        let sizes = [24, 0, types.len() as u32, types.len() as u32, strings.bytes.len() as u32];
        btf.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        btf.extend(types);
        btf.extend(strings.bytes);
        let (instructions, maps) = instructions(code);
        Image { instructions, btf, functions, lines, maps }
    }

    /// The maps that it refers to, by number.
    pub fn maps(&self) -> Vec<usize> {
        let mut maps: Vec<usize> = self.maps.iter().map(|(_, map)| *map).collect();
        maps.sort_unstable();
        maps.dedup();
        maps
    }

    /// The instructions with the descriptors of maps.
    pub fn with_maps(&self, descriptor: impl Fn(usize) -> i32) -> Vec<u8> {
        let mut bytes = self.instructions.clone();
        for (at, map) in &self.maps {
            let place = at * BYTES + 4;
            if let Some(to) = bytes.get_mut(place..place + 4) {
                to.copy_from_slice(&descriptor(*map).to_le_bytes());
            }
        }
        bytes
    }
}

fn instructions(code: &[Instruction]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut bytes, mut maps) = (Vec::with_capacity(code.len() * BYTES), Vec::new());
    let mut second = false;
    for (at, instruction) in code.iter().enumerate() {
        let mut instruction: Instruction = *instruction;
        let first = instruction.code == LOAD_WIDE && !second;
        if first && matches!(instruction.src, wide::MAP | wide::MAP_VALUE) {
            maps.push((at, instruction.immediate as usize));
            instruction.immediate = 0;
        }
        second = first;
        bytes.extend(instruction.write());
    }
    (bytes, maps)
}
