//! Control and configuration.

pub(crate) mod address_info;
pub(crate) mod alignment_info;
pub(crate) mod clicky_info;
pub(crate) mod driver_manager;
pub(crate) mod error_element;
pub(crate) mod ip_name_info;
pub(crate) mod message;
pub(crate) mod port_info;
pub(crate) mod random_seed;
pub(crate) mod schedule_info;
pub(crate) mod script;
