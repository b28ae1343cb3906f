//! Settings that users make in a router's Linux: commands that make them, and commands that remove
//! them.
//!
//! Interfaces are eth0 to eth2 with 10.0.N.1/24 and fd00:N::1/64; 10.9.0.0/16 and fd09::/16 lie behind
//! eth1. In a command `$MAC0` is the Ethernet address of eth0, `$LINUX` the name of the namespace, and
//! `$MROUTE` the program for multicast routes.

use std::time::Duration;

mod firewalls;
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
    /// Programs that the setting needs in addition to `ip`.
    pub(crate) needs: &'static [&'static str],
}

impl Setting {
    /// Whether the setting distributes flows over several paths. The path of a flow is then not
    /// compared.
    pub(crate) fn spreads(&self) -> bool {
        self.set.matches("nexthop via").count() > 1
            || self.set.contains(" group 5/")
            || self.set.contains(" group 8/")
    }

    /// The time that Linux itself needs: it may notice a carrier a second late.
    pub(crate) fn settles(&self) -> Duration {
        let is_link = self.set.contains("down;") || self.set.ends_with("down");
        Duration::from_millis(if is_link { 1400 } else { 300 })
    }

    /// Whether the setting leaves state that `undo` does not remove.
    pub(crate) fn stays(&self) -> bool {
        self.kind == "iptables"
    }
}

const fn setting(kind: &'static str, set: &'static str, undo: &'static str) -> Setting {
    Setting { kind, set, undo, needs: &[] }
}

const fn nft(set: &'static str) -> Setting {
    let undo = "nft flush ruleset; ip rule del fwmark 7 2>/dev/null || true";
    Setting { kind: "nftables", set, undo, needs: &["nft"] }
}

const fn tc(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "tc", set, undo, needs: &["tc"] }
}

const fn legacy(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "iptables", set, undo, needs: &["iptables-legacy"] }
}

const fn sysctl(set: &'static str, undo: &'static str) -> Setting {
    Setting { kind: "sysctl", set, undo, needs: &["sysctl"] }
}

const NOTHING: &[Setting] = &[setting("nothing", "true", "true")];

/// All settings.
pub(crate) fn all() -> Vec<&'static Setting> {
    [
        NOTHING,
        routes::ROUTES,
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
