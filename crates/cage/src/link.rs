//! The linker: places the functions that programs need one after the other, and fills in calls and
//! maps.
//!
//! References to maps become their numbers in [`Object::maps`]; calls become distances.
//! [`crate::check`] checks the rights of the result.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::instruction::{self, BYTES, Instruction, call, wide};
use crate::object::{Function, Object};
use crate::problem::{Place, Problem, Problems};

/// Most instructions of all linked functions together.
pub const MAX_INSTRUCTIONS: usize = 1 << 20;

/// A function in the linked code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFunction {
    /// Number in [`Object::functions`].
    pub function: usize,
    /// Number of its first instruction.
    pub start: usize,
    /// Number of the instruction behind its last.
    pub end: usize,
}

/// Programs with all that they call.
#[derive(Clone, Debug)]
pub struct Linked {
    /// All instructions.
    pub code: Vec<Instruction>,
    /// All functions, in order.
    pub functions: Vec<LinkedFunction>,
    /// Which of the object's maps are used.
    pub used: Vec<bool>,
    /// First instruction of each requested program.
    pub entries: Vec<usize>,
}

impl Linked {
    /// The function that an instruction is in.
    pub fn function_of(&self, index: usize) -> Option<&LinkedFunction> {
        let after = self.functions.partition_point(|function| function.start <= index);
        self.functions.get(after.checked_sub(1)?).filter(|function| index < function.end)
    }

    /// The source line of an instruction.
    pub fn place(&self, object: &Object, index: usize) -> Option<Place> {
        let linked = self.function_of(index)?;
        let function = object.functions.get(linked.function)?;
        let offset = (index - linked.start) * BYTES;
        object.place(function, function.start.saturating_add(offset as u64))
    }

    /// A mistake at an instruction.
    pub fn problem(
        &self,
        object: &Object,
        index: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        let name = self.function_of(index).and_then(|of| object.functions.get(of.function));
        Problem {
            place: self.place(object, index).map(Box::new),
            function: name.map(|function| function.name.clone()),
            ..Problem::new(what, remedy)
        }
    }
}

/// Links programs, by their numbers in [`Object::functions`].
///
/// # Errors
/// All mistakes that are found.
pub fn link(object: &Object, programs: &[usize]) -> Result<Linked, Problems> {
    let mut linker = Linker {
        object,
        linked: Linked {
            code: Vec::new(),
            functions: Vec::new(),
            used: vec![false; object.maps.len()],
            entries: Vec::new(),
        },
        starts: HashMap::new(),
        waiting: Vec::new(),
        calls: Vec::new(),
        problems: Vec::new(),
    };
    for program in programs {
        linker.want(*program);
        while let Some(next) = linker.waiting.pop() {
            linker.append(next)?;
        }
    }
    linker.fill_in(programs)
}

/// Links a program with the stages in its program arrays, and with theirs. Returns the numbers of
/// all, the program's first.
///
/// # Errors
/// All mistakes that are found.
pub fn link_with_stages(object: &Object, program: usize) -> Result<(Linked, Vec<usize>), Problems> {
    let mut programs = vec![program];
    loop {
        let linked = link(object, &programs)?;
        let before = programs.len();
        let in_use = object.maps.iter().zip(&linked.used).filter(|(_, used)| **used);
        for (_, name) in in_use.flat_map(|(map, _)| &map.programs) {
            if let Ok(stage) = object.program(Some(name))
                && !programs.contains(&stage)
            {
                programs.push(stage);
            }
        }
        if programs.len() == before {
            return Ok((linked, programs));
        }
    }
}

struct Linker<'a> {
    object: &'a Object,
    linked: Linked,
    /// Start of each function that is linked or waits to be.
    starts: HashMap<usize, usize>,
    waiting: Vec<usize>,
    /// Instructions that refer to a function.
    calls: Vec<(usize, usize)>,
    problems: Vec<Problem>,
}

/// The meaning of a relocation.
enum Target {
    Function(usize),
    Map(usize),
    Data { map: usize, offset: u32 },
}

