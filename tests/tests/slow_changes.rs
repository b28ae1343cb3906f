//! Slow paths change while they run: programs read files again and run on, and failures are shown.

mod slow;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use slow::{linux, program, programs, reach, router_pid, turn, wait};

/// r1 with FRR and r2 with BIRD, which exchange routes.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/two-routers.yaml");
    fs::read_to_string(path).expect("the example")
}

/// A router of slice `s` on its own, with this slow path.
fn router(name: &str, slow: &str) -> String {
    format!(
        "---\nkind: router\nname: {name}\nslice: s\n\
         interfaces: {{x: {{link: {name}, addresses: [10.0.0.1/24]}}}}\n\
         fast_path: {{builtin: ipv4}}\nslow_path:\n{slow}"
    )
}

/// The same router, with a host at the other end of its link.
fn joined(name: &str, slow: &str) -> String {
    let router = router(name, slow);
    format!("---\nkind: host\nname: peer-{name}\ninterfaces: {{eth0: {{link: {name}}}}}\n{router}")
}

fn slice(routers: &[String]) -> String {
    format!("kind: slice\nname: s\n{}", routers.concat())
}

fn status(node: &Node, kind: &str, name: &str) -> Value {
    let text = node.run(&["describe", kind, name, "--json"]);
    let object: Value = serde_json::from_str(&text).expect("an object");
    object["status"].clone()
}

fn inside(node: &Node, router: &str, script: &str) -> String {
    node.run(&["exec", router, "sh", "-c", script])
}

/// Programs by name and process: the list stays the same while none is restarted.
fn running(node: &Node, router: &str) -> Vec<(i32, String)> {
    let mut all = programs(node, router);
    // The parent of its program stays the same during that time.
    all.retain(|(_, name)| name != "europa" && name != "vtysh" && name != "python3");
    all
}

#[test]
fn n04_frr_and_bird_read_their_files_again_and_keep_their_adjacencies() {
    skip_without!("ping", "bird", "vtysh", "/usr/lib/frr/frr-reload.py");
    let _turn = turn();
    let node = Node::new(None);
    let example = example();
    node.up(&example);
    let alice = node.host("alice");
    reach(&alice, "10.2.0.2", Duration::from_secs(60));
    let before = (router_pid(&node, "lab/r1"), running(&node, "lab/r1"), running(&node, "lab/r2"));
    let apply = |text: &str| node.attempt(&["apply", &node.file("changed.yaml", text)]);
    let cost = || inside(&node, "lab/r1", "vtysh -c 'show ip ospf interface main' | grep Cost");

    let changed = example.replace(" ip ospf cost 10\n", " ip ospf cost 15\n");
    let output = apply(&changed);
    assert!(output.status.success(), "{}", output.stderr);
    for told in ["in place: reloads ospfd", "-  ip ospf cost 10", "+  ip ospf cost 15"] {
        let text = output.stdout.replace("- ", "-").replace("+ ", "+");
        assert!(text.contains(&told.replace("- ", "-").replace("+ ", "+")), "{}", output.stdout);
    }
    assert!(cost().contains("Cost: 15"), "{}", cost());
    let bird = changed
        .replace("type ptp; hello 1; dead 4; cost 100;", "type ptp; hello 1; dead 4; cost 90;");
    let output = apply(&bird);
    assert!(output.stdout.contains("in place: reloads bird"), "{}{}", output.stdout, output.stderr);
    let shown = inside(&node, "lab/r2", "birdc -s /run/bird.ctl show ospf interface");
    assert!(shown.contains("Cost: 90"), "{shown}");

    // A mistake is reported, and the node undoes the change.
    let wrong = bird.replace(" ip ospf cost 15\n", " ip ospf cost 15\n         ip ospf nonsense\n");
    let output = apply(&wrong);
    assert!(!output.status.success(), "{}", output.stdout);
    assert!(output.stderr.contains("ip ospf nonsense"), "{}", output.stderr);
    assert!(output.stderr.contains("ospfd could not be reloaded"), "{}", output.stderr);
    let file = inside(&node, "lab/r1", "cat /etc/frr/ospfd.conf");
    assert!(!file.contains("nonsense") && file.contains("cost 15"), "{file}");
    assert!(cost().contains("Cost: 15"), "{}", cost());
    assert!(node.run(&["events"]).contains("NotReloaded"));

    let after = (router_pid(&node, "lab/r1"), running(&node, "lab/r1"), running(&node, "lab/r2"));
    assert_eq!(after, before, "nothing was started again");
    assert!(alice.ping("10.2.0.2", 3, &[]).expect("a ping").is_perfect());
}

