//! Programs of hosts change nothing of the machine, see only each other, and end with the host.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn await_true(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes of the machine whose arguments have `word`.
fn running(word: &str) -> usize {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    all.filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    })
    .count()
}

#[test]
fn a_host_writes_to_itself_alone() {
    skip_without!("sed", "sysctl");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    fs::write(path("bound"), "before\n").expect("a file");
    fs::write(path("fixed"), "fixed\n").expect("a file");
    let panic = fs::read_to_string("/proc/sys/kernel/panic").expect("a setting");
    let passwd = fs::read("/etc/passwd").expect("a file");
    let node = Node::new(None);
    node.up(&format!(
        "kind: host\nname: h\ninterfaces: {{eth0: {{port: p, addresses: [10.0.0.1/24]}}}}\n\
         binds: [\"{}:/etc/bound\", \"{}:/opt/new/fixed:ro\"]\nenv: {{WORD: two words}}\n\
         run:\n  - echo x > /etc/europa-of-a-host\n  - sed -i s/root/toor/ /etc/passwd\n\
         \x20 - sysctl -w kernel.panic=17 2> /denied\n  - sysctl -w net.ipv4.ip_forward=1\n\
         \x20 - mount -t tmpfs none /mnt\n  - echo after > /etc/bound\n\
         \x20 - echo no > /opt/new/fixed\n  - echo $WORD > /var/tmp/word\n  - sleep 4321 &\n\
         \x20 - touch /all-done\n\
         ---\nkind: host\nname: other\ninterfaces: {{eth0: {{port: q}}}}\n",
        path("bound"),
        path("fixed"),
    ));
    let inside = |words: &[&str]| node.attempt(&[&["exec", "h"], words].concat());
    await_true("the lines do not end", || inside(&["ls", "/all-done"]).status.success());

    // A program's files are there for the host's other programs.
    for (words, wanted) in [
        (&["cat", "/etc/europa-of-a-host"][..], "x\n"),
        (&["cat", "/var/tmp/word"], "two words\n"),
        (&["cat", "/proc/sys/net/ipv4/ip_forward"], "1\n"),
        (&["cat", "/opt/new/fixed"], "fixed\n"),
        (&["cat", "/etc/hostname-of-nobody"], ""),
        (&["hostname"], "h\n"),
        (&["grep", "-c", "^127.0.1.1 h$", "/etc/hosts"], "1\n"),
        (&["sh", "-c", "echo $WORD $HOSTNAME $HOME"], "two words h /root\n"),
        (&["sh", "-c", "head -c 5 /etc/passwd"], "toor:"),
        (&["sh", "-c", "ls /sys/class/net"], "eth0\nlo\n"),
        (&["ls", "/run/europa"], ""),
        (&["sh", "-c", "exit 7"], ""),
    ] {
        assert_eq!(inside(words).stdout, wanted, "{words:?}");
    }
    assert_eq!(inside(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(inside(&["no-such-program"]).status.code(), Some(127));
    // A program sees the processes of its host, and signals no other process.
    let seen = inside(&["sh", "-c", "cat /proc/[0-9]*/comm"]).stdout;
    let others = |name: &&str| !["europa-host", "sleep", "sh", "cat", "europa"].contains(name);
    assert_eq!(seen.lines().filter(others).collect::<Vec<_>>(), Vec::<&str>::new(), "{seen}");
    assert!(seen.contains("sleep"), "{seen}");
    let node_process = node.processes()[0].to_string();
    assert!(!inside(&["kill", "-9", &node_process]).status.success());
    // Root's ways to the machine are closed.
    for words in [
        &["sh", "-c", "echo b > /proc/sysrq-trigger"][..],
        &["sh", "-c", "echo 17 > /proc/sys/kernel/panic"],
        &["mount", "-o", "remount,rw", "/proc/sys"],
        &["mknod", "/disk", "b", "254", "0"],
        &["unshare", "-m", "true"],
        &["nsenter", "-t", "1", "-m", "cat", "/etc/europa-of-nobody"],
        &["sh", "-c", "echo 1 > /sys/kernel/profiling"],
        &["date", "-s", "2001-01-01"],
    ] {
        assert!(!inside(words).status.success(), "{words:?}");
    }
    assert!(inside(&["cat", "/denied"]).stdout.contains("kernel.panic"), "nothing was refused");

    // Nothing in a host is the machine's, except the files that a bind names.
    assert_eq!(fs::read_to_string("/proc/sys/kernel/panic").expect("a setting"), panic);
    assert_eq!(fs::read("/etc/passwd").expect("a file"), passwd);
    assert!(!Path::new("/etc/europa-of-a-host").exists());
    assert!(!Path::new("/opt/new").exists() && !Path::new("/.machine").exists());
    assert_eq!(fs::read_to_string(path("bound")).expect("a file"), "after\n");
    assert_eq!(fs::read_to_string(path("fixed")).expect("a file"), "fixed\n");

    // Another host, which has no `run`, sees nothing of this one.
    let other = node.attempt(&["exec", "other", "cat", "/etc/europa-of-a-host"]);
    assert!(!other.status.success(), "{}", other.stdout);
    let failed = node.attempt(&["get", "hosts"]).stdout;
    assert!(failed.contains("h      degraded"), "the lines that failed do not show: {failed}");
    assert!(node.run(&["logs", "h"]).contains("europa: failed: mount -t tmpfs none /mnt"));

    // The host's programs end with it, and `exec` lists the objects.
    assert_eq!(running("4321"), 1);
    node.run(&["delete", "host", "h"]);
    await_true("its programs go on", || running("4321") == 0);
    let gone = node.attempt(&["exec", "h", "true"]);
    assert_eq!(gone.status.code(), Some(5), "{}", gone.stderr);
}

#[test]
fn programs_of_a_host_outlive_the_node() {
    let node = Node::new(None);
    let file = node.file(
        "node.yaml",
        "kind: host\nname: h\ninterfaces: {eth0: {port: p}}\n\
         run: [\"echo kept > /kept\", \"sleep 4322 &\", \"false\"]\n",
    );
    node.run(&["up", &file]);
    let kept = || node.attempt(&["exec", "h", "cat", "/kept"]).stdout;
    await_true("the lines are not run", || kept() == "kept\n" && running("4322") == 1);
    let pid = node.processes()[0];
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("a kill");
    assert_eq!(kept(), "kept\n", "without a node");
    node.run(&["up", &file]);
    assert_eq!(kept(), "kept\n", "the next node");
    assert_eq!(running("4322"), 1);
    // The next node knows the failure too.
    let listed = || node.attempt(&["get", "hosts"]).stdout;
    await_true("a failed line is forgotten", || listed().contains("degraded"));
    // Other lines of `run` are another start, with a new file system.
    let text = fs::read_to_string(&file).expect("a file").replace("echo kept", "echo new");
    node.run(&["apply", &node.file("node.yaml", &text)]);
    await_true("the lines are not run again", || kept() == "new\n" && running("4322") == 1);
    node.run(&["down"]);
    assert_eq!(running("4322"), 0);
}

#[test]
fn what_is_no_bind_is_refused() {
    let node = Node::new(None);
    for (bind, wanted) in [
        ("/a", "is no bind"),
        ("/a:b", "both paths are absolute"),
        ("/a:/b/../c", "has no `..`"),
        ("/a:/b:rx", "FROM:TO:ro"),
        ("/a:/proc/sys", "a host has its own /proc/sys"),
        ("/a:/", "a host has its own /"),
    ] {
        let text = format!(
            "kind: host\nname: h\ninterfaces: {{eth0: {{port: p}}}}\nbinds: [\"{bind}\"]\n"
        );
        let output = node.attempt(&["up", &node.file("bad.yaml", &text)]);
        assert!(!output.status.success(), "{bind}");
        let said = output.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(wanted) && said.contains("bad.yaml:4"), "{bind}: {said}");
    }
}

/// A setting of the machine, which is restored when this is dropped.
struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    fn change(path: &'static str, value: &str) -> Setting {
        let before = fs::read_to_string(path).expect("a setting");
        fs::write(path, value).expect("a setting");
        Setting { path, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, &self.before);
    }
}

