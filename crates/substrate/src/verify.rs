//! Submits a program from Europa's own linker to the kernel's verifier.
//!
//! libbpf does not read a tenant's file here: instructions and types are passed as bytes, and
//! libbpf only makes the call `bpf(2)`.
#![allow(unsafe_code)] // bpf_prog_load and bpf_btf_load have no safe form.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

/// Bytes of the verifier's log.
const LOG_BYTES: usize = 1 << 22;

/// A program in the form of `BPF_PROG_LOAD`.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Instructions, eight bytes each.
    pub instructions: &'a [u8],
    /// Types and strings; empty if there are none.
    pub btf: &'a [u8],
    /// Records of functions.
    pub functions: &'a [u8],
    /// Records of lines.
    pub lines: &'a [u8],
    /// The licence that the program's helpers ask for.
    pub license: &'a CStr,
    /// Whether the program accepts frames of several fragments.
    pub frags: bool,
}

/// A map that a program refers to.
#[derive(Clone, Copy, Debug)]
pub struct MapShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kernel's number of its type.
    pub type_number: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Most entries.
    pub max_entries: u32,
    /// The kernel's `BPF_F_...`.
    pub flags: u32,
    /// The value of the map's only entry, and whether it is read-only.
    pub data: Option<(&'a [u8], bool)>,
}

/// The kernel's number of perf event arrays.
const PERF_EVENT_ARRAY: u32 = 4;
/// Longest name of a map.
const NAME_BYTES: usize = 15;

/// A map's name as the kernel stores it.
pub(crate) fn short(name: &str) -> String {
    let good = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '.';
    name.chars().filter(good).take(NAME_BYTES).collect()
}

/// Makes a map.
///
/// # Errors
/// The kernel's error.
pub fn create_map(shape: &MapShape<'_>) -> io::Result<OwnedFd> {
    let failed =
        |error: libbpf_rs::Error| io::Error::other(format!("map '{}': {error:#}", shape.name));
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: shape.flags,
        ..Default::default()
    };
    let name = short(shape.name);
    let (mut key_bytes, mut value_bytes) = (shape.key_bytes, shape.value_bytes);
    let mut max_entries = shape.max_entries;
    if shape.type_number == PERF_EVENT_ARRAY {
        (key_bytes, value_bytes) = (4, 4);
        // The number of CPUs, if the source gives no number.
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed)?;
        max_entries = max_entries.max(u32::try_from(cpus).unwrap_or(1));
    }
    let map = MapHandle::create(
        MapType::from(shape.type_number),
        Some(name),
        key_bytes,
        value_bytes,
        max_entries,
        &options,
    );
    let map = map.map_err(failed)?;
    if let Some((value, constant)) = shape.data {
        map.update(&[0; 4], value, MapFlags::ANY).map_err(failed)?;
        if constant {
            map.freeze().map_err(failed)?;
        }
    }
    map.as_fd().try_clone_to_owned()
}

/// Why a program was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The verifier's reason.
    #[error("the verifier refuses the program:\n{0}")]
    Verifier(String),
    /// The verifier could not be called.
    #[error("loading the program: {0}")]
    System(io::Error),
}

/// Loads a program of type XDP.
///
/// # Errors
/// The verifier's message, or the reason why it could not be called.
pub fn load(candidate: &Candidate<'_>) -> Result<OwnedFd, Refused> {
    let btf = if candidate.btf.is_empty() { None } else { Some(load_btf(candidate.btf)?) };
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
        prog_flags: if candidate.frags { libbpf_sys::BPF_F_XDP_HAS_FRAGS } else { 0 },
        // Since Linux 6.18, tail calls lead only to programs of the same kind.
        expected_attach_type: libbpf_sys::BPF_XDP,
        ..Default::default()
    };
    if let Some(btf) = &btf {
        options.prog_btf_fd = btf.as_raw_fd().cast_unsigned();
        options.func_info = candidate.functions.as_ptr().cast();
        options.func_info_rec_size = 8;
        options.func_info_cnt = (candidate.functions.len() / 8) as u32;
        options.line_info = candidate.lines.as_ptr().cast();
        options.line_info_rec_size = 16;
        options.line_info_cnt = (candidate.lines.len() / 16) as u32;
    }
    options.log_level = 1;
    options.log_size = LOG_BYTES as u32;
    options.log_buf = log.as_mut_ptr().cast();
    // SAFETY: all pointers are of slices that live until the call returns, with their lengths;
    // the log is written within its size.
    let descriptor = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            c"tenant".as_ptr(),
            candidate.license.as_ptr(),
            candidate.instructions.as_ptr().cast(),
            (candidate.instructions.len() / 8) as _,
            ptr::from_mut(&mut options),
        )
    };
    if descriptor < 0 {
        let error = io::Error::from_raw_os_error(-descriptor);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default()).into_owned();
        return Err(match text.trim() {
            "" => Refused::System(error),
            _ => Refused::Verifier(text),
        });
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn load_btf(btf: &[u8]) -> Result<OwnedFd, Refused> {
    // SAFETY: the slice lives until the call returns; no options.
    let descriptor =
        unsafe { libbpf_sys::bpf_btf_load(btf.as_ptr().cast(), btf.len() as _, ptr::null_mut()) };
    if descriptor < 0 {
        return Err(Refused::System(io::Error::from_raw_os_error(-descriptor)));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Runs a loaded program once on a frame. Returns the verdict, and the frame afterwards.
///
/// # Errors
/// The kernel's error.
pub fn try_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    let mut out = vec![0_u8; 4096];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: both buffers live until the call returns and have these lengths.
    let result = unsafe {
        libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), ptr::from_mut(&mut options))
    };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    out.truncate(options.data_size_out as usize);
    Ok((options.retval, out))
}
