//! Chooses the CPU that processes packets received by a veth.
//!
//! A veth without an XDP program passes packets to the CPU of their sender. If a sender moves to
//! another CPU, or is woken there by an answer, two CPUs process one flow, and packets are
//! reordered. With receive packet steering (RPS) each flow has one CPU.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;

use serde::{Deserialize, Serialize};

use crate::namespace::{Namespace, in_namespace};

/// `FSOPEN_CLOEXEC`, `FSMOUNT_CLOEXEC`.
const CLOSE_ON_EXEC: u32 = 1;
/// `FSCONFIG_CMD_CREATE`.
const CREATE: u32 = 6;

/// The CPUs of one receive queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// Inode of the device's namespace.
    pub namespace: u64,
    /// The device's number there.
    pub index: u32,
    /// The queue's directory, like `rx-0`.
    pub queue: String,
    /// A mask, as the kernel writes it.
    pub cpus: String,
}

/// sysfs as the present network namespace sees it; it is not mounted anywhere.
fn sysfs() -> io::Result<OwnedFd> {
    let told = |result: libc::c_long| {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    };
    let none = ptr::null::<c_void>();
    // SAFETY: the string is terminated; the result is a new descriptor without another owner.
    let context = unsafe {
        let name = c"sysfs".as_ptr();
        OwnedFd::from_raw_fd(told(libc::syscall(libc::SYS_fsopen, name, CLOSE_ON_EXEC))?)
    };
    // SAFETY: the command takes neither key nor value.
    unsafe {
        let context = context.as_raw_fd();
        told(libc::syscall(libc::SYS_fsconfig, context, CREATE, none, none, 0))?;
    }
    // SAFETY: all arguments are numbers; the result is a new descriptor without another owner.
    Ok(unsafe {
        let context = context.as_raw_fd();
        OwnedFd::from_raw_fd(told(libc::syscall(libc::SYS_fsmount, context, CLOSE_ON_EXEC, 0))?)
    })
}

/// The folder of a device's queues, below [`sysfs`].
fn queues(root: &OwnedFd, device: &str) -> PathBuf {
    format!("/proc/self/fd/{}/class/net/{device}/queues", root.as_raw_fd()).into()
}

/// The present steering of device `name`, number `index` of `namespace`.
pub(crate) fn read(namespace: &Namespace, index: u32, name: &str) -> io::Result<Vec<Steering>> {
    in_namespace(namespace, || {
        let root = sysfs()?;
        let mut found = Vec::new();
        for entry in fs::read_dir(queues(&root, name))? {
            let entry = entry?;
            let queue = entry.file_name().to_string_lossy().into_owned();
            if !queue.starts_with("rx-") {
                continue;
            }
            let cpus = fs::read_to_string(entry.path().join("rps_cpus"))?.trim_end().to_owned();
            found.push(Steering { namespace: namespace.inode, index, queue, cpus });
        }
        Ok(found)
    })?
}

/// Writes a steering to the queues of a device.
pub(crate) fn write(namespace: &Namespace, name: &str, all: &[&Steering]) -> io::Result<()> {
    in_namespace(namespace, || {
        let root = sysfs()?;
        for one in all {
            fs::write(queues(&root, name).join(&one.queue).join("rps_cpus"), &one.cpus)?;
        }
        Ok(())
    })?
}

/// The mask of the first `count` CPUs: groups of 32, the highest first.
fn mask(count: usize) -> String {
    let groups: Vec<String> = (0..count.div_ceil(32))
        .rev()
        .map(|group| match (count - group * 32).min(32) {
            32 => "ffffffff".to_owned(),
            bits => format!("{:x}", (1_u32 << bits) - 1),
        })
        .collect();
    groups.join(",")
}

/// Distributes the flows that a device receives over all CPUs, each flow to one.
pub(crate) fn spread(namespace: &Namespace, name: &str, was: &[Steering]) -> io::Result<()> {
    let cpus = mask(std::thread::available_parallelism()?.get());
    let wanted: Vec<Steering> =
        was.iter().map(|one| Steering { cpus: cpus.clone(), ..one.clone() }).collect();
    write(namespace, name, &wanted.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        for (count, wanted) in
            [(1, "1"), (2, "3"), (32, "ffffffff"), (33, "1,ffffffff"), (66, "3,ffffffff,ffffffff")]
        {
            assert_eq!(mask(count), wanted);
        }
    }

    #[test]
    fn a_device_is_steered_and_put_back() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let namespace = Namespace::fresh().unwrap();
        let before = read(&namespace, 1, "lo").unwrap();
        assert_eq!(before.len(), 1, "{before:?}");
        spread(&namespace, "lo", &before).unwrap();
        let steered = read(&namespace, 1, "lo").unwrap();
        let number = |text: &str| u64::from_str_radix(&text.replace(',', ""), 16).unwrap();
        assert_eq!(number(&before[0].cpus), 0);
        assert_ne!(number(&steered[0].cpus), 0);
        write(&namespace, "lo", &before.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(read(&namespace, 1, "lo").unwrap(), before);
    }
}
