//! The Internet Indirection Infrastructure: servers in hosts and in the slow path of a router; all
//! packets cross Europa's links and routers.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node, Process, europa, skip_without};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// A host's address by its number; host 0 is the slow path of the router `west`.
fn address(number: usize) -> String {
    if number == 0 { "10.255.0.1".to_owned() } else { format!("10.0.{number}.2") }
}

fn servers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{}:5610", address(number))).collect()
}

/// ```text
///  hosts 1, 3, … ── west ── east ── hosts 2, 4, …
/// ```
/// Server 0 runs in the slow path of `west`.
fn yaml(hosts: usize, list: &str) -> String {
    let interfaces = |side: usize| -> String {
        let own = (1..=hosts).filter(|number| number % 2 == side);
        own.map(|n| format!("  h{n}: {{link: l{n}, addresses: [10.0.{n}.1/24]}}\n")).collect()
    };
    let routes = |to: usize, via: &str| -> String {
        let far = (1..=hosts).filter(|number| number % 2 == to);
        far.map(|n| format!("    - {{to: 10.0.{n}.0/24, via: {via}}}\n")).collect()
    };
    let host = |n: usize| {
        format!(
            "---\nkind: host\nname: h{n}\ngateway: 10.0.{n}.1\n\
             interfaces: {{eth0: {{link: l{n}, addresses: [10.0.{n}.2/24]}}}}\n"
        )
    };
    let hosts: String = (1..=hosts).map(host).collect();
    format!(
        "kind: slice\nname: lab\n---\nkind: router\nname: west\nslice: lab\ninterfaces:\n\
         \x20 wan: {{link: wan, addresses: [10.255.0.1/24]}}\n{}fast_path:\n  builtin: ipv4\n  routes:\n{}\
         slow_path:\n  run:\n    - name: i3\n      command: [{}, i3, serve, \"10.255.0.1:5610\", \
         --join, \"{list}\"]\n---\nkind: router\nname: east\nslice: lab\ninterfaces:\n\
         \x20 wan: {{link: wan, addresses: [10.255.0.2/24]}}\n{}fast_path:\n  builtin: ipv4\n  routes:\n{}{hosts}",
        interfaces(1),
        routes(0, "10.255.0.2"),
        europa().display(),
        interfaces(0),
        routes(1, "10.255.0.1"),
    )
}

struct Overlay {
    node: Node,
    list: String,
    /// Servers in hosts, by number.
    servers: BTreeMap<usize, Process>,
    count: usize,
}

impl Overlay {
    /// Brings up `count` servers, and `others` further hosts behind them.
    fn up(count: usize, others: usize) -> Overlay {
        let list = servers(count).join(",");
        let node = Node::new(None);
        node.up(&yaml(count - 1 + others, &list));
        let mut overlay = Overlay { node, list, servers: BTreeMap::new(), count };
        for number in 1..count {
            let at = format!("{}:5610", address(number));
            let server = overlay.start(number, &["serve", &at, "--join", &overlay.list.clone()]);
            overlay.servers.insert(number, server);
        }
        overlay
    }

    fn host(&self, number: usize) -> Namespace {
        self.node.host(&format!("h{number}"))
    }

    /// Starts `europa i3` in a host.
    fn start(&self, number: usize, arguments: &[&str]) -> Process {
        let program = europa().to_string_lossy().into_owned();
        let argv = [&[&program[..], "i3"], arguments].concat();
        self.host(number).start(&argv).expect("europa starts")
    }

    /// Starts a receiver in a host, and waits until its trigger is inserted.
    fn receive(&self, number: usize, arguments: &[&str]) -> Process {
        let all = [&["receive"], arguments, &["--server", &self.list]].concat();
        let receiver = self.start(number, &all);
        wait("a trigger is inserted", 15 * SECOND, || receiver.stderr().contains("inserted"));
        receiver
    }

    /// Sends from a host. Returns the text on its standard error.
    fn send(&self, number: usize, to: &str, payload: &str) -> String {
        let all = ["send", to, payload, "--server", &self.list];
        let output = self.start(number, &all).wait(15 * SECOND).expect("it ends");
        output.stderr
    }

    fn state(&self, number: usize) -> Option<Value> {
        let at = format!("{}:5610", address(number));
        let output = self.start(self.count, &["state", &at]).wait(10 * SECOND).ok()?;
        serde_json::from_str(&output.stdout).ok()
    }

