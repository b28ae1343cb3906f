//! Typical topologies become configurations that Europa accepts. A note names each omitted part
//! with its line.

use std::path::Path;

use europa_api::{Documents, Router, Source, parse};
use europa_import::{Images, Imported, containerlab};

/// Imports a topology of `tests/labs`, and parses the result.
fn import(name: &str) -> (Imported, Documents) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/labs");
    let text = std::fs::read_to_string(folder.join(name)).expect("a topology");
    let imported = containerlab(&text, Path::new("/lab"), |_| None, |_| None)
        .unwrap_or_else(|error| panic!("{name}:{error}"));
    let source = Source { path: name.into(), text: imported.yaml.clone() };
    let documents = parse(&[source])
        .unwrap_or_else(|problems| panic!("{}\n{}", imported.yaml, problems.render(false)));
    (imported, documents)
}

fn router<'a>(name: &str, documents: &'a Documents) -> &'a Router {
    documents.routers.iter().find(|r| &**r.name == name).unwrap_or_else(|| panic!("{name}"))
}

/// The source of a file of a router's slow path, or its text.
fn file<'a>(router: &'a Router, path: &str) -> &'a str {
    let files = router.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.files);
    let file = files.iter().find(|file| *file.path.value == *path);
    let file = file.unwrap_or_else(|| panic!("no {path} in {files:?}"));
    let text = file.from.as_ref().or(file.text.as_ref());
    text.map_or("", |text| text.as_str())
}

