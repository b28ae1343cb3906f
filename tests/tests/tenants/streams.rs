//! A neighbour's streams and the frames on its wires during changes of the other tenant.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Capture, Received, Sink, Stream};

use super::{Tenant, Tenants};

/// Packets a second of the neighbour, each way.
pub(crate) const RATE: u32 = 20_000;

/// Numbered streams of a tenant, to its host b and back.
pub(crate) struct Both([(Stream, Sink); 2]);

impl Both {
    pub(crate) fn start(of: &Tenant) -> Both {
        let stream = |number: u64, from: &europa_tests::Namespace, to: &europa_tests::Namespace| {
            let at = format!("{}:5000", of.addresses[usize::from(number == 1)]);
            let sink = to.sink(&at, number).expect("a sink");
            // Short and long packets, so that both ways out of a port are used.
            (
                from.stream_of(&at, number, RATE, &[64, 200, 1400])
                    .expect("a stream")
                    .paced_by(&sink),
                sink,
            )
        };
        Both([stream(1, &of.a, &of.b), stream(2, &of.b, &of.a)])
    }

    pub(crate) fn stop(self) -> [(u64, Received); 2] {
        self.0.map(|(stream, sink)| {
            let sent = stream.stop();
            (sent, sink.stop(sent))
        })
    }
}

/// Captures the frames on the wire of a side that Europa must never send. These are frames from
/// other addresses than the interfaces'; of the hostile router also tags, other protocols, and
/// addresses that it is not bound to. The neighbour's pings are captured too, to show that the
/// capture works.
pub(crate) fn watch(tenants: &Tenants, side: usize) -> Capture {
    let [victim, other] = [&tenants.victim, &tenants.other].map(|tenant| &tenant.macs[side]);
    let allowed = "((ip and src net 10.2.0.0/16) or (arp and arp[14:2] = 0x0a02))";
    let filter = format!(
        "inbound and ((icmp and ether src {victim}) or not (ether src {victim} or ether src {other}) \
         or (ether src {other} and not {allowed}) or vlan)"
    );
    tenants.wires[side].capture("port", &filter).expect("a capture")
}

/// Waits until the router forwards. Returns the time that this took.
pub(crate) fn await_forwarding(tenants: &Tenants, of: &Tenant) -> Duration {
    let start = Instant::now();
    loop {
        let ping = of.a.ping(&of.addresses[1], 1, &["-W", "0.2"]).expect("a ping");
        if ping.received == 1 {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{}", tenants.log("node"));
    }
}

/// Ends captures of [`watch`], which must show the neighbour's pings and nothing else.
pub(crate) fn unseen(watches: [Capture; 2]) {
    // The capture waits for a core beside the other processes.
    sleep(Duration::from_secs(1));
    for (watch, side) in watches.into_iter().zip(["left", "right"]) {
        let seen = watch.stop().expect("a capture").lines("").expect("lines");
        let (pings, others): (Vec<_>, Vec<_>) =
            seen.iter().partition(|line| line.contains("ICMP echo"));
        assert!(others.is_empty(), "{side}: {} frames, like {}", others.len(), others[0]);
        // libpcap filters the first frame itself, and does not know the frame's direction.
        assert!(pings.len() >= 4, "{side}: the capture shows what Europa sends: {pings:?}");
    }
}
