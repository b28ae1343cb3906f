//! Tests the steps that follow from two sets of documents, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use europa_api::rest::{Action, Change};
use europa_api::{Bundle, Documents, Kept, Source};

use crate::{
    Actual, ActualPort, ActualRouter, Desired, Namespaces, Needs, PortFacts, RouterId, changes,
    diff, difference, list, slow_path_change::Tools,
};

const LAB: &str = "\
kind: port\nname: p\ndevice: d\n---\n\
kind: slice\nname: s\n---\n\
kind: host\nname: h\ninterfaces: {eth0: {link: a, addresses: [10.0.0.2/24]}}\n---\n\
kind: router\nname: r\nslice: s\n\
interfaces: {up: {port: p}, down: {link: a, addresses: [10.0.0.1/24]}, side: {link: b}}\n\
fast_path: {builtin: ipv4}\n---\n\
kind: router\nname: q\nslice: s\n\
interfaces: {side: {link: b}, up: {port: p, addresses: [10.2.0.1/24]}}\n\
fast_path: {builtin: ipv4}\n";

fn documents(text: &str) -> Documents {
    let mut documents = written(text);
    documents.complete();
    documents
}

fn namespaces() -> Namespaces {
    Namespaces { hosts: "europa.t".into(), slow_paths: "europa.t..slow".into() }
}

const FACTS: PortFacts = PortFacts { mac: [2, 0, 0, 0, 0, 1], mtu: 1500, vlan: Ok(()) };

fn desired(documents: &Documents, actual: &Actual) -> Desired {
    let desired = Desired::new(&namespaces(), &Arc::new(documents.clone()), actual, |_| Ok(FACTS));
    assert_eq!(desired.refusal(), None);
    desired
}

/// The actual state after all of `documents` has been carried out.
fn actual(documents: &Documents) -> Actual {
    let wanted = desired(documents, &Actual::default());
    let ports = wanted.ports.iter().map(|document| ActualPort {
        document: document.clone(),
        facts: FACTS,
        needs: wanted.needs(&document.name.value),
        stale: false,
    });
    let routers = wanted.routers.iter().flatten();
    let routers =
        routers.map(|plan| ActualRouter { plan: plan.clone(), astray: false, half: false });
    let slow = documents.routers.iter().filter(|router| router.slow_path.is_some());
    Actual {
        ports: ports.collect(),
        hosts: Arc::new(documents.hosts.clone()),
        slow_paths: slow.map(|router| (RouterId::of(router), router.clone())).collect(),
        relays: wanted.relays.clone(),
        routers: routers.collect(),
        filters: documents.filters.clone().into(),
        switch: true,
        tools: Tools { frr_reload: true, birdc: true },
        ..Actual::default()
    }
}

fn steps(from: &str, to: &str) -> Vec<String> {
    let there = actual(&documents(from));
    list(&diff(&desired(&documents(to), &there), &there), &there)
}

/// Each change of a document or of an object, with how it is carried out.
fn told(from: &str, to: &str) -> BTreeMap<String, Option<String>> {
    let (old, new) = (documents(from), documents(to));
    let kept = |documents: &Documents| -> Vec<Kept> {
        documents.iter().filter_map(|document| Kept::of(&document).ok()).collect()
    };
    // The store keeps the users' documents.
    let (old_kept, new_kept) = (kept(&written(from)), kept(&written(to)));
    let (mut all, _): (Vec<Change>, u64) = difference(&old_kept, &new_kept);
    let there = actual(&old);
    let wanted = desired(&new, &there);
    changes(&diff(&wanted, &there), &there, &mut all);
    all.into_iter()
        .filter(|change| change.action == Action::Change)
        .map(|change| (format!("{} {}", change.kind, change.name), change.how))
        .collect()
}

fn written(text: &str) -> Documents {
    let source = Source { path: "x.yaml".into(), text: text.to_owned() };
    let bundle = Bundle { sources: vec![source], ..Bundle::default() };
    bundle.documents().unwrap_or_else(|p| panic!("{}\n{text}", p.render(false)))
}

#[test]
fn what_is_there_needs_no_steps() {
    assert_eq!(steps(LAB, LAB), Vec::<String>::new());
}

