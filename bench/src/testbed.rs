//! The testbed: generator – router – sink, three network namespaces on veth pairs.
//!
//! ```text
//!   eub-gen                 eub-rtr                   eub-sink
//!   g0 10.0.0.2/24 ──── r0 10.0.0.1  r1 10.0.1.1 ──── s0 10.0.1.2/24, 10.1.0.0/16
//! ```
//!
//! Every run makes a new testbed, so it has no state of a former run. The ends know the router's
//! MAC addresses. The system under test decides how the router works, and whether its devices have
//! the addresses above.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use serde::Serialize;

use crate::error::{Context, Error, Result};
use crate::netns::Namespace;
use crate::shell;

/// The names of all namespaces begin with this; at its next start the program removes such
/// namespaces.
const PREFIX: &str = "eub-";
const LOCK: &str = "/run/lock/europa-bench.lock";

/// Core of the generator.
pub(crate) const SENDER_CORE: usize = 0;
/// The other core.
pub(crate) const OTHER_CORE: usize = 1;

/// MAC addresses of g0, r0, r1 and s0.
pub(crate) const MAC: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3], [2, 0, 0, 0, 0, 4]];

/// Offloads of the four devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Offloads {
    /// The defaults, and GRO: without it a veth refuses redirected frames.
    Default,
    /// Neither checksums nor segmentation nor GRO.
    Off,
}

/// The three namespaces and their devices; removed on drop.
pub(crate) struct Testbed {
    /// The namespace that packets come from: device `g0`.
    pub(crate) generator: Namespace,
    /// Devices `r0` and `r1`; in a direct testbed it is empty.
    pub(crate) router: Namespace,
    /// The namespace that packets go to: device `s0`.
    pub(crate) sink: Namespace,
    direct: bool,
}

impl Testbed {
    /// A testbed with a router between generator and sink.
    pub(crate) fn routed() -> Result<Self> {
        Self::create(false)
    }

    /// A testbed with generator and sink on one wire, to measure their cost.
    pub(crate) fn direct() -> Result<Self> {
        Self::create(true)
    }

    fn create(direct: bool) -> Result<Self> {
        let testbed = Self {
            generator: Namespace::create(&format!("{PREFIX}gen"))?,
            router: Namespace::create(&format!("{PREFIX}rtr"))?,
            sink: Namespace::create(&format!("{PREFIX}sink"))?,
            direct,
        };
        let (generator, router, sink) = (&testbed.generator, &testbed.router, &testbed.sink);
        if direct {
            wire(generator, "g0", sink, "s0")?;
        } else {
            wire(generator, "g0", router, "r0")?;
            wire(sink, "s0", router, "r1")?;
        }
        for (index, (namespace, device)) in testbed.devices().into_iter().enumerate() {
            let position = if direct { index * 3 } else { index };
            let mac = MAC.get(position).map(format_mac).unwrap_or_default();
            namespace.ip(&format!("link set {device} address {mac} up"))?;
            namespace.exec(&format!("ethtool -K {device} gro on"))?;
        }
        generator.ip("addr add 10.0.0.2/24 dev g0")?;
        sink.ip("addr add 10.0.1.2/24 dev s0")?;
        if !direct {
            generator.ip("route add default via 10.0.0.1")?;
            sink.ip("route add default via 10.0.1.1")?;
            neighbour(generator, "10.0.0.1", "g0", 1)?;
            neighbour(sink, "10.0.1.1", "s0", 2)?;
        }
        Ok(testbed)
    }

    /// Every device with its namespace, in the order of the wire.
    pub(crate) fn devices(&self) -> Vec<(&Namespace, &'static str)> {
        let mut devices = vec![(&self.generator, "g0")];
        if !self.direct {
            devices.extend([(&self.router, "r0"), (&self.router, "r1")]);
        }
        devices.push((&self.sink, "s0"));
        devices
    }

    /// MAC address to which the generator sends.
    pub(crate) fn first_hop(&self) -> [u8; 6] {
        if self.direct { MAC[3] } else { MAC[1] }
    }

    /// Gives the router's devices addresses, routes and neighbours in Linux.
    pub(crate) fn configure_linux_router(&self) -> Result<()> {
        let router = &self.router;
        router.ip("addr add 10.0.0.1/24 dev r0")?;
        router.ip("addr add 10.0.1.1/24 dev r1")?;
        router.ip("route add 10.1.0.0/16 via 10.0.1.2")?;
        neighbour(router, "10.0.0.2", "r0", 0)?;
        neighbour(router, "10.0.1.2", "r1", 3)?;
        router.exec("sysctl -qw net.ipv4.ip_forward=1").map(drop)
    }

    /// Sets the offloads of all devices.
    pub(crate) fn set_offloads(&self, offloads: Offloads) -> Result<()> {
        if offloads == Offloads::Off {
            for (namespace, device) in self.devices() {
                namespace.exec(&format!("ethtool -K {device} tx off tso off gso off gro off"))?;
            }
        }
        Ok(())
    }

    /// Moves the NAPI work of a device to a separate thread on the given core.
    pub(crate) fn thread_napi(&self, device: &str, core: usize) -> Result<()> {
        let (namespace, _) = self
            .devices()
            .into_iter()
            .find(|(_, name)| *name == device)
            .ok_or_else(|| Error::Other(format!("no device {device} in the testbed")))?;
        let before = napi_threads(device);
        namespace.write(&format!("/sys/class/net/{device}/threaded"), "1")?;
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            // The former testbed may have had threads of the same name.
            let new: Vec<u32> =
                napi_threads(device).into_iter().filter(|pid| !before.contains(pid)).collect();
            if !new.is_empty() {
                for pid in new {
                    shell::run(&format!("taskset -p -c {core} {pid}"))?;
                }
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::Other(format!("no NAPI thread appeared for {device}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Moves frames received by `device` to the given core before the IP layer.
    pub(crate) fn steer_receive(&self, device: &str, core: usize) -> Result<()> {
        let path = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        self.router.write(&path, &format!("{:x}", 1_u32 << core))
    }
}

/// A lock that is held as long as the value exists: two benchmarks at the same time would disturb
/// each other.
pub(crate) fn only_one() -> Result<Flock<File>> {
    let file = File::create(LOCK).context(format!("creating {LOCK}"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| Error::NotAlone)
}

/// Removes the remains of an earlier, killed benchmark.
pub(crate) fn remove_leftovers() {
    let Ok(entries) = Path::new("/run/netns").read_dir() else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            eprintln!("removing {name}, left by an earlier run");
            let _ = shell::run(&format!("ip netns delete {name}"));
        }
    }
}

/// Formats an address as `02:00:00:00:00:01`.
pub(crate) fn format_mac(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn wire(a: &Namespace, device_a: &str, b: &Namespace, device_b: &str) -> Result<()> {
    let (a, b) = (a.name(), b.name());
    let line = format!("ip link add {device_a} netns {a} type veth peer name {device_b} netns {b}");
    shell::run(&line).map(drop)
}

fn neighbour(namespace: &Namespace, address: &str, device: &str, index: usize) -> Result<()> {
    let mac = MAC.get(index).map(format_mac).unwrap_or_default();
    namespace.ip(&format!("neigh replace {address} lladdr {mac} dev {device} nud permanent"))?;
    Ok(())
}

fn napi_threads(device: &str) -> Vec<u32> {
    let Ok(entries) = Path::new("/proc").read_dir() else { return Vec::new() };
    let wanted = format!("napi/{device}-");
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with(&wanted))
        })
        .collect()
}
