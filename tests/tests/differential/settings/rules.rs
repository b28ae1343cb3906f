//! Rules that choose tables, and settings of neighbours and addresses.

use super::{Setting, setting};

/// Rules of both families.
pub(crate) const RULES: &[Setting] = &[
    setting(
        "rule",
        "ip rule add from 10.0.0.0/24 prohibit",
        "ip rule del from 10.0.0.0/24 prohibit",
    ),
    setting("rule", "ip rule add to 10.9.1.0/24 blackhole", "ip rule del to 10.9.1.0/24 blackhole"),
    setting("rule", "ip rule add iif eth2 unreachable", "ip rule del iif eth2 unreachable"),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add iif eth0 lookup 100",
        "ip rule del iif eth0 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add 10.9.1.0/24 via 10.0.2.9 table 100; ip rule add lookup 100",
        "ip rule del lookup 100; ip route flush table 100",
    ),
    setting("rule", "ip rule add fwmark 7 prohibit", "ip rule del fwmark 7 prohibit"),
    setting("rule", "ip rule add uidrange 0-1000 prohibit", "ip rule del uidrange 0-1000 prohibit"),
    setting("rule", "ip rule add tos 0x10 prohibit", "ip rule del tos 0x10 prohibit"),
    setting(
        "rule",
        "ip rule add ipproto udp dport 7000 prohibit",
        "ip rule del ipproto udp dport 7000 prohibit",
    ),
    setting(
        "rule",
        "ip rule add not from 10.0.0.0/24 prohibit",
        "ip rule del not from 10.0.0.0/24 prohibit",
    ),
    setting("rule", "ip rule add oif eth1 prohibit", "ip rule del oif eth1 prohibit"),
    setting(
        "rule",
        "ip rule add pref 100 lookup main suppress_prefixlength 16",
        "ip rule del pref 100",
    ),
    setting("rule", "ip rule add pref 50 goto 32767", "ip rule del pref 50"),
    setting("rule", "ip rule del pref 32766", "ip rule add pref 32766 lookup main"),
    setting(
        "rule",
        "ip -6 rule add from fd00:0::/64 prohibit",
        "ip -6 rule del from fd00:0::/64 prohibit",
    ),
    setting("rule", "ip -6 rule add iif eth1 blackhole", "ip -6 rule del iif eth1 blackhole"),
    setting(
        "rule",
        "ip -6 route add default via fd00:2::9 table 100; ip -6 rule add to fd09:1::/32 lookup 100",
        "ip -6 rule del to fd09:1::/32 lookup 100; ip -6 route flush table 100",
    ),
    setting("rule", "ip -6 rule add fwmark 7 prohibit", "ip -6 rule del fwmark 7 prohibit"),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add from 10.0.0.0/24 lookup 100",
        "ip rule del from 10.0.0.0/24 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add from 10.0.0.2 iif eth0 lookup 100",
        "ip rule del from 10.0.0.2 iif eth0 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add fwmark 0x7/0xff lookup 100",
        "ip rule del fwmark 0x7/0xff lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add fwmark 0/0x7 lookup 100",
        "ip rule del fwmark 0/0x7 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add tos 0x10 lookup 100",
        "ip rule del tos 0x10 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add uidrange 1-60000 lookup 100",
        "ip rule del uidrange 1-60000 lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add default via 10.0.2.9 table 100; ip rule add pref 40000 lookup 100",
        "ip rule del pref 40000; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add throw 10.9.1.0/24 table 100; ip rule add lookup 100",
        "ip rule del lookup 100; ip route flush table 100",
    ),
    setting(
        "rule",
        "ip route add blackhole 10.9.0.0/16 table 100; ip route add 10.9.1.0/24 via 10.0.2.9 table 101; ip rule add pref 10 lookup 100; ip rule add pref 9 iif eth0 lookup 101",
        "ip rule del pref 10; ip rule del pref 9; ip route flush table 100; ip route flush table 101",
    ),
    setting("rule", "ip rule add iif lo prohibit", "ip rule del iif lo prohibit"),
    setting(
        "rule",
        "ip rule add ipproto tcp sport 1000-1010 blackhole",
        "ip rule del ipproto tcp sport 1000-1010 blackhole",
    ),
    setting(
        "rule",
        "ip rule add from all to 10.0.2.0/24 iif eth1 unreachable",
        "ip rule del from all to 10.0.2.0/24 iif eth1 unreachable",
    ),
    setting("rule", "ip rule add pref 100 nop", "ip rule del pref 100"),
    setting(
        "rule",
        "ip rule del pref 0; ip rule add pref 200 lookup local",
        "ip rule add pref 0 lookup local; ip rule del pref 200",
    ),
    setting("rule", "ip rule add pref 100 lookup main suppress_ifgroup 0", "ip rule del pref 100"),
    setting(
        "rule",
        "ip -6 rule add from fd00:0::2 iif eth0 prohibit",
        "ip -6 rule del from fd00:0::2 iif eth0 prohibit",
    ),
    setting(
        "rule",
        "ip -6 rule add to fd09:1::/32 unreachable",
        "ip -6 rule del to fd09:1::/32 unreachable",
    ),
    setting("rule", "ip -6 rule add tos 0x10 prohibit", "ip -6 rule del tos 0x10 prohibit"),
    setting(
        "rule",
        "ip -6 rule add uidrange 5-1000 prohibit",
        "ip -6 rule del uidrange 5-1000 prohibit",
    ),
    setting("rule", "ip -6 rule add ipproto tcp blackhole", "ip -6 rule del ipproto tcp blackhole"),
    setting("rule", "ip -6 rule add not iif eth0 prohibit", "ip -6 rule del not iif eth0 prohibit"),
    setting(
        "rule",
        "ip -6 route add default via fd00:2::9 table 100; ip -6 rule add iif eth0 lookup 100",
        "ip -6 rule del iif eth0 lookup 100; ip -6 route flush table 100",
    ),
    setting(
        "rule",
        "ip -6 route add default via fd00:2::9 table 100; ip -6 rule add lookup 100",
        "ip -6 rule del lookup 100; ip -6 route flush table 100",
    ),
    setting(
        "rule",
        "ip -6 rule add pref 100 lookup main suppress_prefixlength 32",
        "ip -6 rule del pref 100",
    ),
    setting("rule", "ip -6 rule del pref 32766", "ip -6 rule add pref 32766 lookup main"),
    setting("rule", "ip rule add from 10.0.0.2 prohibit", "ip rule del from 10.0.0.2 prohibit"),
    setting(
        "rule",
        "ip -6 rule add from fd00:0::2 prohibit",
        "ip -6 rule del from fd00:0::2 prohibit",
    ),
    setting("rule", "ip -6 rule add iif eth0 prohibit", "ip -6 rule del iif eth0 prohibit"),
    setting(
        "rule",
        "ip -6 rule add fwmark 0x7/0xff prohibit",
        "ip -6 rule del fwmark 0x7/0xff prohibit",
    ),
    setting(
        "rule",
        "ip rule add uidrange 5-60000 blackhole",
        "ip rule del uidrange 5-60000 blackhole",
    ),
    // For IPv6 a forwarded packet has user 0 of the machine, which a slow path's user namespace does not
    // have: there Linux itself does not match a range from 0.
    setting(
        "rule",
        "ip -6 route add default via fd00:2::9 table 100; ip -6 rule add uidrange 1-60000 lookup 100",
        "ip -6 rule del uidrange 1-60000 lookup 100; ip -6 route flush table 100",
    ),
    setting("rule", "ip rule add tos 0x10 blackhole", "ip rule del tos 0x10 blackhole"),
    setting(
        "rule",
        "ip -6 route add default via fd00:2::9 table 100; ip -6 rule add tos 0x10 lookup 100",
        "ip -6 rule del tos 0x10 lookup 100; ip -6 route flush table 100",
    ),
];