#[test]
fn only_what_differs_is_touched() {
    for (from, to, wanted) in [
        ("device: d\n", "device: d\nrate: 1Mb/s\n", vec!["change port p in place"]),
        (
            "{builtin: ipv4}\n---",
            "{builtin: ipv4, routes: [{to: 10.1.0.0/16, via: 10.0.0.9}]}\n---",
            vec!["change router s/r in place"],
        ),
        (
            "side: {link: b}}\nfast_path: {builtin: ipv4}\n---",
            "side: {link: b}}\nrun: inline\nfast_path: {builtin: ipv4}\n---",
            vec!["end router s/r, to begin it anew: where it runs", "begin router s/r"],
        ),
        (
            "eth0: {link: a, addresses: [10.0.0.2/24]}",
            "eth0: {link: a, addresses: [10.0.0.3/24]}",
            vec!["end hosts and interfaces: what stands in them changes", "make hosts: h"],
        ),
        (
            "kind: slice\nname: s\n",
            "kind: slice\nname: s\n---\nkind: link\nname: a\nloss: 1%\n",
            vec!["change link a at h.eth0", "change router s/r in place"],
        ),
    ] {
        assert!(LAB.contains(from), "{from}");
        let mut found = steps(LAB, &LAB.replacen(from, to, 1));
        found.sort();
        let mut wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        wanted.sort();
        assert_eq!(found, wanted, "{from} becomes {to}");
    }
}

#[test]
fn a_configuration_is_swapped() {
    let lab = LAB.replacen("{link: b}", "{link: b, addresses: [10.5.0.1/24]}", 1);
    let lab = lab.replacen("{link: b}", "{link: b, addresses: [10.5.0.2/24]}", 1);
    let from = lab.replacen("{builtin: ipv4}", "{click: Idle}", 1);
    let to = lab.replacen("{builtin: ipv4}", "{click: \"Idle -> Discard\"}", 1);
    assert_eq!(steps(&from, &to), ["swap the configuration of router s/r"]);
}

/// A slice begins to give its links addresses. No router's document changes, but routers restart; a
/// dry run lists them.
#[test]
fn n01_a_dry_run_tells_of_objects_whose_documents_stay() {
    let to = LAB.replace("name: s\n---", "name: s\nlinks: {ipv4: 10.255.0.0/16}\n---");
    let told = told(LAB, &to);
    let restart = Some("restart".to_owned());
    assert_eq!(told.get("router s/r"), Some(&restart), "{told:?}");
    assert_eq!(told.get("router s/q"), Some(&restart), "{told:?}");
    assert_eq!(told.get("slice s"), Some(&Some("restart of its routers".to_owned())), "{told:?}");
    let steps = steps(LAB, &to);
    assert!(
        steps.contains(&"end router s/q, to begin it anew: addresses of side".to_owned()),
        "{steps:?}"
    );
}

/// The inverse of each step leads back, and the inverse of the inverse is the step.
#[test]
fn each_step_has_an_inverse() {
    let other = "kind: slice\nname: s\n---\nkind: host\nname: g\ninterfaces: {eth0: {port: x}}\n---\n\
         kind: router\nname: r\nslice: s\ninterfaces: {side: {port: x, addresses: [10.3.0.1/24]}}\n\
         fast_path: {builtin: ipv4, routes: kernel}\nslow_path: {}\n---\n\
         kind: filters\nname: f\nslice: s\nrules: [{priority: 1, action: drop}]\n";
    let there = actual(&documents(LAB));
    let forth = diff(&desired(&documents(other), &there), &there);
    assert!(forth.len() > 8, "{forth:#?}");
    for step in &forth {
        if let Some(back) = step.inverse() {
            assert_eq!(back.inverse().as_ref(), Some(step), "{back:?}");
        }
    }
    // The inverses undo a change, in reverse order.
    let after = actual(&documents(other));
    let back = diff(&desired(&documents(LAB), &after), &after);
    let mut inverses: Vec<_> = forth.iter().rev().filter_map(|step| step.inverse()).collect();
    let mut back: Vec<_> = back.into_iter().filter(|step| step.inverse().is_some()).collect();
    for all in [&mut inverses, &mut back] {
        all.sort_by_key(|step| format!("{step:?}").len());
        all.sort_by_key(|step| format!("{step:?}"));
    }
    let kinds = |all: &[crate::Step]| -> Vec<String> {
        all.iter()
            .map(|step| format!("{step:?}").split([' ', '(']).next().unwrap_or("").into())
            .collect()
    };
    assert_eq!(kinds(&back), kinds(&inverses));
}

