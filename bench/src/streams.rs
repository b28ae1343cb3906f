//! TCP streams: one through each of a number of routers, between threads of this program.
//!
//! Stream `n` goes from 10.2.n to 10.1.n. The neighbour entries at both ends choose the router.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::{ReuseAddr, SendTimeout};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::testbed::Testbed;

const PORT: u16 = 5201;
/// Time until a thread notices a request to stop.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time limit of a connection; a stream that connects later counts as one without bytes.
const CONNECTS: Duration = Duration::from_secs(5);
/// Largest valid difference between the halves of a measurement.
const HALVES_MAY_DIFFER: f64 = 0.10;
const TRIES: u32 = 3;
/// Bytes of a thread's stack.
const STACK: usize = 128 << 10;

/// Bytes of each stream in an interval.
pub(crate) struct Received {
    /// Bits a second of all streams together.
    pub(crate) bps: f64,
    /// Bytes of each stream.
    pub(crate) flows: Vec<u64>,
    /// Whether both halves agree.
    steady: bool,
}

/// Running streams; they end when dropped.
pub(crate) struct Streams {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The shared state of all threads.
struct Shared {
    stop: AtomicBool,
    bytes: Vec<AtomicU64>,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Gives both ends of a testbed an address for each stream, and a neighbour entry for each address.
/// The entry has the MAC address of router `n` at the generator's or sink's port.
pub(crate) fn lay(testbed: &Testbed, count: u32, mac: impl Fn(u32) -> [String; 2]) -> Result<()> {
    let ends = [(&testbed.generator, "g0", 2, 1), (&testbed.sink, "s0", 1, 2)];
    for (side, (namespace, device, own, other)) in ends.into_iter().enumerate() {
        let mut lines = format!(
            "route add local 10.{own}.0.0/16 dev {device}\nroute add 10.{other}.0.0/16 dev {device}\n"
        );
        for number in 0..count {
            let [high, low] = (number as u16).to_be_bytes();
            let mac = &mac(number)[side];
            lines += &format!(
                "neigh replace 10.{other}.{high}.{low} lladdr {mac} dev {device} nud permanent\n"
            );
        }
        let file = tempfile::NamedTempFile::new().context("a file for ip")?;
        std::fs::write(file.path(), lines).context("a file for ip")?;
        namespace.ip(&format!("-batch {}", file.path().display()))?;
    }
    Ok(())
}

impl Streams {
    /// Measures the bytes that one stream for each number receives in an interval, after a warm-up.
    pub(crate) fn received(
        testbed: &Testbed,
        count: u32,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Received> {
        let streams = Self::start(testbed, count)?;
        interrupt::sleep(warm_up)?;
        streams.steadily(time)
    }

    /// Starts one stream for each number, and waits until all carry data.
    fn start(testbed: &Testbed, count: u32) -> Result<Self> {
        let bytes = (0..count).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), bytes });
        let listener = testbed
            .sink
            .within(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).context("listening"))?;
        listener.set_nonblocking(true).context("listening")?;
        let mut streams = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        let all = Arc::clone(&shared);
        streams.spawn("take", move || take(&listener, &all))?;
        for number in 0..count {
            let (shared, enter) = (Arc::clone(&shared), testbed.generator.handle()?);
            streams.spawn("send", move || {
                if enter.enter().is_ok() {
                    send(number as u16, &shared);
                }
            })?;
        }
        let deadline = Instant::now() + CONNECTS;
        while Instant::now() < deadline && streams.bytes().contains(&0) {
            interrupt::sleep(Duration::from_millis(20))?;
        }
        match streams.bytes().iter().any(|bytes| *bytes > 0) {
            true => Ok(streams),
            false => Err(Error::Other("no TCP stream gets through".into())),
        }
    }

    /// Counts the bytes that arrive in this time.
    fn observe(&self, time: Duration) -> Result<Received> {
        let (begun, first) = (Instant::now(), self.bytes());
        interrupt::sleep(time / 2)?;
        let middle: u64 = self.bytes().iter().sum();
        interrupt::sleep(time / 2)?;
        let (elapsed, last) = (begun.elapsed(), self.bytes());
        let flows: Vec<u64> = last.iter().zip(&first).map(|(now, then)| now - then).collect();
        let all: u64 = flows.iter().sum();
        let half = middle.saturating_sub(first.iter().sum()) as f64;
        let differ = (2.0 * half - all as f64).abs() > HALVES_MAY_DIFFER * all as f64;
        Ok(Received { bps: all as f64 * 8.0 / elapsed.as_secs_f64(), flows, steady: !differ })
    }

    /// Counts the bytes that arrive in this time; repeats this while the halves of the time
    /// disagree.
    fn steadily(&self, time: Duration) -> Result<Received> {
        for _ in 1..TRIES {
            let received = self.observe(time)?;
            if received.steady {
                return Ok(received);
            }
        }
        self.observe(time)
    }

    fn bytes(&self) -> Vec<u64> {
        self.shared.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK);
        self.threads.push(thread.spawn(work).context("starting a thread")?);
        Ok(())
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread returns no value.
            let _ = thread.join();
        }
    }
}

/// Accepts each connection in a thread of its own; joins the threads at the end.
fn take(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut readers = Vec::new();
    while shared.goes_on() {
        match listener.accept() {
            Ok((stream, SocketAddr::V4(peer))) => {
                let [_, _, high, low] = peer.ip().octets();
                let (number, shared) = (u16::from_be_bytes([high, low]), Arc::clone(shared));
                let reader = std::thread::Builder::new().stack_size(STACK);
                readers.extend(reader.spawn(move || receive(stream, number, &shared)));
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    for reader in readers {
        let _ = reader.join();
    }
}

fn receive(mut stream: TcpStream, number: u16, shared: &Shared) {
    let Some(bytes) = shared.bytes.get(usize::from(number)) else { return };
    if stream.set_nonblocking(false).and(stream.set_read_timeout(Some(PATIENCE))).is_err() {
        return;
    }
    let mut buffer = vec![0; 64 << 10];
    while shared.goes_on() {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => drop(bytes.fetch_add(read as u64, Ordering::Relaxed)),
            Err(error) if waits(error.kind()) => {}
            Err(_) => return,
        }
    }
}

/// Sends as fast as possible, and reconnects after a lost connection.
fn send(number: u16, shared: &Shared) {
    let data = [0; 16 << 10];
    while shared.goes_on() {
        let Ok(mut stream) = dial(number) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        while shared.goes_on() {
            match stream.write(&data) {
                Ok(_) => {}
                Err(error) if waits(error.kind()) => {}
                Err(_) => break,
            }
        }
    }
}

fn waits(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Connects 10.2.n to 10.1.n, in the namespace of the calling thread.
fn dial(number: u16) -> nix::Result<TcpStream> {
    let [high, low] = number.to_be_bytes();
    let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&own, ReuseAddr, &true)?;
    // The time limit of sending also bounds connecting.
    let patience = TimeVal::new(0, PATIENCE.as_micros() as i64);
    setsockopt(&own, SendTimeout, &patience)?;
    let address =
        |net, port| SockaddrIn::from(SocketAddrV4::new([10, net, high, low].into(), port));
    bind(own.as_raw_fd(), &address(2, 0))?;
    connect(own.as_raw_fd(), &address(1, PORT))?;
    Ok(TcpStream::from(own))
}
