//! Work that local senders leave to devices, which virtual devices never do: checksums,
//! segmentation, tags. With all of it enabled, as by default, TCP must arrive whole.

mod line;

use std::io::Write as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Namespace, Process, run, skip_without, skipped};
use line::{Line, ROUTER, ports};

/// Bytes of a transfer, 100 MB.
const BYTES: u64 = 100_000_000;

/// Sends a file of random bytes by TCP to `at`, and compares the hashes of both ends.
fn transfer(from: &Namespace, to: &Namespace, at: &str, bytes: u64) {
    const SERVE: &str = "import hashlib, socket, sys\n\
        s = socket.create_server((sys.argv[1], 7000), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n\
        print('ready', flush=True)\n\
        c, _ = s.accept()\n\
        h = hashlib.sha256()\n\
        while data := c.recv(1 << 16):\n    h.update(data)\n\
        print(h.hexdigest(), flush=True)\n";
    const SEND: &str = "import hashlib, os, socket, sys\n\
        c = socket.create_connection((sys.argv[1], 7000))\n\
        h, left = hashlib.sha256(), int(sys.argv[2])\n\
        while left:\n    \
        data = os.urandom(min(left, 1 << 20))\n    h.update(data)\n    c.sendall(data)\n    left -= len(data)\n\
        c.close()\n\
        print(h.hexdigest())\n";
    let mut server = to.start(&["/usr/bin/python3", "-c", SERVE, at]).expect("a server");
    server.wait_for("ready", Duration::from_secs(5)).expect("a server");
    let sent = from.run(&["/usr/bin/python3", "-c", SEND, at, &bytes.to_string()]).expect("sent");
    let received = server.wait(Duration::from_secs(10)).expect("received").stdout;
    assert_eq!(received.trim_start_matches("ready\n"), sent.stdout, "{at}: other bytes arrived");
}

fn is_on(namespace: &Namespace, device: &str, feature: &str) -> bool {
    let features = namespace.run(&["ethtool", "-k", device]).expect("offloads").stdout;
    features.lines().any(|line| line.trim() == format!("{feature}: on"))
}

#[test]
fn tcp_works_with_everything_switched_on() {
    skip_without!("iperf3", "ethtool", "python3");
    for mtu in [1500, 9000] {
        let line = Line::with_mtus(mtu, mtu);
        for host in [&line.a, &line.b] {
            for feature in [
                "tx-checksumming",
                "tcp-segmentation-offload",
                "generic-segmentation-offload",
                "tx-vlan-offload",
                "rx-vlan-offload",
            ] {
                assert!(is_on(host, "eth0", feature), "{feature} is not the default any more");
            }
        }
        line.up_ipv4();
        let _server = line.b.iperf_server().expect("a server");
        for to in ["10.0.2.2", "fd00:2::2"] {
            for options in [&[][..], &["-R"]] {
                let result = line.a.iperf(to, 2, options).expect("a result");
                let rate = result.bits_per_second / 1e9;
                let _ = writeln!(std::io::stderr(), "{to} {options:?} MTU {mtu}: {rate:.1} Gb/s");
                assert!(result.bytes > 20_000_000, "{to} {options:?}: {} bytes", result.bytes);
            }
        }
        // UDP checksums are completed too: a socket gets no datagram with a wrong one.
        let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
        let stream = line.a.stream("10.0.2.2:5000", 1, 2000, 1400).expect("a stream");
        let stream = stream.paced_by(&sink);
        sleep(Duration::from_secs(1));
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(sent > 100 && received.is_perfect(), "of {sent}: {received:?}");
        transfer(&line.a, &line.b, "10.0.2.2", BYTES);
        transfer(&line.b, &line.a, "fd00:1::2", BYTES);
    }
}