/// Files and programs of a slow path change in place, and a dry run lists the actions on them.
#[test]
fn a_dry_run_tells_what_programs_do() {
    let lab = "kind: slice\nname: s\n---\nkind: router\nname: r\nslice: s\n\
         interfaces: {x: {link: x, addresses: [10.0.0.1/24]}}\nfast_path: {builtin: ipv4}\n\
         slow_path:\n  files:\n\
         \x20   - {path: /etc/frr/ospfd.conf, text: router ospf}\n\
         \x20   - {path: /run/web, text: hello}\n\
         \x20 run:\n\
         \x20   - {name: zebra, command: [/usr/lib/frr/zebra]}\n\
         \x20   - {name: ospfd, command: [/usr/lib/frr/ospfd]}\n\
         \x20   - {name: web, command: [httpd, /run/web], reload: HUP}\n";
    for (from, to, how, last) in [
        ("router ospf", "router ospf2", "in place: reloads ospfd", "reload ospfd of s/r"),
        (
            "[/usr/lib/frr/zebra]",
            "[/usr/lib/frr/zebra, -r]",
            "in place: restarts ospfd, zebra",
            "restart ospfd, zebra of s/r",
        ),
        ("hello", "bye", "in place: reloads web", "reload web of s/r"),
        ("HUP", "USR1", "in place", "follow link states of slow paths"),
        (
            "{builtin: ipv4}",
            "{builtin: ipv4, routes: [{to: 10.1.0.0/16, via: 10.0.0.9}]}",
            "in place",
            "follow link states of slow paths",
        ),
        ("link: x", "link: y", "restart", "start programs of slow paths"),
    ] {
        let to = lab.replacen(from, to, 1);
        assert_ne!(to, lab, "{from}");
        let steps = steps(lab, &to);
        assert_eq!(steps.last().map(String::as_str), Some(last), "{from}: {steps:?}");
        assert_eq!(told(lab, &to).get("router s/r"), Some(&Some(how.to_owned())), "{from}");
        let in_place = !steps.iter().any(|step| step.contains("router") && step.contains("end"));
        assert_eq!(in_place, how != "restart", "{from}: {steps:?}");
    }
}

/// A port that needs VLAN tags is prepared only once.
#[test]
fn needs_of_ports_are_met_once() {
    let from = "kind: port\nname: p\ndevice: d\n---\nkind: slice\nname: s\n---\n\
         kind: router\nname: r\nslice: s\ninterfaces: {a: {port: p, match: {vlan: 7}}}\n\
         fast_path: {click: Idle}\n";
    let documents = documents(from);
    let mut there = actual(&documents);
    assert!(diff(&desired(&documents, &there), &there).is_empty());
    there.ports[0].needs = Needs::default();
    let steps = list(&diff(&desired(&documents, &there), &there), &there);
    assert_eq!(steps, ["prepare the device of port p"]);
}

/// With a cubic algorithm, a plan would take minutes for this number of relays.
#[test]
fn n13_relays_of_many_hosts_are_planned_at_once() {
    const HOSTS: usize = 2000;
    let objects: String = (0..HOSTS)
        .map(|number| {
            format!(
                "---\nkind: host\nname: h{number}\ninterfaces: {{eth0: {{link: l{number}}}}}\n\
                 ---\nkind: link\nname: l{number}\ndelay: 1ms\n\
                 ---\nkind: router\nname: r{number}\nslice: s\nfast_path: {{builtin: ipv4}}\n\
                 interfaces: {{i: {{link: l{number}}}}}\n"
            )
        })
        .collect();
    let documents = documents(&format!("kind: slice\nname: s\n{objects}"));
    let begun = std::time::Instant::now();
    assert_eq!(crate::relays::relays(&documents).len(), HOSTS);
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}
