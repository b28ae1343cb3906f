//! The laboratory: makes namespaces, devices and bridges, and removes them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{Error, run};
use crate::namespace::Namespace;

/// The name of every namespace of a lab begins with this, its process id and its number.
const PREFIX: &str = "eut";
static LABS: AtomicU32 = AtomicU32::new(0);

/// Namespaces that belong together; dropping the lab removes them with everything inside. A lab
/// makes devices only inside its namespaces, so it has nothing else to remove.
#[derive(Debug)]
pub struct Lab {
    tag: String,
    namespaces: Vec<Namespace>,
}

impl Lab {
    /// Makes an empty laboratory. First removes the objects of killed test runs.
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
    /// The process may not make namespaces, or a namespace of that name exists.
    pub fn namespace(&mut self, name: &str) -> Result<Namespace, Error> {
        let full = format!("{}-{name}", self.tag);
        run(&["ip", "netns", "add", &full])?;
        let namespace = Namespace::new(full);
        self.namespaces.push(namespace.clone());
        namespace.ip(&["link", "set", "lo", "up"])?;
        // A new namespace begins with a default of the machine.
        namespace.sysctl("net.ipv4.ip_forward", "0")?;
        Ok(namespace)
    }

    /// Joins two namespaces by a pair of veth devices, both up.
    ///
    /// # Errors
    /// A device of that name exists.
    pub fn veth(&self, a: (&Namespace, &str), b: (&Namespace, &str)) -> Result<(), Error> {
        self.veth_of(a, b, 1)
    }

    /// Like [`Lab::veth`], with this number of queues for each direction at each end. A device
    /// distributes received packets over its queues by addresses and ports, like a network card's
    /// RSS.
    ///
    /// # Errors
    /// A device of that name exists.
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

    /// Makes a bridge of devices in the namespace.
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

    /// Makes a bridge's member receive only frames from these Ethernet addresses, so that tenants
    /// with the same IP addresses can share a bridge. Needs `nft`.
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

/// The process id of the lab that made a namespace, if a lab did.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Kills the processes in a namespace and removes it. The devices of a namespace vanish with its
/// last process, not with its name.
fn remove(name: &str) {
    let limit = Instant::now() + Duration::from_secs(2);
    while Instant::now() < limit {
        let Ok(output) = run(&["ip", "netns", "pids", name]) else { break };
        // If a thread of this test is inside, the list has the test's own process.
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
