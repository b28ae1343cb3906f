use super::*;
use crate::{Bundle, Source};

const NODE: &str = "kind: port\nname: left\ndevice: eth1\nrate: 1Gb/s\n---\n\
    kind: port\nname: right\ndevice: eth2\n---\n\
    kind: slice\nname: red\nreservation: {ports: {left: {guarantee: 1Mb/s}}}\n---\n\
    kind: slice\nname: blue\n---\n\
    kind: slice\nname: open\nallow: [grants, run, programs, port, device, host]\n---\n\
    kind: router\nname: r1\nslice: red\nfast_path: {builtin: ipv4}\n\
    interfaces: {a: {port: left, addresses: [10.0.1.1/24]}, b: {link: pc}, c: {link: mix}}\n---\n\
    kind: router\nname: r2\nslice: red\nfast_path: {builtin: ipv4}\n\
    interfaces: {a: {link: own}}\n---\n\
    kind: link\nname: own\ndelay: 1ms\n---\n\
    kind: host\nname: pc\ninterfaces: {e: {link: pc}}\n---\n\
    kind: router\nname: secret\nslice: blue\nfast_path: {builtin: ipv4}\n\
    interfaces: {a: {link: mix}, b: {link: theirs}}\n---\n\
    kind: filters\nname: rules\nslice: blue\nrules: []\n---\n\
    kind: user\nname: alice\nroles: {red: owner, open: owner}\n";

const TUNNEL: &str = "tunnel: {local: 192.0.2.1, remote: 192.0.2.2, id: 1, \
    send_key: \"0000000000000001\", receive_key: \"0000000000000002\"}\n";

