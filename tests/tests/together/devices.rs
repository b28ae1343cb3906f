//! A port whose device, or the device at its other end, changes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::skip_without;

use crate::line::Line;

/// Waits until `so` is true.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} is never so");
        sleep(Duration::from_millis(100));
    }
}

fn pings(line: &Line) -> bool {
    let ping = |to| line.a.ping(to, 1, &["-W", "1"]).is_ok_and(|ping| ping.is_perfect());
    ping("10.0.2.2") && ping("fd00:2::2")
}

/// A line with a router, by which pings pass.
fn line() -> Line {
    let line = Line::new();
    line.up_ipv4();
    until("the way through", || pings(&line));
    line
}

#[test]
fn a_device_that_was_away_for_a_moment_is_attached_again() {
    skip_without!("ping");
    let line = line();
    // The new device has the same number.
    for (from, to) in [(&line.middle, &line.b), (&line.b, &line.middle)] {
        from.ip(&["link", "set", "eu-right", "netns", to.name()]).expect("it moves");
    }
    line.middle.ip(&["link", "set", "eu-right", "up"]).expect("it is up");
    assert!(!pings(&line));
    until("the way through", || pings(&line));
    assert!(line.node.run(&["events"]).contains("eu-right has gone"));
}

#[test]
fn another_host_on_the_line_is_asked_for() {
    skip_without!("ping");
    let line = line();
    line.b.ip(&["link", "set", "eth0", "down"]).expect("it is down");
    until("the news", || line.node.run(&["events"]).contains("eu-right is down"));
    line.b.mac("eth0", "02:00:00:00:00:0c").expect("an address");
    line.b.ip(&["link", "set", "eth0", "up"]).expect("it is up");
    line.b.address("eth0", "fd00:2::2/64").expect("an address");
    line.b.route("fd00:1::/64", "fd00:2::1").expect("a route");
    line.b.route("10.0.1.0/24", "10.0.2.1").expect("a route");
    until("the way through", || pings(&line));
}

#[test]
fn a_partner_without_gro_gets_it_again() {
    skip_without!("ping", "ethtool");
    let line = line();
    line.b.offloads("eth0", &[("gro", false)]).expect("it is off");
    until("the news", || line.node.run(&["events"]).contains("GroOff"));
    until("the way through", || pings(&line));
    let sink = line.b.sink("10.0.2.2:7000", 1).expect("a sink");
    // With many packets at once, the switch sends live frames.
    let stream = line.a.stream("10.0.2.2:7000", 1, 100_000, 100).expect("a stream").at_most(20_000);
    until("the stream", || stream.sent() >= 20_000);
    let received = sink.stop(stream.stop());
    assert!(received.packets > 10_000, "{received:?}");
}
