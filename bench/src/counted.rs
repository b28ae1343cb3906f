//! The hot loops whose instructions are counted. Each loop is prepared, and then runs inside one
//! function that callgrind finds by name. The loops have no threads and no clock, and always the
//! same input.

use europa_elements::registry;
use europa_engine::{Arena, Graph, NoDevices, Router};
use europa_filter::{Change, Key, Rule, Slice, Table, Writer};
use europa_impair::Random;
use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::{Ipv4Prefix, Ipv6Prefix};
use europa_pool::ring::Consumer;
use europa_pool::{Batch, Endpoint, Geometry, Layout, PoolView, Word};
use europa_queue::{Id, Limit, Policy, QueueSettings, Settings, Share, Tree};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::{Context, Error, Result};

/// The function inside which callgrind counts.
pub(crate) const COUNTED: &str = "europa_bench_counted";
const BATCH: usize = 256;
const ADDRESSES: usize = 4096;
const ROUTES: usize = 20_000;
const RULES: u32 = 4096;

/// Does its work once; returns the number of packets or look-ups.
type Work = Box<dyn FnMut() -> Result<u64>>;

/// A hot loop.
pub(crate) struct Loop {
    /// The name of the loop.
    pub(crate) name: &'static str,
    prepare: fn() -> Result<Work>,
}

/// All hot loops.
pub(crate) const LOOPS: [Loop; 10] = [
    Loop { name: "source and sink of the graph", prepare: || router(0) },
    Loop { name: "IPv4 router, 13 elements, source and sink", prepare: || router(PATH.len()) },
    Loop { name: "IPv4 look-up", prepare: || look_up(four()?, one_by_one) },
    Loop { name: "IPv4 look-up in batches of 256", prepare: || look_up(four()?, in_batches) },
    Loop { name: "IPv6 look-up", prepare: || look_up(six()?, one_by_one) },
    Loop { name: "IPv6 look-up in batches of 256", prepare: || look_up(six()?, in_batches) },
    Loop { name: "queue: in and out, 1,000 queues", prepare: queues },
    Loop { name: "filter look-up, not cached", prepare: || filters(false) },
    Loop { name: "filter look-up, cached", prepare: || filters(true) },
    Loop { name: "pool: a slot in, through and out", prepare: slots },
];

/// Callgrind finds the function by this name.
#[inline(never)]
#[unsafe(no_mangle)]
fn europa_bench_counted(work: &mut dyn FnMut()) {
    work();
}

/// Runs a loop once as preparation, and again to be counted. Returns the number of packets or
/// look-ups.
pub(crate) fn run(name: &str) -> Result<u64> {
    let wanted = LOOPS.iter().find(|candidate| candidate.name == name);
    let wanted = wanted.ok_or_else(|| Error::Other(format!("there is no loop `{name}`")))?;
    let mut work = (wanted.prepare)()?;
    work()?;
    let mut units = Ok(0);
    europa_bench_counted(&mut || units = work());
    units
}

/// Click's standard IPv4 router, as in the example `graph` of `europa-elements`.
const PATH: &[(&str, &[&str])] = &[
    ("Classifier", &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]),
    ("Paint", &["1"]),
    ("Strip", &["14"]),
    ("CheckIPHeader", &["INTERFACES 18.26.4.1/24 18.26.7.1/24"]),
    ("GetIPAddress", &["16"]),
    ("RadixIPLookup", &["10.1.0.0/16 10.0.0.1 0", "10.2.0.0/16 10.0.0.2 0"]),
    ("DropBroadcasts", &[]),
    ("PaintTee", &["2"]),
    ("IPGWOptions", &["18.26.4.1"]),
    ("FixIPSrc", &["18.26.4.1"]),
    ("DecIPTTL", &[]),
    ("IPFragmenter", &["1500"]),
    ("EtherEncap", &["0x0800", "2:0:0:0:0:1", "2:0:0:0:0:2"]),
];

/// A frame of 64 bytes to 10.1.2.3, with a correct checksum.
const FRAME: &str = concat!(
    "\\<020000000001020000000009 0800 450000320000000040115ca80a0908070a010203",
    "000000000000000000000000000000000000000000000000000000000000>"
);

fn router(elements: usize) -> Result<Work> {
    let registry = registry();
    let mut graph = Graph::default();
    let mut last = (graph.add("source", "InfiniteSource", &[FRAME, "-1", "256"]), 0);
    let discard = graph.add("discard", "Discard", &[]);
    for (class, arguments) in PATH.iter().take(elements) {
        let element = graph.add(&class.to_lowercase(), class, arguments);
        graph.connect(last.0, last.1, element, 0);
        last = (element, 0);
        match *class {
            "Classifier" => {
                for output in [0, 1, 3] {
                    graph.connect(element, output, discard, 0);
                }
                last.1 = 2;
            }
            "PaintTee" => graph.connect(element, 1, discard, 0),
            _ => {}
        }
    }
    graph.connect(last.0, last.1, discard, 0);
    let graph = graph.resolved(&registry);
    let arena = Arena::heap(4096, 2048);
    let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0)
        .map_err(|errors| Error::Other(format!("the graph: {errors:?}")))?;
    let arrived = |router: &mut Router| -> Result<u64> {
        let text = router.read("discard.count", "").map_err(|e| Error::Other(e.to_string()))?;
        text.trim().parse().map_err(|_| Error::Other(format!("no number of packets: {text}")))
    };
    let (mut now, mut before) = (0, 0);
    Ok(Box::new(move || {
        for _ in 0..100 {
            router.run_once(now, &mut NoDevices);
            now += 1;
        }
        let all = arrived(&mut router)?;
        Ok(all - std::mem::replace(&mut before, all))
    }))
}

