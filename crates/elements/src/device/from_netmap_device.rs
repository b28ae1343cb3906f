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
use crate::shared::accepted::accept;

/// Receives from an interface under a name of netmap.
#[derive(Default)]
pub(crate) struct FromNetmapDevice(FromDevice);

const KEYWORDS: &[&str] = &[
    "KEEPHAND",
    "N_QUEUES",
    "MAXTHREADS",
    "VERBOSE",
    "ACTIVE",
    "NUMA",
    "SCALE",
    "THREADOFFSET",
    "MINQUEUES",
    "MAXQUEUES",
    "TIMESTAMP",
];

impl Class for FromNetmapDevice {
    const INFO: ClassInfo = ClassInfo::new("FromNetmapDevice", "0/1").processing("h/h");
}

impl Element for FromNetmapDevice {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        accept(arguments, KEYWORDS)?;
        let name: String = arguments.mandatory("DEVNAME")?;
        let name = name.strip_prefix("netmap:").unwrap_or(&name).to_owned();
        arguments.positional::<i32>("QUEUE")?;
        let promiscuous = arguments.positional("PROMISC")?.unwrap_or(true);
        self.0 = FromDevice::of(name, promiscuous, arguments.keyword("BURST")?);
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    delegate!(reading 0);

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.0.write(handler, value, context)
    }
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
