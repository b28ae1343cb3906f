//! A switch with two workers, between devices with two queues: routers and ports are shared out
//! among the workers, so that of three routers between two ports each has one port on the other
//! worker, and packets are handed over.

mod line;

use std::fs;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use europa_tests::{Leftovers, Received, run, skip_without, skipped};
use line::{Line, ROUTER, ports};

const RATE: u32 = 4_000;
/// Slots of one tenant's pool: so few that an occasional loss would soon stop it.
const SLOTS: u32 = 64;
/// Packets of one stream at once: those of four streams are fewer than [`SLOTS`].
const FEW: u64 = 8;
/// Packets of one stream at once, more than [`SLOTS`]: a slot is used again while the kick that
/// sends it still runs.
const MANY: u64 = 200;
/// The other tenants' networks: 10.N.1.0/24 on the left and 10.N.2.0/24 on the right.
const OTHERS: [u8; 2] = [9, 8];

/// Another tenant's router, with its own process or inside the switch.
fn other(net: u8, more: &str) -> String {
    format!(
        "---\nkind: slice\nname: s{net}\n---\nkind: router\nname: r\nslice: s{net}\n{more}\
         interfaces:\n\
         \x20 in: {{port: left, mac: \"02:00:00:00:{net:02x}:01\", addresses: [10.{net}.1.1/24]}}\n\
         \x20 out: {{port: right, mac: \"02:00:00:00:{net:02x}:02\", addresses: [10.{net}.2.1/24]}}\n\
         fast_path: {{builtin: ipv4}}\n"
    )
}

fn document() -> String {
    let few =
        other(9, "").replace("slice: s9\n", &format!("slice: s9\npool: {{slots: {SLOTS}}}\n"));
    ports() + ROUTER + &few + &other(8, "run: inline\n")
}

/// Three tenants, with addresses of theirs at both hosts; `None` if there is one CPU.
fn line() -> Option<Line> {
    if available_parallelism().map_or(1, usize::from) < 2 {
        skipped("two workers want two CPUs");
        return None;
    }
    let line = Line::with_queues(2);
    for net in OTHERS {
        for (host, near, far) in [(&line.a, 1, 2), (&line.b, 2, 1)] {
            host.address("eth0", &format!("10.{net}.{near}.2/24")).expect("an address");
            host.route(&format!("10.{net}.{far}.0/24"), &format!("10.{net}.{near}.1"))
                .expect("a route");
        }
    }
    // Otherwise hosts resolve neighbours again, and later packets pass those that wait for the
    // answer.
    for net in [0].into_iter().chain(OTHERS) {
        for (host, side) in [(&line.a, 1), (&line.b, 2)] {
            let (address, mac) =
                (format!("10.{net}.{side}.1"), format!("02:00:00:00:{net:02x}:{side:02}"));
            host.neighbour(&address, &mac, "eth0").expect("a neighbour");
        }
    }
    Some(line)
}

fn up(line: &Line, text: &str) {
    line.node.run(&["up", "--workers", "2", &line.node.file("node.yaml", text)]);
}

fn switch(line: &Line) -> i32 {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let entries = fs::read_dir(line.node.directory().join("kept")).expect("a folder");
        let pid = entries.flatten().find_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("switch.")?.strip_suffix(".json")?.parse().ok()
        });
        if let Some(pid) = pid {
            return pid;
        }
        assert!(Instant::now() < limit, "there is no switch");
        sleep(Duration::from_millis(10));
    }
}

/// Clock ticks that each of the switch's workers has run.
fn ticks(pid: i32) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process").flatten();
    let stat = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let of_worker = |stat: String| {
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let ticks = rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
        (!["filters", "losses", "log"].contains(&name)).then(|| ticks.sum())
    };
    stat.filter_map(of_worker).collect()
}

/// Packets that the devices of a switch's own namespace have received and sent. For each such
/// packet the transmit program would run beside a kick, and send or return frames twice.
fn packets_where_programs_are_parked(pid: i32) -> u64 {
    let devices = fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("its devices");
    let devices: Vec<&str> =
        devices.lines().filter_map(|line| Some(line.split_once(':')?.1)).collect();
    assert!(devices.len() > 2, "a worker's program is parked at a device of its own: {devices:?}");
    let field = |device: &str, at| device.split_whitespace().nth(at)?.parse::<u64>().ok();
    devices.iter().flat_map(|device| [1, 9].map(|at| field(device, at).expect("a number"))).sum()
}

