//! A program ready to run, and its verdict on a frame.

use crate::definition::MapKind;
use crate::link::Linked;
use crate::object::Object;
use crate::problem::{Problem, Problems};
use crate::user::execute::Run;
use crate::user::map::{MAX_KEY_BYTES, Map};
use crate::user::memory::{CONTEXT_ADDRESS, Frame, MAX_DEPTH, Memory, STACK_BYTES};
use crate::user::print::Trace;
use crate::user::step::{self, Step};

/// The limits of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all maps together.
    pub map_bytes: u64,
    /// Instructions for one frame.
    pub fuel: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { map_bytes: 256 << 20, fuel: 1_000_000 }
    }
}

/// The surroundings of the linked code.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Contents of program arrays: name of the map, index, number in [`Linked::entries`].
    pub tail_calls: Vec<(String, u32, usize)>,
    /// The program's limits.
    pub limits: Limits,
}

/// The surroundings of a program.
pub trait Host {
    /// Nanoseconds of a monotonic clock.
    fn now_ns(&self) -> u64;

    /// Any number.
    fn random(&mut self) -> u32;

    /// `bpf_fib_lookup`: fills in `struct bpf_fib_lookup`, answers `BPF_FIB_LKUP_RET_...`.
    fn fib_lookup(&mut self, parameters: &mut [u8; 64], flags: u32) -> i64;
}

/// Surroundings without routes.
#[derive(Debug, Default)]
pub struct Closed {
    /// The time.
    pub now_ns: u64,
    /// State of the generator of numbers.
    pub seed: u32,
}

/// No route: the frame is for another host.
const NOT_FORWARDED: i64 = 4;

impl Host for Closed {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn random(&mut self) -> u32 {
        self.seed = self.seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        self.seed
    }

    fn fib_lookup(&mut self, _: &mut [u8; 64], _: u32) -> i64 {
        NOT_FORWARDED
    }
}

/// The origin of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Number of the device.
    pub device: u32,
    /// Number of the receive queue.
    pub queue: u32,
}

/// The destination of a redirected frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The program named no target.
    #[default]
    Nowhere,
    /// The device of this number.
    Device(u32),
    /// All devices of a map.
    Devices {
        /// Number of the map.
        map: usize,
        /// The frame is not sent back to its input.
        but_ingress: bool,
    },
    /// A CPU's queue.
    Cpu(u32),
    /// A socket.
    Socket(u32),
}

/// A program's verdict on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `XDP_ABORTED`, or a number that means nothing.
    Aborted,
    /// `XDP_DROP`.
    Drop,
    /// `XDP_PASS`.
    Pass,
    /// `XDP_TX`.
    Transmit,
    /// `XDP_REDIRECT`.
    Redirect(Target),
}

/// Why a program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// It accessed memory outside its regions.
    #[error("{} of {bytes} bytes out of bounds, at {address:#x}", if *write { "a write" } else { "a read" })]
    Memory {
        /// The address.
        address: u64,
        /// Number of bytes.
        bytes: usize,
        /// Whether it wrote.
        write: bool,
    },
    /// It ran for too long.
    #[error("too many instructions for one frame")]
    Fuel,
    /// Its calls are nested too deeply.
    #[error("functions call each other more than {MAX_DEPTH} deep")]
    Depth,
    /// It called an unknown helper.
    #[error("helper {0} is not available")]
    Helper(u64),
    /// A helper's argument is wrong.
    #[error("argument {0} of a helper is of the wrong kind")]
    Argument(u8),
    /// The code is not an instruction.
    #[error("not an instruction")]
    Instruction,
}

/// A program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {at}: {cause}")]
pub struct Fault {
    /// Number of the instruction in [`Linked::code`].
    pub at: usize,
    /// Why.
    pub cause: Cause,
}

/// A program ready to run.
#[derive(Debug)]
pub struct Machine {
    steps: Vec<Step>,
    /// Where functions begin and end.
    functions: Vec<(usize, usize)>,
    maps: Vec<Map>,
    stack: Box<[u8; STACK_BYTES * MAX_DEPTH]>,
    /// Buffer for keys and values that are written to a map.
    scratch: Vec<u8>,
    trace: Trace,
    entry: usize,
    fuel: u32,
}

