//! Hostile peers: any sequence of messages and descriptors ends in a connection, an error or
//! silence, and leaks no descriptor.
//!
//! There is only one test here: it counts the descriptors of its process.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use europa_memif::{Config, Event, Greetings, MOST_SILENT, MemifError, Port, Role, Signal};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use nix::unistd::{ftruncate, pipe};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

const REGION_BYTES: u64 = 1 << 20;

/// The descriptors that may be sent with a message.
struct Things {
    region: OwnedFd,
    eventfd: OwnedFd,
    pipe: OwnedFd,
}

impl Things {
    fn new() -> Self {
        let region = memfd_create(c"region", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&region, REGION_BYTES as i64).unwrap();
        fcntl(&region, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        Self { region, eventfd: EventFd::new().unwrap().into(), pipe: pipe().unwrap().0 }
    }
}

#[derive(Debug, Clone, Copy)]
enum Thing {
    Region,
    Eventfd,
    Pipe,
}

/// A message: its bytes and descriptors.
#[derive(Debug, Clone)]
struct Say {
    bytes: Vec<u8>,
    things: Vec<Thing>,
}

fn message(kind: u16, parts: &[&[u8]], things: &[Thing]) -> Say {
    let mut bytes = [&kind.to_ne_bytes()[..], &parts.concat()].concat();
    bytes.resize(128, 0);
    Say { bytes, things: things.to_vec() }
}

/// The messages of a correct client, in this order.
fn sound() -> Vec<Say> {
    let ring = |flags: u16, offset: u32| {
        let numbers = [flags, 0, 0].map(u16::to_ne_bytes).concat();
        message(5, &[&numbers, &offset.to_ne_bytes(), &[4, 0, 0]], &[Thing::Eventfd])
    };
    vec![
        message(3, &[&0x0200_u16.to_ne_bytes()], &[]),
        message(4, &[&0_u16.to_ne_bytes(), &REGION_BYTES.to_ne_bytes()], &[Thing::Region]),
        ring(1, 0),
        ring(0, 4096),
        message(6, &[], &[]),
    ]
}

/// The messages of a correct server.
fn answers() -> Vec<Say> {
    let numbers = [0x0200_u16, 0x0200, 0, 0, 0].map(u16::to_ne_bytes).concat();
    let mut all = vec![message(2, &[&[b'x'; 32], &numbers, &[10]], &[])];
    all.extend((0..4).map(|_| message(1, &[], &[])));
    all.push(message(7, &[b"eth0"], &[]));
    all
}

fn thing() -> impl Strategy<Value = Thing> + Clone {
    prop_oneof![Just(Thing::Region), Just(Thing::Eventfd), Just(Thing::Pipe)]
}

/// Any message, or a valid one with one mistake.
fn say() -> impl Strategy<Value = Say> {
    let all: Vec<Say> = sound().into_iter().chain(answers()).collect();
    let things = prop::collection::vec(thing(), 0..4);
    let anything = (prop::collection::vec(any::<u8>(), 0..140), things.clone())
        .prop_map(|(bytes, things)| Say { bytes, things });
    let typed = (0_u16..10, prop::collection::vec(0_u8..3, 126), things.clone()).prop_map(
        |(kind, rest, things): (u16, Vec<u8>, Vec<Thing>)| message(kind, &[&rest[..]], &things),
    );
    let bent = (prop::sample::select(all.clone()), 0_usize..20, any::<u8>()).prop_map(
        |(mut say, at, byte)| {
            say.bytes[at] = byte;
            say
        },
    );
    let laden =
        (prop::sample::select(all.clone()), things).prop_map(|(say, things)| Say { things, ..say });
    prop_oneof![1 => anything, 2 => typed, 2 => bent, 1 => laden, 3 => prop::sample::select(all)]
}

/// A whole conversation: a valid beginning, then any messages.
fn conversation() -> impl Strategy<Value = (bool, usize, Vec<Say>)> {
    (any::<bool>(), 0_usize..8, prop::collection::vec(say(), 0..12))
}

fn sockets() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
}

fn send(socket: &OwnedFd, say: &Say, things: &Things) {
    let raw: Vec<RawFd> = say
        .things
        .iter()
        .map(|thing| match thing {
            Thing::Region => things.region.as_raw_fd(),
            Thing::Eventfd => things.eventfd.as_raw_fd(),
            Thing::Pipe => things.pipe.as_raw_fd(),
        })
        .collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    // A peer that has closed its socket reads no more.
    let _ = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&say.bytes)], control, flags, None);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Uses the rings of a connection.
fn work(event: Option<Event>) -> Option<MemifError> {
    match event {
        Some(Event::Connected(mut link)) => {
            for receiver in &mut link.receivers {
                let _ = receiver.receive_with(256, |frame| assert!(frame.bytes() > 0));
            }
            for transmitter in &mut link.transmitters {
                let _ = transmitter.transmit(&[&[1; 1500][..]; 20]);
            }
            None
        }
        Some(Event::Disconnected(error)) => Some(error),
        None => None,
    }
}

/// Plays a conversation to a victim. Returns whether it connected, and its error.
fn hear(server: bool, says: &[Say], things: &Things, signal: &Signal) -> (bool, Option<String>) {
    let role = if server { Role::Server } else { Role::Client };
    let config = Config { most_memory_bytes: 2 * REGION_BYTES, ..Config::default() };
    let mut port = Port::new(role, config, signal.clone()).unwrap();
    let (ours, theirs) = sockets();
    let mut greetings = Greetings::default();
    if server {
        greetings.add(ours, port.config()).unwrap();
    } else {
        port.connect(ours);
    }
    let (mut connected, mut why) = (false, None);
    for say in says {
        send(&theirs, say, things);
        match greetings.process() {
            Ok(Some(greeting)) => why = port.accept(greeting).err().or(why),
            Ok(None) => {}
            Err(error) => why = Some(error),
        }
        why = work(port.process()).or(why);
        connected |= port.is_connected();
    }
    (connected, why.map(|error| error.to_string()))
}

