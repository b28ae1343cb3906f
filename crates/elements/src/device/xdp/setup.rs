//! Loads a program; its maps and variables become handlers.

use europa_cage::user::{Limits, Machine, Map, Setup};
use europa_cage::{MapKind, Object, Problem, Problems, link, link_with_stages, values};
use europa_engine::{ArgumentSet, Flags, HandlerError, arguments};

use super::Running;

/// Most records that are read at once.
const MAX_RECORDS: usize = 1024;
/// Sections of global variables.
const SECTIONS: [&str; 3] = [".rodata", ".data", ".bss"];

/// The arguments.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) file: String,
    program: Option<String>,
    constants: String,
    tail_calls: String,
    maps: String,
    limits: Limits,
}

impl ArgumentSet for Settings {
    arguments! { set this, given;
        mandatory "FILE": String => this.file;
        positional "PROGRAM": String => this.program;
        keyword "CONSTANTS": String = String::new() => this.constants;
        keyword "TAIL_CALLS": String = String::new() => this.tail_calls;
        keyword "MAPS": String = String::new() => this.maps;
        let memory = keyword "MEMORY": u64;
        let fuel = keyword "FUEL": u32;
        then {
            this.limits.map_bytes = memory.unwrap_or(this.limits.map_bytes);
            this.limits.fuel = fuel.unwrap_or(this.limits.fuel);
        }
    }
}

impl Settings {
    /// Reads, links and prepares the program.
    pub(super) fn load(&self, file: &[u8]) -> Result<Running, Problems> {
        let mut object = Object::read(file)?;
        for constant in parts(&self.constants, ',') {
            let (name, value) = constant.split_once(char::is_whitespace).ok_or_else(|| {
                Problem::new(format!("CONSTANTS: expected 'NAME VALUE', found '{constant}'"), "")
            })?;
            values::set_constant(&mut object, name, value)?;
        }
        let entry = object.program(self.program.as_deref())?;
        let (_, mut programs) = link_with_stages(&object, entry)?;
        let mut tail_calls = Vec::new();
        for part in parts(&self.tail_calls, ',') {
            let words: Vec<&str> = part.split_ascii_whitespace().collect();
            let (Some(map), Some(Ok(index)), Some(name), None) = (
                words.first(),
                words.get(1).map(|index| index.parse()),
                words.get(2),
                words.get(3),
            ) else {
                let what = format!("TAIL_CALLS: expected 'MAP INDEX PROGRAM', found '{part}'");
                return Err(Problem::new(what, "").into());
            };
            let number = object.program(Some(name))?;
            let place = programs.iter().position(|program| *program == number);
            let place = place.unwrap_or_else(|| {
                programs.push(number);
                programs.len() - 1
            });
            tail_calls.push(((*map).to_owned(), index, place));
        }
        let linked = link(&object, &programs)?;
        let setup = Setup { tail_calls, limits: self.limits };
        let machine = Machine::new(&object, &linked, &setup)?;
        let mut running = Running { object, linked, machine };
        for part in parts(&self.maps, ';') {
            let wrong = |what: String| Problem::new(format!("MAPS: {what}"), "");
            let (name, entry) = part
                .split_once(char::is_whitespace)
                .ok_or_else(|| wrong(format!("expected 'MAP KEY=VALUE', found '{part}'")))?;
            running.write_map(name, entry).map_err(wrong)?;
        }
        Ok(running)
    }
}

fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|part| !part.is_empty())
}

impl Running {
    /// The map of this name and its number, if the program uses it.
    fn map(&mut self, name: &str) -> Option<(usize, &mut Map)> {
        let maps = self.machine.maps_mut().iter_mut().enumerate();
        maps.filter(|(_, map)| !map.name().starts_with('.')).find(|(_, map)| map.name() == name)
    }

    /// The section and place of a global variable, and its type.
    fn variable(&self, name: &str) -> Option<(usize, std::ops::Range<usize>, u32)> {
        SECTIONS.iter().find_map(|section| {
            let (_, variable) = self.object.btf.variables(section).find(|(of, _)| *of == name)?;
            let number = self.machine.maps().iter().position(|map| map.name() == *section)?;
            let start = variable.offset as usize;
            let bytes = self.object.btf.size(variable.of)? as usize;
            Some((number, start..start.checked_add(bytes)?, variable.of))
        })
    }

    pub(super) fn handler(&self, name: &str) -> Option<Flags> {
        self.handlers().into_iter().find(|(handler, _)| handler == name).map(|(_, flags)| flags)
    }

