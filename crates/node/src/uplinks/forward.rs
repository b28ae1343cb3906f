//! Whether this machine forwards the packets of uplinks: checks for `europa doctor`.

use std::fs;

use europa_slowpath::uplink::{self, OUTER};
use serde_json::Value;

use super::{forwarding, nft};
use crate::doctor::{Finding, Verdict};

/// Checks of the program, of forwarding, and of other programs' rules.
pub(crate) fn findings() -> Vec<Finding> {
    if !nft::is_there() {
        return vec![finding("nft", Err("the program is missing: install nftables".into()))];
    }
    vec![
        finding("IPv4 forwarding", ipv4()),
        finding("IPv6 forwarding", ipv6()),
        finding("other firewalls", others()),
    ]
}

fn finding(what: &str, found: Result<String, String>) -> Finding {
    let verdict = if found.is_ok() { Verdict::Works } else { Verdict::Limited };
    let detail = found.unwrap_or_else(|why| format!("{why}; only uplinks of slow paths need it"));
    Finding { what: what.to_owned(), verdict, detail }
}

fn ipv4() -> Result<String, String> {
    match uplink::unforwarded() {
        None => Ok("the machine forwards".to_owned()),
        Some(device) => Err(format!(
            "packets that come in by {device} are not forwarded: `sysctl -w {}=1`",
            forwarding(&device)
        )),
    }
}

fn ipv6() -> Result<String, String> {
    let value = fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").unwrap_or_default();
    match value.trim() {
        "1" => Ok("the machine forwards".to_owned()),
        _ => {
            Err("packets are not forwarded: `sysctl -w net.ipv6.conf.all.forwarding=1`".to_owned())
        }
    }
}

fn others() -> Result<String, String> {
    let text = nft::chains().map_err(|error| error.to_string())?;
    if let Some((family, table, chain)) = dropping(&text).first() {
        return Err(remedy(family, table, chain));
    }
    if text.contains("\"table\": \"firewalld\"") {
        return Err("firewalld rejects forwarded packets of devices without a zone: \
                    `firewall-cmd --zone=trusted --add-source=100.127.224.0/19`, and the same with \
                    fd65:7572:6f70::/48"
            .to_owned());
    }
    let legacy = fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap_or_default();
    if legacy.lines().any(|table| table == "filter") {
        return Err("iptables-legacy has a table, which may drop forwarded packets: see \
                    `iptables-legacy -S FORWARD`"
            .to_owned());
    }
    Ok("no other rules drop forwarded packets by policy".to_owned())
}

/// The rules to add to a chain that drops the packets of uplinks: no other table can accept them.
fn remedy(family: &str, table: &str, chain: &str) -> String {
    let add = |rule: &str| format!("`nft insert rule {family} {table} {chain} {rule}`");
    format!(
        "the chain {chain} of table {family} {table} drops forwarded packets by policy: {} and {}",
        add(&format!("iifname \"{OUTER}*\" accept")),
        add(&format!("oifname \"{OUTER}*\" ct state established,related accept")),
    )
}

/// Chains of other tables that drop forwarded packets by policy: family, table and name.
fn dropping(chains: &str) -> Vec<(String, String, String)> {
    let all: Value = serde_json::from_str(chains).unwrap_or_default();
    let objects = all["nftables"].as_array().into_iter().flatten();
    let chains = objects.map(|object| &object["chain"]);
    let drops = chains.filter(|chain| {
        let family = chain["family"].as_str().unwrap_or_default();
        let is_ip = matches!(family, "ip" | "ip6" | "inet");
        is_ip && chain["hook"] == "forward" && chain["policy"] == "drop"
    });
    let text = |chain: &Value, field: &str| chain[field].as_str().unwrap_or_default().to_owned();
    drops.map(|chain| (text(chain, "family"), text(chain, "table"), text(chain, "name"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policies_at_forward_drop() {
        let chain = |family: &str, name: &str, hook: &str, policy: &str| {
            format!(
                r#"{{"chain": {{"family": "{family}", "table": "filter", "name": "{name}",
                    "hook": "{hook}", "policy": "{policy}"}}}}"#
            )
        };
        let text = format!(
            r#"{{"nftables": [{{"metainfo": {{}}}}, {}, {}, {}, {}]}}"#,
            chain("ip", "INPUT", "input", "drop"),
            chain("ip", "FORWARD", "forward", "drop"),
            chain("ip6", "FORWARD", "forward", "accept"),
            chain("bridge", "FORWARD", "forward", "drop"),
        );
        let wanted = ("ip".to_owned(), "filter".to_owned(), "FORWARD".to_owned());
        assert_eq!(dropping(&text), [wanted]);
        let told = remedy("ip", "filter", "FORWARD");
        assert!(
            told.contains("`nft insert rule ip filter FORWARD iifname \"europa-*\" accept`"),
            "{told}"
        );
    }
}
