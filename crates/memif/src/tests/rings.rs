//! A hostile peer that writes arbitrary values into rings and descriptors.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::eventfd::EventFd;
use proptest::prelude::*;

use crate::layout::{COOKIE, DESCRIPTORS, HEAD, Head, Layout, NEXT, TAIL, ring_bytes};
use crate::ring::Ring;
use crate::sys::{Memory, Region};
use crate::wire::AddRing;
use crate::{Config, Fault, MOST_FRAME_BYTES, Receiver, Transmitter, Violation};

const LOG2_ENTRIES: u8 = 4;
const ENTRIES: u16 = 1 << LOG2_ENTRIES;

fn eventfd() -> OwnedFd {
    EventFd::new().unwrap().into()
}

/// The rings of one victim, and the whole memory as its peer sees it.
struct Victim {
    receiver: Receiver,
    transmitter: Transmitter,
    memory: Arc<Memory>,
    words: usize,
    /// Offsets of its rings in bytes: the ring to receive from, and the ring to transmit into.
    rings: [usize; 2],
}

impl Victim {
    fn new(client: bool) -> Self {
        let config = Config { buffer_bytes: 256, ..Config::default() };
        let layout = Layout::new(&config, 1, 1, LOG2_ENTRIES).unwrap();
        let (region, file) = Region::make(layout.bytes).unwrap();
        let clients = Arc::new(Memory::new(vec![region]));
        let up = Ring::own(&clients, &layout, true, 0, eventfd()).unwrap();
        let down = Ring::own(&clients, &layout, false, 0, eventfd()).unwrap();
        let signal = super::signal();
        let offsets = [true, false].map(|to_server| layout.ring(to_server, 0));
        let region = Region::adopt(&file, 0, u64::from(layout.bytes)).unwrap();
        let servers = Arc::new(Memory::new(vec![region]));
        let words = layout.bytes as usize / 8;
        let [up_at, down_at] = offsets.map(|offset| offset as usize);
        if client {
            return Self {
                receiver: Receiver::new(down),
                transmitter: Transmitter::new(up, signal),
                memory: servers,
                words,
                rings: [down_at, up_at],
            };
        }
        let adopt = |to_server: bool, offset: u32| {
            let said = AddRing {
                to_server,
                index: 0,
                region: 0,
                offset,
                log2_entries: LOG2_ENTRIES,
                private_header_bytes: 0,
            };
            Ring::adopt(&servers, &said, eventfd()).unwrap()
        };
        Self {
            receiver: Receiver::new(adopt(true, offsets[0])),
            transmitter: Transmitter::new(adopt(false, offsets[1]), signal),
            memory: clients,
            words,
            rings: [up_at, down_at],
        }
    }

    fn words(&self) -> &[AtomicU64] {
        self.memory.region(0).unwrap().words(0, self.words).unwrap()
    }

    fn index(&self, ring: usize, field: usize, value: u16) {
        let index = self.memory.region(0).unwrap().short(self.rings[ring] + field).unwrap();
        index.store(value, Ordering::Release);
    }

    fn describe(&self, ring: usize, slot: u16, head: Head, offset: u64) {
        let at = (self.rings[ring] + DESCRIPTORS) / 8 + usize::from(slot % ENTRIES) * 2;
        self.words()[at].store(head.bits(), Ordering::Release);
        self.words()[at + 1].store(offset, Ordering::Release);
    }

    /// Uses both rings, and checks the properties that must hold for any peer.
    fn work(&mut self) {
        let before = self.receiver.counters();
        let mut passed = 0;
        let result = self.receiver.receive_with(256, |frame| {
            passed += 1;
            assert!((1..=MOST_FRAME_BYTES).contains(&frame.bytes()));
            let mut copy = [0; MOST_FRAME_BYTES];
            assert!(frame.copy_to(&mut copy[..frame.bytes()]));
        });
        let after = self.receiver.counters();
        assert_eq!(after.frames - before.frames, passed);
        assert!(passed + after.malformed - before.malformed <= u64::from(ENTRIES));
        match result {
            Ok(count) => assert_eq!(count as u64, passed),
            Err(fault) => assert!(matches!(fault, Fault::Index { .. })),
        }
        let frames = [&[7; 64][..], &[8; 1500], &[9; 60]];
        if let Ok(sent) = self.transmitter.transmit(&frames) {
            assert!(sent <= 3);
        }
    }
}

/// The writes of a hostile peer: any word, or a plausible word at the right place.
#[derive(Debug, Clone)]
enum Write {
    Word(usize, u64),
    Index(bool, bool, u16),
    Descriptor { receive: bool, slot: u16, flags: u16, region: u16, bytes: u32, offset: u32 },
    Work,
}

