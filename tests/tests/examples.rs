//! Every example runs unchanged on two devices `eu-left` and `eu-right`. Lines `# Needs: ...` at
//! its top name everything else that it needs.

mod line;

use std::fs;
use std::path::{Path, PathBuf};

use europa_tests::{missing, skip_without, skipped};
use line::{B, LEFT, Line};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = fs::read_dir(folder).expect("the examples").flatten().map(|entry| entry.path());
    let yaml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml");
    let mut files: Vec<PathBuf> = files.filter(yaml).collect();
    files.sort();
    assert!(files.len() > 5, "only {files:?}");
    files
}

/// Programs that an example needs: `# Needs: frr, bird`.
fn needs(text: &str) -> Vec<&str> {
    let head = text.lines().take_while(|line| line.starts_with('#'));
    let list = head.filter_map(|line| line.strip_prefix("# Needs: "));
    list.flat_map(|list| list.trim_end_matches('.').split(", ")).collect()
}

#[test]
fn examples_run() {
    skip_without!();
    for path in examples() {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("an example");
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(!head.is_empty(), "{name} says nothing of itself");
        let wants = needs(&text);
        if let Some(why) = missing(&wants) {
            skipped(&format!("{name}: {why}"));
            continue;
        }
        let line = Line::new();
        // The tunnel's own address, and the address of its other end.
        line.middle.address("eu-left", "192.0.2.1/24").expect("an address");
        line.a.address("eth0", "192.0.2.2/24").expect("an address");
        let output = line.node.attempt(&["up", &path.to_string_lossy()]);
        assert!(output.status.success(), "{name}: {}", output.stderr);
        let stats = line.node.stats();
        let routers = stats["routers"].as_array().expect("routers");
        let wanted = text.lines().filter(|line| line.trim() == "kind: router").count()
            + text.lines().filter(|line| line.starts_with("kind: router ")).count();
        assert_eq!(routers.len(), wanted, "{name}");
        line.node.run(&["down"]);
    }
}

/// Sends 100 packets with two labels. The router removes a label only if it is its own, and only if
/// no other label follows.
#[test]
fn the_label_is_popped() {
    skip_without!("tcpdump", "scapy");
    let line = Line::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/mpls.yaml");
    line.node.run(&["up", &path.to_string_lossy()]);
    let capture = line.b.capture("eth0", "udp").expect("a capture");
    line.a
        .scapy(&format!(
            "load_contrib('mpls')\n\
             def send(label, rest):\n\
             \x20   sendp(Ether(dst='{LEFT}')/MPLS(label=label, s=rest is None, ttl=9)/\n\
             \x20       (rest or b'')/IP(dst='10.9.9.9', ttl=7)/UDP(dport=9)/Raw(b'label%d' % label),\n\
             \x20       iface='eth0', verbose=0)\n\
             send(100, None)\n\
             send(200, None)\n\
             send(100, MPLS(label=7, s=1))\n"
        ))
        .expect("packets");
    let frames = capture.stop().expect("the end").frames().expect("packets");
    let [frame] = frames.as_slice() else { panic!("one packet comes out, not {frames:02x?}") };
    let to: Vec<String> = frame[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(to.join(":"), B);
    assert_eq!(frame[12..15], [8, 0, 0x45], "an IPv4 packet");
    assert_eq!(frame[22], 6, "one hop less");
    assert!(frame.ends_with(b"label100"), "{frame:02x?}");
}