/// FRR's daemons would never tell another zebra about their routes, so they restart with it.
#[test]
fn n05_who_needs_zebra_is_started_again_with_it() {
    skip_without!("ping", "bird", "vtysh");
    let _turn = turn();
    let node = Node::new(None);
    node.up(&example());
    let alice = node.host("alice");
    reach(&alice, "10.2.0.2", Duration::from_secs(60));
    let knows =
        || linux(&node, "lab/r1").ip(&["route"]).is_ok_and(|r| r.stdout.contains("10.2.0.0/24"));
    for time in 1..=3 {
        let ospfd = program(&node, "lab/r1", "ospfd");
        let zebra = program(&node, "lab/r1", "zebra").expect("zebra");
        kill(Pid::from_raw(zebra), Signal::SIGKILL).expect("a signal");
        wait("another ospfd", Duration::from_secs(10), || {
            let now = program(&node, "lab/r1", "ospfd");
            now.is_some() && now != ospfd
        });
        let took = wait("its routes", Duration::from_secs(40), knows);
        println!("time {time}: routes again after {:.1} s", took.as_secs_f64());
    }
    reach(&alice, "10.2.0.2", Duration::from_secs(30));
    let shown = status(&node, "router", "lab/r1");
    assert_eq!(shown["state"], "degraded", "{shown}");
    let message = shown["message"].as_str().unwrap_or_default();
    assert!(message.contains("zebra is started again and again"), "{message}");
    assert_eq!(status(&node, "router", "lab/r2")["state"], "running");
    // FRR's messages are in its log.
    wait("a log", Duration::from_secs(5), || node.run(&["logs", "lab/r1.zebra"]).contains("zebra"));
}

#[test]
fn a_changed_file_concerns_the_programs_that_use_it() {
    skip_without!("ip");
    let _turn = turn();
    let node = Node::new(None);
    // Each program records its start, or its signals.
    let slow = |a: &str, b: &str| {
        format!(
            "  files:\n    - {{path: /run/a.conf, text: \"{a}\"}}\n\
             \x20   - {{path: /run/b.conf, text: \"{b}\"}}\n  run:\n\
             \x20   - name: restarted\n      command: [sh, -c, \"cat /run/a.conf >> /run/a.log; exec sleep 1000\"]\n\
             \x20   - name: signalled\n      command: [sh, -c, \"trap 'cat /run/b.conf >> /run/b.log' USR1; cat /run/b.conf >> /run/b.log; while :; do sleep 0.05; done\"]\n\
             \x20     reload: USR1\n\
             \x20   - name: commanded\n      command: [sleep, \"1001\"]\n\
             \x20     reload_on: [/run/b.conf]\n\
             \x20     reload: [sh, -c, \"grep -q wrong /run/b.conf && echo refused it && exit 3; cp /run/b.conf /run/c.log\"]\n"
        )
    };
    let apply = |a: &str, b: &str| {
        let text = slice(&[joined("r", &slow(a, b))]);
        node.attempt(&["apply", &node.file("r.yaml", &text)])
    };
    node.up(&slice(&[joined("r", &slow("1", "1"))]));
    let read = |file: &str| inside(&node, "s/r", &format!("cat /run/{file} 2>/dev/null || true"));
    wait("both", Duration::from_secs(10), || read("a.log") == "1" && read("b.log") == "1");
    let fast = router_pid(&node, "s/r");
    let output = apply("2", "1");
    assert!(
        output.stdout.contains("in place: restarts restarted)"),
        "{}{}",
        output.stdout,
        output.stderr
    );
    wait("another start", Duration::from_secs(5), || read("a.log") == "12");
    let output = apply("2", "3");
    assert!(
        output.stdout.contains("reloads commanded, signalled)"),
        "{}{}",
        output.stdout,
        output.stderr
    );
    assert_eq!(read("c.log"), "3", "done when it is said to be");
    wait("a signal", Duration::from_secs(5), || read("b.log") == "13");

    let output = apply("2", "wrong");
    assert!(!output.status.success(), "{}", output.stdout);
    assert!(output.stderr.contains("refused it"), "{}", output.stderr);
    assert_eq!((read("b.conf").as_str(), read("c.log").as_str()), ("3", "3"));
    assert_eq!(read("a.log"), "12");
    assert_eq!(router_pid(&node, "s/r"), fast, "the fast path goes on");
    assert_eq!(status(&node, "router", "s/r")["state"], "running");
}

