//! The cage: Europa's functions around a program, linked together.
//!
//! `bpf/cage.bpf.c` has a main function that calls `tenant`, and functions that replace helpers.
//! The program's entry replaces `tenant`; its calls of these helpers become calls of the functions.
//! The reachable instructions are then laid out again.

use std::collections::HashMap;

use crate::MapDefinition;
use crate::helper;
use crate::image::{Image, Part};
use crate::instruction::{CALL, Instruction, LOAD_WIDE, MOVE_IMMEDIATE, call, wide};
use crate::leak::Findings;
use crate::link::{Linked, link};
use crate::object::Object;
use crate::problem::{Place, Problem, Problems};

/// The cage's main function, and the placeholder of the program.
const MAIN: &str = "europa_cage";
const TENANT: &str = "tenant";
/// Stores an immediate of 64 bits.
const STORE_WORD: u8 = 0x7a;
/// The prefix of functions that replace helpers.
const OWN: &str = "europa_";
/// Numbers of the cage's maps begin here; numbers of a program's maps are smaller.
const CAGE_MAPS: i32 = 1 << 20;

/// A map of a caged program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MapOf {
    /// A map of the cage, by its index in [`Cage::maps`].
    Cage(usize),
    /// A map of the program, by its index in [`Object::maps`].
    Program(usize),
}

impl MapOf {
    /// From a number in [`Image::maps`].
    pub fn number(number: usize) -> MapOf {
        match number.checked_sub(CAGE_MAPS as usize) {
            Some(own) => MapOf::Cage(own),
            None => MapOf::Program(number),
        }
    }
}

/// Europa's functions, read and linked.
#[derive(Clone, Debug)]
pub struct Cage {
    object: Object,
    linked: Linked,
    /// Numbers of functions in `linked.functions`.
    main: usize,
    tenant: usize,
    /// Functions that replace helpers, by the helper's number.
    helpers: HashMap<i32, usize>,
}

impl Cage {
    /// Reads the object of `bpf/cage.bpf.c`.
    ///
    /// # Errors
    /// It is not that object.
    pub fn read(file: &[u8]) -> Result<Cage, Problems> {
        let object = Object::read(file)?;
        let named = |name: &str| object.functions.iter().position(|of| of.name == name);
        let lacks = |name: &str| Problem::new(format!("the cage has no function '{name}'"), "");
        let main = named(MAIN).ok_or_else(|| lacks(MAIN))?;
        let stub = named(TENANT).ok_or_else(|| lacks(TENANT))?;
        let replaced: Vec<(i32, usize)> = (1..256)
            .filter_map(|number: i32| {
                let name = helper::name(number.cast_unsigned());
                Some((number, named(&format!("{OWN}{}", name.strip_prefix("bpf_")?))?))
            })
            .collect();
        let mut wanted = vec![main, stub];
        wanted.extend(replaced.iter().map(|(_, function)| *function));
        let linked = link(&object, &wanted)?;
        let place =
            |function: usize| linked.functions.iter().position(|of| of.function == function);
        let helpers = replaced.iter().filter_map(|(number, of)| Some((*number, place(*of)?)));
        let helpers = helpers.collect();
        let main = place(main).ok_or_else(|| lacks(MAIN))?;
        let tenant = place(stub).ok_or_else(|| lacks(TENANT))?;
        Ok(Cage { object, linked, main, tenant, helpers })
    }

    /// Names of its maps, by number.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.object.maps.iter().map(|map| map.name.as_str())
    }

    /// A map of its own by name.
    pub fn map(&self, name: &str) -> Option<&MapDefinition> {
        self.object.maps.iter().find(|map| map.name == name)
    }

    /// A program in its cage. `entry` is its first instruction in `linked`, `device` the number of
    /// the receiving device.
    pub fn around(&self, of: &Program<'_>, entry: usize, device: u32) -> Caged {
        Joiner::new(self, of, entry, device).join(Function::Own(self.main))
    }

    /// A stage, called by programs in a cage: it needs no cage of its own.
    pub fn stage(&self, of: &Program<'_>, entry: usize, device: u32) -> Caged {
        let joiner = Joiner::new(self, of, entry, device);
        let first = joiner.entry;
        joiner.join(Function::Theirs(first))
    }
}

/// A linked and checked program.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its object file.
    pub object: &'a Object,
    /// Its instructions.
    pub linked: &'a Linked,
    /// The findings in them.
    pub findings: &'a Findings,
}

/// A program in its cage, for the kernel.
#[derive(Clone, Debug)]
pub struct Caged {
    /// The instructions to load. Its maps' numbers are those of [`MapOf::number`].
    pub image: Image,
    sources: Vec<Source>,
}

/// Origin of a function.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// Its first instruction.
    start: usize,
    /// Number of instructions inserted before it, to clear its stack.
    before: usize,
    function: Function,
    /// Its first instruction in the linked program.
    from: usize,
}

impl Caged {
    /// The author's line of an instruction, if it is of the program's.
    pub fn place(&self, program: &Program<'_>, at: usize) -> Option<Place> {
        place(&self.sources, program, at)
    }
}

fn place(sources: &[Source], program: &Program<'_>, at: usize) -> Option<Place> {
    let after = sources.partition_point(|source| source.start <= at);
    let source = sources.get(after.checked_sub(1)?)?;
    match source.function {
        Function::Own(_) => None,
        Function::Theirs(_) => {
            let inside = (at - source.start).checked_sub(source.before)?;
            program.linked.place(program.object, source.from + inside)
        }
    }
}

