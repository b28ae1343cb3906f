//! Many routers on one pair of ports for `scale` and `pool-size`; their Ethernet addresses end in
//! their numbers.

use std::fmt::Write as _;

use serde::Serialize;

use crate::error::Result;
use crate::streams;
use crate::testbed::{MAC, Testbed, format_mac};

/// Where the routers run.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Isolated,
    Inline,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Inline => "inline",
        }
    }
}

/// Ethernet addresses of a router's two interfaces. The generator computes the first one itself.
fn macs(number: u32) -> [String; 2] {
    let [high, low] = (number as u16).to_be_bytes();
    [0, 1].map(|side| format!("02:00:00:0{side}:{high:02x}:{low:02x}"))
}

/// The documents to apply: ports, a slice, and `routers` routers.
pub(super) fn documents(kind: Kind, routers: u32, slots: u32) -> String {
    let mut text = "kind: port\nname: left\ndevice: r0\nnamespace: eub-rtr\n---\n\
                    kind: port\nname: right\ndevice: r1\nnamespace: eub-rtr\n---\n\
                    kind: slice\nname: bench\n"
        .to_owned();
    let [generator, sink] = [MAC[0], MAC[3]].map(|mac| format_mac(&mac));
    for number in 0..routers {
        let (run, [left, right]) = (kind.name(), macs(number));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "---\nkind: router\nname: r{number}\nslice: bench\nrun: {run}\n\
             pool: {{slots: {slots}}}\ninterfaces:\n  \
             in: {{port: left, mac: \"{left}\", addresses: [10.0.0.1/24]}}\n  \
             out: {{port: right, mac: \"{right}\", addresses: [10.0.1.1/24]}}\n\
             fast_path:\n  builtin: ipv4\n  routes:\n    \
             - {{to: 10.1.0.0/16, via: 10.0.1.2}}\n    \
             - {{to: 10.2.0.0/16, via: 10.0.0.2}}\n  neighbours:\n    \
             - {{address: 10.0.0.2, mac: \"{generator}\", interface: in}}\n    \
             - {{address: 10.0.1.2, mac: \"{sink}\", interface: out}}\n"
        );
    }
    text
}

/// Sends a TCP stream through each router.
pub(super) fn lay_streams(testbed: &Testbed, routers: u32) -> Result<()> {
    streams::lay(testbed, routers, macs)
}

/// Jain's index: 1 if all have the same share, 1/n if only one of n gets packets.
pub(super) fn fairness(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains() {
        assert!((fairness(&[5, 5, 5]) - 1.0).abs() < 1e-9);
        assert!((fairness(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
        assert!(fairness(&[]).abs() < 1e-9);
    }

    #[test]
    fn documents_are_valid() {
        for kind in [Kind::Isolated, Kind::Inline] {
            let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a temporary file");
            std::fs::write(file.path(), documents(kind, 300, 256)).expect("written");
            let documents = europa_api::load(&[file.path()]).expect("valid documents");
            assert_eq!(documents.routers.len(), 300);
        }
    }
}
