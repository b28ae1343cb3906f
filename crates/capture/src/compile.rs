//! Compiles pcap filters with libpcap, which every Debian with tcpdump or Wireshark has. The
//! library is loaded when a filter is used. If it were linked, every router's process would load it
//! and the ten libraries that it needs.
#![allow(unsafe_code)] // A C library is called.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use europa_cbpf::{Instruction, Program};
use libloading::Library;

/// Names of the library, newest first.
const NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];
/// Frames are Ethernet frames.
const ETHERNET: c_int = 1;
const SNAPLEN: c_int = 65535;
/// The netmask is unknown; only `ip broadcast` needs it.
const NO_NETMASK: u32 = u32::MAX;

#[repr(C)]
struct BpfProgram {
    length: c_uint,
    instructions: *mut BpfInstruction,
}

#[repr(C)]
struct BpfInstruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(*mut c_void);

/// Compiles a filter like `icmp and host 10.0.1.2` for Ethernet frames.
///
/// # Errors
/// libpcap's message about the filter, or a message that libpcap is missing.
pub fn compile(filter: &str) -> Result<Program, String> {
    let text = CString::new(filter).map_err(|_| "a filter has no zero bytes".to_owned())?;
    // SAFETY: libpcap has no initialisers that matter to this process.
    let library = NAMES
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok())
        .ok_or("filters need libpcap, which is not installed: `apt-get install libpcap0.8`")?;
    let missing = |error: libloading::Error| format!("libpcap: {error}");
    // SAFETY: the types are those of pcap(3PCAP), which have not changed since 0.8.
    let (open_dead, compile, get_error, free_code, close) = unsafe {
        (
            library.get::<OpenDead>(c"pcap_open_dead").map_err(missing)?,
            library.get::<Compile>(c"pcap_compile").map_err(missing)?,
            library.get::<GetError>(c"pcap_geterr").map_err(missing)?,
            library.get::<FreeCode>(c"pcap_freecode").map_err(missing)?,
            library.get::<Close>(c"pcap_close").map_err(missing)?,
        )
    };
    // SAFETY: plain numbers.
    let handle = unsafe { open_dead(ETHERNET, SNAPLEN) };
    if handle.is_null() {
        return Err("libpcap has no memory".into());
    }
    let mut compiled = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
    // SAFETY: an open handle, a program to be filled, and a terminated string.
    let result = unsafe { compile(handle, &raw mut compiled, text.as_ptr(), 1, NO_NETMASK) };
    let answer = if result == 0 {
        // SAFETY: libpcap has filled in `compiled.length` instructions; they are copied before they
        // are freed.
        let instructions =
            unsafe { std::slice::from_raw_parts(compiled.instructions, compiled.length as usize) };
        let instruction = |from: &BpfInstruction| Instruction {
            code: from.code,
            if_true: from.if_true,
            if_false: from.if_false,
            k: from.k,
        };
        Ok(instructions.iter().map(instruction).collect::<Vec<_>>())
    } else {
        // SAFETY: the handle is open, and its message is a terminated string.
        let message = unsafe { CStr::from_ptr(get_error(handle)) };
        Err(format!(
            "the filter `{filter}` cannot be read: {}; see pcap-filter(7)",
            message.to_string_lossy()
        ))
    };
    // SAFETY: libpcap's objects are freed once, the handle last.
    unsafe {
        if result == 0 {
            free_code(&raw mut compiled);
        }
        close(handle);
    }
    Program::new(answer?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_compiled_or_refused() {
        let program = match compile("icmp") {
            Err(error) if error.contains("not installed") => return println!("skipped: {error}"),
            other => other.unwrap(),
        };
        let mut frame = vec![0; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        assert!(!program.matches(&frame, 60));
        frame[23] = 1;
        assert!(program.matches(&frame, 60));
        assert!(compile("").unwrap().matches(&[], 0), "no filter wants everything");
        let error = compile("icmp and and").unwrap_err();
        assert!(error.starts_with("the filter `icmp and and` cannot be read: "), "{error}");
    }
}
