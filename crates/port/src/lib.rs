//! Port drivers: kernel devices that Europa owns.

mod namespace;

pub use namespace::{Namespace, in_namespace};