/// Checks that each expected note exists: the text of its line, and words of its message.
fn notes(name: &str, imported: &Imported, wanted: &[(&str, &str)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/labs");
    let text = std::fs::read_to_string(folder.join(name)).expect("a topology");
    let lines: Vec<&str> = text.lines().collect();
    let mut left = imported.notes.clone();
    for (line, words) in wanted {
        let found = left.iter().position(|note| {
            let at = lines.get(note.line as usize - 1).copied().unwrap_or_default();
            at.contains(line) && note.message.contains(words)
        });
        let found = found.unwrap_or_else(|| panic!("{line:?}, {words:?}: {:#?}", imported.notes));
        left.remove(found);
    }
    assert!(left.is_empty(), "nobody wanted {left:#?}");
}

#[test]
fn groups_of_routers_and_pcs() {
    let name = "ospf-triangle.clab.yml";
    let (imported, documents) = import(name);
    assert_eq!(documents.hosts.len(), 3);
    assert_eq!((documents.routers.len(), documents.links.len()), (3, 6));
    let host = |name: &str| {
        documents.hosts.iter().find(|host| &**host.name == name).unwrap_or_else(|| panic!("{name}"))
    };
    let (router, pc) = (router("r3", &documents), host("pc2"));
    assert_eq!(file(router, "/etc/frr/frr.conf"), "/lab/R3/frr.conf");
    assert_eq!(file(router, "/etc/frr/daemons"), "ospfd=yes\n");
    assert_eq!(router.slow_path.as_ref().map(|slow| slow.run.len()), Some(1));
    let (_, eth2) = &router.interfaces.0[1];
    assert_eq!(
        (eth2.link.as_ref().map(|l| l.to_string()), eth2.mtu.map(|mtu| mtu.value)),
        (Some("r2-r3".into()), Some(1400))
    );
    let (_, eth1) = &pc.interfaces.0[0];
    let addresses: Vec<String> = eth1.addresses.iter().map(|a| a.to_string()).collect();
    assert_eq!(addresses, ["192.168.12.2/24", "fd00:12::2/64"]);
    assert_eq!(pc.routes[0].to.to_string(), "192.168.0.0/16");
    assert_eq!(host("pc1").gateway[0].to_string(), "192.168.11.1");
    assert!(pc.run.is_empty() && host("pc1").run.is_empty());
    notes(
        name,
        &imported,
        &[
            ("R1:", "no file is given for images"),
            ("R1:", "node R1 is called r1"),
            ("R2:", "node R2 is called r2"),
            ("R3:", "node R3 is called r3"),
            ("PC1:", "node PC1 is called pc1"),
            ("PC2:", "node PC2 is called pc2"),
            ("PC3:", "node PC3 is called pc3"),
            ("ip route del default", "not needed"),
        ],
    );
}

#[test]
fn a_bridge_and_what_goes_with_containers() {
    let name = "bridged-lan.clab.yml";
    let (imported, documents) = import(name);
    let [bridge] = documents.routers.as_slice() else { panic!("one router") };
    assert_eq!((bridge.full_name().as_str(), bridge.interfaces.0.len()), ("bridged-lan/sw0", 3));
    let server = documents.hosts.iter().find(|host| &**host.name == "web-server").expect("it");
    let env: Vec<String> = server.env.0.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(env, ["PORT=8080", "SITE=lab-7", "TZ=UTC"], "defaults, kind and node");
    let run: Vec<&str> = server.run.iter().map(|line| line.as_str()).collect();
    assert_eq!(run, ["sh -c 'cd /tmp && python3 -m http.server $PORT &'"]);
    let binds: Vec<&str> = server.binds.iter().map(|bind| bind.as_str()).collect();
    assert_eq!(binds, ["/lab/web/index.html:/usr/share/nginx/html/index.html:ro"]);
    let client = documents.hosts.iter().find(|host| &**host.name == "client1").expect("it");
    let sysctls: Vec<&str> = client.sysctls.0.iter().map(|(name, _)| &*name.value).collect();
    assert!(sysctls.len() == 2 && sysctls.contains(&"net.ipv4.ip_forward"), "{sysctls:?}");
    assert_eq!(client.run.len(), 1, "ethtool is run");
    let command: Vec<&str> = server.command.iter().map(|word| word.as_str()).collect();
    assert_eq!(command, ["sleep", "infinity"]);
    notes(
        name,
        &imported,
        &[
            ("web_server:", "no file is given for images"),
            ("web_server:", "is called web-server"),
            ("ports:", "no published ports"),
            ("kernel.msgmax", "belongs to the whole machine"),
        ],
    );
}

#[test]
fn long_links_foreign_kinds_and_the_world_outside() {
    let name = "long-form.clab.yml";
    let (imported, documents) = import(name);
    let names: Vec<String> = documents.hosts.iter().map(|host| host.name.to_string()).collect();
    assert_eq!(names, ["db", "tester", "machine"]);
    let edge = router("edge", &documents);
    assert_eq!(edge.interfaces.0.len(), 3, "the link to the foreign kind is left out");
    let (_, eth1) = &edge.interfaces.0[0];
    assert_eq!(eth1.mac.map(|mac| mac.to_string()).as_deref(), Some("02:00:00:aa:00:01"));
    assert_eq!((eth1.addresses.len(), eth1.mtu.map(|mtu| mtu.value)), (2, Some(9216)));
    assert_eq!(file(edge, "/etc/frr/frr.conf"), "/lab/edge/frr.conf");
    assert_eq!(documents.hosts[0].container.as_ref().map(|c| c.as_str()), Some("db"));
    let machine = &documents.hosts[2];
    assert_eq!(machine.interfaces.0[0].0.to_string(), "edge-eth4");
    notes(
        name,
        &imported,
        &[
            ("edge:", "no file is given for images"),
            ("spine:", "the kind nokia_srlinux has no counterpart"),
            ("memory:", "memory is not limited"),
            ("wait-for:", "made in one step"),
            ("type: veth", "a link to spine is left out"),
            ("type: veth", "an MTU is at most 9216"),
            ("type: veth", "interface Ethernet1/1 of tester is called Ethernet1-1"),
            ("mgmt-net", "a link to mgmt-net has no counterpart"),
            ("type: macvlan", "a link of type macvlan has no counterpart"),
        ],
    );
}

#[test]
fn two_tiers_of_frr() {
    let name = "leaf-spine.clab.yml";
    let (imported, documents) = import(name);
    assert_eq!((documents.hosts.len(), documents.routers.len()), (2, 4));
    let leaf = router("leaf1", &documents);
    assert_eq!(file(leaf, "/etc/frr/daemons"), "/lab/common/daemons");
    assert_eq!(file(leaf, "/etc/frr/frr.conf"), "/lab/leaf1/frr.conf");
    let run = leaf.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.run);
    let [frr, exec] = run else { panic!("two programs: {run:?}") };
    assert!(frr.command[2].contains("frrinit.sh start"), "{frr:?}");
    assert!(frr.command[2].contains("--log file:/run/frr/log"), "{frr:?}");
    assert!(frr.reload.is_some(), "{frr:?}");
    assert_eq!(exec.needs.as_ref().map(|needs| needs[0].to_string()).as_deref(), Some("frr"));
    let script = exec.command[2].as_str();
    assert!(script.contains("until [ -e /run/frr/started ]"), "{script}");
    assert!(
        script.contains("eval 'sysctl -w '\\''net.ipv4.fib_multipath_hash_policy=1'\\'''"),
        "{script}"
    );
    notes(name, &imported, &[("spine1:", "no file is given for images")]);
}

