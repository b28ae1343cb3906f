//! Routes and next hop objects.

use super::{Setting, setting};

/// Routes of both families.
pub(crate) const ROUTES: &[Setting] = &[
    setting("route", "ip route add blackhole 10.9.1.0/24", "ip route del blackhole 10.9.1.0/24"),
    setting("route", "ip route add prohibit 10.9.1.0/24", "ip route del prohibit 10.9.1.0/24"),
    setting(
        "route",
        "ip route add unreachable 10.9.1.0/24",
        "ip route del unreachable 10.9.1.0/24",
    ),
    setting("route", "ip route add throw 10.9.1.0/24", "ip route del throw 10.9.1.0/24"),
    setting("route", "ip route add 10.9.1.0/24 via 10.0.2.9", "ip route del 10.9.1.0/24"),
    setting("route", "ip route add 10.9.1.0/24 via 10.0.0.9", "ip route del 10.9.1.0/24"),
    setting("route", "ip route add 10.9.1.0/24 via 10.0.2.9 mtu 1300", "ip route del 10.9.1.0/24"),
    setting("route", "ip route add 10.9.1.0/24 dev eth2 mtu lock 700", "ip route del 10.9.1.0/24"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 nexthop via 10.0.1.9 nexthop via 10.0.2.9",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 nexthop via 10.0.1.9 weight 5 nexthop via 10.0.2.9 weight 2",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via 10.0.2.9 mtu lock 1000",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 tos 0x10 via 10.0.2.9",
        "ip route del 10.9.1.0/24 tos 0x10",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via 10.0.2.9 table default",
        "ip route flush table default",
    ),
    setting(
        "route",
        "ip route add local 10.9.0.0/16 dev lo",
        "ip route del local 10.9.0.0/16 dev lo",
    ),
    setting(
        "route",
        "ip route add local 10.9.0.0/16 dev lo; ip route add 10.9.1.0/24 via 10.0.2.9",
        "ip route del local 10.9.0.0/16 dev lo; ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 nexthop via 10.0.1.9 nexthop via 10.0.2.9 weight 3",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip route add 10.9.1.0/24 nhid 5",
        "ip route del 10.9.1.0/24; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip nexthop add id 5 blackhole; ip route add 10.9.1.0/24 nhid 5",
        "ip route del 10.9.1.0/24; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip nexthop add id 6 via 10.0.1.9 dev eth1; \
         ip nexthop add id 7 group 5/6,3; ip route add 10.9.1.0/24 nhid 7",
        "ip route del 10.9.1.0/24; ip nexthop del id 7; ip nexthop del id 6; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via inet6 fd00:2::9 dev eth2",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via inet6 fe80::9 dev eth2",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via fe80::9 dev eth2; ip route add 10.9.1.0/24 nhid 5",
        "ip route del 10.9.1.0/24; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip -6 route add blackhole fd09:1::/32",
        "ip -6 route del blackhole fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add prohibit fd09:1::/32",
        "ip -6 route del prohibit fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 via fd00:2::9 mtu 1300",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 via fe80::9 dev eth2",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 from fd00:0::/64 via fd00:2::9",
        "ip -6 route del fd09:1::/32 from fd00:0::/64",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 encap seg6 mode encap segs fd00:2::9 dev eth2",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 metric 50 via 10.0.2.9; ip route add 10.9.1.0/24 metric 10 via 10.0.1.9",
        "ip route flush 10.9.1.0/24",
    ),
    setting("route", "ip route add 10.9.1.7 dev eth2", "ip route del 10.9.1.7"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via 10.8.8.8 dev eth2 onlink",
        "ip route del 10.9.1.0/24",
    ),
    setting("route", "ip route replace default via 10.0.2.9", "ip route del default"),
    setting("route", "ip route add 10.9.1.0/24 dev lo", "ip route del 10.9.1.0/24"),
    setting(
        "route",
        "ip route add broadcast 10.9.1.7 dev eth2",
        "ip route del broadcast 10.9.1.7 dev eth2",
    ),
    setting(
        "route",
        "ip route add multicast 239.1.2.0/24 dev eth1",
        "ip route del multicast 239.1.2.0/24 dev eth1",
    ),
    setting("route", "ip route add 10.9.1.0/24 via 10.0.2.9 mtu 1000", "ip route del 10.9.1.0/24"),
    setting(
        "route",
        "ip route add 10.9.1.0/24 via 10.0.2.9 advmss 900 realm 5 src 10.0.0.1",
        "ip route del 10.9.1.0/24",
    ),
    setting("route", "ip route add 10.9.1.0/24 via 10.0.2.9 table 100", "ip route flush table 100"),
    setting(
        "route",
        "ip route append 10.9.0.0/16 via 10.0.2.9",
        "ip route del 10.9.0.0/16 via 10.0.2.9",
    ),
    setting(
        "route",
        "ip route prepend 10.9.0.0/16 via 10.0.2.9",
        "ip route del 10.9.0.0/16 via 10.0.2.9",
    ),
    setting(
        "route",
        "ip route change 10.9.0.0/16 via 10.0.2.9",
        "ip route change 10.9.0.0/16 via 10.0.1.9",
    ),
    setting("route", "ip route del 10.9.0.0/16", "ip route add 10.9.0.0/16 via 10.0.1.9"),
    setting(
        "route",
        "ip route del 10.0.2.0/24 dev eth2",
        "ip route add 10.0.2.0/24 dev eth2 proto kernel scope link src 10.0.2.1",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip route add 10.9.1.0/24 nhid 5; ip nexthop replace id 5 via 10.0.1.8 dev eth1",
        "ip route del 10.9.1.0/24; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip nexthop add id 6 via 10.0.1.9 dev eth1; ip nexthop add id 7 group 5/6; ip route add 10.9.1.0/24 nhid 7; ip nexthop del id 6",
        "ip route del 10.9.1.0/24; ip nexthop del id 7; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip nexthop add id 6 via 10.0.1.9 dev eth1; ip nexthop add id 7 group 5/6 type resilient buckets 8; ip route add 10.9.1.0/24 nhid 7",
        "ip route del 10.9.1.0/24; ip nexthop del id 7; ip nexthop del id 6; ip nexthop del id 5",
    ),
    setting(
        "route",
        "ip nexthop add id 5 via 10.0.2.9 dev eth2; ip route add 10.9.1.0/24 nhid 5; ip nexthop del id 5",
        "ip nexthop flush",
    ),
    setting(
        "route",
        "ip -6 nexthop add id 8 via fd00:2::9 dev eth2; ip -6 route add fd09:1::/32 nhid 8",
        "ip -6 route del fd09:1::/32; ip nexthop del id 8",
    ),
    setting(
        "route",
        "ip -6 nexthop add id 8 blackhole; ip -6 route add fd09:1::/32 nhid 8",
        "ip -6 route del fd09:1::/32; ip nexthop del id 8",
    ),
    setting(
        "route",
        "ip -6 nexthop add id 8 via fd00:2::9 dev eth2; ip -6 nexthop add id 9 via fd00:1::9 dev eth1; ip nexthop add id 7 group 8/9; ip -6 route add fd09:1::/32 nhid 7",
        "ip -6 route del fd09:1::/32; ip nexthop del id 7; ip nexthop del id 9; ip nexthop del id 8",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 nexthop via fd00:2::9 nexthop via fd00:1::9 weight 2",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add unreachable fd09:1::/32",
        "ip -6 route del unreachable fd09:1::/32",
    ),
    setting("route", "ip -6 route add throw fd09:1::/32", "ip -6 route del throw fd09:1::/32"),
    setting(
        "route",
        "ip -6 route add local fd09:1::/32 dev lo",
        "ip -6 route del local fd09:1::/32 dev lo",
    ),
    setting("route", "ip -6 route add fd09:1::/32 dev eth2", "ip -6 route del fd09:1::/32"),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 via fd00:2::9 metric 10; ip -6 route add fd09:1::/32 via fd00:1::9 metric 5",
        "ip -6 route flush fd09:1::/32",
    ),
    setting("route", "ip -6 route add default via fe80::9 dev eth2", "ip -6 route del default"),
    setting("route", "ip -6 route add fd09:1::7 via fd00:0::9", "ip -6 route del fd09:1::7"),
    setting("route", "ip -6 route del fd09::/16", "ip -6 route add fd09::/16 via fd00:1::9"),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 dev eth2 mtu lock 1300",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 via fd00:1::9 mtu lock 1400",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 nexthop via fd00:2::9 nexthop via fd00:1::9",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 via fd00:2::9 mtu lock 1280",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 encap seg6 mode inline segs fd00:2::9 dev eth2",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip -6 route add fd00:2::7 encap seg6local action End.DX6 nh6 fd00:2::9 dev eth2",
        "ip -6 route del fd00:2::7",
    ),
    setting(
        "route",
        "ip -6 route add fd09:1::/32 encap ioam6 trace prealloc type 0x800000 ns 0 size 4 via fd00:2::9",
        "ip -6 route del fd09:1::/32",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 encap ip id 5 dst 10.0.2.9 dev eth2",
        "ip route del 10.9.1.0/24",
    ),
    setting("route", "ip route add blackhole 10.9.1.7", "ip route del blackhole 10.9.1.7"),
    setting("route", "ip -6 route add blackhole fd09:1::7", "ip -6 route del blackhole fd09:1::7"),
    setting("route", "ip route add prohibit 10.9.1.7", "ip route del prohibit 10.9.1.7"),
    setting("route", "ip -6 route add prohibit fd09:1::7", "ip -6 route del prohibit fd09:1::7"),
    setting("route", "ip route add prohibit default", "ip route del prohibit default"),
];
