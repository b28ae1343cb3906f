//! Programs in slow paths: ordinary Linux programs run there, are reachable at the router's own
//! addresses, and affect no other router.

mod slow;

use std::fs;
use std::time::Duration;

use europa_tests::{Namespace, Node, run, skip_without};
use slow::{compare, linux, programs, reach, router_pid, turn, wait};

/// `a` ── r1 ── r2 ── `b`, with static routes, which Linux has.
fn topology(r1: &str) -> String {
    let host = |name: &str, net: u8| {
        format!(
            "---\nkind: host\nname: {name}\ngateway: [10.{net}.0.1, \"fd00:{net}::1\"]\n\
             interfaces: {{eth0: {{link: {name}, addresses: [10.{net}.0.2/24, \"fd00:{net}::2/64\"]}}}}\n"
        )
    };
    let router = |number: u8, host: &str, net: u8, far: u8, slow: &str, more: &str| {
        let other = 3 - number;
        format!(
            "---\nkind: router\nname: r{number}\nslice: s\ninterfaces:\n\
             \x20 lan: {{link: {host}, addresses: [10.{net}.0.1/24, \"fd00:{net}::1/64\"]}}\n\
             \x20 wan: {{link: wan, addresses: [10.12.0.{number}/24, \"fd00:12::{number}/64\"]}}\n\
             fast_path:\n  builtin: ipv4\n  routes:\n\
             \x20   - {{to: 10.{far}.0.0/24, via: 10.12.0.{other}}}\n\
             \x20   - {{to: \"fd00:{far}::/64\", via: \"fd00:12::{other}\"}}\n{more}slow_path: {slow}\n"
        )
    };
    let more = if r1.contains("#more") { "    - {to: 10.99.0.0/16, via: 10.12.0.2}\n" } else { "" };
    format!(
        "kind: slice\nname: s\n{}{}{}{}",
        host("a", 1),
        host("b", 3),
        router(1, "a", 1, 3, r1, more),
        router(2, "b", 3, 1, "{}", "")
    )
}

const INTERFACES: &[&str] = &["lan", "wan"];

fn up(r1: &str) -> (Node, Namespace, Namespace) {
    let node = Node::new(None);
    node.up(&topology(r1));
    let (a, b) = (node.host("a"), node.host("b"));
    for to in ["10.3.0.2", "fd00:3::2"] {
        reach(&a, to, Duration::from_secs(10));
    }
    (node, a, b)
}

/// Lines of a text as a YAML block.
fn block(text: &str) -> String {
    text.lines().map(|line| format!("          {line}\n")).collect()
}

