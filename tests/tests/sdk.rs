//! Data planes built on `sdk/` serve all their interfaces while one of them is flooded, and tell
//! the switch which packets they sent. The test plays the other end of the pool: receive program
//! and switch.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use europa_pool::layout::{InterfaceRow, RingPlace};
use europa_pool::{Geometry, PoolView, Word};
use europa_tests::skip_without;
use nix::fcntl::{F_SETFD, F_SETFL, FdFlag, OFlag, fcntl};

const SLOTS: u32 = 512;
const GEOMETRY: Geometry = Geometry { slots: SLOTS, slot_bytes: 2048, interfaces: 2 };
const PAGE: u64 = 4096;
/// Packets of the flooded interface that may pass before a packet of the other one is seen. All
/// slots may circulate once between two checks, and more often while the test has no core.
const MOST_BEFORE: u64 = 8 * SLOTS as u64;

/// Forwards so slowly that the ring of a flooded interface never runs empty.
const SLOW: &str = r#"
#include "europa.h"
int main(void)
{
	struct europa_packet packet;
	struct europa pool;
	if (europa_open(&pool) < 0)
		return 1;
	for (;;) {
		for (uint32_t from = 0; from < 2; from++)
			while (europa_receive(&pool, from, &packet)) {
				for (volatile int i = 0; i < 20000; i++)
					;
				if (!europa_send(&pool, 1 - from, &packet))
					europa_drop(&pool, &packet);
			}
		europa_wait(&pool);
	}
}
"#;

/// The other end of a pool.
struct Other {
    view: PoolView,
    free: Vec<u32>,
    rx: [u32; 2],
    tx: [u32; 2],
    fill: u32,
    bell: std::io::PipeReader,
    /// The end of the pipe that would wake the program. Nothing is written to it.
    _wake: std::io::PipeWriter,
    child: Child,
}

impl Other {
    /// Starts a program on a new pool, beside a switch that seems to sleep.
    fn start(mut command: Command) -> Other {
        let file = |bytes: u64| {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(bytes).expect("longer");
            file
        };
        let pool = file(u64::from(SLOTS) * 2048 + (1 << 20));
        let view = PoolView::open(&pool, GEOMETRY).expect("a pool");
        let (name, mac) = ([b'x'; 16], [2, 0, 0, 0, 0, 1]);
        let place = RingPlace::default();
        let row = InterfaceRow {
            rx: place,
            tx: place,
            mtu: 1500,
            mac,
            reserved: [0; 6],
            name,
            reserved_to_end: [0; 16],
        };
        view.format(&[row, row]);
        let (waker, status) = (file(3 * PAGE), file(PAGE));
        std::os::unix::fs::FileExt::write_all_at(&status, &[1], 0).expect("written");
        let ((wake, _wake), (bell, doorbell)) =
            (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
        fcntl(&bell, F_SETFL(OFlag::O_NONBLOCK)).expect("set");
        let given: [(&str, OwnedFd); 5] = [
            ("POOL", pool.into()),
            ("WAKER", waker.into()),
            ("STATUS", status.into()),
            ("WAKE", wake.into()),
            ("DOORBELL", doorbell.into()),
        ];
        for (name, descriptor) in &given {
            fcntl(descriptor.as_fd(), F_SETFD(FdFlag::empty())).expect("set");
            command.env(format!("EUROPA_{name}"), descriptor.as_raw_fd().to_string());
        }
        for (name, value) in
            [("SLOTS", SLOTS), ("SLOT_BYTES", 2048), ("INTERFACES", 2), ("WORKER", 0)]
        {
            command.env(format!("EUROPA_{name}"), value.to_string());
        }
        let child = command.spawn().expect("it starts");
        let free = (0..SLOTS).collect();
        Other { view, free, rx: [0; 2], tx: [0; 2], fill: 0, bell, _wake, child }
    }

    /// Puts a frame into the ring of an interface; returns whether there was a slot and a place for
    /// it.
    fn arrive(&mut self, interface: usize) -> bool {
        let Some(slot) = self.free.pop() else { return false };
        let word = Word::frame(slot, 256, 64, 0).on(interface as u8);
        let there = self.view.rx(interface as u32).fill(self.rx[interface], word);
        match there {
            true => self.rx[interface] = self.rx[interface].wrapping_add(1),
            false => self.free.push(slot),
        }
        there
    }

    /// Takes sent and dropped packets; returns the number of packets sent by each interface.
    fn take(&mut self) -> [u64; 2] {
        let mut sent = [0; 2];
        for ((interface, head), sent) in (0..).zip(&mut self.tx).zip(&mut sent) {
            let ring = self.view.tx(interface);
            while let Some(word) = ring.peek(*head) {
                ring.clear(*head);
                *head = head.wrapping_add(1);
                self.free.push(word.slot());
                *sent += 1;
            }
        }
        while let Some(word) = self.view.fill().peek(self.fill) {
            self.view.fill().clear(self.fill);
            self.fill = self.fill.wrapping_add(1);
            self.free.push(word.slot());
        }
        sent
    }

    /// Keeps interface 0 full; returns the number of packets sent by each interface.
    fn flood(&mut self) -> [u64; 2] {
        let sent = self.take();
        // One slot stays free for the other interface.
        while self.free.len() > 1 && self.arrive(0) {}
        sent
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The program may have ended by itself; the test has then seen that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that the second interface has its turn, and the doorbell rings, while the first one is
/// flooded.
fn serves_both(command: Command) {
    let mut other = Other::start(command);
    let begun = Instant::now();
    let patient = || assert!(begun.elapsed() < Duration::from_secs(20), "nothing comes out");
    let mut passed = 0;
    while passed < 1000 {
        passed += other.flood()[1];
        patient();
    }
    let mut rings = [0; 4096];
    assert!(other.bell.read(&mut rings).is_ok_and(|count| count > 0), "the doorbell is silent");
    other.flood();
    assert!(other.arrive(1), "there is a slot");
    let (mut before, mut served) = (0, 0);
    while served == 0 {
        let sent = other.flood();
        before += sent[1];
        served += sent[0];
        patient();
        assert!(served > 0 || before <= MOST_BEFORE, "{before} packets passed before the other's");
    }
    // No more packets arrive. The program announces all sent packets, finds its rings empty, and
    // sleeps.
    while other.free.len() < SLOTS as usize {
        other.take();
        patient();
    }
}

#[test]
fn a_flooded_interface_keeps_no_other_waiting() {
    skip_without!("cc", "python3");
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("slow.c"), folder.path().join("slow"));
    std::fs::write(&source, SLOW).expect("written");
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(sdk.join("c"))
        .arg("-o")
        .args([&program, &source])
        .output()
        .expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    serves_both(Command::new(program));
    let mut python = Command::new("python3");
    python.arg(sdk.join("python")).stdout(File::create("/dev/null").expect("it is there"));
    serves_both(python);
}
