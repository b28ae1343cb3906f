//! Our client and our server.

use std::sync::atomic::{AtomicU32, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Pair, join, pair, port};
use crate::{Buffer, Config, Event, MemifError, Receiver, Role, Transmitter};

/// A frame of this number and length that differs from all others.
fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number.wrapping_mul(31) + at * 7 + (at >> 8)) as u8).collect()
}

/// Receives all waiting frames, in batches of 256.
fn receive(receiver: &mut Receiver, room: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let mut memory = vec![0; 256 * room];
        let mut buffers: Vec<_> =
            memory.chunks_mut(room).map(|bytes| Buffer { bytes, length: 0 }).collect();
        match receiver.receive(&mut buffers).unwrap() {
            0 => return frames,
            count => frames.extend(
                buffers[..count].iter().map(|buffer| buffer.bytes[..buffer.length].to_vec()),
            ),
        }
    }
}

/// Sends frames until all have passed, and checks that they arrive whole and in order.
fn passes(transmitter: &mut Transmitter, receiver: &mut Receiver, frames: &[Vec<u8>]) {
    let mut rest: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let batch = rest.len().min(256);
        let sent = transmitter.transmit(&rest[..batch]).unwrap();
        let got = receive(receiver, 9216);
        assert!(sent > 0 || !got.is_empty(), "stuck");
        rest.drain(..sent);
        seen.extend(got);
    }
    assert!(seen == frames, "{} of {} frames", seen.len(), frames.len());
}

#[test]
fn frames_of_all_lengths_pass_both_ways_whole_and_in_order() {
    let cases = [(10, 2048), (0, 2048), (3, 64), (7, 1000), (14, 2048)];
    for (log2_entries, buffer_bytes) in cases {
        // A frame that needs more buffers than exist is never sent.
        let most = (usize::from(1_u16 << log2_entries) * buffer_bytes as usize).min(9000);
        let frames: Vec<_> = (0..600).map(|number| frame(number, 1 + number * 37 % most)).collect();
        let config = Config { log2_entries, buffer_bytes, ..Config::default() };
        let server = Config { log2_entries: 14, ..Config::default() };
        let Pair { mut server_link, mut client_link, .. } = pair(server, config);
        let (up, down) = (&mut client_link, &mut server_link);
        passes(&mut up.transmitters[0], &mut down.receivers[0], &frames);
        passes(&mut down.transmitters[0], &mut up.receivers[0], &frames);
        let bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        for counters in [
            up.transmitters[0].counters(),
            down.receivers[0].counters(),
            down.transmitters[0].counters(),
            up.receivers[0].counters(),
        ] {
            assert_eq!((counters.frames, counters.bytes), (600, bytes));
            assert_eq!((counters.malformed, counters.unfit, counters.interrupts), (0, 0, 0));
        }
    }
}

