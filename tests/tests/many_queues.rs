//! Ten thousand queues behind a real port: a program sorts the packets of a link into them, one
//! after the other, and every queue gets its share.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Node, skip_without};
use serde_json::Value;

const QUEUES: usize = 10_000;
/// Measurements of four seconds. One of them must be right: in others the machine or the sender may
/// stand still, so that queues run empty.
const WINDOWS: usize = 12;
/// Bytes of the longest frame, which a queue of weight 1 may send in a turn.
const LONGEST: f64 = 1514.0;

/// Gives each packet another queue; one in eight is short, at random.
const PROGRAM: &str = r#"
#include "europa.h"
int main(void)
{
	struct europa_packet packet;
	struct europa pool;
	uint32_t queue = 0, random = 1;
	if (europa_open(&pool) < 0)
		return 1;
	int in = europa_interface(&pool, "in"), out = europa_interface(&pool, "out");
	if (in < 0 || out < 0)
		return 1;
	for (;;) {
		while (europa_receive(&pool, in, &packet)) {
			queue = queue % 10000 + 1;
			random = random * 1664525 + 1013904223;
			packet.queue = queue;
			packet.length = random >> 29 ? 1514 : 64;
			if (!europa_send(&pool, out, &packet))
				europa_drop(&pool, &packet);
		}
		while (europa_receive(&pool, out, &packet))
			europa_drop(&pool, &packet);
		europa_wait(&pool);
	}
}
"#;

/// The weight of a queue. A queue that runs empty loses the rest of its turn, so its limit must
/// exceed the packets of a turn. The limit is five packets and not more, because all packets wait
/// in one pool.
fn weight(queue: usize) -> usize {
    1 + queue % 2
}

fn document(namespace: &str, program: &Path) -> String {
    let queues: Vec<String> = (1..=QUEUES)
        .map(|queue| format!("{queue}: {{weight: {}, packets: 5}}", weight(queue)))
        .collect();
    let mut text = format!(
        "kind: port\nname: out\ndevice: eth0\nnamespace: {namespace}\nrate: 150Mb/s\n---\n\
         kind: slice\nname: red\n---\nkind: slice\nname: source\n---\n\
         kind: link\nname: wire\n---\n"
    );
    writeln!(
        text,
        "kind: router\nname: r\nslice: red\npool: {{slots: 65536}}\ninterfaces:\n  \
         in: {{link: wire}}\n  out: {{port: out, mac: \"02:00:00:00:01:00\", queues: {{{}}}}}\n\
         fast_path: {{program: [{}]}}\n---\n\
         kind: router\nname: s\nslice: source\ninterfaces:\n  out: {{link: wire}}\n\
         fast_path:\n  click: |\n    FromDevice(out) -> Discard;\n    \
         RatedSource(LENGTH 1500, RATE 150000) \
         -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:02:01) \
         -> Queue(1000) -> ToDevice(out);",
        queues.join(", "),
        program.display()
    )
    .expect("a text");
    text
}

/// Bytes that each queue has sent.
fn sent(stats: &Value) -> Vec<f64> {
    let mut all = vec![0.0; QUEUES + 1];
    for one in stats["queues"].as_array().into_iter().flatten() {
        let queue = one["queue"].as_u64().and_then(|number| usize::try_from(number).ok());
        if let Some(place) = queue.and_then(|number| all.get_mut(number)) {
            *place = one["bytes"].as_f64().unwrap_or_default();
        }
    }
    all
}

#[test]
fn ten_thousand_queues_have_their_shares() {
    skip_without!("cc");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("sort.c"), folder.path().join("sort"));
    fs::write(&source, PROGRAM).expect("a file");
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/c");
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-I"])
        .args([&sdk, Path::new("-o"), &program, &source])
        .output()
        .expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let mut lab = Lab::new().expect("a laboratory");
    let near = lab.namespace("near").expect("a namespace");
    let far = lab.namespace("far").expect("a namespace");
    lab.veth((&near, "eth0"), (&far, "eth0")).expect("a pair");
    let node = Node::new(None);
    node.up(&document(near.name(), &program));
    // After this time every queue is full.
    sleep(Duration::from_secs(2));

    let weights: usize = (1..=QUEUES).map(weight).sum();
    let mut nearest = f64::MAX;
    for _ in 0..WINDOWS {
        let start = Instant::now();
        let before = sent(&node.stats());
        sleep(Duration::from_secs(4));
        let after = sent(&node.stats());
        let seconds = start.elapsed().as_secs_f64();
        let each: Vec<f64> = after.iter().zip(&before).map(|(new, old)| new - old).collect();
        let all: f64 = each.iter().skip(1).sum();
        let kept = all / (150e6 / 8.0 * seconds);
        eprintln!("{:.2} % of the rate in {seconds:.2} s", kept * 100.0);
        // A queue may deviate by 1 % or by a turn and a packet, whichever is larger. `worst` is the
        // largest deviation as a multiple of that.
        let worst = (1..=QUEUES).map(|queue| {
            let ideal = all * weight(queue) as f64 / weights as f64;
            let bound = (ideal * 0.01).max(LONGEST * weight(queue) as f64 + LONGEST);
            (each[queue] - ideal).abs() / bound
        });
        let worst = worst.fold(0.0, f64::max);
        // The sum of all queues of a weight: the allowed deviation of each queue is small beside
        // it.
        let classes = (1..=2).map(|class| {
            let of = |queue: &usize| weight(*queue) == class;
            let got: f64 = (1..=QUEUES).filter(of).map(|queue| each[queue]).sum();
            let ideal = all * (class * QUEUES / 2) as f64 / weights as f64;
            eprintln!("  weight {class}: {:+.2} % off", (got / ideal - 1.0) * 100.0);
            (got / ideal - 1.0).abs()
        });
        let classes = classes.fold(0.0, f64::max);
        eprintln!(
            "  worst queue: {worst:.2} of its bound; worst weight: {:.2} % off",
            classes * 100.0
        );
        if kept > 0.5 {
            nearest = nearest.min(worst.max(classes / 0.01));
        }
        if nearest <= 1.0 {
            break;
        }
    }
    assert!(nearest <= 1.0, "{nearest:.2} times what is allowed");
}