impl Linker<'_> {
    fn want(&mut self, function: usize) {
        if let Entry::Vacant(place) = self.starts.entry(function) {
            place.insert(usize::MAX);
            self.waiting.push(function);
        }
    }

    /// Copies a function to the end of the code.
    fn append(&mut self, number: usize) -> Result<(), Problems> {
        let object = self.object;
        let Some(function) = object.functions.get(number) else { return Ok(()) };
        let Some(section) = object.elf.sections.get(function.section) else { return Ok(()) };
        // Its bounds were checked when the object was read.
        let (from, to) = (function.start as usize, (function.start + function.size) as usize);
        let bytes = section.bytes.get(from..to).unwrap_or_default();
        let start = self.linked.code.len();
        let (words, _) = bytes.as_chunks::<BYTES>();
        if start + words.len() > MAX_INSTRUCTIONS {
            let what = format!("the program has more than {MAX_INSTRUCTIONS} instructions");
            return Err(Problem::new(what, "split it with tail calls").into());
        }
        self.linked.code.extend(words.iter().map(|word| Instruction::read(*word)));
        self.linked.functions.push(LinkedFunction {
            function: number,
            start,
            end: self.linked.code.len(),
        });
        self.starts.insert(number, start);
        let relocations = &section.relocations;
        let mut next = relocations.partition_point(|r| r.offset < function.start);
        let mut at = start;
        while let Some(instruction) = self.linked.code.get(at).copied() {
            let offset = function.start + ((at - start) * BYTES) as u64;
            while relocations.get(next).is_some_and(|r| r.offset < offset) {
                next += 1;
            }
            let symbol = relocations.get(next).filter(|r| r.offset == offset).map(|r| r.symbol);
            let places = if instruction.code == instruction::LOAD_WIDE { 2 } else { 1 };
            if let Err((what, remedy)) = self.relocate(function, at, instruction, symbol) {
                let problem = self.linked.problem(object, at, what, remedy);
                self.problems.push(problem);
            }
            at += places;
        }
        Ok(())
    }

    /// Fills in the target of an instruction's reference.
    fn relocate(
        &mut self,
        function: &Function,
        at: usize,
        instruction: Instruction,
        symbol: Option<usize>,
    ) -> Result<(), (String, String)> {
        let start = self.linked.functions.last().map_or(0, |linked| linked.start);
        match (instruction.code, symbol) {
            (instruction::LOAD_WIDE, Some(symbol)) => {
                let (src, low, high) = match self.target(symbol, instruction)? {
                    Target::Map(map) => (wide::MAP, map as i32, 0),
                    Target::Data { map, offset } => {
                        (wide::MAP_VALUE, map as i32, offset.cast_signed())
                    }
                    Target::Function(function) => {
                        self.want(function);
                        self.calls.push((at, function));
                        (wide::FUNCTION, 0, 0)
                    }
                };
                if let Some(first) = self.linked.code.get_mut(at) {
                    *first = Instruction { src, immediate: low, ..instruction };
                }
                if let Some(second) = self.linked.code.get_mut(at + 1) {
                    second.immediate = high;
                }
                Ok(())
            }
            (instruction::CALL, Some(symbol)) => match self.target(symbol, instruction)? {
                Target::Function(function) => {
                    self.call(at, instruction, function);
                    Ok(())
                }
                _ => Err(("a call of something that is no function".into(), String::new())),
            },
            (instruction::CALL, None) if instruction.src == call::FUNCTION => {
                let here = function.start as i64 / BYTES as i64 + (at - start) as i64;
                let target = (here + 1 + i64::from(instruction.immediate)) * BYTES as i64;
                let found = u64::try_from(target)
                    .ok()
                    .and_then(|target| self.object.function_at(function.section, target));
                let found = found.ok_or_else(|| {
                    ("a call of a place where no function starts".to_owned(), String::new())
                })?;
                self.call(at, instruction, found);
                Ok(())
            }
            (instruction::LOAD_WIDE, None) if instruction.src != 0 => Err((
                "a reference to a map or function that the object does not name".into(),
                String::new(),
            )),
            _ => Ok(()),
        }
    }

    fn call(&mut self, at: usize, instruction: Instruction, function: usize) {
        self.want(function);
        self.calls.push((at, function));
        if let Some(place) = self.linked.code.get_mut(at) {
            *place = Instruction { src: call::FUNCTION, ..instruction };
        }
    }

    fn target(
        &mut self,
        symbol: usize,
        instruction: Instruction,
    ) -> Result<Target, (String, String)> {
        let object = self.object;
        let unknown = || ("a reference to a symbol that does not exist".to_owned(), String::new());
        let found = object.elf.symbols.get(symbol).ok_or_else(unknown)?;
        let Some(number) = found.section else { return Err(undefined(&found.name, instruction)) };
        let section = object.elf.sections.get(number).ok_or_else(unknown)?;
        if section.code {
            // A call of a section's symbol counts from the next instruction, in instructions.
            let addend = match (found.kind, instruction.code) {
                (crate::elf::SymbolKind::Section, instruction::CALL) => {
                    (i64::from(instruction.immediate) + 1) * BYTES as i64
                }
                (crate::elf::SymbolKind::Section, _) => i64::from(instruction.immediate),
                _ => 0,
            };
            let start = found.value.wrapping_add_signed(addend);
            return object.function_at(number, start).map(Target::Function).ok_or_else(|| {
                ("a reference to a place where no function starts".to_owned(), String::new())
            });
        }
        if let Some(map) = object.map_of_symbol.get(&symbol) {
            if let Some(problem) = object.broken_maps.get(map) {
                return Err((problem.what.clone(), problem.remedy.clone()));
            }
            self.mark(*map);
            return Ok(Target::Map(*map));
        }
        if let Some(map) = object.map_of_section.get(&number) {
            let offset = found.value.wrapping_add_signed(i64::from(instruction.immediate));
            let length = section.bytes.len() as u64;
            let offset = u32::try_from(offset).ok().filter(|offset| u64::from(*offset) <= length);
            let offset = offset.ok_or_else(|| {
                (format!("a reference beyond the end of section '{}'", section.name), String::new())
            })?;
            self.mark(*map);
            return Ok(Target::Data { map: *map, offset });
        }
        let name = if found.name.is_empty() { &section.name } else { &found.name };
        let remedy = "maps belong into section '.maps' with BTF (`clang -g`), variables into \
                      '.data', '.rodata' or '.bss'";
        Err((format!("'{name}' in section '{}' is no map", section.name), remedy.to_owned()))
    }

    fn mark(&mut self, map: usize) {
        if let Some(used) = self.linked.used.get_mut(map) {
            *used = true;
        }
    }

    /// Fills in the distances of calls.
    fn fill_in(mut self, programs: &[usize]) -> Result<Linked, Problems> {
        for (at, function) in &self.calls {
            let start = self.starts.get(function).copied().unwrap_or(0);
            if let Some(instruction) = self.linked.code.get_mut(*at) {
                // Both are below MAX_INSTRUCTIONS.
                instruction.immediate = start as i32 - *at as i32 - 1;
            }
        }
        self.linked.entries =
            programs.iter().filter_map(|program| self.starts.get(program).copied()).collect();
        match self.problems.is_empty() {
            true => Ok(self.linked),
            false => Err(Problems(self.problems)),
        }
    }
}

/// A symbol that is not in the object.
fn undefined(name: &str, instruction: Instruction) -> (String, String) {
    if instruction.code == instruction::CALL {
        (
            format!(
                "function '{name}' is not in the object: kernel functions (kfuncs) are not allowed"
            ),
            "use a helper, or include the function's source".to_owned(),
        )
    } else {
        (
            format!(
                "'{name}' is not in the object: variables of the kernel (`__ksym`, `__kconfig`) are not available"
            ),
            "make it a constant of the program: `const volatile`".to_owned(),
        )
    }
}