/// The results of every tenant's streams, both ways and to two UDP ports each, during `act`. Each
/// stream of the tenant with few slots has `at_once` packets under way.
fn streams(line: &Line, at_once: u64, act: impl FnOnce()) -> Vec<Received> {
    let mut all = Vec::new();
    for net in [0].into_iter().chain(OTHERS) {
        for (from, to, end) in [(&line.a, &line.b, 2), (&line.b, &line.a, 1)] {
            for port in [5000, 5001] {
                let at = format!("10.{net}.{end}.2:{port}");
                let number = all.len() as u64 + 1;
                let sink = to.sink(&at, number).expect("a sink");
                let stream = from.stream(&at, number, RATE, 200).expect("a stream");
                let stream = stream.paced_by(&sink);
                let stream = if net == OTHERS[0] { stream.at_most(at_once) } else { stream };
                all.push((sink, stream));
            }
        }
    }
    act();
    all.into_iter().map(|(sink, stream)| sink.stop(stream.stop())).collect()
}

/// Waits until all hosts answer.
fn await_all(line: &Line) {
    for net in [0].into_iter().chain(OTHERS) {
        let limit = Instant::now() + Duration::from_secs(10);
        let to = format!("10.{net}.2.2");
        while line.a.ping(&to, 1, &[]).expect("a ping").received == 0 {
            assert!(Instant::now() < limit, "{to} does not answer");
        }
    }
}

/// Checks that the tenant with few slots has all of them, and the switch holds none.
fn nothing_is_lost(line: &Line) {
    let sink = line.b.sink("10.9.2.2:5000", 99).expect("a sink");
    let stream = line.a.stream("10.9.2.2:5000", 99, 1000, 200).expect("a stream");
    let stream = stream.paced_by(&sink).at_most(FEW);
    sleep(Duration::from_secs(1));
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{received:?}");
    let held = fs::read(line.node.directory().join("kept/held")).expect("the held slots");
    let held: u32 = held.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(held, 0, "slots that the switch still holds");
}

#[test]
fn packets_are_handed_over_in_order_and_without_loss() {
    skip_without!("ping", "iperf3");
    let Some(line) = line() else { return };
    up(&line, &document());
    await_all(&line);
    let pid = switch(&line);
    let before = ticks(pid);
    assert_eq!(before.len(), 2, "two workers");
    let all = streams(&line, FEW, || sleep(Duration::from_secs(3)));
    assert!(all.iter().all(Received::is_perfect), "{all:#?}");
    let after = ticks(pid);
    let ran: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    eprintln!("{} streams of {RATE} packets/s; clock ticks of the workers: {ran:?}", all.len());
    assert!(ran.iter().all(|ran| *ran > 0), "one worker did nothing: {ran:?}");
    assert_eq!(packets_where_programs_are_parked(pid), 0);
    let server = line.b.iperf_server().expect("a server");
    for net in [0].into_iter().chain(OTHERS) {
        let told = line.a.iperf(&format!("10.{net}.2.2"), 1, &[]).expect("a transfer");
        eprintln!("TCP over the router of 10.{net}.0.0/16: {told:?}");
    }
    drop(server);
}

#[test]
fn what_is_killed_comes_back_and_no_slot_is_lost() {
    skip_without!("ping");
    let before = Leftovers::look().expect("a look");
    let Some(line) = line() else { return };
    up(&line, &document());
    await_all(&line);
    let all = streams(&line, MANY, || {
        for _ in 0..10 {
            let pid = switch(&line);
            run(&["kill", "-9", &pid.to_string()]).expect("a kill");
            let limit = Instant::now() + Duration::from_secs(10);
            while switch(&line) == pid {
                assert!(Instant::now() < limit, "no new switch");
                sleep(Duration::from_millis(5));
            }
            sleep(Duration::from_millis(300));
        }
    });
    for received in &all {
        let wrong = received.duplicates + received.late + received.corrupted + received.foreign;
        assert!(wrong == 0, "{all:#?}");
    }
    // Chance decides which streams find one of the few slots.
    let (of_few, others): (Vec<_>, Vec<_>) =
        all.iter().enumerate().partition(|(number, _)| (4..8).contains(number));
    let packets = of_few.iter().map(|(_, stream)| stream.packets).sum::<u64>();
    assert!(packets > 500 && others.iter().all(|(_, one)| one.packets > 500), "{all:#?}");
    line.node.run(&["restart", "red/r1"]);
    line.node.run(&["restart", "s8/r"]);
    await_all(&line);
    // The node is killed; the next node's document asks for another number of workers.
    let pid = switch(&line);
    line.node.kill("node");
    line.node.run(&["up", "--workers", "1", &line.node.file("node.yaml", &document())]);
    assert_eq!((switch(&line), ticks(pid).len()), (pid, 2), "it is adopted as it is");
    let events = line.node.run(&["events"]);
    assert!(events.contains("goes on with 2 workers"), "{events}");
    nothing_is_lost(&line);
    line.node.run(&["down"]);
    drop(line);
    assert_eq!(before.new_ones().expect("a look"), Vec::<String>::new());
}

