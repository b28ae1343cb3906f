//! Users log in to routers by OpenSSH: into their own, as the router's root, and no further.

mod attempts;
mod inner;
mod revoked;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Once;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, Output, Process, run, skip_without};
use serde_json::Value;

const SLICES: &str = "kind: slice\nname: red\n---\nkind: slice\nname: blue\n---\n\
    kind: router\nname: r1\nslice: red\ninterfaces: {a: {link: l1, addresses: [10.0.1.1/24]}}\n\
    fast_path: {builtin: ipv4}\nslow_path: {}\n---\n\
    kind: router\nname: bare\nslice: red\ninterfaces: {a: {link: l3}}\n\
    fast_path: {builtin: ipv4}\n---\n\
    kind: router\nname: secret\nslice: blue\n\
    interfaces: {a: {link: l2, addresses: [10.0.2.1/24]}}\n\
    fast_path: {builtin: ipv4}\nslow_path: {}\n";

/// Time limit of a login on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node that takes logins, and the keys of its users.
struct Net {
    node: Node,
    port: String,
    keys: tempfile::TempDir,
}

/// The account of all logins, as `make install` makes it.
fn account() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        if run(&["getent", "passwd", "europa"]).is_err() {
            let made = run(&[
                "useradd",
                "--system",
                "--user-group",
                "--home-dir",
                "/",
                "--no-create-home",
                "--shell",
                "/bin/sh",
                "--password",
                "*",
                "europa",
            ]);
            made.expect("the user europa");
        }
    });
}

fn wait(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "{what} does not come");
        sleep(Duration::from_millis(10));
    }
}

/// A free port of this machine.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    listener.local_addr().expect("an address").port()
}

impl Net {
    fn up() -> Net {
        account();
        let keys = tempfile::tempdir().expect("a folder");
        for user in ["alice", "bob", "carol", "mallory"] {
            let file = keys.path().join(user);
            let file = file.to_string_lossy();
            run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", user, "-f", &file])
                .expect("a key");
        }
        let port = free_port().to_string();
        let net = Net { node: Node::new(None), port, keys };
        let yaml = net.yaml(&net.users("{red: owner}"));
        let at = format!("127.0.0.1:{}", net.port);
        net.node.run(&["up", &net.node.file("node.yaml", &yaml), "--ssh", &at]);
        // sshd listens when the first login succeeds.
        wait("a login", PATIENCE, || net.ssh("carol", &[], &["red/r1", "true"]).status.success());
        net
    }

    fn key(&self, user: &str) -> PathBuf {
        self.keys.path().join(user)
    }

    fn user(&self, name: &str, more: &str) -> String {
        let key = fs::read_to_string(self.key(name).with_extension("pub")).expect("a key");
        format!("---\nkind: user\nname: {name}\nssh_keys: [{:?}]\n{more}\n", key.trim())
    }

    /// Documents of the users, with these roles of alice.
    fn users(&self, roles: &str) -> String {
        self.user("alice", &format!("roles: {roles}"))
            + &self.user("bob", "roles: {red: operator, blue: viewer}")
            + &self.user("carol", "admin: true")
    }

    fn yaml(&self, users: &str) -> String {
        SLICES.to_owned() + users
    }

    /// The command line of ssh, with options, to the account.
    fn argv(&self, program: &str, user: &str, options: &[&str]) -> Vec<String> {
        let key = self.key(user);
        let mut argv: Vec<String> =
            [program, "-F", "none", "-i"].into_iter().map(str::to_owned).collect();
        argv.push(key.display().to_string());
        for option in [
            &*format!("Port={}", self.port),
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "BatchMode=yes",
            "ConnectTimeout=10",
        ] {
            argv.extend(["-o".to_owned(), option.to_owned()]);
        }
        argv.extend(options.iter().map(|option| (*option).to_owned()));
        argv
    }

    fn start(&self, user: &str, options: &[&str], words: &[&str]) -> Process {
        let mut argv = self.argv("ssh", user, options);
        argv.push("europa@127.0.0.1".to_owned());
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        Process::start(&argv).expect("ssh")
    }

    fn ssh(&self, user: &str, options: &[&str], words: &[&str]) -> Output {
        self.start(user, options, words).wait(PATIENCE).expect("ssh ends")
    }

