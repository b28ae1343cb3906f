//! Network namespaces: makes them, lets threads enter them, and removes them.

use std::fs::File;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns};

use crate::error::{Context, Error, Result};
use crate::shell;

/// A named network namespace of the benchmark; removed, with its devices, when dropped.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes an empty namespace without IPv6, so that only the test sends packets.
    pub(crate) fn create(name: &str) -> Result<Self> {
        shell::run(&format!("ip netns add {name}"))?;
        let namespace = Self { name: name.to_owned() };
        namespace.exec("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")?;
        namespace.exec("sysctl -qw net.ipv6.conf.default.disable_ipv6=1")?;
        Ok(namespace)
    }

    /// The name for `ip netns`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs a command line inside.
    pub(crate) fn exec(&self, line: &str) -> Result<String> {
        shell::run(&format!("ip netns exec {} {line}", self.name))
    }

    /// Runs `ip` on the namespace.
    pub(crate) fn ip(&self, arguments: &str) -> Result<String> {
        shell::run(&format!("ip -n {} {arguments}", self.name))
    }

    /// Writes a file from inside the namespace: sysfs shows the devices of the namespace that
    /// mounted it.
    pub(crate) fn write(&self, path: &str, value: &str) -> Result<()> {
        let script = format!("echo {value} > {path}");
        let words = ["ip", "netns", "exec", &self.name, "sh", "-c", &script];
        shell::run_words(&words).map(drop)
    }

    /// A handle with which threads enter the namespace.
    pub(crate) fn handle(&self) -> Result<Handle> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        let file = File::open(&path).context(format!("opening {}", path.display()))?;
        Ok(Handle { name: self.name.clone(), file })
    }

    /// Runs a closure in a thread inside.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let handle = self.handle()?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                handle.enter()?;
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Index of a device inside.
    pub(crate) fn index(&self, device: &str) -> Result<u32> {
        self.within(|| {
            nix::net::if_::if_nametoindex(device).map_err(|_| Error::NoDevice {
                device: device.to_owned(),
                namespace: self.name.clone(),
            })
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // After a failure, the next start removes the namespace.
        let _ = shell::run(&format!("ip netns delete {}", self.name));
    }
}

/// Lets a thread enter a namespace.
pub(crate) struct Handle {
    name: String,
    file: File,
}

impl Handle {
    /// Moves the calling thread into the namespace permanently.
    pub(crate) fn enter(&self) -> Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).context(format!("entering {}", self.name))
    }
}
