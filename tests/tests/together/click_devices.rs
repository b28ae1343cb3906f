//! `europa click` with tun and tap devices, and with sockets of all kinds.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_tests::{Lab, europa, skip_without};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(text: &str) -> Running {
    let mut command = Command::new(europa());
    command.args(["click", "-e", text]).stdin(Stdio::null());
    Running(command.spawn().expect("europa starts"))
}

/// Repeats an attempt until it succeeds.
fn await_some<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that is free at the moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    listener.local_addr().expect("an address").port()
}

#[test]
fn linux_pings_into_tun_and_tap_devices() {
    skip_without!("ping");
    let mut lab = Lab::new().expect("a laboratory");
    let space = lab.namespace("tun").expect("a namespace");
    let text = "tun :: KernelTun(10.5.0.1/24, DEVNAME t0) -> IPClassifier(icmp type echo)
            -> ICMPPingResponder -> tun;
        tap :: KernelTap(10.6.0.1/24, DEVNAME t1, ETHER 2:0:0:0:0:1, MTU 1400)
            -> c :: Classifier(12/0806, 12/0800);
        c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:2) -> tap;
        c[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
            -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> tap;";
    let program = europa().display().to_string();
    let router = space
        .start(&[&program, "click", "-e", text, "-h", "tun.packets", "-h", "tap.dev_name"])
        .expect("it starts");
    for to in ["10.5.0.2", "10.6.0.2"] {
        await_some("nobody answers", || {
            space.ping(to, 3, &["-i", "0.1"]).ok().filter(|ping| ping.is_perfect())
        });
    }
    let link = space.run(&["ip", "-o", "link", "show", "t1"]).expect("a device").stdout;
    assert!(link.contains("mtu 1400") && link.contains("02:00:00:00:00:01"), "{link}");
    router.signal(nix::sys::signal::Signal::SIGTERM);
    let output = router.wait(Duration::from_secs(5)).expect("it ends");
    assert!(output.stdout.contains("tap.dev_name:\nt1"), "{}", output.stdout);
    assert!(space.run(&["ip", "link", "show", "t0"]).is_err(), "the device goes with the router");
}

#[test]
fn a_stream_server_talks_to_one_after_the_other() {
    let port = free_port();
    let _router = start(&format!("s :: Socket(TCP, 127.0.0.1, {port}) -> Strip(1) -> s"));
    for round in 0..3 {
        let mut stream =
            await_some("no connection", || TcpStream::connect(("127.0.0.1", port)).ok());
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        stream.write_all(b"hello").expect("sent");
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"ello", "round {round}");
    }
}

#[test]
fn a_client_sends_all_even_if_its_peer_is_slow() {
    for way in ["-> Queue(20000)", "", "-> Queue(20000) -> Unqueue"] {
        sends_all(way);
    }
}

fn sends_all(way: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let router = start(&format!(
        "InfiniteSource(LENGTH 1000, LIMIT 20000, STOP false) {way}
            -> Socket(TCP, 127.0.0.1, {port}, CLIENT true)"
    ));
    let (mut stream, _) = listener.accept().expect("a connection");
    std::thread::sleep(Duration::from_millis(200));
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    while bytes < 20_000_000 {
        bytes += stream.read(&mut buffer).expect("more bytes");
    }
    assert_eq!(bytes, 20_000_000);
    drop(router);
}

#[test]
fn datagrams_and_unix_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let own = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    own.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    let back = own.local_addr().expect("an address").port();
    let port = free_port();
    // UDP packets come in, cross Unix sockets to another process as datagrams, and go back as UDP.
    let _far = start(&format!(
        "Socket(UNIX_DGRAM, {}) -> Strip(1) -> Socket(UDP, 127.0.0.1, {back});
         s :: Socket(UNIX, {}) -> s",
        path("d"),
        path("s")
    ));
    await_some("no socket", || folder.path().join("s").exists().then_some(()));
    let _near = start(&format!(
        "Socket(UDP, 127.0.0.1, {port}) -> Socket(UNIX_DGRAM, {}, CLIENT true);",
        path("d")
    ));
    let mut answer = [0; 16];
    let length = await_some("nothing comes back", || {
        own.send_to(b"hello", ("127.0.0.1", port)).expect("sent");
        own.recv(&mut answer).ok()
    });
    assert_eq!(&answer[..length], b"ello");
    let mut stream = await_some("no connection", || UnixStream::connect(path("s")).ok());
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    stream.write_all(b"hello").expect("sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"hello");
}

#[test]
fn a_datagram_is_not_lost_because_one_before_was_refused() {
    let port = free_port();
    let router = start(&format!(
        "RatedSource(DATA x, RATE 100) -> c :: Counter -> Socket(UDP, 127.0.0.1, {port}, CLIENT true)"
    ));
    std::thread::sleep(Duration::from_millis(200));
    let own = UdpSocket::bind(("127.0.0.1", port)).expect("a socket");
    own.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    for _ in 0..3 {
        assert_eq!(own.recv(&mut [0; 16]).expect("a packet"), 1);
    }
    drop(router);
}

#[test]
fn who_is_denied_gets_no_answer() {
    let port = free_port();
    let _router = start(&format!(
        "deny :: StaticIPLookup(127.0.0.0/8 0); Idle -> deny -> Discard;
         s :: Socket(TCP, 127.0.0.1, {port}, DENY deny) -> s"
    ));
    let mut stream = await_some("no connection", || TcpStream::connect(("127.0.0.1", port)).ok());
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let _ = stream.write_all(b"hello");
    assert!(matches!(stream.read(&mut [0; 5]), Ok(0) | Err(_)), "closed without an answer");
}
