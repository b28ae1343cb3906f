//! Virtual private networks of FRR: an EVPN with VXLAN, and an L3VPN with VRFs and labels. Linux
//! treats their packets, and the fast path all others. Kernels without VRF, VXLAN or MPLS skip the
//! tests; `scripts/kernel linux-image-amd64 slow_vpn` runs them in Debian's.

mod slow;

use std::fmt::Write as _;
use std::time::Duration;

use europa_tests::{Namespace, Node, kernel_lacks, patience, skip_without, skipped};
use slow::{linux, reach, wait};

/// Longest time until FRR's daemons have exchanged their routes.
const CONVERGES: Duration = Duration::from_secs(60);
/// Room for labels in a router's table.
const LABELS: &str = "net.mpls.platform_labels";

/// A router with a slow path.
struct Router {
    name: &'static str,
    /// Lines of YAML: `name: {link: …}`.
    interfaces: Vec<String>,
    /// Daemons of FRR in the order of their start, with their configuration.
    daemons: Vec<(&'static str, String)>,
}

impl Router {
    /// Its document; the daemons run only if `runs`.
    fn document(&self, runs: bool) -> String {
        let mut text = format!(
            "---\nkind: router\nname: {}\nslice: s\nfast_path: {{builtin: ipv4, routes: kernel}}\n\
             interfaces:\n",
            self.name
        );
        for line in &self.interfaces {
            let _ = writeln!(text, "  {line}");
        }
        text += "slow_path:\n";
        if !runs {
            return text + "  run: []\n";
        }
        text +=
            "  files:\n    - {path: /run/frr/, owner: frr}\n    - {path: /etc/frr/vtysh.conf}\n";
        for (daemon, configuration) in &self.daemons {
            let _ = writeln!(text, "    - path: /etc/frr/{daemon}.conf\n      text: |");
            for line in configuration.lines() {
                let _ = writeln!(text, "        {line}");
            }
        }
        text += "  run:\n";
        for (daemon, _) in &self.daemons {
            let needs = if *daemon == "zebra" { "" } else { "zebra" };
            let _ = writeln!(
                text,
                "    - name: {daemon}\n      \
                 command: [/usr/lib/frr/{daemon}, --log, stdout, -f, /etc/frr/{daemon}.conf]\n      \
                 needs: [{needs}]\n      capabilities: [sys_admin]"
            );
        }
        text
    }
}

/// A host on a link of its name.
fn host(name: &str, addresses: &str, gateway: &str) -> String {
    format!(
        "---\nkind: host\nname: {name}\ninterfaces: {{eth0: {{link: {name}, addresses: [{addresses}]}}}}\n\
         gateway: [{gateway}]\n"
    )
}

/// Brings up routers and hosts, prepares each router's Linux, and then starts the daemons.
fn start(routers: &[Router], hosts: &str, prepare: impl Fn(&str, &Namespace)) -> Node {
    let node = Node::new(None);
    let all = |runs: bool| {
        let routers: String = routers.iter().map(|router| router.document(runs)).collect();
        format!("kind: slice\nname: s\n{hosts}{routers}")
    };
    node.up(&all(false));
    for router in routers {
        prepare(router.name, &linux(&node, &format!("s/{}", router.name)));
    }
    node.run(&["apply", &node.file("runs.yaml", &all(true))]);
    node
}

fn shell(inside: &Namespace, line: &str) -> String {
    inside.run(&["sh", "-e", "-c", line]).expect("a command").stdout
}

/// Waits until Linux prints a text for a command.
fn shows(inside: &Namespace, line: &str, wanted: &str) {
    wait(&format!("{wanted} in {line}"), CONVERGES * patience(), || {
        shell(inside, line).contains(wanted)
    });
}

/// Waits until a router's description has this reason.
fn is_told(node: &Node, router: &str, reason: &str) {
    wait(reason, Duration::from_secs(10) * patience(), || {
        node.run(&["describe", "router", router]).contains(reason)
    });
}

/// Packets that r1 has received by `side`, and those of them that Linux got.
fn from_side(node: &Node) -> [u64; 2] {
    let counters = node.counters();
    [counters["s/r1.side"].rx, counters["s/r1.side@host"].tx]
}

/// A router of the EVPN: its segment `lan` is joined with the one of the other router, and its
/// network `side` is routed.
fn vtep(n: u8) -> Router {
    let other = 3 - n;
    let bgp = format!(
        "hostname r{n}\nrouter bgp 65000\n bgp router-id 10.12.0.{n}\n no bgp default ipv4-unicast\n \
         neighbor 10.12.0.{other} remote-as 65000\n neighbor 10.12.0.{other} timers 1 30\n \
         neighbor 10.12.0.{other} timers connect 1\n address-family ipv4 unicast\n  \
         neighbor 10.12.0.{other} activate\n  network 10.{n}.0.0/24\n exit-address-family\n \
         address-family l2vpn evpn\n  neighbor 10.12.0.{other} activate\n  advertise-all-vni\n \
         exit-address-family\n"
    );
    Router {
        name: if n == 1 { "r1" } else { "r2" },
        interfaces: vec![
            format!("core: {{link: core, addresses: [10.12.0.{n}/24]}}"),
            format!("lan: {{link: h{n}}}"),
            format!("side: {{link: s{n}, addresses: [10.{n}.0.1/24]}}"),
        ],
        daemons: vec![("zebra", format!("hostname r{n}\n")), ("bgpd", bgp)],
    }
}

#[test]
fn an_evpn_joins_segments_and_the_fast_path_forwards_the_rest() {
    skip_without!("vtysh", "ping", "bridge");
    if let Some(why) = kernel_lacks(&["VXLAN"]) {
        return skipped(&why);
    }
    let mut hosts = String::new();
    for n in 1..=2 {
        hosts += &host(&format!("s{n}"), &format!("10.{n}.0.2/24"), &format!("10.{n}.0.1"));
        let _ = write!(
            hosts,
            "---\nkind: host\nname: h{n}\n\
             interfaces: {{eth0: {{link: h{n}, addresses: [10.10.0.{n}/24, \"fd10::{n}/64\"]}}}}\n"
        );
    }
    let node = start(&[vtep(1), vtep(2)], &hosts, |name, inside| {
        let n = &name[1..];
        let lines = format!(
            "ip link add br10 type bridge mcast_snooping 0\n\
             ip link add vx10 type vxlan id 10 local 10.12.0.{n} dstport 4789 nolearning\n\
             ip link set vx10 master br10\nip link set lan master br10\n\
             ip link set vx10 up\nip link set br10 up"
        );
        shell(inside, &lines);
    });
    let [h1, h2, s1] = ["h1", "h2", "s1"].map(|name| node.host(name));
    reach(&h1, "10.10.0.2", CONVERGES * patience());
    reach(&h1, "fd10::2", CONVERGES * patience());
    // zebra has installed the station behind the other router.
    let mac = shell(&h2, "cat /sys/class/net/eth0/address");
    let r1 = linux(&node, "s/r1");
    shows(&r1, "bridge fdb show dev vx10", &format!("{} dst 10.12.0.2", mac.trim()));
    for reason in ["from lan: a bridge has the interface", "to lan: a bridge has the interface"] {
        is_told(&node, "s/r1", reason);
    }
    // Packets between the other networks pass by the fast path.
    reach(&s1, "10.2.0.2", CONVERGES * patience());
    wait("a neighbour", Duration::from_secs(10) * patience(), || {
        let before = from_side(&node);
        s1.ping("10.2.0.2", 5, &["-i", "0.2"]).expect("a ping");
        let after = from_side(&node);
        // Linux may get an answer to its ARP query meanwhile.
        after[0] >= before[0] + 5 && after[1] <= before[1] + 1
    });
}

/// An edge router of the L3VPN, whose network `lan` belongs to VRF `red`.
fn edge(name: &'static str, n: u8, other: u8) -> Router {
    let core = 100 + if n == 1 { 1 } else { 2 };
    let bgp = format!(
        "hostname {name}\nrouter bgp 65000\n bgp router-id 10.255.0.{n}\n no bgp default ipv4-unicast\n \
         neighbor 10.255.0.{other} remote-as 65000\n \
         neighbor 10.255.0.{other} update-source 10.255.0.{n}\n \
         neighbor 10.255.0.{other} timers 1 30\n neighbor 10.255.0.{other} timers connect 1\n \
         address-family ipv4 vpn\n  neighbor 10.255.0.{other} activate\n exit-address-family\nexit\n\
         router bgp 65000 vrf red\n bgp router-id 10.255.0.{n}\n address-family ipv4 unicast\n  \
         redistribute connected\n  label vpn export auto\n  rd vpn export 65000:{n}\n  \
         rt vpn both 65000:1\n  export vpn\n  import vpn\n exit-address-family\nexit\n"
    );
    let zebra = format!("hostname {name}\ninterface lo\n ip address 10.255.0.{n}/32\nexit\n");
    Router {
        name,
        interfaces: vec![
            format!("core: {{link: c{n}, addresses: [10.{core}.0.{n}/24]}}"),
            format!("lan: {{link: h{n}, addresses: [10.{n}.0.1/24]}}"),
        ],
        daemons: vec![("zebra", zebra), ("bgpd", bgp)],
    }
}

/// The router between the two edges: it knows labels only.
fn middle() -> Router {
    Router {
        name: "p",
        interfaces: vec![
            "c1: {link: c1, addresses: [10.101.0.9/24]}".into(),
            "c3: {link: c3, addresses: [10.102.0.9/24]}".into(),
        ],
        daemons: vec![("zebra", "hostname p\n".into())],
    }
}

#[test]
fn an_l3vpn_joins_vrfs_over_labels() {
    skip_without!("vtysh", "ping", "sysctl");
    if let Some(why) = kernel_lacks(&["VRF", "MPLS"]) {
        return skipped(&why);
    }
    let routers = [edge("pe1", 1, 3), middle(), edge("pe3", 3, 1)];
    let hosts = host("h1", "10.1.0.2/24", "10.1.0.1") + &host("h3", "10.3.0.2/24", "10.3.0.1");
    let node = start(&routers, &hosts, |name, inside| {
        inside.sysctl(LABELS, "100000").expect("a table of labels");
        let cores = if name == "p" { &["c1", "c3"][..] } else { &["core"] };
        for core in cores {
            inside.sysctl(&format!("net.mpls.conf.{core}.input"), "1").expect("labels come in");
        }
        // Paths of labels between the edges. FRR's static ones are lost if it reads its files before
        // it knows interfaces and labels.
        let red =
            "ip link add red type vrf table 100; ip link set red up; ip link set lan master red";
        let (before, paths) = match name {
            "pe1" => (red, "ip route add 10.255.0.3/32 encap mpls 300 via 10.101.0.9"),
            "pe3" => (red, "ip route add 10.255.0.1/32 encap mpls 100 via 10.102.0.9"),
            _ => (
                "ip -M route add 300 via inet 10.102.0.3",
                "ip -M route add 100 via inet 10.101.0.1",
            ),
        };
        shell(inside, before);
        shell(inside, paths);
    });
    reach(&node.host("h1"), "10.3.0.2", CONVERGES * patience());
    let [pe1, p] = ["s/pe1", "s/p"].map(|router| linux(&node, router));
    shows(&pe1, "ip route show vrf red 10.3.0.0/24", "encap mpls");
    shows(&p, "ip -M route", "300 via inet 10.102.0.3");
    for (router, reason) in [
        ("s/pe1", "from lan: a VRF has the interface"),
        ("s/pe1", "MPLS: Linux has a label table"),
        ("s/pe1", "IPv4 to destinations of routes with an encap"),
        ("s/p", "MPLS: Linux has a label table"),
    ] {
        is_told(&node, router, reason);
    }
    let events = node.run(&["events"]);
    assert!(events.contains("by Linux: MPLS: Linux has a label table"), "{events}");
    wait("a count", Duration::from_secs(10) * patience(), || {
        node.run(&["stats"]).contains("by Linux because: Linux has a label table")
    });
    // A network that the VRF does not have stays apart: no route leads to the core.
    let lost = node.host("h1").ping("10.102.0.9", 2, &["-W", "0.5"]);
    assert!(lost.is_err() || lost.is_ok_and(|ping| ping.received == 0), "the VRF leaks");
}