/// Processes of routers.
fn routers(line: &Line) -> Vec<String> {
    let command = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pids = line.node.processes();
    let routers = pids.iter().filter(|pid| command(pid).starts_with(b"europa\0router\0"));
    routers.map(u32::to_string).collect()
}

/// The processes that are killed at the same time.
const KILLED: [&[&str]; 9] = [
    &["switch"],
    &["switch"],
    &["switch"],
    // At this point the node restarts the router later than one that fails for the first time.
    &["switch", "router"],
    &["switch", "router"],
    &["switch", "router"],
    &["switch", "router"],
    &["switch", "router", "node"],
    &["switch", "router"],
];

fn kill_at_once(line: &Line, roles: &[&str]) {
    let mut pids = Vec::new();
    for role in roles {
        match *role {
            "router" => pids.extend(routers(line)),
            role => pids.push(line.node.process(role).to_string()),
        }
    }
    let pids = pids.iter().map(String::as_str);
    run(&["kill", "-9"].into_iter().chain(pids).collect::<Vec<_>>()).expect("a kill");
}

/// The dead switch leaves entries in its lists. The numbers of their pools may then belong to
/// others.
#[test]
fn routers_killed_with_the_switch_find_their_pools_whole() {
    skip_without!("ping");
    let Some(line) = line() else { return };
    up(&line, &document());
    await_all(&line);
    let groups = || fs::read_to_string(format!("/proc/{}/cgroup", switch(&line))).expect("groups");
    let before = groups();
    let all = streams(&line, MANY, || {
        for roles in KILLED {
            sleep(Duration::from_millis(400));
            let pid = switch(&line);
            kill_at_once(&line, roles);
            if roles.contains(&"node") {
                up(&line, &document());
            }
            let limit = Instant::now() + Duration::from_secs(10);
            while switch(&line) == pid || routers(&line).len() < 2 {
                assert!(Instant::now() < limit, "not all come back");
                sleep(Duration::from_millis(5));
            }
            await_all(&line);
        }
    });
    assert_eq!(groups(), before, "control groups of the switch");
    for received in &all {
        let wrong = received.duplicates + received.late + received.corrupted + received.foreign;
        assert!(wrong == 0 && received.packets > 500, "{all:#?}");
    }
    nothing_is_lost(&line);
}

#[test]
fn a_port_is_shared_by_routers_of_both_workers() {
    skip_without!("ping");
    let Some(line) = line() else { return };
    let limited = document().replace("device: eu-right\n", "device: eu-right\nrate: 40Mb/s\n");
    assert_ne!(limited, document());
    up(&line, &limited);
    await_all(&line);
    let tenants: Vec<_> = [0].into_iter().chain(OTHERS).collect();
    let mut all = Vec::new();
    for net in &tenants {
        let at = format!("10.{net}.2.2:5000");
        let sink = line.b.sink(&at, u64::from(*net) + 1).expect("a sink");
        let stream = line.a.stream(&at, u64::from(*net) + 1, 10_000, 1000).expect("a stream");
        all.push((sink, stream));
    }
    sleep(Duration::from_secs(1));
    let count = || all.iter().map(|(sink, _)| sink.packets()).collect::<Vec<u64>>();
    let before = count();
    sleep(Duration::from_secs(3));
    let passed: Vec<u64> = count().iter().zip(&before).map(|(now, then)| now - then).collect();
    eprintln!("three tenants that ask for all of a port: {passed:?} packets in 3 s");
    let (least, most) = (passed.iter().min(), passed.iter().max());
    let (Some(least), Some(most)) = (least, most) else { unreachable!("three") };
    assert!(*least > 1000 && least * 20 > most * 19, "{passed:?}");
    for (sink, stream) in all {
        let received = sink.stop(stream.stop());
        let wrong = received.duplicates + received.corrupted + received.foreign + received.late;
        assert_eq!(wrong, 0, "{received:?}");
    }
}

#[test]
fn more_workers_than_cpus_are_refused() {
    let Some(line) = line() else { return };
    let file = line.node.file("node.yaml", &document());
    for (number, said) in [("0", "1..=64"), ("64", "CPUs"), ("many", "invalid digit")] {
        let cpus = available_parallelism().map_or(1, usize::from);
        if number == "64" && cpus >= 64 {
            continue;
        }
        let refused = line.node.attempt(&["up", "--workers", number, &file]);
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
    }
}