    /// Runs a command, which must succeed. Returns its output.
    fn says(&self, user: &str, words: &[&str]) -> String {
        let output = self.ssh(user, &[], words);
        assert!(output.status.success(), "{words:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// Events of a reason.
    fn events(&self, reason: &str) -> Vec<Value> {
        let lines = self.node.run(&["events", "--json"]);
        let events = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        events.filter(|event: &Value| event["reason"] == reason).collect()
    }
}

#[test]
fn commands_run_in_the_users_router_and_in_no_other() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    // An owner, an operator and an admin log in.
    for (user, router) in [("alice", "red/r1"), ("alice", "r1"), ("bob", "red/r1"), ("carol", "r1")]
    {
        let said = net.says(user, &[router, "ip", "-o", "addr"]);
        assert!(said.contains("10.0.1.1/24"), "{user} {router}: {said}");
    }
    assert!(net.says("carol", &["blue/secret", "ip", "addr"]).contains("10.0.2.1/24"));
    let inside = net.says("alice", &["red/r1 hostname; id -u; cat /proc/self/uid_map"]);
    let lines: Vec<&str> = inside.lines().collect();
    assert_eq!(lines[..2], ["r1", "0"], "{inside}");
    let ids: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((ids[0], ids[2]), ("0", "65536"), "{inside}");
    // All namespaces are the router's own.
    for kind in ["net", "mnt", "pid", "user", "uts", "ipc"] {
        let link = format!("/proc/self/ns/{kind}");
        let own = fs::read_link(&link).expect("a namespace");
        let said = net.says("alice", &["red/r1", "readlink", &link]);
        assert_ne!(said.trim(), own.to_string_lossy(), "{kind}");
    }
    let same =
        net.node.run(&["exec", "red/r1", "readlink", "/proc/self/ns/net", "/proc/self/ns/pid"]);
    assert_eq!(net.says("alice", &["r1 readlink /proc/self/ns/net /proc/self/ns/pid"]), same);
    // The session inherits nothing: three descriptors and the one of `ls`, few variables.
    assert_eq!(net.says("alice", &["r1 ls /proc/self/fd | wc -l"]).trim(), "4");
    let variables = net.says("alice", &["r1 env | cut -d = -f 1 | sort | tr '\\n' ' '"]);
    for name in variables.split_whitespace() {
        let known =
            ["EUROPA_ROUTER", "HOME", "LANG", "PATH", "PWD", "SHELL", "SHLVL", "_", "OLDPWD"];
        assert!(known.contains(&name), "{variables}");
    }
    // Exit codes, signals, both outputs and lines are those of a shell.
    for (line, code, out, errors) in [
        ("red/r1 exit 7", 7, "", ""),
        ("red/r1 echo a; echo b >&2; false", 1, "a\n", "b\n"),
        ("red/r1 echo a\necho b", 0, "a\nb\n", ""),
        ("red/r1\techo \"$0 $#\" | tr a-z A-Z >/dev/null; echo x > /dev/stderr", 0, "", "x\n"),
        ("red/r1 kill -9 $$", 137, "", ""),
        ("red/r1 /no/such/program", 127, "", "/no/such/program: "),
    ] {
        let output = net.ssh("alice", &[], &[line]);
        assert_eq!(
            (output.status.code(), &*output.stdout),
            (Some(code), out),
            "{line:?}: {output:?}"
        );
        assert!(output.stderr.contains(errors), "{line:?}: {output:?}");
    }
    let set = ["-o", "SetEnv=EUROPA_ROUTER=red/r1"];
    assert_eq!(net.ssh("alice", &set, &["hostname"]).stdout, "r1\n");
    // Refusals of a viewer, of an unknown key and of another slice's owner.
    for (user, line, wanted) in [
        ("alice", "blue/secret ip addr", "there is no router blue/secret"),
        ("alice", "secret ip addr", "there is no router secret"),
        ("alice", "blue/nosuch ip addr", "there is no router blue/nosuch"),
        ("alice", "red/bare ip addr", "has no slow path"),
        ("bob", "blue/secret ip addr", "yours is viewer"),
        ("mallory", "red/r1 ip addr", "Permission denied (publickey)"),
    ] {
        let output = net.ssh(user, &[], &[line]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{user} {line}: {output:?}");
        assert!(output.stderr.contains(wanted), "{user} {line}: {output:?}");
    }
}

#[test]
fn a_terminal_is_the_sessions_own() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    let script = "red/r1 test -t 0 && test -t 1 && echo terminal; echo again > /dev/tty; exit 5";
    let output = net.ssh("alice", &["-tt"], &[script]);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(5), "terminal\r\nagain\r\n"),
        "{output:?}"
    );
    // An interactive shell has job control and the kind of terminal.
    let typed = "set -o | grep -E '^monitor'; echo $TERM $((6 * 7)); exit 3";
    let script = "typed=$1; shift; printf '%s\\n' \"$typed\" | TERM=vt220 \"$@\"";
    let mut argv: Vec<String> = ["sh", "-c", script, "sh", typed].map(str::to_owned).to_vec();
    argv.extend(net.argv("ssh", "alice", &["-tt"]));
    argv.extend(["europa@127.0.0.1", "r1"].map(str::to_owned));
    let output = Process::start(&argv).expect("ssh").wait(PATIENCE).expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = &output.stdout;
    assert!(said.contains("vt220 42") && said.contains("monitor        \ton"), "{output:?}");
}

#[test]
fn fifty_logins_at_once() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    let all: Vec<Process> = (0..50)
        .map(|number| {
            net.start("alice", &[], &["red/r1", "hostname;", "echo", &number.to_string()])
        })
        .collect();
    for (number, one) in all.into_iter().enumerate() {
        let output = one.wait(2 * PATIENCE).expect("ssh ends");
        assert_eq!(output.stdout, format!("r1\n{number}\n"), "{output:?}");
    }
    wait("their ends", PATIENCE, || net.events("LoggedOut").len() >= 50);
}