#[test]
fn own_addresses_answer_like_any_linux() {
    skip_without!("ping", "traceroute", "ssh", "ssh-keygen", "curl", "python3");
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let key = |name: &str| {
        let path = folder.path().join(name);
        run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path.to_string_lossy()])
            .expect("a key");
        path
    };
    let (host_key, user_key) = (key("host"), key("user"));
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).expect("a key");
    let slow = format!(
        "\n  files:\n\
         \x20   - path: /run/sshd/\n\
         \x20   - path: /etc/passwd\n      text: |\n{}\
         \x20   - {{path: /etc/shadow, mode: \"0600\", text: \"root:*:::::::\\n\"}}\n\
         \x20   - path: /run/www/hello\n      text: hello from a router\n\
         \x20   - path: /run/host_key\n      mode: \"0600\"\n      text: |\n{}\
         \x20   - path: /run/keys\n      text: |\n{}\
         \x20   - path: /run/sshd_config\n      text: |\n{}\
         \x20 run:\n\
         \x20   - {{name: sshd, command: [/usr/sbin/sshd, -D, -e, -f, /run/sshd_config]}}\n\
         \x20   - {{name: web, command: [python3, -m, http.server, \"80\", --bind, \"::\", --directory, /run/www]}}\n",
        // The router's own users, independent of the machine's.
        block("root:x:0:0::/run:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"),
        block(&read("host")),
        block(&read("user.pub")),
        block(
            "HostKey /run/host_key\nAuthorizedKeysFile /run/keys\nPermitRootLogin yes\n\
             # The host's own directories belong to nobody there.\nStrictModes no\nUsePAM no\n\
             PidFile none\n"
        ),
    );
    drop(host_key);
    let (node, a, b) = up(&slow);

    // The addresses of both routers, near and far.
    for to in ["10.1.0.1", "10.12.0.1", "10.12.0.2", "fd00:1::1", "fd00:12::1", "fd00:12::2"] {
        let ping = a.ping(to, 3, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
    // Each router answers once, because it lowers the time to live once.
    for (to, by) in [
        ("10.3.0.2", &["10.1.0.1", "10.12.0.2", "10.3.0.2"][..]),
        ("10.12.0.2", &["10.1.0.1", "10.12.0.2"]),
        ("10.1.0.1", &["10.1.0.1"]),
        ("fd00:3::2", &["fd00:1::1", "fd00:12::2", "fd00:3::2"]),
        ("fd00:12::2", &["fd00:1::1", "fd00:12::2"]),
    ] {
        for way in ["-U", "-I"] {
            // Linux limits its errors, so the packets are sent one at a time.
            let trace =
                a.run(&["traceroute", "-n", "-q", "1", "-N", "1", way, to]).expect("a trace");
            let hops: Vec<&str> = trace
                .stdout
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().nth(1))
                .collect();
            assert_eq!(hops, by, "traceroute {way} {to}");
        }
    }
    for to in ["10.1.0.1", "fd00:1::1"] {
        let ssh = [
            "ssh",
            "-i",
            &user_key.to_string_lossy(),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "BatchMode=yes",
            &format!("root@{to}"),
            "hostname; id -u; cat /sys/class/net/wan/mtu; echo x > /etc/written",
        ];
        wait("sshd", Duration::from_secs(10), || {
            a.attempt(Duration::from_secs(10), &[&ssh[..ssh.len() - 1], &["true"]].concat())
                .is_ok_and(|output| output.status.success())
        });
        let said = a.attempt(Duration::from_secs(10), &ssh).expect("a session");
        assert_eq!(said.stdout, "r1\n0\n1500\n", "{}", said.stderr);
        assert!(said.stderr.contains("Read-only file system"), "{}", said.stderr);
        // The program gets a terminal, like that of a login.
        let terminal = a
            .attempt(
                Duration::from_secs(10),
                &[&[ssh[0], "-tt"], &ssh[1..ssh.len() - 1], &["tty"]].concat(),
            )
            .expect("a session");
        assert!(terminal.stdout.contains("/dev/pts/"), "{}{}", terminal.stdout, terminal.stderr);
    }
    for (from, url) in [
        (&a, "http://10.1.0.1/hello"),
        (&b, "http://10.12.0.1/hello"),
        (&a, "http://[fd00:1::1]/hello"),
    ] {
        let page = from.run(&["curl", "-sS", "--max-time", "5", url]).expect("a page");
        assert_eq!(page.stdout, "hello from a router", "{url}");
    }

    // The document gets a static route: neither the router's process nor its programs notice.
    let (pid, before) = (router_pid(&node, "s/r1"), programs(&node, "s/r1"));
    let sink = b.sink("10.3.0.2:7000", 1).expect("a sink");
    let stream = a.stream("10.3.0.2:7000", 1, 5000, 200).expect("a stream").paced_by(&sink);
    let (changed, table) = (topology(&format!("{slow}#more\n")), "10.99.0.0/16");
    let output = node.run(&["apply", &node.file("more.yaml", &changed)]);
    assert!(output.contains("in place"), "{output}");
    wait("the new route", Duration::from_secs(5), || {
        node.run(&["read", "s/r1", "route.table", table]).contains("10.12.0.2")
    });
    node.run(&["apply", &node.file("more.yaml", &topology(&slow))]);
    wait("no new route", Duration::from_secs(5), || {
        node.run(&["read", "s/r1", "route.table", table]).trim().is_empty()
    });
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(router_pid(&node, "s/r1"), pid);
    assert_eq!(programs(&node, "s/r1"), before);
    compare(&node, "s/r1", INTERFACES);
}

