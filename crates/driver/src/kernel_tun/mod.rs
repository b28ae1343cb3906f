//! # KernelTun
//!
//! ## Synopsis
//! `KernelTun(ADDR/MASK [, GATEWAY, TAP, BURST, HEADROOM, ETHER, MTU, DEVNAME,
//! IGNORE_QUEUE_OVERFLOWS])`
//!
//! ## Ports
//! At most one input, push or pull. Push output 0 gets IP packets that Linux sends; output 1, if
//! connected, all other packets.
//!
//! ## Description
//! Makes a tun device with the address ADDR, and sets it up. Packets that Linux routes to its
//! subnet leave by output 0, and Linux receives packets of the input. Packets of the input need the
//! IP header annotation; bytes in front of the header are omitted. The device is removed when the
//! router ends.
//!
//! Only for `europa click`: a router of a node has its own Linux by `slow_path:`, with `FromHost`
//! and `ToHost`.
//!
//! ## Arguments
//! - ADDR/MASK: IPv4 address of the device, and its subnet.
//! - GATEWAY: an address on the subnet, which becomes Linux's default route; default none.
//! - TAP (keyword): make a tap device, as `KernelTap` does; default false.
//! - BURST (keyword): most packets that are received in a turn, default 1.
//! - HEADROOM (keyword): bytes left free in front, default 64.
//! - ETHER (keyword): Ethernet address of a tap device.
//! - MTU (keyword): longest packet, default 1500; longer ones are dropped.
//! - DEVNAME (keyword): name of the device; default the next free one.
//! - IGNORE_QUEUE_OVERFLOWS (keyword): accepted without effect; packets that Linux does not take
//!   are counted.
//!
//! ## Handlers
//! - `dev_name` (read): name of the device.
//! - `packets` (read): packets received from Linux.
//! - `selected_calls` (read): how often Linux had packets to receive.
//! - `drops` (read): packets that Linux did not take.
//!
//! ## See also
//! `KernelTap`, `FromDevice`, `ToHost`

pub(crate) mod from_host;
pub(crate) mod kernel_tap;
pub(crate) mod to_host;
pub(crate) mod to_host_sniffers;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Interest, Ipv4Prefix,
    Packet, arguments, handlers,
};
use europa_port::{Namespace, Route, add_address, add_route, make_tun, set_mac, set_mtu, set_up};
use nix::unistd::{read, write};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag, by which a frame may be longer.
const TAG: usize = 4;

/// A tun device.
pub(crate) struct KernelTun {
    near: Ipv4Prefix,
    gateway: Option<Ipv4Addr>,
    tap: bool,
    burst: usize,
    headroom: usize,
    mac: Option<[u8; 6]>,
    mtu: usize,
    name: Option<String>,
    device: String,
    descriptor: Option<Rc<OwnedFd>>,
    packets: u64,
    calls: u64,
    drops: u64,
}

impl Default for KernelTun {
    fn default() -> KernelTun {
        KernelTun {
            near: Ipv4Prefix { address: Ipv4Addr::UNSPECIFIED, length: 0 },
            gateway: None,
            tap: false,
            burst: 1,
            headroom: 64,
            mac: None,
            mtu: 1500,
            name: None,
            device: String::new(),
            descriptor: None,
            packets: 0,
            calls: 0,
            drops: 0,
        }
    }
}

impl Class for KernelTun {
    const INFO: ClassInfo = ClassInfo::new("KernelTun", "0-1/1-2").processing("a/h").flow("x/y");
}

impl KernelTun {
    fn make(&mut self) -> io::Result<OwnedFd> {
        let (descriptor, device) = make_tun(self.name.as_deref(), self.tap)?;
        let namespace = Namespace::current()?;
        if let Some(mac) = self.mac.filter(|_| self.tap) {
            set_mac(&namespace, &device, mac)?;
        }
        if self.mtu != 1500 {
            set_mtu(&namespace, &device, self.mtu as u32)?;
        }
        if !self.near.address.is_unspecified() {
            let subnet = ipnet::Ipv4Net::new(self.near.address, self.near.length);
            let subnet = subnet.map_err(io::Error::other)?;
            add_address(&namespace, &device, subnet.into())?;
        }
        set_up(&namespace, &device)?;
        if let Some(gateway) = self.gateway {
            let to = ipnet::Ipv4Net::default().into();
            let route = Route { to, via: Some(gateway.into()), device: Some(&device) };
            add_route(&namespace, route)?;
        }
        self.device = device;
        Ok(descriptor)
    }

