//! Files and sockets that elements of an isolated router can use only with a grant.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// A router between hosts `a` and `b`, with a configuration beside its wires, and grants.
fn document(beside: &str, grants: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\ninterfaces:\n\
         \x20 a: {{link: a}}\n  b: {{link: b}}\n{grants}fast_path:\n\
         \x20 click: |\n    FromDevice(a, PROMISC true) -> t :: Tee -> Queue -> ToDevice(b);\n\
         \x20   FromDevice(b, PROMISC true) -> Queue -> ToDevice(a);\n    {beside}\n"
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

fn pings(node: &Node) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if node.host("a").ping("10.0.0.2", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.received > 0) {
            return true;
        }
    }
    false
}

#[test]
fn elements_have_what_is_granted_and_nothing_else() {
    skip_without!("ping", "nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (out, other) = (path("out.pcap"), path("other.pcap"));
    let node = Node::new(None);
    node.up(&document("t[1] -> Discard;", ""));
    assert!(pings(&node));

    // Without a grant, or with one for something else, the change is refused and the router runs
    // on.
    let dump = format!("t[1] -> dump :: ToDump({out});");
    for grants in [String::new(), format!("grants: [{{read: {out}}}, {{write: {other}}}]\n")] {
        if grants.contains("read") {
            fs::write(&out, "x").expect("a file");
        }
        let file = node.file("without.yaml", &document(&dump, &grants));
        let output = node.attempt(&["apply", &file]);
        assert!(!output.status.success(), "{}", output.stdout);
        let said = output.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = format!("`grants: [{{write: {out}}}]`");
        assert!(said.contains(&hint), "{hint} is not in: {}", output.stderr);
        assert!(said.contains("without.yaml:"), "{}", output.stderr);
        assert!(!folder.path().join("other.pcap").exists(), "nothing was made");
        assert!(pings(&node));
        let _ = fs::remove_file(&out);
    }
    let error = node.attempt(&["read", "red/r", "dump.count"]);
    assert!(!error.status.success(), "there is no such element");

    // With a grant, the file has the packets that passed.
    let grants = format!("grants:\n- write: {out}\n");
    node.run(&["apply", &node.file("with.yaml", &document(&dump, &grants))]);
    assert!(pings(&node));
    node.run(&["write", "red/r", "dump.flush"]);
    let count: usize = node.run(&["read", "red/r", "dump.count"]).trim().parse().expect("a number");
    assert!(count > 0);
    let bytes = fs::read(&out).expect("a trace");
    assert!(bytes.len() > 24 + count * (16 + 42), "{} bytes for {count} packets", bytes.len());

    // Another configuration with another grant can read the written file.
    let replay = format!("FromDump({out}) -> c :: Counter -> Discard; t[1] -> Discard;");
    let grants = format!("grants: [{{read: {out}}}]\n");
    node.run(&["apply", &node.file("replay.yaml", &document(&replay, &grants))]);
    let begun = Instant::now();
    while node.run(&["read", "red/r", "c.count"]).trim() == "0" {
        assert!(begun.elapsed() < Duration::from_secs(5), "nothing is replayed");
    }
    assert!(pings(&node));

    // The message about a missing file shows the place of the grant.
    let grants = format!("grants: [{{read: {}}}]\n", path("none"));
    let file = node.file("none.yaml", &document(&replay, &grants));
    let output = node.attempt(&["apply", &file]);
    assert!(!output.status.success());
    assert!(output.stderr.contains("No such file"), "{}", output.stderr);
    assert!(output.stderr.contains("none.yaml:10:"), "{}", output.stderr);
}

#[test]
fn a_socket_reaches_into_the_sandbox() {
    skip_without!("nsenter");
    let own = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    own.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    // The port is free at the moment.
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("one");
    let (address, port) = (free.to_string(), free.port());
    let echo =
        |stamp: &str| format!("t[1] -> Discard; s :: Socket(UDP, 127.0.0.1, {port}) -> {stamp} s;");
    let node = Node::new(None);
    let grants = format!("grants: [{{listen: udp {address}}}]\n");
    let answers = |expected: &[u8]| {
        let begun = Instant::now();
        let mut answer = [0; 64];
        loop {
            assert!(begun.elapsed() < Duration::from_secs(10), "nobody answers");
            own.send_to(b"hello", &address).expect("sent");
            if let Ok(length) = own.recv(&mut answer)
                && &answer[..length] == expected
            {
                break;
            }
        }
    };
    node.up(&document(&echo(""), &grants));
    answers(b"hello");
    // Another configuration runs in another process, and the socket stays.
    node.run(&["apply", &node.file("strip.yaml", &document(&echo("Strip(1) ->"), &grants))]);
    answers(b"ello");
    node.run(&["restart", "red/r"]);
    answers(b"ello");
    let wrong = document(&echo(""), "grants: [{listen: udp 127.0.0.1}]\n");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(output.stderr.contains("expected ADDRESS:PORT"), "{}", output.stderr);
}

#[test]
fn a_socket_in_the_file_system_goes_with_its_router_also_of_another_node() {
    skip_without!("nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("echo.sock");
    let beside = format!("t[1] -> Discard; s :: Socket(UNIX, {}) -> s;", path.display());
    let grants = format!("grants: [{{listen: unix {}}}]\n", path.display());
    let with = document(&beside, &grants);
    let without = document("t[1] -> Discard;", "");
    let answers = || {
        let begun = Instant::now();
        let mut answer = [0; 5];
        while begun.elapsed() < Duration::from_secs(10) {
            if let Ok(mut stream) = UnixStream::connect(&path)
                && stream.set_read_timeout(Some(Duration::from_millis(100))).is_ok()
                && stream.write_all(b"hello").is_ok()
                && stream.read_exact(&mut answer).is_ok()
            {
                assert_eq!(&answer, b"hello");
                return;
            }
        }
        panic!("nobody answers");
    };
    let node = Node::new(None);
    node.up(&with);
    answers();
    node.kill("node");
    node.up(&with);
    answers();
    // The node that opened the socket has ended: only the router's process has it.
    node.run(&["restart", "red/r"]);
    answers();
    node.run(&["restart", "red/r"]);
    answers();
    node.run(&["apply", &node.file("without.yaml", &without)]);
    assert!(!path.exists(), "the router that listened has gone");
    node.run(&["apply", &node.file("with.yaml", &with)]);
    answers();
    node.run(&["down"]);
    assert!(!path.exists(), "nothing is left");
}
