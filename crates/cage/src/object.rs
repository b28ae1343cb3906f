//! An object file as a whole: programs, functions, maps, global variables.

use std::collections::HashMap;

use crate::btf::Btf;
use crate::definition::{self, MapDefinition};
use crate::elf::{Elf, SymbolKind};
use crate::instruction::BYTES;
use crate::lines::Lines;
use crate::problem::{Place, Problem, Problems};

/// Most maps, sections of global variables included.
const MAX_MAPS: usize = 1024;

/// A function in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Number of its section.
    pub section: usize,
    /// Offset in the section, in bytes.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is a program, not only a function of programs.
    pub program: bool,
}

/// An object file that has been read.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) elf: Elf,
    /// Type information; empty if the file has none.
    pub btf: Btf,
    lines: Lines,
    /// Maps and sections of global variables.
    pub maps: Vec<MapDefinition>,
    /// Mistakes in maps, reported only if a program uses the map.
    pub(crate) broken_maps: HashMap<usize, Problem>,
    pub(crate) map_of_symbol: HashMap<usize, usize>,
    pub(crate) map_of_section: HashMap<usize, usize>,
    /// All functions.
    pub functions: Vec<Function>,
    /// Functions by section and offset.
    starts: HashMap<(usize, u64), usize>,
}

impl Object {
    /// Reads an object file.
    ///
    /// # Errors
    /// The mistake of the file.
    pub fn read(file: &[u8]) -> Result<Object, Problems> {
        let elf = Elf::read(file)?;
        let btf = elf.section(".BTF").and_then(|section| Btf::read(&section.bytes));
        let mut btf = btf.unwrap_or_default();
        for (number, section) in elf.sections.iter().enumerate() {
            if is_data(&section.name) {
                let here = elf.symbols.iter().filter(|symbol| symbol.section == Some(number));
                let places: HashMap<&str, u64> =
                    here.map(|symbol| (symbol.name.as_str(), symbol.value)).collect();
                btf.set_offsets(&section.name, |name| u32::try_from(*places.get(name)?).ok());
            }
        }
        let lines = elf.section(".BTF.ext").and_then(|of| Lines::read(&of.bytes, &btf));
        let functions = functions(&elf);
        let mut starts = HashMap::new();
        for (number, function) in functions.iter().enumerate() {
            starts.entry((function.section, function.start)).or_insert(number);
        }
        let mut object = Object {
            elf,
            btf,
            lines: lines.unwrap_or_default(),
            maps: Vec::new(),
            broken_maps: HashMap::new(),
            map_of_symbol: HashMap::new(),
            map_of_section: HashMap::new(),
            functions,
            starts,
        };
        object.find_maps();
        if object.maps.len() > MAX_MAPS {
            let what = format!("{} maps, at most {MAX_MAPS}", object.maps.len());
            return Err(Problem::new(what, "use fewer maps").into());
        }
        if object.functions.iter().all(|function| !function.program) {
            return Err(Problem::new(
                "the object has no program",
                "mark the function with `SEC(\"xdp\")`",
            )
            .into());
        }
        Ok(object)
    }

