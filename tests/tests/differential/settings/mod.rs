//! Users' settings of a router's Linux: commands that make them, and that remove them.
//!
//! Interfaces are eth0 to eth2 with 10.0.N.1/24 and fd00:N::1/64; 10.9.0.0/16 and fd09::/16 lie behind
//! eth1. In a command `$MAC0` is the Ethernet address of eth0, `$LINUX` the name of the namespace, and
//! `$MROUTE` the program for multicast routes.

use std::time::Duration;

mod firewalls;
mod groups;
mod labels;
mod links;
mod routes;
mod rules;
mod traffic;

/// A setting.
pub(crate) struct Setting {
    /// Its subject.
    pub(crate) kind: &'static str,
    pub(crate) set: &'static str,
    pub(crate) undo: &'static str,
    /// Programs beside `ip` that it needs.
    pub(crate) needs: &'static [&'static str],
    /// A feature that not every kernel has, as [`europa_tests::kernel_lacks`] names it; empty for
    /// none.
    pub(crate) feature: &'static str,
}

impl Setting {
    /// The same setting, for kernels with this feature.
    const fn on(mut self, feature: &'static str) -> Setting {
        self.feature = feature;
        self
    }

    /// Whether it belongs to the settings of `EUROPA_KIND`.
    pub(crate) fn is_about(&self, only: &str) -> bool {
        let has_feature = only == "features" && !self.feature.is_empty();
        has_feature || self.kind == only || self.feature == only || self.set.contains(only)
    }

    /// Whether it spreads flows over several ways. The way of a flow is then not compared.
    pub(crate) fn spreads(&self) -> bool {
        self.set.matches("nexthop via").count() > 1
            || self.set.contains(" group 5/")
            || self.set.contains(" group 8/")
            || self.set.matches("nexthop encap").count() > 1
    }

    /// The time that Linux itself needs: it may notice a carrier a second late.
    pub(crate) fn settles(&self) -> Duration {
        let is_link = self.set.contains("down;") || self.set.ends_with("down");
        Duration::from_millis(if is_link { 1400 } else { 300 })
    }

    /// Whether it leaves something behind that `undo` does not remove.
    pub(crate) fn stays(&self) -> bool {
        self.kind == "iptables"
    }
}

const fn setting(kind: &'static str, set: &'static str, undo: &'static str) -> Setting {
    Setting { kind, set, undo, needs: &[], feature: "" }
}

const fn nft(set: &'static str) -> Setting {
    let undo = "nft flush ruleset; ip rule del fwmark 7 2>/dev/null || true";
    Setting { kind: "nftables", set, undo, needs: &["nft"], feature: "" }
}

const fn tc(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "tc", set, undo, needs: &["tc"], feature: "" }
}

const fn legacy(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "iptables", set, undo, needs: &["iptables-legacy"], feature: "" }
}

const fn sysctl(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "sysctl", set, undo, needs: &["sysctl"], feature: "" }
}

const NOTHING: &[Setting] = &[setting("nothing", "true", "true")];

/// All settings.
pub(crate) fn all() -> Vec<&'static Setting> {
    [
        NOTHING,
        routes::ROUTES,
        labels::PUSHED,
        labels::LABELS,
        rules::RULES,
        rules::NEIGHBOURS,
        rules::ADDRESSES,
        links::LINKS,
        links::MASTERS,
        firewalls::NFTABLES,
        firewalls::LEGACY,
        firewalls::XFRM,
        traffic::TC,
        traffic::SYSCTLS,
        traffic::MULTICAST,
    ]
    .into_iter()
    .flatten()
    .collect()
}
