//! Two elements and their router's loop, in one process.

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use europa_engine::{Arena, Graph, NoDevices, Router};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::testing::{Bench, part};

/// Time limit for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A router, its clock, its log.
struct Run {
    router: Router,
    arena: Arena,
    started: Instant,
    log: Rc<RefCell<Vec<String>>>,
}

impl Run {
    /// Makes a memif of each name with these arguments. Each has a source before it, with its
    /// number, and the input of the sink of that number behind it.
    fn new(memifs: &[(&str, &str, &[&str])]) -> Run {
        let registry = Bench::registry();
        let mut graph = Graph::default();
        let sink = graph.add("sink", "TestSink", &[]);
        for (number, (name, between, arguments)) in memifs.iter().enumerate() {
            let source = graph.add(&format!("source{number}"), "TestSource", &[]);
            let between = graph.add(&format!("between{number}"), between, &[]);
            let memif = graph.add(name, "Memif", arguments);
            graph.connect(source, 0, between, 0);
            graph.connect(between, 0, memif, 0);
            graph.connect(memif, 0, sink, number);
        }
        let arena = Arena::heap(4096, 2048);
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        let log = Rc::new(RefCell::new(Vec::new()));
        let lines = log.clone();
        router.set_log(Box::new(move |line| lines.borrow_mut().push(line.to_owned())));
        Run { router, arena, started: Instant::now(), log }
    }

    /// The descriptors that are ready, by element and token.
    fn ready(&self) -> Vec<(usize, u32)> {
        let all = self.router.watched();
        let mut wait: Vec<_> =
            all.iter().map(|watched| PollFd::new(watched.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut wait, PollTimeout::ZERO).unwrap();
        let ready = all.iter().zip(&wait).filter(|(_, poll)| poll.any() == Some(true));
        ready.map(|(watched, _)| (watched.element, watched.token)).collect()
    }

    /// Runs one round, and handles the ready descriptors.
    fn round(&mut self) {
        let now_ns = self.started.elapsed().as_nanos() as u64;
        self.router.run_once(now_ns, &mut NoDevices);
        for (element, token) in self.ready() {
            let read = europa_engine::Interest::Read;
            self.router.descriptor_ready(element, token, read, &mut NoDevices);
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Run) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.log.borrow());
            self.round();
        }
    }

    fn read(&mut self, handler: &str) -> String {
        self.router.read(handler, "").unwrap()
    }

    fn connected(&mut self, names: &[&str]) {
        for name in names {
            self.until(name, |run| run.read(&format!("{name}.connected")) == "true");
        }
    }

    fn give(&mut self, number: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        let packets: Vec<_> =
            frames.into_iter().map(|frame| self.arena.packet(&frame).unwrap()).collect();
        part::source(&mut self.router, number, packets);
    }
}

fn socket(folder: &Path) -> String {
    folder.join("memif.sock").to_str().unwrap().to_owned()
}

/// A frame that differs from all others.
fn frame(number: usize) -> Vec<u8> {
    let bytes = 60 + number * 7 % 1400;
    (0..bytes).map(|at| (at * 13 + number) as u8).collect()
}

#[test]
fn frames_go_both_ways_in_order_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    // A pushed packet must fit into the ring; a pulled packet waits for room.
    let mut run = Run::new(&[
        ("server", "Null", &[&path, "ID 7", "SECRET sesame", "RING_SIZE 256"]),
        ("client", "Queue", &[&path, "ID 7", "SECRET sesame", "SERVER false", "RING_SIZE 16"]),
    ]);
    run.connected(&["server", "client"]);
    let mut bytes = 0;
    for turn in 0..40 {
        let frames: Vec<_> = (turn * 50..turn * 50 + 16).map(frame).collect();
        bytes += frames.iter().map(Vec::len).sum::<usize>();
        run.give(0, frames.clone());
        run.give(1, (0..50).map(|at| frame(turn * 50 + at)));
        let mut got = [Vec::new(), Vec::new()];
        run.until("frames", |run| {
            for (input, packet) in part::sink(&mut run.router) {
                assert_eq!(packet.mac_offset(), Some(0));
                got[input].push(packet.data().to_vec());
            }
            got[0].len() == 50 && got[1].len() == 16
        });
        assert_eq!(got[1], frames);
        assert_eq!(got[0], (turn * 50..turn * 50 + 50).map(frame).collect::<Vec<_>>());
    }
    for (handler, value) in [
        ("server.count", "640".to_owned()),
        ("server.byte_count", bytes.to_string()),
        ("server.received", "2000".to_owned()),
        ("client.received", "640".to_owned()),
        ("client.received_bytes", bytes.to_string()),
        ("server.drops", "0".to_owned()),
        ("client.drops", "0".to_owned()),
        ("client.disconnects", "0".to_owned()),
    ] {
        assert_eq!(run.read(handler), value, "{handler}");
    }
    assert!(run.read("server.peer").starts_with("Europa "));
    // 16 frames fit, and no reader takes any of them.
    run.give(0, (0..100).map(frame));
    run.until("drops", |run| run.read("server.drops") == "84");
}