#[test]
fn segments_of_a_stream_leave_as_one_packet_where_the_device_cuts_it() {
    skip_without!("iperf3", "ethtool", "python3");
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return skipped("this kernel does not describe its types, so that no veth can be asked");
    }
    let line = Line::new();
    line.up_ipv4();
    let _server = line.b.iperf_server().expect("a server");
    // Frames that the router sent to `b`, and packets that came there.
    let stream = |to: &str, seconds| {
        let count = || {
            let packets = line.b.counter("eth0", "rx_packets").expect("a counter");
            (line.node.counters()["red/r1.out"].tx, packets)
        };
        let before = count();
        let result = line.a.iperf(to, seconds, &[]).expect("a result");
        assert!(result.bytes > 20_000_000, "{to}: {} bytes", result.bytes);
        let after = count();
        (after.0 - before.0, after.1 - before.1)
    };
    for to in ["10.0.2.2", "fd00:2::2"] {
        let (frames, packets) = stream(to, 2);
        let _ = writeln!(std::io::stderr(), "{to}: {frames} frames came as {packets} packets");
        assert!(packets < frames / 3, "{to}: {frames} frames came as {packets} packets");
    }
    // A capture shows the frames that the router sends.
    {
        let file = line.node.file("capture.pcap", "");
        let options = ["-w", &file, "-s", "64", "-f", "tcp"];
        let mut capture = line.node.start(&[&["capture", "red/r1.out"], &options[..]].concat());
        capture.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
        let (frames, packets) = stream("10.0.2.2", 1);
        assert!(packets >= frames, "{frames} frames came as {packets} packets");
    }
    // A device whose peer has its own program does not cut frames any more, and gets long ones. TCP
    // sends refused segments again.
    let (frames, packets) = std::thread::scope(|scope| {
        let stream = scope.spawn(|| stream("10.0.2.2", 3));
        sleep(Duration::from_secs(1));
        line.middle.offloads("eu-right", &[("tso", false)]).expect("offloads");
        stream.join().expect("a stream")
    });
    assert!(
        packets < frames,
        "{frames} frames came as {packets} packets: nothing was merged before"
    );
    let (frames, packets) = stream("10.0.2.2", 1);
    assert!(packets >= frames, "{frames} frames came as {packets} packets");
    transfer(&line.a, &line.b, "10.0.2.2", BYTES);
}

#[test]
fn no_packet_overtakes_another_one_when_the_way_changes() {
    skip_without!("iperf3", "ping");
    let line = Line::new();
    line.up_ipv4();
    let _server = line.b.iperf_server().expect("a server");
    // Linux may send packets before those that wait for their neighbour's address.
    assert!(line.a.ping("10.0.2.2", 2, &[]).expect("a ping").is_perfect());
    let frames = |way: &str| line.node.stats()["switch"][way].as_u64().expect("a counter");
    let before = ["live_frames", "socket_frames"].map(frames);
    // A thread of that namespace receives live frames. It waits for a core beside programs that use
    // every core. Frames of the socket do not need the thread.
    let threaded = ["/bin/sh", "-c", "echo 1 > /sys/class/net/eth0/threaded"];
    line.b.run(&threaded).expect("a thread for what is received");
    let _busy: Vec<_> = (0..4)
        .map(|_| Process::start(&["/bin/sh", "-c", "while :; do :; done"]).expect("a program"))
        .collect();
    let streams: Vec<_> = [(1, 3000), (2, 20_000), (3, 40_000)]
        .map(|(number, rate)| {
            let at = format!("10.0.2.2:{}", 5000 + number);
            let sink = line.b.sink(&at, number).expect("a sink");
            let stream = line.a.stream(&at, number, rate, 100).expect("a stream");
            let stream = stream.paced_by(&sink);
            (sink, stream)
        })
        .into();
    for _ in 0..3 {
        let result = line.a.iperf("10.0.2.2", 2, &[]).expect("a result");
        assert!(result.bytes > 1_000_000, "{} bytes", result.bytes);
    }
    for (sink, stream) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        // With this many streams a queue may be full.
        let wrong = received.late + received.duplicates + received.corrupted + received.foreign;
        assert!(received.packets > 1000 && wrong == 0, "of {sent}: {received:?}");
    }
    for (way, before) in ["live_frames", "socket_frames"].into_iter().zip(before) {
        let frames = frames(way) - before;
        let _ = writeln!(std::io::stderr(), "{frames} {way}");
        assert!(frames > 1000, "only {frames} {way}");
    }
}

