//! Checks whether live frames have arrived.

use std::os::fd::{AsRawFd, OwnedFd};

/// The shortest frame with which a program is run, in bytes: an Ethernet header.
const FRAME_BYTES: usize = 14;

/// Checks whether a veth's peer has received all live frames.
///
/// This needs no privilege except the program's descriptor.
pub struct Drained(OwnedFd);

impl Drained {
    /// Takes a descriptor of [`Substrate::drained_program`](crate::Substrate::drained_program).
    pub fn new(program: OwnedFd) -> Self {
        Self(program)
    }

    /// Whether the receiver has got all frames that were sent live by port `port` before this call;
    /// the port's device is a veth. Costs about 2 µs.
    pub fn is(&self, port: u32) -> bool {
        // The program reads the port's number from the beginning of a frame.
        let mut frame = [0; FRAME_BYTES];
        frame[..size_of_val(&port)].copy_from_slice(&port.to_ne_bytes());
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            data_in: frame.as_ptr().cast(),
            data_size_in: FRAME_BYTES as u32,
            ..Default::default()
        };
        // SAFETY: `data_in` points to as many bytes as stated, which live through the call.
        let result =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &raw mut options) };
        result == 0 && options.retval == libbpf_sys::XDP_PASS
    }
}
