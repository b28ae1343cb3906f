//! eBPF programs that no message announces: those at the hooks of tc (`tcx`, Linux 6.6), and those
//! at hooks of netfilter (Linux 6.4).
//!
//! The kernel does not say in which namespace a program of netfilter is. One at a hook that forwarded
//! packets pass counts for every router of the machine.
//!
//! Numbers are from `linux/bpf.h`.

#![allow(unsafe_code, reason = "bpf(2) has no safe interface")]

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;

use crate::message::INET;

const OBJ_GET_INFO_BY_FD: u32 = 15;
const PROG_QUERY: u32 = 16;
const LINK_GET_FD_BY_ID: u32 = 30;
const LINK_GET_NEXT_ID: u32 = 31;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
const LINK_TYPE_NETFILTER: u32 = 10;
/// Hooks that forwarded packets pass: prerouting, forward, postrouting.
const FORWARDED: [u32; 3] = [0, 2, 4];

/// `union bpf_attr`, or an answer of the kernel: the fields are numbers of 32 bits, a pointer is two.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
struct Words([u32; 32]);

/// Calls bpf(2). Pointers in `words` must lead to memory that the command may use.
fn bpf(command: u32, words: &mut Words) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes at most the size of `words`, which lives through the call.
    // The callers put in no pointer but that of `info_of`, to memory of the size that it states.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(words), size_of::<Words>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Whether programs are attached at one of tcx's places of a device, in this thread's namespace.
fn has_any(device: u32, place: u32) -> bool {
    let mut words = Words::default();
    words.0[..2].copy_from_slice(&[device, place]);
    // Field `count`; without room for numbers the kernel only counts.
    bpf(PROG_QUERY, &mut words).is_ok() && words.0[6] != 0
}

/// The number of the next link after this one.
fn next_link(after: u32) -> Option<u32> {
    let mut words = Words::default();
    words.0[0] = after;
    bpf(LINK_GET_NEXT_ID, &mut words).ok()?;
    Some(words.0[1])
}

/// A descriptor of the link with this number; `None` if the link is gone.
fn open_link(number: u32) -> Option<OwnedFd> {
    let mut words = Words::default();
    words.0[0] = number;
    let link = bpf(LINK_GET_FD_BY_ID, &mut words).ok()?;
    // SAFETY: a new descriptor without another owner.
    Some(unsafe { OwnedFd::from_raw_fd(link) })
}

/// The kernel's description of a link (`struct bpf_link_info`).
fn info_of(link: &OwnedFd) -> Option<Words> {
    let mut info = Words::default();
    let mut words = Words::default();
    words.0[0] = link.as_raw_fd().cast_unsigned();
    words.0[1] = size_of::<Words>() as u32;
    let place = std::ptr::from_mut(&mut info).expose_provenance() as u64;
    let [low, high] = [place as u32, (place >> 32) as u32];
    let order = if cfg!(target_endian = "little") { [low, high] } else { [high, low] };
    words.0[2..4].copy_from_slice(&order);
    bpf(OBJ_GET_INFO_BY_FD, &mut words).ok()?;
    Some(info)
}

/// Whether a device has programs at the hooks of tc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfDevice {
    pub(crate) ingress: bool,
    pub(crate) egress: bool,
}

/// The programs that were there at the last reading.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    devices: HashMap<u32, OfDevice>,
    /// Links of netfilter by number: whether packets of IPv4, or else IPv6, pass it.
    filters: BTreeMap<u32, bool>,
    /// The highest number of a link that was looked at: later links have higher ones.
    last: u32,
}

impl Programs {
    /// Reads everything in a thread of the namespace. Returns whether something has changed.
    pub(crate) fn read(&mut self, devices: impl Iterator<Item = u32>) -> bool {
        let of = |device: u32| OfDevice {
            ingress: has_any(device, TCX_INGRESS),
            egress: has_any(device, TCX_EGRESS),
        };
        let devices: HashMap<u32, OfDevice> = devices.map(|device| (device, of(device))).collect();
        let mut is_different = devices != self.devices;
        self.devices = devices;
        let before = self.filters.len();
        self.filters.retain(|number, _| open_link(*number).is_some());
        is_different |= self.filters.len() != before;
        while let Some(number) = next_link(self.last) {
            self.last = number;
            let Some(info) = open_link(number).and_then(|link| info_of(&link)) else { continue };
            let [kind, _, _, _, family, hook, ..] = info.0;
            if kind == LINK_TYPE_NETFILTER && FORWARDED.contains(&hook) {
                self.filters.insert(number, family == u32::from(INET));
                is_different = true;
            }
        }
        is_different
    }

