//! Tests both versions, on folders that look like the kernel's.

use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

use super::*;

const V1: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / ROOT/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / ROOT/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / ROOT/memory rw,relatime shared:3 - cgroup cgroup rw,memory
40 31 0:37 / ROOT/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / ROOT/unified rw,relatime - cgroup2 cgroup2 rw
";
const V2: &str = "41 31 0:38 / ROOT rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

/// A machine whose hierarchies are ordinary folders.
fn machine(mounts: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let mounts = mounts.replace("ROOT", root.path().to_str().expect("text"));
    let cgroups = Cgroups::from_mounts(&mounts);
    (root, cgroups)
}

fn limits() -> Limits {
    Limits {
        cpu_weight: Some(200),
        cpu_quota: Some(CpuQuota {
            quota: Some(Duration::from_millis(5)),
            period: Duration::from_millis(20),
        }),
        memory_bytes: Some(1 << 20),
        tasks: Some(3),
        cpus: Some("1".to_owned()),
    }
}

#[test]
fn version_1() {
    let (root, cgroups) = machine(
        V1,
        &[
            ("cpu,cpuacct/x", ""),
            ("cpuset/cpuset.cpus", "0-1\n"),
            ("cpuset/cpuset.mems", "0\n"),
            ("cpuset/europa/cpuset.cpus", "\n"),
            ("cpuset/europa/cpuset.mems", "\n"),
            ("memory/europa/i/r/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
            ("cpu,cpuacct/europa/i/r/cpuacct.usage", "1500\n"),
        ],
    );
    assert_eq!(cgroups.missing(), [Controller::Pids]);
    let group = cgroups.group("i", "r").expect("made");
    group.set(&limits()).expect("set");
    let shares = (weight() * 1024 / 100).to_string();
    for (path, wanted) in [
        ("cpu,cpuacct/europa/cpu.shares", &*shares),
        ("cpu,cpuacct/europa/i/cpu.shares", &*shares),
        ("cpu,cpuacct/europa/i/r/cpu.shares", "2048"),
        ("cpu,cpuacct/europa/i/r/cpu.cfs_period_us", "20000"),
        ("cpu,cpuacct/europa/i/r/cpu.cfs_quota_us", "5000"),
        ("memory/europa/i/r/memory.limit_in_bytes", "1048576"),
        ("memory/europa/i/r/memory.memsw.limit_in_bytes", "1048576"),
        ("cpuset/europa/cpuset.cpus", "0-1"),
        ("cpuset/europa/cpuset.mems", "0"),
        ("cpuset/europa/i/r/cpuset.cpus", "1"),
    ] {
        assert_eq!(
            fs::read_to_string(root.path().join(path)).ok().as_deref(),
            Some(wanted),
            "{path}"
        );
    }
    assert_eq!(group.cpu_time().expect("read"), Some(Duration::from_nanos(1500)));
    assert_eq!(cgroups.names("i").expect("read"), ["r"]);
    assert_eq!(cgroups.names("other").expect("read"), Vec::<String>::new());

    // Groups below another group, with limits of their own; they are removed first.
    let below = cgroups.group("i", "s/a").expect("made");
    let above = cgroups.group("i", "s").expect("made");
    above.set(&limits()).expect("set");
    let none = CpuQuota { quota: None, period: Duration::from_millis(5) };
    above.set(&Limits { cpu_quota: Some(none), ..Limits::default() }).expect("set");
    let cpu = root.path().join("cpu,cpuacct/europa/i/s");
    let read = |file: &str| fs::read_to_string(cpu.join(file)).ok();
    assert_eq!(read("cpu.cfs_quota_us").as_deref(), Some("-1"));
    assert_eq!(read("cpu.shares").as_deref(), Some("2048"), "as it was set, not as the instance's");
    assert_eq!(below.path, Path::new("europa/i/s/a"));
    assert_eq!(cgroups.names("i").expect("read"), ["s/a", "s", "r"]);
}

#[test]
fn version_2() {
    let all = "cpuset cpu io memory hugetlb pids\n";
    let (root, cgroups) = machine(
        V2,
        &[
            ("cgroup.controllers", all),
            ("europa/cgroup.controllers", all),
            ("europa/i/cgroup.controllers", all),
            ("europa/i/r/cpu.stat", "usage_usec 1500\nuser_usec 7\n"),
            ("europa/i/r/memory.current", "4096\n"),
            ("europa/i/r/memory.swap.max", "max\n"),
        ],
    );
    assert_eq!(cgroups.missing(), []);
    let group = cgroups.group("i", "r").expect("made");
    group.set(&limits()).expect("set");
    let weight = weight().to_string();
    for (path, wanted) in [
        ("cgroup.subtree_control", "+cpuset +cpu +memory +pids"),
        ("europa/i/cgroup.subtree_control", "+cpuset +cpu +memory +pids"),
        ("europa/cpu.weight", &*weight),
        ("europa/i/cpu.weight", &*weight),
        ("europa/i/r/cpu.weight", "200"),
        ("europa/i/r/cpu.max", "5000 20000"),
        ("europa/i/r/memory.max", "1048576"),
        ("europa/i/r/memory.swap.max", "0"),
        ("europa/i/r/pids.max", "3"),
        ("europa/i/r/cpuset.cpus", "1"),
    ] {
        assert_eq!(
            fs::read_to_string(root.path().join(path)).ok().as_deref(),
            Some(wanted),
            "{path}"
        );
    }
    assert_eq!(group.cpu_time().expect("read"), Some(Duration::from_micros(1500)));
    assert_eq!(group.memory_bytes().expect("read"), Some(4096));
}

#[test]
fn nothing_mounted() {
    let (_root, cgroups) = machine("", &[]);
    assert_eq!(cgroups.missing(), Controller::ALL);
    let group = cgroups.group("i", "r").expect("nothing to make");
    group.set(&limits()).expect("nothing to set");
    assert_eq!(group.cpu_time().expect("nothing to read"), None);
    group.remove().expect("nothing to remove");
}

#[test]
fn names_are_folders_and_nothing_else() {
    for (name, good) in [
        ("blue-1_a", true),
        ("", false),
        ("..", false),
        ("a/b/", false),
        ("cgroup.procs", false),
        ("ä", false),
    ] {
        assert_eq!(plain(name).is_ok(), good, "{name:?}");
    }
}

/// Version 2 on the real kernel, which has it mounted even if all controllers are in version 1: a
/// process starts inside its group.
#[test]
fn born_inside() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    let mount = mounts
        .lines()
        .find(|line| line.contains(" - cgroup2 "))
        .and_then(|line| line.split(' ').nth(4));
    let (true, Some(root)) = (nix::unistd::Uid::effective().is_root(), mount) else {
        println!("skipped: needs root and a mounted cgroup2");
        return;
    };
    let hierarchy = Hierarchy { version: Version::V2, root: PathBuf::from(root) };
    let cgroups = Cgroups { controllers: BTreeMap::from([(Controller::Pids, hierarchy)]) };
    let instance = format!("born-inside-{}", std::process::id());
    let group = cgroups.group(&instance, "r").expect("made");
    let mut log = tempfile::tempfile().expect("a log");
    let mut child = crate::spawn(&crate::SpawnSpec {
        // The test's own binary, running the test below.
        arguments: ["t", "--exact", "cgroup::tests::say_group", "--ignored", "--nocapture"]
            .map(OsStr::new)
            .to_vec(),
        environment: Vec::new(),
        descriptors: Vec::new(),
        log: log.as_fd(),
        group: Some(&group),
        pid_namespace: false,
    })
    .expect("spawned");
    assert_eq!(child.wait().expect("it ends"), crate::Exit::Code(0));
    group.remove().expect("removed");
    cgroups.remove_instance(&instance).expect("removed");
    let mut text = String::new();
    log.rewind().expect("a file");
    log.read_to_string(&mut text).expect("text");
    assert!(text.contains(&format!("0::/europa/{instance}/r\n")), "{text}");
}

#[test]
#[ignore = "is what born_inside starts"]
fn say_group() {
    println!("{}", fs::read_to_string("/proc/self/cgroup").expect("readable"));
}

#[test]
fn kernels_that_forget_are_known_by_their_release() {
    for (release, forgets) in [
        ("6.1.0-39-amd64", false),
        ("6.11.9", false),
        ("6.12.43+deb13-amd64", true),
        ("6.18.44", true),
        ("6.20-rc1", true),
        ("7.0.1", false),
        ("10.2.0", false),
        ("unknown", false),
        ("", false),
    ] {
        assert_eq!(is_forgetful(release), forgets, "{release}");
    }
}
