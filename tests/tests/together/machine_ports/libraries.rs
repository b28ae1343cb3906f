//! The libraries for programs in slow paths ask at the door of the slice.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use europa_tests::skip_without;

use super::{ANY, Net, slice};

/// Uses each function of the C library once.
const IN_C: &str = r#"
#include "europa_slice.h"
int main(void)
{
    static char answer[1 << 16];
    uint16_t port = 0;
    int status = europa_slice_reserve_port("s", "r1", "tcp", 80, &port);
    printf("%d %u\n", status, port);
    printf("%d\n", europa_slice_resources("s", answer, sizeof(answer)));
    printf("%d\n", strstr(answer, "machine_ports") != NULL);
    printf("%d\n", europa_slice_resources("s", answer, 20) == -EMSGSIZE);
    printf("%d\n", europa_slice_read("s", "r2", "c.count", answer, sizeof(answer)));
    printf("%s\n", answer);
    printf("%d\n", europa_slice_free_port("s", "tcp", port));
    printf("%d\n", europa_slice_free_port("s", "tcp", port));
    return 0;
}
"#;

/// Uses the functions of the Python module.
const IN_PYTHON: &str = r#"
import europa_slice as slice
port = slice.reserve_port("s", "r1", "tcp", 80)["port"]
print([one["port"] == port for one in slice.ports("s") if one.get("inside") == 80])
print({one["name"]: one["used"] for one in slice.resources("s") if one["name"] == "routers"})
print(slice.read("s", "r2", "c.count"))
slice.write("s", "r2", "c.reset_counts")
number = slice.add_rule("s", {"protocol": "icmp", "action": "drop"})
print([one["number"] == number for one in slice.rules("s")])
slice.remove_rules("s", number)
print(sorted(one["name"] for one in slice.documents()), slice.document("s", "r1")["name"])
changes = slice.apply("kind: router\nname: r1\nslice: s\nslow_path: {}\n", dry_run=True)
print(changes["dry_run"], [change["name"] for change in changes["changes"]])
slice.free_port("s", "tcp", port)
for attempt in [lambda: slice.free_port("s", "tcp", port), lambda: slice.ports("t"),
                lambda: slice.apply("kind: slice\nname: t\n")]:
    try: attempt(); print("not refused")
    except slice.Refused as refused: print(refused.status)
"#;

#[test]
fn the_libraries_ask_at_the_door() {
    skip_without!("nft", "python3", "curl", "cc");
    let net = Net::new();
    // A router has its own `/tmp`, below which this repository may lie.
    let folder = tempfile::tempdir_in("/srv").expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("for everybody");
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("ask.c"), IN_C).expect("a file");
    let header = format!("-I{}", sdk.join("c").display());
    let (program, source) = (at("ask"), at("ask.c"));
    let cc = ["cc", "-Wall", "-Wextra", "-Werror", "-O2", &header, "-o", &program, &source];
    europa_tests::run(&cc).expect("it builds");
    fs::copy(sdk.join("python/europa_slice.py"), at("europa_slice.py")).expect("a file");
    fs::write(at("ask.py"), IN_PYTHON).expect("a file");
    let counting = "---\nkind: router\nname: r2\nslice: s\n\
        interfaces: {a: {link: l}}\nfast_path: {click: \"FromDevice(a) -> c :: Counter -> Discard\"}\n";
    let yaml = slice("s", "r1", ANY, "") + &slice("t", "r1", ANY, "") + &counting[4..];
    net.node.up(&yaml);

    let said = net.node.run(&["exec", "s/r1", "--", &at("ask")]);
    let lines: Vec<&str> = said.lines().collect();
    let port = lines[0].strip_prefix("200 ").and_then(|port| port.parse::<u16>().ok());
    assert!(port.is_some_and(|port| port >= 1024), "{said}");
    assert_eq!(lines[1..], ["200", "1", "1", "200", r#"{"value":"0"}"#, "200", "404"], "{said}");

    let said = net.node.run(&["exec", "s/r1", "--", "python3", &at("ask.py")]);
    let wanted = [
        "[True]",
        "{'routers': 2}",
        "0",
        "[True]",
        "['s/r1', 's/r2'] r1",
        "True ['s/r1']",
        "404",
        "404",
        "403",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted, "{said}");
    net.node.run(&["down"]);
}
