//! Kernel routers from sources in C: what mistakes are told.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Passes frames on between its first two devices, but for those to a closed UDP port.
const FORWARD: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "closed.h"

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP) &&
	    ip->protocol == IPPROTO_UDP && udp->dest == bpf_htons(closed_port))
		return XDP_DROP;
	return bpf_redirect(3 - ctx->ingress_ifindex, 0);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// A folder with the source of [`FORWARD`], and the path of that.
fn sources() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("forward.c"), FORWARD).expect("a source");
    let header = "const volatile __u16 closed_port = 5999;\n";
    fs::write(folder.path().join("closed.h"), header).expect("a header");
    let source = folder.path().join("forward.c").display().to_string();
    (folder, source)
}

/// A slice whose programs run in the kernel, and hosts `a` and `b`, each at a link of its name.
fn hosts() -> String {
    let mut text = "kind: slice\nname: red\nprograms: operator\n".to_owned();
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

/// A kernel router of two interfaces.
fn router(name: &str, source: &str, interfaces: &str) -> String {
    format!(
        "---\nkind: router\nname: {name}\nslice: red\nrun: kernel\n\
         interfaces: {{{interfaces}}}\nfast_path: {{xdp: {{source: {source}}}}}\n"
    )
}

fn pings(node: &Node) {
    let begun = Instant::now();
    while !node.host("a").ping("10.0.0.2", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{}\n{}",
            node.run(&["stats"]),
            node.run(&["events"])
        );
    }
}

#[test]
fn a_source_in_c_becomes_a_router() {
    skip_without!("ping", "nsenter", "clang", "curl");
    let (folder, source) = sources();
    let node = Node::new(None);
    let text = hosts() + &router("r", &source, "a: {link: a}, b: {link: b}");
    node.up(&text);
    pings(&node);
    let value = |name: &str| node.run(&["read", "red/r", name]).trim().to_owned();
    assert_eq!(value("closed_port"), "5999");

    // The same source gives the same object, wherever it is compiled.
    let file = node.file("same.yaml", &text);
    let same = node.attempt(&["diff", "--exit-code", &file]);
    assert!(same.status.success(), "{}{}", same.stdout, same.stderr);
    // Another one takes its place.
    fs::write(folder.path().join("closed.h"), "const volatile __u16 closed_port = 5001;\n")
        .expect("a header");
    let said = node.run(&["apply", &file]);
    assert!(said.contains("fast_path.xdp"), "{said}");
    let begun = Instant::now();
    while value("closed_port") != "5001" {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", node.run(&["events"]));
    }
    pings(&node);

    // Mistakes are told in clang's words and in the verifier's, and nothing changes.
    let wrong = |old: &str, new: &str| {
        fs::write(&source, FORWARD.replace(old, new)).expect("a source");
        node.attempt(&["apply", &file])
    };
    let output = wrong("XDP_DROP", "XDP_DRIP");
    assert_eq!(output.status.code(), Some(4), "{}", output.stderr);
    for part in ["does not compile", "same.yaml:", "use of undeclared identifier 'XDP_DRIP'"] {
        assert!(output.stderr.contains(part), "{part} is not in\n{}", output.stderr);
    }
    let output = wrong("(void *)(udp + 1) <= end &&", "");
    let line = FORWARD.lines().position(|line| line.contains("h_proto")).expect("a line") + 1;
    for part in [&format!("forward.c:{line}"), "beyond what was compared with `data_end`"] {
        assert!(output.stderr.contains(part), "{part} is not in\n{}", output.stderr);
    }
    let output = wrong("closed.h", "/etc/shadow");
    assert_eq!(output.status.code(), Some(4), "{}", output.stderr);
    assert!(!output.stderr.contains("root:"), "{}", output.stderr);
    pings(&node);

    // The node compiles a text that comes without its object.
    let whole =
        FORWARD.replace("#include \"closed.h\"", "const volatile __u16 closed_port = 5002;");
    let request = serde_json::json!({
        "sources": [{"path": "r.yaml", "text": text.replace(&source, "f.c")}],
        "files": {"f.c": whole},
    });
    let request = node.file("request.json", &request.to_string());
    let socket = node.directory().join("node.sock").display().to_string();
    let output = Command::new("curl")
        .args(["-s", "--unix-socket", &socket, "-H", "content-type: application/json"])
        .args(["--data-binary", &format!("@{request}"), "http://europa/v1/apply"])
        .output()
        .expect("curl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"revision\""), "{said}");
    let begun = Instant::now();
    while value("closed_port") != "5002" {
        assert!(begun.elapsed() < Duration::from_secs(10), "{said}\n{}", node.run(&["events"]));
    }
    pings(&node);
}