    /// The licence that the source states.
    pub fn license(&self) -> String {
        let bytes = self.elf.section("license").map_or(&[][..], |section| &section.bytes);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text.get(..text.len().min(128)).unwrap_or_default()).into_owned()
    }

    /// Names of the programs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|of| of.program).map(|of| of.name.as_str())
    }

    /// Name of the section that a function is in.
    pub fn section_of(&self, function: &Function) -> &str {
        self.elf.sections.get(function.section).map_or("", |section| &section.name)
    }

    /// The program with this name, or with this section name, or the only one.
    ///
    /// # Errors
    /// There is none, or it is ambiguous.
    pub fn program(&self, name: Option<&str>) -> Result<usize, Problem> {
        let numbered = || self.functions.iter().enumerate().filter(|(_, of)| of.program);
        let found: Vec<usize> = match name {
            Some(name) => {
                let by_name = numbered().filter(|(_, of)| of.name == name);
                let by_section = numbered().filter(|(_, of)| self.section_of(of) == name);
                let first: Vec<usize> = by_name.map(|(number, _)| number).collect();
                if first.is_empty() { by_section.map(|(n, _)| n).collect() } else { first }
            }
            None => numbered().map(|(number, _)| number).collect(),
        };
        let all = || self.programs().collect::<Vec<_>>().join(", ");
        match (found.as_slice(), name) {
            ([one], _) => Ok(*one),
            ([], name) => Err(Problem::new(
                format!("the object has no program '{}'", name.unwrap_or_default()),
                format!("its programs: {}", all()),
            )),
            _ => Err(Problem::new(
                format!("the object has {} programs that could be meant", found.len()),
                format!("name one of them: {}", all()),
            )),
        }
    }

    /// The source line of an instruction, by its offset in the section of its function.
    pub fn place(&self, function: &Function, offset: u64) -> Option<Place> {
        let section = self.section_of(function);
        self.lines.place(&self.btf, section, function.start, offset)
    }

    /// The function that starts here.
    pub(crate) fn function_at(&self, section: usize, start: u64) -> Option<usize> {
        self.starts.get(&(section, start)).copied()
    }

    fn add_map(&mut self, map: Result<MapDefinition, Problem>, name: &str) -> usize {
        let number = self.maps.len();
        match map {
            Ok(map) => self.maps.push(map),
            Err(problem) => {
                self.broken_maps.insert(number, problem);
                let section = crate::elf::Section {
                    name: name.to_owned(),
                    bytes: Vec::new(),
                    code: false,
                    allocated: false,
                    relocations: Vec::new(),
                };
                self.maps.push(MapDefinition::of_data(&section));
            }
        }
        number
    }

    fn find_maps(&mut self) {
        for number in 0..self.elf.sections.len() {
            let Some(section) = self.elf.sections.get(number) else { continue };
            let data =
                [".rodata", ".data", ".bss"].iter().any(|name| section.name.starts_with(name));
            if section.name == ".maps" {
                self.find_btf_maps(number);
            } else if section.name == "maps" {
                for (symbol, map) in definition::legacy(&self.elf, number) {
                    let name = self.elf.symbols.get(symbol).map_or("", |of| &of.name).to_owned();
                    let place = self.add_map(map, &name);
                    self.map_of_symbol.insert(symbol, place);
                }
            } else if data && section.allocated && !section.code && !section.bytes.is_empty() {
                let map = MapDefinition::of_data(section);
                self.map_of_section.insert(number, self.maps.len());
                self.maps.push(map);
            }
        }
    }

    fn find_btf_maps(&mut self, section: usize) {
        let declared: Vec<(String, u32, u32)> = self
            .btf
            .variables(".maps")
            .take(MAX_MAPS)
            .map(|(name, variable)| (name.to_owned(), variable.of, variable.offset))
            .collect();
        let symbols: HashMap<&str, usize> = self
            .elf
            .symbols
            .iter()
            .enumerate()
            .filter(|(_, symbol)| symbol.section == Some(section))
            .map(|(number, symbol)| (symbol.name.as_str(), number))
            .collect();
        let symbols: Vec<Option<usize>> =
            declared.iter().map(|(name, ..)| symbols.get(name.as_str()).copied()).collect();
        for ((name, of, _), symbol) in declared.into_iter().zip(symbols) {
            let map = definition::from_btf(&self.btf, &name, of);
            let programs = symbol.map(|symbol| self.programs_of(section, symbol, of));
            let place = self.add_map(map, &name);
            if let (Some(map), Some(programs)) = (self.maps.get_mut(place), programs) {
                map.programs = programs;
            }
            if let Some(symbol) = symbol {
                self.map_of_symbol.insert(symbol, place);
            }
        }
    }

    /// The declared contents of a program array: `.values = {[1] = (void *)&program}`.
    fn programs_of(&self, section: usize, symbol: usize, of: u32) -> Vec<(u32, String)> {
        let (Some(section), Some(symbol)) =
            (self.elf.sections.get(section), self.elf.symbols.get(symbol))
        else {
            return Vec::new();
        };
        let values = self.btf.members(of).iter().find(|m| self.btf.member_name(m) == "values");
        let Some(start) =
            values.map(|values| symbol.value.saturating_add(values.offset as u64 / 8))
        else {
            return Vec::new();
        };
        let end = symbol.value.saturating_add(symbol.size);
        let here = section.relocations.iter().filter(|r| (start..end).contains(&r.offset));
        here.filter_map(|relocation| {
            let target = self.elf.symbols.get(relocation.symbol)?;
            let index = u32::try_from((relocation.offset - start) / 8).ok()?;
            (target.kind == SymbolKind::Function).then(|| (index, target.name.clone()))
        })
        .collect()
    }
}

/// Whether a section has global variables.
fn is_data(name: &str) -> bool {
    [".rodata", ".data", ".bss"].iter().any(|start| name.starts_with(start))
}

fn functions(elf: &Elf) -> Vec<Function> {
    let mut functions = Vec::new();
    for symbol in elf.symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Function) {
        let Some(number) = symbol.section else { continue };
        let Some(section) = elf.sections.get(number).filter(|section| section.code) else {
            continue;
        };
        let end = symbol.value.saturating_add(symbol.size);
        let aligned = symbol.value.is_multiple_of(BYTES as u64) && end.is_multiple_of(BYTES as u64);
        if symbol.size == 0 || !aligned || end > section.bytes.len() as u64 {
            continue;
        }
        functions.push(Function {
            name: symbol.name.clone(),
            section: number,
            start: symbol.value,
            size: symbol.size,
            program: section.name != ".text",
        });
    }
    functions
}
