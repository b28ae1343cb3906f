//! Labels (RFC 3031): routes of the label table, and routes that push labels.

use super::{Setting, setting};

const fn label(set: &'static str) -> Setting {
    let undo = "ip -M route flush; ip route flush 10.9.1.0/24; ip -6 route flush fd09:1::/32; \
                sysctl -qw net.mpls.platform_labels=0 net.mpls.conf.eth0.input=0";
    setting("label", set, undo).on("MPLS")
}

/// Routes of the label table. The test sends packets with label 100 by eth0.
pub(crate) const LABELS: &[Setting] = &[
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 100 via inet 10.0.2.9",
    ),
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 100 as 200 via inet 10.0.2.9",
    ),
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 100 as 200/300 via inet6 fd00:2::9",
    ),
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 100 dev lo",
    ),
    label("sysctl -qw net.mpls.platform_labels=1000; ip -M route add 100 as 200 via inet 10.0.2.9"),
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 101 as 200 via inet 10.0.2.9",
    ),
    label(
        "sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.eth0.input=1; \
         ip -M route add 100 as 200 via inet 10.0.2.9; ip -M route del 100",
    ),
];

/// Routes that push labels.
pub(crate) const PUSHED: &[Setting] = &[
    setting(
        "route",
        "ip route add 10.9.1.0/24 encap mpls 100 via 10.0.2.9",
        "ip route del 10.9.1.0/24",
    )
    .on("MPLS"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 encap mpls 100/200 via 10.0.2.9",
        "ip route del 10.9.1.0/24",
    )
    .on("MPLS"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 encap mpls 100 ttl 7 via 10.0.2.9",
        "ip route del 10.9.1.0/24",
    )
    .on("MPLS"),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 encap mpls 100 via inet6 fd00:2::9",
        "ip -6 route del fd09:1::/32",
    )
    .on("MPLS"),
    setting(
        "route",
        "ip nexthop add id 5 encap mpls 100 via 10.0.2.9 dev eth2; \
         ip route add 10.9.1.0/24 nhid 5",
        "ip route del 10.9.1.0/24; ip nexthop del id 5",
    )
    .on("MPLS"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 nexthop encap mpls 100 via 10.0.2.9 \
         nexthop encap mpls 100 via 10.0.2.8",
        "ip route del 10.9.1.0/24",
    )
    .on("MPLS"),
];