    /// One packet from Linux.
    fn receive(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        let descriptor = self.descriptor.as_ref()?;
        let mut packet = context.arena().alloc()?;
        // If the system's limit is lower, that limit stays.
        let _ = packet.set_headroom(self.headroom);
        let room = (self.mtu + if self.tap { ETHERNET + TAG } else { 0 }).min(packet.tailroom());
        let length = read(descriptor, packet.put(room)?).ok()?;
        packet.take(room.checked_sub(length)?)?;
        packet.set_timestamp_ns(context.wall_ns());
        self.packets += 1;
        Some(packet)
    }

    /// Sets the header annotations of an IP packet. Returns whether the packet is one.
    fn mark(packet: &mut Packet) -> bool {
        match packet.data().first().map(|byte| (byte >> 4, usize::from(byte & 15) * 4)) {
            Some((4, length)) if (20..=packet.len()).contains(&length) => {
                packet.set_network_header(0, length);
                if let Some(to) = packet.data().get(16..).and_then(<[u8]>::first_chunk).copied() {
                    packet.set_dst_ip(u32::from_be_bytes(to));
                }
                true
            }
            Some((6, _)) if packet.len() >= 40 => {
                packet.set_network_header(0, 40);
                true
            }
            _ => false,
        }
    }

    /// The part of a packet for Linux; `None` if the packet has no such part.
    fn contents<'a>(&self, packet: &'a Packet) -> Option<&'a [u8]> {
        if self.tap {
            let data = packet.data();
            return (ETHERNET..=self.mtu + ETHERNET + TAG).contains(&data.len()).then_some(data);
        }
        let data = packet.network_header()?;
        let version = data.first()? >> 4;
        (matches!(version, 4 | 6) && (20..=self.mtu).contains(&data.len())).then_some(data)
    }

    fn send(&mut self, batch: &mut Batch) {
        for packet in batch.drain() {
            let taken = match (&self.descriptor, self.contents(&packet)) {
                (Some(descriptor), Some(data)) => write(descriptor, data).is_ok(),
                _ => false,
            };
            self.drops += u64::from(!taken);
        }
    }

    pub(crate) fn make_tap(&mut self) {
        self.tap = true;
    }
}

impl Element for KernelTun {
    arguments! { this, given;
        mandatory "ADDR": Ipv4Prefix => this.near;
        positional "GATEWAY": Ipv4Addr => this.gateway;
        let tap = keyword "TAP": bool;
        keyword "HEADROOM": usize = 64 => this.headroom;
        keyword "BURST": usize = 1 => this.burst;
        keyword "ETHER": [u8; 6] => this.mac;
        keyword "IGNORE_QUEUE_OVERFLOWS": bool => _;
        keyword "MTU": usize = 1500 => this.mtu;
        keyword "DEVNAME": String => this.name;
        then {
            this.tap = tap.unwrap_or(this.tap);
            let bad = |message: &str| Err(ConfigError::other(message));
            if let Some(gateway) = this.gateway
                && (u32::from(gateway) ^ u32::from(this.near.address)) & this.near.mask() != 0
            {
                return bad("bad GATEWAY");
            }
            if this.burst < 1 {
                return bad("BURST must be >= 1");
            }
            if !(20..=65535).contains(&this.mtu) {
                return bad("MTU must be greater than 20");
            }
            if this.headroom > 8192 {
                return bad("HEADROOM too big");
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let made = self.make().map_err(|error| {
            let kind = if self.tap { "tap" } else { "tun" };
            ConfigError::other(format!("making a {kind} device: {}", crate::load::system(&error)))
        });
        let descriptor = Rc::new(made?);
        context.watch(0, Interest::Read, descriptor.clone());
        self.descriptor = Some(descriptor);
        if context.is_pull(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn descriptor_ready(&mut self, _: u32, _: Interest, context: &mut Context<'_>) {
        self.calls += 1;
        for _ in 0..self.burst {
            let Some(mut packet) = self.receive(context) else { return };
            let port = if self.tap {
                packet.set_mac_header(0);
                0
            } else {
                usize::from(!KernelTun::mark(&mut packet))
            };
            context.push(port, packet);
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        self.send(batch);
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = context.pull(0, context.burst(), &mut batch);
        self.send(&mut batch);
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "dev_name" => this.device;
        read "packets" => this.packets;
        read "selected_calls" => this.calls;
        read "drops" => this.drops;
    }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        self.descriptor = None;
    }
}
