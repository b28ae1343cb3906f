//! The wire format: pairs of bytes and values, and results for mutated bytes.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use europa_signal::wire::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// An object alone in a message without checksum.
fn with_object(body: &str) -> Vec<u8> {
    let object = from_hex(body);
    let mut bytes = from_hex("10 14 0000 ff 00");
    bytes.extend((8 + object.len() as u16).to_be_bytes());
    bytes.extend(object);
    bytes
}

#[test]
fn objects_are_pairs_of_bytes_and_values() {
    let address = |text: &str| text.parse().unwrap();
    let bucket = TokenBucket {
        rate: 1e6.into(),
        depth: 1000.0.into(),
        peak: f32::INFINITY.into(),
        smallest: 64,
        largest: 1500,
    };
    const BUCKET: &str = "7f 00 0005 49742400 447a0000 7f800000 00000040 000005dc";
    let table: Vec<(String, Object)> = vec![
        (
            "0010 01 07 c0000209 0000 0007 c0000201".into(),
            Object::Session(Session::new(address("192.0.2.9"), 7, address("192.0.2.1"))),
        ),
        (
            "000c 0b 07 c0000201 0000 0003".into(),
            Object::Sender(Sender { address: address("192.0.2.1"), lsp: 3 }),
        ),
        (
            "000c 03 01 c6336401 00000005".into(),
            Object::Hop(Hop { address: address("198.51.100.1"), handle: 5 }),
        ),
        ("0008 05 01 00007530".into(), Object::TimeValues(TimeValues { refresh_ms: 30_000 })),
        (
            "000c 06 01 c0000204 01 18 0002".into(),
            Object::Error(ErrorSpec {
                node: address("192.0.2.4"),
                flags: ErrorSpec::IN_PLACE,
                cause: Cause::BAD_STRICT,
            }),
        ),
        ("0008 08 01 0000000a".into(), Object::Style(Style::FixedFilter)),
        ("0008 08 01 00000012".into(), Object::Style(Style::SharedExplicit)),
        ("0008 08 01 00000011".into(), Object::Style(Style::Other(17))),
        (format!("0024 0c 02 0000 0007 01 00 0006 {BUCKET}"), Object::Tspec(Tspec(bucket))),
        (
            format!("0024 09 02 0000 0007 05 00 0006 {BUCKET}"),
            Object::Flowspec(Flowspec { bucket, service: Service::ControlledLoad }),
        ),
        (
            format!("0030 09 02 0000 000a 02 00 0009 {BUCKET} 82 00 0002 49742400 00000064"),
            Object::Flowspec(Flowspec {
                bucket,
                service: Service::Guaranteed { rate: 1e6.into(), slack_us: 100 },
            }),
        ),
        (
            "0030 0d 02 0000 000a 01 00 0008 04 00 0001 00000002 06 00 0001 49742400 \
             08 00 0001 0000000a 0a 00 0001 000005dc 05 00 0000"
                .into(),
            Object::Adspec(Adspec {
                hops: 2,
                latency_us: 10,
                guaranteed: None,
                ..Adspec::new(1e6.into(), 1500)
            }),
        ),
        ("0008 10 01 000186a0".into(), Object::Label(LabelObject(vec![100_000]))),
        ("0008 13 01 0000 0800".into(), Object::LabelRequest(LabelRequest { protocol: 0x800 })),
        (
            "0014 14 01 01 08 c6336402 20 00 81 08 c0000200 18 00".into(),
            Object::ExplicitRoute(ExplicitRoute(vec![
                ExplicitHop::strict(address("198.51.100.2")),
                ExplicitHop {
                    is_loose: true,
                    node: AbstractNode::Prefix(address("192.0.2.0"), 24),
                },
            ])),
        ),
        (
            "0014 15 01 01 08 c6336401 20 10 03 08 01 01 000186a0".into(),
            Object::RecordRoute(RecordRoute(vec![
                RecordedHop::host(address("198.51.100.1"), RecordedHop::PREEMPTION_PENDING),
                RecordedHop::Label { flags: 1, c_type: 1, label: 100_000 },
            ])),
        ),
        (
            "000c 16 02 00001234 00005678".into(),
            Object::Hello(Hello { is_ack: true, source: 0x1234, destination: 0x5678 }),
        ),
        (
            "000c 17 01 01 123456 00000009".into(),
            Object::MessageId(MessageId { flags: 1, epoch: 0x12_3456, id: 9 }),
        ),
        (
            "000c 18 02 00 123456 00000009".into(),
            Object::MessageIdAck(MessageIdAck { is_nack: true, epoch: 0x12_3456, id: 9 }),
        ),
        (
            "0010 19 01 00 123456 00000009 0000000a".into(),
            Object::MessageIdList(MessageIdList { epoch: 0x12_3456, ids: vec![9, 10] }),
        ),
        (
            "0024 04 01 01 00 010203040506 000000000000004d 07070707070707070707070707070707"
                .into(),
            Object::Integrity(Integrity {
                flags: 1,
                key: 0x0102_0304_0506,
                sequence: 77,
                digest: vec![7; 16],
            }),
        ),
        (
            "0010 40 01 0000 010203040506 09090909".into(),
            Object::Challenge(Challenge { key: 0x0102_0304_0506, cookie: vec![9; 4] }),
        ),
        (
            "000c 83 01 00002710 00004e20".into(),
            Object::RestartCap(RestartCap { restart_ms: 10_000, recovery_ms: 20_000 }),
        ),
        ("0008 86 01 00000008".into(), Object::Capability(Capability(8))),
        (
            "0010 cf 07 04 03 06 05 676f6c6431 000000".into(),
            Object::SessionAttribute(SessionAttribute {
                affinity: None,
                setup: 4,
                hold: 3,
                flags: 6,
                name: b"gold1".to_vec(),
            }),
        ),
        (
            "0018 cf 01 00000001 00000002 00000004 07 00 02 01 67 000000".into(),
            Object::SessionAttribute(SessionAttribute {
                affinity: Some(Affinity { exclude_any: 1, include_any: 2, include_all: 4 }),
                setup: 7,
                hold: 0,
                flags: 2,
                name: b"g".to_vec(),
            }),
        ),
        (
            "0008 70 03 01020304".into(),
            Object::Unknown { class: 0x70, c_type: 3, body: vec![1, 2, 3, 4] },
        ),
        (
            "000c 01 01 c0000209 11 00 0050".into(),
            Object::Unknown { class: 1, c_type: 1, body: vec![192, 0, 2, 9, 17, 0, 0, 80] },
        ),
    ];
    for (bytes, value) in table {
        let bytes = with_object(&bytes);
        let message = Message::decode(&bytes).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        assert_eq!(message.objects, std::slice::from_ref(&value));
        let mut written = Message::new(Kind::Hello, vec![value]).encode();
        written[2..4].fill(0);
        assert_eq!(written, bytes, "{:?}", message.objects);
    }
}

