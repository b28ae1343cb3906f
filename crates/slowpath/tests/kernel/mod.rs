//! The expected table of a fast path, computed from the lists of `ip`.

use std::collections::BTreeMap;
use std::process::Command;

/// The table of a family, `-4` or `-6`, in a namespace: next hops by prefix, in the mirror's form.
/// `interfaces` are the router's, whose numbers are the outputs; the next outputs are Linux and a
/// discard.
pub(crate) fn table(
    namespace: &str,
    family: &str,
    interfaces: &[&str],
) -> BTreeMap<String, String> {
    let mut best: BTreeMap<String, (u8, u64, String)> = BTreeMap::new();
    for (rank, table) in ["local", "main", "default"].into_iter().enumerate() {
        let output = Command::new("ip")
            .args(["-netns", namespace, "-details", family, "route", "show", "table", table])
            .output()
            .unwrap();
        // Next hops of a route are on separate lines.
        let text = String::from_utf8(output.stdout).unwrap().replace("\n\t", " ");
        for line in text.lines() {
            let Some((prefix, way, metric)) = read(line, family, interfaces) else { continue };
            let rank = (rank as u8, metric);
            let worse = best.get(&prefix).is_some_and(|old| (old.0, old.1) <= rank);
            if !worse {
                best.insert(prefix, (rank.0, rank.1, way));
            }
        }
    }
    let mut table: BTreeMap<_, _> =
        best.into_iter().map(|(prefix, (_, _, way))| (prefix, way)).collect();
    let base: &[&str] = match family {
        "-4" => &["0.0.0.0/0"],
        _ => &["::/0", "::/128", "::ffff:0.0.0.0/96", "ff00::/8", "fe80::/10"],
    };
    for prefix in base {
        // A packet without any route is an error.
        let output = interfaces.len() + if prefix.ends_with("/0") { 2 } else { 0 };
        table.entry((*prefix).to_owned()).or_insert(format!("- {output}"));
    }
    table
}

fn after(words: &[&str], name: &str) -> Option<String> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1).map(|word| (*word).to_owned())
}

/// Prefix, next hop and metric of a line of `ip -details route`.
fn read(line: &str, family: &str, interfaces: &[&str]) -> Option<(String, String, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, rest) = words.split_first()?;
    let mut prefix = (*rest.first()?).to_owned();
    if prefix == "default" {
        prefix = if family == "-4" { "0.0.0.0/0" } else { "::/0" }.to_owned();
    }
    if !prefix.contains('/') {
        prefix += if family == "-4" { "/32" } else { "/128" };
    }
    if prefix.starts_with("fe80:") || prefix.starts_with("ff") {
        return None;
    }
    let (host, nowhere) = (interfaces.len(), interfaces.len() + 1);
    let metric = after(rest, "metric").and_then(|metric| metric.parse().ok()).unwrap_or(0);
    let way = match *kind {
        "blackhole" => format!("- {nowhere}"),
        "unicast" => {
            let one = |words: &[&str], several: bool| {
                if words.contains(&"linkdown") || words.contains(&"dead") {
                    return None;
                }
                let device = after(words, "dev")?;
                let Some(output) = interfaces.iter().position(|name| *name == device) else {
                    return Some("host".to_owned());
                };
                let gateway = after(words, "via").unwrap_or("-".to_owned());
                let weight = after(words, "weight").filter(|weight| several && weight != "1");
                let weight = weight.map(|weight| format!(" *{weight}")).unwrap_or_default();
                Some(format!("{gateway} {output}{weight}"))
            };
            let ways: Vec<String> = if rest.contains(&"nexthop") {
                rest.split(|word| *word == "nexthop")
                    .skip(1)
                    .filter_map(|words| one(words, true))
                    .collect()
            } else {
                one(rest, false).into_iter().collect()
            };
            match ways {
                ways if ways.is_empty() => return None,
                ways if ways.iter().any(|way| way == "host") => format!("- {host}"),
                ways if ways.len() == 1 => ways[0].split(" *").next()?.to_owned(),
                ways => ways.join(" | "),
            }
        }
        _ => format!("- {host}"),
    };
    Some((prefix, way, metric))
}