fn documents(text: &str, kept: &[Kept]) -> Documents {
    bundle(text).merge(kept).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn bundle(text: &str) -> Bundle {
    Bundle::of(vec![Source { path: "own.yaml".into(), text: text.to_owned() }])
}

fn kept(documents: &Documents) -> Vec<Kept> {
    documents.iter().map(|one| Kept::of(&one).expect("JSON")).collect()
}

fn roles(role: Role) -> BTreeMap<String, Role> {
    ["red", "open", "gone"].map(|slice| (slice.to_owned(), role)).into()
}

#[test]
fn a_user_sees_its_slices_and_what_is_at_their_ends() {
    let stored = documents(NODE, &[]);
    let roles = roles(Role::Viewer);
    let rights = Rights::new(&stored, &roles);
    let seen: Vec<String> = stored
        .iter()
        .map(|one| one.key())
        .filter(|k| rights.sees(k))
        .map(|k| k.to_string())
        .collect();
    assert_eq!(seen, ["slice red", "slice open", "link own", "router red/r1", "router red/r2"]);
    let hidden = rights.hidden();
    for name in ["blue", "secret", "theirs", "rules", "right", "alice"] {
        assert!(hidden.contains(name), "{name}: {hidden:?}");
    }
    for name in ["red", "left", "own", "mix", "r1"] {
        assert!(!hidden.contains(name), "{name}: {hidden:?}");
    }
    let visible = rights.visible(&kept(&stored));
    let text: String = visible.iter().map(|one| one.document.clone()).collect();
    assert!(!text.contains("eth1") && !text.contains("secret") && !text.contains("blue"), "{text}");
    assert!(Bundle::default().merge(&visible).is_ok());
}

/// The verdict on an owner's text: refused fields, and names that belong to others.
fn verdict(text: &str, role: Role) -> String {
    let stored = documents(NODE, &[]);
    let roles = roles(role);
    let rights = Rights::new(&stored, &roles);
    let all = kept(&stored);
    let visible = rights.visible(&all);
    let bundle = bundle(text);
    let new = match bundle.written(&visible) {
        Ok(new) => new,
        Err(problems) => return problems.iter().map(|p| format!("wrong: {p}")).collect(),
    };
    let changed: HashSet<Key> = bundle.keys();
    let refused = rights.refused(&new, &changed);
    if !refused.is_empty() {
        return refused.iter().map(|problem| format!("refused: {problem}; ")).collect();
    }
    let after = match bundle.written(&all) {
        Ok(after) => after,
        Err(_) => return "conflict".to_owned(),
    };
    let taken = rights.taken(&after, &changed);
    taken.iter().map(|problem| format!("taken: {problem}; ")).collect()
}

#[test]
fn owners_say_what_is_their_own() {
    const R: &str = "kind: router\nname: r2\nslice: red\nfast_path: {builtin: ipv4}\n";
    let router = |more: &str| format!("{R}{more}\n");
    let with = |path: &str| {
        format!("kind: router\nname: r2\nslice: red\ninterfaces: {{a: {{link: own}}}}\n{path}\n")
    };
    for (text, wanted) in [
        (router("interfaces: {a: {link: own}}"), ""),
        (router("interfaces: {a: {link: own}, b: {link: new}}"), ""),
        (router("interfaces: {a: {port: left}, b: {link: own}}"), ""),
        (router("interfaces: {a: {port: left, match: {udp: [53]}}, b: {link: own}}"), "refused: `match`"),
        (router("interfaces: {a: {port: left, mac: \"02:00:00:00:00:01\"}, b: {link: own}}"), "refused: `mac`"),
        (with("fast_path: {click: Idle}\ngrants: [{read: /etc/shadow}]"), "refused: `grants`"),
        (router("interfaces: {a: {link: own}}\ncpu: [0]"), "refused: `cpu`"),
        (router("interfaces: {a: {link: own}}\npoll: busy"), "refused: `poll`"),
        (router("interfaces: {a: {link: own}}\nrun: inline"), "refused: `run`"),
        (
            router(
                "interfaces: {a: {link: own}}\n\
                 slow_path: {files: [{path: /run/x, from: ../../etc/shadow}]}",
            ),
            "refused: `from`",
        ),
        (
            router(
                "interfaces: {a: {link: own}}\n\
                 slow_path: {run: [{name: x, command: [sh], capabilities: [sys_admin]}]}",
            ),
            "refused: `capabilities`",
        ),
        (router("interfaces: {a: {link: own}}\nslow_path: {uplink: true}"), "refused: `uplink`"),
        (router("interfaces: {a: {link: own}}\nslow_path: {uplink: false}"), ""),
        (router("interfaces: {a: {link: own}}\nslow_path: {root: /}"), "refused: `root`"),
        (with("fast_path: {click_file: /etc/passwd}"), "refused: `click_file`"),
        (with("fast_path: {program: [/bin/sh]}"), "refused: `program`"),
        (with("fast_path: {click: Idle, elements: /bin/sh}"), "refused: `elements`"),
        // Links of other slices, and links with a host at the other end.
        (router("interfaces: {a: {link: own}, b: {link: theirs}}"), "taken: link theirs"),
        (router("interfaces: {a: {link: own}, b: {link: mix}}"), "conflict"),
        (router("interfaces: {a: {port: right}, b: {link: own}}"), "wrong: there is no port \"right\""),
        (format!("{}---\nkind: link\nname: theirs\ndelay: 1ms\n", router("interfaces: {a: {link: own}}")), "wrong: no interface names link"),
        (format!("kind: link\nname: own\n{TUNNEL}"), "refused: `tunnel`"),
        (R.replace("red", "blue") + "interfaces: {}\n", "wrong: there is no slice \"blue\""),
        (R.replace("red", "nosuch") + "interfaces: {}\n", "wrong: there is no slice \"nosuch\""),
        ("kind: filters\nname: rules\nslice: red\nrules: []\n".into(), "taken: filters rules"),
        ("kind: slice\nname: red\n".into(), "refused: `reservation` of a slice"),
        ("kind: slice\nname: blue\n".into(), "refused: kind: slice"),
        ("kind: slice\nname: nosuch\n".into(), "refused: kind: slice"),
        ("kind: slice\nname: open\nallow: [grants, run, programs, port, device, host]\nprograms: operator\n".into(), ""),
        ("kind: slice\nname: red\nprograms: operator\nreservation: {ports: {left: {guarantee: 1Mb/s}}}\n".into(), "refused: `programs`"),
        ("kind: user\nname: mallory\nadmin: true\n".into(), "refused: kind: user"),
        ("kind: port\nname: p\ndevice: eth7\nnamespace: x\n".into(), "refused: `namespace`"),
        ("kind: port\nname: p\ndevice: eth7\n".into(), ""),
        ("kind: port\nname: right\ndevice: eth7\n".into(), "taken: port right"),
        ("kind: host\nname: h\ninterfaces: {e: {link: x}}\npid: 1\n".into(), "refused: `pid`"),
        ("kind: host\nname: h\ninterfaces: {e: {link: x}}\ncontainer: x\n".into(), "refused: `container`"),
    ] {
        let found = verdict(&text, Role::Owner);
        assert!(found.starts_with(wanted) && found.is_empty() == wanted.is_empty(), "{text}: {found}");
    }
    let found = verdict(&router("interfaces: {a: {link: own}}"), Role::Operator);
    assert!(found.starts_with("refused: the role operator does not suffice"), "{found}");
}

#[test]
fn what_may_be_removed() {
    let stored = documents(NODE, &[]);
    let owner = roles(Role::Owner);
    let viewer = roles(Role::Viewer);
    for (kind, name, wanted) in [
        ("router", "red/r2", Some(true)),
        ("link", "own", Some(true)),
        ("slice", "red", Some(false)),
        ("router", "blue/secret", None),
        ("router", "nosuch/r", None),
        ("link", "mix", None),
        ("user", "alice", None),
        ("host", "pc", None),
    ] {
        let verdict = Rights::new(&stored, &owner).may_delete(&Key::new(kind, name));
        let found = match verdict {
            Verdict::Allowed => Some(true),
            Verdict::Forbidden(_) => Some(false),
            Verdict::Unknown => None,
        };
        assert_eq!(found, wanted, "{kind} {name}");
    }
    let verdict = Rights::new(&stored, &viewer).may_delete(&Key::new("router", "red/r2"));
    assert!(matches!(verdict, Verdict::Forbidden(_)), "{verdict:?}");
}

#[test]
fn tunnels_are_for_those_whose_slice_allows_them() {
    let with_tunnel = NODE.replace("name: own\n", &format!("name: own\n{TUNNEL}"));
    let allowed = with_tunnel.replace("allow: [grants", "allow: [tunnel, grants");
    let owner = roles(Role::Owner);
    let key = Key::new("link", "own");
    for (node, may) in [(NODE, true), (&with_tunnel, false), (&allowed, true)] {
        let stored = documents(node, &[]);
        let rights = Rights::new(&stored, &owner);
        assert_eq!((rights.sees(&key), rights.owns(&key)), (true, may), "{node}");
        assert_eq!(rights.may_delete(&key) == Verdict::Allowed, may, "{node}");
    }
    // An owner may change other fields of such a link, but not the tunnel.
    let stored = documents(&with_tunnel, &[]);
    let rights = Rights::new(&stored, &owner);
    let changed = HashSet::from([key]);
    for (old, new, wanted) in [
        ("delay: 1ms", "delay: 2ms", 0),
        ("id: 1", "id: 2", 1),
        (TUNNEL, "", 1),
        ("remote: 192.0.2.2", "remote: 192.0.2.3", 1),
    ] {
        let new = documents(&with_tunnel.replace(old, new), &[]);
        assert_eq!(rights.refused(&new, &changed).len(), wanted, "{old}");
    }
}