#[test]
fn n05_programs_and_commands_that_fail_are_seen() {
    skip_without!("ip");
    let _turn = turn();
    let node = Node::new(None);
    let slow = "  run:\n    - {name: broken, command: [sh, -c, \"echo it broke; exit 4\"], restart: never}\n\
                \x20   - {name: needy, command: [sleep, \"1000\"], needs: [broken]}\n";
    let hosts = "---\nkind: host\nname: h\ninterfaces: {eth0: {link: r}}\n\
                 run: [\"true\", \"echo a word; (exit 6)\", \"true\"]\n\
                 ---\nkind: host\nname: good\ninterfaces: {eth0: {link: q}}\nrun: [\"true\"]\n\
                 ---\nkind: router\nname: q\nslice: s\ninterfaces: {x: {link: q}}\nfast_path: {builtin: ipv4}\n";
    node.up(&format!("{}{hosts}", slice(&[router("r", slow)])));
    wait("the router's trouble", Duration::from_secs(10), || {
        let shown = status(&node, "router", "s/r");
        let message = shown["message"].as_str().unwrap_or_default().to_owned();
        shown["state"] == "degraded" && message.contains("broken ended with code 4")
    });
    wait("the host's trouble", Duration::from_secs(10), || {
        status(&node, "host", "h")["state"] == "degraded"
    });
    assert_eq!(status(&node, "host", "good")["state"], "active");
    let events = node.run(&["events"]);
    for told in ["ended with code 4", "ended with code 6", "a word"] {
        assert!(events.contains(told), "{told}: {events}");
    }
    assert!(node.run(&["logs", "s/r.broken"]).contains("it broke"));
    assert!(program(&node, "s/r", "sleep").is_none(), "what it needs has failed");
}

/// A data plane cannot run: `apply` and `restart` report it.
#[test]
fn n05_a_data_plane_that_ends_at_once_is_refused() {
    skip_without!("ip");
    let _turn = turn();
    let node = Node::new(None);
    let calm = slice(&[joined("r", "  run: []\n")]);
    node.up(&calm);
    let plane = "---\nkind: host\nname: peer-p\ninterfaces: {eth0: {link: p}}\n---\nkind: router\nname: p\nslice: s\ninterfaces: {x: {link: p, addresses: [10.1.0.1/24]}}\n\
                 fast_path: {program: [/bin/false]}\n";
    let output = node.attempt(&["apply", &node.file("p.yaml", &format!("{calm}{plane}"))]);
    assert!(!output.status.success(), "{}", output.stdout);
    assert!(output.stderr.contains("ended with code 1"), "{}", output.stderr);
    assert!(!node.run(&["get", "routers"]).contains("s/p"), "it is taken back");
    assert!(node.run(&["get", "routers"]).contains("s/r"));
}

