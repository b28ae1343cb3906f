//! A network namespace, and commands inside it.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use crate::command::{Error, Output, Process, checked};

/// A network namespace of a [`Lab`](crate::Lab), which removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    pub(crate) fn new(name: String) -> Namespace {
        Namespace { name }
    }

    /// The name for `ip netns`, and for a port's `namespace`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the namespace's file.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// Runs `ip` with this namespace.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn ip(&self, arguments: &[&str]) -> Result<Output, Error> {
        crate::command::run(&[&["ip", "-netns", &self.name], arguments].concat())
    }

    /// Starts a command inside the namespace.
    ///
    /// # Errors
    /// `ip` is missing.
    pub fn start(&self, argv: &[&str]) -> Result<Process, Error> {
        Process::start(&[&["ip", "netns", "exec", &self.name], argv].concat())
    }

    /// Runs a command inside the namespace, which must succeed within half a minute.
    ///
    /// # Errors
    /// The command failed or was late.
    pub fn run(&self, argv: &[&str]) -> Result<Output, Error> {
        self.run_for(Duration::from_secs(30), argv)
    }

    /// Runs a command inside the namespace, which must succeed within `limit`.
    ///
    /// # Errors
    /// The command failed or was late.
    pub fn run_for(&self, limit: Duration, argv: &[&str]) -> Result<Output, Error> {
        checked(self.start(argv)?, limit)
    }

    /// Runs a command inside the namespace, which may fail.
    ///
    /// # Errors
    /// The command was late.
    pub fn attempt(&self, limit: Duration, argv: &[&str]) -> Result<Output, Error> {
        self.start(argv)?.wait(limit)
    }

    /// Gives a device an address like `10.0.1.2/24`. IPv6 addresses are usable at once.
    ///
    /// # Errors
    /// The device is missing.
    pub fn address(&self, device: &str, address: &str) -> Result<(), Error> {
        let mut arguments = vec!["address", "add", address, "dev", device];
        if address.contains(':') {
            arguments.push("nodad");
        }
        self.ip(&arguments).map(drop)
    }

    /// Gives a device an Ethernet address.
    ///
    /// # Errors
    /// The device is missing.
    pub fn mac(&self, device: &str, mac: &str) -> Result<(), Error> {
        self.ip(&["link", "set", device, "address", mac]).map(drop)
    }

    /// Sets a device's MTU.
    ///
    /// # Errors
    /// The device is missing, or refuses the MTU.
    pub fn mtu(&self, device: &str, mtu: u32) -> Result<(), Error> {
        self.ip(&["link", "set", device, "mtu", &mtu.to_string()]).map(drop)
    }

    /// Adds a route, of either family.
    ///
    /// # Errors
    /// The next hop cannot be reached.
    pub fn route(&self, to: &str, via: &str) -> Result<(), Error> {
        let family = if via.contains(':') { "-6" } else { "-4" };
        self.ip(&[family, "route", "add", to, "via", via]).map(drop)
    }

    /// Adds a static neighbour.
    ///
    /// # Errors
    /// The device is missing.
    pub fn neighbour(&self, address: &str, mac: &str, device: &str) -> Result<(), Error> {
        let what = ["neighbour", "replace", address, "lladdr", mac, "dev", device];
        self.ip(&[&what[..], &["nud", "permanent"]].concat()).map(drop)
    }

    /// Sets a kernel parameter like `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// The kernel has no parameter of that name.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), Error> {
        self.run(&["sysctl", "-qw", &format!("{name}={value}")]).map(drop)
    }

    /// Turns a device's offloads on or off, like `("tx", false)`. Needs `ethtool`.
    ///
    /// # Errors
    /// The device refuses.
    pub fn offloads(&self, device: &str, features: &[(&str, bool)]) -> Result<(), Error> {
        let words = features.iter().flat_map(|(name, on)| [*name, if *on { "on" } else { "off" }]);
        let argv: Vec<&str> = ["ethtool", "-K", device].into_iter().chain(words).collect();
        self.run(&argv).map(drop)
    }

    /// A device's counters from `/sys`, like `rx_packets`.
    ///
    /// # Errors
    /// There is no such device or counter.
    pub fn counter(&self, device: &str, counter: &str) -> Result<u64, Error> {
        let path = format!("/sys/class/net/{device}/statistics/{counter}");
        let output = self.run(&["cat", &path])?;
        output.stdout.trim().parse().map_err(|_| Error::Unreadable {
            command: format!("cat {path}"),
            what: "a number is expected".to_owned(),
            output: output.stdout,
        })
    }

    /// Moves the calling thread into the namespace: sockets that the thread makes are then inside.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        let path = self.path();
        let what = format!("cannot enter {}", path.display());
        let file = File::open(&path).map_err(Error::io(what.clone()))?;
        setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| Error::io(what)(errno.into()))
    }
}
