//! Devices and the host.

pub(crate) mod dpdk_info;
pub(crate) mod ensure_dpdk_buffer;
pub(crate) mod from_device;
pub(crate) mod from_dpdk_device;
pub(crate) mod from_host;
pub(crate) mod from_netmap_device;
pub(crate) mod host_gate;
pub(crate) mod host_police;
pub(crate) mod memif;
pub(crate) mod poll_device;
pub(crate) mod to_device;
pub(crate) mod to_dpdk_device;
pub(crate) mod to_host;
pub(crate) mod to_netmap_device;
pub(crate) mod xdp;
