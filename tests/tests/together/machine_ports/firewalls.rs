//! Firewalls of other programs beside ports of the machine.

use std::time::Duration;

use europa_tests::skip_without;

use super::{Net, slice, wait};

/// The commands in backquotes of a finding of `europa doctor`.
fn remedies(said: &str) -> Vec<String> {
    let line = said.lines().find(|line| line.contains("other firewalls")).unwrap_or_default();
    let parts = line.split('`').skip(1).step_by(2);
    parts.filter(|part| part.starts_with("nft ")).map(str::to_owned).collect()
}

#[test]
fn the_doctor_has_the_remedy_for_a_firewall_that_drops() {
    skip_without!("nft", "python3", "curl");
    let net = Net::new();
    let run = "  files: [{path: /run/who, text: s}]\n  \
        run: [{name: web, command: [python3, -m, http.server, \"8080\"]}]\n";
    net.node.up(&slice("s", "r1", "{protocol: tcp, port: 8080}", run));
    let url = "http://192.0.2.1:8080/run/who";
    wait("the port", Duration::from_secs(10), || net.page(&net.outside, url).is_some());
    let outward = || {
        let ping = ["exec", "s/r1", "--", "ping", "-c", "1", "-W", "1", "192.0.2.2"];
        net.node.attempt(&ping).status.success()
    };
    assert!(outward());

    // As Docker has it, for IPv4; as ufw, for both versions in tables of their own.
    for (family, chain) in [("ip", "FORWARD"), ("inet", "forward")] {
        let table = format!("add table {family} other");
        let hook = "{ type filter hook forward priority 0; policy drop; }";
        let drop = format!("{table}; add chain {family} other {chain} {hook}");
        net.around.run(&["nft", &drop]).expect("a firewall");
        assert!(net.page(&net.outside, url).is_none() && !outward(), "{family}");
        let said = net.node.attempt(&["doctor"]).stdout;
        let commands = remedies(&said);
        assert_eq!(commands.len(), 3, "{said}");
        for command in commands {
            net.around.run(&["sh", "-c", &command]).expect("a command of the doctor");
        }
        assert_eq!(net.page(&net.outside, url).as_deref(), Some("s"), "{family}");
        assert!(outward(), "{family}");
        net.around.run(&["nft", &format!("delete table {family} other")]).expect("gone");
    }
    net.node.run(&["down"]);
}