impl Machine {
    /// Prepares linked code; the first of its entries runs.
    ///
    /// # Errors
    /// All mistakes that prevent a run, at once.
    pub fn new(object: &Object, linked: &Linked, setup: &Setup) -> Result<Machine, Problems> {
        let mut problems = crate::check::check_user(object, linked);
        let steps = step::decode(object, linked).unwrap_or_else(|more| {
            problems.extend(more.0);
            Vec::new()
        });
        let mut budget = setup.limits.map_bytes;
        let mut maps = Vec::with_capacity(object.maps.len());
        for (definition, used) in object.maps.iter().zip(&linked.used) {
            // The check has reported types that are not allowed, with the line that uses them.
            let made = match (used, definition.kind()) {
                (true, Some(_)) => Map::new(definition, &mut budget),
                _ => Ok(Map::unused()),
            };
            match made {
                Ok(map) => maps.push(map),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            fill_program_arrays(object, linked, setup, &mut maps, &mut problems);
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let longest = maps.iter().map(Map::value_bytes).max().unwrap_or(0);
        Ok(Machine {
            steps,
            functions: linked.functions.iter().map(|of| (of.start, of.end)).collect(),
            maps,
            stack: Box::new([0; STACK_BYTES * MAX_DEPTH]),
            scratch: vec![0; MAX_KEY_BYTES + longest],
            trace: Trace::new(),
            entry: linked.entries.first().copied().unwrap_or(0),
            fuel: setup.limits.fuel,
        })
    }

    /// Runs the program on a frame. Allocates nothing.
    ///
    /// # Errors
    /// The reason why it was stopped; the frame keeps the changes so far.
    #[inline]
    pub fn run(
        &mut self,
        frame: &mut Frame<'_>,
        input: Input,
        host: &mut dyn Host,
    ) -> Result<Verdict, Fault> {
        let mut run = Run {
            steps: &self.steps,
            functions: &self.functions,
            memory: Memory {
                frame,
                stack: &mut self.stack,
                maps: &mut self.maps,
                numbers: [input.device, input.queue],
            },
            scratch: &mut self.scratch,
            trace: &mut self.trace,
            host,
            fuel: i64::from(self.fuel),
            tail_calls: 0,
            target: Target::Nowhere,
        };
        let result = run.execute(self.entry, [CONTEXT_ADDRESS, 0], 0)?;
        Ok(match result as u32 {
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Transmit,
            4 => Verdict::Redirect(run.target),
            _ => Verdict::Aborted,
        })
    }

    /// All maps, by their numbers in [`Object::maps`].
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// All maps, to change.
    pub fn maps_mut(&mut self) -> &mut [Map] {
        &mut self.maps
    }

    /// The devices of a map, for [`Target::Devices`].
    pub fn devices(&self, map: usize) -> impl Iterator<Item = u32> {
        self.maps.get(map).into_iter().flat_map(Map::numbers)
    }

    /// Moves the contents of maps with the same name and shape from an older program. Program
    /// arrays and global variables are not moved.
    pub fn adopt(&mut self, old: &mut Machine) {
        for map in self.maps.iter_mut().filter(|map| map.can_move()) {
            if let Some(old) = old.maps.iter_mut().find(|old| old.is_like(map)) {
                std::mem::swap(map, old);
            }
        }
    }

    /// Takes the program's output.
    pub fn take_trace(&mut self) -> String {
        self.trace.take()
    }
}

/// Fills the program arrays from the source's declarations and the setup.
fn fill_program_arrays(
    object: &Object,
    linked: &Linked,
    setup: &Setup,
    maps: &mut [Map],
    problems: &mut Vec<Problem>,
) {
    let in_use = object.maps.iter().zip(&linked.used).filter(|(_, used)| **used);
    let declared = in_use.flat_map(|(map, _)| {
        map.programs.iter().map(|(index, program)| {
            let function = object.functions.iter().position(|of| of.name == *program);
            let entry = function.and_then(|function| {
                let start = linked.functions.iter().find(|of| of.function == function)?.start;
                linked.entries.iter().position(|entry| *entry == start)
            });
            (map.name.clone(), *index, entry)
        })
    });
    let told =
        setup.tail_calls.iter().map(|(map, index, entry)| (map.clone(), *index, Some(*entry)));
    for (name, index, entry) in declared.chain(told) {
        let array = maps.iter_mut().find(|map| map.name() == name);
        let Some(array) = array.filter(|map| map.kind() == MapKind::ProgArray) else {
            let what = format!("'{name}' is no program array that the program uses");
            problems.push(Problem::new(what, "name a map of type BPF_MAP_TYPE_PROG_ARRAY"));
            continue;
        };
        // A program that was not linked is not called.
        let Some(start) = entry.and_then(|entry| linked.entries.get(entry)) else { continue };
        if array.update(&index.to_le_bytes(), &(*start as u32).to_le_bytes(), 0) != 0 {
            let what = format!("program array '{name}' has no index {index}");
            problems.push(Problem::new(what, "make its `max_entries` larger"));
        }
    }
}