#[test]
fn what_is_no_topology_is_told() {
    for (text, line, wanted) in [
        ("name: x\n", 1, "it has no `topology`"),
        ("name: x\ntopology:\n  links: []\n", 2, "has no `nodes`"),
        (
            "topology:\n  nodes: {a: {kind: linux}}\n  links:\n    - endpoints: [\"a\", \"b:e\"]\n",
            4,
            "an endpoint is a text like node:eth1",
        ),
        (
            "topology:\n  nodes: {a: {kind: linux}}\n  links:\n    - endpoints: [\"a:e\"]\n",
            4,
            "a link has two endpoints",
        ),
        ("topology:\n  nodes: [a, b]\n", 2, "`nodes` is a mapping"),
        (
            "topology:\n  nodes: {a: {kind: linux}, b: {kind: linux}}\n  links:\n    - endpoints: [\"a:e\", \"b:e\"]\n    - endpoints: [\"a:f\", \"b:e\"]\n",
            5,
            "interface e of b is at the end of two links",
        ),
        ("topology: [\n", 2, ""),
    ] {
        let error = containerlab(text, Path::new("/"), |_| None, |_| None).expect_err(wanted);
        assert!(error.message.contains(wanted), "{text:?}: {error}");
        assert!(error.line <= line && error.line > 0, "{text:?}: {error}");
    }
}

/// The YAML of a lab with two Linux nodes: the `exec` of one has these lines, and the other has
/// FRR's files.
fn lab(exec: &[&str]) -> String {
    let lines: String = exec.iter().map(|line| format!("        - {line}\n")).collect();
    let text = format!(
        "name: lab\ntopology:\n  nodes:\n    a:\n      kind: linux\n      exec:\n{lines}\
         \x20   b:\n      kind: linux\n      image: mine:1\n      binds: [\"__clabNodeDir__/frr.conf:/etc/frr/frr.conf\"]\n\
         \x20 links:\n    - endpoints: [\"a:eth1\", \"b:eth1\"]\n"
    );
    let imported = containerlab(&text, Path::new("/labs"), |_| None, |_| None).expect("a topology");
    let source = Source { path: "lab.yaml".into(), text: imported.yaml.clone() };
    parse(&[source]).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    imported.yaml
}

#[test]
fn lines_that_depend_on_others_keep_their_order() {
    for (exec, fields, run) in [
        (
            &[
                "ip addr add 10.0.0.1/24 dev eth1",
                "ip link set eth1 up",
                "ip route add default via 10.0.0.2 dev eth1",
            ][..],
            &["addresses: [\"10.0.0.1/24\"]", "gateway: [\"10.0.0.2\"]"][..],
            &[][..],
        ),
        (
            &["ip addr flush dev eth1", "ip addr add 10.0.0.1/24 dev eth1"],
            &[],
            &["ip addr flush dev eth1", "ip addr add 10.0.0.1/24 dev eth1"],
        ),
        (
            &[
                "ip link add br0 type bridge",
                "ip link set br0 up",
                "ip addr add 10.0.0.1/24 dev br0",
                "ip route add default via 10.0.0.2 dev br0",
            ],
            &[],
            &[
                "ip link add br0 type bridge",
                "ip link set br0 up",
                "ip addr add 10.0.0.1/24 dev br0",
                "ip route add default via 10.0.0.2 dev br0",
            ],
        ),
        // The next hop needs an address that is added later.
        (&["ip route add default via 10.9.0.2"], &[], &["ip route add default via 10.9.0.2"]),
        (
            &["sysctl -w net.ipv4.tcp_ecn=1", "ip addr add 10.0.0.1/24 dev eth1"],
            &["addresses: [\"10.0.0.1/24\"]"],
            &["sysctl -w net.ipv4.tcp_ecn=1"],
        ),
    ] {
        let yaml = lab(exec);
        for field in fields {
            assert!(yaml.contains(field), "{exec:?}: no {field} in {yaml}");
        }
        let lines: String = run.iter().map(|line| format!("  - \"{line}\"\n")).collect();
        let wanted = if run.is_empty() { String::new() } else { format!("run:\n{lines}") };
        let found = yaml.split("name: a\n").nth(1).and_then(|rest| rest.split("---").next());
        let found = found.and_then(|host| host.split_once("run:\n")).map(|(_, run)| run);
        assert_eq!(found.map(|run| format!("run:\n{run}")).unwrap_or_default(), wanted, "{exec:?}");
    }
}

#[test]
fn nodes_are_what_containers_would_be() {
    let yaml = lab(&["ip link set eth1 up"]);
    assert!(yaml.contains("net.ipv4.ip_forward: \"1\""), "a Linux node forwards: {yaml}");
    assert!(
        yaml.contains("from: \"/labs/clab-lab/b/frr.conf\""),
        "FRR's files say what it is: {yaml}"
    );
}