fn write() -> impl Strategy<Value = Write> {
    let number = prop_oneof![0u32..20_000, Just(u32::MAX), any::<u32>()];
    let descriptor = (any::<bool>(), 0..ENTRIES, 0u16..2, 0u16..2, number.clone(), number);
    prop_oneof![
        1 => (any::<usize>(), any::<u64>()).prop_map(|(at, word)| Write::Word(at, word)),
        2 => (any::<bool>(), any::<bool>(), prop_oneof![0u16..40, any::<u16>()])
            .prop_map(|(receive, head, value)| Write::Index(receive, head, value)),
        4 => descriptor.prop_map(|(receive, slot, flags, region, bytes, offset)| {
            Write::Descriptor { receive, slot, flags, region, bytes, offset }
        }),
        2 => Just(Write::Work),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// No writes make either role panic, access memory outside its own, or loop forever.
    #[test]
    fn any_writing_ends_in_frames_drops_or_errors(
        client: bool, writes in prop::collection::vec(write(), 1..60),
    ) {
        let mut victim = Victim::new(client);
        for write in writes {
            match write {
                Write::Word(at, word) => {
                    victim.words()[at % victim.words].store(word, Ordering::Relaxed);
                }
                Write::Index(receive, head, value) => {
                    victim.index(usize::from(receive), if head { HEAD } else { TAIL }, value);
                }
                Write::Descriptor { receive, slot, flags, region, bytes, offset } => {
                    let head = Head { flags, region, bytes };
                    victim.describe(usize::from(receive), slot, head, u64::from(offset));
                }
                Write::Work => victim.work(),
            }
        }
        victim.work();
    }
}

#[test]
fn descriptors_that_point_nowhere_are_dropped_and_counted() {
    let mut victim = Victim::new(false);
    let good = Head { flags: 0, region: 0, bytes: 64 };
    let descriptors = [
        (good, 4096),
        (Head { region: 1, ..good }, 0),
        (Head { bytes: 0, ..good }, 0),
        (Head { bytes: u32::MAX, ..good }, 0),
        (good, u64::from(u32::MAX)),
        (Head { bytes: 65536, ..good }, 0),
        (good, 4096),
        // Two descriptors in a chain, the second out of range; and a chain without an end.
        (Head { flags: NEXT, ..good }, 4096),
        (Head { region: 9, ..good }, 4096),
        (good, 4096),
        (Head { flags: NEXT, ..good }, 4096),
        (Head { flags: NEXT, ..good }, 4096),
    ];
    for (slot, (head, offset)) in descriptors.into_iter().enumerate() {
        victim.describe(0, slot as u16, head, offset);
    }
    victim.index(0, HEAD, 12);
    assert_eq!(victim.receiver.receive_with(256, |frame| assert_eq!(frame.bytes(), 64)), Ok(3));
    assert_eq!(victim.receiver.counters().malformed, 7);
    assert_eq!(victim.receiver.waiting(), Ok(0));
}

#[test]
fn a_client_believes_no_place_and_no_length_that_its_server_writes() {
    let mut victim = Victim::new(true);
    // The first frame is valid whatever place its descriptor contains: the client knows its own
    // places.
    victim.describe(0, 0, Head { flags: 0, region: 77, bytes: 64 }, u64::MAX);
    victim.describe(0, 1, Head { flags: 0, region: 0, bytes: 257 }, 0);
    victim.index(0, TAIL, 2);
    assert_eq!(victim.receiver.receive_with(256, |_| {}), Ok(1));
    assert_eq!(victim.receiver.counters().malformed, 1);
}

#[test]
fn indices_that_jump_are_faults_that_stay() {
    for (client, field) in [(false, HEAD), (true, TAIL)] {
        for value in [ENTRIES + 1, u16::MAX] {
            let mut victim = Victim::new(client);
            victim.index(0, field, value);
            let fault = Fault::Index { found: value, entries: ENTRIES };
            for _ in 0..2 {
                assert_eq!(victim.receiver.receive_with(9, |_| panic!("a frame")), Err(fault));
                assert_eq!(victim.receiver.waiting(), Err(fault));
            }
        }
    }
    let mut victim = Victim::new(true);
    victim.index(1, TAIL, 1);
    let fault = Fault::Index { found: u16::MAX, entries: ENTRIES };
    assert_eq!(victim.transmitter.room(), Err(fault));
    let frames = [&[0; 64][..]; 17];
    assert_eq!(victim.transmitter.transmit(&frames), Err(fault));
    let mut victim = Victim::new(false);
    victim.index(1, HEAD, 4);
    victim.describe(1, 2, Head { flags: 0, region: 0, bytes: 0 }, 0);
    let fault = Fault::Buffer { region: 0, offset: 0, bytes: 0 };
    assert_eq!(victim.transmitter.transmit(&frames[..4]), Err(fault));
    assert_eq!(victim.transmitter.counters().frames, 2, "those before it are on their way");
}

#[test]
fn rings_lie_inside_their_region_and_bear_their_mark() {
    let (region, _file) = Region::make(8192).unwrap();
    let memory = Arc::new(Memory::new(vec![region]));
    let said = AddRing {
        to_server: true,
        index: 0,
        region: 0,
        offset: 0,
        log2_entries: LOG2_ENTRIES,
        private_header_bytes: 0,
    };
    let refused = |said: AddRing| Ring::adopt(&memory, &said, eventfd()).err();
    let end = 8192 - ring_bytes(LOG2_ENTRIES) as u32;
    for (region, offset) in [(1, 0), (0, 4), (0, end + 8), (0, u32::MAX - 7)] {
        let found = refused(AddRing { region, offset, ..said });
        assert_eq!(found, Some(Violation::RingPlace { region, offset }));
    }
    let found = refused(said);
    assert_eq!(found, Some(Violation::Cookie { region: 0, offset: 0, found: 0 }));
    memory.chunk(0, end, 4).unwrap().copy_from(&COOKIE.to_ne_bytes());
    assert_eq!(refused(AddRing { offset: end, ..said }), None);
}
