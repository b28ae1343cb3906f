//! Routers with standby ports: their places, and the documents of their node.

use std::collections::BTreeMap;

use europa_api::{Bundle, Key, Source};
use europa_cluster::{Cause, ClusterError, State, Whole, Wish, leaving, part, plan};
use serde_json::Value;

/// Three nodes, with ports of the first two on the same LAN; n3 has another port.
fn documents(router: &str) -> String {
    let mut text = "kind: slice\nname: s\n".to_owned();
    for node in 1..=3 {
        text += &format!("---\nkind: node\nname: n{node}\naddress: 192.0.2.{node}\n");
        text += &format!("---\nkind: port\nname: p{node}\nnode: n{node}\ndevice: eth1\n");
    }
    text + "---\nkind: router\nname: r\nslice: s\nfast_path: {click: Idle}\n" + router
}

fn planned(text: String, closed: &[&str]) -> Result<Whole, ClusterError> {
    let bundle = Bundle::of(vec![Source { path: "lab.yaml".into(), text }]);
    let closed = closed.iter().map(|node| (*node).to_owned()).collect();
    Ok(plan(&State::default(), &Wish { bundle, closed, ..Wish::default() })?.after)
}

/// The router's document on a node, if it is there.
fn on(whole: &Whole, node: &str) -> Option<Value> {
    let part = part(whole, node).unwrap_or_else(|error| panic!("{error}"));
    let documents: BTreeMap<String, String> = part.documents.into_iter().collect();
    Some(serde_json::from_str(documents.get("router.s.r/document")?).expect("JSON"))
}

#[test]
fn a_router_uses_the_ports_of_its_node() {
    let router = "interfaces: {a: {port: p1, standby: p2}}\n";
    for (closed, node, port) in
        [(&[][..], "n1", "p1"), (&["n1"], "n2", "p2"), (&["n1", "n2"], "n1", "p1")]
    {
        let whole = planned(documents(router), closed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(whole.places[&Key::new("router", "s/r")].node, node, "{closed:?}");
        let document = on(&whole, node).expect("it is there");
        assert_eq!(document["interfaces"]["a"]["port"], port);
        assert_eq!(document["interfaces"]["a"].get("standby"), None);
        assert_eq!(document["without_lease"], "stop");
        let others = ["n1", "n2", "n3"].into_iter().filter(|other| *other != node);
        assert!(others.into_iter().all(|other| on(&whole, other).is_none()));
    }
}

#[test]
fn routers_that_leave() {
    // The router, and why it stays in a drain and in a takeover; empty if it moves.
    for (router, drained, taken_over) in [
        ("interfaces: {a: {port: p1, standby: p2}}\n", "", ""),
        ("interfaces: {a: {port: p1}}\n", "port p1 is of its machine", "port p1 is of its machine"),
        (
            "without_lease: stop\ninterfaces: {a: {port: p1}}\n",
            "port p1 is of its machine",
            "port p1 is of its machine",
        ),
        (
            "without_lease: keep\ninterfaces: {a: {port: p1, standby: p2}}\n",
            "",
            "its document says `without_lease: keep`",
        ),
        (
            "interfaces: {a: {port: p1, standby: p1}}\n",
            "not all its ports have a standby on one other node",
            "not all its ports have a standby on one other node",
        ),
        (
            "takeover: false\ninterfaces: {a: {port: p1, standby: p2}}\n",
            "",
            "its document says `takeover: false`",
        ),
    ] {
        let whole = planned(documents(router), &[]).unwrap_or_else(|error| panic!("{error}"));
        for (cause, wanted) in [(Cause::Planned, drained), (Cause::Takeover, taken_over)] {
            let leaving = leaving(&whole, "n1", cause);
            let stays: Vec<&str> = leaving.stays.iter().map(|(_, why)| why.as_str()).collect();
            assert_eq!(leaving.moves.len(), usize::from(wanted.is_empty()), "{router}: {stays:?}");
            assert!(stays.iter().all(|why| why.contains(wanted)), "{router}: {stays:?}");
        }
    }
}

#[test]
fn mistakes() {
    for (router, wanted) in [
        ("takeover: true\ninterfaces: {a: {port: p1}}\n", "cannot be taken over"),
        ("interfaces: {a: {port: p1, standby: p9}}\n", "there is no port \"p9\""),
        ("interfaces: {a: {link: l, standby: p1}}\n", "a `standby` is for a `port`"),
        ("without_lease: wait\ninterfaces: {a: {port: p1}}\n", "what ports do without a lease"),
        (
            "without_lease: stop\nslow_path: {uplink: true}\ninterfaces: {a: {port: p1}}\n",
            "has an uplink and stops without a lease",
        ),
    ] {
        let error = planned(documents(router), &[]).expect_err("a mistake").to_string();
        assert!(error.contains(wanted), "{wanted} is not in\n{error}");
    }
}
