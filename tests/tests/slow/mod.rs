//! Shared code of the tests of slow paths.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../crates/slowpath/tests/kernel/mod.rs"]
mod kernel;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, Ping};

/// Tests measure times, so one runs at a time.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `is` is true. Returns the time that this took.
pub(crate) fn wait(what: &str, limit: Duration, mut is: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    start.elapsed()
}

/// The namespace of a router's slow path.
pub(crate) fn linux(node: &Node, router: &str) -> Namespace {
    node.host(&router.replace('/', "."))
}

/// Number of routes in a router's fast path.
pub(crate) fn count(node: &Node, router: &str) -> usize {
    node.run(&["read", router, "route.count"]).trim().parse().expect("a number")
}

/// A table of a router's fast path: ways by prefix.
fn fast_path(node: &Node, router: &str, family: &str) -> BTreeMap<String, String> {
    let (table, parts) = match family {
        // Half of a full table at a time: the whole is too long for a message.
        "-4" => ("route.table", ["0.0.0.0/1", "128.0.0.0/1"]),
        _ => ("route6.table", ["::/1", "8000::/1"]),
    };
    let default =
        node.run(&["read", router, table, if family == "-4" { "0.0.0.0/0" } else { "::/0" }]);
    let mut text: String = default.lines().take(1).map(|line| format!("{line}\n")).collect();
    for part in parts {
        text += &node.run(&["read", router, table, part]);
    }
    let read = |line: &str| {
        let (prefix, way) = line.split_once('\t')?;
        Some((prefix.to_owned(), way.replace('\t', " ")))
    };
    text.lines().filter_map(read).collect()
}

/// Waits until a router's fast path has the routes that its Linux has, entry by entry, of both
/// families. Returns how many there are.
pub(crate) fn compare(node: &Node, router: &str, interfaces: &[&str]) -> usize {
    // Where 100 000 routes have changed on a busy machine, this takes a while.
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let mut different = Vec::new();
        let mut entries = 0;
        for family in ["-4", "-6"] {
            let kernel = kernel::table(linux(node, router).name(), family, interfaces);
            let told = fast_path(node, router, family);
            entries += kernel.len();
            for (prefix, way) in &kernel {
                if told.get(prefix) != Some(way) {
                    different
                        .push(format!("{prefix}: Linux {way}, fast path {:?}", told.get(prefix)));
                }
            }
            for (prefix, way) in told.iter().filter(|(prefix, _)| !kernel.contains_key(*prefix)) {
                different.push(format!("{prefix}: fast path {way}, not in Linux"));
            }
        }
        if different.is_empty() {
            return entries;
        }
        different.truncate(20);
        assert!(Instant::now() < limit, "{router}: the tables differ:\n{}", different.join("\n"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Pings until there is an answer. Returns the time that this took.
pub(crate) fn reach(from: &Namespace, to: &str, limit: Duration) -> Duration {
    wait(&format!("an answer of {to}"), limit, || {
        from.ping(to, 1, &["-W", "0.3"]).is_ok_and(|Ping { received, .. }| received == 1)
    })
}

/// The process of a router.
pub(crate) fn router_pid(node: &Node, router: &str) -> Option<i32> {
    let stats = node.stats();
    let found = stats["routers"].as_array()?.iter().find(|one| one["name"] == *router)?;
    found["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
}

/// Processes in a router's Linux by the name of their program: programs of `run:`, and their
/// children.
pub(crate) fn programs(node: &Node, router: &str) -> Vec<(i32, String)> {
    let output = europa_tests::run(&["ip", "netns", "pids", linux(node, router).name()]);
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let named = |pid: &str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((pid.parse().ok()?, name.trim().to_owned()))
    };
    text.split_whitespace().filter_map(named).collect()
}

/// The process of a program in a router's Linux.
pub(crate) fn program(node: &Node, router: &str, name: &str) -> Option<i32> {
    programs(node, router).into_iter().find(|(_, program)| program == name).map(|(pid, _)| pid)
}
