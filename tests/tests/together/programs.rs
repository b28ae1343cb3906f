//! Data planes of users' own, in C and Python, between two hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk")
}

/// A router between hosts `a` and `b` whose data plane is this program.
fn document(program: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\ninterfaces:\n\
         \x20 a: {{link: a}}\n  b: {{link: b}}\nfast_path: {{program: {program}}}\n"
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

fn pings(node: &Node) {
    let begun = Instant::now();
    let ping = || node.host("a").ping("10.0.0.2", 20, &["-i", "0.02"]);
    while !ping().is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", node.run(&["logs", "red/r"]));
    }
}

/// A folder that every user may read, with the programs of `sdk/c`.
fn compiled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["forward", "filter"] {
        let source = sdk().join(format!("c/{name}.c"));
        let built = Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join(name))
            .arg(source)
            .output()
            .expect("cc runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    folder
}

/// How many of 20 datagrams to a UDP port arrive from `a` at `b`.
fn arrives(node: &Node, port: u16) -> u64 {
    let to = format!("10.0.0.2:{port}");
    let sink = node.host("b").sink(&to, 1).expect("a sink");
    let stream = node.host("a").stream(&to, 1, 200, 64).expect("a stream");
    std::thread::sleep(Duration::from_millis(500));
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(100));
    let packets = sink.packets();
    sink.stop(sent);
    assert!(sent >= 50, "only {sent} sent");
    packets
}

/// The process that runs this program.
fn running(program: &str) -> i32 {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let mut all = entries.filter(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.starts_with(program.as_bytes())
    });
    let entry = all.next().expect("the program runs");
    entry.file_name().to_str().expect("a number").parse().expect("a number")
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).expect("it");
}

#[test]
fn a_node_killed_and_started_again_adopts_a_program() {
    skip_without!("cc", "ping", "nsenter");
    let folder = compiled();
    let program = folder.path().join("forward").to_str().expect("a path").to_owned();
    let document = document(&format!("[{program}]"));
    let node = Node::new(None);
    node.up(&document);
    pings(&node);
    let before = running(&program);
    let sink = node.host("b").sink("10.0.0.2:5000", 1).expect("a sink");
    let stream = node.host("a").stream("10.0.0.2:5000", 1, 1000, 64).expect("a stream");
    let stream = stream.paced_by(&sink);
    for round in 0..3 {
        let killed = *node.processes().first().expect("the node runs");
        kill(killed as i32);
        let begun = Instant::now();
        while node.processes().contains(&killed) {
            assert!(begun.elapsed() < Duration::from_secs(5), "the node does not end");
        }
        std::thread::sleep(Duration::from_millis(50 + 100 * round));
        node.up(&document);
        assert_eq!(running(&program), before, "{}", node.run(&["events"]));
    }
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect() && sent > 100, "{sent} sent, {received:?}");
    let events = node.run(&["events"]);
    assert!(events.contains("Adopted") && !events.contains("NotAdopted"), "{events}");

    // The node that has adopted the program restarts and replaces it.
    kill(before);
    pings(&node);
    let filter = format!("[{}, \"5000\"]", folder.path().join("filter").display());
    node.run(&["apply", &node.file("filter.yaml", &self::document(&filter))]);
    pings(&node);
    assert_eq!(arrives(&node, 5000), 0);
}

#[test]
fn programs_in_c_forward_and_filter() {
    skip_without!("cc", "ping", "nsenter");
    let folder = compiled();
    let program = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let node = Node::new(None);
    node.up(&document(&format!("[{}]", program("forward"))));
    pings(&node);
    assert!(arrives(&node, 5000) >= 50);

    // The idle program sleeps and does not poll.
    std::thread::sleep(Duration::from_millis(200));
    let pid = running(&program("forward"));
    let process = Path::new("/proc").join(pid.to_string());
    let stat = || fs::read_to_string(process.join("stat")).expect("it runs");
    let ticks = |stat: &str| -> u64 {
        let rest = stat.rsplit_once(") ").expect("a name").1;
        rest.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().expect("ticks")).sum()
    };
    let before = ticks(&stat());
    std::thread::sleep(Duration::from_millis(500));
    assert!(ticks(&stat()) - before <= 2, "an idle program uses a core");

    // The program has nothing of the machine, except what the node gave it.
    let status = fs::read_to_string(process.join("status")).expect("it runs");
    assert!(status.contains("CapEff:\t0000000000000000") && status.contains("Seccomp:\t2"));
    assert!(status.contains("Uid:\t200"), "{status}");

    let error = node.attempt(&["read", "red/r", "x.count"]);
    assert!(error.stderr.contains("has no handlers"), "{}", error.stderr);

    // The node restarts a killed program.
    kill(pid);
    pings(&node);

    // Another program takes over, with its own arguments.
    let filter = format!("[{}, \"5000\"]", program("filter"));
    node.run(&["apply", &node.file("filter.yaml", &document(&filter))]);
    pings(&node);
    assert_eq!(arrives(&node, 5000), 0);
    assert!(arrives(&node, 5001) >= 50);

    for (program, said) in [
        ("[forward]", "no path from the root"),
        ("[/nowhere/forward]", "No such file or directory"),
        ("[/etc/passwd]", "cannot be executed"),
    ] {
        let output = node.attempt(&["apply", &node.file("wrong.yaml", &document(program))]);
        assert!(!output.status.success());
        assert!(output.stderr.contains(said), "{program}: {}", output.stderr);
    }
    pings(&node);
}

#[test]
fn a_program_in_python_forwards() {
    skip_without!("python3", "ping", "nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let plane = folder.path().join("plane");
    fs::create_dir(&plane).expect("a folder");
    for name in ["europa.py", "__main__.py"] {
        fs::copy(sdk().join("python").join(name), plane.join(name)).expect("a file");
    }
    let node = Node::new(None);
    node.up(&document(&format!("[/usr/bin/python3, {}]", plane.display())));
    pings(&node);
    assert!(node.run(&["logs", "red/r"]).contains("first packet of type 0x0800"));
}
