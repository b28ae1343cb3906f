//! Every process is killed under load: the others run on, and it is restarted.

mod tenants;

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{skip_without, stop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenants::{Tenants, is_alive, kill_9};

const RATE: u32 = 20_000;

#[test]
fn a_killed_router_disturbs_nobody_and_comes_back() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let (victim, other) = (&tenants.victim, &tenants.other);
    let sink = victim.b.sink(&format!("{}:5000", victim.addresses[1]), 1).expect("a sink");
    let stream = victim
        .a
        .stream(&format!("{}:5000", victim.addresses[1]), 1, RATE, 200)
        .expect("a stream")
        .paced_by(&sink);
    let other_sink = other.b.sink(&format!("{}:5000", other.addresses[1]), 2).expect("a sink");
    let other_stream =
        other.a.stream(&format!("{}:5000", other.addresses[1]), 2, RATE, 200).expect("a stream");
    sleep(Duration::from_millis(500));
    let pid = tenants.router_pid("other").expect("the router runs");
    let victim_pid = tenants.router_pid("victim");
    // The node restarts the router at once after its first end, and later and later after the next
    // ones.
    let before = other_sink.packets();
    assert!(before > 1000, "only {before} packets");
    kill_9(pid);
    let start = Instant::now();
    while is_alive(pid) {}
    sleep(Duration::from_millis(1));
    let before = other_sink.packets();
    while other_sink.packets() < before + 2 {
        assert!(start.elapsed() < Duration::from_secs(5), "the router does not come back");
        sleep(Duration::from_micros(100));
    }
    let took = start.elapsed();
    eprintln!("a killed router forwards again after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    sleep(Duration::from_millis(500));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect(), "the other tenant: {received:?}");
    let sent = other_stream.stop();
    let received = other_sink.stop(sent);
    assert_eq!((received.foreign, received.corrupted, received.duplicates), (0, 0, 0));
    assert_eq!(tenants.router("other")["restarts"], 1);
    assert_eq!(tenants.router_pid("victim"), victim_pid);
}

#[test]
fn a_switch_killed_twenty_times_loses_no_slot() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let victim = &tenants.victim;
    let to = format!("{}:5000", victim.addresses[1]);
    let pids = [tenants.router_pid("victim"), tenants.router_pid("other")];
    let sink = victim.b.sink(&to, 1).expect("a sink");
    let stream = victim.a.stream(&to, 1, RATE, 200).expect("a stream");
    sleep(Duration::from_millis(300));
    let mut times = Vec::new();
    for round in 0..20 {
        let pid = tenants.switch_pid().expect("the switch runs");
        let before = sink.packets();
        kill_9(pid);
        let start = Instant::now();
        tenants.await_switch(pid);
        let before = before.max(sink.packets());
        while sink.packets() < before + 100 {
            assert!(start.elapsed() < Duration::from_secs(5), "round {round}: nothing forwarded");
            sleep(Duration::from_micros(200));
        }
        times.push(start.elapsed());
        // Each round kills the process at another moment of its work.
        sleep(Duration::from_micros(20_000 + 1_700 * round));
    }
    let sent = stream.stop();
    let received = sink.stop(sent);
    // The node restarts it at once the first time, and after a delay later.
    let (first, longest) = (times[0], times.iter().max().copied().unwrap_or_default());
    eprintln!(
        "a killed switch forwards again after {first:?}, at most {longest:?}; {received:?} of {sent}"
    );
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_eq!((received.foreign, received.corrupted, received.duplicates), (0, 0, 0));
    assert_eq!(pids, [tenants.router_pid("victim"), tenants.router_pid("other")]);
    assert_eq!(tenants.stats()["switch_restarts"], 20);
    // No slot was lost permanently: single packets pass, and so does a stream.
    let ping = victim.a.ping(&victim.addresses[1], 20, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let sink = victim.b.sink(&to, 2).expect("a sink");
    let stream = victim.a.stream(&to, 2, RATE, 200).expect("a stream").paced_by(&sink);
    sleep(Duration::from_secs(1));
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{received:?}");
}

#[test]
fn a_switch_that_does_not_answer_is_replaced() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let victim = &tenants.victim;
    let pid = tenants.switch_pid().expect("the switch runs");
    stop(Pid::from_raw(pid));
    // The node answers requests in time, without the switch's part.
    let start = Instant::now();
    tenants.stats();
    eprintln!("a node beside a switch that stands still answers after {:?}", start.elapsed());
    tenants.await_switch(pid);
    assert!(!is_alive(pid));
    let answers =
        || victim.a.ping(&victim.addresses[1], 1, &["-W", "1"]).is_ok_and(|p| p.is_perfect());
    let start = Instant::now();
    while !answers() {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", tenants.log("node"));
    }
    let ping = victim.a.ping(&victim.addresses[1], 20, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}

#[test]
fn a_killed_node_disturbs_nobody_until_down_takes_everything_away() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    for again in ["up", "down", "end of the machine"] {
        tenants.up();
        let node = tenants.node_pid().expect("the node runs");
        let others = [
            tenants.switch_pid().expect("the switch runs"),
            tenants.router_pid("victim").expect("the router runs"),
            tenants.router_pid("other").expect("the router runs"),
        ];
        kill_9(node);
        while is_alive(node) {}
        let to = &tenants.victim.addresses[1];
        let ping = tenants.victim.a.ping(to, 20, &["-i", "0.01"]).expect("a ping");
        assert!(ping.is_perfect(), "without a node: {ping:?}");
        assert!(others.iter().all(|pid| is_alive(*pid)), "{others:?}");
        if again == "end of the machine" {
            // The system's own first process kills in the same way.
            for pid in others {
                kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a signal");
            }
            let limit = Instant::now() + Duration::from_secs(5);
            while others.iter().any(|pid| is_alive(*pid)) {
                assert!(Instant::now() < limit, "{others:?}");
                sleep(Duration::from_millis(10));
            }
        }
        if again == "up" {
            tenants.up();
            let ping = tenants.victim.a.ping(to, 5, &["-i", "0.01"]).expect("a ping");
            assert!(ping.is_perfect(), "{ping:?}");
        }
        tenants.down();
        for pid in others {
            assert!(!is_alive(pid), "{again}: {pid} still runs");
        }
        assert!(!tenants.directory().exists(), "{} is left", tenants.directory().display());
    }
}

#[test]
fn a_terminated_node_goes_cleanly() {
    skip_without!("nft", "bridge");
    let tenants = Tenants::new();
    tenants.up();
    let node = tenants.node_pid().expect("the node runs");
    let others = [tenants.switch_pid(), tenants.router_pid("victim"), tenants.router_pid("other")];
    kill(Pid::from_raw(node), Signal::SIGTERM).expect("a signal");
    let start = Instant::now();
    while is_alive(node) {
        assert!(start.elapsed() < Duration::from_secs(5), "the node does not end");
        sleep(Duration::from_millis(1));
    }
    eprintln!("a terminated node took {:?}", start.elapsed());
    for pid in others {
        assert!(!is_alive(pid.expect("it ran")), "{pid:?} still runs");
    }
    assert!(!tenants.directory().exists(), "{} is left", tenants.directory().display());
}
