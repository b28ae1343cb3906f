//! Prints the cost of look-ups in a real routing table:
//!
//! ```text
//! cargo run --release -p europa-lookup --example rate FILE.gz
//! ```
//!
//! The file has one prefix a line, IPv4 or IPv6 or both. In "chained" each address depends on the
//! former answer (latency); in "one by one" and "batch" it does not. Figures are medians of five
//! runs.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::Random;
use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::{Ipv4Prefix, Ipv6Prefix};

const ADDRESSES: usize = 1 << 20;
const BATCH: usize = 256;

/// Nanoseconds of `run` for each of [`ADDRESSES`].
fn nanoseconds(mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e9 / ADDRESSES as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

fn rates<T: RouteTable>(table: &T, what: &str, addresses: &[T::Address]) {
    let chained = nanoseconds(|| {
        let mut at = 0;
        for step in 0..ADDRESSES {
            let next_hop = table.lookup(addresses[at]).map_or(0, NextHop::get);
            // The index depends on the answer, but is always the next one.
            at = (step + 1 + usize::from(next_hop >> 15)) % ADDRESSES;
        }
        black_box(at);
    });
    let single = nanoseconds(|| {
        let found = addresses.iter().map(|&a| u64::from(table.lookup(a).map_or(0, NextHop::get)));
        black_box(found.sum::<u64>());
    });
    let mut next_hops = [0; BATCH];
    let batch = nanoseconds(|| {
        for addresses in addresses.chunks(BATCH) {
            table.lookup_batch(addresses, &mut next_hops);
            black_box(&next_hops);
        }
    });
    println!("  {what:<28} chained {chained:6.2}  one by one {single:6.2}  batch {batch:6.2} ns");
}

fn fill<T: RouteTable>(mut table: T, routes: &[(T::Prefix, NextHop)]) -> T {
    let (mut refused, start) = (0, Instant::now());
    for &(prefix, next_hop) in routes {
        refused += usize::from(table.insert(prefix, next_hop).is_err());
    }
    let build = start.elapsed();
    let each = build.as_nanos() as f64 / routes.len().max(1) as f64;
    let mib = table.memory_bytes() as f64 / f64::from(1 << 20);
    println!(
        "{} routes ({refused} refused): built in {:.0} ms, {each:.0} ns a route, at most {mib:.0} MiB",
        table.len(),
        build.as_secs_f64() * 1e3,
    );
    table
}

/// Removes a thousandth of the routes and adds them again.
fn update<T: RouteTable>(table: &mut T, routes: &[(T::Prefix, NextHop)]) {
    let some: Vec<_> = routes.iter().step_by(1000).collect();
    let (mut longest, start) = (0.0f64, Instant::now());
    for &&(prefix, next_hop) in &some {
        let begin = Instant::now();
        table.remove(prefix);
        let _ = table.insert(prefix, next_hop);
        longest = longest.max(begin.elapsed().as_secs_f64());
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / some.len().max(1) as f64;
    println!("  remove and insert again: {each:.2} µs a route, at most {:.0} µs", longest * 1e6);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: rate FILE.gz")?;
    let routes = common::read(path.as_ref())?;
    let hop = |number| NextHop::new(number).expect("small");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);

    if !routes.four.is_empty() {
        print!("IPv4, ");
        let mut table = fill(Dir24::new(), &routes.four);
        update(&mut table, &routes.four);
        let any: Vec<u32> = (0..ADDRESSES).map(|_| random.next() as u32).collect();
        let routed: Vec<u32> = (0..ADDRESSES).map(|_| random.in_four(&routes.four)).collect();
        rates(&table, "any address", &any);
        rates(&table, "any address of any route", &routed);
        print!("IPv4, ");
        let two: [(Ipv4Prefix, _); 2] =
            [("10.0.1.0/24".parse()?, hop(1)), ("10.0.2.0/24".parse()?, hop(2))];
        let table = fill(Dir24::new(), &two);
        let addresses: Vec<u32> = (0..ADDRESSES).map(|_| random.in_four(&two)).collect();
        rates(&table, "any address of any route", &addresses);
    }
    if !routes.six.is_empty() {
        print!("IPv6, ");
        let mut table = fill(Multibit6::new(), &routes.six);
        update(&mut table, &routes.six);
        let routed: Vec<u128> = (0..ADDRESSES).map(|_| random.in_six(&routes.six)).collect();
        rates(&table, "any address of any route", &routed);
        print!("IPv6, ");
        let two: [(Ipv6Prefix, _); 2] =
            [("2001:db8:1::/48".parse()?, hop(1)), ("2001:db8:2::/48".parse()?, hop(2))];
        let table = fill(Multibit6::new(), &two);
        let addresses: Vec<u128> = (0..ADDRESSES).map(|_| random.in_six(&two)).collect();
        rates(&table, "any address of any route", &addresses);
    }
    Ok(())
}
