//! MPLS label switching.

mod datagram;
pub(crate) mod device_front;
mod forward;
pub(crate) mod label_ether;
pub(crate) mod label_switch;
mod program;
#[cfg(test)]
mod tests;

/// The paint of labelled packets for `LabelEther`; no interface has it.
const LABELLED: u8 = 255;