#[test]
fn no_conversation_breaks_anything_or_leaves_a_descriptor_behind() {
    let (things, signal) = (Things::new(), Signal::new().unwrap());
    let cookie = 0x03E3_1F20_u32.to_ne_bytes();
    for at in [0, 4096] {
        nix::sys::uio::pwrite(&things.region, &cookie, at).unwrap();
    }
    let before = descriptors();
    assert_eq!(hear(true, &sound(), &things, &signal), (true, None));
    assert_eq!(hear(false, &answers(), &things, &signal), (true, None));
    assert_eq!(descriptors(), before);

    wrong_messages_are_named(&things, &signal);
    assert_eq!(descriptors(), before);
    silence_holds_up_nobody();
    assert_eq!(descriptors(), before);

    let mut runner =
        TestRunner::new(Cases { failure_persistence: None, ..Cases::with_cases(3000) });
    let result = runner.run(&conversation(), |(server, begun, says)| {
        let mut all = if server { sound() } else { answers() };
        all.truncate(begun);
        all.extend(says);
        let _ = hear(server, &all, &things, &signal);
        prop_assert_eq!(descriptors(), before);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A valid conversation with one mistake in it.
fn wrong_messages_are_named(things: &Things, signal: &Signal) {
    type Bend = fn(&mut Vec<Say>);
    let cases: &[(bool, Bend, &str)] = &[
        (true, |all| all[1].things.clear(), "a region with 0 descriptors; it takes 1"),
        (
            true,
            |all| all[0].things = vec![Thing::Pipe],
            "an interface with 1 descriptors; it takes 0",
        ),
        (true, |all| all[2].things = vec![Thing::Eventfd; 60], "a ring with 60 descriptors"),
        (true, |all| all[2].things = vec![Thing::Pipe], "is no eventfd"),
        (true, |all| all[1].things = vec![Thing::Pipe], "no F_SEAL_SHRINK"),
        (true, |all| all[1].bytes[4 + 2] = 0x11, "has 1048576"),
        (true, |all| all[1].bytes[4 + 3] = 1, "2097152 are allowed"),
        (true, |all| all[1].bytes[2] = 1, "region 1; next is region 0"),
        (true, |all| all[2].bytes[4] = 1, "ring 1; next in this direction is ring 0"),
        (true, |all| all.insert(3, all[2].clone()), "ring 0; next in this direction is ring 1"),
        (true, |all| all[2].bytes[12] = 11, "2^11 entries; 2^10 are allowed"),
        (true, |all| all[2].bytes[13] = 1, "private headers of 1 bytes"),
        (true, |all| all[2].bytes[8] = 4, "byte 4 of region 0, where it has no room"),
        (true, |all| all[2].bytes[11] = 1, "where it has no room"),
        (true, |all| all[2].bytes[6] = 1, "of region 1, where it has no room"),
        (true, |all| all[2].bytes[9] = 1, "no ring begins at byte 256"),
        (true, |all| drop(all.remove(2)), "no ring from client to server"),
        (true, |all| drop(all.remove(3)), "no ring from server to client"),
        (true, |all| drop(all.remove(0)), "a region while waiting for a request"),
        (true, |all| all.swap(1, 4), "no ring from client to server"),
        (true, |all| all.push(all[1].clone()), "a region while waiting for a goodbye"),
        (true, |all| all[0].bytes[3] = 3, "version 3.0 to 3.0"),
        (true, |all| all[0].bytes[8] = 1, "interface mode 1"),
        (true, |all| all[0].bytes[10] = 1, "a wrong secret"),
        (true, |all| all[3].bytes.truncate(100), "a message of 100 bytes"),
        (true, |all| all[3].bytes[0] = 77, "unknown type 77"),
        (true, |all| all[3] = message(8, &[&[5, 0, 0, 0], b"enough"], &[]), "enough (code 5)"),
        (false, |all| drop(all.remove(0)), "an acknowledgement while waiting for a greeting"),
        (false, |all| all.insert(1, all[0].clone()), "a greeting while waiting for an acknow"),
        (false, |all| all.swap(4, 5), "a confirmation while waiting for an acknow"),
        (false, |all| all.insert(5, all[4].clone()), "acknowledgement while waiting for a conf"),
        (false, |all| all[0].bytes[37] = 1, "version 2.0 to 1.0"),
    ];
    for (server, bend, wanted) in cases {
        let mut says = if *server { sound() } else { answers() };
        bend(&mut says);
        let (_, why) = hear(*server, &says, things, signal);
        let why = why.unwrap_or_else(|| panic!("nothing wrong, but {wanted} wanted"));
        assert!(why.contains(wanted), "{why}, but {wanted} wanted");
    }
}

fn silence_holds_up_nobody() {
    let mut greetings = Greetings::default();
    let clients: Vec<OwnedFd> = (0..100)
        .map(|_| {
            let (ours, theirs) = sockets();
            greetings.add(ours, &Config::default()).unwrap();
            theirs
        })
        .collect();
    assert_eq!(greetings.control_fds().count(), MOST_SILENT);
    send(&clients[99], &sound()[0], &Things::new());
    assert_eq!(greetings.process().unwrap().unwrap().id(), 0);
}
