//! The unit under a real systemd, in namespaces of its own. A node comes up with the machine, a
//! killed node is started again and loses nothing, and after a reboot everything is back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Error, Output, Process, europa, missing, run, skipped};

const SYSTEMD: &str = "/lib/systemd/system";
/// Programs that systemd itself needs to stop and to boot again.
const OWN: [&str; 5] =
    ["shutdown.target", "final.target", "umount.target", "reboot.target", "systemd-reboot.service"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where control groups of version 2 are.
fn cgroups() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let found = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    Some(found.split(' ').nth(1)?.to_owned())
}

/// The first need of the test that is missing.
fn lacks() -> Option<String> {
    if let Some(why) = missing(&["systemctl", "unshare", "nsenter", "ping"]) {
        return Some(why);
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return Some("systemd is not installed".to_owned());
    }
    cgroups().is_none().then(|| "control groups of version 2 are not mounted".to_owned())
}

/// A machine with a unit enabled.
struct Machine {
    folder: tempfile::TempDir,
    cgroup: PathBuf,
    booted: Option<(Process, String)>,
}

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        let units = folder.path().join("units");
        let wants = units.join("multi-user.target.wants");
        fs::create_dir_all(&wants).expect("a folder");
        fs::create_dir(folder.path().join("state")).expect("a folder");
        let unit = fs::read_to_string(here("../packaging/europa@.service")).expect("the unit");
        let binary = europa().display().to_string();
        let unit = unit.replace("/usr/bin/europa", &binary);
        fs::write(units.join("europa@.service"), unit).expect("a unit");
        symlink("../europa@.service", wants.join("europa@unit.service")).expect("a link");
        for (name, after) in [
            ("sysinit.target", ""),
            ("basic.target", "Requires=sysinit.target\nAfter=sysinit.target\n"),
            ("multi-user.target", "Requires=basic.target\nAfter=basic.target\n"),
        ] {
            let text = format!("[Unit]\nDescription={name}\n{after}");
            fs::write(units.join(name), text).expect("a unit");
        }
        for name in OWN {
            symlink(Path::new(SYSTEMD).join(name), units.join(name)).expect("a link");
        }
        let cgroup = Path::new(&cgroups().expect("control groups"))
            .join(format!("europa-systemd-{}", std::process::id()));
        Machine { folder, cgroup, booted: None }
    }

    /// Boots the machine, and waits until the node is up.
    fn boot(&mut self) {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let process = Process::start(&[
            "bash".to_owned(),
            here("tests/systemd/boot.sh").display().to_string(),
            path("units"),
            path("state"),
            self.cgroup.display().to_string(),
        ])
        .expect("a machine");
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let start = Instant::now();
        let pid = loop {
            let found = fs::read_to_string(&children).unwrap_or_default();
            let pid = found.trim().to_owned();
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim() == "systemd" {
                break pid;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{}", process.stderr());
            sleep(Duration::from_millis(20));
        };
        self.booted = Some((process, pid));
        let mut state = String::new();
        while state.trim() != "active" {
            let said = format!("{state}{}", self.console());
            assert!(start.elapsed() < Duration::from_secs(30), "the node is not up: {said}");
            sleep(Duration::from_millis(50));
            state = match self.run(&["systemctl", "is-active", "europa@unit"]) {
                Ok(output) => output.stdout,
                Err(error) => error.to_string(),
            };
        }
    }

    fn console(&self) -> String {
        self.booted.as_ref().map_or_else(String::new, |(process, _)| process.stderr())
    }

    fn inside(&self, command: &[&str]) -> Vec<String> {
        let (_, pid) = self.booted.as_ref().expect("it runs");
        let binary = europa().display().to_string();
        let head = ["nsenter", "-t", pid, "-p", "-m", "-n", "-u", "-i", "-C", "--wd=/", "env"];
        let head = head.iter().chain(&["EUROPA_INSTANCE=unit"]).map(|word| (*word).to_owned());
        let word = |word: &&str| if *word == "europa" { binary.clone() } else { (*word).into() };
        head.chain(command.iter().map(word)).collect()
    }

    fn run(&self, command: &[&str]) -> Result<Output, Error> {
        run(&self.inside(command))
    }

    fn says(&self, command: &[&str]) -> String {
        self.run(command).unwrap_or_else(|error| panic!("{error}\n{}", self.console())).stdout
    }

    fn shows(&self, property: &str) -> String {
        let said = self.says(&["systemctl", "show", "--value", "-p", property, "europa@unit"]);
        said.trim().to_owned()
    }

    /// The routers' processes.
    fn routers(&self) -> Vec<u64> {
        let stats = self.says(&["europa", "stats", "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        let routers = stats["routers"].as_array().expect("routers");
        routers.iter().filter_map(|router| router["pid"].as_u64()).collect()
    }

    fn ping(&self, many: &str) -> Vec<String> {
        let host = "europa.unit.ann";
        self.inside(&["ip", "netns", "exec", host, "ping", "-i", "0.01", "-c", many, "10.1.3.2"])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All processes end with the first one, which `unshare` kills when it ends.
        drop(self.booted.take());
        for _ in 0..50 {
            let path = self.cgroup.display().to_string();
            let _ = run(&["find", &path, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
            if !self.cgroup.exists() {
                break;
            }
            sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn systemd_starts_a_killed_node_again_and_a_reboot_brings_everything_back() {
    if let Some(why) = lacks() {
        skipped(&why);
        return;
    }
    let mut machine = Machine::new();
    machine.boot();
    let example = here("../examples/topology.yaml").display().to_string();
    machine.says(&["europa", "apply", &example]);
    let routers = machine.routers();
    assert_eq!(routers.len(), 3, "{routers:?}");
    let pings = |output: Output| {
        let all = output.stdout.contains(" 0% packet loss");
        assert!(all, "{}{}", output.stdout, machine.console());
    };
    pings(run(&machine.ping("10")).expect("a ping"));

    let ping = Process::start(&machine.ping("300")).expect("a ping");
    sleep(Duration::from_millis(300));
    let killed = machine.shows("MainPID");
    machine.says(&["kill", "-9", &killed]);
    let start = Instant::now();
    while machine.shows("NRestarts") != "1" || machine.shows("ActiveState") != "active" {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", machine.console());
        sleep(Duration::from_millis(50));
    }
    eprintln!("a killed node is up again after {:?}", start.elapsed());
    assert_ne!(machine.shows("MainPID"), killed);
    assert_eq!(machine.routers(), routers, "the routers go on");
    pings(ping.wait(Duration::from_secs(30)).expect("a ping"));

    // The command may fail because systemd is already going down.
    let _ = machine.run(&["systemctl", "--no-block", "start", "reboot.target"]);
    let (process, _) = machine.booted.take().expect("it runs");
    process.wait(Duration::from_secs(20)).expect("it goes down");
    let start = Instant::now();
    machine.boot();
    eprintln!("after a reboot everything is back within {:?}", start.elapsed());
    assert_eq!(machine.routers().len(), 3);
    let events = machine.says(&["europa", "events"]);
    let place = |what: &str| events.find(what).unwrap_or_else(|| panic!("{what}: {events}"));
    let order = ["router lab/west", "router lab/east", "router lab/north"].map(place);
    assert!(order.is_sorted(), "{events}");
    let start = Instant::now();
    while !run(&machine.ping("10")).is_ok_and(|output| output.stdout.contains(" 0% packet loss")) {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", machine.console());
    }

    machine.says(&["systemctl", "stop", "europa@unit"]);
    let left = machine.says(&["ip", "netns", "list"]);
    assert_eq!(left, "", "a node that was stopped leaves nothing");
}
