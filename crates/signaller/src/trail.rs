//! The path of an LSP that label tables have kept, router by router: a signaller that starts again
//! signals that path, although no document names it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_signal::LspKey;

use crate::convert;
use crate::orders::HopPlan;
use crate::router::Router;

/// Longest path that is followed.
const MOST_HOPS: usize = 64;

/// The knowledge about a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trail {
    /// It leads to the end. Routers outside the slice are left to the routes.
    Whole(Vec<HopPlan>),
    /// A router on it has not reported its label table yet.
    Unknown,
    /// A router on it does not have it any more.
    Broken,
}

/// A router's part of a path.
pub(crate) enum Step {
    /// Its next hop.
    To(IpAddr),
    /// The label table is not known yet.
    Unknown,
    /// The label table has no next hop for it.
    Nowhere,
}

/// Follows the path of `lsp` from the router `from`.
pub(crate) fn trail(routers: &BTreeMap<String, Router>, from: &str, lsp: &LspKey) -> Trail {
    let step = |name: &str| match routers.get(name) {
        Some(router) if router.is_known() => {
            let entry = router.entries.get(lsp).map(|installed| &installed.entry);
            entry.and_then(convert::via).map_or(Step::Nowhere, |(_, via, _)| Step::To(via))
        }
        _ => Step::Unknown,
    };
    let owner = |address: IpAddr| {
        let own = routers.values().find(|router| router.has(address))?;
        Some((own.plan.name.clone(), own.has(lsp.session.destination)))
    };
    follow(from, lsp.session.destination, step, owner)
}

/// Follows steps to `destination`; `owner` has the router of an address, and whether it is the last.
fn follow(
    from: &str,
    destination: IpAddr,
    step: impl Fn(&str) -> Step,
    owner: impl Fn(IpAddr) -> Option<(String, bool)>,
) -> Trail {
    let mut at = from.to_owned();
    let mut hops = Vec::new();
    while hops.len() < MOST_HOPS {
        let via = match step(&at) {
            Step::To(via) => via,
            Step::Unknown => return Trail::Unknown,
            Step::Nowhere => return Trail::Broken,
        };
        hops.push(HopPlan { address: via, is_loose: false });
        match owner(via) {
            Some((_, true)) => return Trail::Whole(hops),
            Some((next, false)) => at = next,
            None => {
                if via != destination {
                    hops.push(HopPlan { address: destination, is_loose: true });
                }
                return Trail::Whole(hops);
            }
        }
    }
    Trail::Broken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routers a, b and c in a line; c has the destination 10.9.9.9, and x is outside the slice.
    fn owner(address: IpAddr) -> Option<(String, bool)> {
        match address.to_string().as_str() {
            "10.0.1.2" => Some(("b".into(), false)),
            "10.0.2.2" => Some(("c".into(), true)),
            _ => None,
        }
    }

    #[test]
    fn a_path_is_followed_to_its_end_or_to_a_gap() {
        let to = |text: &str| Step::To(text.parse().unwrap());
        type Steps = fn(&str) -> &'static str;
        let table: [(&str, Steps, Option<&[&str]>); 5] = [
            (
                "whole",
                |at| ["10.0.1.2", "10.0.2.2"][usize::from(at == "b")],
                Some(&["10.0.1.2", "10.0.2.2"]),
            ),
            ("outside", |_| "192.0.2.7", Some(&["192.0.2.7", "10.9.9.9"])),
            ("b is not known", |at| ["10.0.1.2", "?"][usize::from(at == "b")], None),
            ("b has lost it", |at| ["10.0.1.2", "-"][usize::from(at == "b")], None),
            ("a circle", |_| "10.0.1.2", None),
        ];
        for (what, steps, wanted) in table {
            let step = |at: &str| match steps(at) {
                "?" => Step::Unknown,
                "-" => Step::Nowhere,
                via => to(via),
            };
            let found = follow("a", "10.9.9.9".parse().unwrap(), step, owner);
            let shown = |hops: &[HopPlan]| {
                hops.iter().map(|hop| hop.address.to_string()).collect::<Vec<_>>()
            };
            match (&found, wanted) {
                (Trail::Whole(hops), Some(wanted)) => assert_eq!(shown(hops), wanted, "{what}"),
                (Trail::Unknown, None) => assert_eq!(what, "b is not known"),
                (Trail::Broken, None) => assert_ne!(what, "b is not known"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}