#[test]
fn servers_share_a_socket_and_clients_find_theirs_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut server = Run::new(&[
        ("zero", "Null", &[&path, "RING_SIZE 256"]),
        ("three", "Null", &[&path, "ID 3", "RING_SIZE 64"]),
    ]);
    let client = |id: &'static str| Run::new(&[("client", "Null", &[&path, "SERVER false", id])]);
    let connect = |server: &mut Run, client: &mut Run| {
        client.until("its interface", |run| {
            server.round();
            run.read("client.connected") == "true"
        });
    };
    let passes = |server: &mut Run, client: &mut Run, number: usize, input: usize| {
        client.give(0, [frame(number)]);
        server.until("its frame", |server| {
            client.round();
            let found = part::sink(&mut server.router);
            found.iter().for_each(|(from, packet)| {
                assert_eq!((*from, packet.data()), (input, &frame(number)[..]));
            });
            !found.is_empty()
        });
    };
    let (mut last, mut first) = (client("ID 3"), client("ID 0"));
    connect(&mut server, &mut last);
    connect(&mut server, &mut first);
    passes(&mut server, &mut first, 5, 0);
    passes(&mut server, &mut last, 6, 1);
    for (id, reason) in [("ID 1", "no interface 1"), ("ID 3", "3 is connected already")] {
        let mut other = client(id);
        other.until(reason, |run| {
            server.round();
            !run.read("client.reason").is_empty()
        });
        assert!(other.read("client.reason").contains(reason), "{}", other.read("client.reason"));
    }
}

#[test]
fn a_peer_is_asked_for_interrupts_before_sleep_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut run =
        Run::new(&[("server", "Null", &[&path]), ("client", "Null", &[&path, "SERVER false"])]);
    run.connected(&["server", "client"]);
    run.give(0, [frame(1)]);
    run.until("a frame", |run| !part::sink(&mut run.router).is_empty());
    assert_eq!(run.read("server.interrupts"), "0", "everybody is awake");
    assert!(!run.router.fall_asleep(), "nothing waits");
    run.give(0, [frame(2)]);
    let client = run.router.find("client").unwrap();
    // If the server's task runs after the client's, the client has not looked yet.
    run.router.run_once(0, &mut NoDevices);
    assert_eq!(run.read("server.interrupts"), "1");
    assert!(run.ready().iter().any(|(element, _)| *element == client), "it is awoken");
    run.router.wake_up();
    assert!(run.ready().is_empty(), "and knows it");
    run.until("a frame", |run| !part::sink(&mut run.router).is_empty());
}

#[test]
fn who_comes_back_is_connected_again_and_a_reason_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut client = Run::new(&[("client", "Null", &[&path, "SERVER false"])]);
    client.until("a reason", |run| !run.read("client.reason").is_empty());
    assert_eq!(client.read("client.reason"), "cannot connect: No such file or directory");
    for _ in 0..2 {
        let mut server = Run::new(&[("server", "Null", &[&path])]);
        client.until("a server", |run| {
            server.round();
            run.read("client.connected") == "true"
        });
        drop(server);
        client.until("its end", |run| run.read("client.connected") == "false");
        client.until("a reason", |run| run.read("client.reason").contains("refused"));
    }
    assert_eq!(client.read("client.disconnects"), "2");
    let log = client.log.borrow();
    assert!((1..5).contains(&log.len()), "{log:?}");
    assert_eq!(log[0], "client :: Memif: cannot connect: No such file or directory");
}

