use europa_api::{Source, parse};

use super::*;

/// FRR with two daemons, BIRD, a web server, and a program that runs once.
const ROUTER: &str = "kind: slice\nname: s\n---\n\
kind: router\nname: r\nslice: s\ninterfaces: {x: {link: x, addresses: [10.0.0.1/24]}}\n\
fast_path: {builtin: ipv4}\nslow_path:\n  files:\n\
\x20   - {path: /run/frr/, owner: root}\n\
\x20   - {path: /etc/frr/vtysh.conf}\n\
\x20   - {path: /etc/frr/zebra.conf, text: \"hostname r\"}\n\
\x20   - {path: /etc/frr/ospfd.conf, text: \"router ospf\"}\n\
\x20   - {path: /run/bird.conf, text: \"include \\\"/run/filters.conf\\\";\"}\n\
\x20   - {path: /run/filters.conf, text: \"filter a { accept; }\"}\n\
\x20   - {path: /run/www/hello, text: hello}\n\
\x20   - {path: /run/other, text: other}\n\
\x20 run:\n\
\x20   - {name: zebra, command: [/usr/lib/frr/zebra, -f, /etc/frr/zebra.conf]}\n\
\x20   - {name: ospfd, command: [/usr/lib/frr/ospfd]}\n\
\x20   - {name: bird, command: [bird, -f, -c, /run/bird.conf, -s, /run/bird.ctl]}\n\
\x20   - {name: web, command: [python3, -m, http.server, --directory, /run/www], reload: HUP}\n\
\x20   - {name: once, command: [ip, address, add, 10.9.9.9/32, dev, lo], restart: never}\n\
---\nkind: router\nname: q\nslice: s\ninterfaces: {x: {link: x, addresses: [10.0.0.2/24]}}\n\
fast_path: {builtin: ipv4}\n";

fn slow_path(text: &str) -> SlowPath {
    let source = Source { path: "x.yaml".into(), text: text.to_owned() };
    let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    documents.routers[0].slow_path.clone().expect("a slow path").value
}

const ALL: Tools = Tools { frr_reload: true, birdc: true };

fn in_words(old: &SlowPath, new: &SlowPath, tools: Tools) -> String {
    let told = told(&actions(old, new, tools));
    let parts: Vec<String> = told.iter().map(|(what, names)| format!("{what} {names}")).collect();
    parts.join("; ")
}

fn said(from: &str, to: &str, tools: Tools) -> String {
    assert!(ROUTER.contains(from), "{from}");
    let new = slow_path(&ROUTER.replace(from, to));
    let there = in_words(&slow_path(ROUTER), &new, tools);
    // The inverse change affects the same programs.
    let back = in_words(&new, &slow_path(ROUTER), tools);
    let words = |text: &str| text.replace("start", "_").replace("stop", "_");
    if !there.contains("start ") || there.contains("restart") {
        assert_eq!(words(&there), words(&back), "{from} -> {to}");
    }
    there
}

#[test]
fn who_notices_a_change() {
    for (from, to, wanted) in [
        ("router ospf\"", "router ospf\\n log\"", "reload ospfd"),
        ("hostname r", "hostname q", "reload zebra"),
        // Words that only the shell reads.
        ("vtysh.conf}", "vtysh.conf, text: x}", ""),
        // Named by a file that is named.
        ("accept", "reject", "reload bird"),
        // The file lies below a directory that the command names.
        ("text: hello", "text: bye", "reload web"),
        // No document names it.
        ("text: other", "text: else", "reload bird, ospfd, web, zebra"),
        ("    - {path: /run/other, text: other}\n", "", "reload bird, ospfd, web, zebra"),
        // The command differs; programs that need this program restart too.
        ("zebra.conf]}", "zebra.conf, --log, stdout]}", "restart ospfd, zebra"),
        ("dev, lo]", "dev, x]", "restart once"),
        // No running program is affected.
        ("reload: HUP", "reload: USR1", ""),
        ("restart: never", "restart: on-failure", ""),
        ("reload: HUP}", "reload: HUP, needs: [bird]}", ""),
        ("reload: HUP}", "reload: HUP, reload_on: [/run/other]}", ""),
        // The tool refuses an empty file.
        ("text: \"router ospf\"", "text: \"\"", "restart ospfd"),
        // Comes and goes.
        ("name: web", "name: www", "start www; stop web"),
        // The file is the first to hide one of the machine's files.
        (
            "    - {path: /run/other, text: other}\n",
            "    - {path: /run/other, text: other}\n    - {path: /etc/passwd, text: x}\n",
            "restart bird, ospfd, web, zebra",
        ),
        // The file is in a directory that is already hidden.
        (
            "    - {path: /run/other, text: other}\n",
            "    - {path: /run/other, text: other}\n    - {path: /etc/frr/x, text: x}\n",
            "reload bird, ospfd, web, zebra",
        ),
    ] {
        let there =
            ROUTER.contains("text: \"router ospf\"") && from.contains("text: \"router ospf\"");
        if there {
            // Back again the tool can do it.
            let new = slow_path(&ROUTER.replace(from, to));
            assert_eq!(in_words(&slow_path(ROUTER), &new, ALL), wanted);
            continue;
        }
        assert_eq!(said(from, to, ALL), wanted, "{from} -> {to}");
    }
}

