//! Rings of servers in virtual time: joins, leaves, crashes, loss, look-ups, and triggers that
//! survive.

mod world;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use europa_i3::client::{Arrived, Client};
use europa_i3::server::Datagrams;
use europa_i3::{Id, Named};
use world::{World, at};

const SECOND: Duration = Duration::from_secs(1);

/// Look-ups agree with a search through all servers. Returns the mean number of hops.
fn look_ups(world: &mut World, count: u32) -> f64 {
    let mut sum = 0.0;
    for _ in 0..count {
        let (from, key) = (world.any(), world.key());
        let (owner, hops) = world.look_up(from, key).expect("an answer");
        assert_eq!(owner, world.oracle(&key), "{key:?} from {from}");
        sum += f64::from(hops);
    }
    sum / f64::from(count)
}

#[test]
fn rings_of_all_sizes_settle_and_answer() {
    for count in [1_u16, 2, 3, 5, 16, 17, 32, 64] {
        let mut world = World::ring(u64::from(count), count);
        let time = world.settle(10 * SECOND);
        // Two fingers are looked up in each half second.
        world.run(10 * SECOND);
        let hops = look_ups(&mut world, 200);
        let wanted = f64::from(count).log2() / 2.0;
        println!(
            "{count} servers: settled after {time:?}, {hops:.2} hops, half of log2 {wanted:.2}"
        );
        assert!(hops <= wanted + 1.2, "{hops} hops");
    }
}

#[test]
fn half_of_the_servers_die_at_once() {
    for (seed, lost) in [(1, 0), (2, 0), (3, 20), (4, 50)] {
        let mut world = World::ring(seed, 32);
        world.settle(10 * SECOND);
        world.lost = lost;
        let mut all: Vec<SocketAddr> = world.servers.keys().copied().collect();
        world.random.shuffle(&mut all);
        all.iter().take(16).for_each(|at| world.kill(*at));
        let time = world.settle(10 * SECOND);
        println!("{lost} of 1000 lost: settled after {time:?}");
        world.lost = 0;
        world.run(10 * SECOND);
        look_ups(&mut world, 100);
    }
}

/// At any time a list of successors is in order and without the server itself.
fn invariants(world: &World) {
    for server in world.servers.values() {
        let me = server.ring().me();
        let list = &server.ring().neighbours().successors;
        let mut last = me.id;
        for one in list {
            assert!(one.id.is_between(&last, &me.id), "{}: {list:?}", me.at);
            last = one.id;
        }
    }
}

#[test]
fn servers_come_and_go() {
    for seed in 0..12 {
        let mut world = World::ring(100 + seed, 20);
        world.lost = 10;
        let mut next = 20;
        for _ in 0..30 {
            match world.random.u32(..4) {
                0 | 1 => {
                    world.start(next);
                    next += 1;
                }
                2 if world.servers.len() > 4 => {
                    let one = world.any();
                    world.kill(one);
                }
                _ if world.servers.len() > 4 => {
                    let one = world.any();
                    world.leave(one);
                }
                _ => {}
            }
            let pause = world.random.u64(50..1_500);
            world.run(Duration::from_millis(pause));
            invariants(&world);
        }
        world.lost = 0;
        // A server that has not yet reached a live server joins later.
        let time = world.settle(20 * SECOND);
        println!("{} servers settled after {time:?}", world.servers.len());
    }
}

/// All servers start together with the same list; later the network is split for a time.
#[test]
fn a_split_ring_becomes_one_again() {
    for seed in [1, 2, 3] {
        let mut world = World::new(200 + seed);
        world.list = (0..16).map(at).collect();
        (0..16).for_each(|number| world.start(number));
        let joined = world.settle(30 * SECOND);
        let mut all = world.list.clone();
        world.random.shuffle(&mut all);
        world.part = all.iter().take(8).copied().collect();
        world.run(20 * SECOND);
        // Each part forms a ring.
        for one in &all {
            let ring = world.servers[one].ring();
            let other = |next: &&europa_i3::Member| {
                world.part.contains(&next.at) != world.part.contains(one)
            };
            assert_eq!(ring.neighbours().successors.iter().find(other), None);
        }
        world.part.clear();
        let merged = world.settle(60 * SECOND);
        println!("joined after {joined:?}, one ring again after {merged:?}");
        look_ups(&mut world, 50);
    }
}

fn named(text: &str) -> Named {
    text.parse().expect("an id")
}

/// Adds a client that has the addresses of all servers.
fn client(world: &mut World, number: u16) -> SocketAddr {
    let servers: Vec<SocketAddr> = world.servers.keys().copied().collect();
    let client = Client::new(at(number), servers, u64::from(number));
    world.clients.insert(at(number), client);
    at(number)
}

