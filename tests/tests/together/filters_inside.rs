//! Programs inside routers change rules. They change only the rules of their own slice, and their
//! requests cannot keep the node from others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, europa, skip_without};
use serde_json::Value;

/// A folder with a copy of the program that routers can read: a router has its own `/tmp`, below
/// which this repository may lie.
fn visible() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/srv").expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("for everybody");
    fs::copy(europa(), folder.path().join("europa")).expect("a copy");
    folder
}

/// `a` ── lab/r ── `b`; slice `other` beside it. A program of the router adds a rule when it
/// starts.
fn topology(europa: &Path) -> String {
    let europa = europa.display();
    let rule = "protocol: udp, destination_port: 7401, action: drop";
    let program = format!("until {europa} filter add lab '{rule}'; do sleep 0.1; done; sleep 1000");
    let mut text = format!(
        "kind: slice\nname: lab\nreservation: {{filters: 10}}\n---\nkind: slice\nname: other\n---\n\
         kind: router\nname: r\nslice: lab\ninterfaces:\n\
         \x20 a: {{link: a, addresses: [10.0.1.1/24]}}\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24]}}\n\
         fast_path: {{builtin: ipv4}}\nslow_path:\n  run:\n\
         \x20   - {{name: guard, command: [sh, -c, \"{program}\"]}}\n"
    );
    for (host, net) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: host\nname: {host}\ngateway: 10.0.{net}.1\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.{net}.2/24]}}}}\n"
        );
    }
    text
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} takes too long");
        sleep(Duration::from_millis(50));
    }
}

fn passes(node: &Node) -> bool {
    node.host("a").ping("10.0.2.2", 1, &["-W", "1"]).expect("a ping").received == 1
}

fn list(text: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(text).expect("JSON");
    list["filters"].as_array().cloned().expect("a list")
}

/// Sends a hostile client's request to the socket, followed by `more` bytes of nonsense. Returns
/// the status of the answer.
fn talk(node: &Node, says: &str, more: usize) -> String {
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n\
         s.connect('\\0europa')\ns.sendall(b'{says}')\n\
         try: s.sendall(b'{{' * {more})\nexcept OSError: pass\n\
         print(s.recv(4096).split(b' ')[1].decode())"
    );
    let output = node.attempt(&["exec", "lab/r", "python3", "-c", &script]);
    assert!(output.status.success(), "{says}: {output:?}");
    output.stdout.trim().to_owned()
}

#[test]
fn programs_change_rules_of_their_own_slice_only() {
    skip_without!("ping", "python3");
    let node = Node::new(None);
    let folder = visible();
    let program = folder.path().join("europa");
    node.up(&topology(&program));
    let europa = program.display().to_string();
    let inside = |arguments: &[&str]| {
        node.attempt(&[&["exec", "lab/r", &europa, "filter"], arguments].concat())
    };
    until("the first packet", || passes(&node));

    // The router's own program has added a rule at its start.
    let outside = || list(&node.run(&["filter", "list", "lab", "--json"]));
    until("the program's rule", || {
        outside().iter().any(|one| one["rule"]["destination_port"] == "7401")
    });

    // The program adds a rule that takes effect at once and counts, and removes it.
    let added = inside(&["add", "lab", "destination: 10.0.2.2/32, protocol: icmp, action: drop"]);
    assert!(added.status.success(), "{added:?}");
    assert!(!passes(&node));
    let seen = list(&inside(&["list", "lab", "--json"]).stdout);
    let mine = seen.iter().find(|one| one["rule"]["protocol"] == "icmp").expect("listed");
    assert!(mine["packets"].as_u64() > Some(0), "{mine}");
    let number = mine["number"].as_u64().expect("a number").to_string();
    let removed = inside(&["del", "lab", &number]);
    assert!(removed.status.success(), "{removed:?}");
    assert!(passes(&node));

    // The program can change only its own slice's rules, within the slice's reservation.
    for arguments in [&["add", "other", "action: drop"][..], &["list", "other"]] {
        let refused = inside(arguments);
        assert!(
            !refused.status.success() && refused.stderr.contains("no slice other"),
            "{refused:?}"
        );
    }
    assert!(list(&node.run(&["filter", "list", "other", "--json"])).is_empty());
    let rules: Vec<String> = (1..=10)
        .map(|port| {
            format!("protocol: udp, source: 10.9.0.0/16, destination_port: {port}, action: drop")
        })
        .collect();
    let mut many = vec!["add", "lab"];
    many.extend(rules.iter().map(String::as_str));
    let refused = inside(&many);
    assert!(!refused.status.success() && refused.stderr.contains("10 entries"), "{refused:?}");
    assert_eq!(outside().len(), 1, "nothing of it is in force");

    // The socket serves nothing else, and refuses requests that are too long.
    let post = "POST /v1/slices/lab/filters HTTP/1.1\\r\\nhost: x\\r\\ncontent-type: application/json\\r\\n";
    let most = 17 << 20;
    for (says, more, status) in [
        ("GET /v1/node HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".to_owned(), 0, "404"),
        ("POST /v1/down HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".to_owned(), 0, "404"),
        (
            "GET /v1/slices/..%2fother/filters HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".to_owned(),
            0,
            "404",
        ),
        (format!("{post}content-length: {most}\\r\\n\\r\\n"), most, "413"),
        (format!("{post}content-length: 9\\r\\n\\r\\n[[[[[[[[["), 0, "422"),
        ("\\x00\\xff\\xfe nonsense\\r\\n\\r\\n".to_owned(), 0, "400"),
    ] {
        assert_eq!(talk(&node, &says, more), status, "{says}");
    }

    // A client that takes all connections and sends nothing delays only itself.
    let hold = "import socket, time\nall = []\nfor i in range(50):\n s = socket.socket(socket.AF_UNIX)\n \
                s.setblocking(False)\n try: s.connect('\\0europa')\n except BlockingIOError: pass\n \
                all.append(s)\ntime.sleep(8)";
    let held = node.start(&["exec", "lab/r", "python3", "-c", hold]);
    sleep(Duration::from_millis(500));
    let start = Instant::now();
    assert_eq!(outside().len(), 1);
    assert!(passes(&node));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    held.wait(Duration::from_secs(60)).expect("it ends");
    until("its own turn", || inside(&["list", "lab"]).status.success());

    // A node that takes over opens the socket again.
    let pid = node.kill("node");
    until("the end of the node", || fs::metadata(format!("/proc/{pid}")).is_err());
    node.up(&topology(&program));
    until("the next node", || inside(&["list", "lab"]).status.success());
    assert!(passes(&node));
}
