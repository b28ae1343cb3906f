//! # ToDPDKDevice
//!
//! ## Synopsis
//! `ToDPDKDevice(PORT [, QUEUE, BURST, ...])`
//!
//! ## Ports
//! One input, push or pull.
//!
//! ## Description
//! Sends packets by an interface, for configurations that are written for DPDK. PORT has the same
//! meaning as in `FromDPDKDevice`. If the interface does not take pushed packets at once, up to
//! IQUEUE of them wait here. Further packets are dropped and counted.
//!
//! ## Arguments
//! - PORT: the interface.
//! - QUEUE: accepted; no effect.
//! - BURST (keyword): most packets in a turn, default 256.
//! - IQUEUE (keyword): packets that wait, default 1024.
//! - BLOCKING (keyword): accepted, as are TIMEOUT, NDESC, MAXQUEUES, N_QUEUES, MAXTHREADS, ALLOC,
//!   TSO, IPCO, TCO, UCO, VERBOSE, NUMA, ALLOW_NONEXISTENT, SCALE and THREADOFFSET: no effect.
//!
//! ## Handlers
//! - `count`, `hw_count` (read): packets sent.
//! - `drops`, `dropped` (read): packets that found no room here, or that the interface refused.
//! - `reset_counts` (write): sets them to zero.
//!
//! ## See also
//! `ToDevice`, `FromDPDKDevice`, `DPDKInfo`

use std::collections::VecDeque;

use crate::device::to_device::ToDevice;
use crate::prelude::*;

/// Default number of packets that wait.
const WAITING: usize = 1024;
/// Most packets that may wait.
const MOST_WAITING: usize = 1 << 16;

/// Sends by an interface under a name of DPDK.
#[derive(Default)]
pub(crate) struct ToDPDKDevice {
    device: ToDevice,
    waiting: VecDeque<Packet>,
    most: usize,
    pulls: bool,
    lost: u64,
}

impl Class for ToDPDKDevice {
    const INFO: ClassInfo = ClassInfo::new("ToDPDKDevice", "1/0");
}

impl ToDPDKDevice {
    fn count(&mut self, name: &str, context: &mut Context<'_>) -> u64 {
        let read = self.device.read(name, "", context);
        read.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

impl Element for ToDPDKDevice {
    arguments! { this, given;
        let port = positional "PORT" | "DEVNAME": String;
        positional "QUEUE": i32 => _;
        keyword "IQUEUE": usize = WAITING, with |most| most.min(MOST_WAITING) => this.most;
        let burst = keyword "BURST": usize;
        keyword "BLOCKING": String => _;
        keyword "TIMEOUT": String => _;
        keyword "NDESC": String => _;
        keyword "MAXQUEUES": String => _;
        keyword "N_QUEUES": String => _;
        keyword "MAXTHREADS": String => _;
        keyword "ALLOC": String => _;
        keyword "TSO": String => _;
        keyword "IPCO": String => _;
        keyword "TCO": String => _;
        keyword "UCO": String => _;
        keyword "VERBOSE": String => _;
        keyword "NUMA": String => _;
        keyword "ALLOW_NONEXISTENT": String => _;
        keyword "SCALE": String => _;
        keyword "THREADOFFSET": String => _;
        then {
            let name = port.ok_or(ConfigError::Missing { name: "PORT" })?;
            let name = name.strip_prefix("netmap:").unwrap_or(&name).to_owned();
            this.device = ToDevice::of(name, burst);
            this.waiting.reserve(this.most);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.device.initialize(context)?;
        self.pulls = context.is_pull(0);
        if !self.pulls {
            context.add_task(1024);
        }
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if self.waiting.is_empty() {
            self.device.send(batch, context);
        }
        for packet in batch.drain() {
            if self.waiting.len() < self.most {
                self.waiting.push_back(packet);
            } else {
                self.lost += 1;
            }
        }
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if self.pulls {
            return self.device.run_task(context);
        }
        if self.waiting.is_empty() {
            return false;
        }
        let mut batch = context.take_batch();
        while batch.room() > 0
            && let Some(packet) = self.waiting.pop_front()
        {
            // There is room.
            let _ = batch.push(packet);
        }
        let before = batch.len();
        self.device.send(&mut batch, context);
        let sent = before - batch.len();
        while let Some(packet) = batch.pop() {
            self.waiting.push_front(packet);
        }
        context.give_batch(batch);
        sent > 0
    }

    handlers! { this, context, value;
        read "count" => this.count("count", context);
        read "hw_count" => this.count("count", context);
        read "drops" => this.count("drops", context) + this.lost;
        read "dropped" => this.count("drops", context) + this.lost;
        button "reset_counts" => {
            this.lost = 0;
            this.device.write("reset_counts", "", context)?;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn what_is_pushed_waits_for_the_interface() {
        let (mut router, mut devices) = device_router(&[
            ("from", "FromDPDKDevice", &["eth0"]),
            ("to", "ToDPDKDevice", &["eth1", "IQUEUE 2"]),
        ]);
        devices.tx_limit = 1;
        devices.received[0] = [b"a", b"b", b"c", b"d"].map(|data| data.to_vec()).into();
        while router.run_once(0, &mut devices) {}
        let sent: Vec<Vec<u8>> = [b"a", b"b", b"c"].map(|data| data.to_vec()).into();
        assert_eq!(devices.sent[1], sent);
        assert_eq!(router.read("to.count", ""), Ok("3".into()));
        assert_eq!(router.read("to.dropped", ""), Ok("1".into()));
    }
}
