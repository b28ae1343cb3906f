//! Maps and variables of a kernel router's program, read and written by name.

use europa_cage::kernel::entry_bytes;
use europa_cage::{MapDefinition, Member, values};
use europa_substrate::HeldMap;

use super::load::Loaded;

/// Most entries of a map in one answer.
const MOST_ENTRIES: usize = 1024;
/// Sections of variables.
const SECTIONS: [&str; 3] = [".rodata", ".data", ".bss"];

impl Loaded {
    /// Maps and variables by name.
    fn map(&self, name: &str) -> Option<(&MapDefinition, &HeldMap)> {
        let (number, definition) = self.ready.maps().find(|(_, of)| of.name == name)?;
        Some((definition, self.maps.get(&number)?))
    }

    /// The contents of a map or a variable of the program; with a key, only that entry of a map.
    ///
    /// # Errors
    /// There is none of this name, or no such key.
    pub(crate) fn read(&self, name: &str, key: &str) -> Result<String, String> {
        let btf = &self.ready.object.btf;
        if let Some((section, variable)) = self.variable(name) {
            let value = section.get(&[0; 4]).map_err(|error| error.to_string())?;
            let bytes = value.and_then(|values| values.into_iter().next()).unwrap_or_default();
            let place = variable.offset as usize..;
            let size = btf.size(variable.of).unwrap_or(0) as usize;
            let bytes = bytes.get(place).and_then(|rest| rest.get(..size)).unwrap_or_default();
            return Ok(values::format(btf, Some(variable.of), bytes));
        }
        let (definition, map) = self.map(name).ok_or_else(|| self.unknown(name))?;
        let told = |values: Vec<Vec<u8>>| -> String {
            let each = values.iter().map(|of| values::format(btf, definition.value_type, of));
            match map.is_per_cpu() {
                // One value for each CPU.
                true => format!("[{}]", each.collect::<Vec<_>>().join(", ")),
                false => each.collect(),
            }
        };
        let get = |key: &[u8]| map.get(key).map_err(|error| error.to_string());
        if !key.trim().is_empty() {
            let bytes = map.key_bytes as usize;
            let wanted = values::parse(btf, definition.key_type, bytes, key)?;
            let none = || format!("'{name}' has no key {}", key.trim());
            return get(&wanted)?.map(told).ok_or_else(none);
        }
        let keys = map.keys(MOST_ENTRIES + 1).map_err(|error| error.to_string())?;
        let mut text = String::new();
        for one in keys.iter().take(MOST_ENTRIES) {
            // The entry may have been removed meanwhile.
            let Some(value) = get(one)? else { continue };
            let one = values::format(btf, definition.key_type, one);
            text += &format!("{one}={}\n", told(value));
        }
        if keys.len() > MOST_ENTRIES {
            text += &format!("(more than {MOST_ENTRIES} entries: ask for a key)\n");
        }
        Ok(text)
    }

    /// Writes lines `KEY=VALUE`, or `-KEY` to remove an entry, into a map.
    ///
    /// # Errors
    /// There is no map of this name, or an unreadable value.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        if self.variable(name).is_some() {
            return Err(format!("'{name}' is a variable: `constants` of the document sets it"));
        }
        let (definition, map) = self.map(name).ok_or_else(|| self.unknown(name))?;
        let object = &self.ready.object;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(key) = line.strip_prefix('-').filter(|rest| !rest.contains('=')) {
                let bytes = map.key_bytes as usize;
                let key = values::parse(&object.btf, definition.key_type, bytes, key)?;
                map.remove(&key).map_err(|error| format!("{line}: {error}"))?;
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| format!("expected KEY=VALUE or -KEY, found '{line}'"))?;
            let (key, value) = entry_bytes(object, definition, key, value)?;
            map.update(&key, &value).map_err(|error| format!("{line}: {error}"))?;
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<(&HeldMap, Member)> {
        SECTIONS.iter().find_map(|section| {
            let btf = &self.ready.object.btf;
            let (_, variable) = btf.variables(section).find(|(of, _)| *of == name)?;
            Some((self.map(section)?.1, variable))
        })
    }

    fn unknown(&self, name: &str) -> String {
        let maps = self.ready.maps().map(|(_, map)| map.name.as_str());
        let maps = maps.filter(|map| !map.starts_with('.'));
        let variables = SECTIONS
            .iter()
            .flat_map(|section| self.ready.object.btf.variables(section).map(|(name, _)| name));
        let all: Vec<&str> = maps.chain(variables).collect();
        format!("the program has no map or variable '{name}': it has {}", all.join(", "))
    }
}