/// The import of a topology in `/labs`; Europa can read its YAML.
fn imported(text: &str) -> Imported {
    let imported = containerlab(text, Path::new("/labs"), |_| None, |_| None).expect("a topology");
    let source = Source { path: "lab.yaml".into(), text: imported.yaml.clone() };
    parse(&[source])
        .unwrap_or_else(|problems| panic!("{}\n{}", imported.yaml, problems.render(false)));
    imported
}

#[test]
fn scalars_keep_their_characters() {
    let imported = imported(
        "name: 01\ntopology:\n  nodes:\n    007:\n      kind: linux\n\
         \x20     env: {A: 1.10, B: NO, C: 1e3}\n      sysctls: {net.ipv4.tcp_ecn: 01}\n\
         \x20   NO: {kind: linux}\n  links:\n    - endpoints: [\"007:eth1\", \"NO:eth1\"]\n",
    );
    let names: Vec<&str> = imported.lab.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((imported.lab.name.as_str(), names), ("01", vec!["007", "NO"]));
    for wanted in ["\"A\": \"1.10\"", "\"B\": \"NO\"", "\"C\": \"1e3\"", "tcp_ecn: \"01\""] {
        assert!(imported.yaml.contains(wanted), "no {wanted} in {}", imported.yaml);
    }
}

#[test]
fn nodes_without_a_link_to_another_are_there() {
    let imported = imported(
        "name: l\ntopology:\n  nodes:\n    a: {kind: linux, exec: [ip addr add 10.0.0.1/24 dev eth1]}\n\
         \x20   b: {kind: frr}\n    alone: {kind: linux}\n  links:\n\
         \x20   - {type: dummy, endpoint: {node: a, interface: eth1}, mtu: 1400}\n\
         \x20   - {type: dummy, endpoint: {node: b, interface: eth2}}\n\
         \x20   - {type: dummy, endpoint: {node: b, interface: eth3}}\n",
    );
    let names: Vec<&str> = imported.lab.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "alone"]);
    let yaml = &imported.yaml;
    let device = yaml.find("ip link add eth1 type dummy").expect("a device");
    let address = yaml.find("ip addr add 10.0.0.1/24 dev eth1").expect("an address");
    assert!(device < address && yaml.contains("ip link set eth1 mtu 1400 up"), "{yaml}");
    let device = yaml.find("ip link add eth3 type dummy").expect("a device");
    assert!(device < yaml.find("frrinit.sh start").expect("FRR"), "{yaml}");
    assert!(yaml.contains("  eth2: {link: b-unused}\n"), "a router has an interface: {yaml}");
}

#[test]
fn a_node_may_share_the_network_of_another() {
    let imported = imported(
        "name: l\ntopology:\n  nodes:\n    side: {kind: linux, network-mode: \"container:a\", exec: [echo side]}\n\
         \x20   a: {kind: linux, exec: [echo main]}\n    b: {kind: linux}\n  links:\n\
         \x20   - endpoints: [\"a:eth1\", \"b:eth1\"]\n",
    );
    let object = |name: &str| {
        let mut nodes = imported.lab.nodes.iter();
        nodes.find(|node| node.name == name).map(|node| node.object.clone())
    };
    assert_eq!(object("side"), object("a"));
    let (main, side) = (imported.yaml.find("echo main"), imported.yaml.find("echo side"));
    assert!(main.is_some() && main < side, "{}", imported.yaml);
}

#[test]
fn nodes_run_the_files_of_images_that_are_given() {
    let text = "name: t\ntopology:\n  nodes:\n\
                \x20   a: {kind: linux, image: \"alpine:3\"}\n\
                \x20   b: {kind: linux, image: \"registry:5000/frrouting/frr:10.4\", startup-config: b.conf}\n\
                \x20   c: {kind: linux, image: \"debian:13\"}\n\
                \x20 links:\n    - endpoints: [\"a:eth1\", \"b:eth1\"]\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("image.tar");
    std::fs::write(&file, "").expect("a file");
    let mut images = Images::default();
    for name in ["alpine", "registry:5000/frrouting/frr:10.4"] {
        images.add(&format!("{name}={}", file.display())).expect("an image");
    }
    for wrong in ["alpine", "=x", "alpine=", "alpine=/nonexistent"] {
        assert!(Images::default().add(wrong).is_err(), "{wrong}");
    }
    let imported = containerlab(
        text,
        Path::new("/labs"),
        |_| None,
        |name| images.of(name).map(Path::to_owned),
    )
    .expect("a topology");
    let root = format!("root: {}", file.canonicalize().expect("a path").display());
    let quoted = format!("root: \"{}\"", file.canonicalize().expect("a path").display());
    let found =
        imported.yaml.lines().map(str::trim).filter(|line| [&*root, &*quoted].contains(line));
    assert_eq!(found.count(), 2, "{}", imported.yaml);
    let told: Vec<&str> = imported.notes.iter().map(|note| &*note.message).collect();
    assert!(told.iter().any(|note| note.contains("images (debian:13)")), "{told:?}");
}

