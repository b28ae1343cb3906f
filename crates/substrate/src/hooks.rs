//! Programs in Linux's own path of packets: on devices by tc, and on the sockets of a control group.
//!
//! They stay attached without a descriptor, until the device or the group goes.
#![allow(unsafe_code)] // The calls of libbpf have no safe form.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::libc::{EEXIST, EINVAL, ENOENT, ENOTSUP};

use crate::substrate::name_of;
use crate::verify::HOOK_NAME;

/// The place of a program.
#[derive(Clone, Copy, Debug)]
pub enum HookPlace<'a> {
    /// A device of this thread's namespace, by its index; received or sent packets.
    Device(u32, Direction),
    /// The folder of a control group of version 2; packets of its sockets.
    Group(BorrowedFd<'a>, Direction),
}

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received ones.
    Ingress,
    /// Sent ones.
    Egress,
}

/// Most programs at one place that are looked at.
const MOST: usize = 64;
/// Number and priority of the filter on kernels without tcx.
const FILTER: u32 = 1;

impl HookPlace<'_> {
    fn target(self) -> (i32, u32) {
        match self {
            HookPlace::Device(index, Direction::Ingress) => {
                (index.cast_signed(), libbpf_sys::BPF_TCX_INGRESS)
            }
            HookPlace::Device(index, Direction::Egress) => {
                (index.cast_signed(), libbpf_sys::BPF_TCX_EGRESS)
            }
            HookPlace::Group(folder, Direction::Ingress) => {
                (folder.as_raw_fd(), libbpf_sys::BPF_CGROUP_INET_INGRESS)
            }
            HookPlace::Group(folder, Direction::Egress) => {
                (folder.as_raw_fd(), libbpf_sys::BPF_CGROUP_INET_EGRESS)
            }
        }
    }

    /// Has this program be at the place, in the stead of Europa's former one; `None`: no program.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(self, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let former = match self.former() {
            // Linux before 6.6 has no tcx.
            Err(error) if matches!(error.raw_os_error(), Some(EINVAL | ENOTSUP)) => {
                return match self {
                    HookPlace::Device(index, direction) => by_filter(index, direction, program),
                    HookPlace::Group(..) => Err(error),
                };
            }
            former => former?,
        };
        let (target, place) = self.target();
        match (program, former) {
            (Some(program), former) => {
                let multi = match self {
                    HookPlace::Group(..) => libbpf_sys::BPF_F_ALLOW_MULTI,
                    HookPlace::Device(..) => 0,
                };
                let mut options = libbpf_sys::bpf_prog_attach_opts {
                    sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as u64,
                    flags: multi,
                    ..Default::default()
                };
                if let Some(former) = &former {
                    options.flags |= libbpf_sys::BPF_F_REPLACE;
                    options.__bindgen_anon_1.replace_prog_fd = former.as_raw_fd();
                }
                // SAFETY: the options live until the call returns; the descriptors are open.
                outcome(unsafe {
                    libbpf_sys::bpf_prog_attach_opts(
                        program.as_raw_fd(),
                        target,
                        place,
                        &raw const options,
                    )
                })
            }
            (None, Some(former)) => {
                // SAFETY: no options; the descriptors are open.
                outcome(unsafe {
                    libbpf_sys::bpf_prog_detach_opts(former.as_raw_fd(), target, place, ptr::null())
                })
            }
            (None, None) => Ok(()),
        }
    }

    /// Europa's program at the place.
    fn former(self) -> io::Result<Option<OwnedFd>> {
        let (target, place) = self.target();
        let mut numbers = [0_u32; MOST];
        let mut options = libbpf_sys::bpf_prog_query_opts {
            sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as u64,
            prog_ids: numbers.as_mut_ptr(),
            ..Default::default()
        };
        options.__bindgen_anon_1.prog_cnt = MOST as u32;
        // SAFETY: `numbers` has room for as many as are asked for, and lives through the call.
        let result = unsafe { libbpf_sys::bpf_prog_query_opts(target, place, &raw mut options) };
        match outcome(result) {
            // There is none yet.
            Err(error) if error.raw_os_error() == Some(ENOENT) => return Ok(None),
            other => other?,
        }
        let ours = HOOK_NAME.to_str().unwrap_or_default();
        let numbers = numbers.iter().take_while(|number| **number != 0);
        let mut found = numbers.filter(|number| name_of(**number).is_some_and(|name| name == ours));
        let Some(number) = found.next() else { return Ok(None) };
        // SAFETY: takes a number.
        let descriptor = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(*number) };
        outcome(descriptor)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

/// The same by a filter of the queueing discipline clsact.
fn by_filter(index: u32, direction: Direction, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let hook = libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as u64,
        ifindex: index.cast_signed(),
        attach_point: match direction {
            Direction::Ingress => libbpf_sys::BPF_TC_INGRESS,
            Direction::Egress => libbpf_sys::BPF_TC_EGRESS,
        },
        ..Default::default()
    };
    let mut options = libbpf_sys::bpf_tc_opts {
        sz: size_of::<libbpf_sys::bpf_tc_opts>() as u64,
        handle: FILTER,
        priority: FILTER,
        ..Default::default()
    };
    let Some(program) = program else {
        // SAFETY: both live until the call returns.
        let gone =
            outcome(unsafe { libbpf_sys::bpf_tc_detach(&raw const hook, &raw const options) });
        return match gone {
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | EINVAL)) => Ok(()),
            other => other,
        };
    };
    let mut made = hook;
    // SAFETY: lives until the call returns.
    match outcome(unsafe { libbpf_sys::bpf_tc_hook_create(&raw mut made) }) {
        Err(error) if error.raw_os_error() != Some(EEXIST) => return Err(error),
        _ => {}
    }
    options.prog_fd = program.as_raw_fd();
    options.flags = libbpf_sys::BPF_TC_F_REPLACE;
    // SAFETY: both live until the call returns.
    outcome(unsafe { libbpf_sys::bpf_tc_attach(&raw const hook, &raw mut options) })
}

fn outcome(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
