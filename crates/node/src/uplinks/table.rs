//! The table of nftables for all uplinks of a node, as text for `nft`.
//!
//! | chain         | what it does                                                                |
//! |---------------|-----------------------------------------------------------------------------|
//! | `prerouting`  | drops packets of uplinks with other source addresses than the uplink's own    |
//! | `input`       | of packets to the machine itself, accepts answers and ICMP echo               |
//! | `forward`     | drops packets to other uplinks, and all but answers to uplinks; the rest is in `outward` |
//! | `connections` | leads to the chains `slice-NAME`, which drop connections over a slice's limit |
//! | `arriving`, `local` | lead ports of the machine to slow paths                         |
//! | `inward`      | accepts their packets, and counts connections for the slice                |
//! | `postrouting` | gives connections an address of the machine, and a port of the slice's range  |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use europa_slowpath::uplink::OUTER;
use serde_json::Value;

use super::Uplink;
use crate::machine_ports::Forward;

/// The first port of all ranges; the last range ends before the ports that Linux assigns to
/// programs.
const FIRST_PORT: u32 = 1024;
/// The ports of a slice, for each address and port at the other end.
const PORTS: u32 = 512;
/// Number of slices with ranges.
pub(super) const RANGES: u32 = (32_768 - FIRST_PORT) / PORTS;
/// Most connections of a slice.
const CONNECTIONS: u32 = 1024;

/// Prefix of the names of slices' chains.
const SLICE: &str = "slice-";

/// The first and the last port of a slice's range.
pub(super) fn ports(number: u32) -> (u32, u32) {
    let first = FIRST_PORT + number % RANGES * PORTS;
    (first, first + PORTS - 1)
}

/// The numbers of slices; existing numbers are kept.
///
/// # Errors
/// No number is left for this slice.
pub(super) fn number<'a>(
    old: &BTreeMap<String, u32>,
    slices: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, u32>, String> {
    let slices: BTreeSet<&str> = slices.collect();
    let mut all: BTreeMap<String, u32> = old
        .iter()
        .filter(|(slice, _)| slices.contains(&***slice))
        .map(|(s, n)| (s.clone(), *n))
        .collect();
    for slice in slices {
        if !all.contains_key(slice) {
            let free = (0..RANGES).find(|number| !all.values().any(|taken| taken == number));
            all.insert(slice.to_owned(), free.ok_or_else(|| slice.to_owned())?);
        }
    }
    Ok(all)
}

/// The table as found in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Rules by chain.
    rules: BTreeMap<String, usize>,
    /// Packets that slices' chains have dropped, by slice.
    pub(super) refused: BTreeMap<String, u64>,
}

impl Found {
    /// Reads the output of `nft -j list table`.
    pub(super) fn parse(text: &str) -> Found {
        let mut found = Found::default();
        let all: Value = serde_json::from_str(text).unwrap_or_default();
        for object in all["nftables"].as_array().into_iter().flatten() {
            if let Some(name) = object["chain"]["name"].as_str() {
                found.rules.entry(name.to_owned()).or_default();
            }
            if let Some(chain) = object["rule"]["chain"].as_str() {
                *found.rules.entry(chain.to_owned()).or_default() += 1;
                let counters = object["rule"]["expr"].as_array().into_iter().flatten();
                let packets = counters.filter_map(|part| part["counter"]["packets"].as_u64());
                if let Some(slice) = chain.strip_prefix(SLICE) {
                    *found.refused.entry(slice.to_owned()).or_default() += packets.sum::<u64>();
                }
            }
        }
        found
    }

    /// Whether it has the chains that [`script`] makes, with as many rules.
    pub(super) fn is_whole(
        &self,
        uplinks: &[Uplink],
        slices: &BTreeMap<String, u32>,
        forwards: &[Forward],
    ) -> bool {
        let wanted = chains(uplinks, slices, forwards);
        self.rules.len() == wanted.len()
            && wanted.iter().all(|chain| self.rules.get(&chain.name) == Some(&chain.rules.len()))
    }
}

impl Found {
    /// The same without rules of ports of the machine.
    pub(super) fn without_ports(mut self) -> Found {
        for name in ["arriving", "local"] {
            self.rules.entry(name.to_owned()).and_modify(|rules| *rules = 0);
        }
        self
    }
}

