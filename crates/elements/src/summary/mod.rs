//! IP summary dumps.

mod field;
pub(crate) mod from_ip_summary_dump;
pub(crate) mod md5;
mod options;
mod read;
pub(crate) mod to_ip_summary_dump;
mod write;
