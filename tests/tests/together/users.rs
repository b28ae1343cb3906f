//! Three users, two slices and unknown callers, over TLS: the requests of each, and the answers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, Output, Process, europa, skip_without};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde_json::Value;

/// Two slices that do not know each other, each with a router and a host.
const NETWORK: &str = "kind: slice\nname: red\nreservation: {slots: 40000}\n---\n\
    kind: slice\nname: blue\n---\n\
    kind: router\nname: r1\nslice: red\ninterfaces: {a: {link: l1, addresses: [10.0.1.1/24]}}\n\
    fast_path: {click: \"FromDevice(a) -> c :: Counter -> Discard\"}\n---\n\
    kind: router\nname: secret\nslice: blue\ninterfaces:\n  \
    a: {link: l2, addresses: [10.0.2.1/24]}\n  b: {link: hiddenlink}\n\
    fast_path: {builtin: ipv4}\n---\n\
    kind: filters\nname: hiddenrules\nslice: blue\nrules: [{priority: 1, action: count}]\n---\n\
    kind: host\nname: pc1\ninterfaces: {eth0: {link: l1, addresses: [10.0.1.2/24]}}\n---\n\
    kind: host\nname: pc2\ninterfaces: {eth0: {link: l2, addresses: [10.0.2.2/24]}}\n---\n\
    kind: user\nname: alice\nroles: {red: owner}\n---\n\
    kind: user\nname: bob\nroles: {red: operator, blue: viewer}\n---\n\
    kind: user\nname: carol\nadmin: true\n";

/// Names of objects that red's owner may not see.
const OTHERS: [&str; 8] =
    ["blue", "secret", "hiddenlink", "hiddenrules", "pc2", "l2", "carol", "bob"];

/// A node that listens, and its users.
struct Net {
    node: Node,
    url: String,
    ca: PathBuf,
    folder: tempfile::TempDir,
}

/// A free port of this machine.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    listener.local_addr().expect("an address").port()
}

impl Net {
    fn up() -> Net {
        let node = Node::new(None);
        let at = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), free_port());
        node.run(&["up", &node.file("node.yaml", NETWORK), "--listen", &at.to_string()]);
        let ca = node.directory().join("tls/ca.pem");
        let folder = tempfile::tempdir().expect("a folder");
        Net { node, url: format!("https://{at}"), ca, folder }
    }

    /// A new token of a user, as a file.
    fn token(&self, user: &str, expires: &str) -> (PathBuf, String) {
        let json = self.node.run(&["token", "create", user, "--expires", expires, "--json"]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let text = |name: &str| json[name].as_str().expect("a text").to_owned();
        let path = self.folder.path().join(text("id"));
        fs::write(&path, text("token")).expect("a file");
        (path, text("id"))
    }

    /// Status and body of a request. `path` is sent as it is.
    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let ca = self.ca.to_string_lossy();
        let (url, bearer) = (format!("{}{path}", self.url), format!("Authorization: {token}"));
        let mut argv = vec!["curl", "-s", "--path-as-is", "--max-time", "20", "--cacert", &ca];
        argv.extend(["-X", method, "-w", "\n%{http_code}"]);
        if !token.is_empty() {
            argv.extend(["-H", bearer.as_str()]);
        }
        let json = body.starts_with('{');
        let kind =
            if json { "content-type: application/json" } else { "content-type: application/yaml" };
        if !body.is_empty() {
            argv.extend(["-H", kind, "--data-binary", body]);
        }
        argv.push(&url);
        let output = Process::start(&argv).expect("curl").wait(Duration::from_secs(30));
        let output = output.expect("an answer");
        let (text, status) = output.stdout.rsplit_once('\n').expect("a status");
        (status.parse().expect("a number"), text.to_owned())
    }

    /// Runs `europa` as a user would, on another machine.
    fn command(&self, token: &Path, arguments: &[&str]) -> Process {
        let (program, ca) = (europa(), self.ca.to_string_lossy().into_owned());
        let (program, token) = (program.to_string_lossy(), token.to_string_lossy());
        let mut argv = vec![&*program, "--node", &self.url, "--token-file", &token, "--ca", &ca];
        argv.extend(arguments);
        Process::start(&argv).expect("europa starts")
    }

    fn attempt(&self, token: &Path, arguments: &[&str]) -> Output {
        let output = self.command(token, arguments).wait(Duration::from_secs(60));
        output.expect("europa ends")
    }

    fn run(&self, token: &Path, arguments: &[&str]) -> String {
        let output = self.attempt(token, arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }
}

