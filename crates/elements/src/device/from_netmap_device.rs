//! # FromNetmapDevice
//!
//! ## Synopsis
//! `FromNetmapDevice(DEVNAME [, QUEUE, PROMISC, BURST, ...])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Receives packets from an interface, for configurations that are written for netmap. In `europa
//! click`, Linux gets none of its frames until the router ends.
//!
//! ## Arguments
//! - DEVNAME: name of the interface; `netmap:` before it is left out.
//! - QUEUE: accepted; no effect.
//! - PROMISC: receive frames for other hosts, too; default true.
//! - BURST (keyword): most packets in a turn, default 256.
//! - KEEPHAND, N_QUEUES, MAXTHREADS, VERBOSE, ACTIVE, NUMA, SCALE, THREADOFFSET, MINQUEUES,
//!   MAXQUEUES, TIMESTAMP (keywords): accepted; no effect.
//!
//! ## Handlers
//! Those of `FromDevice`.
//!
//! ## See also
//! `FromDevice`, `ToNetmapDevice`

use crate::device::from_device::FromDevice;
use crate::prelude::*;

/// Receives from an interface under a name of netmap.
#[derive(Default)]
pub(crate) struct FromNetmapDevice(FromDevice);

impl Class for FromNetmapDevice {
    const INFO: ClassInfo = ClassInfo::new("FromNetmapDevice", "0/1").processing("h/h");
}

impl Element for FromNetmapDevice {
    arguments! { this, given;
        let name = mandatory "DEVNAME": String;
        positional "QUEUE": i32 => _;
        let promiscuous = positional "PROMISC": bool = true;
        let burst = keyword "BURST": usize;
        keyword "KEEPHAND": String => _;
        keyword "N_QUEUES": String => _;
        keyword "MAXTHREADS": String => _;
        keyword "VERBOSE": String => _;
        keyword "ACTIVE": String => _;
        keyword "NUMA": String => _;
        keyword "SCALE": String => _;
        keyword "THREADOFFSET": String => _;
        keyword "MINQUEUES": String => _;
        keyword "MAXQUEUES": String => _;
        keyword "TIMESTAMP": String => _;
        then {
            let name = name.strip_prefix("netmap:").unwrap_or(&name).to_owned();
            this.0 = FromDevice::of(name, promiscuous, burst);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    delegate!(handlers 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn the_name_may_say_netmap() {
        let (mut router, mut devices) = device_router(&[
            ("from", "FromNetmapDevice", &["netmap:eth1", "PROMISC 1"]),
            ("queue", "Queue", &[]),
            ("to", "ToNetmapDevice", &["netmap:eth0", "BURST 32"]),
        ]);
        devices.received[1] = vec![b"one".to_vec()];
        assert!(router.run_once(0, &mut devices));
        assert_eq!(devices.sent[0], [b"one".to_vec()]);
    }
}