/// Root of a slow path has all rights that it needs there, and none on the host.
#[test]
fn root_there_is_nobody_here() {
    skip_without!("ping");
    let _turn = turn();
    let (node, ..) = up("{}");
    let inside = |script: &str| node.attempt(&["exec", "s/r1", "sh", "-c", script]);
    for (script, wanted) in [
        ("ip link add v0 type veth && ip link del v0 && echo done", "done\n"),
        ("sysctl -qw net.ipv4.ip_default_ttl=63 && cat /proc/sys/net/ipv4/ip_default_ttl", "63\n"),
        ("touch /run/x /tmp/x /var/log/x && echo done", "done\n"),
        ("stat -c %u /run/x", "0\n"),
    ] {
        let output = inside(script);
        assert_eq!(output.stdout, wanted, "{script}: {}", output.stderr);
    }
    for script in [
        "cat /etc/shadow",
        "touch /etc/x",
        "echo 1 > /proc/sys/kernel/sysrq",
        "echo b > /proc/sysrq-trigger",
        "mount -t tmpfs tmpfs /mnt",
        "mount -o remount,rw /",
        "umount /run",
        "nsenter --net=/proc/1/ns/net true",
        "kill -0 1",
        "mknod /tmp/disk b 8 0",
        "ls /run/europa",
        "ls /dev/mem /dev/kmsg",
        "chroot /proc/1/root true",
    ] {
        let output = inside(script);
        assert!(!output.status.success(), "{script}: {}", output.stdout);
    }
    // The host's setting is unchanged.
    let ttl = fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").expect("a setting");
    assert_eq!(ttl, "64\n");
}

/// A file of the control group of the hog's programs, of either version.
fn limit(node: &Node, file: &str) -> String {
    ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]
        .iter()
        .map(|root| format!("{root}/europa/{}/s_hog_programs/{file}", node.instance()))
        .find_map(|path| fs::read_to_string(path).ok())
        .unwrap_or_default()
}

/// A fork bomb, a memory hog, and programs that print or write without end harm their own slow
/// path.
#[test]
fn hogs_harm_nobody_else() {
    skip_without!("ping", "python3");
    let _turn = turn();
    let (node, a, b) = up("{}");
    let calm = topology("{}");
    let hogs = "---\nkind: router\nname: hog\nslice: s\ninterfaces: {x: {link: x}}\n\
        fast_path: {builtin: ipv4}\nslow_path:\n  run:\n\
        \x20   - {name: bomb, command: [sh, -c, \"sleep 3; f() { f | f & }; f; sleep 1000\"]}\n\
        \x20   - {name: eater, command: [python3, -c, \"x = []\\nwhile True: x.append(b'x' * (1 << 24))\"]}\n\
        \x20   - {name: flood, command: [yes, flood]}\n\
        \x20   - {name: filler, command: [sh, -c, \"cat /dev/zero > /tmp/full; sleep 1000\"]}\n\
        ---\nkind: router\nname: other\nslice: s\ninterfaces: {x: {link: x}}\n\
        fast_path: {builtin: ipv4}\n";
    let sink = b.sink("10.3.0.2:7000", 1).expect("a sink");
    let stream = a.stream("10.3.0.2:7000", 1, 2000, 200).expect("a stream").paced_by(&sink);
    node.run(&["apply", &node.file("hogs.yaml", &format!("{calm}{hogs}"))]);
    wait("the eater's end", Duration::from_secs(30), || {
        node.run(&["events"]).contains("eater was killed by signal 9")
    });
    let refused = || {
        limit(&node, "pids.events").contains("max ")
            && !limit(&node, "pids.events").ends_with(" 0\n")
    };
    wait("the bomb's limit", Duration::from_secs(10), refused);
    std::thread::sleep(Duration::from_secs(1));
    println!("forks refused: {}", limit(&node, "pids.events").trim());
    let bytes = |path: &str| fs::metadata(node.directory().join(path)).expect("a file").len();
    let printed = bytes("log/s.hog.flood.log");
    let written = bytes("slow/s.hog/root/tmp/full");
    println!("printed and written: {printed} and {written} bytes");
    assert!(printed < 16 << 20 && written <= 256 << 20, "{printed}, {written}");
    assert!(linux(&node, "s/hog").ip(&["link"]).is_ok());
    let received = sink.stop(stream.stop());
    println!("beside them: {received:?}");
    assert!(received.is_perfect(), "{received:?}");
    assert!(router_pid(&node, "s/hog").is_some(), "its fast path goes on");
}