/// A chain of the table.
struct Chain {
    name: String,
    /// The kernel's hook where the chain begins; `None` if other chains lead to it.
    hook: Option<&'static str>,
    rules: Vec<String>,
}

/// The name of a slice's chain.
fn slice_chain(slice: &str) -> String {
    format!("{SLICE}{slice}")
}

/// Values as a set of `nft`.
fn set(values: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", values.collect::<Vec<_>>().join(", "))
}

/// Accepts packets to ports of the machine. New connections count for the slice.
fn inward(uplinks: &[Uplink], slices: &BTreeMap<String, u32>) -> Chain {
    let of = |slice: &String| {
        let own = uplinks.iter().filter(|one| one.slice == *slice);
        set(own.map(|one| format!("\"{}\"", one.device())))
    };
    let counted = |slice| format!("ct state new oifname {} jump {}", of(slice), slice_chain(slice));
    let mut rules: Vec<String> = slices.keys().map(counted).collect();
    rules.push("accept".to_owned());
    Chain { name: "inward".into(), hook: None, rules }
}

/// Rules that lead ports of the machine to slow paths; with `here`, for programs of the machine.
fn led(uplinks: &[Uplink], forwards: &[Forward], here: bool) -> Vec<String> {
    let mut rules = Vec::new();
    for forward in forwards {
        let Some(to) = uplinks.iter().find(|one| one.router == forward.router) else { continue };
        let own = to.addresses();
        let (protocol, port, inside) = (forward.protocol.word(), forward.port, forward.inside);
        let families = [
            ("ip", "ipv4", "127.0.0.0/8", format!("{}:{inside}", own.v4)),
            ("ip6", "ipv6", "::1", format!("[{}]:{inside}", own.v6)),
        ];
        for (family, name, loopback, target) in families {
            let named = forward.addresses.iter();
            let named: Vec<String> = named
                .filter(|address| address.is_ipv4() == (family == "ip"))
                .map(ToString::to_string)
                .collect();
            let at = match (forward.addresses.is_empty(), named.is_empty()) {
                (true, _) if here => {
                    format!("{family} daddr != {loopback} fib daddr type local")
                }
                (true, _) => format!("meta nfproto {name} fib daddr type local"),
                (_, true) => continue,
                (_, false) => format!("{family} daddr {}", set(named.into_iter())),
            };
            rules.push(format!("{at} {protocol} dport {port} dnat {family} to {target}"));
        }
    }
    rules
}

/// The device of an uplink, as a word of `nft`.
fn device(uplink: &Uplink) -> String {
    format!("\"{}\"", uplink.device())
}

/// All chains of the table. Target chains come before chains that lead to them.
fn chains(uplinks: &[Uplink], slices: &BTreeMap<String, u32>, forwards: &[Forward]) -> Vec<Chain> {
    let of = |slice: &str| {
        let slice = slice.to_owned();
        uplinks.iter().filter(move |uplink| uplink.slice == slice)
    };
    let mut all: Vec<Chain> = slices
        .keys()
        .map(|slice| Chain {
            name: slice_chain(slice),
            hook: None,
            rules: vec![format!("ct count over {CONNECTIONS} counter drop")],
        })
        .collect();
    let mut counted = Vec::new();
    let mut translated = Vec::new();
    for (slice, number) in slices {
        counted.push(format!("iifname {} jump {}", set(of(slice).map(device)), slice_chain(slice)));
        let (first, last) = ports(*number);
        let sources = [
            ("ip", set(of(slice).map(|uplink| uplink.addresses().v4.to_string()))),
            ("ip6", set(of(slice).map(|uplink| uplink.addresses().v6.to_string()))),
        ];
        for (family, own) in sources {
            translated.push(format!(
                "{family} saddr {own} meta l4proto {{ tcp, udp }} masquerade to :{first}-{last}"
            ));
            translated.push(format!("{family} saddr {own} masquerade"));
        }
    }
    all.push(Chain { name: "connections".into(), hook: None, rules: counted });
    all.push(inward(uplinks, slices));
    all.push(outward(uplinks));
    all.extend(hooked(uplinks, forwards, translated));
    all
}

