//! Elements that work together: a station finds an access point and is admitted.

use europa_engine::{Arena, Graph, NoDevices, Packet, Router};

use super::Extra;
use crate::testing::{Bench, part};

const STATION: &str = "2:0:0:0:0:1";
const POINT: &str = "2:0:0:0:0:2";

/// An element between "source0" and "sink", with a network and rates that its arguments may name.
struct Laboratory {
    router: Router,
    arena: Arena,
    now_ns: u64,
}

impl Laboratory {
    fn new(class: &str, arguments: &[&str]) -> Laboratory {
        let registry = Bench::registry();
        let mut graph = Graph::default();
        let bssid = format!("BSSID {POINT}");
        graph.add("net", "WirelessInfo", &["SSID europa", &bssid, "CHANNEL 6"]);
        graph.add("rates", "AvailableRates", &["DEFAULT 2 4 11 22 12 18 24 36 48 108"]);
        let element = graph.add("e", class, arguments);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.connect(element, 0, sink, 0);
        if registry.info(class).unwrap().ports != "0/1" {
            let source = graph.add("source0", "TestSource", &[]);
            graph.connect(source, 0, element, 0);
        }
        let arena = Arena::heap(256, 2048);
        let graph = graph.resolved(&registry);
        let router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        Laboratory { router, arena, now_ns: 0 }
    }

    fn run(&mut self) -> Vec<Packet> {
        for _ in 0..10 {
            self.router.run_once(self.now_ns, &mut NoDevices);
        }
        part::sink(&mut self.router).into_iter().map(|(_, packet)| packet).collect()
    }