    /// Waits until each of these servers knows its neighbours; returns them in the ring's order.
    fn ring(&self, alive: &[usize], limit: Duration) -> Vec<usize> {
        let successors = (alive.len() - 1).min(16);
        let mut order = Vec::new();
        wait("the ring", limit, || {
            let states: Vec<Option<Value>> = alive.iter().map(|one| self.state(*one)).collect();
            let is_ready = |state: &Option<Value>| {
                let state = state.as_ref();
                let list = state.and_then(|state| state["successors"].as_array());
                list.is_some_and(|list| list.len() == successors)
                    && state.is_some_and(|state| state["predecessor"].is_string())
            };
            order = alive.to_vec();
            order.sort_by_key(|number| {
                let at = alive.iter().position(|one| one == number).expect("it");
                states[at].as_ref().map(|state| state["position"].to_string())
            });
            states.iter().all(is_ready)
        });
        order
    }
}

fn wait(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(50));
    }
}

/// Waits until a receiver has printed exactly this text.
fn prints(receiver: &Process, wanted: &str) {
    wait(&format!("{wanted:?}"), 5 * SECOND, || receiver.stdout().len() >= wanted.len());
    assert_eq!(receiver.stdout(), wanted);
}

#[test]
fn packets_find_receivers_by_ids() {
    skip_without!("ip");
    let overlay = Overlay::up(8, 4);
    let all: Vec<usize> = (0..8).collect();
    overlay.ring(&all, 20 * SECOND);
    let (sender, first, second, third) = (8, 9, 10, 11);

    // Multicast, and anycast by the nearest id.
    let both = [overlay.receive(first, &["both"]), overlay.receive(second, &["both"])];
    overlay.send(sender, "both", "to both");
    both.iter().for_each(|one| prints(one, "to both\n"));
    let any = [overlay.receive(first, &["any/a"]), overlay.receive(second, &["any/b"])];
    overlay.send(sender, "any/b", "to b");
    overlay.send(sender, "any/a", "to a");
    prints(&any[0], "to a\n");
    prints(&any[1], "to b\n");

    // The packet passes a service, and a trigger to another id.
    let own = overlay.receive(third, &["own"]);
    let _service = overlay.receive(first, &["upper", "--pass-on", "tr a-z A-Z"]);
    overlay.send(sender, "upper,own", "through");
    prints(&own, "THROUGH\n");
    let chain = ["insert", "chain", "--to", "own", "--server", &overlay.list];
    let chain = overlay.start(second, &chain);
    wait("the chain", 15 * SECOND, || chain.stderr().contains("inserted"));
    overlay.send(sender, chain.stdout().trim(), "chained");
    prints(&own, "THROUGH\nchained\n");
    // Without its service a packet goes to the next id.
    overlay.send(sender, "nobody,own", "backup");
    prints(&own, "THROUGH\nchained\nbackup\n");

    // The receiver's host gets another address.
    let host = overlay.host(third);
    host.ip(&["address", "delete", "10.0.11.2/24", "dev", "eth0"]).expect("no address");
    host.address("eth0", "10.0.11.7/24").expect("an address");
    host.ip(&["route", "replace", "default", "via", "10.0.11.1"]).expect("a route");
    wait("the new address", 15 * SECOND, || own.stderr().matches("inserted").count() == 2);
    overlay.send(sender, "own", "moved");
    prints(&own, "THROUGH\nchained\nbackup\nmoved\n");

    // A receiver that ends removes its trigger.
    own.signal(Signal::SIGTERM);
    wait("nobody receives", 10 * SECOND, || overlay.send(sender, "own", "x").contains("nobody"));
}

#[test]
fn mistakes_are_explained() {
    let many = ["a"; 16].join(",");
    let nowhere = ["--server", "127.0.0.1:9"];
    for (arguments, code, wanted) in [
        (&["serve", "0.0.0.0:5610"][..], 2, "need an address and a port"),
        (&["serve", "192.0.2.77:5610"], 1, "UDP 192.0.2.77:5610"),
        (&["serve", "127.0.0.1:5610", "--key-file", "/no/key"], 1, "/no/key"),
        (&["state", "127.0.0.1:9"], 1, "is it running, and is --key-file that of its ring?"),
        (&[&["send", "a", "x"][..], &nowhere].concat(), 1, "no server of --server answers"),
        (&[&["send", &many, "x"][..], &nowhere].concat(), 2, "15 are possible"),
        (&[&["insert", "x", "--to", &many][..], &nowhere].concat(), 2, "15 are possible"),
        (&[&["receive", "/"][..], &nowhere].concat(), 2, "is no id"),
        (&[&["receive", &"a".repeat(64)][..], &nowhere].concat(), 1, "use its name, or --key"),
        (&[&["remove", "a"][..], &nowhere].concat(), 2, "--port names the port"),
    ] {
        let program = europa().to_string_lossy().into_owned();
        let argv = [&[&program[..], "i3"], arguments].concat();
        let process = Process::start(&argv).expect("europa starts");
        let output = process.wait(10 * SECOND).expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(wanted), "{arguments:?}: {}", output.stderr);
    }
}

