//! Sessions end with their right, their client or their node, with all processes that they started.

use super::*;

/// Number of processes that sleep for this many seconds.
fn sleepers(seconds: &str) -> usize {
    let line = format!("sleep\0{seconds}\0");
    let all = fs::read_dir("/proc").expect("processes").flatten();
    all.filter(|one| fs::read(one.path().join("cmdline")).is_ok_and(|own| own == line.as_bytes()))
        .count()
}

/// A session that has started a process which ignores the session's end.
fn session(net: &Net, seconds: &str, options: &[&str]) -> Process {
    let script = format!(
        "red/r1 (trap '' HUP TERM; setsid sleep {seconds} </dev/null >/dev/null 2>&1 &); \
         echo ready; exec sleep {seconds}"
    );
    let mut session = net.start("alice", options, &[&script]);
    session.wait_for("ready", PATIENCE).expect("a session");
    wait("both processes", PATIENCE, || sleepers(seconds) == 2);
    session
}

#[test]
fn sessions_end_within_a_second_of_their_right() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    let seconds = format!("7{}", std::process::id());
    let all = net.yaml(&net.users("{red: owner}"));
    let others =
        net.user("bob", "roles: {red: operator, blue: viewer}") + &net.user("carol", "admin: true");
    let other_key =
        net.user("mallory", "roles: {red: owner}").replace("name: mallory", "name: alice");
    let mut best = Duration::MAX;
    for (options, users, wanted) in [
        (&[][..], net.users("{red: viewer}"), "yours is viewer"),
        (&["-tt"], net.users("{blue: owner}"), "there is no router"),
        (&[], others.clone() + &other_key, "this key is not of user alice any more"),
        (&[], String::new(), "there is no user alice any more"),
    ] {
        net.node.run(&["apply", &net.node.file("node.yaml", &all)]);
        let session = session(&net, &seconds, options);
        match users.is_empty() {
            true => net.node.run(&["delete", "user", "alice"]),
            false => net.node.run(&["apply", &net.node.file("node.yaml", &net.yaml(&users))]),
        };
        let start = Instant::now();
        let output = session.wait(Duration::from_secs(5)).expect("it ends");
        assert_eq!(sleepers(&seconds), 0, "{wanted}");
        best = best.min(start.elapsed());
        assert!(!output.status.success(), "{wanted}: {output:?}");
        assert!((output.stdout + &output.stderr).contains(wanted), "{wanted}");
        assert!(!net.ssh("alice", &[], &["red/r1", "true"]).status.success(), "{wanted}");
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
    // A change of another document ends no session.
    net.node.run(&["apply", &net.node.file("node.yaml", &all)]);
    let mut stays = session(&net, &seconds, &[]);
    let more = all.clone() + "---\nkind: user\nname: erin\n";
    net.node.run(&["apply", &net.node.file("node.yaml", &more)]);
    let before = net.events("LoggedOut").len();
    net.says("bob", &["red/r1", "true"]);
    wait("bob's end", PATIENCE, || net.events("LoggedOut").len() > before);
    assert!(stays.is_running());
    // The client ends.
    drop(stays);
    wait("no process", PATIENCE, || sleepers(&seconds) == 0);
    // The session's router is removed.
    let session = session(&net, &seconds, &[]);
    net.node.run(&["delete", "router", "red/r1"]);
    assert!(!session.wait(PATIENCE).expect("it ends").status.success());
    wait("no process", PATIENCE, || sleepers(&seconds) == 0);
}

#[test]
fn sessions_and_sshd_end_with_their_node_and_events_tell_of_them() {
    skip_without!("ssh", "ssh-keygen", "sshd", "useradd");
    let net = Net::up();
    let seconds = format!("8{}", std::process::id());
    assert_eq!(net.ssh("alice", &[], &["red/r1 exit 9 #\u{1b}[2J"]).status.code(), Some(9));
    assert!(!net.ssh("bob", &[], &["blue/secret", "id"]).status.success());
    wait("the end", PATIENCE, || {
        let all = net.events("LoggedOut");
        all.iter().any(|one| one["message"].as_str().is_some_and(|text| text.contains("code 9")))
    });
    let of = |reason: &str, who: &str| {
        let all = net.events(reason);
        all.into_iter().rev().find(|one| one["who"] == who).expect("an event")
    };
    let entered = of("LoggedIn", "alice");
    assert_eq!((&entered["kind"], &entered["name"]), (&"router".into(), &"red/r1".into()));
    let text = entered["message"].as_str().unwrap_or_default();
    assert!(text.contains("`exit 9 #\\u{1b}[2J`") && text.contains("SHA256:"), "{entered}");
    assert!(
        entered["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")),
        "{entered}"
    );
    let refused = of("LoginRefused", "bob");
    assert_eq!(refused["name"], "bob");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("viewer")), "{refused}");

    // The node is killed, and the next one takes logins again.
    let left = session(&net, &seconds, &[]);
    net.node.kill("node");
    assert!(!left.wait(PATIENCE).expect("it ends").status.success());
    wait("no process", PATIENCE, || sleepers(&seconds) == 0);
    let (yaml, at) = (net.yaml(&net.users("{red: owner}")), format!("127.0.0.1:{}", net.port));
    net.node.run(&["up", &net.node.file("node.yaml", &yaml), "--ssh", &at]);
    wait("a login", PATIENCE, || net.ssh("alice", &[], &["r1", "true"]).status.success());
    let left = session(&net, &seconds, &[]);
    let folder = PathBuf::from("/run/europa/.ssh").join(net.node.instance());
    assert!(folder.join("europa").is_file());
    net.node.run(&["down"]);
    assert!(!left.wait(PATIENCE).expect("it ends").status.success());
    assert_eq!((sleepers(&seconds), folder.exists()), (0, false));
    assert!(net.ssh("alice", &[], &["r1", "true"]).stderr.contains("refused"));
}
