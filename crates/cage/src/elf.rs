//! Sections, symbols and relocations of an eBPF object file.
//!
//! The file comes from a tenant. All sizes and numbers in the file are bounded here, so that memory
//! and time are proportional to the file's length.

use object::read::elf::ElfFile64;
use object::{
    Architecture, LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _,
    RelocationTarget, SectionFlags, SymbolKind as Kind, SymbolSection,
};

use crate::problem::Problem;

/// Longest object file, in bytes.
pub(crate) const MAX_FILE_BYTES: usize = 16 << 20;
/// Most bytes of all data sections together, including bytes that the file does not contain.
pub(crate) const MAX_DATA_BYTES: u64 = 64 << 20;
/// Most sections.
const MAX_SECTIONS: usize = 4096;
/// Most symbols.
const MAX_SYMBOLS: usize = 1 << 16;
/// Most relocations.
const MAX_RELOCATIONS: usize = 1 << 18;

/// A section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: String,
    /// Its contents; zeros for `.bss`.
    pub(crate) bytes: Vec<u8>,
    /// Whether it contains instructions.
    pub(crate) code: bool,
    /// Whether it is part of the loaded program at all.
    pub(crate) allocated: bool,
    /// By offset.
    pub(crate) relocations: Vec<Relocation>,
}

/// The target of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// A function.
    Function,
    /// A section as a whole.
    Section,
    /// Any other section.
    Other,
}

/// A symbol.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    /// Its name; may be empty.
    pub(crate) name: String,
    /// The section it is defined in.
    pub(crate) section: Option<usize>,
    /// Offset in the section.
    pub(crate) value: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Its target.
    pub(crate) kind: SymbolKind,
}

/// A place in a section that refers to a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Offset in the section.
    pub(crate) offset: u64,
    /// Number of the symbol.
    pub(crate) symbol: usize,
}

/// The contents of an object file.
#[derive(Clone, Debug)]
pub(crate) struct Elf {
    /// By number; the first is unused.
    pub(crate) sections: Vec<Section>,
    /// By number; the first is unused.
    pub(crate) symbols: Vec<Symbol>,
}

/// An object file that cannot be read.
fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::new(
        format!("not a readable eBPF object file: {what}"),
        "compile it with `clang -O2 -g -target bpf -c`, or use `europa compile`",
    )
}

impl Elf {
    /// Reads a file.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn read(file: &[u8]) -> Result<Elf, Problem> {
        if file.len() > MAX_FILE_BYTES {
            return Err(broken(format_args!("{} bytes, at most {MAX_FILE_BYTES}", file.len())));
        }
        let elf = ElfFile64::<LittleEndian>::parse(file).map_err(broken)?;
        if !matches!(elf.architecture(), Architecture::Bpf) {
            return Err(broken("it is for another machine"));
        }
        let sections = sections(&elf)?;
        let symbols = symbols(&elf, sections.len())?;
        Ok(Elf { sections, symbols })
    }

    /// The section of this name.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

fn sections(elf: &ElfFile64<'_, LittleEndian>) -> Result<Vec<Section>, Problem> {
    let unused = || Section {
        name: String::new(),
        bytes: Vec::new(),
        code: false,
        allocated: false,
        relocations: Vec::new(),
    };
    let (mut sections, mut bytes, mut relocated) = (Vec::new(), 0_u64, 0);
    for section in elf.sections() {
        let index = section.index().0;
        if index > MAX_SECTIONS {
            return Err(broken(format_args!("more than {MAX_SECTIONS} sections")));
        }
        let name = section.name().map_err(broken)?.to_owned();
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            return Err(broken(format_args!("section '{name}' has no flags")));
        };
        let (allocated, code) = (sh_flags.0 & 2 != 0, sh_flags.0 & 4 != 0);
        let mut content = section.data().map_err(broken)?.to_vec();
        if content.is_empty() && allocated {
            // `.bss`: the file has only its length.
            if section.size() > MAX_DATA_BYTES {
                return Err(too_long(&name));
            }
            content = vec![0; usize::try_from(section.size()).unwrap_or(0)];
        }
        // Sections may overlap in the file, so that the sum is not bounded by its length.
        // So may their names.
        bytes = bytes.saturating_add((content.len() + name.len()) as u64);
        if bytes > MAX_DATA_BYTES {
            return Err(too_long(&name));
        }
        let mut relocations = Vec::new();
        for (offset, relocation) in section.relocations() {
            relocated += 1;
            if relocated > MAX_RELOCATIONS {
                return Err(broken(format_args!("more than {MAX_RELOCATIONS} relocations")));
            }
            if let RelocationTarget::Symbol(symbol) = relocation.target() {
                relocations.push(Relocation { offset, symbol: symbol.0 });
            }
        }
        relocations.sort_by_key(|relocation| relocation.offset);
        sections.resize_with(sections.len().max(index + 1), unused);
        if let Some(place) = sections.get_mut(index) {
            *place = Section { name, bytes: content, code, allocated, relocations };
        }
    }
    Ok(sections)
}

fn too_long(name: &str) -> Problem {
    broken(format_args!(
        "up to section '{name}' there are more than {MAX_DATA_BYTES} bytes of data"
    ))
}

fn symbols(elf: &ElfFile64<'_, LittleEndian>, sections: usize) -> Result<Vec<Symbol>, Problem> {
    let mut symbols = Vec::new();
    let mut name_bytes = 0;
    for symbol in elf.symbols() {
        let index = symbol.index().0;
        if index > MAX_SYMBOLS {
            return Err(broken(format_args!("more than {MAX_SYMBOLS} symbols")));
        }
        let name = symbol.name().map_err(broken)?.to_owned();
        // All names may share their bytes in the file.
        name_bytes += name.len();
        if name_bytes > MAX_FILE_BYTES {
            return Err(broken("the names of its symbols are too long"));
        }
        let section = match symbol.section() {
            SymbolSection::Section(section) if section.0 < sections => Some(section.0),
            _ => None,
        };
        let kind = match symbol.kind() {
            Kind::Text => SymbolKind::Function,
            Kind::Section => SymbolKind::Section,
            _ => SymbolKind::Other,
        };
        let unused = || Symbol {
            name: String::new(),
            section: None,
            value: 0,
            size: 0,
            kind: SymbolKind::Other,
        };
        symbols.resize_with(symbols.len().max(index + 1), unused);
        if let Some(place) = symbols.get_mut(index) {
            let (value, size) = (symbol.address(), symbol.size());
            *place = Symbol { name, section, value, size, kind };
        }
    }
    Ok(symbols)
}