/// A function by its number in `Linked::functions`: of the cage, or of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Own(usize),
    Theirs(usize),
}

struct Joiner<'a> {
    cage: &'a Cage,
    program: &'a Program<'a>,
    /// The program's entry, by its number in `Linked::functions`.
    entry: usize,
    device: u32,
    code: Vec<Instruction>,
    sources: Vec<Source>,
    starts: HashMap<Function, usize>,
    waiting: Vec<Function>,
    /// Instructions that refer to a function.
    calls: Vec<(usize, Function)>,
}

impl<'a> Joiner<'a> {
    fn new(cage: &'a Cage, program: &'a Program<'a>, entry: usize, device: u32) -> Joiner<'a> {
        let functions = &program.linked.functions;
        Joiner {
            cage,
            program,
            entry: functions.iter().position(|of| of.start == entry).unwrap_or(0),
            device,
            code: Vec::new(),
            sources: Vec::new(),
            starts: HashMap::new(),
            waiting: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn linked(&self, function: Function) -> (&'a Linked, usize) {
        match function {
            Function::Own(number) => (&self.cage.linked, number),
            Function::Theirs(number) => (self.program.linked, number),
        }
    }

    /// The function that starts at an instruction, seen from `from`.
    fn target(&self, from: Function, start: usize) -> Option<Function> {
        let number = self.linked(from).0.functions.iter().position(|of| of.start == start)?;
        Some(match from {
            Function::Own(_) if number == self.cage.tenant => Function::Theirs(self.entry),
            Function::Own(_) => Function::Own(number),
            Function::Theirs(_) => Function::Theirs(number),
        })
    }

    fn join(mut self, main: Function) -> Caged {
        self.waiting.push(main);
        while let Some(next) = self.waiting.pop() {
            if !self.starts.contains_key(&next) {
                self.append(next);
            }
        }
        for (at, function) in &self.calls {
            let start = self.starts.get(function).copied().unwrap_or(0);
            if let Some(instruction) = self.code.get_mut(*at) {
                // Both are below twice MAX_INSTRUCTIONS.
                instruction.immediate = start as i32 - *at as i32 - 1;
            }
        }
        let parts: Vec<Part> = self
            .sources
            .iter()
            .map(|source| {
                let (linked, number) = self.linked(source.function);
                let object = match source.function {
                    Function::Own(_) => &self.cage.object,
                    Function::Theirs(_) => self.program.object,
                };
                let of = linked.functions.get(number);
                let name = of.and_then(|of| object.functions.get(of.function));
                Part {
                    name: name.map_or(String::new(), |of| of.name.clone()),
                    start: source.start,
                    end: source.start + source.before + of.map_or(0, |of| of.end - of.start),
                }
            })
            .collect();
        let at = |at: usize| place(&self.sources, self.program, at);
        let image = Image::assemble(&self.code, &parts, at);
        Caged { image, sources: self.sources }
    }

    /// Copies a function to the end of the code.
    fn append(&mut self, function: Function) {
        let (linked, number) = self.linked(function);
        let Some(of) = linked.functions.get(number) else { return };
        let start = self.code.len();
        self.starts.insert(function, start);
        let before = self.clear_stack(function, of.start);
        self.sources.push(Source { start, before, function, from: of.start });
        let mut second = false;
        for at in of.start..of.end {
            let Some(mut instruction) = linked.code.get(at).copied() else { break };
            if std::mem::take(&mut second) {
                self.code.push(instruction);
                continue;
            }
            second = instruction.code == LOAD_WIDE;
            let here = self.code.len();
            if let Some(target) = self.referred(function, at, &instruction) {
                if instruction.code == CALL {
                    instruction.src = call::FUNCTION;
                }
                self.calls.push((here, target));
                self.waiting.push(target);
            }
            match function {
                Function::Own(_) => {
                    if second && matches!(instruction.src, wide::MAP | wide::MAP_VALUE) {
                        instruction.immediate += CAGE_MAPS;
                    }
                }
                Function::Theirs(_) => {
                    if self.program.findings.device_reads.contains(&at) {
                        instruction = Instruction {
                            code: MOVE_IMMEDIATE,
                            dst: instruction.dst,
                            src: 0,
                            offset: 0,
                            immediate: self.device.cast_signed(),
                        };
                    }
                }
            }
            self.code.push(instruction);
        }
    }

    /// Inserts instructions that zero a function's stack, as far as it may read unwritten bytes.
    /// Returns their number.
    fn clear_stack(&mut self, function: Function, start: usize) -> usize {
        let lowest = match function {
            Function::Own(_) => None,
            Function::Theirs(_) => self.program.findings.to_clear.get(&start),
        };
        let words = lowest.map_or(0, |lowest| lowest.unsigned_abs().min(512).div_ceil(8));
        for word in 1..=words as i16 {
            let (dst, offset) = (10, -8 * word);
            self.code.push(Instruction { code: STORE_WORD, dst, src: 0, offset, immediate: 0 });
        }
        words as usize
    }

    /// The function that an instruction calls or names.
    fn referred(&self, from: Function, at: usize, of: &Instruction) -> Option<Function> {
        let place = || usize::try_from(at as i64 + 1 + i64::from(of.immediate)).ok();
        match (of.code, of.src, from) {
            (CALL, call::HELPER, Function::Theirs(_)) => {
                self.cage.helpers.get(&of.immediate).map(|number| Function::Own(*number))
            }
            (CALL, call::FUNCTION, _) | (LOAD_WIDE, wide::FUNCTION, _) => {
                self.target(from, place()?)
            }
            _ => None,
        }
    }
}