#[test]
fn commands_of_stages_come_before_exec() {
    let text = "name: t\ntopology:\n  nodes:\n\
                \x20   a:\n      kind: linux\n      exec: [echo last]\n      stages:\n\
                \x20       configure:\n          wait-for: [{node: b, stage: healthy}]\n\
                \x20         exec:\n            - {command: echo third, phase: on-exit}\n\
                \x20           - command: echo second\n            - {command: reboot, target: host}\n\
                \x20       create:\n          exec: {on-enter: [echo first]}\n\
                \x20       other: {}\n\
                \x20   b: {kind: linux}\n\
                \x20 links:\n    - endpoints: [\"a:eth1\", \"b:eth1\"]\n";
    let imported = imported(text);
    let run: Vec<&str> =
        imported.yaml.lines().filter_map(|line| line.trim().strip_prefix("- \"echo ")).collect();
    let run: Vec<&str> = run.iter().map(|line| line.trim_end_matches('"')).collect();
    assert_eq!(run, ["first", "second", "third", "last"], "{}", imported.yaml);
    let told: Vec<&str> = imported.notes.iter().map(|note| &*note.message).collect();
    for wanted in
        ["`wait-for`: all nodes", "\"reboot\": a command for the machine", "no stage \"other\""]
    {
        assert!(told.iter().any(|note| note.contains(wanted)), "{wanted}: {told:?}");
    }
}

#[test]
fn commands_users_and_names_of_containers() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.env"), "# own\nA=1\nexport B=\"two words\"\nC=3\n")
        .expect("a file");
    let text = r#"
name: it
topology:
  nodes:
    a:
      kind: linux
      image: one
      entrypoint: /bin/sh -c
      cmd: "echo 'a b' $$HOME"
      user: web:www
      env: {C: own}
      env-files: [a.env, none.env]
      extra-hosts: ["db:10.0.0.2", "six:2001:db8::6", "wrong"]
      dns: {servers: [10.0.0.53], search: [lab.example]}
    b: {kind: linux, image: two, cmd: "--flag 'x", user: web}
    c: {kind: linux, image: two, cmd: --flag}
  links:
    - endpoints: ["a:eth1", "b:eth1"]
    - endpoints: ["c:eth1", "b:eth2"]
"#;
    let images = |name: &str| (name == "one").then(|| folder.path().join("one.tar"));
    let imported = containerlab(text, folder.path(), |_| None, images).expect("a lab");
    let source = Source { path: "it".into(), text: imported.yaml.clone() };
    let documents = parse(&[source]).unwrap_or_else(|all| panic!("{}", all.render(false)));
    let [a, b, c] = documents.hosts.as_slice() else { panic!("three hosts") };
    let words = |words: &[europa_api::At<String>]| -> Vec<String> {
        words.iter().map(|word| word.value.clone()).collect()
    };
    assert_eq!(words(&a.entrypoint), ["/bin/sh", "-c"]);
    assert_eq!(words(&a.command), ["echo", "a b", "$HOME"]);
    assert_eq!(a.user.as_ref().map(|user| user.as_str()), Some("web:www"));
    let env: Vec<String> = a.env.0.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(env, ["A=1", "B=two words", "C=own"]);
    assert_eq!(
        words(&a.run),
        [
            "echo '10.0.0.2 db' >> /etc/hosts",
            "echo '2001:db8::6 six' >> /etc/hosts",
            "printf '%s\\n' 'nameserver 10.0.0.53' 'search lab.example' > /etc/resolv.conf",
        ]
    );
    assert!(b.command.is_empty() && b.user.is_none(), "{b:?}");
    assert!(c.command.is_empty(), "{c:?}");
    let said: Vec<&str> = imported.notes.iter().map(|note| note.message.as_str()).collect();
    for words in [
        "none.env",
        "\"wrong\" is no NAME:ADDRESS",
        "node b: `cmd` has a quote that does not end",
        "node c: `cmd` has options for the program of an image",
    ] {
        assert!(said.iter().any(|message| message.contains(words)), "{words}: {said:#?}");
    }
}
