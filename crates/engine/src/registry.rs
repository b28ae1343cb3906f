//! The classes that a configuration can use.

use std::collections::BTreeMap;

use crate::argument::Argument;
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
    /// Adds a class under its names.
    pub fn add<T: Class>(&mut self) {
        self.add_to::<T>("");
    }

    /// Adds a class of this category under its names.
    pub fn add_to<T: Class>(&mut self, category: &'static str) {
        for name in [T::INFO.name].iter().chain(T::INFO.also) {
            let info = ClassInfo { name, category, ..T::INFO };
            self.classes.insert(name, (info, || Box::new(T::default())));
        }
    }

    /// Adds a pass: routers that are built later use it for successive elements that match.
    pub fn add_pass(&mut self, pass: &'static dyn Pass) {
        self.passes.push(pass);
    }

    /// The same classes without passes: each element runs on its own.
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

    /// The arguments of a class; those of a set stand in the place of the set.
    pub fn arguments(&self, name: &str) -> Vec<&'static Argument> {
        self.make(name).map_or_else(Vec::new, |element| Argument::all(element.arguments()))
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
