//! The table of nftables for all uplinks of a node, as text for `nft`.
//!
//! | chain         | what it does                                                                |
//! |---------------|-----------------------------------------------------------------------------|
//! | `prerouting`  | drops packets of uplinks with other source addresses than the uplink's own    |
//! | `input`       | of packets to the machine itself, accepts answers and ICMP echo               |
//! | `forward`     | drops packets to other uplinks, and all but answers to uplinks; the rest is in `outward` |
//! | `connections` | leads to the chains `slice-NAME`, which drop connections over a slice's limit |
//! | `postrouting` | gives connections an address of the machine, and a port of the slice's range  |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use europa_slowpath::uplink::OUTER;
use serde_json::Value;

use super::Uplink;

/// The first port of all ranges; the last range ends before the ports that Linux gives programs.
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

/// The numbers of slices: existing ones are kept.
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

/// The table as the kernel has it.
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
    pub(super) fn is_whole(&self, uplinks: &[Uplink], slices: &BTreeMap<String, u32>) -> bool {
        let wanted = chains(uplinks, slices);
        self.rules.len() == wanted.len()
            && wanted.iter().all(|chain| self.rules.get(&chain.name) == Some(&chain.rules.len()))
    }
}

/// A chain of the table.
struct Chain {
    name: String,
    /// The kernel's hook that begins it; `None` if other chains lead to it.
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

/// The device of an uplink, as a word of `nft`.
fn device(uplink: &Uplink) -> String {
    format!("\"{}\"", uplink.device())
}

/// All chains of the table. Target chains come before chains that lead to them.
fn chains(uplinks: &[Uplink], slices: &BTreeMap<String, u32>) -> Vec<Chain> {
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
    all.push(outward());
    all.extend(hooked(uplinks, translated));
    all
}

/// The chain of what leaves by uplinks.
fn outward() -> Chain {
    let rules = [
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
fn hooked(uplinks: &[Uplink], translated: Vec<String>) -> [Chain; 4] {
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
                // Linux itself announces groups and looks for routers.
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
                format!("oifname {devices} ct state established,related accept"),
                format!("oifname {devices} counter drop"),
            ],
        ),
        ("postrouting", "nat hook postrouting priority srcnat", translated),
    ];
    all.map(|(name, hook, rules)| Chain { name: name.into(), hook: Some(hook), rules })
}

/// Commands for `nft` that make the table, all of them or none. Chains of slices in `found` stay,
/// because they count the slices' connections.
pub(super) fn script(
    table: &str,
    uplinks: &[Uplink],
    slices: &BTreeMap<String, u32>,
    found: &Found,
) -> String {
    let wanted = chains(uplinks, slices);
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
mod tests {
    use super::*;

    fn uplink(router: &str, number: u32) -> Uplink {
        let slice = router.split('/').next().unwrap_or_default().to_owned();
        Uplink { router: router.to_owned(), slice, number, is_made: true }
    }

    #[test]
    fn slices_keep_their_ports() {
        let old = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 1)]);
        let new = number(&old, ["b", "c", "d", "c"].into_iter()).expect("room");
        let wanted = [("b", 1), ("c", 0), ("d", 2)].map(|(slice, at)| (slice.to_owned(), at));
        assert_eq!(new, BTreeMap::from(wanted));
        assert_eq!((ports(0), ports(1)), ((1024, 1535), (1536, 2047)));
        assert!(ports(RANGES - 1).1 < 32_768, "before the ports of programs");
        let names: Vec<String> = (0..=RANGES).map(|n| format!("s{n:02}")).collect();
        let most = names.iter().map(String::as_str);
        assert_eq!(number(&BTreeMap::new(), most.clone().skip(1)).map(|all| all.len()), Ok(62));
        assert_eq!(number(&BTreeMap::new(), most), Err("s62".to_owned()));
    }

    #[test]
    fn chains_of_slices_stay_with_their_connections() {
        let slices = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 1)]);
        let uplinks = [uplink("a/r", 7), uplink("b/r", 9)];
        let first = script("europa_x", &uplinks, &slices, &Found::default());
        for part in [
            "\tchain slice-a {\n\t\tct count over 1024 counter drop\n",
            "iifname . ip saddr { \"europa-7\" . 100.127.224.15, \"europa-9\" . 100.127.224.19 } accept",
            "ip saddr { 100.127.224.19 } meta l4proto { tcp, udp } masquerade to :1536-2047",
            "iifname { \"europa-7\" } jump slice-a",
        ] {
            assert!(first.contains(part), "{part}:\n{first}");
        }
        assert!(!first.contains("flush") && !first.contains("delete"), "{first}");

        // As if the table existed; `b` is removed, and `c` has lost its rule.
        let mut found = Found::default();
        for chain in chains(&uplinks, &slices) {
            found.rules.insert(chain.name, chain.rules.len());
        }
        assert!(found.is_whole(&uplinks, &slices));
        found.rules.insert("slice-c".into(), 0);
        assert!(!found.is_whole(&uplinks, &slices));
        let slices = BTreeMap::from([("a".to_owned(), 0), ("c".to_owned(), 2)]);
        let next = script("europa_x", &[uplink("a/r", 7), uplink("c/r", 3)], &slices, &found);
        assert!(!next.contains("chain slice-a {") && !next.contains("x slice-a\n"), "{next}");
        for part in [
            "flush chain inet europa_x forward\n",
            "flush chain inet europa_x slice-b\n",
            "delete chain inet europa_x slice-b\n",
            "\tchain slice-c {\n\t\tct count over",
        ] {
            assert!(next.contains(part), "{part}:\n{next}");
        }
    }

    #[test]
    fn what_nft_prints_is_read() {
        let text = r#"{"nftables": [{"metainfo": {}}, {"table": {"name": "t"}},
            {"chain": {"name": "input"}}, {"chain": {"name": "slice-a"}},
            {"rule": {"chain": "input", "expr": [{"counter": {"packets": 3}}]}},
            {"rule": {"chain": "slice-a", "expr": [{"counter": {"packets": 7}}, {"drop": null}]}},
            {"rule": {"chain": "input"}}]}"#;
        let rules = BTreeMap::from([("input".to_owned(), 2), ("slice-a".to_owned(), 1)]);
        let refused = BTreeMap::from([("a".to_owned(), 7)]);
        assert_eq!(Found::parse(text), Found { rules, refused });
        assert_eq!(Found::parse("nonsense"), Found::default());
    }
}