fn insert(world: &mut World, to: SocketAddr, name: &str) -> Id {
    let trigger = named(name).to_host(to.into(), None).expect("a trigger");
    let id = trigger.id;
    let now = world.now;
    world.clients.get_mut(&to).expect("a client").insert(now, trigger);
    id
}

fn send(world: &mut World, from: SocketAddr, stack: &[Id], payload: &str) {
    let mut out = Datagrams::new();
    let now = world.now;
    let client = world.clients.get_mut(&from).expect("a client");
    client.send(now, stack.to_vec(), payload.as_bytes(), &mut out);
    world.post(from, out);
}

/// Payloads that a client has received since the last call, in order.
fn got(world: &mut World) -> Vec<(SocketAddr, String)> {
    let arrived = std::mem::take(&mut world.arrived);
    let data = arrived.into_iter().filter_map(|(_, at, one)| match one {
        Arrived::Data(_, payload) => Some((at, String::from_utf8(payload).expect("text"))),
        _ => None,
    });
    data.collect()
}

#[test]
fn anycast_multicast_mobility_stacks_and_backups() {
    let mut world = World::ring(7, 8);
    let sender = client(&mut world, 1000);
    let [a, b, c] = [1001, 1002, 1003].map(|number| client(&mut world, number));
    let both = insert(&mut world, a, "both");
    insert(&mut world, b, "both");
    let near = insert(&mut world, a, "any/a");
    let far = insert(&mut world, b, "any/b");
    let own = insert(&mut world, c, "own");
    world.run(3 * SECOND);
    assert!(world.clients.values().all(Client::is_inserted));

    let x = |at: SocketAddr| (at, "x".to_owned());
    send(&mut world, sender, &[both], "x");
    world.run(SECOND);
    let mut seen = got(&mut world);
    seen.sort();
    assert_eq!(seen, [x(a), x(b)], "multicast");
    for (id, wanted) in [(near, a), (far, b), (near.with_suffix(near.suffix() ^ 1), a)] {
        send(&mut world, sender, &[id], "x");
        world.run(SECOND);
        assert_eq!(got(&mut world), [x(wanted)], "anycast");
    }
    // The first id has no trigger; the next id is its backup.
    send(&mut world, sender, &[Id([9; 32]), own], "x");
    world.run(SECOND);
    assert_eq!(got(&mut world), [x(c)], "backup");
    // A trigger to ids, followed by the rest of the packet's stack.
    let chain = named("chain").to_ids(vec![own]).expect("a trigger");
    let (id, now) = (chain.id, world.now);
    world.clients.get_mut(&a).expect("a client").insert(now, chain);
    world.run(3 * SECOND);
    world.arrived.clear();
    send(&mut world, sender, &[id, both], "x");
    world.run(SECOND);
    let stacks: Vec<&Vec<Id>> = world
        .arrived
        .iter()
        .filter_map(|(_, at, one)| match one {
            Arrived::Data(stack, _) if *at == c => Some(stack),
            _ => None,
        })
        .collect();
    assert_eq!(stacks, [&vec![own, both]]);
    world.arrived.clear();
    // The receiver moves.
    let mut moved = world.clients.remove(&c).expect("a client");
    let mut out = Datagrams::new();
    moved.move_to(world.now, at(1004), &mut out);
    world.clients.insert(at(1004), moved);
    world.post(at(1004), out);
    world.run(SECOND);
    world.arrived.clear();
    send(&mut world, sender, &[own], "x");
    world.run(SECOND);
    assert_eq!(got(&mut world), [x(at(1004))], "mobility");
    // Without a trigger the sender gets an answer.
    world.run(10 * SECOND);
    send(&mut world, sender, &[Id([9; 32])], "x");
    world.run(SECOND);
    assert!(
        world
            .arrived
            .iter()
            .any(|(_, at, one)| { *at == sender && *one == Arrived::NotPresent(Id([9; 32])) })
    );
}

/// Only servers to which the host has sent can reach it. The responsible server is another one at
/// first.
#[test]
fn a_host_behind_a_nat_receives() {
    let mut world = World::ring(11, 8);
    let sender = client(&mut world, 1000);
    for number in 0..8 {
        let host = client(&mut world, 2000 + number);
        let outside = SocketAddr::from(([198, 51, 100, 1], 40_000 + number));
        world.nat.insert(host, outside);
        let id = insert(&mut world, host, &format!("host {number}"));
        world.run(3 * SECOND);
        assert!(world.clients[&host].is_inserted(), "{number}");
        for _ in 0..12 {
            send(&mut world, sender, &[id], "x");
            world.run(SECOND);
            assert_eq!(got(&mut world), [(host, "x".to_owned())], "{number}");
        }
    }
    // The packets of the host show the address of the NAT.
    let known = world.servers.values().filter(|one| one.counters().unknown_hosts > 0).count();
    assert_eq!(known, 0);
}