#[test]
fn without_their_tools_programs_are_started_again() {
    let none = Tools::default();
    assert_eq!(said("router ospf\"", "router ospf6\"", none), "restart ospfd");
    assert_eq!(said("accept", "reject", none), "restart bird");
    assert_eq!(said("text: hello", "text: bye", none), "reload web");
}

#[test]
fn tools_are_told_where_everything_is() {
    let text = ROUTER.replace("[/usr/lib/frr/ospfd]", "[/usr/lib/frr/ospfd, --vty_socket, /run/o]");
    let all = slow_path(&text);
    let words = |name: &str| {
        let daemon = all.run.iter().find(|daemon| daemon.name.to_string() == name).expect(name);
        match reload(&all.files, daemon, ALL) {
            Some(Reload::Command(words)) => words.join(" "),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(words("bird"), "birdc -s /run/bird.ctl configure");
    assert_eq!(words("web"), "Some(Signal(\"HUP\"))");
    assert_eq!(words("once"), "None");
    assert_eq!(
        words("ospfd"),
        "/usr/lib/frr/frr-reload.py --reload --stdout --log-level warning --daemon ospfd \
         --confdir /etc/frr --rundir /run/o --vty_socket /run/o /etc/frr/ospfd.conf"
    );
}

#[test]
fn daemons_of_frr_need_zebra() {
    for (from, to, wanted) in [
        ("zebra, -f", "zebra, -f", "zebra"),
        ("[/usr/lib/frr/ospfd]", "[/usr/lib/frr/ospfd], needs: []", ""),
        ("[/usr/lib/frr/ospfd]", "[/usr/lib/frr/ospfd], needs: [once, bird]", "once bird"),
        ("[/usr/lib/frr/ospfd]", "[sh, -c, /usr/lib/frr/ospfd]", ""),
        ("zebra.conf]}", "zebra.conf], needs: [bird]}", ""),
    ] {
        let all = slow_path(&ROUTER.replace(from, to));
        let ospfd = all.run.iter().find(|one| one.name.to_string() == "ospfd").expect("ospfd");
        assert_eq!(needs(&all.run, ospfd).join(" "), wanted, "{from} -> {to}");
    }
    let all = slow_path(ROUTER);
    let files: Vec<_> = all.run.iter().filter_map(|daemon| ready_file(daemon)).collect();
    assert_eq!(files, ["/run/frr/zserv.api"]);
}

#[test]
fn paths_are_named_as_a_whole() {
    for (text, path, wanted) in [
        ("-f /run/a.conf", "/run/a.conf", true),
        ("--file=/run/a.conf", "/run/a.conf", true),
        ("\"/run/a.conf\";", "/run/a.conf", true),
        ("/run/a.conf.old", "/run/a.conf", false),
        ("/x/run/a.conf", "/run/a.conf", false),
        ("/opt/run/a.conf", "/run/a.conf", false),
        ("/run/a.config", "/run/a.conf", false),
        ("/run/frr", "/run/frr/", true),
    ] {
        assert_eq!(names(text, path), wanted, "{text} {path}");
    }
}

#[test]
fn a_later_change_weakens_no_earlier_one() {
    let reload = || Action::Reload(Reload::Signal("HUP".into()));
    for (earlier, later, wanted) in [
        (Action::Restart, reload(), Action::Restart),
        (Action::Start, reload(), Action::Start),
        (reload(), Action::Restart, Action::Restart),
        (Action::Start, Action::Stop, Action::Stop),
        (Action::Stop, Action::Start, Action::Start),
    ] {
        let mut all = BTreeMap::from([("x".to_owned(), earlier.clone())]);
        add(&mut all, BTreeMap::from([("x".to_owned(), later.clone())]));
        assert_eq!(all.get("x"), Some(&wanted), "{earlier:?} then {later:?}");
    }
}