    pub(super) fn handlers(&self) -> Vec<(String, Flags)> {
        let both = Flags::READ.with(Flags::WRITE);
        let maps = self.machine.maps().iter().filter(|map| {
            !map.name().is_empty()
                && !map.name().starts_with('.')
                && map.kind() != MapKind::ProgArray
        });
        let maps = maps.map(|map| {
            let flags = match map.kind() {
                MapKind::Ringbuf | MapKind::PerfEventArray => Flags::READ,
                _ => both.with(Flags::PARAMETER).with(Flags::EXPENSIVE),
            };
            (map.name().to_owned(), flags)
        });
        let variables = SECTIONS.iter().flat_map(|section| self.object.btf.variables(section));
        let variables = variables
            .filter(|(name, _)| self.variable(name).is_some())
            .map(|(name, _)| (name.to_owned(), both));
        maps.chain(variables).collect()
    }

    pub(super) fn read(&mut self, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        if let Some((number, place, of)) = self.variable(handler) {
            let map = self.machine.maps_mut().get_mut(number);
            let section = map.and_then(|map| map.get(&[0; 4])).unwrap_or_default();
            let bytes = section.get(place).unwrap_or_default();
            return Ok(values::format(&self.object.btf, Some(of), bytes));
        }
        let not_found = || HandlerError::NotFound(handler.to_owned());
        let (number, _) = self.map(handler).ok_or_else(not_found)?;
        let (key_type, value_type) = self.types(number);
        let btf = &self.object.btf;
        let map = self.machine.maps_mut().get_mut(number).ok_or_else(not_found)?;
        if matches!(map.kind(), MapKind::Ringbuf | MapKind::PerfEventArray) {
            let records = map.take_records(MAX_RECORDS);
            let lost = map.lost_records();
            let mut text: String =
                records.iter().map(|record| format!("{}\n", hexadecimal(record))).collect();
            if lost > 0 {
                text += &format!("({lost} records lost since the start)\n");
            }
            return Ok(text);
        }
        if parameter.trim().is_empty() {
            let mut entries = map.entries();
            entries.sort();
            let lines = entries.iter().map(|(key, value)| {
                let key = values::format(btf, key_type, key);
                format!("{key}={}\n", values::format(btf, value_type, value))
            });
            return Ok(lines.collect());
        }
        let key = values::parse(btf, key_type, map.key_bytes(), parameter);
        let key = key.map_err(HandlerError::Other)?;
        let value = map.get(&key).ok_or_else(|| {
            HandlerError::Other(format!("'{handler}' has no key {}", parameter.trim()))
        })?;
        Ok(values::format(btf, value_type, value))
    }

    pub(super) fn write(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        if let Some((number, place, of)) = self.variable(handler) {
            let bytes = values::parse(&self.object.btf, Some(of), place.len(), value);
            let bytes = bytes.map_err(HandlerError::Other)?;
            if let Some(map) = self.machine.maps_mut().get_mut(number) {
                let mut section = map.get(&[0; 4]).unwrap_or_default().to_vec();
                if let Some(to) = section.get_mut(place) {
                    to.copy_from_slice(&bytes);
                }
                map.update(&[0; 4], &section, 0);
            }
            return Ok(());
        }
        for line in value.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.write_map(handler, line).map_err(HandlerError::Other)?;
        }
        Ok(())
    }

    /// `KEY=VALUE` or `-KEY`.
    fn write_map(&mut self, name: &str, entry: &str) -> Result<(), String> {
        let (number, _) =
            self.map(name).ok_or_else(|| format!("no map '{name}' that the program uses"))?;
        let (key_type, value_type) = self.types(number);
        let btf = &self.object.btf;
        let map = self.machine.maps_mut().get_mut(number).ok_or("no such map")?;
        let result = match (entry.split_once('='), entry.strip_prefix('-')) {
            (Some((key, value)), _) => {
                let key = values::parse(btf, key_type, map.key_bytes(), key)?;
                let value = values::parse(btf, value_type, map.value_bytes(), value)?;
                map.update(&key, &value, 0)
            }
            (None, Some(key)) => map.delete(&values::parse(btf, key_type, map.key_bytes(), key)?),
            (None, None) => return Err(format!("expected 'KEY=VALUE' or '-KEY', found '{entry}'")),
        };
        match result {
            0 => Ok(()),
            -2 => Err(format!("'{name}' has no such key: {entry}")),
            -7 | -28 => Err(format!("'{name}' has no room for {entry}")),
            error => Err(format!("'{name}' does not take {entry}: error {error}")),
        }
    }

    /// Types of a map's keys and values.
    fn types(&self, number: usize) -> (Option<u32>, Option<u32>) {
        self.object.maps.get(number).map_or((None, None), |map| (map.key_type, map.value_type))
    }

    /// All maps that the program uses.
    pub(super) fn list(&self) -> String {
        let named = self.machine.maps().iter().filter(|map| !map.name().is_empty());
        named
            .map(|map| {
                let (key, value) = (map.key_bytes(), map.value_bytes());
                let kind = map.kind().name();
                format!("{} {kind} {key} {value} {}\n", map.name(), map.max_entries())
            })
            .collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