#[test]
fn strangers_are_refused_and_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut server = Run::new(&[("server", "Null", &[&path, "SECRET sesame"])]);
    let mut stranger =
        Run::new(&[("client", "Null", &[&path, "SERVER false", "SECRET open", "ID 0"])]);
    let mut other = Run::new(&[("client", "Null", &[&path, "SERVER false", "ID 5"])]);
    // The element's socket is not a stream socket.
    assert!(UnixStream::connect(&path).is_err());
    for (wrong, reason) in [(&mut stranger, "a wrong secret"), (&mut other, "no interface 5")] {
        wrong.until("a reason", |run| {
            server.round();
            run.read("client.reason").contains(reason)
        });
    }
    let mut friend = Run::new(&[("client", "Null", &[&path, "SERVER false", "SECRET sesame"])]);
    friend.until("the friend", |run| {
        server.round();
        run.read("client.connected") == "true"
    });
    assert_eq!(*server.log.borrow(), ["server :: Memif: the peer is refused: a wrong secret"]);
}

#[test]
fn a_new_configuration_keeps_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut server = Run::new(&[("server", "Null", &[&path])]);
    let make = |arguments: &[&str]| Run::new(&[("client", "Null", arguments)]);
    let connects = |client: &mut Run, server: &mut Run| {
        client.until("a server", |run| {
            server.round();
            run.read("client.connected") == "true"
        });
    };
    let mut old = make(&[&path, "SERVER false"]);
    connects(&mut old, &mut server);
    let mut new = make(&[&path, "SERVER false"]);
    new.router.take_state(&mut old.router);
    drop(old);
    assert_eq!(new.read("client.connected"), "true", "at once");
    new.give(0, [frame(3)]);
    server.until("a frame", |server| {
        new.round();
        part::sink(&mut server.router).iter().any(|(_, packet)| packet.data() == frame(3))
    });
    assert_eq!(server.read("server.disconnects"), "0");
    // Another ring size means another connection.
    let mut other = make(&[&path, "SERVER false", "RING_SIZE 64"]);
    other.router.take_state(&mut new.router);
    drop(new);
    connects(&mut other, &mut server);
    assert_eq!(server.read("server.disconnects"), "1");
}

#[test]
fn mistakes_are_named() {
    let long = "SECRET aaaaaaaaaaaaaaaaaaaaaaaaa";
    for (arguments, error) in [
        (&[][..], "SOCKET: required argument missing"),
        (&[""], "SOCKET: required argument missing"),
        (&["/x", "RING_SIZE 100"], "RING_SIZE: expected a power of two up to 16384, found '100'"),
        (&["/x", "RING_SIZE 0"], "RING_SIZE: expected a power of two up to 16384, found '0'"),
        (&["/x", "BUFFER 10"], "BUFFER: it must be 64 to 65536, found '10'"),
        (
            &["/x", "SERVER false", "RING_SIZE 16384", "BUFFER 8192"],
            "BUFFER: 268435456 bytes of buffers altogether; at most 128 MiB",
        ),
        (&["/x", long], "SECRET: bytes of the secret is 25; it must be 0 to 24"),
        (&["/x", "ID many"], "ID: expected unsigned integer, found 'many'"),
        (&["/nowhere/at/all"], "memif /nowhere/at/all: No such file or directory"),
    ] {
        assert_eq!(Bench::error("Memif", arguments), error, "{arguments:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    let mut graph = Graph::default();
    for name in ["first", "second"] {
        graph.add(name, "Memif", &[&path, "ID 2"]);
    }
    let (registry, arena) = (Bench::registry(), Arena::heap(64, 2048));
    let errors = Router::build(&graph.resolved(&registry), &registry, &arena, &NoDevices, 0);
    let errors = format!("{:?}", errors.err().unwrap());
    assert!(errors.contains("ID: another element is interface 2 of this socket"), "{errors}");
}