fn bearer(token: &Path) -> String {
    format!("Bearer {}", fs::read_to_string(token).expect("a token"))
}

/// One attempt: its description, the caller (an index of tokens), method, path, body, the expected
/// status, and a text that must be in the answer.
type Attempt<'a> = (&'a str, &'a str, &'a str, &'a str, String, u16, &'a str);

/// A router of red's owner with more in its document.
fn router(more: &str) -> String {
    format!(
        "kind: router\nname: r2\nslice: red\nfast_path: {{builtin: ipv4}}\n\
         interfaces: {{a: {{link: own}}}}\n{more}\n"
    )
}

fn fast_path(path: &str) -> String {
    format!(
        "kind: router\nname: r2\nslice: red\ninterfaces: {{a: {{link: own}}}}\nfast_path: {path}\n"
    )
}

#[test]
fn forty_attempts_and_none_gets_through() {
    skip_without!("curl");
    let net = Net::up();
    let (alice, _) = net.token("alice", "1h");
    let (bob, _) = net.token("bob", "1h");
    let (revoked, id) = net.token("alice", "1h");
    let (expired, _) = net.token("alice", "1s");
    let (alice, bob) = (bearer(&alice), bearer(&bob));
    let (revoked, expired) = (bearer(&revoked), bearer(&expired));
    assert_eq!(net.ask(&revoked, "GET", "/v1/whoami", "").0, 200);
    net.node.run(&["token", "revoke", "alice", &id]);
    let other = if alice.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{other}", &alice[..alice.len() - 1]);
    let unknown = format!("Bearer europa_0123456789abcdef_{}", "0".repeat(64));
    let basic = alice.replace("Bearer", "Basic");
    let start = Instant::now();
    while net.ask(&expired, "GET", "/v1/whoami", "").0 != 401 {
        assert!(start.elapsed() < Duration::from_secs(10), "the token does not expire");
    }
    let (a, b) = (alice.as_str(), bob.as_str());
    let none = String::new;
    let port = |more: &str| format!("kind: port\nname: p9\ndevice: eth0\n{more}");
    let host =
        |more: &str| format!("kind: host\nname: h9\ninterfaces: {{e: {{link: own}}}}\n{more}");
    let daemon = "slow_path: {run: [{name: x, command: [sleep, inf], capabilities: [sys_admin]}]}";
    let attempts: Vec<Attempt<'_>> = vec![
        ("no token", "", "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("no token, no path", "", "GET", "/v1/nothing/at/all", none(), 401, "unauthenticated"),
        ("wrong secret", &wrong, "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("unknown id", &unknown, "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("another scheme", &basic, "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("revoked", &revoked, "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("expired", &expired, "GET", "/v1/whoami", none(), 401, "unauthenticated"),
        ("another's router", a, "GET", "/v1/routers/blue/secret", none(), 404, "not-found"),
        ("no router", a, "GET", "/v1/routers/nosuch/secret", none(), 404, "not-found"),
        ("another's slice", a, "GET", "/v1/slices/blue", none(), 404, "not-found"),
        ("another user", a, "GET", "/v1/users/carol", none(), 404, "not-found"),
        ("a host", a, "GET", "/v1/hosts/pc2", none(), 404, "not-found"),
        ("another's link", a, "GET", "/v1/links/hiddenlink", none(), 404, "not-found"),
        ("a handler", a, "GET", "/v1/routers/blue/secret/handlers/list", none(), 404, "not-found"),
        ("the node's log", a, "GET", "/v1/logs/node", none(), 403, "forbidden"),
        ("another's log", a, "GET", "/v1/logs/blue/secret", none(), 404, "not-found"),
        (
            "a path upward",
            a,
            "GET",
            "/v1/logs/red/..%2F..%2F..%2Fetc%2Fpasswd",
            none(),
            404,
            "not-found",
        ),
        (
            "a slash in a name",
            a,
            "GET",
            "/v1/routers/red%2F..%2Fblue/secret",
            none(),
            404,
            "not-found",
        ),
        ("dots in a path", a, "GET", "/v1/routers/red/../blue/secret", none(), 404, "not-found"),
        ("others' rules", a, "GET", "/v1/slices/blue/filters", none(), 404, "not-found"),
        ("a capture", a, "GET", "/v1/captures?target=blue/secret", none(), 404, "not-found"),
        (
            "a link's capture",
            a,
            "GET",
            "/v1/captures?target=link:hiddenlink",
            none(),
            404,
            "not-found",
        ),
        ("the end of all", a, "POST", "/v1/down", "{}".into(), 403, "forbidden"),
        (
            "a token more",
            a,
            "POST",
            "/v1/users/alice/tokens",
            "{\"seconds\":9}".into(),
            403,
            "forbidden",
        ),
        ("another's tokens", a, "GET", "/v1/users/carol/tokens", none(), 404, "not-found"),
        ("to revoke them", a, "DELETE", "/v1/users/carol/tokens/all", none(), 404, "not-found"),
        (
            "grants",
            a,
            "POST",
            "/v1/apply",
            fast_path("{click: Idle}\ngrants: [{read: /etc/shadow}]"),
            403,
            "`grants`",
        ),
        (
            "from",
            a,
            "POST",
            "/v1/apply",
            router("slow_path: {files: [{path: /run/x, from: /etc/shadow}]}"),
            403,
            "`from`",
        ),
        (
            "click_file",
            a,
            "POST",
            "/v1/apply",
            fast_path("{click_file: ../../etc/passwd}"),
            403,
            "`click_file`",
        ),
        ("program", a, "POST", "/v1/apply", fast_path("{program: [/bin/sh]}"), 403, "`program`"),
        ("kind: port", a, "POST", "/v1/apply", port(""), 403, "`port`"),
        ("device", a, "POST", "/v1/apply", port(""), 403, "`device`"),
        ("namespace", a, "POST", "/v1/apply", port("namespace: x\n"), 403, "`namespace`"),
        ("kind: host", a, "POST", "/v1/apply", host("") + "---\n" + &router(""), 403, "`host`"),
        ("pid", a, "POST", "/v1/apply", host("pid: 1\n"), 403, "`pid`"),
        ("container", a, "POST", "/v1/apply", host("container: x\n"), 403, "`container`"),
        ("binds", a, "POST", "/v1/apply", host("binds: [\"/etc:/mnt\"]\n"), 403, "`binds`"),
        ("cpu", a, "POST", "/v1/apply", router("cpu: [0]"), 403, "`cpu`"),
        ("poll: busy", a, "POST", "/v1/apply", router("poll: busy"), 403, "`poll`"),
        ("run: inline", a, "POST", "/v1/apply", router("run: inline"), 403, "`run`"),
        (
            "programs",
            a,
            "POST",
            "/v1/apply",
            "kind: slice\nname: red\nreservation: {slots: 40000}\nprograms: operator\n".into(),
            403,
            "`programs`",
        ),
        ("capabilities", a, "POST", "/v1/apply", router(daemon), 403, "`capabilities`"),
        (
            "its reservation",
            a,
            "POST",
            "/v1/apply",
            "kind: slice\nname: red\n".into(),
            403,
            "`reservation`",
        ),
        (
            "another's slice",
            a,
            "PUT",
            "/v1/slices/blue",
            "kind: slice\nname: blue\n".into(),
            403,
            "forbidden",
        ),
        (
            "a new slice",
            a,
            "PUT",
            "/v1/slices/green",
            "kind: slice\nname: green\n".into(),
            403,
            "forbidden",
        ),
        (
            "itself as admin",
            a,
            "POST",
            "/v1/apply",
            "kind: user\nname: alice\nadmin: true\n".into(),
            403,
            "kind: user",
        ),
        (
            "another's router",
            a,
            "POST",
            "/v1/apply",
            router("").replace("red", "blue"),
            422,
            "there is no slice",
        ),
        (
            "no slice",
            a,
            "POST",
            "/v1/apply",
            router("").replace("red", "nosuch"),
            422,
            "there is no slice",
        ),
        (
            "another's link",
            a,
            "POST",
            "/v1/apply",
            router("").replace("own", "hiddenlink"),
            409,
            "in use",
        ),
        (
            "another's name",
            a,
            "POST",
            "/v1/apply",
            "kind: filters\nname: hiddenrules\nslice: red\nrules: []\n".into(),
            409,
            "in use",
        ),
        ("to remove it", a, "DELETE", "/v1/routers/blue/secret", none(), 404, "not-found"),
        ("to remove nothing", a, "DELETE", "/v1/routers/nosuch/secret", none(), 404, "not-found"),
        ("to remove a slice", a, "DELETE", "/v1/slices/red", none(), 403, "admin"),
        ("to remove a user", a, "DELETE", "/v1/users/bob", none(), 404, "not-found"),
        ("an operator applies", b, "POST", "/v1/apply", router(""), 403, "owner"),
        (
            "an operator adds rules",
            b,
            "POST",
            "/v1/slices/red/filters",
            "{\"replace\":true}".into(),
            403,
            "owner",
        ),
        (
            "a viewer writes",
            b,
            "PUT",
            "/v1/routers/blue/secret/handlers/x.y",
            "{\"value\":\"\"}".into(),
            403,
            "operator",
        ),
        (
            "a viewer restarts",
            b,
            "POST",
            "/v1/routers/blue/secret/restart",
            none(),
            403,
            "operator",
        ),
        ("a viewer captures", b, "GET", "/v1/captures?target=blue/secret", none(), 403, "operator"),
    ];
    assert!(attempts.len() >= 40);
    let mut through = Vec::new();
    for (what, token, method, path, body, status, wanted) in &attempts {
        let (found, text) = net.ask(token, method, path, body);
        if found != *status || !text.contains(wanted) {
            through.push(format!("{what}: {found}, not {status} with {wanted}: {text}"));
        }
        // Names that are not in the caller's own request.
        let said = format!("{path} {body}");
        let heard = OTHERS.iter().filter(|name| *token == a && !said.contains(**name));
        for name in heard {
            let is_word =
                text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == *name);
            if is_word {
                through.push(format!("{what} tells of {name}: {text}"));
            }
        }
    }
    assert!(through.is_empty(), "{}", through.join("\n"));
    // Objects of others and missing objects have the same answer.
    for (other, none) in [
        ("/v1/routers/blue/secret", "/v1/routers/gone/secret"),
        ("/v1/logs/blue/secret", "/v1/logs/gone/secret"),
        ("/v1/slices/blue", "/v1/slices/gone"),
        ("/v1/slices/blue/filters", "/v1/slices/gone/filters"),
        ("/v1/users/carol/tokens", "/v1/users/gone/tokens"),
    ] {
        let answers = [other, none].map(|path| {
            let (status, text) = net.ask(a, "GET", path, "");
            (status, text.replace("carol", "X").replace("blue", "X").replace("gone", "X"))
        });
        assert_eq!(answers[0], answers[1], "{other}");
    }
    // Lists, counters and events contain nothing of other slices.
    for path in [
        "/v1/routers",
        "/v1/slices",
        "/v1/links",
        "/v1/hosts",
        "/v1/ports",
        "/v1/filters",
        "/v1/users",
        "/v1/stats",
        "/metrics",
        "/v1/events",
        "/v1/node",
    ] {
        let (status, text) = net.ask(a, "GET", path, "");
        assert_eq!(status, 200, "{path}: {text}");
        for name in ["blue", "secret", "hiddenlink", "hiddenrules", "pc2", "carol", "\"bob\""] {
            assert!(!text.contains(name), "{path} tells of {name}: {text}");
        }
    }
    let blue = net.node.run(&["get", "routers"]);
    assert!(blue.contains("blue/secret") && !blue.contains("red/r2"), "{blue}");
    let rules = net.node.run(&["get", "filters"]);
    assert!(rules.contains("hiddenrules"), "{rules}");
}

#[test]
fn each_role_does_what_it_may_and_is_noted() {
    skip_without!("ping");
    let net = Net::up();
    let (alice, _) = net.token("alice", "1h");
    let (bob, id) = net.token("bob", "1h");
    let (carol, _) = net.token("carol", "1h");

    // The owner.
    let file = net.node.file("own.yaml", &router(""));
    let applied = net.run(&alice, &["apply", &file]);
    assert!(applied.contains("+ router red/r2"), "{applied}");
    let applied = net.run(&alice, &["apply", &file, "--dry-run", "--prune"]);
    assert!(applied.contains("- router red/r1") && !applied.contains("secret"), "{applied}");
    assert!(net.run(&alice, &["get", "routers"]).contains("red/r2"));
    net.run(&alice, &["delete", "router", "red/r2"]);
    net.run(&alice, &["filter", "add", "red", "priority: 1, action: count"]);

    // The operator.
    assert!(net.run(&bob, &["read", "red/r1", "c.count"]).trim().parse::<u64>().is_ok());
    net.run(&bob, &["write", "red/r1", "c.reset"]);
    net.run(&bob, &["restart", "red/r1"]);
    assert!(net.run(&bob, &["read", "blue/secret", "list"]).contains('\n'));
    let mut capture = net.command(&bob, &["capture", "red/r1", "-c", "1"]);
    capture.wait_for("capturing red/r1.a", Duration::from_secs(20)).expect("a capture");
    let pc1 = net.node.host("pc1");
    let start = Instant::now();
    while capture.is_running() {
        // The router answers nothing, so it gets only ARP requests.
        let _ = pc1.attempt(Duration::from_secs(5), &["ping", "-c1", "-W1", "10.0.1.1"]);
        assert!(start.elapsed() < Duration::from_secs(30), "{}", capture.stderr());
    }
    let output = capture.wait(Duration::from_secs(5)).expect("its end");
    assert!(output.status.success() && output.stdout.contains("red/r1.a"), "{output:?}");

    // Events have actor, action and origin; revoking a token ends its streams.
    let mut watch = net.command(&bob, &["events", "--watch", "--json"]);
    watch.wait_for("\"who\":\"bob\"", Duration::from_secs(20)).expect("own events");
    let mut logs = net.command(&bob, &["logs", "red/r1", "--follow"]);
    let events = net.node.run(&["events", "--json"]);
    let noted = |who: &str, reason: &str| {
        let all = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut own = all.filter(|event| event["who"] == who && event["reason"] == reason);
        own.any(|event| event["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")))
    };
    for (who, reason) in [
        ("alice", "Changed"),
        ("alice", "FiltersChanged"),
        ("bob", "Written"),
        ("bob", "Restarted"),
        ("bob", "Captured"),
    ] {
        assert!(noted(who, reason), "{who} {reason}: {events}");
    }
    assert!(events.contains("\"who\":\"root\",\"from\":\"local\""), "{events}");
    assert!(watch.is_running() && logs.is_running());
    net.run(&carol, &["token", "revoke", "bob", &id]);
    let start = Instant::now();
    while watch.is_running() || logs.is_running() {
        assert!(start.elapsed() < Duration::from_secs(5), "a stream goes on");
        sleep(Duration::from_millis(20));
    }
    assert!(!net.attempt(&bob, &["get", "routers"]).status.success());

    // The admin removes a user, whose token is then invalid.
    assert!(net.run(&carol, &["get", "users"]).contains("alice"));
    net.run(&carol, &["delete", "user", "alice"]);
    let gone = net.attempt(&alice, &["get", "routers"]);
    assert!(gone.stderr.contains("valid token"), "{gone:?}");
    let again = net.node.file("alice.yaml", "kind: user\nname: alice\nroles: {red: owner}\n");
    net.run(&carol, &["apply", &again]);
    assert!(!net.attempt(&alice, &["get", "routers"]).status.success());
    assert!(net.node.attempt(&["delete", "slice", "red"]).stderr.contains("user alice"));
}

