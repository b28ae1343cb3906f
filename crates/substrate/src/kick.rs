//! Kicks: one system call runs the transmit program, which sends a batch of frames.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

use crate::layout::MAX_LIVE_FRAME;

/// The number of frames that the kernel allocates, runs the program on, and flushes at a time. 64
/// is the maximum; a smaller number causes more flushes.
const LIVE_BATCH: u32 = 64;

/// Shortest frame that may be sent, in bytes: an Ethernet header.
const MIN_FRAME: u32 = 14;

/// Why a kick did not run.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refused to run the transmit program: {0}")]
pub struct KickError(#[from] Errno);

impl KickError {
    /// Whether this is why.
    pub fn is(&self, errno: Errno) -> bool {
        self.0 == errno
    }
}

/// Runs one worker's instance of the transmit program.
///
/// This needs no privilege except the program's descriptor.
pub struct Kicker {
    program: OwnedFd,
    /// The contents of a new frame before the program overwrites it. It has the longest size:
    /// shortening a frame costs nothing, lengthening clears memory.
    frame: Box<[u8]>,
}

impl Kicker {
    /// Takes a descriptor of the transmit program.
    pub fn new(program: OwnedFd) -> Self {
        Self { program, frame: vec![0; MAX_LIVE_FRAME as usize].into() }
    }

    /// Runs the program for `frames` entries of the transmit list. `longest_bytes` is the length of
    /// the longest frame with its outer headers. Costs about 16 µs, and 85 ns a frame.
    ///
    /// # Errors
    /// The kernel's error; `EINTR` if a signal ended the run early. Remaining entries stay in the
    /// list.
    pub fn kick(&mut self, frames: u32, longest_bytes: u32) -> Result<(), KickError> {
        // As long as the longest frame: if all frames have one length, none must be cut.
        let size = longest_bytes.clamp(MIN_FRAME, MAX_LIVE_FRAME);
        let mut context = libbpf_sys::xdp_md { data_end: size, ..Default::default() };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            data_in: self.frame.as_ptr().cast(),
            data_size_in: size,
            ctx_in: (&raw mut context).cast(),
            ctx_size_in: size_of::<libbpf_sys::xdp_md>() as u32,
            repeat: frames as i32,
            flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: LIVE_BATCH,
            ..Default::default()
        };
        // SAFETY: all pointers in `options` are to live values of the sizes stated.
        let result = unsafe {
            libbpf_sys::bpf_prog_test_run_opts(self.program.as_fd().as_raw_fd(), &mut options)
        };
        if result == 0 { Ok(()) } else { Err(KickError(Errno::from_raw(-result))) }
    }
}
