//! Devices under the names that other drivers give them: polling, DPDK, netmap.

pub(crate) mod dpdk_info;
pub(crate) mod ensure_dpdk_buffer;
pub(crate) mod from_dpdk_device;
pub(crate) mod from_netmap_device;
pub(crate) mod poll_device;
pub(crate) mod to_dpdk_device;
pub(crate) mod to_netmap_device;