#[test]
fn settings_of_the_machine_s_devices_are_none_of_hosts_and_slow_paths() {
    skip_without!("sysctl");
    let machine = [
        ("/proc/sys/net/ipv4/conf/default/arp_notify", "1", "0"),
        ("/proc/sys/net/ipv4/conf/default/rp_filter", "2", "0"),
        ("/proc/sys/net/ipv4/conf/all/log_martians", "1", "0"),
        ("/proc/sys/net/ipv4/conf/default/shared_media", "0", "1"),
    ];
    let _changed = machine.map(|(path, value, _)| Setting::change(path, value));
    let node = Node::new(None);
    node.up("kind: slice\nname: s\n---\n\
         kind: host\nname: h\ninterfaces: {eth0: {link: l, addresses: [10.0.0.1/24]}}\n---\n\
         kind: router\nname: r\nslice: s\ninterfaces: {eth0: {link: l, addresses: [10.0.0.2/24]}}\n\
         fast_path: {builtin: ipv4, routes: kernel}\nslow_path: {}\n");
    for name in ["h", "s/r"] {
        for (path, _, wanted) in machine {
            let own = path.replace("default", "eth0");
            assert_eq!(node.run(&["exec", name, "cat", &own]).trim(), wanted, "{name}: {own}");
        }
    }
    // Linux asks for routers until one answers.
    let path = "/proc/sys/net/ipv6/conf/eth0/router_solicitations";
    assert_eq!(node.run(&["exec", "h", "cat", path]).trim(), "-1");
}
