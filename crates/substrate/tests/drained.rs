//! Tests that the kernel reports exactly whether live frames have arrived, even while their
//! receiver does not run. Needs root.
#![allow(unsafe_code)] // Loads a program of six instructions.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use europa_port::{Device, End, Namespace, Wants, make_veth, prepare};
use europa_substrate::{Drained, PortMode, Substrate};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

const PORT: u32 = 5;

/// A TCP segment with 20 bytes, from 10.0.0.1 to 10.0.0.2, with correct checksums: a receiver may
/// hold it to merge it with the next one.
#[rustfmt::skip]
const SEGMENT: [u8; 74] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0,
    0x45, 0, 0, 60, 0, 1, 0x40, 0, 64, 6, 0x26, 0xb9, 10, 0, 0, 1, 10, 0, 0, 2,
    0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0x88, 0x38, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// A program that sends each frame by [`PORT`].
fn redirect(substrate: &Substrate) -> OwnedFd {
    let devices = substrate.share("devices").unwrap();
    let instruction = |code, registers: u8, imm| libbpf_sys::bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: libbpf_sys::bpf_insn::new_bitfield_1(registers & 0xf, registers >> 4),
        off: 0,
        imm,
    };
    let instructions = [
        // r1 = the map; r2 = the port; r3 = 0; bpf_redirect_map; exit
        instruction(0x18, 0x11, devices.as_fd().as_raw_fd()),
        instruction(0, 0, 0),
        instruction(0xb7, 0x02, PORT as i32),
        instruction(0xb7, 0x03, 0),
        instruction(0x85, 0, 51),
        instruction(0x95, 0, 0),
    ];
    // SAFETY: `instructions` has the stated number of instructions; both strings are terminated.
    let program = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            c"redirect".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as u64,
            std::ptr::null_mut(),
        )
    };
    assert!(program >= 0, "{}", std::io::Error::from_raw_os_error(-program));
    // SAFETY: a new descriptor without another owner.
    unsafe { OwnedFd::from_raw_fd(program) }
}

/// Sends [`SEGMENT`] by a program.
fn send(program: &OwnedFd) {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: SEGMENT.as_ptr().cast(),
        data_size_in: SEGMENT.len() as u32,
        repeat: 1,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        ..Default::default()
    };
    // SAFETY: `data_in` points to as many bytes as stated, which live through the call.
    let result =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    assert_eq!(result, 0);
}

/// The kernel's thread that receives frames sent to `device`.
fn napi_thread(device: &str) -> Pid {
    let prefix = format!("napi/{device}-");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter_map(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        name.starts_with(&prefix).then(|| entry.file_name().to_str()?.parse().ok())?
    });
    Pid::from_raw(found.last().unwrap())
}

fn only(pid: Pid, cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(pid, &cpus).unwrap();
}

/// Prevents all other threads from running on this thread's CPU until it sleeps.
fn keep_the_cpu() -> std::io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads `parameters`, which lives through the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if set < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn frames_have_arrived_when_their_receiver_has_taken_them_in() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let name = format!("eu-drained-{}", std::process::id());
    let directory = std::env::temp_dir().join(&name);
    let ip = |arguments: &[&str]| {
        let result = Command::new("ip").args(arguments).output().unwrap();
        assert!(result.status.success(), "ip {arguments:?}: {result:?}");
    };
    ip(&["netns", "add", &name]);
    let result = std::panic::catch_unwind(|| {
        let namespace = Namespace::named(&name).unwrap();
        let end = |name| End { namespace: &namespace, name, mac: None };
        make_veth(end("drained0"), end("drained1"), 1500).unwrap();
        ip(&["-n", &name, "link", "set", "drained1", "up"]);
        let device = Device::open(&namespace, "drained0").unwrap();
        prepare(&device, Wants::default()).unwrap();
        // Frames sent there wait for the receiving thread, which waits until this thread sleeps.
        let inside = |command: &str| ip(&["netns", "exec", &name, "sh", "-c", command]);
        inside("echo 1 > /sys/class/net/drained1/threaded");
        only(napi_thread("drained1"), 0);
        only(Pid::from_raw(0), 0);

        let mut substrate = Substrate::open(&directory).unwrap();
        let port = substrate
            .attach_port(PORT, &namespace, device.index, device.mac, PortMode::Native, true)
            .unwrap();
        let drained = match substrate.drained_program() {
            Ok(program) => Drained::new(program.try_clone().unwrap()),
            Err(error) => return println!("skipped: {error}"),
        };
        let redirect = redirect(&substrate);
        if let Err(error) = keep_the_cpu() {
            println!("skipped: no priority of real time here ({error})");
            return;
        }
        for round in 0..50 {
            assert!(drained.is(PORT), "{round}: nothing was sent");
            send(&redirect);
            assert!(!drained.is(PORT), "{round}: nobody had time to take it in");
            sleep(Duration::from_millis(2));
        }
        assert!(drained.is(PORT));
        assert!(drained.is(PORT + 1), "no port, nothing on its way");
        // Frames that a receiver holds for later segments have not arrived yet. At the end of its
        // turn the kernel holds only segments of the current tick (`napi_gro_flush`), and a new
        // tick may begin during the turn.
        inside("echo 1000000000 > /sys/class/net/drained1/gro_flush_timeout");
        let kept_back = (0..10).any(|_| {
            send(&redirect);
            sleep(Duration::from_millis(20));
            !drained.is(PORT)
        });
        assert!(kept_back, "each of ten segments was told to have arrived at once");
        sleep(Duration::from_secs(2));
        assert!(drained.is(PORT));
        substrate.detach_port(port).unwrap();
    });
    ip(&["netns", "del", &name]);
    Substrate::remove(&directory).unwrap();
    result.unwrap();
}