    /// The programs of a device.
    pub(crate) fn of(&self, device: u32) -> OfDevice {
        self.devices.get(&device).copied().unwrap_or_default()
    }

    /// Whether packets of a family pass a program of netfilter, perhaps in another namespace.
    pub(crate) fn filters(&self, is_v4: bool) -> bool {
        self.filters.values().any(|of| *of == is_v4)
    }
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    const PROG_LOAD: u32 = 5;
    const LINK_CREATE: u32 = 28;
    const SCHED_CLS: u32 = 3;
    const NETFILTER: u32 = 32;
    const AT_NETFILTER: u32 = 45;
    /// The loopback device, in every namespace.
    const LO: u32 = 1;

    /// A program that returns a number.
    fn program(kind: u32, place: u32, returns: u32) -> io::Result<OwnedFd> {
        let instructions: [u64; 2] = [0xb7 | u64::from(returns) << 32, 0x95];
        let license = c"GPL";
        let mut words = Words::default();
        let pointer = |place: usize| [place as u32, (place as u64 >> 32) as u32];
        words.0[..2].copy_from_slice(&[kind, 2]);
        words.0[2..4].copy_from_slice(&pointer(instructions.as_ptr().expose_provenance()));
        words.0[4..6].copy_from_slice(&pointer(license.as_ptr().expose_provenance()));
        words.0[17] = place;
        let program = bpf(PROG_LOAD, &mut words)?;
        // SAFETY: a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(program) })
    }

    /// Attaches a program; it is there as long as the descriptor is open.
    fn attach(program: &OwnedFd, device: u32, place: u32, more: [u32; 4]) -> io::Result<OwnedFd> {
        let mut words = Words::default();
        words.0[..3].copy_from_slice(&[program.as_raw_fd().cast_unsigned(), device, place]);
        words.0[4..8].copy_from_slice(&more);
        let link = bpf(LINK_CREATE, &mut words)?;
        // SAFETY: a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(link) })
    }

    #[test]
    fn programs_come_and_go_without_a_message() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let mut programs = Programs::default();
        let read = |programs: &mut Programs| programs.read(std::iter::once(LO));
        read(&mut programs);
        assert_eq!(programs.of(LO), OfDevice::default());
        assert!(!read(&mut programs), "nothing has changed");
        // TCX_NEXT is -1.
        let passes = program(SCHED_CLS, 0, u32::MAX).unwrap();
        for (place, wanted) in [
            (TCX_INGRESS, OfDevice { ingress: true, egress: false }),
            (TCX_EGRESS, OfDevice { ingress: false, egress: true }),
        ] {
            let Ok(link) = attach(&passes, LO, place, [0; 4]) else {
                eprintln!("skipped: this kernel has no tcx");
                break;
            };
            assert!(read(&mut programs));
            assert_eq!(programs.of(LO), wanted);
            drop(link);
            assert!(read(&mut programs));
            assert_eq!(programs.of(LO), OfDevice::default());
        }
        // NF_ACCEPT is 1. At the hooks of local packets it concerns no forwarded ones.
        let Ok(accepts) = program(NETFILTER, AT_NETFILTER, 1) else {
            eprintln!("skipped: this kernel has no programs of netfilter");
            return;
        };
        for (family, hook, wanted) in
            [(2, 2, [true, false]), (10, 4, [false, true]), (2, 3, [false; 2])]
        {
            let link = attach(&accepts, 0, AT_NETFILTER, [family, hook, 7, 0]).unwrap();
            read(&mut programs);
            assert_eq!([programs.filters(true), programs.filters(false)], wanted, "hook {hook}");
            drop(link);
            read(&mut programs);
            assert!(!programs.filters(true) && !programs.filters(false));
        }
    }
}
