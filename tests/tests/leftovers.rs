//! However a node ends, nothing of it is left in the end, and devices have their former state. The
//! next `down` removes the objects of a killed node, or the next node adopts them.

mod line;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, Process, run, skip_without};
use line::Line;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kernel objects of a running node that have no names: numbers of processes and of eBPF programs,
/// maps and links.
#[derive(Debug, Default)]
struct Numbers {
    processes: BTreeSet<u32>,
    /// Kind in the words of `bpftool`, and number.
    bpf: BTreeSet<(&'static str, u32)>,
}

impl Numbers {
    /// The numbers of a running node on these ports.
    fn of(node: &Node, ports: &[(&Namespace, &str)]) -> Numbers {
        let mut numbers = Numbers::default();
        let mut by_tc = false;
        numbers.processes.extend(node.processes());
        for pid in &numbers.processes {
            for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten()
            {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                by_tc |= text.contains("link_type:\ttcx");
                for line in text.lines() {
                    let Some((name, number)) = line.split_once(':') else { continue };
                    let kind = match name {
                        "map_id" => "map",
                        "prog_id" => "prog",
                        "link_id" => "link",
                        _ => continue,
                    };
                    numbers.bpf.extend(number.trim().parse().map(|number| (kind, number)));
                }
            }
        }
        for (namespace, device) in ports {
            // A program of tc has a link, which a process holds together with the program.
            let program = receive_program(namespace, device);
            assert!(program.is_some() || by_tc, "{device} has no receive program");
            numbers.bpf.extend(program.map(|number| ("prog", number)));
        }
        numbers
    }

    /// Objects that still exist.
    fn left(&self) -> Vec<String> {
        let processes = self.processes.iter().filter(|pid| {
            // A process that has ended and is not reaped yet has no command line.
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
        });
        let bpf = self.bpf.iter().filter(|(kind, number)| {
            run(&["bpftool", kind, "show", "id", &number.to_string()]).is_ok()
        });
        processes
            .map(|pid| format!("process {pid}"))
            .chain(bpf.map(|(kind, number)| format!("{kind} {number}")))
            .collect()
    }
}

/// The number of the receive program of a device, if it is an XDP program.
fn receive_program(namespace: &Namespace, device: &str) -> Option<u32> {
    let text = shown(namespace, device);
    let rest = text.split("prog/xdp id ").nth(1)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A device as `ip` shows it, with its program and promiscuity.
fn shown(namespace: &Namespace, device: &str) -> String {
    let show = ["-details", "-oneline", "link", "show", "dev", device];
    namespace.ip(&show).expect("a device").stdout
}

/// The state of a line's devices, on both sides of both ports.
fn devices(line: &Line) -> Vec<String> {
    let places = [
        (&line.middle, "eu-left"),
        (&line.right, "eu-right"),
        (&line.a, "eth0"),
        (&line.b, "eth0"),
    ];
    places
        .into_iter()
        .flat_map(|(namespace, device)| {
            let features = namespace.run(&["ethtool", "-k", device]).expect("features").stdout;
            [shown(namespace, device), features]
        })
        .collect()
}

/// Files, sockets, mounts and control groups that carry the name of an instance.
fn named(instance: &str) -> Vec<String> {
    let mut found = Vec::new();
    let directory = Path::new("/run/europa").join(instance);
    if directory.exists() {
        found.push(directory.display().to_string());
    }
    for table in ["/proc/self/mountinfo", "/proc/net/unix"] {
        let text = fs::read_to_string(table).expect("a table of the kernel");
        found.extend(text.lines().filter(|line| line.contains(instance)).map(str::to_owned));
    }
    let mut folders = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(instance) {
                    found.push(entry.path().display().to_string());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.try_into().expect("a process")), signal).expect("a signal");
}

fn await_end(pids: &BTreeSet<u32>) {
    let start = Instant::now();
    let numbers = Numbers { processes: pids.clone(), ..Numbers::default() };
    while !numbers.left().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", numbers.left());
        sleep(Duration::from_millis(2));
    }
}

/// Checks that nothing of the node is left. Maps and programs may take a moment to vanish.
fn assert_gone(what: &str, line: &Line, before: &[String], numbers: &Numbers) {
    let start = Instant::now();
    while !numbers.left().is_empty() && start.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(numbers.left(), [""; 0], "{what}");
    assert_eq!(named(line.node.instance()), [""; 0], "{what}");
    assert_eq!(devices(line), before, "{what}");
    assert_eq!(line.node.processes(), [0; 0], "{what}");
}

/// Brings a node up, and has it do some work.
fn up(line: &Line) -> Numbers {
    line.up_ipv4();
    assert!(line.a.ping("10.0.2.2", 3, &[]).expect("a ping").is_perfect());
    let numbers = Numbers::of(&line.node, &[(&line.middle, "eu-left"), (&line.right, "eu-right")]);
    // The node must have objects now: otherwise a check that finds none would prove nothing.
    assert!(numbers.processes.len() >= 3 && numbers.bpf.len() > 15, "{numbers:?}");
    assert!(named(line.node.instance()).len() >= 4);
    assert!(numbers.left().len() == numbers.processes.len() + numbers.bpf.len());
    numbers
}

