//! Challenged insertions a second, over a real socket.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use europa_i3::constraint::{Side, of_key};
use europa_i3::server::{Server, Settings};
use europa_i3::table::Limits;
use europa_i3::udp::Wire;
use europa_i3::wire::{Packet, PacketOption, Trigger, TriggerUse};
use europa_i3::{Id, Key, Member, Prefix};

const MEASURED: Duration = Duration::from_secs(3);
/// Number of simultaneous insertions.
const WINDOW: usize = 256;

fn packet(me: SocketAddr, trigger: &Trigger) -> Vec<u8> {
    let packet = Packet {
        first_hop: true,
        stack: vec![trigger.id],
        options: vec![
            PacketOption::Sender(me.into()),
            PacketOption::Trigger(TriggerUse::Insert, trigger.clone()),
        ],
        ..Packet::default()
    };
    packet.bytes()
}

/// Inserts new ids as fast as the server answers; returns the number of acknowledgements.
fn insert_all(server: SocketAddr, time: Duration) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let me = socket.local_addr().expect("an address");
    let key = Key([3; 16]);
    let base = Id([0; 32]).with_key(of_key(Side::Left, &key));
    let mut next = 0_u64;
    let mut under_way: HashMap<Id, Instant> = HashMap::new();
    let (start, mut acknowledged) = (Instant::now(), 0);
    let mut buffer = [0; 2048];
    while start.elapsed() < time {
        under_way.retain(|_, sent| sent.elapsed() < Duration::from_millis(200));
        while under_way.len() < WINDOW {
            next += 1;
            // The number of ids stays within the table's limit; later insertions are refreshes with
            // a challenge.
            let id = base.with_suffix((next % 100_000) << 20);
            under_way.insert(id, Instant::now());
            socket.send_to(&packet(me, &Trigger::new(id, me.into(), key)), server).expect("sent");
        }
        for _ in 0..WINDOW / 4 {
            let Ok((length, _)) = socket.recv_from(&mut buffer) else { break };
            let answer = Packet::read(&buffer[..length]).expect("a packet");
            match answer.options.first() {
                Some(PacketOption::Trigger(TriggerUse::Challenge, trigger)) => {
                    socket.send_to(&packet(me, trigger), server).expect("sent");
                }
                Some(PacketOption::Trigger(TriggerUse::Acknowledge, trigger)) => {
                    under_way.remove(&trigger.id);
                    acknowledged += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    acknowledged
}

#[test]
#[ignore = "measures; run it with an idle machine"]
fn challenged_insertions_a_second() {
    let mut wire = Wire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a socket");
    let at = wire.at().expect("an address");
    let settings = Settings {
        me: Member { id: Prefix::of_text("measured"), at },
        seeds: Vec::new(),
        key: Vec::new(),
        replicas: 0,
        limits: Limits::default(),
        secret: [1; 32],
        seed: 1,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let server = thread::spawn(move || {
        let mut server = Server::new(&settings);
        wire.serve(&mut server, || stops.load(Ordering::Relaxed)).expect("it serves");
        server.counters().insertions
    });
    let count = insert_all(at, MEASURED);
    stop.store(true, Ordering::Relaxed);
    let inserted = server.join().expect("the server");
    assert!(inserted >= count && count > 0);
    println!("{:.0} challenged insertions a second", count as f64 / MEASURED.as_secs_f64());
}
