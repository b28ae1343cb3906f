//! Devices whose frames a program outside of a node withholds from Linux, or passes to it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use crate::programs::KeepSkelBuilder;
use crate::substrate::Error;

/// The common prefix of the marks of all frames for Linux. `bpf/keep.bpf.c` has the same numbers.
const MARK: u32 = 0xe17a_0000;
/// Marks a frame that only programs that listen to a device see.
const SNIFFERS: u32 = 0x100;

/// The receiver of a frame that is sent with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// To Linux, as a frame of this type (`PACKET_HOST` and similar).
    Host(u8),
    /// Programs that listen to the device.
    Sniffers,
}

impl Given {
    /// The mark that a packet socket must set on the frame.
    #[must_use]
    pub fn mark(self) -> u32 {
        match self {
            Given::Host(kind) => MARK | u32::from(kind),
            Given::Sniffers => MARK | SNIFFERS,
        }
    }

    /// The value that the marks of all frames for Linux have in common, and the mask of its bits.
    #[must_use]
    pub fn common() -> (u32, u32) {
        (0xffff_0000, MARK)
    }
}

/// The program attached to a device. The kernel detaches it when the last descriptor is closed,
/// also when the process is killed.
#[derive(Debug)]
pub struct Kept {
    _links: [OwnedFd; 2],
}

impl Kept {
    /// Attaches the program to the device of this number in the current network namespace. With
    /// `keep`, Linux gets only frames that are sent to it with a mark.
    ///
    /// # Errors
    /// When the programs cannot be loaded or attached: the kernel is older than 6.6, or the process
    /// lacks the right.
    pub fn attach(index: u32, keep: bool) -> Result<Kept, Error> {
        let bpf = |what: &str| {
            let what = what.to_owned();
            move |error| Error::Bpf { what, error }
        };
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let open = KeepSkelBuilder::default().open(&mut object).map_err(bpf("opening 'keep'"))?;
        let loaded = open.load().map_err(bpf("loading 'keep'"))?;
        let programs = &loaded.progs;
        let receive = if keep { &programs.europa_keep } else { &programs.europa_share };
        let ingress = link(receive.as_fd().as_raw_fd(), index, libbpf_sys::BPF_TCX_INGRESS)?;
        let back = programs.europa_return.as_fd().as_raw_fd();
        let egress = link(back, index, libbpf_sys::BPF_TCX_EGRESS)?;
        Ok(Kept { _links: [ingress, egress] })
    }
}

/// Attaches a program to a device while the returned descriptor is open.
fn link(program: i32, index: u32, place: libbpf_sys::bpf_attach_type) -> Result<OwnedFd, Error> {
    // SAFETY: no options are given, and the call touches no other memory.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program, index.cast_signed(), place, std::ptr::null())
    };
    if link < 0 {
        let error = io::Error::from_raw_os_error(-link);
        let needs = match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOTSUP) => " (needs Linux 6.6 or later)",
            _ => "",
        };
        return Err(Error::Io { what: format!("attaching to device {index}{needs}"), error });
    }
    // SAFETY: the kernel has just made this descriptor for this process, which alone has it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
