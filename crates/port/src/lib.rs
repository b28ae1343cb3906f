//! Port drivers: kernel devices that Europa owns.