#[test]
fn contexts_log_in_and_out() {
    skip_without!();
    let net = Net::up();
    let (alice, _) = net.token("alice", "1h");
    let home = net.folder.path().join("home");
    let run = |arguments: &[&str]| {
        let program = europa();
        let set = format!("XDG_CONFIG_HOME={}", home.display());
        let program = program.to_string_lossy();
        let argv = [&["env", set.as_str(), &program], arguments].concat();
        Process::start(&argv).expect("europa").wait(Duration::from_secs(30)).expect("its end")
    };
    let (token, ca) = (alice.to_string_lossy(), net.ca.to_string_lossy());
    let login = |user: &str, ca: &[&str]| {
        run(&[&["login", &net.url, "--user", user, "--token-file", &token], ca].concat())
    };
    // Without the authority's certificate the client sends no token.
    let unknown = login("alice", &[]);
    assert!(
        !unknown.status.success() && unknown.stderr.contains("cannot be reached"),
        "{unknown:?}"
    );
    assert!(login("bob", &["--ca", &ca]).stderr.contains("another user"));
    let known = login("alice", &["--ca", &ca]);
    assert!(known.stdout.contains("owner of red"), "{known:?}");
    let file = home.join("europa/contexts.json");
    let mode = fs::metadata(&file).expect("contexts").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(run(&["get", "routers"]).stdout.contains("red/r1"));
    assert!(run(&["context", "list"]).stdout.contains("* "));
    assert!(run(&["exec", "red/r1", "true"]).stderr.contains("machine of the node only"));
    assert!(run(&["context", "use", "local"]).status.success());
    assert!(!run(&["get", "routers"]).stdout.contains("red/r1"));
    let name = format!("alice@{}", net.url.trim_start_matches("https://"));
    assert!(run(&["context", "use", &name]).status.success());
    assert!(run(&["get", "routers"]).stdout.contains("red/r1"));
    assert!(run(&["logout"]).status.success());
    assert!(!fs::read_to_string(&file).expect("contexts").contains("europa_"));
}