#[test]
fn indices_go_around_and_a_full_ring_takes_nothing() {
    let Pair { mut server_link, mut client_link, .. } =
        pair(Config::default(), Config { log2_entries: 8, ..Config::default() });
    let frames: Vec<_> = (0..400).map(|number| frame(number, 60)).collect();
    let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let sides = [
        (&mut client_link.transmitters[0], &mut server_link.receivers[0]),
        (&mut server_link.transmitters[0], &mut client_link.receivers[0]),
    ];
    for (transmitter, receiver) in sides {
        for _ in 0..300 {
            assert_eq!(transmitter.room(), Ok(256));
            assert_eq!(transmitter.transmit(&slices), Ok(256));
            assert_eq!(transmitter.transmit(&slices), Ok(0));
            assert_eq!(transmitter.room(), Ok(0));
            assert_eq!(receiver.waiting(), Ok(256));
            let mut number = 0;
            let taken = receiver.receive_with(100, |shown| {
                let mut bytes = [0; 60];
                assert!(shown.copy_to(&mut bytes) && bytes == frames[number][..]);
                number += 1;
            });
            assert_eq!((taken, number), (Ok(100), 100));
            assert_eq!(transmitter.room(), Ok(100));
            assert_eq!(receive(receiver, 64), frames[100..256]);
        }
        assert_eq!(transmitter.counters().frames, 300 * 256);
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let Pair { mut server_link, mut client_link, .. } = pair(Config::default(), Config::default());
    let (long, short, endless) = (frame(1, 3000), frame(2, 64), vec![0; 65536]);
    let transmitter = &mut client_link.transmitters[0];
    let sent = transmitter.transmit(&[&long[..], &[], &short, &endless, &short]);
    assert_eq!(sent, Ok(5));
    assert_eq!((transmitter.counters().frames, transmitter.counters().unfit), (3, 2));
    let receiver = &mut server_link.receivers[0];
    assert_eq!(receive(receiver, 2999), [short.clone(), short]);
    assert_eq!(receiver.counters().unfit, 1);
}

#[test]
fn frames_go_from_mapping_to_mapping() {
    use crate::MappedPacket;
    use crate::sys::Region;
    let Pair { mut server_link, mut client_link, .. } =
        pair(Config::default(), Config { buffer_bytes: 128, ..Config::default() });
    let (_region, file) = Region::make(8192).unwrap();
    let pool = europa_pool::Mapping::new(&file, 8192).unwrap();
    let bytes = frame(7, 1000);
    assert!(pool.copy_in(100, &bytes));
    let packet = MappedPacket { mapping: &pool, offset: 100, bytes: 1000 };
    assert_eq!(client_link.transmitters[0].transmit(&[packet]), Ok(1));
    let taken = server_link.receivers[0].receive_with(9, |frame| {
        assert_eq!((frame.bytes(), frame.segments().len()), (1000, 8));
        assert!(frame.copy_to_mapping(&pool, 7192));
        assert!(!frame.copy_to_mapping(&pool, 7193));
    });
    assert_eq!(taken, Ok(1));
    let mut back = vec![0; 1000];
    assert!(pool.copy_out(7192, &mut back));
    assert_eq!(back, bytes);
}

#[test]
fn a_sender_wakes_only_who_asks_for_it() {
    let Pair { mut server_link, mut client_link, .. } = pair(Config::default(), Config::default());
    let sides = [
        (&mut client_link.transmitters[0], &mut server_link.receivers[0]),
        (&mut server_link.transmitters[0], &mut client_link.receivers[0]),
    ];
    for (transmitter, receiver) in sides {
        let readable = |receiver: &Receiver| {
            let mut wait = [PollFd::new(receiver.interrupt_fd(), PollFlags::POLLIN)];
            poll(&mut wait, PollTimeout::ZERO).unwrap() == 1
        };
        receiver.disarm();
        assert_eq!(transmitter.transmit(&[&[1; 64][..]]), Ok(1));
        assert!(!readable(receiver), "masked");
        assert!(receiver.arm(), "something waits already");
        assert_eq!(receive(receiver, 64).len(), 1);
        assert!(!receiver.arm(), "nothing waits");
        assert_eq!(transmitter.transmit(&[&[1; 64][..]; 200]), Ok(200));
        assert!(readable(receiver), "asked for");
        assert_eq!(transmitter.counters().interrupts, 1, "one for all of them");
        receiver.disarm();
        assert!(!readable(receiver), "taken");
        assert_eq!(receive(receiver, 64).len(), 200);
    }
}

#[test]
fn each_side_gets_what_both_can() {
    let server = Config {
        receive_rings: 2,
        transmit_rings: 3,
        log2_entries: 5,
        name: "west".into(),
        ..Config::default()
    };
    let client = Config {
        receive_rings: 5,
        transmit_rings: 1,
        log2_entries: 9,
        name: "east".into(),
        ..Config::default()
    };
    let Pair { mut server_link, mut client_link, .. } = pair(server, client);
    assert_eq!((server_link.receivers.len(), server_link.transmitters.len()), (1, 3));
    assert_eq!((client_link.receivers.len(), client_link.transmitters.len()), (3, 1));
    assert_eq!((&*server_link.interface, &*client_link.interface), ("east", "west"));
    assert!(server_link.application.starts_with("Europa "));
    assert_eq!(client_link.transmitters[0].room(), Ok(32));
    for (number, transmitter) in server_link.transmitters.iter_mut().enumerate() {
        assert_eq!(transmitter.transmit(&[&frame(number, 100)[..]]), Ok(1));
    }
    for (number, receiver) in client_link.receivers.iter_mut().enumerate() {
        assert_eq!(receive(receiver, 100), [frame(number, 100)]);
    }
}

#[test]
fn peers_go_and_come_again() {
    let mut server = port(Role::Server, Config::default());
    for round in 0..3 {
        let mut client = port(Role::Client, Config::default());
        let (mut ours, mut theirs) = join(&mut server, &mut client).unwrap();
        assert!(server.is_connected() && client.is_connected());
        let frames = [frame(round, 64)];
        passes(&mut theirs.transmitters[0], &mut ours.receivers[0], &frames);
        drop((client, theirs));
        let Some(Event::Disconnected(why)) = server.process() else { panic!("unheard") };
        assert_eq!(why.to_string(), "the peer disconnected: the interface is deleted (code 0)");
        assert!(server.control_fd().is_none() && server.process().is_none());
        // Rings of a connection that has ended do no harm.
        assert_eq!(receive(&mut ours.receivers[0], 64).len(), 0);
        assert!(ours.transmitters[0].transmit(&[&frames[0][..]]).is_ok());
    }
    let mut client = port(Role::Client, Config::default());
    let _links = join(&mut server, &mut client).unwrap();
    server.disconnect("enough");
    let Some(Event::Disconnected(why)) = client.process() else { panic!("unheard") };
    assert!(why.to_string().contains("enough"), "{why}");
}

#[test]
fn wrong_ids_secrets_and_second_clients_are_refused_with_a_reason() {
    let config = Config { secret: crate::secret("sesame").unwrap(), ..Config::default() };
    let mut server = port(Role::Server, config.clone());
    let mut stranger = port(Role::Client, Config::default());
    let refused = join(&mut server, &mut stranger).err().unwrap();
    assert_eq!(refused.to_string(), "the peer is refused: a wrong secret");
    let Some(Event::Disconnected(told)) = stranger.process() else { panic!("not told") };
    assert!(matches!(&told, MemifError::Disconnected { reason, .. } if reason.contains("secret")));

    let mut first = port(Role::Client, config.clone());
    let _links = join(&mut server, &mut first).unwrap();
    let mut second = port(Role::Client, config);
    let refused = join(&mut server, &mut second).err().unwrap();
    assert_eq!(refused.to_string(), "the peer is refused: interface 0 is connected already");
    assert!(server.is_connected() && first.process().is_none(), "the first one stays");
}

#[test]
fn who_falls_asleep_misses_nothing_of_a_peer_without_fences() {
    const ROUNDS: u32 = 100_000;
    let Pair { server_link, client_link, _ports } = pair(Config::default(), Config::default());
    let (begun, sent) = (AtomicU32::new(0), AtomicU32::new(0));
    let (mut transmitter, mut receiver) =
        (server_link.transmitters.into_iter().next().unwrap(), client_link.receivers);
    let receiver = &mut receiver[0];
    let pause = |round: u32| (0..round % 37).for_each(|_| std::hint::spin_loop());
    let asked = |sent: u32| sent & 1 == 1;
    let (mut missed, mut received) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                while begun.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
                // The thread that has just checked for room has the flag's cache line.
                assert!(transmitter.room().is_ok());
                pause(round.wrapping_mul(7));
                let asked = transmitter.transmit_unfenced();
                sent.store(round * 2 + u32::from(asked), Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::Release);
            pause(round);
            let sees = receiver.arm();
            let sent = loop {
                match sent.load(Ordering::Acquire) {
                    sent if sent / 2 == round => break sent,
                    _ => std::thread::yield_now(),
                }
            };
            missed += u32::from(!sees && !asked(sent));
            receiver.disarm();
            received += receiver.receive_with(1, |_| {}).unwrap_or(0);
        }
    });
    assert_eq!((missed, received), (0, ROUNDS as usize));
}
