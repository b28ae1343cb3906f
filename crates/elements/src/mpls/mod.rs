//! MPLS label switching, with entries from a signaller.

mod datagram;
mod forward;
mod label_ether;
mod label_switch;
mod program;
#[cfg(test)]
mod tests;

pub(crate) use label_ether::LabelEther;
pub(crate) use label_switch::LabelSwitch;

/// The paint of packets with labels on their way to `LabelEther`; no interface has it.
const LABELLED: u8 = 255;