#[test]
fn a_device_without_xdp_of_its_own_works_in_generic_mode() {
    skip_without!("ping", "iperf3", "python3");
    // A VXLAN device of Linux has no native XDP; the left port is such a device.
    let line = Line::new();
    let (a, middle) = (&line.a, &line.middle);
    middle.address("eu-left", "192.0.2.1/24").expect("an address");
    a.address("eth0", "192.0.2.2/24").expect("an address");
    for (place, name, below, own, far) in [
        (middle, "eu-vx", "eu-left", "192.0.2.1", "192.0.2.2"),
        (a, "vx0", "eth0", "192.0.2.2", "192.0.2.1"),
    ] {
        let device = ["link", "add", name, "type", "vxlan", "id", "7", "dstport", "4789"];
        let ends = ["local", own, "remote", far, "dev", below];
        place.ip(&[&device[..], &ends[..]].concat()).expect("a tunnel");
        place.ip(&["link", "set", name, "up"]).expect("it is up");
    }
    a.address("vx0", "10.7.0.2/24").expect("an address");
    a.address("vx0", "fd07::2/64").expect("an address");
    a.ip(&["route", "replace", "10.0.2.0/24", "via", "10.7.0.1"]).expect("a route");
    a.ip(&["-6", "route", "replace", "fd00:2::/64", "via", "fd07::1"]).expect("a route");
    line.b.route("10.7.0.0/24", "10.0.2.1").expect("a route");
    line.b.route("fd07::/64", "fd00:2::1").expect("a route");
    let yaml = (ports() + ROUTER)
        .replace("device: eu-left", "device: eu-vx")
        .replace("10.0.1.1/24, \"fd00:1::1/64\"", "10.7.0.1/24, \"fd07::1/64\"");
    let said = line.node.run(&["up", &line.node.file("node.yaml", &yaml)]);
    // The node prints one line each: the method, and the reason why there is no better one.
    assert!(said.contains("generic mode only (the driver of vxlan has no XDP)"), "{said}");
    assert!(said.contains("port left: eu-vx: live frames would be dropped"), "{said}");
    // No device between a sender and a program in generic mode segments long packets.
    assert!(said.contains("frames longer than its MTU may arrive"), "{said}");
    assert!(said.contains("turn segmentation off at the senders"), "{said}");
    a.offloads("vx0", &[("tso", false), ("gso", false)]).expect("offloads");
    for (from, to) in [(a, "10.0.2.2"), (a, "fd00:2::2"), (&line.b, "10.7.0.2")] {
        let ping = from.ping(to, 5, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
    let _server = line.b.iperf_server().expect("a server");
    for to in ["10.0.2.2", "fd00:2::2"] {
        for options in [&[][..], &["-R"]] {
            let result = a.iperf(to, 2, options).expect("a result");
            let rate = result.bits_per_second / 1e9;
            let _ = writeln!(std::io::stderr(), "generic, {to} {options:?}: {rate:.2} Gb/s");
            assert!(result.bytes > 5_000_000, "{to} {options:?}: {} bytes", result.bytes);
        }
    }
    transfer(a, &line.b, "10.0.2.2", BYTES / 10);
}

/// A host without a name: only a descriptor of this process refers to its namespace.
fn hidden_host(place: &Namespace, device: &str) -> Process {
    let script = format!(
        "import ctypes, os, subprocess, sys, time\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         home = os.open('/proc/self/ns/net', os.O_RDONLY)\n\
         assert libc.unshare(0x40000000) == 0\n\
         hidden = os.open('/proc/self/ns/net', os.O_RDONLY)\n\
         for line in ('link add eth0 type veth peer name {device} netns {home}',\n             \
         'link set eth0 address 02:00:00:00:00:0c', 'link set eth0 up', 'link set lo up',\n             \
         'address add 10.0.3.2/24 dev eth0', 'route add default via 10.0.3.1'):\n    \
         subprocess.run(['ip', *line.split()], check=True)\n\
         assert libc.setns(home, 0x40000000) == 0\n\
         os.close(home)\n\
         print('descriptor', hidden, flush=True)\n\
         time.sleep(600)\n",
        home = place.name(),
    );
    let mut process = place.start(&["/usr/bin/python3", "-c", &script]).expect("a host");
    process.wait_for("descriptor", Duration::from_secs(5)).expect("a host");
    place.ip(&["link", "set", device, "up"]).expect("it is up");
    process
}

#[test]
fn what_cannot_be_switched_is_told_or_refused() {
    skip_without!("ping", "python3");
    let line = Line::new();
    let host = hidden_host(&line.middle, "eu-hidden");
    let third = "kind: port\nname: third\ndevice: eu-hidden\n---\n";
    let router = |fields: &str| {
        ports() + third + &ROUTER.replace("fast_path", &format!("  hid: {{{fields}}}\nfast_path"))
    };
    // Tags may be beside the frames, where the program does not see them: a VLAN match would be
    // wrong.
    let vlan = router("port: third, match: {vlan: 10}, addresses: [10.0.3.1/24]");
    let output = line.node.attempt(&["up", &line.node.file("node.yaml", &vlan)]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["eu-hidden", "VLAN", "cannot be seen from here", "tx-vlan-offload off"] {
        assert!(output.stderr.contains(part), "{part:?} is not in {}", output.stderr);
    }
    assert!(!line.node.directory().exists());
    // Without a VLAN match the router works, by the remaining method.
    let plain = router("port: third, addresses: [10.0.3.1/24]");
    let said = line.node.run(&["up", &line.node.file("node.yaml", &plain)]);
    assert!(said.contains("frames can leave by a socket only"), "{said}");
    line.b.route("10.0.3.0/24", "10.0.2.1").expect("a route");
    let number = host.stdout().trim().rsplit(' ').next().expect("a number").to_owned();
    let inside = format!("--net=/proc/{}/fd/{number}", host.id());
    let ping = run(&["nsenter", &inside, "ping", "-c", "3", "-i", "0.2", "10.0.2.2"]);
    assert!(ping.expect("a ping").stdout.contains(" 3 received"));
}
