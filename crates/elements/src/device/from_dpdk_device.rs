//! # FromDPDKDevice
//!
//! ## Synopsis
//! `FromDPDKDevice(PORT [, QUEUE, PROMISC, BURST, ...])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Receives packets from an interface, for configurations that are written for DPDK. In `europa
//! click`, PORT is the name of a Linux interface, the PCI address of its device, or a number that
//! `--port-map` gives to an interface. Linux gets none of the interface's frames until the router
//! ends. In a router of a node, PORT is the name of an interface.
//!
//! ## Arguments
//! - PORT: the interface.
//! - QUEUE: accepted; no effect.
//! - PROMISC: receive frames for other hosts, too; default true.
//! - BURST (keyword): most packets in a turn, default 256.
//! - ACTIVE (keyword): accepted, as are NDESC, MAC, MTU, MODE, FLOW_ISOLATE, FLOW_RULES_FILE,
//!   VF_POOLS, MINQUEUES, MAXQUEUES, RX_INTR, MAX_RSS, RETA_SIZE, TIMESTAMP, RSS_AGGREGATE,
//!   PAINT_QUEUE, CLEAR, PAUSE, IPCO, TCO, UCO, POWER_MGMT, N_QUEUES, MAXTHREADS, VERBOSE,
//!   ALLOW_NONEXISTENT, VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND, LRO, JUMBO, NUMA, NUMA_NODE, SCALE
//!   and THREADOFFSET: settings of hardware that have no effect.
//!
//! ## Handlers
//! - `count`, `hw_count` (read): packets received.
//! - `drops`, `hw_dropped` (read): frames for other hosts.
//! - `xstats` (read): the same as lines, by name.
//! - `reset_counts` (write): sets them to zero.
//!
//! ## See also
//! `FromDevice`, `ToDPDKDevice`, `DPDKInfo`

use crate::device::from_device::FromDevice;
use crate::prelude::*;

/// Receives from an interface under a name of DPDK.
#[derive(Default)]
pub(crate) struct FromDPDKDevice(FromDevice);

impl Class for FromDPDKDevice {
    const INFO: ClassInfo = ClassInfo::new("FromDPDKDevice", "0/1").processing("h/h");
}

impl Element for FromDPDKDevice {
    arguments! { this, given;
        let name = mandatory "PORT": String;
        positional "QUEUE": i32 => _;
        let promiscuous = positional "PROMISC": bool = true;
        let burst = keyword "BURST": usize;
        keyword "NDESC": String => _;
        keyword "MAC": String => _;
        keyword "MTU": String => _;
        keyword "MODE": String => _;
        keyword "FLOW_ISOLATE": String => _;
        keyword "FLOW_RULES_FILE": String => _;
        keyword "VF_POOLS": String => _;
        keyword "MINQUEUES": String => _;
        keyword "MAXQUEUES": String => _;
        keyword "RX_INTR": String => _;
        keyword "MAX_RSS": String => _;
        keyword "RETA_SIZE": String => _;
        keyword "TIMESTAMP": String => _;
        keyword "RSS_AGGREGATE": String => _;
        keyword "PAINT_QUEUE": String => _;
        keyword "CLEAR": String => _;
        keyword "PAUSE": String => _;
        keyword "IPCO": String => _;
        keyword "TCO": String => _;
        keyword "UCO": String => _;
        keyword "POWER_MGMT": String => _;
        keyword "N_QUEUES": String => _;
        keyword "MAXTHREADS": String => _;
        keyword "VERBOSE": String => _;
        keyword "ACTIVE": String => _;
        keyword "ALLOW_NONEXISTENT": String => _;
        keyword "VLAN_FILTER": String => _;
        keyword "VLAN_STRIP": String => _;
        keyword "VLAN_EXTEND": String => _;
        keyword "LRO": String => _;
        keyword "JUMBO": String => _;
        keyword "NUMA": String => _;
        keyword "NUMA_NODE": String => _;
        keyword "SCALE": String => _;
        keyword "THREADOFFSET": String => _;
        then {
            this.0 = FromDevice::of(name, promiscuous, burst);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    handlers! { this, context, value;
        read "count" => this.0.read("count", "", context)?;
        read "hw_count" => this.0.read("count", "", context)?;
        read "drops" => this.0.read("drops", "", context)?;
        read "hw_dropped" => this.0.read("drops", "", context)?;
        read "xstats" => format!(
            "rx_good_packets = {}\nrx_dropped = {}\n",
            this.0.read("count", "", context)?,
            this.0.read("drops", "", context)?
        );
        button "reset_counts" => this.0.write("reset_counts", "", context)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn frames_for_all_hosts_are_received_unless_told_otherwise() {
        let mut other = vec![2, 0, 0, 0, 0, 9];
        other.extend([0; 20]);
        for (arguments, count) in [
            (&["eth1", "NDESC 512", "VERBOSE 3"][..], 1),
            (&["eth1", "0", "PROMISC false", "ACTIVE 1"], 0),
        ] {
            let (mut router, mut devices) = device_router(&[
                ("from", "FromDPDKDevice", arguments),
                ("queue", "Queue", &[]),
                ("to", "ToDPDKDevice", &["eth0", "BLOCKING true", "IQUEUE 32", "NDESC 0"]),
            ]);
            devices.received[1] = vec![other.clone()];
            assert!(router.run_once(0, &mut devices));
            assert_eq!(devices.sent[0].len(), count);
            assert_eq!(router.read("from.hw_count", ""), Ok("1".into()));
            assert_eq!(router.read("to.count", ""), Ok(count.to_string()));
        }
    }
}