/// Neighbours, and proxy entries for them.
pub(crate) const NEIGHBOURS: &[Setting] = &[
    setting(
        "neighbour",
        "ip neigh replace 10.0.1.2 lladdr 02:77:00:00:00:01 dev eth1 nud permanent",
        "ip neigh del 10.0.1.2 dev eth1",
    ),
    setting(
        "neighbour",
        "ip neigh replace 10.0.1.9 lladdr 02:77:00:00:00:02 dev eth1 nud noarp",
        "ip neigh del 10.0.1.9 dev eth1",
    ),
    setting(
        "neighbour",
        "ip -6 neigh replace fd00:1::9 lladdr 02:77:00:00:00:03 dev eth1 nud stale",
        "ip -6 neigh del fd00:1::9 dev eth1",
    ),
    setting(
        "neighbour",
        "ip neigh add proxy 10.9.1.7 dev eth0",
        "ip neigh del proxy 10.9.1.7 dev eth0",
    ),
    setting(
        "neighbour",
        "sysctl -qw net.ipv6.conf.all.proxy_ndp=1; ip -6 neigh add proxy fd09:1::7 dev eth0",
        "ip -6 neigh del proxy fd09:1::7 dev eth0; sysctl -qw net.ipv6.conf.all.proxy_ndp=0",
    ),
    setting("neighbour", "ip neigh flush all; ip -6 neigh flush all", "true"),
    setting(
        "neighbour",
        "ip neigh replace 10.0.2.2 lladdr 02:77:00:00:00:05 dev eth2 nud reachable",
        "ip neigh del 10.0.2.2 dev eth2",
    ),
    setting(
        "neighbour",
        "ip neigh replace 10.0.1.9 lladdr 02:77:00:00:00:06 dev eth1; ip neigh replace 10.0.1.9 lladdr 02:77:00:00:00:07 dev eth1",
        "ip neigh del 10.0.1.9 dev eth1",
    ),
    setting(
        "neighbour",
        "ip -6 neigh replace fd00:2::2 lladdr 02:77:00:00:00:08 dev eth2 nud permanent",
        "ip -6 neigh del fd00:2::2 dev eth2",
    ),
    setting(
        "neighbour",
        "ip neigh replace 10.9.1.7 lladdr 02:77:00:00:00:09 dev eth2; ip route add 10.9.1.7 dev eth2",
        "ip route del 10.9.1.7; ip neigh del 10.9.1.7 dev eth2",
    ),
    setting(
        "neighbour",
        "ip neigh replace 10.0.1.9 dev eth1 lladdr 01:00:5e:00:00:01 nud permanent",
        "ip neigh del 10.0.1.9 dev eth1",
    ),
    setting(
        "neighbour",
        "ip neigh add proxy 10.0.0.9 dev eth0",
        "ip neigh del proxy 10.0.0.9 dev eth0",
    ),
    setting(
        "neighbour",
        "sysctl -qw net.ipv6.conf.eth1.proxy_ndp=1; ip -6 neigh add proxy fd00:1::9 dev eth1",
        "ip -6 neigh del proxy fd00:1::9 dev eth1; sysctl -qw net.ipv6.conf.eth1.proxy_ndp=0",
    ),
    setting(
        "neighbour",
        "sysctl -qw net.ipv4.conf.eth0.proxy_arp_pvlan=1",
        "sysctl -qw net.ipv4.conf.eth0.proxy_arp_pvlan=0",
    ),
];

