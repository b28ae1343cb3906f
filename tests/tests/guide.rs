//! The user guide matches the program: findings of `doctor`, packages of the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use europa_tests::{Node, skip_without};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts between `before` and the next quote.
fn quoted<'a>(source: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    source.split(before).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Entries of the page about findings, each with its text.
fn entries(page: &str) -> Vec<(&str, &str)> {
    let (_, findings) = page.split_once("\n## Findings of `doctor`\n").expect("findings");
    let findings = findings.split("\n## ").next().unwrap_or(findings);
    findings.split("\n### ").skip(1).filter_map(|entry| entry.split_once('\n')).collect()
}

#[test]
fn every_finding_of_doctor_is_explained() {
    let page = read("docs/troubleshooting.md");
    let entries = entries(&page);
    for (name, text) in &entries {
        assert!(text.contains("What follows: "), "{name}");
        assert!(text.contains("Remedy: "), "{name}");
    }
    let explained: BTreeSet<&str> = entries.iter().map(|(name, _)| *name).collect();
    let doctor = read("crates/node/src/doctor.rs");
    let uplinks = read("crates/node/src/uplinks/forward.rs");
    let ports = read("crates/node/src/machine_ports.rs");
    let report = read("crates/sandbox/src/report.rs");
    let found: BTreeSet<&str> = quoted(&doctor, "note(\"")
        .chain(quoted(&doctor, "what: \""))
        .chain(quoted(&ports, "what: \""))
        .chain(quoted(&uplinks, "finding(\""))
        .chain(quoted(&report, "measure: \""))
        .chain(quoted(&report, "=> \"cgroup").map(|name| {
            let at = report.find(&format!("\"cgroup{name}\"")).expect("it");
            &report[at + 1..at + 7 + name.len()]
        }))
        .collect();
    assert!(found.len() > 12, "only {found:?}");
    assert_eq!(found, explained);
}

#[test]
fn what_doctor_says_here_is_explained() {
    skip_without!();
    let page = read("docs/troubleshooting.md");
    let explained: BTreeSet<&str> = entries(&page).iter().map(|(name, _)| *name).collect();
    let output = Node::new(None).attempt(&["doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    let findings = findings.as_array().expect("findings");
    assert!(findings.len() > 5, "{findings:?}");
    for finding in findings {
        let what = finding["what"].as_str().expect("what was tried");
        assert!(explained.contains(what), "{what} is not in docs/troubleshooting.md");
    }
}

/// Programs that tests call, and the Debian packages they are in.
const PACKAGES: [(&str, &str); 41] = [
    ("/usr/lib/frr/bfdd", "frr"),
    ("/usr/lib/frr/frr-reload.py", "frr-pythontools"),
    ("/usr/lib/frr/ospfd", "frr"),
    ("bgpd", "frr"),
    ("bird", "bird2"),
    ("birdc", "bird2"),
    ("bpftool", "bpftool"),
    ("bridge", "iproute2"),
    ("cc", "build-essential"),
    ("clang", "clang"),
    ("cmake", "cmake"),
    ("curl", "curl"),
    ("dpdk-testpmd", "dpdk-dev"),
    ("ethtool", "ethtool"),
    ("etcd", "etcd-server"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("nstat", "iproute2"),
    ("ospfd", "frr"),
    ("ping", "iputils-ping"),
    ("pip3", "python3-pip"),
    ("pkg-config", "pkg-config"),
    ("prlimit", "util-linux"),
    ("ps", "procps"),
    ("python3", "python3-scapy"),
    ("scapy", "python3-scapy"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("setpriv", "util-linux"),
    ("sshd", "openssh-server"),
    ("sysctl", "procps"),
    ("tc", "iproute2"),
    ("tcpdump", "tcpdump"),
    ("traceroute", "traceroute"),
    ("tshark", "tshark"),
    ("unshare", "util-linux"),
    ("vtysh", "frr"),
    ("watchfrr", "frr"),
    ("zebra", "frr"),
];
/// Tests use these programs only for parts, and print the parts that they omit without them.
const OPTIONAL: [&str; 2] = ["docker", "containerlab"];

/// Every program without which a test is skipped is in a package that `make test` installs.
#[test]
fn tests_get_the_programs_they_need() {
    let script = read("scripts/install-deps");
    let listed: BTreeSet<&str> = script
        .lines()
        .filter_map(|line| line.split_once("=(").or_else(|| line.split_once("+=(")))
        .filter_map(|(_, list)| list.split(')').next())
        .flat_map(str::split_whitespace)
        .collect();
    let mut wanted = BTreeSet::new();
    for entry in fs::read_dir(root().join("tests/tests")).expect("tests").flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        for list in text.split("skip_without!(").skip(1).filter_map(|rest| rest.split(')').next()) {
            let names = list.split('"').skip(1).step_by(2);
            // This file also contains the macro's name.
            wanted.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    assert!(wanted.len() > 8, "only {wanted:?}");
    let missing: Vec<&String> = wanted
        .iter()
        .filter(|program| !OPTIONAL.contains(&program.as_str()))
        .filter(|program| {
            let package = PACKAGES.iter().find(|(name, _)| name == program);
            !package.is_some_and(|(_, package)| listed.contains(package))
        })
        .collect();
    assert!(missing.is_empty(), "scripts/install-deps brings none of {missing:?}");
}
