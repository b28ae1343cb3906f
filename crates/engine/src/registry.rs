//! The classes that a configuration can use.

use std::collections::BTreeMap;

use crate::element::{Class, ClassInfo, Element};
use crate::pass::Pass;

/// Makes one element, not yet configured.
type Constructor = fn() -> Box<dyn Element>;

/// Classes by name, and passes over several elements.
#[derive(Clone, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, (ClassInfo, Constructor)>,
    passes: Vec<&'static dyn Pass>,
}

impl Registry {
    /// Adds a class under its name.
    pub fn add<T: Class>(&mut self) {
        self.classes.insert(T::INFO.name, (T::INFO, || Box::new(T::default())));
    }

    /// Adds a class under another name too, with all that has been said of it.
    pub fn alias<T: Class>(&mut self, name: &'static str) {
        let info = self.info(T::INFO.name).copied().unwrap_or(T::INFO);
        self.classes.insert(name, (ClassInfo { name, ..info }, || Box::new(T::default())));
    }

    /// Says of a class that is there whether it may run inside the switch's worker, or why not.
    /// Whether there is such a class.
    pub fn set_inline(&mut self, name: &str, inline: Result<(), &'static str>) -> bool {
        let class = self.classes.get_mut(name);
        class.map(|(info, _)| info.inline = inline).is_some()
    }

    /// Says of a class that is there that packets end in its elements on purpose. Whether there
    /// is such a class.
    pub fn set_consumes(&mut self, name: &str) -> bool {
        let class = self.classes.get_mut(name);
        class.map(|(info, _)| info.consumes = true).is_some()
    }

    /// Says of a class that is there that its elements keep super-packets. Whether there is such a
    /// class.
    pub fn set_keeps_long(&mut self, name: &str) -> bool {
        let class = self.classes.get_mut(name);
        class.map(|(info, _)| info.keeps_long = true).is_some()
    }

    /// Adds a pass: routers built from now on use it where elements follow each other that it
    /// fits.
    pub fn add_pass(&mut self, pass: &'static dyn Pass) {
        self.passes.push(pass);
    }

    /// The same classes without passes: each element works on its own.
    #[must_use]
    pub fn without_passes(mut self) -> Registry {
        self.passes.clear();
        self
    }

    /// All passes.
    pub(crate) fn passes(&self) -> &[&'static dyn Pass] {
        &self.passes
    }

    /// The facts about a class.
    pub fn info(&self, name: &str) -> Option<&ClassInfo> {
        self.classes.get(name).map(|(info, _)| info)
    }

    /// A new element of a class.
    pub fn make(&self, name: &str) -> Option<Box<dyn Element>> {
        self.classes.get(name).map(|(_, make)| make())
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassInfo> {
        self.classes.values().map(|(info, _)| info)
    }
}