/// Addresses of interfaces.
pub(crate) const ADDRESSES: &[Setting] = &[
    setting("address", "ip addr add 10.9.1.7/32 dev lo", "ip addr del 10.9.1.7/32 dev lo"),
    setting("address", "ip addr add 10.9.1.1/24 dev eth2", "ip addr del 10.9.1.1/24 dev eth2"),
    setting("address", "ip addr del 10.0.2.1/24 dev eth2", "ip addr add 10.0.2.1/24 dev eth2"),
    setting("address", "ip addr add 10.0.2.2/24 dev eth2", "ip addr del 10.0.2.2/24 dev eth2"),
    setting("address", "ip addr add fd09:1::7/128 dev lo", "ip addr del fd09:1::7/128 dev lo"),
    setting(
        "address",
        "ip addr add 10.9.1.1 peer 10.9.1.7 dev eth2",
        "ip addr del 10.9.1.1 peer 10.9.1.7 dev eth2",
    ),
    setting("address", "ip addr add 10.0.1.5/24 dev eth1", "ip addr del 10.0.1.5/24 dev eth1"),
    setting("address", "ip addr add 10.77.0.1/31 dev eth2", "ip addr del 10.77.0.1/31 dev eth2"),
    setting(
        "address",
        "ip addr add 10.9.1.1/24 brd 10.9.1.7 dev eth2",
        "ip addr del 10.9.1.1/24 dev eth2",
    ),
    setting(
        "address",
        "ip addr add 10.9.1.1/24 dev eth2 noprefixroute",
        "ip addr del 10.9.1.1/24 dev eth2",
    ),
    setting("address", "ip addr add 10.0.2.9/32 dev eth0", "ip addr del 10.0.2.9/32 dev eth0"),
    setting(
        "address",
        "ip addr add fd00:2::2/64 dev eth2 nodad",
        "ip addr del fd00:2::2/64 dev eth2",
    ),
    setting(
        "address",
        "ip addr add fd09:1::1/32 dev eth2 nodad",
        "ip addr del fd09:1::1/32 dev eth2",
    ),
    setting(
        "address",
        "ip addr change fd00:1::1/64 dev eth1 preferred_lft 0",
        "ip addr change fd00:1::1/64 dev eth1 preferred_lft forever",
    ),
    setting(
        "address",
        "ip addr del fd00:2::1/64 dev eth2",
        "ip addr add fd00:2::1/64 dev eth2 nodad",
    ),
    setting(
        "address",
        "ip addr add 10.9.1.7/24 dev eth2 valid_lft 60 preferred_lft 30",
        "ip addr del 10.9.1.7/24 dev eth2",
    ),
];
