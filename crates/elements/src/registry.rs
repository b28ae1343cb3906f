//! All classes of the library.

use europa_engine::Registry;

/// A registry with all classes of this library, one line each, by name.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add::<crate::paint::Paint>();
    registry.add::<crate::queue::Queue>();
    registry
}
