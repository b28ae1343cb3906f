//! # PollDevice
//!
//! ## Synopsis
//! `PollDevice(DEVNAME [, PROMISC, BURST, TIMESTAMP, ...])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Receives packets from an interface, as `FromDevice` does. In `europa click` Linux gets none of
//! the frames; `ToHost` can pass frames to it. When the router ends, even by SIGKILL, Linux gets
//! all frames again.
//!
//! ## Arguments
//! - DEVNAME: name of the interface, or in `europa click` its Ethernet address.
//! - PROMISC: receive frames for other hosts, too; default false.
//! - BURST (keyword): most packets in a turn, default 256.
//! - TIMESTAMP (keyword): see `FromDevice`.
//! - HEADROOM, LENGTH, QUIET, ALLOW_NONEXISTENT, UP_CALL, DOWN_CALL (keywords): accepted as in
//!   Click, without effect.
//!
//! ## Handlers
//! Those of `FromDevice`.
//!
//! ## See also
//! `FromDevice`, `ToDevice`, `ToHost`

use crate::device::from_device::FromDevice;
use crate::prelude::*;

/// Receives from an interface that Linux gets no frames from.
#[derive(Default)]
pub(crate) struct PollDevice(FromDevice);

impl Class for PollDevice {
    const INFO: ClassInfo = ClassInfo::new("PollDevice", "0/1").processing("h/h");
}

impl Element for PollDevice {
    delegate!();
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn receives_as_fromdevice_does() {
        let (mut router, mut devices) = device_router(&[
            ("from", "PollDevice", &["eth1", "true", "BURST 8", "LENGTH 2000", "QUIET true"]),
            ("queue", "Queue", &[]),
            ("to", "ToDevice", &["eth0"]),
        ]);
        devices.received[1] = vec![b"one".to_vec(), b"two".to_vec()];
        assert!(router.run_once(0, &mut devices));
        assert_eq!(devices.sent[0], [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(router.read("from.count", ""), Ok("2".into()));
    }
}