    fn push(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut packet = self.arena.packet(frame).unwrap();
        let mut extra = Extra::EMPTY;
        extra.signal = 24;
        extra.store(&mut packet);
        part::source(&mut self.router, 0, [packet]);
        self.run().iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn write(&mut self, handler: &str, value: &str) -> Vec<Vec<u8>> {
        self.router.write(handler, value).unwrap();
        self.run().iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn read(&mut self, handler: &str) -> String {
        self.router.read(handler, "").unwrap()
    }
}

/// The line of `PrintWifi` for a frame.
fn printed(frame: &[u8]) -> String {
    let mut bench = Bench::new("PrintWifi", &["x"]);
    let log = bench.log();
    bench.push(0, &[frame]);
    let line = log.borrow().first().cloned();
    line.unwrap()
}

/// A laboratory with the usual arguments of these elements.
fn usual(class: &str, more: &[&str]) -> Laboratory {
    let arguments = [&["WIRELESS_INFO net", "RT rates", "DEBUG true"], more].concat();
    Laboratory::new(class, &arguments)
}

fn station(class: &str) -> Laboratory {
    usual(class, &[&format!("ETH {STATION}")])
}

#[test]
fn a_station_finds_an_access_point() {
    let mut requester = station("ProbeRequester");
    let request = requester.write("e.send_probe", "").remove(0);
    assert_eq!(
        printed(&request),
        "x:   46 |  0Mb + 0/ 0 | mgmt probe_req ssid europa ({2} 4 11 22 12 18 24 36) \
         FF-FF-FF-FF-FF-FF 02-00-00-00-00-01 FF-FF-FF-FF-FF-FF seq 0 [ ] "
    );
    let mut source = usual("BeaconSource", &[]);
    let answer = source.push(&request).remove(0);
    assert_eq!(
        printed(&answer),
        "x:   67 |  0Mb + 0/ 0 | mgmt probe_resp 02-00-00-00-00-02 europa chan 6 b_int 100 \
         [ ESS ] ({2} 4 11 22 12 18 24 36 48 108)"
    );
    assert_eq!(answer[4..10], [2, 0, 0, 0, 0, 1]);
    source.now_ns = 100_000_000;
    let beacon = source.run().remove(0).data().to_vec();
    assert_eq!((beacon[0], &beacon[4..10]), (0x80, &[0xff; 6][..]));
    // A request with another network's name gets no answer; a request without a name does.
    let mut other = request.clone();
    other[26] = b'E';
    assert_eq!(source.push(&other), Vec::<Vec<u8>>::new());
    let mut any = request[..24].to_vec();
    any.extend([0, 0]);
    assert_eq!(source.push(&any).len(), 1);

    let mut scanner = usual("BeaconScanner", &[]);
    assert_eq!(scanner.push(&beacon), std::slice::from_ref(&beacon));
    scanner.now_ns = 1_500_000_000;
    scanner.run();
    assert_eq!(
        scanner.read("e.scan"),
        "02-00-00-00-00-02 channel 6 rssi 24 ssid europa beacon_interval 100 last_rx 1.500000 \
         [ ESS ] ( { 2 } 4 11 22 12 18 24 36 48 108 )\n"
    );
    assert!(scanner.read("rates.rates").contains("02-00-00-00-00-02  2 4 11"));
    scanner.write("e.reset", "");
    scanner.write("net.channel", "7");
    scanner.push(&beacon);
    assert_eq!(scanner.read("e.scan"), "");

    let mut tracker = Laboratory::new("BeaconTracker", &["WIRELESS_INFO net", "TRACK 4"]);
    for step in 1..=8 {
        tracker.now_ns = step * 100_000_000;
        if step % 2 == 0 {
            assert_eq!(tracker.push(&beacon).len(), 1);
        }
    }
    assert_eq!(tracker.read("e.stats"), "75");
    assert_eq!(tracker.push(&request), Vec::<Vec<u8>>::new());
}

#[test]
fn a_station_is_taken_in() {
    let eth = format!("ETH {STATION}");
    let mut requester = Laboratory::new("OpenAuthRequester", &["WIRELESS_INFO net", &eth]);
    let request = requester.write("e.send_auth_req", "").remove(0);
    let mut responder = Laboratory::new("OpenAuthResponder", &["WIRELESS_INFO net"]);
    let answer = responder.push(&request).remove(0);
    assert_eq!(answer[24..], [0, 0, 2, 0, 0, 0]);
    assert_eq!(responder.push(&answer), Vec::<Vec<u8>>::new());
    assert_eq!(requester.push(&answer), Vec::<Vec<u8>>::new());

    let mut requester = station("AssociationRequester");
    let request = requester.write("e.send_assoc_req", "").remove(0);
    let mut responder = usual("AssociationResponder", &[]);
    let answer = responder.push(&request).remove(0);
    assert_eq!(
        printed(&answer),
        "x:   44 |  0Mb + 0/ 0 | mgmt assoc_resp [ESS] status 0 success associd 49152 \
         02-00-00-00-00-01 02-00-00-00-00-02 02-00-00-00-00-02 seq 0 [ ] "
    );
    assert_eq!(requester.read("e.associated"), "false");
    requester.push(&answer);
    assert_eq!(requester.read("e.associated"), "true");
    let mut out = answer.clone();
    out[0] = 0xa0;
    requester.push(&out);
    assert_eq!(requester.read("e.associated"), "false");
}

/// Frames of all kinds, truncated anywhere and with wrong lengths, cause no panic.
#[test]
fn frames_may_be_cut_off_anywhere() {
    let beacon = {
        let mut source = usual("BeaconSource", &[]);
        source.now_ns = 100_000_000;
        source.run().remove(0).data().to_vec()
    };
    for (class, arguments) in [
        ("BeaconSource", &["WIRELESS_INFO net", "RT rates"][..]),
        ("BeaconScanner", &["RT rates"]),
        ("BeaconTracker", &["WIRELESS_INFO net"]),
        ("AssociationRequester", &["RT rates", "DEBUG true"]),
        ("AssociationResponder", &["RT rates"]),
        ("OpenAuthRequester", &["WIRELESS_INFO net"]),
        ("OpenAuthResponder", &["WIRELESS_INFO net"]),
        ("PrintWifi", &[]),
        ("WifiDecap", &["DEBUG true"]),
        ("WifiDupeFilter", &["DEBUG true"]),
        ("Prism2Decap", &[]),
        ("ExtraDecap", &[]),
        ("RadiotapDecap", &[]),
    ] {
        let mut laboratory = Laboratory::new(class, arguments);
        for first in (0..=0xf0).step_by(4) {
            for length in [0, 1, 10, 23, 24, 26, 30, 31, 36, 38, 40, beacon.len()] {
                let mut frame = beacon[..length].to_vec();
                frame.iter_mut().take(1).for_each(|byte| *byte = first);
                laboratory.push(&frame);
                frame.iter_mut().skip(25).for_each(|byte| *byte = 0xff);
                laboratory.push(&frame);
            }
        }
    }
}

#[test]
fn ethernet_frames_go_through_the_air() {
    let frame = [&[6; 6][..], &[2, 0, 0, 0, 0, 9], &[8, 0], b"an IP packet"].concat();
    for mode in 0..4_u8 {
        let mut encap = Laboratory::new("WifiEncap", &[&mode.to_string(), "WIRELESS_INFO net"]);
        let sent = encap.push(&frame).remove(0);
        assert_eq!((sent.len(), sent[0], sent[1]), (frame.len() + 18, 8, mode));
        assert_eq!(encap.push(&frame[..13]), Vec::<Vec<u8>>::new());
        assert_eq!(encap.read("e.drops"), "1");
        if mode == 3 {
            continue;
        }
        let mut decap = Bench::new("WifiDecap", &["STRICT true"]);
        assert_eq!(decap.push(0, &[&sent]), [(0, frame.clone())], "mode {mode}");
        let mut other = sent.clone();
        other[24] = 0x42;
        let mut protected = sent.clone();
        protected[1] |= 0x40;
        assert_eq!(decap.push(0, &[&other, &protected, &sent[..31]]), []);
        assert_eq!(decap.router.read("e.drops", ""), Ok("3".into()));
        let mut decap = Bench::new("WifiDecap", &["ETHER false"]);
        assert_eq!(decap.push(0, &[&sent]), [(0, b"an IP packet".to_vec())]);
    }
    assert!(Bench::error("WifiEncap", &["4"]).contains("MODE"));
}

#[test]
fn duplicates_are_dropped() {
    let frame = |second: u8, last: u8| {
        [&[8, second, 0, 0][..], &[4; 6], &[2; 6], &[2; 6], &[last, 1]].concat()
    };
    let mut bench = Bench::new("WifiDupeFilter", &[]);
    let frames = [
        (frame(0, 0x10), true),
        (frame(8, 0x10), false),
        (frame(8, 0x20), true),
        // Fragments: the first, again, the next, again.
        (frame(4, 0x30), true),
        (frame(0x0c, 0x30), false),
        (frame(8, 0x31), true),
        (frame(8, 0x31), false),
    ];
    for (number, (frame, passes)) in frames.into_iter().enumerate() {
        assert_eq!(bench.push(0, &[&frame]).len(), usize::from(passes), "{number}");
    }
    let stats = "02-02-02-02-02-02 packets 7 dupes 3 seq 19 frag 1\n";
    assert_eq!(bench.router.read("e.stats", ""), Ok(stats.into()));
    bench.router.write("e.reset", "").unwrap();
    assert_eq!(bench.router.read("e.drops", ""), Ok("0".into()));
}

#[test]
fn what_a_radio_says_is_noted() {
    // Rate, signal, noise, damage; a frame checksum.
    let mut tap = vec![0, 0, 16, 0];
    tap.extend((1_u32 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 14).to_le_bytes());
    tap.extend([0x10, 22, 0xd0, 0xa0, 1, 0, 0, 0]);
    let frame = [&tap[..], b"frame", &[9; 4]].concat();
    let mut bench = Bench::new("RadiotapDecap", &[]);
    assert_eq!(bench.push(0, &[&frame]), [(0, b"frame".to_vec())]);
    let packet = bench.out.remove(0).1;
    let extra = Extra::of(&packet);
    assert_eq!((extra.rates[0], extra.signal, extra.noise), (22, 0xd0, 0xa0));
    let mut filter = Bench::new("FilterPhyErr", &[]);
    assert_eq!(filter.push_packets(0, vec![packet]).len(), 0);
    assert_eq!(filter.router.read("e.drops", ""), Ok("1".into()));
    // Headers with a wrong version or length.
    for (at, value) in [(0, 1), (2, 12), (2, 200), (7, 0x80)] {
        let mut bad = frame.clone();
        bad[at] = value;
        assert_eq!(bench.push(0, &[&bad]), [(0, bad.clone())], "byte {at}");
    }

    let mut bench = Bench::new("ExtraDecap", &[]);
    let mut sent = Extra::EMPTY;
    sent.flags = super::extra::SENT;
    let bytes = [&sent.bytes()[..], b"frame"].concat();
    assert_eq!(
        bench.push(0, &[&bytes, b"frame"]),
        [(0, b"frame".to_vec()), (0, b"frame".to_vec())]
    );
    let packets = bench.out.drain(..).map(|(_, packet)| packet).collect();
    let mut filter = Bench::new("FilterTX", &[]);
    // Packets of the side output are sent first.
    assert_eq!(filter.push_packets(0, packets), [(1, b"frame".to_vec()), (0, b"frame".to_vec())]);

    let mut prism = vec![0; 144];
    for (at, value) in [(0, 0x44_u32), (68, 30), (104, 5), (116, 11), (128, 1)] {
        prism[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    prism.extend(b"frame");
    let mut bench = Bench::new("Prism2Decap", &[]);
    assert_eq!(bench.push(0, &[&prism]), [(0, b"frame".to_vec())]);
    let extra = Extra::of(&bench.out[0].1);
    assert_eq!((extra.signal, extra.noise, extra.rates[0]), (30, 5, 11));
    assert!(extra.has(super::extra::SENT));
}

#[test]
fn what_a_radio_is_told_stands_before_the_frame() {
    let mut rate = Bench::new("SetTXRate", &["22", "TRIES 3"]);
    rate.push(0, &[b"frame"]);
    let mut power = Bench::new("SetTXPower", &["63"]);
    power.push_packets(0, rate.out.drain(..).map(|(_, packet)| packet).collect());
    let packet = power.out.remove(0).1;
    let mut again = Bench::new("RadiotapEncap", &[]);
    let out = again.push_packets(0, vec![packet]);
    assert_eq!(
        out[0].1,
        [&[0, 0, 14, 0, 4, 0x84, 2, 0, 22, 63, 0, 0, 2, 0], &b"frame"[..]].concat()
    );
    let mut plain = Bench::new("ExtraEncap", &[]);
    let out = plain.push(0, &[b"frame"]).remove(0).1;
    assert_eq!(Bench::new("ExtraDecap", &[]).push(0, &[&out]), [(0, b"frame".to_vec())]);
}

#[test]
fn rates_are_noted_by_what_came_of_frames() {
    let registry = Bench::registry();
    let mut graph = Graph::default();
    graph.add("rates", "AvailableRates", &["DEFAULT 2 4 11 22"]);
    let element = graph.add("e", "ProbeTXRate", &["RT rates", "WINDOW 1000", "OFFSET 4"]);
    let sink = graph.add("sink", "TestSink", &[]);
    for port in 0..2 {
        let source = graph.add(&format!("source{port}"), "TestSource", &[]);
        graph.connect(source, 0, element, port);
        graph.connect(element, port, sink, port);
    }
    let arena = Arena::heap(64, 2048);
    let graph = graph.resolved(&registry);
    let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
    let mut send = |port: usize, packet: Packet| {
        part::source(&mut router, port, [packet]);
        router.run_once(1, &mut NoDevices);
        router.run_once(1, &mut NoDevices);
        part::sink(&mut router).remove(0).1
    };
    let to = |to: u8| arena.packet(&[&[8, 0, 0, 0][..], &[to; 6], &[2; 14]].concat()).unwrap();
    assert_eq!(Extra::of(&send(0, to(0xff))).rates[0], 2);
    send(0, to(2));
    for _ in 0..3 {
        // Every frame at the highest rate is lost: the element tries the next rate.
        let mut lost = to(2);
        let mut extra = Extra::EMPTY;
        (extra.flags, extra.rates[0]) = (super::extra::FAILED, 22);
        extra.store(&mut lost);
        send(1, lost);
    }
    let extra = Extra::of(&send(0, to(2)));
    assert_eq!((extra.rates, extra.tries), ([11, 11, 0, 0], [4, 2, 0, 0]));
    let rates = router.read("e.rates", "").unwrap();
    assert!(rates.contains(" 22 success 0 fail 3 tries 3 perfect_usecs"), "{rates}");
    assert!(Bench::error("ProbeTXRate", &["RT x", "WINDOW 1"]).contains("no AvailableRates 'x'"));
}
