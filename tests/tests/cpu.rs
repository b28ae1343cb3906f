//! The slices' reserved CPU and memory. Routers that spin get their part and no more, also beside
//! others that spin; control groups are made and removed.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A port, and a slice with a router that always polls, for each reservation.
fn text(near: &Namespace, slices: &[(&str, &str)]) -> String {
    let mut text = format!("kind: port\nname: p\ndevice: eth0\nnamespace: {}\n", near.name());
    for (index, (slice, reservation)) in slices.iter().enumerate() {
        text += &format!(
            "---\nkind: slice\nname: {slice}\nreservation: {{{reservation}}}\n---\n\
             kind: router\nname: r\nslice: {slice}\npoll: busy\n\
             interfaces:\n  in: {{port: p, mac: \"02:00:00:00:01:0{index}\"}}\n\
             fast_path: {{click: \"FromDevice(in) -> EtherMirror -> ToDevice(in)\"}}\n"
        );
    }
    text
}

struct Net {
    // The node ends before the laboratory does.
    node: Node,
    near: Namespace,
    _lab: Lab,
}

/// The statistics of the router of a slice.
fn of(stats: &Value, slice: &str) -> Value {
    let routers = stats["routers"].as_array().cloned().unwrap_or_default();
    let name = format!("{slice}/r");
    routers.into_iter().find(|router| router["name"] == name).expect("the router")
}

/// The control groups that bound CPU time, and the name of the file with the bound.
fn quota() -> Option<(PathBuf, &'static str)> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let of = |line: &str, kind: &str, option: &str| {
        let mut words = line.split(' ').skip(1);
        let (place, found, options) = (words.next()?, words.next()?, words.next()?);
        let is = found == kind && options.split(',').any(|one| option.is_empty() || one == option);
        is.then(|| PathBuf::from(place))
    };
    if let Some(root) = mounts.lines().find_map(|line| of(line, "cgroup", "cpu")) {
        return Some((root, "cpu.cfs_quota_us"));
    }
    let root = mounts.lines().find_map(|line| of(line, "cgroup2", ""))?;
    let all = fs::read_to_string(root.join("cgroup.controllers")).ok()?;
    all.split_whitespace().any(|one| one == "cpu").then_some((root, "cpu.max"))
}

impl Net {
    fn new(slices: &[(&str, &str)]) -> Net {
        let mut lab = Lab::new().expect("a laboratory");
        let near = lab.namespace("near").expect("a namespace");
        let far = lab.namespace("far").expect("a namespace");
        lab.veth((&near, "eth0"), (&far, "eth0")).expect("a pair");
        let node = Node::new(None);
        node.up(&text(&near, slices));
        Net { node, near, _lab: lab }
    }

    fn file(&self, slices: &[(&str, &str)]) -> String {
        self.node.file("changed.yaml", &text(&self.near, slices))
    }

    fn router(&self, slice: &str) -> Value {
        of(&self.node.stats(), slice)
    }

    /// The parts of a core that routers use, over two seconds.
    fn cores<const N: usize>(&self, slices: [&str; N]) -> [f64; N] {
        let number = |value: &Value| value.as_u64().expect("a number") as f64;
        let before = self.node.stats();
        sleep(Duration::from_secs(2));
        let after = self.node.stats();
        // The node's clock measures the time, because the node too waits for its turn.
        let time = number(&after["at_ns"]) - number(&before["at_ns"]);
        let used = |stats: &Value, slice| number(&of(stats, slice)["cpu_ns"]);
        let found = slices.map(|slice| (used(&after, slice) - used(&before, slice)) / time);
        eprintln!("{slices:?}: {found:.3?} cores");
        found
    }
}

