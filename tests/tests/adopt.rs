//! A node is killed and started again: switch and routers run on without a gap.

mod tenants;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Sink, Stream, skip_without};
use tenants::{Tenant, Tenants, is_alive, kill_9};

const RATE: u32 = 5_000;

/// Numbered streams through a tenant, both ways.
struct Load {
    streams: Vec<(&'static str, Stream, Sink)>,
}

impl Load {
    fn begin(tenants: &[&Tenant], rate: u32) -> Load {
        let mut streams = Vec::new();
        let names = [["first >", "first <"], ["second >", "second <"]];
        for ((tenant, names), number) in tenants.iter().zip(names).zip([1, 3]) {
            for (from, to, at, name, number) in [
                (&tenant.a, &tenant.b, 1, names[0], number),
                (&tenant.b, &tenant.a, 0, names[1], number + 1),
            ] {
                let at = format!("{}:5000", tenant.addresses[at]);
                let sink = to.sink(&at, number).expect("a sink");
                let stream = from.stream(&at, number, rate, 200).expect("a stream").paced_by(&sink);
                streams.push((name, stream, sink));
            }
        }
        sleep(Duration::from_millis(300));
        Load { streams }
    }

    /// Ends the streams, and returns the number of sent packets.
    fn end(self, what: &str) -> u64 {
        sleep(Duration::from_millis(200));
        let mut all = 0;
        for (name, stream, sink) in self.streams {
            let sent = stream.stop();
            let received = sink.stop(sent);
            eprintln!(
                "{what}: {name} {} of {sent} lost, {} late, longest gap {:?}",
                received.lost, received.late, received.longest_gap
            );
            assert!(received.is_perfect(), "{what}: {name}: {received:?}");
            all += sent;
        }
        all
    }
}

/// The switch and both routers.
fn pids(tenants: &Tenants) -> [Option<i32>; 3] {
    [tenants.switch_pid(), tenants.router_pid("victim"), tenants.router_pid("other")]
}

fn kill_node(tenants: &Tenants) {
    let node = tenants.node_pid().expect("the node runs");
    kill_9(node);
    let start = Instant::now();
    while is_alive(node) {
        assert!(start.elapsed() < Duration::from_secs(5), "the node does not end");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_node_killed_and_started_again_ten_times_loses_nothing() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let before = pids(&tenants);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    let load = Load::begin(&[&tenants.victim, &tenants.other], RATE);
    let mut times = Vec::new();
    for round in 0..10 {
        kill_node(&tenants);
        // Each round kills the node at another moment; one pause is long enough for all pollers to
        // sleep.
        sleep(Duration::from_millis(20 + 37 * round));
        let start = Instant::now();
        tenants.up();
        times.push(start.elapsed());
        assert_eq!(pids(&tenants), before, "round {round}");
        sleep(Duration::from_millis(100));
    }
    times.sort();
    eprintln!("a node that adopts answers after {:?} (median)", times[times.len() / 2]);
    let sent = load.end("ten kills of the node");
    assert!(sent > 20_000, "only {sent} packets");
    let events = tenants.europa(&["events"]);
    assert!(events.contains("Adopted"), "{events}");
    assert!(!events.contains("NotAdopted"), "{events}");
}

#[test]
fn after_adoption_everything_works() {
    skip_without!("nft", "bridge", "tcpdump");
    let tenants = Tenants::new();
    tenants.up();
    let before = pids(&tenants);
    let counted = |slice: &str| {
        let router = tenants.router(slice);
        router["interfaces"][0]["rx_packets"].as_u64().expect("a counter")
    };
    let ping = |tenant: &Tenant| tenant.a.ping(&tenant.addresses[1], 5, &["-i", "0.01"]);
    assert!(ping(&tenants.other).expect("a ping").is_perfect());
    let packets = counted("other");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_string_lossy().into_owned();
    let cut_off = tenants.start(&["capture", "other/r1.in", "-w", &path]);
    sleep(Duration::from_millis(500));
    assert!(ping(&tenants.other).expect("a ping").is_perfect());
    kill_node(&tenants);
    // A capture ends with its node, and its file can be read.
    let ended = cut_off.wait(Duration::from_secs(10)).expect("a capture ends");
    assert!(ended.stderr.contains("the node has ended"), "{}", ended.stderr);
    let read = europa_tests::run(&["tcpdump", "-nr", &path]).expect("a capture file").stdout;
    assert!(read.contains("ICMP echo request"), "{read}");
    tenants.up();
    assert!(counted("other") >= packets, "counters go on");
    let load = Load::begin(&[&tenants.victim], RATE);
    // Statistics, handlers, captures and traces work at the next node.
    assert_eq!(pids(&tenants), before);
    let table = tenants.europa(&["read", "other/r1", "arp1.table"]);
    assert!(table.contains("10.2.2.2"), "{table}");
    tenants.europa(&["write", "other/r1", "route.set", "10.88.0.0/16 10.2.2.2 1"]);
    let found = tenants.europa(&["read", "other/r1", "route.lookup", "10.88.1.1"]);
    assert!(found.contains("10.2.2.2"), "{found}");
    let capturing = tenants.start(&["capture", "other/r1.in", "--count", "3", "-w", "-"]);
    sleep(Duration::from_millis(500));
    assert!(ping(&tenants.other).expect("a ping").is_perfect());
    let captured = capturing.wait(Duration::from_secs(10)).expect("a capture ends");
    assert!(captured.status.success(), "{}", captured.stderr);
    let tracing = tenants.start(&["trace", "other/r1", "icmp"]);
    sleep(Duration::from_millis(500));
    assert!(ping(&tenants.other).expect("a ping").is_perfect());
    let traced = tracing.wait(Duration::from_secs(10)).expect("a trace ends");
    assert!(traced.stdout.contains("received by other/r1.in"), "{}", traced.stdout);
    // A router is restarted, changed, removed, and added again.
    tenants.europa(&["restart", "other/r1"]);
    let start = Instant::now();
    while !ping(&tenants.other).expect("a ping").is_perfect() {
        assert!(start.elapsed() < Duration::from_secs(5), "it does not come back");
    }
    let other = pids(&tenants)[2];
    assert_ne!(other, before[2]);
    let changed = tenants.changed();
    let said = tenants.europa(&["apply", &changed.path().to_string_lossy()]);
    assert!(said.contains("~ router other/r1 (in place)"), "{said}");
    let found = tenants.europa(&["read", "other/r1", "route.lookup", "10.77.1.1"]);
    assert!(found.contains("10.2.2.2"), "{found}");
    tenants.europa(&["delete", "router", "other/r1"]);
    assert!(!ping(&tenants.other).expect("a ping").is_perfect());
    tenants.up();
    assert!(ping(&tenants.other).expect("a ping").is_perfect());
    load.end("changes after adoption");
    assert_eq!(pids(&tenants)[..2], before[..2]);
    // The node restarts a switch that ends now, and the switch has the adopted objects.
    let switch = tenants.switch_pid().expect("the switch runs");
    kill_9(switch);
    tenants.await_switch(switch);
    let start = Instant::now();
    while !ping(&tenants.other).expect("a ping").is_perfect() {
        assert!(start.elapsed() < Duration::from_secs(2), "the new switch does not forward");
    }
    tenants.down();
    for pid in pids_before(&before) {
        assert!(!is_alive(pid), "{pid} still runs");
    }
    assert!(!tenants.directory().exists(), "{} is left", tenants.directory().display());
}

fn pids_before(pids: &[Option<i32>; 3]) -> impl Iterator<Item = i32> {
    pids.iter().copied().flatten()
}

#[test]
fn what_ended_while_no_node_ran_is_started_anew_and_others_go_on() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let before = pids(&tenants);
    let load = Load::begin(&[&tenants.victim], RATE);
    kill_node(&tenants);
    kill_9(before[2].expect("it ran"));
    sleep(Duration::from_millis(50));
    tenants.up();
    let to = &tenants.other.addresses[1];
    let start = Instant::now();
    while !tenants.other.a.ping(to, 3, &["-i", "0.01"]).expect("a ping").is_perfect() {
        assert!(start.elapsed() < Duration::from_secs(5), "it does not come back");
    }
    assert_eq!(pids(&tenants)[..2], before[..2]);
    assert_ne!(pids(&tenants)[2], before[2]);
    load.end("a router killed while no node ran");

    // The same with the switch: routers keep their processes.
    let routers = [tenants.router_pid("victim"), tenants.router_pid("other")];
    let switch = tenants.switch_pid().expect("the switch runs");
    kill_node(&tenants);
    kill_9(switch);
    sleep(Duration::from_millis(50));
    tenants.up();
    let start = Instant::now();
    while !tenants.other.a.ping(to, 3, &["-i", "0.01"]).expect("a ping").is_perfect() {
        assert!(start.elapsed() < Duration::from_secs(5), "the switch does not come back");
    }
    assert_eq!([tenants.router_pid("victim"), tenants.router_pid("other")], routers);

    // Records and processes are of another version.
    let kept = tenants.directory().join("kept");
    let router = tenants.router_pid("other").expect("it runs");
    kill_node(&tenants);
    let record = kept.join(format!("router.{router}.json"));
    let text = fs::read_to_string(&record).expect("a record");
    fs::write(&record, text.replace("\"format\":", "\"format\":1")).expect("a record");
    tenants.up();
    assert!(!is_alive(router), "a router that is not understood ends");
    assert_eq!(tenants.router_pid("victim"), routers[0]);
    let start = Instant::now();
    while !tenants.other.a.ping(to, 3, &["-i", "0.01"]).expect("a ping").is_perfect() {
        assert!(start.elapsed() < Duration::from_secs(5), "it does not come back");
    }
    let events = tenants.europa(&["events"]);
    assert!(events.contains("NotAdopted"), "{events}");
}

/// The highest of these rates at which a stream of 200 bytes a packet loses nothing for a second.
fn most(tenant: &Tenant) -> u32 {
    let at = format!("{}:5000", tenant.addresses[1]);
    let passes = |rate: &u32| {
        let sink = tenant.b.sink(&at, 1).expect("a sink");
        let stream = tenant.a.stream(&at, 1, *rate, 200).expect("a stream");
        sleep(Duration::from_secs(1));
        let sent = stream.stop();
        // A rate that the sender does not reach shows nothing about the router.
        sent > u64::from(*rate) * 9 / 10 && sink.stop(sent).is_perfect()
    };
    let rates = [20_000, 30_000, 45_000, 65_000, 90_000, 120_000, 160_000];
    rates.into_iter().take_while(passes).last().unwrap_or(10_000)
}

#[test]
fn at_half_of_the_maximum_rate_nothing_is_lost() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let tenant = &tenants.victim;
    let most = most(tenant);
    let before = pids(&tenants);
    let at = format!("{}:5000", tenant.addresses[1]);
    let sink = tenant.b.sink(&at, 2).expect("a sink");
    let stream = tenant.a.stream(&at, 2, most / 2, 200).expect("a stream").paced_by(&sink);
    sleep(Duration::from_millis(300));
    for _ in 0..5 {
        kill_node(&tenants);
        sleep(Duration::from_millis(100));
        tenants.up();
        sleep(Duration::from_millis(100));
    }
    let sent = stream.stop();
    let received = sink.stop(sent);
    eprintln!(
        "five kills at {} packets/s, half of {most}: {} of {sent} lost, {} late, longest gap {:?}",
        most / 2,
        received.lost,
        received.late,
        received.longest_gap
    );
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(pids(&tenants), before);
}
