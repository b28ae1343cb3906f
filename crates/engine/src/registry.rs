//! The classes that a configuration can use.

use std::collections::BTreeMap;

use crate::element::{Class, ClassInfo, Element};

/// Makes one element, not yet configured.
type Constructor = fn() -> Box<dyn Element>;

/// Classes by name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, (ClassInfo, Constructor)>);

impl Registry {
    /// Adds a class under its name.
    pub fn add<T: Class>(&mut self) {
        self.0.insert(T::INFO.name, (T::INFO, || Box::new(T::default())));
    }

    /// Adds a class under another name too.
    pub fn alias<T: Class>(&mut self, name: &'static str) {
        self.0.insert(name, (ClassInfo { name, ..T::INFO }, || Box::new(T::default())));
    }

    /// What is known of a class.
    pub fn info(&self, name: &str) -> Option<&ClassInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    /// A new element of a class.
    pub fn make(&self, name: &str) -> Option<Box<dyn Element>> {
        self.0.get(name).map(|(_, make)| make())
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassInfo> {
        self.0.values().map(|(info, _)| info)
    }
}