#[test]
fn nothing_is_left_however_a_node_ends() {
    skip_without!("ping", "ethtool", "bpftool");
    let line = Line::new();
    let before = devices(&line);
    let down = || drop(line.node.run(&["down"]));
    let node = |numbers: &Numbers| -> u32 {
        let first = line.node.processes()[0];
        assert!(numbers.processes.contains(&first));
        first
    };

    let numbers = up(&line);
    assert_ne!(devices(&line), before, "ports are prepared");
    down();
    assert_gone("down", &line, &before, &numbers);

    for (what, with) in [("SIGTERM", Signal::SIGTERM), ("SIGINT", Signal::SIGINT)] {
        let numbers = up(&line);
        signal(node(&numbers), with);
        await_end(&numbers.processes);
        assert_gone(what, &line, &before, &numbers);
    }

    // Processes run on after their node was killed, until `down` removes them.
    let numbers = up(&line);
    let killed = node(&numbers);
    signal(killed, Signal::SIGKILL);
    await_end(&BTreeSet::from([killed]));
    assert_eq!(line.node.processes().len(), numbers.processes.len() - 1);
    assert!(line.a.ping("10.0.2.2", 3, &[]).expect("a ping").is_perfect(), "without a node");
    down();
    assert_gone("a killed node, then down", &line, &before, &numbers);

    let first = up(&line);
    let killed = node(&first);
    signal(killed, Signal::SIGKILL);
    await_end(&BTreeSet::from([killed]));
    let second = up(&line);
    let both: BTreeSet<u32> = first.processes.intersection(&second.processes).copied().collect();
    assert_eq!(both.len(), first.processes.len() - 1, "the next node adopts: {first:?} {second:?}");
    down();
    assert_gone("a killed node, then up and down", &line, &before, &second);
    assert_eq!(first.left(), [""; 0]);

    for then in ["down", "up"] {
        let numbers = up(&line);
        // The node is killed first: it would restart the other processes.
        signal(node(&numbers), Signal::SIGKILL);
        for pid in &numbers.processes {
            let _ = kill(Pid::from_raw(*pid as i32), Signal::SIGKILL);
        }
        await_end(&numbers.processes);
        if then == "up" {
            let next = up(&line);
            assert!(next.processes.is_disjoint(&numbers.processes));
        }
        down();
        assert_gone(&format!("all killed, then {then}"), &line, &before, &numbers);
    }
}

#[test]
fn nothing_is_left_of_a_node_that_was_killed_while_it_came_up() {
    skip_without!("ping", "ethtool", "bpftool");
    let line = Line::new();
    let before = devices(&line);
    let file = line.node.file("node.yaml", &(line::ports() + line::ROUTER));
    let program = europa_tests::europa();
    let inside = format!("--net={}", line.middle.path().display());
    let mut caught = 0;
    for after_ms in [1, 5, 10, 20, 35, 50, 75, 100, 150] {
        let program = program.to_string_lossy();
        let argv = ["nsenter", &inside, &program, "--instance", line.node.instance(), "up", &file];
        let bringing = Process::start(&argv).expect("europa starts");
        let start = Instant::now();
        let pid = loop {
            if let Some(pid) = line.node.processes().first() {
                break *pid;
            }
            assert!(start.elapsed() < Duration::from_secs(5), "no node");
        };
        sleep(Duration::from_millis(after_ms));
        let numbers = Numbers {
            processes: line.node.processes().into_iter().collect(),
            ..Numbers::default()
        };
        signal(pid, Signal::SIGKILL);
        let output = bringing.wait(Duration::from_secs(30)).expect("europa ends");
        caught += u32::from(!output.status.success());
        await_end(&BTreeSet::from([pid]));
        line.node.run(&["down"]);
        assert_gone(&format!("killed after {after_ms} ms"), &line, &before, &numbers);
    }
    assert!(caught > 0, "every node was up before it was killed");
    // The next node works.
    let numbers = up(&line);
    line.node.run(&["down"]);
    assert_gone("down", &line, &before, &numbers);
}

#[test]
fn nothing_is_left_of_a_node_that_cannot_come_up() {
    skip_without!("ping", "ethtool");
    let line = Line::new();
    let before = devices(&line);
    for (what, yaml) in [
        ("no such device", line::ports().replace("eu-right", "eu-wrong") + line::ROUTER),
        (
            "no such element",
            line::ports()
                + &line::ROUTER.replace(
                    "{builtin: ipv4}",
                    "{click: \"FromDevice(in) -> NoSuchElement -> ToDevice(out)\"}",
                ),
        ),
    ] {
        let file = line.node.file("node.yaml", &yaml);
        let output = line.node.attempt(&["up", &file]);
        assert!(!output.status.success(), "{what}: {}", output.stdout);
        let start = Instant::now();
        while !line.node.processes().is_empty() && start.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(10));
        }
        assert_gone(what, &line, &before, &Numbers::default());
    }
}