type Addresses<A> = Vec<A>;

fn four() -> Result<(Dir24, Addresses<u32>)> {
    let (mut table, mut random, mut addresses) = (Dir24::new(), Random::new(4), Vec::new());
    for number in 0..ROUTES {
        let bits = [24, 24, 24, 22, 23, 20, 16, 28][number % 8];
        let mask = u32::MAX << (32 - u32::from(bits));
        let network = random.bits() as u32 & mask;
        let prefix = Ipv4Prefix::new(network.into(), bits);
        let prefix = prefix.map_err(|error| Error::Other(error.to_string()))?;
        insert(&mut table, prefix, number)?;
        addresses.push(network | random.bits() as u32 & !mask);
    }
    addresses.truncate(ADDRESSES);
    Ok((table, addresses))
}

fn six() -> Result<(Multibit6, Addresses<u128>)> {
    let (mut table, mut random, mut addresses) = (Multibit6::new(), Random::new(6), Vec::new());
    for number in 0..ROUTES {
        let bits = [48, 48, 32, 44, 40, 29, 36, 64][number % 8];
        let mask = u128::MAX << (128 - u32::from(bits));
        // All routes are in 2000::/3.
        let any = u128::from(random.bits()) << 64 | u128::from(random.bits());
        let network = (any >> 3 | 1 << 125) & mask;
        let prefix = Ipv6Prefix::new(network.into(), bits);
        let prefix = prefix.map_err(|error| Error::Other(error.to_string()))?;
        insert(&mut table, prefix, number)?;
        addresses.push(network | any & !mask);
    }
    addresses.truncate(ADDRESSES);
    Ok((table, addresses))
}

fn insert<T: RouteTable>(table: &mut T, prefix: T::Prefix, number: usize) -> Result<()> {
    let hop = NextHop::new((number % 251 + 1) as u16);
    let hop = hop.ok_or_else(|| Error::Other("a next hop of 0".into()))?;
    table.insert(prefix, hop).map(drop).map_err(|error| Error::Other(error.to_string()))
}

fn look_up<T: RouteTable + 'static>(
    (table, addresses): (T, Addresses<T::Address>),
    way: fn(&T, &[T::Address]) -> u64,
) -> Result<Work>
where
    T::Address: 'static,
{
    Ok(Box::new(move || {
        let found = way(&table, &addresses);
        match found == addresses.len() as u64 {
            true => Ok(found),
            false => Err(Error::Other("addresses without a route".into())),
        }
    }))
}

fn one_by_one<T: RouteTable>(table: &T, addresses: &[T::Address]) -> u64 {
    addresses.iter().map(|address| u64::from(table.lookup(*address).is_some())).sum()
}

fn in_batches<T: RouteTable>(table: &T, addresses: &[T::Address]) -> u64 {
    let mut hops = [0; BATCH];
    addresses
        .chunks(BATCH)
        .map(|batch| {
            table.lookup_batch(batch, &mut hops);
            hops.iter().filter(|hop| **hop != 0).count() as u64
        })
        .sum()
}

fn queues() -> Result<Work> {
    let wrong = |error: europa_queue::Error| Error::Other(format!("the queues: {error}"));
    let count = 1000_u32;
    let mut tree: Tree<u64> = Tree::new(Settings::new(count + 8, 16 * count));
    let share = Share::weight(1);
    let scheduler = tree.add_class(Id::PORT, share, Limit::NONE).map_err(wrong)?;
    let slice = tree.add_class(scheduler, share, Limit::NONE).map_err(wrong)?;
    let router = tree.add_class(slice, share, Limit::NONE).map_err(wrong)?;
    let limit = Limit { packets: 100, bytes: 200_000 };
    let settings = QueueSettings { share, limit, policy: Policy::Tail };
    let add = |local: u32| tree.add_queue(router, local as u16, settings);
    let ids: Vec<Id> = (0..count).map(add).collect::<std::result::Result<_, _>>().map_err(wrong)?;
    let mut random = Random::new(7);
    let mut out = Vec::with_capacity(64);
    let mut now = 0;
    Ok(Box::new(move || {
        let mut passed = 0;
        for _ in 0..64 {
            for _ in 0..64 {
                let queue = random.below(count);
                if let Some(id) = ids.get(queue as usize) {
                    let length = 64 + random.below(1400);
                    tree.enqueue(now, *id, u64::from(queue), length, false, |_, _| ());
                }
            }
            now += 10_000;
            out.clear();
            tree.dequeue(now, u64::MAX, &mut out, |_, _| ());
            passed += out.len() as u64;
        }
        Ok(passed)
    }))
}

