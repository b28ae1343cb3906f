//! A containerlab topology with real FRR, imported and brought up.

use std::fs;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Two routers with OSPF and a PC behind each.
const LAB: &str = "name: pair\ntopology:\n  kinds:\n    frr:\n      image: quay.io/frrouting/frr:10.2.1\n\
    \x20     extras: {frr: {daemons: [ospfd]}}\n  nodes:\n\
    \x20   r1: {kind: frr, startup-config: __clabNodeName__.conf}\n\
    \x20   r2: {kind: frr, startup-config: __clabNodeName__.conf}\n\
    \x20   PC1: {kind: linux, exec: [ip addr add 10.1.1.2/24 dev eth1, ip route replace default via 10.1.1.1]}\n\
    \x20   PC2: {kind: linux, exec: [ip addr add 10.1.2.2/24 dev eth1, ip route replace default via 10.1.2.1]}\n\
    \x20 links:\n    - endpoints: [r1:eth1, r2:eth1]\n    - endpoints: [PC1:eth1, r1:eth2]\n\
    \x20   - endpoints: [PC2:eth1, r2:eth2]\n";

fn frr(number: u8) -> String {
    format!(
        "hostname r{number}\ninterface eth1\n ip address 10.1.0.{number}/30\n\
         \x20ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n\
         interface eth2\n ip address 10.1.{number}.1/24\n\
         router ospf\n ospf router-id 1.1.1.{number}\n network 0.0.0.0/0 area 0\n"
    )
}

#[test]
fn a_topology_with_frr_comes_up_and_forwards() {
    skip_without!("ping");
    if !std::path::Path::new("/usr/lib/frr/frrinit.sh").exists() {
        europa_tests::skipped("FRR is not installed");
        return;
    }
    let node = Node::new(None);
    let lab = node.file("lab.clab.yml", LAB);
    for number in [1, 2] {
        node.file(&format!("r{number}.conf"), &frr(number));
    }
    let output = node.attempt(&["import", "containerlab", &lab]);
    assert!(output.status.success(), "{}", output.stderr);
    assert!(output.stderr.contains("lab.clab.yml:10: node PC1 is called pc1"), "{}", output.stderr);
    let own = fs::read("/etc/frr/frr.conf").ok();
    node.up(&output.stdout);
    let limit = Instant::now() + Duration::from_secs(60);
    let mut received = 0;
    while received == 0 && Instant::now() < limit {
        received = node.host("pc1").ping("10.1.2.2", 2, &[]).expect("a ping").received;
    }
    let routes = node.host("pair.r1").ip(&["route"]).expect("routes").stdout;
    assert!(received > 0 && routes.contains("10.1.2.0/24 nhid"), "{routes}");
    assert!(routes.contains("proto ospf"), "{routes}");
    assert_eq!(fs::read("/etc/frr/frr.conf").ok(), own, "the machine's own files are as they were");
    // The route is in the fast path too, so a ping needs no Linux.
    let table = node.run(&["read", "pair/r1", "route.table", "10.1.2.0/24"]);
    assert!(table.contains("10.1.0.2"), "{table}");
    let line = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let daemon = |pid: &u32| line(pid).contains("/usr/lib/frr/ospfd");
    let daemons: Vec<u32> = node.processes().into_iter().filter(daemon).collect();
    assert!(!daemons.is_empty(), "OSPF runs");
    node.run(&["down"]);
    let left: Vec<u32> = daemons.into_iter().filter(daemon).collect();
    assert!(left.is_empty(), "{left:?} go on");
}
