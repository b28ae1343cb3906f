//! Users' settings of a router's Linux: commands that make them, and that remove them.

/// A setting.
pub(crate) struct Setting {
    /// Its subject.
    pub(crate) kind: &'static str,
    pub(crate) set: &'static str,
    pub(crate) undo: &'static str,
    /// Programs beside `ip` that it needs.
    pub(crate) needs: &'static [&'static str],
}

impl Setting {
    /// It spreads flows over several ways: which one a flow goes is not compared.
    pub(crate) fn spreads(&self) -> bool {
        self.set.matches("nexthop via").count() > 1 || self.set.contains("group")
    }

    /// It leaves something behind that nothing takes away.
    pub(crate) fn stays(&self) -> bool {
        self.kind == "iptables"
    }
}

const fn setting(kind: &'static str, set: &'static str, undo: &'static str) -> Setting {
    Setting { kind, set, undo, needs: &[] }
}

const fn nft(set: &'static str) -> Setting {
    Setting { kind: "nftables", set, undo: "nft flush ruleset", needs: &["nft"] }
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

/// All of them. Interfaces are eth0 to eth2 with 10.0.N.1/24 and fd00:N::1/64; 10.9.0.0/16 and
/// fd09::/16 lie behind eth1.
pub(crate) const ALL: &[Setting] = &[
    setting("nothing", "true", "true"),
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
    setting(
        "route",
        "ip route add 10.9.1.0/24 via 10.0.2.9 mtu lock 1000",
        "ip route del 10.9.1.0/24",
    ),
    setting(
        "route",
        "ip route add 10.9.1.0/24 tos 16 via 10.0.2.9",
        "ip route del 10.9.1.0/24 tos 16",
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
    setting("rule", "ip rule add tos 16 prohibit", "ip rule del tos 16 prohibit"),
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
    setting("link", "ip link set eth2 down", UP2),
    setting("link", "ip link set eth1 down", UP1),
    setting("link", "ip link set eth2 down; ip link set eth2 up", UP2),
    setting("link", "ip link set eth2 address 02:00:5e:00:01:01", "ip link set eth2 address $MAC2"),
    setting("link", "ip link set eth0 address 02:00:5e:00:01:01", "ip link set eth0 address $MAC0"),
    setting("link", "ip link set eth1 mtu 1300", "ip link set eth1 mtu 1500"),
    setting("link", "ip link set eth0 mtu 1280", "ip link set eth0 mtu 1500"),
    setting(
        "link",
        "ip link set eth1 down; ip link set eth1 name wan; ip link set wan up",
        "ip link set wan down; ip link set wan name eth1; ip link set eth1 up; \
         ip addr replace fd00:1::1/64 dev eth1 nodad; ip route replace 10.9.0.0/16 via 10.0.1.9; \
         ip -6 route replace fd09::/16 via fd00:1::9",
    ),
    setting("link", "ip link set eth0 promisc on", "ip link set eth0 promisc off"),
    setting("link", "ip link set eth1 arp off", "ip link set eth1 arp on"),
    setting(
        "master",
        "ip link add vrrp link eth2 address 02:00:5e:00:01:01 type macvlan mode bridge; \
         ip addr add 10.0.2.77/32 dev vrrp; ip link set vrrp up",
        "ip link del vrrp",
    ),
    setting(
        "master",
        "ip link add vrrp link eth0 address 02:00:5e:00:01:01 type macvlan mode private; \
         ip addr add 10.0.0.77/24 dev vrrp; ip link set vrrp up",
        "ip link del vrrp",
    ),
    setting(
        "master",
        "ip link add pass link eth2 type macvlan mode passthru; ip link set pass up",
        "ip link del pass",
    ),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0; ip link set eth1 master br0; ip link set eth2 master br0; \
         ip link set br0 up",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add br0 address 02:00:5e:00:01:01 type bridge mcast_snooping 0; ip link set eth2 master br0; \
         ip link set br0 up; ip addr add 10.9.1.1/24 dev br0",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add vx0 address 02:00:00:00:00:77 type vxlan id 9 dstport 4789 remote 10.0.1.9 dev eth1; \
         sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1; ip link set vx0 up; \
         ip addr add 10.9.1.1/24 dev vx0; ip neigh add 10.9.1.7 lladdr 02:77:00:00:00:09 dev vx0",
        "ip link del vx0",
    ),
    setting(
        "master",
        "ip link add link eth2 name eth2.5 type vlan id 5; ip link set eth2.5 up; \
         ip addr add 10.9.1.1/24 dev eth2.5",
        "ip link del eth2.5",
    ),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set eth2 master red; ip link set red up",
        "ip link del red",
    ),
    nft("nft 'table ip f { chain c { type filter hook forward priority 0; policy drop; }; }'"),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; ip daddr 10.9.1.0/24 drop; }; }'",
    ),
    nft("nft 'table ip f { chain c { type filter hook input priority 0; drop; }; }'"),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; udp dport 7000 reject; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook prerouting priority -300; ip saddr 10.0.0.2 drop; }; }'",
    ),
    nft(
        "nft 'table ip n { chain c { type nat hook postrouting priority 100; oifname eth1 masquerade; }; }'",
    ),
    nft(
        "nft 'table ip n { chain c { type nat hook prerouting priority -100; ip daddr 10.9.1.7 dnat to 10.0.2.2; }; }'",
    ),
    nft(
        "nft 'table ip n { chain c { type nat hook postrouting priority 100; snat to 10.0.1.50; }; }'",
    ),
    nft("nft 'table ip m { chain c { type filter hook postrouting priority 0; ip ttl set 7; }; }'"),
    nft(
        "nft 'table ip m { chain c { type filter hook prerouting priority -150; ip dscp set 8; }; }'",
    ),
    nft(
        "nft 'table inet c { chain c { type filter hook forward priority 0; ct state new drop; }; }'",
    ),
    nft(
        "nft 'table inet c { chain c { type filter hook forward priority 0; ct state invalid drop; }; }'",
    ),
    nft("nft 'table ip s { set s { type ipv4_addr; elements = { 10.9.1.7, 10.0.2.2 }; }; \
         chain c { type filter hook forward priority 0; ip daddr @s drop; }; }'"),
    nft("nft 'table ip6 f { chain c { type filter hook forward priority 0; policy drop; }; }'"),
    nft(
        "nft 'table ip6 f { chain c { type filter hook forward priority 0; meta l4proto tcp reject; }; }'",
    ),
    nft(
        "nft 'table inet f { chain c { type filter hook postrouting priority 0; meta length > 1000 drop; }; }'",
    ),
    nft(
        "nft 'table netdev f { chain c { type filter hook ingress device eth0 priority 0; ip protocol udp drop; }; }'",
    ),
    nft(
        "nft 'table netdev f { chain c { type filter hook egress device eth1 priority 0; ip protocol udp drop; }; }'",
    ),
    nft("nft 'table ip f { chain c { type filter hook output priority 0; drop; }; }'"),
    legacy("iptables-legacy -P FORWARD DROP", "iptables-legacy -P FORWARD ACCEPT"),
    legacy("iptables-legacy -A FORWARD -d 10.9.1.0/24 -j REJECT", "iptables-legacy -F FORWARD"),
    legacy(
        "iptables-legacy -t nat -A POSTROUTING -o eth1 -j MASQUERADE",
        "iptables-legacy -t nat -F",
    ),
    legacy(
        "iptables-legacy -t mangle -A PREROUTING -j TTL --ttl-set 9",
        "iptables-legacy -t mangle -F",
    ),
    legacy("iptables-legacy -t raw -A PREROUTING -s 10.0.0.2 -j DROP", "iptables-legacy -t raw -F"),
    legacy("ip6tables-legacy -P FORWARD DROP", "ip6tables-legacy -P FORWARD ACCEPT"),
    setting(
        "xfrm",
        "ip xfrm policy add dir out src 0.0.0.0/0 dst 10.9.1.0/24 action block",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir fwd src 10.0.0.0/24 dst 0.0.0.0/0 action block",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir out src 10.0.0.0/24 dst 10.9.0.0/16 \
         tmpl src 10.0.1.1 dst 10.0.1.9 proto esp mode tunnel",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir in src 10.0.0.0/24 dst 0.0.0.0/0 action block",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir out src ::/0 dst fd09::/16 action block",
        "ip xfrm policy flush",
    ),
    setting("xfrm", "ip xfrm policy setdefault fwd block", "ip xfrm policy setdefault fwd accept"),
    tc(
        "tc qdisc add dev eth1 root tbf rate 100mbit burst 5000 limit 10000",
        "tc qdisc del dev eth1 root",
    ),
    tc(
        "tc qdisc add dev eth1 root tbf rate 80kbit burst 200 limit 4000",
        "tc qdisc del dev eth1 root",
    ),
    tc(
        "tc qdisc add dev eth1 root handle 1: htb default 1; \
         tc class add dev eth1 parent 1: classid 1:1 htb rate 1mbit burst 2k",
        "tc qdisc del dev eth1 root",
    ),
    tc(
        "tc qdisc add dev eth1 root handle 1: htb default 9; \
         tc class add dev eth1 parent 1: classid 1:1 htb rate 10mbit",
        "tc qdisc del dev eth1 root",
    ),
    tc(
        "tc qdisc add dev eth0 ingress; tc filter add dev eth0 parent ffff: protocol ip u32 \
         match ip protocol 17 0xff action mirred egress redirect dev eth2",
        "tc qdisc del dev eth0 ingress",
    ),
    tc("tc qdisc add dev eth0 clsact", "tc qdisc del dev eth0 clsact"),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=0",
    ),
    sysctl("sysctl -qw net.ipv4.conf.all.rp_filter=2", "sysctl -qw net.ipv4.conf.all.rp_filter=0"),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.forwarding=0",
        "sysctl -qw net.ipv4.conf.eth0.forwarding=1",
    ),
    sysctl("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1"),
    sysctl(
        "sysctl -qw net.ipv6.conf.all.forwarding=0",
        "sysctl -qw net.ipv6.conf.all.forwarding=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0",
        "sysctl -qw net.ipv4.conf.all.send_redirects=1 net.ipv4.conf.eth0.send_redirects=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.accept_local=1",
        "sysctl -qw net.ipv4.conf.all.accept_local=0",
    ),
    sysctl("sysctl -qw net.ipv6.conf.eth1.mtu=1300", "sysctl -qw net.ipv6.conf.eth1.mtu=1500"),
    sysctl(
        "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1",
        "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=0; ip addr replace fd00:1::1/64 dev eth1 nodad; \
         ip -6 route replace fd09::/16 via fd00:1::9",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.proxy_arp=1",
        "sysctl -qw net.ipv4.conf.eth0.proxy_arp=0",
    ),
];

const UP1: &str = "ip link set eth1 up; ip addr replace fd00:1::1/64 dev eth1 nodad; \
     ip route replace 10.9.0.0/16 via 10.0.1.9; ip -6 route replace fd09::/16 via fd00:1::9";
const UP2: &str = "ip link set eth2 up; ip addr replace fd00:2::1/64 dev eth2 nodad";
