//! Tests the part of each node: pure functions, without etcd.

use std::sync::Arc;

use europa_api::{Bundle, Key, Source};
use europa_cluster::{ClusterError, Entry, Item, Located, Planned, State, Wish, part, plan};
use serde_json::Value;

const NODES: &str = "kind: node\nname: n1\naddress: 192.0.2.1\n---\n\
    kind: node\nname: n2\naddress: 192.0.2.2\n---\nkind: node\nname: n3\naddress: 192.0.2.3\n---\n";

fn router(name: &str, node: &str, interfaces: &str, routes: &str) -> String {
    format!(
        "kind: router\nname: {name}\nslice: red\nnode: {node}\ninterfaces: {{{interfaces}}}\n\
         fast_path: {{builtin: ipv4, routes: [{routes}]}}\n---\n"
    )
}

/// h1 — r1@n1 — r2@n2 — r3@n3 — h3, and a pair of routers on n1 alone.
fn lab() -> String {
    NODES.to_owned()
        + "kind: slice\nname: red\n---\nkind: slice\nname: blue\n---\n"
        + "kind: link\nname: a\na: red/r1\ndelay: 5ms\na_to_b: {delay: 1ms}\n---\n"
        + &router("r1", "n1", "h: {link: h}, e: {link: a}", "{to: 0.0.0.0/0, interface: e}")
        + &router("r2", "n2", "w: {link: a}, e: {link: b}", "")
        + &router("r3", "n3", "w: {link: b}, h: {link: i}", "{to: 0.0.0.0/0, interface: w}")
        + &router("r4", "n1", "x: {link: c}", "")
        + &router("r5", "n1", "x: {link: c}", "")
        + "kind: host\nname: h1\nnode: n1\ninterfaces: {eth0: {link: h}}\n---\n\
           kind: host\nname: h3\ninterfaces: {eth0: {link: i}}\n---\n\
           kind: user\nname: carol\nroles: {red: owner, blue: viewer}\n"
}

fn wish(text: &str) -> Wish {
    let source = Source { path: "lab.yaml".into(), text: text.to_owned() };
    Wish { bundle: Bundle::of(vec![source]), ..Wish::default() }
}

fn planned(state: &State, text: &str) -> Planned {
    plan(state, &wish(text)).unwrap_or_else(|error| panic!("{error}"))
}

/// The state after a change, as a store would contain it.
fn after(state: &State, planned: &Planned) -> State {
    let mut state = state.clone();
    state.head.sequence += 1;
    for (key, content) in &planned.change {
        let Some(content) = content else {
            state.items.remove(key);
            continue;
        };
        let at = Located { stage: "s".into(), number: 0, bytes: content.len() as u64 };
        let next = state.items.len() as u64;
        let order = state.items.get(key).map_or(next, |old| old.entry.order);
        let item = Item { entry: Entry { at, order }, content: Arc::new(content.clone()) };
        state.items.insert(key.clone(), item);
    }
    state
}

/// A document of a node's part.
fn document(planned: &Planned, node: &str, kind: &str, name: &str) -> Option<Value> {
    let part = part(&planned.after, node).unwrap_or_else(|error| panic!("{error}"));
    let mut all = part
        .documents
        .iter()
        .map(|(_, text)| -> Value { serde_json::from_str(text).expect("JSON") });
    all.find(|one| one["kind"] == kind && one["name"] == name)
}

#[test]
fn each_node_gets_its_own_documents_and_both_ends_agree() {
    let all = planned(&State::default(), &lab());
    for (node, kind, name, wanted) in [
        ("n1", "router", "r1", true),
        ("n2", "router", "r1", false),
        ("n1", "host", "h1", true),
        ("n3", "host", "h3", true),
        ("n1", "host", "h3", false),
        ("n2", "slice", "red", true),
        ("n2", "slice", "blue", false),
        ("n1", "node", "n1", false),
        ("n1", "user", "carol", true),
        ("n1", "link", "a", true),
        ("n3", "link", "a", false),
        ("n3", "link", "b", true),
    ] {
        let found = document(&all, node, kind, name);
        assert_eq!(found.is_some(), wanted, "{kind} {name} on {node}");
        assert!(found.is_none_or(|found| found.get("node").is_none()));
    }
    let carol = document(&all, "n2", "user", "carol").expect("carol");
    assert_eq!(carol["roles"], serde_json::json!({"red": "owner"}));
    // A link without a document, and a link with a document of its own.
    let tunnel =
        |node: &str, link: &str| document(&all, node, "link", link).expect("it")["tunnel"].clone();
    let (west, east) = (tunnel("n2", "b"), tunnel("n3", "b"));
    assert_eq!((&west["local"], &west["remote"]), (&east["remote"], &east["local"]));
    assert_eq!(west["remote"], "192.0.2.3");
    assert_eq!(
        (&west["send_key"], &west["receive_key"]),
        (&east["receive_key"], &east["send_key"])
    );
    assert_ne!(west["send_key"], west["receive_key"]);
    assert_eq!((&west["id"], &west["epoch"]), (&east["id"], &east["epoch"]));
    assert_ne!(west["id"], tunnel("n1", "a")["id"]);
    let delay = |node: &str| document(&all, node, "link", "a").expect("it")["delay"].clone();
    assert_eq!((delay("n1"), delay("n2")), ("1ms".into(), "5ms".into()));
    assert!(document(&all, "n1", "link", "c").is_none(), "both ends are there");
    // Addresses and next hops that follow from both ends.
    let r1 = document(&all, "n1", "router", "r1").expect("r1");
    let r2 = document(&all, "n2", "router", "r2").expect("r2");
    let address = |router: &Value, interface: &str| {
        let text = router["interfaces"][interface]["addresses"][0].as_str().expect("an address");
        text.to_owned()
    };
    let (left, right) = (address(&r1, "e"), address(&r2, "w"));
    assert!(left != right && left.ends_with("/31"), "{left} {right}");
    assert_eq!(r1["fast_path"]["routes"][0]["via"], right.trim_end_matches("/31"));
}

