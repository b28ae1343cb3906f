//! References between elements by name.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::prelude::*;

/// An element to which others refer by name.
pub(super) trait Shared: Class {
    /// The shared value.
    type What: Default;

    fn share(&self) -> Rc<RefCell<Self::What>>;
}

/// The shared value of an element of class `E`, found by its name.
pub(super) struct Reference<E: Shared> {
    keyword: &'static str,
    name: Option<String>,
    what: Rc<RefCell<E::What>>,
}

impl<E: Shared> Default for Reference<E> {
    fn default() -> Self {
        Reference { keyword: "", name: None, what: Rc::default() }
    }
}

impl<E: Shared> Reference<E> {
    /// Reads an optional keyword.
    pub(super) fn keyword(
        keyword: &'static str,
        arguments: &mut Arguments<'_>,
    ) -> Result<Self, ConfigError> {
        Ok(Reference { keyword, name: arguments.keyword(keyword)?, what: Rc::default() })
    }

    /// Reads a required keyword.
    pub(super) fn mandatory(
        keyword: &'static str,
        arguments: &mut Arguments<'_>,
    ) -> Result<Self, ConfigError> {
        let name = Some(arguments.mandatory_keyword(keyword)?);
        Ok(Reference { keyword, name, what: Rc::default() })
    }

    /// Finds the element; call it when the router is initialised.
    pub(super) fn connect(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(name) = &self.name else { return Ok(()) };
        let index = context.find(name);
        let found = index.and_then(|index| context.element(index));
        let element = found.and_then(|element| (element as &mut dyn Any).downcast_mut::<E>());
        let (keyword, class) = (self.keyword, E::INFO.name);
        let wrong = || ConfigError::other(format!("{keyword}: no {class} '{name}'"));
        self.what = element.ok_or_else(wrong)?.share();
        Ok(())
    }

    pub(super) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Reads or changes it.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut E::What) -> R) -> R {
        look(&mut self.what.borrow_mut())
    }
}