/// Number of half-open connections at a time, and their source addresses.
const HALF_OPEN: usize = 10_000;
const ATTACKERS: usize = 40;

/// Connects from an address of this machine's loopback network.
fn half_open(from: u8, to: SocketAddr) -> Option<OwnedFd> {
    let stream =
        socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).ok()?;
    bind(stream.as_raw_fd(), &SockaddrIn::new(127, 0, 9, from, 0)).ok()?;
    let SocketAddr::V4(to) = to else { return None };
    connect(stream.as_raw_fd(), &SockaddrIn::from(to)).ok()?;
    // Sends only the beginning of a ClientHello.
    let _ = nix::unistd::write(&stream, &[0x16, 0x03, 0x01, 0x02, 0x00]);
    Some(stream)
}

#[test]
fn ten_thousand_half_open_connections_keep_nobody_out() {
    skip_without!();
    let net = Net::up();
    let (alice, _) = net.token("alice", "1h");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let most = hard.max(HALF_OPEN as u64 + 2000);
    if setrlimit(Resource::RLIMIT_NOFILE, most, most).is_err() && soft < most {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    let to: SocketAddr = net.url.trim_start_matches("https://").parse().expect("an address");
    let open = |count: usize| -> Vec<OwnedFd> {
        let from = (0..count).map(|number| 1 + (number % ATTACKERS) as u8);
        from.filter_map(|from| half_open(from, to)).collect()
    };
    let mut all = open(HALF_OPEN);
    assert!(all.len() > HALF_OPEN / 2, "{} connections", all.len());
    // The local socket and the TLS port still serve requests, while new connections come.
    for _ in 0..5 {
        let start = Instant::now();
        assert!(net.node.run(&["get", "routers"]).contains("blue/secret"));
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        all.extend(open(200));
        assert!(net.run(&alice, &["get", "routers"]).contains("red/r1"));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
    let descriptors = fs::read_dir(format!("/proc/{}/fd", net.node.process("node")));
    let count = descriptors.expect("descriptors").count();
    assert!(count < 600, "the node holds {count} descriptors");
    net.run(&alice, &["restart", "red/r1"]);
    let mut watch = net.command(&alice, &["events", "--watch"]);
    watch.wait_for("Restarted", Duration::from_secs(20)).expect("events");
}