#[test]
fn a_change_concerns_its_nodes_only() {
    let first = planned(&State::default(), &lab());
    assert_eq!(first.parts.keys().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    let state = after(&State::default(), &first);
    let same = planned(&state, &lab());
    assert!(same.change.is_empty() && same.parts.is_empty(), "{:?}", same.change.keys());
    let other = lab()
        .replace("name: h1\nnode: n1", "name: h1\nnode: n1\nsysctls: {net.ipv4.ip_forward: 1}");
    let one = planned(&state, &other);
    assert_eq!(one.parts.keys().collect::<Vec<_>>(), ["n1"]);
    assert_eq!(one.change.len(), 1, "{:?}", one.change.keys());
}

#[test]
fn tunnels_stay_while_their_nodes_stay() {
    let first = planned(&State::default(), &lab());
    let state = after(&State::default(), &first);
    let moved = lab().replace("name: r2\nslice: red\nnode: n2", "name: r2\nslice: red\nnode: n3");
    let second = planned(&state, &moved);
    assert_eq!(second.parts.len(), 3);
    let (old, new) = (&first.after.tunnels["a"], &second.after.tunnels["a"]);
    assert_eq!((old.id, old.nodes.clone()), (new.id, ["n1".into(), "n2".into()]));
    assert!(new.epoch > old.epoch && new.keys != old.keys && new.nodes[1] == "n3");
    assert!(!second.after.tunnels.contains_key("b"), "both ends are on n3");
    let state = after(&state, &second);
    // The object moves back: an epoch is never used twice.
    let third = planned(&state, &lab());
    assert!(third.after.tunnels["a"].epoch > new.epoch);
    // h3 stays on its node, although its router moves.
    let key = Key::new("host", "h3");
    assert_eq!(third.after.places[&key].node, "n3");
}

#[test]
fn mistakes_have_remedies() {
    let with = |more: &str| NODES.to_owned() + "kind: slice\nname: red\n---\n" + more;
    for (text, wanted) in [
        (with(&router("r1", "n4", "e: {link: a}", "")), "there is no node \"n4\""),
        (
            with(&router("r1", "n1", "e: {link: a}", "").replace("node: n1\n", ""))
                .replace("192.0.2.1", "192.0.2.1\nrouters: 0")
                .replace("192.0.2.2", "192.0.2.2\nrouters: 0")
                .replace("192.0.2.3", "192.0.2.3\nrouters: 0"),
            "router red/r1 has no place",
        ),
        (NODES.replace("192.0.2.2", "\"2001:db8::2\""), "of both families"),
        (with("kind: port\nname: p\ndevice: eth1\n"), "port p is on no node"),
        (
            router("r1", "n1", "e: {link: a}", "") + "kind: slice\nname: red\n",
            "there is no node \"n1\"",
        ),
        (
            with("kind: port\nname: p\nnode: n2\ndevice: eth1\n---\n")
                + &router("r1", "n1", "e: {port: p}", ""),
            "router red/r1 is on node n1, its port p on n2",
        ),
        (
            NODES.to_owned() + "kind: node\nname: n9\naddress: 192.0.2.1\n",
            "two nodes have the address",
        ),
        (
            with(
                "kind: port\nname: p\nnode: n1\ndevice: eth1\n---\n\
                  kind: port\nname: q\nnode: n1\ndevice: eth1\n",
            ),
            "device \"eth1\" has two users",
        ),
    ] {
        let error = plan(&State::default(), &wish(&text)).expect_err(wanted);
        assert!(matches!(error, ClusterError::Mistakes(_)));
        let report = error.to_string();
        assert!(report.contains(wanted) && report.contains("lab.yaml:"), "{wanted}: {report}");
    }
    // The same device name on two machines.
    let text = with(
        "kind: port\nname: p\nnode: n1\ndevice: eth1\n---\nkind: port\nname: q\nnode: n2\ndevice: eth1\n",
    );
    planned(&State::default(), &text);
}
