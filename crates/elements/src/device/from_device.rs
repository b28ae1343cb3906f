//! # FromDevice
//!
//! ## Synopsis
//! `FromDevice(DEVNAME [, PROMISC, SNAPLEN, BURST, TIMESTAMP, ...])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Receives packets from one of the router's interfaces. Packets carry their type (host, broadcast,
//! multicast, other host), the interface's number and the place of the Ethernet header. In `europa
//! click` they are as they were on the link: VLAN tags that Linux has removed are restored, and
//! partial checksums are completed. Large segments that a sender on this machine leaves to the
//! device are split first.
//!
//! ## Arguments
//! - DEVNAME: name of the interface; in `europa click` also its Ethernet address, or a name that
//!   `AddressInfo` gives to it.
//! - PROMISC: if false, the default, frames for other hosts are dropped. In `europa click` it does
//!   not ask the device for such frames, but some devices pass them anyway, such as veth.
//! - SNAPLEN: most bytes of a packet that it keeps, default all.
//! - OUTBOUND (keyword): in `europa click`, also receive frames that this machine sends; default
//!   false.
//! - SNIFFER (keyword): in `europa click`, if false, Linux gets none of the frames until the router
//!   ends. Default true, but false in a configuration for Click's kernel module: one with
//!   `PollDevice` or `ToHostSniffers`, or with a `ToHost` that is not for a device of `FromHost`.
//! - FORCE_IP, METHOD, CAPTURE, BPF_FILTER, PROTOCOL, HEADROOM, ENCAP, LENGTH, QUIET,
//!   ALLOW_NONEXISTENT, UP_CALL, DOWN_CALL, ALIGNMENT, ACTIVE: accepted as in Click, without
//!   effect; they say how to reach a Linux device.
//! - BURST (keyword): most packets in a turn, default 256.
//! - TIMESTAMP (keyword): give packets the time of their round. The default is true in `europa
//!   click` where packets are shown, else false (Click: true).
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `drops` (read): frames for other hosts.
//! - `reset_counts` (write): sets both to zero.
//!
//! ## See also
//! `ToDevice`, `ToHost`

use crate::shared::fields::Annotations as _;
use europa_engine::{
    BATCH, Class, ClassInfo, ConfigError, Context, Element, InitContext, PacketType, arguments,
    handlers,
};

/// Receives from an interface.
pub(crate) struct FromDevice {
    name: String,
    interface: usize,
    promiscuous: bool,
    snap_length: u32,
    burst: usize,
    timestamp: Option<bool>,
    count: u64,
    drops: u64,
}

impl Default for FromDevice {
    fn default() -> FromDevice {
        FromDevice {
            name: String::new(),
            interface: 0,
            promiscuous: false,
            snap_length: u32::MAX,
            burst: BATCH,
            timestamp: None,
            count: 0,
            drops: 0,
        }
    }
}

impl FromDevice {
    /// One for this interface.
    pub(crate) fn of(name: String, promiscuous: bool, burst: Option<usize>) -> FromDevice {
        let burst = burst.unwrap_or(BATCH).clamp(1, BATCH);
        FromDevice { name, promiscuous, burst, ..FromDevice::default() }
    }
}

impl Class for FromDevice {
    const INFO: ClassInfo =
        ClassInfo::new("FromDevice", "0/1").processing("h/h").inline().keeps_long();
}

impl Element for FromDevice {
    arguments! { this, given;
        mandatory "DEVNAME": String => this.name;
        positional "PROMISC": bool = false => this.promiscuous;
        positional "SNAPLEN": u32 = u32::MAX => this.snap_length;
        keyword "BURST": usize = BATCH => this.burst;
        keyword "TIMESTAMP": bool => this.timestamp;
        keyword "SNIFFER": bool => _;
        keyword "FORCE_IP": bool => _;
        keyword "OUTBOUND": bool => _;
        keyword "QUIET": bool => _;
        keyword "ALLOW_NONEXISTENT": bool => _;
        keyword "METHOD": String => _;
        keyword "CAPTURE": String => _;
        keyword "BPF_FILTER": String => _;
        keyword "PROTOCOL": String => _;
        keyword "HEADROOM": String => _;
        keyword "ENCAP": String => _;
        keyword "LENGTH": String => _;
        keyword "UP_CALL": String => _;
        keyword "DOWN_CALL": String => _;
        keyword "ALIGNMENT": String => _;
        keyword "ACTIVE": String => _;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some((index, _)) = context.interface(&self.name) else {
            let message = format!("DEVNAME: this router has no interface '{}'", self.name);
            return Err(ConfigError::other(message));
        };
        self.interface = index;
        self.promiscuous |= context.selects();
        self.timestamp.get_or_insert(context.burst() == 1);
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        context.devices().rx(self.interface, &mut batch, self.burst);
        let count = batch.len();
        if count > 0 {
            self.count += count as u64;
            for packet in &mut batch {
                packet.set_mac_header(0);
            }
            if self.timestamp == Some(true) {
                let now_ns = context.wall_ns();
                for packet in &mut batch {
                    packet.set_timestamp_ns(now_ns);
                }
            }
            if !self.promiscuous {
                batch.retain(|packet| packet.packet_type() != PacketType::OtherHost);
                self.drops += (count - batch.len()) as u64;
            }
            let cut = self.snap_length != u32::MAX;
            for packet in batch.iter_mut().filter(|_| cut) {
                let more = packet.len().saturating_sub(self.snap_length as usize);
                if more > 0 && packet.take(more).is_some() {
                    packet.set_extra_length(u32::try_from(more).unwrap_or(u32::MAX));
                }
            }
            context.push_batch(0, &mut batch);
        }
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "drops" => this.drops;
        button "reset_counts" => (this.count, this.drops) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, device_router};

    #[test]
    fn receives_and_sends() {
        let (mut router, mut devices) = device_router(&[
            ("from", "FromDevice", &["eth1"]),
            ("queue", "Queue", &[]),
            ("to", "ToDevice", &["eth0"]),
        ]);
        devices.received[1] = vec![b"one".to_vec(), b"two".to_vec()];
        assert!(router.run_once(0, &mut devices));
        assert!(!router.run_once(0, &mut devices));
        assert_eq!(devices.sent[0], [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(router.read("from.count", ""), Ok("2".into()));
    }

    #[test]
    fn long_frames_are_cut() {
        let (mut router, mut devices) = device_router(&[
            ("from", "FromDevice", &["eth1", "SNAPLEN 3"]),
            ("queue", "Queue", &[]),
            ("to", "ToDevice", &["eth0"]),
        ]);
        devices.received[1] = vec![b"one".to_vec(), b"three".to_vec()];
        assert!(router.run_once(0, &mut devices));
        assert_eq!(devices.sent[0], [b"one".to_vec(), b"thr".to_vec()]);
    }

    #[test]
    fn an_unknown_interface_is_named() {
        let error = Bench::error("FromDevice", &["eth9", "PROMISC true", "METHOD LINUX"]);
        assert_eq!(error, "DEVNAME: this router has no interface 'eth9'");
    }
}