/// The chain of what leaves by uplinks.
fn outward(uplinks: &[Uplink]) -> Chain {
    let to_ports =
        format!("oifname {} ct status dnat jump inward", set(uplinks.iter().map(device)));
    let rules = [
        // Ports of the machine, from one slow path to another or to itself.
        &to_ports,
        // Also uplinks of other nodes.
        &format!("oifname \"{OUTER}*\" counter drop"),
        "ct state established,related accept",
        "ct state != new counter drop",
        "icmp type != echo-request counter drop",
        "icmpv6 type != echo-request counter drop",
        "meta l4proto != { tcp, udp, icmp, icmpv6 } counter drop",
        "jump connections",
    ];
    let rules = rules.map(str::to_owned).into();
    Chain { name: "outward".into(), hook: None, rules }
}

/// The chains that the kernel calls. `translated`: the rules of translated sources.
fn hooked(uplinks: &[Uplink], forwards: &[Forward], translated: Vec<String>) -> [Chain; 6] {
    let devices = set(uplinks.iter().map(device));
    let own4 = set(uplinks.iter().map(|one| format!("{} . {}", device(one), one.addresses().v4)));
    let own6 = set(uplinks.iter().map(|one| format!("{} . {}", device(one), one.addresses().v6)));
    let all = [
        (
            "prerouting",
            "filter hook prerouting priority raw",
            vec![
                format!("iifname . ip saddr {own4} accept"),
                format!("iifname . ip6 saddr {own6} accept"),
                format!(
                    "iifname {devices} icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept"
                ),
                // Linux itself sends these packets: it announces groups and looks for routers.
                format!("iifname {devices} ip6 saddr {{ ::, fe80::/10 }} drop"),
                format!("iifname {devices} counter drop"),
            ],
        ),
        (
            "input",
            "filter hook input priority filter",
            vec![
                format!("iifname != {devices} accept"),
                "ct state established,related accept".to_owned(),
                "icmp type echo-request jump connections".to_owned(),
                "icmp type echo-request accept".to_owned(),
                "icmpv6 type echo-request jump connections".to_owned(),
                "icmpv6 type { echo-request, nd-neighbor-solicit, nd-neighbor-advert } accept"
                    .to_owned(),
                "counter drop".to_owned(),
            ],
        ),
        (
            "forward",
            "filter hook forward priority filter",
            vec![
                format!("iifname {devices} jump outward"),
                format!("oifname {devices} ct status dnat jump inward"),
                format!("oifname {devices} ct state established,related accept"),
                format!("oifname {devices} counter drop"),
            ],
        ),
        ("arriving", "nat hook prerouting priority dstnat", led(uplinks, forwards, false)),
        ("local", "nat hook output priority -100", led(uplinks, forwards, true)),
        ("postrouting", "nat hook postrouting priority srcnat", translated),
    ];
    all.map(|(name, hook, rules)| Chain { name: name.into(), hook: Some(hook), rules })
}

/// Commands for `nft` that make the table; all of them take effect or none. Chains of slices in
/// `found` remain, because they count the slices' connections.
pub(super) fn script(
    table: &str,
    uplinks: &[Uplink],
    slices: &BTreeMap<String, u32>,
    forwards: &[Forward],
    found: &Found,
) -> String {
    let wanted = chains(uplinks, slices, forwards);
    let stays = |name: &str| {
        let of_slice = slices.keys().any(|slice| slice_chain(slice) == *name);
        of_slice && found.rules.get(name) == Some(&1)
    };
    let mut text = format!("add table inet {table}\n");
    for name in found.rules.keys().filter(|name| !stays(name)) {
        let _ = writeln!(text, "flush chain inet {table} {name}");
    }
    let _ = writeln!(text, "table inet {table} {{");
    for chain in wanted.iter().filter(|chain| !stays(&chain.name)) {
        let _ = writeln!(text, "\tchain {} {{", chain.name);
        if let Some(hook) = chain.hook {
            let _ = writeln!(text, "\t\ttype {hook}; policy accept;");
        }
        for rule in &chain.rules {
            let _ = writeln!(text, "\t\t{rule}");
        }
        text += "\t}\n";
    }
    text += "}\n";
    for name in found.rules.keys().filter(|name| !wanted.iter().any(|one| one.name == **name)) {
        let _ = writeln!(text, "delete chain inet {table} {name}");
    }
    text
}

#[cfg(test)]
mod tests;