/// The bytes of scapy's `contrib/rsvp`, checksum included.
#[test]
fn another_encoder_s_path_is_read() {
    let bytes = from_hex(
        "1101d60b40000064 00100107c000020900000007c0000201 000c0301c633640100000005 \
         0008050100007530 0008130100000800 000c0b07c000020100000003 \
         00240c0200000007010000067f00000549742400447a00007f80000000000040000005dc",
    );
    let message = Message::decode(&bytes).unwrap();
    let classes: Vec<(u8, u8)> = message.objects.iter().map(Object::class).collect();
    assert_eq!((message.kind, message.ttl, message.flags), (Kind::Path, 64, 1));
    assert_eq!(classes, [(1, 7), (3, 1), (5, 1), (19, 1), (11, 7), (12, 2)]);
    assert_eq!(message.encode(), bytes);
}

#[test]
fn malformed_bytes_are_refused_with_the_reason() {
    let table = [
        ("", Malformed::Short),
        ("10 14 0000 ff 00 0009", Malformed::Length),
        ("10 14 0000 ff 00 000c", Malformed::Short),
        ("20 14 0000 ff 00 0008", Malformed::Version(2)),
        ("10 63 0000 ff 00 0008", Malformed::Kind(0x63)),
        ("10 14 0001 ff 00 0008", Malformed::Checksum),
        ("10 14 0000 ff 00 0008 00", Malformed::Length),
        // Objects: length 0, not a multiple of 4, longer than the message, longer than its fields.
        ("10 14 0000 ff 00 000c 0000 05 01", Malformed::Length),
        ("10 14 0000 ff 00 0010 0006 05 01 00000000", Malformed::Length),
        ("10 14 0000 ff 00 0010 000c 05 01 00000000", Malformed::Short),
        ("10 14 0000 ff 00 0014 000c 05 01 00000000 00000000", Malformed::Trailing),
        // Subobjects: length 0, prefix of 33 bits.
        ("10 14 0000 ff 00 0010 0008 14 01 01 00 0000", Malformed::Length),
        ("10 14 0000 ff 00 0014 000c 14 01 01 08 c0000201 21 00", Malformed::Length),
        // A bundle in a bundle.
        ("10 0c 0000 ff 00 0010 10 0c 0000 ff 00 0008", Malformed::Nested),
    ];
    for (bytes, wanted) in table {
        assert_eq!(Message::decode(&from_hex(bytes)), Err(wanted), "{bytes}");
    }
}