#[test]
fn mistakes_are_refused_before_anything_is_done() {
    skip_without!();
    let _turn = turn();
    let node = Node::new(None);
    for (slow, wanted) in [
        (
            "{run: [{name: x, command: [no-such-program]}]}",
            "there is no program \"no-such-program\"",
        ),
        ("{run: [{name: x, command: [/usr/sbin/none]}]}", "there is no /usr/sbin/none"),
        ("{run: [{name: x, command: [/etc/passwd]}]}", "/etc/passwd is no program"),
        ("{run: [{name: x, command: [bin/sh]}]}", "a program is a name or an absolute path"),
        ("{run: [{name: x, command: [sh], capabilities: [fly]}]}", "fly is no capability"),
        ("{run: [{name: x, command: [sh]}, {name: x, command: [sh]}]}", "two programs \"x\""),
        ("{run: [{name: x, command: [sh], reload: [none]}]}", "there is no program \"none\""),
        ("{run: [{name: x, command: [sh], reload: KILL}]}", "\"KILL\" is no signal that reloads"),
        ("{run: [{name: x, command: [sh], needs: [y]}]}", "there is no program y"),
        ("{run: [{name: x, command: [sh], needs: [x]}]}", "programs need each other: x"),
        ("{run: [{name: x, command: [sh], reload_on: [/run/x]}]}", "/run/x is not in `files`"),
        ("{files: [{path: /etc/nowhere/x}]}", "this machine has no /etc/nowhere"),
        ("{files: [{path: /run/x, owner: nobody-at-all}]}", "no user \"nobody-at-all\""),
        ("{files: [{path: /run/x, from: missing.conf}]}", "missing.conf: No such file"),
        ("{files: [{path: /run/x, from: a, text: b}]}", "a file has one text"),
        ("{files: [{path: run/x}]}", "a file's path begins with `/`"),
        ("{files: [{path: /proc/x}]}", "/proc/ is the kernel's"),
        ("{files: [{path: /run/x}, {path: /run/x}]}", "there are two files /run/x"),
        ("{files: [{path: /run/x}, {path: /run/x/y}]}", "/run/x is no directory"),
    ] {
        let file = node.file("wrong.yaml", &topology(slow));
        let output = node.attempt(&["up", &file]);
        assert!(!output.status.success(), "{slow}");
        assert!(output.stderr.contains(wanted), "{slow}: {}", output.stderr);
        // The message has the place, the underlined text, and an explanation.
        assert!(output.stderr.contains("wrong.yaml:"), "{slow}: {}", output.stderr);
        assert!(output.stderr.contains("slow_path: "), "{slow}: {}", output.stderr);
    }
    let namespaces = run(&["ip", "netns", "list"]).expect("a list").stdout;
    assert!(!namespaces.contains(node.instance()), "{namespaces}");
}