impl Net {
    /// Checks that routers never get more than their reserved parts of a core, and that in some
    /// measurement they get no less. In other measurements the machine may give its time to other
    /// processes. A part of `f64::MAX` is not checked.
    fn gets<const N: usize>(&self, slices: [&str; N], parts: [f64; N]) {
        let mut found = [0.0; N];
        for _ in 0..15 {
            found = self.cores(slices);
            let pairs = || found.iter().zip(parts).filter(|(_, part)| *part < f64::MAX);
            for (found, part) in pairs() {
                assert!(*found < part * 1.04 + 0.002, "{found} of {part} cores");
            }
            if pairs().all(|(found, part)| *found > part - (part * 0.06).max(0.02)) {
                return;
            }
        }
        panic!("{found:?} of {parts:?} cores in the last of 15 measurements");
    }
}

#[test]
fn a_router_that_spins_has_its_part_and_no_more() {
    let Some((root, file)) = quota() else {
        println!("skipped: no control groups for CPU time");
        return;
    };
    let net = Net::new(&[("red", "cpu: 0.25"), ("blue", ""), ("green", ""), ("grey", "")]);
    let group = root.join("europa").join(net.node.instance()).join("slice_red");
    let quota = || fs::read_to_string(group.join(file)).expect("the group");
    assert!(quota().starts_with("1250"), "{}", quota());
    sleep(Duration::from_millis(300));
    // A turn of the scheduler ends at most 4 ms after the quota, and the scheduler subtracts the
    // excess later.
    net.gets(["red", "blue", "green", "grey"], [0.25, f64::MAX, f64::MAX, f64::MAX]);

    // The reservation changes in place.
    let pid = net.router("red")["pid"].clone();
    let changed = [("red", "cpu: 0.5"), ("blue", "cpu: 0.2"), ("green", ""), ("grey", "")];
    let told = net.node.run(&["apply", &net.file(&changed)]);
    assert!(told.contains("in place"), "{told}");
    net.gets(["red", "blue"], [0.5, 0.2]);

    // An excessive reservation is reported with the other mistakes, and nothing of it is applied.
    let many = std::thread::available_parallelism().expect("CPUs").get();
    let slices = [("red", format!("cpu: {many}")), ("blue", "cpu: 0.2, memory: 999999GB".into())];
    let slices = slices.each_ref().map(|(name, text)| (*name, text.as_str()));
    let refused = net.node.attempt(&["apply", &net.file(&slices)]);
    assert!(!refused.status.success());
    let why = format!("slice \"red\" wants {many} of CPU cores, and");
    assert!(refused.stderr.contains(&why) && refused.stderr.contains("left"), "{}", refused.stderr);
    assert!(quota().starts_with("2500"), "{}", quota());

    // The node is killed, and its successor keeps the bounds.
    let node = net.node.processes()[0];
    kill(Pid::from_raw(node as i32), Signal::SIGKILL).expect("the node");
    net.node.up(&text(&net.near, &changed));
    assert_eq!(net.router("red")["pid"], pid, "nothing was restarted");
    net.gets(["red"], [0.5]);

    // A slice without a reservation has no bound; a removed slice has no group.
    let limit = Instant::now() + Duration::from_secs(20);
    net.node.run(&["apply", &net.file(&[("red", ""), ("blue", "")])]);
    while !quota().starts_with("-1") && !quota().starts_with("max") {
        assert!(Instant::now() < limit, "{} stays", quota());
        sleep(Duration::from_millis(20));
    }
    net.node.run(&["delete", "router", "red/r"]);
    net.node.run(&["delete", "slice", "red"]);
    while group.exists() {
        assert!(Instant::now() < limit, "{} stays", group.display());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn groups_go_with_the_next_start_after_all_was_killed() {
    let Some((root, _)) = quota() else {
        println!("skipped: no control groups for CPU time");
        return;
    };
    let net = Net::new(&[("red", "cpu: 0.25, memory: 200MB")]);
    let top = root.join("europa").join(net.node.instance());
    assert!(top.join("slice_red/r").exists());
    let kill_all = || {
        for pid in net.node.processes() {
            // Some processes end with others.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
    };
    // A control group that no document names any more.
    fs::create_dir_all(top.join("slice_grey/r")).expect("a group");
    kill_all();
    net.node.up(&text(&net.near, &[("red", "cpu: 0.25, memory: 200MB")]));
    assert!(top.join("slice_red/r").exists());
    assert!(!top.join("slice_grey").exists(), "it stays");
    kill_all();
    net.node.run(&["down"]);
    assert!(!top.exists(), "it stays");
}

/// CPUs that a process may use; 0 is this one.
fn cpus_of(pid: i64) -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(pid as i32)).expect("its CPUs");
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

#[test]
fn routers_keep_off_a_cpu_that_receives_much() {
    let all = cpus_of(0);
    // The switch's CPU receives frames that kicks send. Frames received by tc are shared out.
    let Some((switch, others)) = all.split_last().filter(|(_, others)| !others.is_empty()) else {
        println!("skipped: there is one CPU");
        return;
    };
    let mut lab = Lab::new().expect("a laboratory");
    let near = lab.namespace("near").expect("a namespace");
    lab.veth((&near, "eth0"), (&near, "eth1")).expect("a pair");
    let net = Net { node: Node::new(None), near, _lab: lab };
    let frame = "\\<020000000001 020000000009 0800> ";
    let receiver = |slice: &str, more: &str, mac: u8| {
        format!(
            "---\nkind: slice\nname: {slice}\n---\nkind: router\nname: r\nslice: {slice}\n{more}\
             interfaces:\n  in: {{port: to, mac: \"02:00:00:00:00:{mac:02x}\"}}\n\
             fast_path: {{click: \"FromDevice(in) -> c :: Counter -> Discard\"}}\n"
        )
    };
    let text = format!(
        "kind: port\nname: to\ndevice: eth0\nnamespace: {near}\nreceive: xdp\n---\n\
         kind: port\nname: from\ndevice: eth1\nnamespace: {near}\n{}{}---\n\
         kind: slice\nname: grey\n---\nkind: router\nname: r\nslice: grey\nrun: inline\n\
         interfaces:\n  out: {{port: from, mac: \"02:00:00:00:00:09\"}}\n\
         fast_path:\n  click: |\n    s :: RatedSource(DATA {frame}, LENGTH 64, RATE 300000, ACTIVE false)\n\
         \x20   -> Queue(1000) -> ToDevice(out)\n",
        receiver("red", "", 1),
        receiver("blue", &format!("cpu: [{switch}]\n"), 2),
        near = net.near.name(),
    );
    net.node.up(&text);
    let [pid, blue] =
        ["red", "blue"].map(|slice| net.router(slice)["pid"].as_i64().expect("a pid"));
    assert_eq!(cpus_of(pid), all);
    let turn = |on: &str| net.node.run(&["write", "grey/r", "s.active", on]);
    let wait_for = |cpus: &[usize]| {
        let limit = Instant::now() + Duration::from_secs(20);
        while cpus_of(pid) != cpus {
            let stats = net.node.stats();
            assert!(Instant::now() < limit, "{:?}: {stats:#}", cpus_of(pid));
            sleep(Duration::from_millis(20));
        }
    };
    turn("true");
    wait_for(others);
    assert_eq!(cpus_of(blue), [*switch], "its document says where");
    turn("false");
    wait_for(&all);

    // The next node ends what the former one did for a busy CPU, if the CPU is not busy any more.
    net.node.run(&["write", "grey/r", "s.reset", ""]);
    net.node.run(&["write", "grey/r", "s.limit", "600000"]);
    turn("true");
    wait_for(others);
    let node = net.node.processes()[0];
    kill(Pid::from_raw(node as i32), Signal::SIGKILL).expect("the node");
    sleep(Duration::from_secs(3));
    assert_eq!(cpus_of(pid), others);
    net.node.up(&text);
    assert_eq!(net.router("red")["pid"], pid, "nothing was restarted");
    wait_for(&all);
}
