//! IP routers.

pub(crate) mod ip6_forward;
pub(crate) mod ip6_fragmenter;
pub(crate) mod ip_forward;
pub(crate) mod ip_fragmenter;
pub(crate) mod ip_gw_options;
pub(crate) mod ip_input_combo;
pub(crate) mod ip_output_combo;
pub(crate) mod ip_reassembler;