#[test]
fn push_back_removes_triggers_to_nobody() {
    let mut world = World::ring(8, 8);
    world.run(10 * SECOND);
    let (sender, holder) = (client(&mut world, 1000), client(&mut world, 1001));
    let chain = named("chain").to_ids(vec![Id([7; 32])]).expect("a trigger");
    let (id, now) = (chain.id, world.now);
    world.clients.get_mut(&holder).expect("a client").insert(now, chain);
    world.run(2 * SECOND);
    send(&mut world, sender, &[id], "x");
    world.run(SECOND);
    world.arrived.clear();
    send(&mut world, sender, &[id], "x");
    world.run(SECOND);
    let nobody = (sender, Arrived::NotPresent(id));
    assert!(world.arrived.iter().any(|(_, at, one)| (*at, one) == (nobody.0, &nobody.1)));
    let removed: u64 = world.servers.values().map(|one| one.counters().pushed_back).sum();
    assert_eq!(removed, 1);
}

/// A chain leads back to itself by its stack: the constraint checks only the first id.
#[test]
fn loops_end() {
    let mut world = World::ring(9, 8);
    let (sender, holder) = (client(&mut world, 1000), client(&mut world, 1001));
    use europa_i3::constraint::{Side, of_id};
    use europa_i3::wire::{Address, Trigger};
    // The right constraint allows a to b; the left constraint, with b's own key, allows b to a.
    let a = Id([2; 32]).with_public(false);
    let b = Id([4; 32]).with_public(false).with_key(of_id(Side::Right, &a));
    let back = Id([6; 32]).with_public(false).with_key(of_id(Side::Right, &b));
    let now = world.now;
    let client = world.clients.get_mut(&holder).expect("a client");
    for (from, to) in [(a, b), (b, back)] {
        let stack = Address::Stack(vec![to, from]);
        client.insert(now, Trigger::new(from, stack, Default::default()));
    }
    world.run(3 * SECOND);
    assert!(world.clients.values().all(Client::is_inserted));
    send(&mut world, sender, &[a], "x");
    world.run(20 * SECOND);
    let sum = |get: fn(&europa_i3::server::Counters) -> u64| -> u64 {
        world.servers.values().map(|one| get(one.counters())).sum()
    };
    assert!(sum(|counters| counters.looping + counters.long_stacks) > 0);
    assert!(sum(|counters| counters.forwarded) < 2_000);
}

#[test]
fn triggers_survive_half_of_the_servers() {
    let mut world = World::ring(10, 32);
    let (sender, receiver) = (client(&mut world, 1000), client(&mut world, 1001));
    let ids: Vec<Id> = (0..100).map(|n| insert(&mut world, receiver, &format!("id {n}"))).collect();
    world.run(5 * SECOND);
    assert!(world.clients.values().all(Client::is_inserted));
    world.run(2 * SECOND);
    // The servers that have each trigger.
    let now = world.now;
    let holders = |world: &World, id: &Id| -> BTreeSet<SocketAddr> {
        let has = |server: &europa_i3::server::Server| {
            !server.table().all(now, |prefix| *prefix == id.prefix()).is_empty()
        };
        world.servers.iter().filter(|(_, one)| has(one)).map(|(at, _)| *at).collect()
    };
    let kept: Vec<BTreeSet<SocketAddr>> = ids.iter().map(|id| holders(&world, id)).collect();
    assert!(kept.iter().all(|all| all.len() >= 4), "{kept:?}");
    let mut all: Vec<SocketAddr> = world.servers.keys().copied().collect();
    world.random.shuffle(&mut all);
    let dead: BTreeSet<SocketAddr> = all.into_iter().take(16).collect();
    dead.iter().for_each(|at| world.kill(*at));
    let survives = |number: usize| kept[number].iter().any(|at| !dead.contains(at));
    // Packets are sent all the time; the receiver refreshes its triggers as usual.
    let start = world.now;
    let mut first: Vec<Option<Duration>> = vec![None; ids.len()];
    while world.now < start + 19 * SECOND {
        for (number, id) in ids.iter().enumerate() {
            send(&mut world, sender, &[*id], &number.to_string());
        }
        world.run(SECOND / 2);
        let after = world.now - start;
        for (_, payload) in got(&mut world) {
            let number: usize = payload.parse().expect("a number");
            first[number].get_or_insert(after);
        }
    }
    for (number, first) in first.iter().enumerate() {
        let limit = if survives(number) { 10 * SECOND } else { 19 * SECOND };
        assert!(first.is_some_and(|at| at <= limit), "{number}: {first:?}, not {limit:?}");
    }
    let with = (0..ids.len()).filter(|number| survives(*number)).count();
    println!("{with} of 100 had a copy; the last delivered after {:?}", first.iter().max());
}