/// No router sees, stops or counts objects of another router.
#[test]
fn n09_routers_share_no_processes_and_no_users() {
    skip_without!("ip", "python3");
    let _turn = turn();
    let node = Node::new(None);
    let one = "  run:\n    - {name: mine, command: [sleep, \"4711\"]}\n\
               \x20   - {name: pipes, command: [python3, -c, \"import os, time, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)); p = [os.pipe() for _ in range(1100)]; time.sleep(1000)\"]}\n";
    node.up(&slice(&[joined("a", one), joined("b", "  run: []\n")]));
    let mine = || programs(&node, "s/a").into_iter().find(|(_, name)| name == "sleep");
    wait("its program", Duration::from_secs(10), || mine().is_some());
    wait("pipes", Duration::from_secs(10), || {
        let used = |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        program(&node, "s/a", "python3").is_some_and(|pid| used(pid) > 2200)
    });
    let (pid, _) = mine().expect("a program");
    let all = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    let own = inside(&node, "s/a", all);
    assert!(own.contains("sleep 4711") && own.contains("init s/a"), "{own}");
    for other in ["europa switch", "europa node"] {
        assert!(!own.contains(other), "{own}");
    }
    let others = inside(&node, "s/b", all);
    assert!(!others.contains("4711") && !others.contains("s/a"), "{others}");
    // The host tries the number that it knows, and every number that the process could have there.
    let output = node.attempt(&["exec", "s/b", "sh", "-c", &format!("kill -9 {pid}; kill -9 -1")]);
    assert!(!output.status.success(), "{}", output.stdout);
    assert_eq!(mine().expect("a program").0, pid, "it goes on");
    // A shell of the router can.
    let find =
        "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sleep ] && echo ${p#/proc/}; done; true";
    let number = inside(&node, "s/a", find);
    inside(&node, "s/a", &format!("kill -9 {}", number.trim()));
    wait("another one", Duration::from_secs(10), || mine().is_some_and(|(now, _)| now != pid));

    // The kernel counts pages of pipes by user: a user at the limit gets pipes of two pages at
    // most.
    let size = "python3 -c 'import fcntl, os; print(fcntl.fcntl(os.pipe()[0], 1032))'";
    assert_eq!(inside(&node, "s/b", size).trim(), "65536");
    let user = |router: &str| {
        let map = inside(&node, router, "cat /proc/self/uid_map");
        map.split_whitespace().nth(1).map(str::to_owned)
    };
    assert_ne!(user("s/a"), user("s/b"));
}

/// The node waits for programs that do not end beside all its other work.
#[test]
fn programs_that_ignore_signals_hold_nobody_up() {
    skip_without!("ip");
    let _turn = turn();
    let node = Node::new(None);
    let stubborn: String = (0..4)
        .map(|n| {
            format!(
                "    - {{name: s{n}, command: [sh, -c, \"trap '' TERM INT HUP; while :; do sleep 0.2; done\"]}}\n"
            )
        })
        .collect();
    let slow = format!("  run:\n{stubborn}");
    let calm = slice(&[joined("calm", "  run: []\n")]);
    let both = format!("{calm}{}{}", joined("x", &slow), joined("y", &slow));
    node.up(&both);
    let up = |router: &str| running(&node, router).iter().filter(|(_, name)| name == "sh").count();
    wait("all programs", Duration::from_secs(10), || up("s/x") == 4 && up("s/y") == 4);
    let begun = Instant::now();
    node.run(&["apply", &node.file("calm.yaml", &calm)]);
    let took = begun.elapsed();
    println!("two routers with eight stubborn programs are gone after {took:?}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
    // Another router of the same name has only programs of its own.
    node.run(&["apply", &node.file("both.yaml", &both)]);
    wait("all programs again", Duration::from_secs(15), || up("s/x") == 4 && up("s/y") == 4);
    node.run(&["apply", &node.file("calm.yaml", &calm)]);
    let processes = |node: &Node| node.processes().len();
    let most = processes(&node);
    wait("their end", Duration::from_secs(10), || processes(&node) < most);
}