/// Rules with 32 different masks, and keys that match one rule each.
fn filters(cached: bool) -> Result<Work> {
    const SLICE: Slice = Slice(1);
    let wrong = |error: europa_filter::Error| Error::Other(format!("the filters: {error}"));
    let mut random = Random::new(5);
    let mut rules: Vec<Rule<u64, 2>> = Vec::new();
    for number in 0..RULES {
        let (source, destination) = (8 * random.below(4), 8 + 8 * random.below(3));
        let ports = if random.below(2) == 0 { u64::MAX } else { u64::MAX << 16 };
        let mask: Key<2> = [
            u64::from(u32::MAX.checked_shl(32 - source).unwrap_or(0)) << 32
                | u64::from(u32::MAX << (32 - destination)),
            ports,
        ];
        let value = [random.bits() & mask[0], random.bits() & mask[1]];
        rules.push(Rule { number, priority: number, value, mask, result: number.into() });
    }
    let count = if cached { 64 } else { 2048 };
    let keys: Vec<Key<2>> = (0..count)
        .filter_map(|_| rules.get(random.below(RULES) as usize))
        .map(|rule| rule.value)
        .collect();
    let all: Vec<_> = rules.iter().map(|rule| Change::Add(*rule)).collect();
    if cached {
        let mut writer: Writer<u64, 2> = Writer::new(RULES);
        writer.apply(SLICE, &all).map_err(wrong)?;
        let mut reader = writer.reader(1 << 12);
        return Ok(Box::new(move || {
            // The writer must live as long as the readers.
            let _ = &writer;
            let mut found = 0;
            for _ in 0..64 {
                let mut batch = reader.batch();
                let fits = |key: &&Key<2>| batch.lookup(SLICE, key, 64).is_some();
                found += keys.iter().filter(fits).count() as u64;
            }
            Ok(found)
        }));
    }
    let mut table = Table::new(RULES);
    table.apply(SLICE, &all).map_err(wrong)?;
    Ok(Box::new(move || {
        Ok(keys.iter().filter(|key| table.lookup(SLICE, key).is_some()).count() as u64)
    }))
}

/// A router's side of a pool. The router forwards what it receives; this function acts as the
/// substrate.
fn slots() -> Result<Work> {
    let geometry = Geometry { slots: 1024, slot_bytes: 2048, interfaces: 2 };
    let layout = Layout::new(geometry).map_err(|error| Error::Other(error.to_string()))?;
    let file = memfd_create(c"pool", MFdFlags::MFD_CLOEXEC).context("making a pool")?;
    let bytes = layout.memory_bytes().next_multiple_of(4096);
    nix::unistd::ftruncate(&file, bytes as i64).context("making a pool")?;
    let open = || PoolView::open(&file, geometry).map_err(|error| Error::Other(error.to_string()));
    let substrate = open()?;
    substrate.format(&[]);
    let mut router = Endpoint::new(open()?, vec![[2, 0, 0, 0, 0, 1]; 2]);
    let (mut recycle_head, mut recycle_tail) = (0, substrate.recycle().snapshot().count() as u32);
    let (mut tx_head, mut rx_tail) = (0, 0);
    let mut batch = Batch::new();
    Ok(Box::new(move || {
        let mut passed = 0;
        for _ in 0..16 {
            let mut recycle = Consumer::new(substrate.recycle(), recycle_head);
            for _ in 0..BATCH {
                let Some(free) = recycle.take() else { break };
                let at = substrate.slot_offset(free.slot(), 256);
                substrate.mapping().copy_in(at, &[2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 0]);
                substrate.rx(0).fill(rx_tail, Word::frame(free.slot(), 256, 60, 0));
                rx_tail = rx_tail.wrapping_add(1);
            }
            recycle_head = recycle.head();
            router.receive(0, &mut batch, BATCH);
            router.send(1, &mut batch);
            router.balance();
            let mut tx = Consumer::new(substrate.tx(1), tx_head);
            while let Some(word) = tx.take() {
                substrate.recycle().fill(recycle_tail, Word::free(word.slot()));
                recycle_tail = recycle_tail.wrapping_add(1);
                passed += 1;
            }
            tx_head = tx.head();
        }
        Ok(passed)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_does_what_it_did_before() {
        for one in &LOOPS {
            let first = run(one.name).expect(one.name);
            assert!(first > 0, "{} does nothing", one.name);
            assert_eq!(run(one.name).expect(one.name), first, "{}", one.name);
        }
        assert!(run("none").is_err());
    }

    #[test]
    fn callgrind_finds_the_function_by_its_name() {
        assert_eq!(COUNTED, stringify!(europa_bench_counted));
    }
}
