//! # ToNetmapDevice
//!
//! ## Synopsis
//! `ToNetmapDevice(DEVNAME [, QUEUE, BURST, ...])`
//!
//! ## Ports
//! One input, push or pull.
//!
//! ## Description
//! Sends packets by an interface, as `ToDPDKDevice` does, for configurations that are written for
//! netmap.
//!
//! ## Arguments
//! - DEVNAME: name of the interface; `netmap:` before it is left out.
//! - Others: those of `ToDPDKDevice`.
//!
//! ## Handlers
//! Those of `ToDPDKDevice`.
//!
//! ## See also
//! `ToDevice`, `FromNetmapDevice`

use super::to_dpdk_device::ToDPDKDevice;
use crate::prelude::*;

/// Sends by an interface under a name of netmap.
#[derive(Default)]
pub(crate) struct ToNetmapDevice(ToDPDKDevice);

impl Class for ToNetmapDevice {
    const INFO: ClassInfo = ClassInfo::new("ToNetmapDevice", "1/0");
}

impl Element for ToNetmapDevice {
    delegate!();
}