/// The servers use IPv6 and a key: a server without the key does not join.
#[test]
fn a_ring_has_a_key() {
    skip_without!("ip");
    let mut lab = Lab::new().expect("a lab");
    let inside = lab.namespace("i3").expect("a namespace");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    fs::write(&file, "a key").expect("a file");
    let key = ["--key-file", file.to_str().expect("a path")];
    let list = "[::1]:5610,[::1]:5611";
    let program = europa().to_string_lossy().into_owned();
    let start = |arguments: &[&str]| {
        let argv = [&[&program[..], "i3"], arguments].concat();
        inside.start(&argv).expect("europa starts")
    };
    let serve = |at: &str, key: &[&str]| start(&[&["serve", at, "--join", list][..], key].concat());
    let _servers = ["[::1]:5610", "[::1]:5611"].map(|at| serve(at, &key));
    let _stranger = serve("[::1]:5612", &[]);
    let state = |at: &str, key: &[&str]| -> Option<Value> {
        let output = start(&[&["state", at][..], key].concat()).wait(10 * SECOND).ok()?;
        serde_json::from_str(&output.stdout).ok()
    };
    wait("a ring of two", 10 * SECOND, || {
        state("[::1]:5610", &key).is_some_and(|state| {
            state["successors"] == json!(["[::1]:5611"]) && state["predecessor"] == "[::1]:5611"
        })
    });
    let receiver = start(&["receive", "six", "--server", list]);
    wait("a trigger is inserted", 15 * SECOND, || receiver.stderr().contains("inserted"));
    let sent = start(&["send", "six", "hello", "--server", list]).wait(10 * SECOND);
    assert!(sent.is_ok_and(|output| output.status.success()));
    prints(&receiver, "hello\n");
    assert_eq!(state("[::1]:5610", &[]), None, "without the key");
    wait("the stranger is refused", 5 * SECOND, || {
        let refused = state("[::1]:5610", &key).map(|state| state["counters"].clone());
        refused.is_some_and(|counters| counters["refused_messages"].as_u64() > Some(1))
    });
    assert_eq!(state("[::1]:5612", &[]).map(|state| state["joined"].clone()), Some(json!(false)));
}

/// Kills half of the servers, every second one, so that a copy of each trigger survives.
fn kill_half(count: usize) {
    let mut overlay = Overlay::up(count, 2);
    let all: Vec<usize> = (0..count).collect();
    let order = overlay.ring(&all, 40 * SECOND);
    let (sender, receiver) = (count, count + 1);
    let names: Vec<String> = (0..8).map(|number| format!("name{number}")).collect();
    let receivers: Vec<Process> =
        names.iter().map(|name| overlay.receive(receiver, &[name])).collect();
    sleep(SECOND / 2);
    let forever = |name: &String| {
        let list = &overlay.list;
        overlay.start(sender, &["send", name, "x", "-n", "1000", "--every", "0.2", "-s", list])
    };
    let _senders: Vec<Process> = names.iter().map(forever).collect();
    let lines = |receiver: &Process| receiver.stdout().lines().count();
    wait("packets flow", 10 * SECOND, || receivers.iter().all(|one| lines(one) > 2));

    // The server in the slow path is not killed, because it would be restarted.
    let killed = order.iter().enumerate().filter(|(at, number)| at % 2 == 0 && **number != 0);
    let killed: Vec<usize> = killed.map(|(_, number)| *number).collect();
    for number in &killed {
        let server = overlay.servers.remove(number).expect("the server");
        server.signal(Signal::SIGKILL);
    }
    let start = Instant::now();
    sleep(SECOND / 2);
    let before: Vec<usize> = receivers.iter().map(lines).collect();
    wait("every trigger delivers again", 10 * SECOND, || {
        receivers.iter().zip(&before).all(|(one, before)| lines(one) > before + 2)
    });
    println!("{} of {count} killed: all deliver after {:?}", killed.len(), start.elapsed());
    let alive: Vec<usize> = all.into_iter().filter(|number| !killed.contains(number)).collect();
    overlay.ring(&alive, 15 * SECOND);
    // The ring is stable: no packet is lost any more.
    let before: Vec<usize> = receivers.iter().map(lines).collect();
    sleep(SECOND);
    assert!(receivers.iter().zip(&before).all(|(one, before)| lines(one) >= before + 3));
}

#[test]
fn triggers_survive_half_of_eight_servers() {
    skip_without!("ip");
    kill_half(8);
}

#[test]
#[ignore = "32 servers: make nightly"]
fn triggers_survive_half_of_thirty_two_servers() {
    skip_without!("ip");
    kill_half(32);
}
