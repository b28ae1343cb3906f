//! The laboratory: namespaces, devices, bridges, and their removal.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{Error, run};
use crate::namespace::Namespace;

/// Every namespace of a lab begins with this, its process id and its number.
const PREFIX: &str = "eut";
static LABS: AtomicU32 = AtomicU32::new(0);

/// Namespaces that belong together; dropping it removes them with all that is inside.
/// Devices are only ever made inside, so nothing else needs removing.
#[derive(Debug)]
pub struct Lab {
    tag: String,
    namespaces: Vec<Namespace>,
}

impl Lab {
    /// An empty laboratory. First removes what killed test runs left.
    ///
    /// # Errors
    /// Namespaces cannot be listed.
    pub fn new() -> Result<Lab, Error> {
        for name in listed()? {
            if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                remove(&name);
            }
        }
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{PREFIX}{}-{number}", std::process::id());
        Ok(Lab { tag, namespaces: Vec::new() })
    }

    /// Makes a network namespace with its loopback device up.
    ///
    /// # Errors
    /// Not allowed, or there is one of that name.
    pub fn namespace(&mut self, name: &str) -> Result<Namespace, Error> {
        let full = format!("{}-{name}", self.tag);
        run(&["ip", "netns", "add", &full])?;
        let namespace = Namespace::new(full);
        self.namespaces.push(namespace.clone());
        namespace.ip(&["link", "set", "lo", "up"])?;
        // It began with what the machine has.
        namespace.sysctl("net.ipv4.ip_forward", "0")?;
        Ok(namespace)
    }

    /// Joins two namespaces by a pair of veth devices, both up.
    ///
    /// # Errors
    /// A device of that name is there.
    pub fn veth(&self, a: (&Namespace, &str), b: (&Namespace, &str)) -> Result<(), Error> {
        self.veth_of(a, b, 1)
    }

    /// Like [`Lab::veth`], each end with so many queues for each direction: received packets are
    /// distributed over them by addresses and ports, as by a network card's RSS.
    ///
    /// # Errors
    /// A device of that name is there.
    pub fn veth_of(
        &self,
        a: (&Namespace, &str),
        b: (&Namespace, &str),
        queues: u32,
    ) -> Result<(), Error> {
        let number = queues.to_string();
        let queues = ["numrxqueues", &number, "numtxqueues", &number];
        let peer = ["peer", "name", b.1, "netns", b.0.name()];
        let pair = [&["link", "add", a.1][..], &queues, &["type", "veth"], &peer, &queues];
        a.0.ip(&pair.concat())?;
        a.0.ip(&["link", "set", a.1, "up"])?;
        b.0.ip(&["link", "set", b.1, "up"])?;
        Ok(())
    }

    /// Makes a bridge of devices that are in the namespace.
    ///
    /// # Errors
    /// A device is missing.
    pub fn bridge(&self, at: &Namespace, name: &str, members: &[&str]) -> Result<(), Error> {
        at.ip(&["link", "add", name, "type", "bridge", "mcast_snooping", "0"])?;
        for member in members {
            at.ip(&["link", "set", member, "master", name])?;
        }
        at.ip(&["link", "set", name, "up"])?;
        Ok(())
    }

    /// Lets through to a bridge's member only frames from these Ethernet addresses, so
    /// that tenants with the same IP addresses can stand behind one bridge. Needs `nft`.
    ///
    /// # Errors
    /// The kernel has no filter for bridges.
    pub fn fence(&self, at: &Namespace, member: &str, sources: &[&str]) -> Result<(), Error> {
        let rules = format!(
            "add table bridge fence\n\
             add chain bridge fence forward {{ type filter hook forward priority 0; }}\n\
             add rule bridge fence forward oifname {member} ether saddr != {{ {} }} drop\n",
            sources.join(", ")
        );
        let file = tempfile::NamedTempFile::new().map_err(Error::io("a temporary file"))?;
        fs::write(file.path(), rules).map_err(Error::io("the fence's rules"))?;
        at.run(&["nft", "-f", &file.path().to_string_lossy()])?;
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            remove(namespace.name());
        }
    }
}

fn listed() -> Result<Vec<String>, Error> {
    let output = run(&["ip", "netns", "list"])?;
    let names = output.stdout.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// The process that made a namespace, if a lab did.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Kills what runs in a namespace and removes it. A namespace's devices vanish with the
/// last process in it, not with its name.
fn remove(name: &str) {
    let limit = Instant::now() + Duration::from_secs(2);
    while Instant::now() < limit {
        let Ok(output) = run(&["ip", "netns", "pids", name]) else { break };
        // A test's own thread that is inside would name the test itself.
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let pids: Vec<i32> =
            output.stdout.lines().filter_map(|pid| pid.trim().parse().ok()).collect();
        let others: Vec<i32> = pids.into_iter().filter(|pid| *pid != own).collect();
        if others.is_empty() {
            break;
        }
        for pid in others {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
    if let Err(error) = run(&["ip", "netns", "delete", name]) {
        eprintln!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners() {
        for (name, pid) in
            [("eut123-0-red-a", Some(123)), ("eut-0-a", None), ("eutopia", None), ("other", None)]
        {
            assert_eq!(owner(name), pid, "{name}");
        }
    }
}