#[test]
fn each_message_type_comes_back_as_it_was() {
    let messages = common::messages();
    let kinds: BTreeSet<Kind> = messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, Kind::ALL.iter().copied().collect());
    for message in messages {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
        // The checksum covers every byte that INTEGRITY does not cover.
        let is_signed = matches!(message.objects.first(), Some(Object::Integrity(_)));
        for at in (0..bytes.len()).filter(|_| !is_signed) {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            assert_ne!(Message::decode(&other).as_ref(), Ok(&message), "byte {at}");
        }
    }
}

#[test]
fn rules_of_unknown_classes() {
    let table = [
        (0x00, UnknownRule::Refuse),
        (0x7f, UnknownRule::Refuse),
        (0x80, UnknownRule::Ignore),
        (0xbf, UnknownRule::Ignore),
        (0xc0, UnknownRule::Forward),
        (0xff, UnknownRule::Forward),
    ];
    for (class, wanted) in table {
        assert_eq!(UnknownRule::of(class), wanted);
    }
}

/// The seeds of the fuzz target: a file for each message here, and for each earlier finding.
/// `EUROPA_WRITE_SEEDS` writes missing files.
#[test]
fn seeds_of_the_fuzz_target_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/rsvp");
    if std::env::var_os("EUROPA_WRITE_SEEDS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (number, message) in common::messages().iter().enumerate() {
            let name = format!("{:?}-{number}", message.kind).to_lowercase();
            fs::write(folder.join(name), message.encode()).unwrap();
        }
    }
    let seeds: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(seeds.len() >= common::messages().len());
    for seed in seeds {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        if let Ok(message) = Message::decode(&bytes) {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}

/// One change of a message's bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Flip(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Copy(usize, usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = 0..400_usize;
    let edge = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(4), Just(8)];
    prop_oneof![
        (at.clone(), edge).prop_map(|(at, value)| Mutation::Set(at, value)),
        (at.clone(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        at.clone().prop_map(Mutation::Cut),
        (at.clone(), prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (at.clone(), 1..20_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (at.clone(), at, 1..40_usize).prop_map(|(from, to, count)| Mutation::Copy(from, to, count)),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let length = bytes.len();
    match mutation {
        _ if length == 0 => (),
        Mutation::Set(at, value) => bytes[at % length] = *value,
        Mutation::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
        Mutation::Cut(at) => bytes.truncate(at % length),
        Mutation::Insert(at, more) => {
            bytes.splice(at % length..at % length, more.iter().copied());
        }
        Mutation::Remove(at, count) => {
            let from = at % length;
            bytes.drain(from..(from + count).min(length));
        }
        Mutation::Copy(from, to, count) => {
            let from = from % length;
            let copied = bytes[from..(from + count).min(length)].to_vec();
            let to = to % length;
            bytes.splice(to..to, copied);
        }
    }
}

/// Number of mutated messages: `EUROPA_MUTATIONS`, by default 10,000.
fn mutations() -> u32 {
    std::env::var("EUROPA_MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

#[test]
fn mutated_messages_are_read_or_refused() {
    let messages: Vec<Vec<u8>> = common::messages().iter().map(Message::encode).collect();
    let config = Config { cases: mutations(), failure_persistence: None, ..Config::default() };
    let strategy = (0..messages.len(), prop::collection::vec(mutation(), 1..6), any::<bool>());
    let mut runner = TestRunner::new(config);
    let mut read = 0;
    let result = runner.run(&strategy, |(which, mutations, mends_length)| {
        let mut bytes = messages[which].clone();
        mutations.iter().for_each(|mutation| apply(&mut bytes, mutation));
        if bytes.len() >= 8 {
            // Without a checksum, which would hide all later errors.
            bytes[2..4].fill(0);
            if mends_length {
                bytes.truncate(bytes.len() & !3);
                let length = (bytes.len() as u16).to_be_bytes();
                bytes[6..8].copy_from_slice(&length);
            }
        }
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
        Ok(())
    });
    result.unwrap();
    // Many mutated messages are valid: the test does not check refusals alone.
    for bytes in &messages {
        read += usize::from(Message::decode(bytes).is_ok());
    }
    assert_eq!(read, messages.len());
}
