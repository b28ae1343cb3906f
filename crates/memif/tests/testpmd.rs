//! Tests against DPDK's testpmd, in both roles: `apt-get install --no-install-recommends dpdk-dev
//! librte-net-memif23` (Debian 12; these are some 200 packages, so no make target installs them).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_memif::{Buffer, Config, Event, Greetings, Link, Port, Role, Signal, socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time limit for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MACS: usize = 12;

/// A running testpmd, killed at the end.
struct Testpmd {
    child: Child,
    log: PathBuf,
}

impl Testpmd {
    /// Starts a testpmd that returns all frames; `None` if it is not installed. It runs as long as
    /// its standard input is open. It begins to forward once it is connected. If it forwarded
    /// earlier, version 22.11 might crash at a connection, because it reads rings that do not exist
    /// yet.
    fn start(folder: &Path, role: &str, rings: u16, mode: &str) -> Option<Self> {
        let log = folder.join(format!("testpmd-{role}.log"));
        let output = std::fs::File::create(&log).unwrap();
        let socket = folder.join("memif.sock");
        let device = format!(
            "net_memif0,role={role},id=3,secret=sesame,socket-abstract=no,rsize=9,socket={}",
            socket.display()
        );
        let child = Command::new("dpdk-testpmd")
            .args(["--lcores", "0@0,1@0", "--no-huge", "--no-pci", "--no-shconf", "-m", "192"])
            .args([
                "--no-telemetry",
                "--vdev",
                &device,
                "--",
                "--total-num-mbufs=8192",
                "--no-flush-rx",
            ])
            .args([format!("--rxq={rings}"), format!("--txq={rings}")])
            .arg(format!("--forward-mode={mode}"))
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn();
        match child {
            Ok(child) => Some(Self { child, log }),
            Err(error) => {
                let _ = writeln!(std::io::stderr().lock(), "SKIPPED: dpdk-testpmd: {error}");
                None
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it as a crash would.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn config(rings: u16) -> Config {
    Config {
        id: 3,
        secret: europa_memif::secret("sesame").unwrap(),
        receive_rings: rings,
        transmit_rings: rings,
        log2_entries: 9,
        ..Config::default()
    }
}

/// Waits for the rings of a client, which connects again until its server exists.
fn connect(port: &mut Port, path: &Path) -> Link {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        // Avoids needless connections: testpmd 22.11 crashes if a peer connects and closes at once.
        if port.control_fd().is_none() {
            match socket::connect(path) {
                Ok(client) => port.connect(client),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        if let Some(Event::Connected(link)) = port.process() {
            return link;
        }
    }
    panic!("no server came");
}

/// Waits for the rings of a server.
fn serve(port: &mut Port, listener: &std::os::fd::OwnedFd) -> Link {
    let mut greetings = Greetings::default();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(client) = socket::accept(listener).unwrap() {
            greetings.add(client, port.config()).unwrap();
        }
        if let Some(greeting) = greetings.process().unwrap() {
            assert_eq!(greeting.id(), 3);
            port.accept(greeting).unwrap();
        }
        if let Some(Event::Connected(link)) = port.process() {
            assert!(link.application.starts_with("DPDK"), "{}", link.application);
            return link;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no client came");
}

/// Waits until the peer has closed.
fn ends(port: &mut Port) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(Event::Disconnected(_)) = port.process() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the peer is dead, and nobody has noticed");
}

/// A frame that differs from all others, with its number after the addresses.
fn frame(number: usize) -> Vec<u8> {
    let length = 60 + number * 7 % 1455;
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 13 + number) as u8).collect();
    bytes[MACS + 2..MACS + 10].copy_from_slice(&(number as u64).to_le_bytes());
    // Neither VLAN nor IP, which testpmd might parse further.
    bytes[MACS..MACS + 2].copy_from_slice(&[0x88, 0xb5]);
    // No groups as addresses.
    bytes[0] &= 0xfe;
    bytes[6] &= 0xfe;
    bytes
}

/// Sends frames, at most `window` outstanding, and checks that each returns whole, in order, with
/// its addresses swapped if `swapped` is set.
fn all_return(link: &mut Link, ring: usize, swapped: bool, count: usize) {
    let window = 300;
    let (transmitter, receiver) = (&mut link.transmitters[ring], &mut link.receivers[ring]);
    let mut memory = vec![0; 256 * 2048];
    let mut buffers: Vec<_> =
        memory.chunks_mut(2048).map(|bytes| Buffer { bytes, length: 0 }).collect();
    let (mut sent, mut back) = (0, 0);
    let end = Instant::now() + PATIENCE;
    while back < count {
        assert!(Instant::now() < end, "{back} of {sent} frames are back on ring {ring}");
        let batch: Vec<_> = (sent..count.min(back + window).min(sent + 64)).map(frame).collect();
        let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        sent += transmitter.transmit(&slices).unwrap();
        let received = receiver.receive(&mut buffers).unwrap();
        for buffer in &buffers[..received] {
            let mut wanted = frame(back);
            if swapped {
                wanted[..MACS].rotate_left(6);
            }
            assert!(buffer.bytes[..buffer.length] == wanted, "frame {back}");
            back += 1;
        }
        if received == 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(receiver.counters().malformed + receiver.counters().unfit, 0);
}

/// Both forwarding modes, and more frames than there are index values.
const COUNT: usize = 70_000;

#[test]
fn as_client_frames_come_back_and_a_server_that_was_killed_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memif.sock");
    let Some(mut testpmd) = Testpmd::start(folder.path(), "server", 1, "io") else { return };
    let mut port = Port::new(Role::Client, config(1), Signal::new().unwrap()).unwrap();
    let mut link = connect(&mut port, &path);
    assert!(link.application.starts_with("DPDK"), "{}", link.application);
    all_return(&mut link, 0, false, COUNT);
    testpmd.kill();
    ends(&mut port);
    // Frames sent after that are lost without effect.
    assert!(link.transmitters[0].transmit(&[&frame(0)[..]]).is_ok());
    std::fs::remove_file(&path).unwrap();
    let _again = Testpmd::start(folder.path(), "server", 1, "macswap").unwrap();
    let mut link = connect(&mut port, &path);
    all_return(&mut link, 0, true, COUNT);
}

#[test]
fn as_server_frames_come_back_and_a_client_that_was_killed_may_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memif.sock");
    let listener = socket::listen(&path, 0o600).unwrap();
    let Some(mut testpmd) = Testpmd::start(folder.path(), "client", 1, "io") else { return };
    let mut port = Port::new(Role::Server, config(1), Signal::new().unwrap()).unwrap();
    let mut link = serve(&mut port, &listener);
    all_return(&mut link, 0, false, COUNT);
    testpmd.kill();
    ends(&mut port);
    let _again = Testpmd::start(folder.path(), "client", 1, "macswap").unwrap();
    let mut link = serve(&mut port, &listener);
    all_return(&mut link, 0, true, COUNT);
}

#[test]
fn several_rings_are_each_their_own_way() {
    for role in [Role::Server, Role::Client] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        let mut port = Port::new(role, config(3), Signal::new().unwrap()).unwrap();
        let listener = (role == Role::Server).then(|| socket::listen(&path, 0o600).unwrap());
        let other = if role == Role::Server { "client" } else { "server" };
        let Some(_testpmd) = Testpmd::start(folder.path(), other, 3, "io") else { return };
        let mut link = match &listener {
            Some(listener) => serve(&mut port, listener),
            None => connect(&mut port, &path),
        };
        assert_eq!((link.receivers.len(), link.transmitters.len()), (3, 3));
        for ring in 0..3 {
            all_return(&mut link, ring, false, 5000);
        }
    }
}

#[test]
fn testpmd_interrupts_who_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memif.sock");
    let Some(_testpmd) = Testpmd::start(folder.path(), "server", 1, "io") else { return };
    let mut port = Port::new(Role::Client, config(1), Signal::new().unwrap()).unwrap();
    let mut link = connect(&mut port, &path);
    all_return(&mut link, 0, false, 10);
    let (transmitter, receiver) = (&mut link.transmitters[0], &mut link.receivers[0]);
    assert!(!receiver.arm(), "nothing waits");
    let before = transmitter.counters().interrupts;
    assert_eq!(transmitter.transmit(&[&frame(0)[..]]), Ok(1));
    let mut wait = [PollFd::new(receiver.interrupt_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(PATIENCE).unwrap();
    assert_eq!(poll(&mut wait, patience), Ok(1), "an interrupt");
    receiver.disarm();
    assert_eq!(receiver.waiting(), Ok(1));
    assert_eq!(transmitter.counters().interrupts, before, "testpmd polls, and wants none");
}

#[test]
fn testpmd_with_another_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let listener = socket::listen(&folder.path().join("memif.sock"), 0o600).unwrap();
    let Some(_testpmd) = Testpmd::start(folder.path(), "client", 1, "io") else { return };
    let other = Config { secret: europa_memif::secret("open").unwrap(), ..config(1) };
    let mut port = Port::new(Role::Server, other, Signal::new().unwrap()).unwrap();
    let mut greetings = Greetings::default();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(client) = socket::accept(&listener).unwrap() {
            greetings.add(client, port.config()).unwrap();
        }
        if let Some(greeting) = greetings.process().unwrap() {
            let refused = port.accept(greeting).unwrap_err().to_string();
            assert_eq!(refused, "the peer is refused: a wrong secret");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no client came");
}
