//! Links: their state, and devices above them.

use super::{Setting, setting};

/// State, MTU, Ethernet address.
pub(crate) const LINKS: &[Setting] = &[
    setting("link", "ip link set eth2 down", UP2),
    setting("link", "ip link set eth1 down", UP1),
    setting("link", "ip link set eth2 down; ip link set eth2 up", UP2),
    setting("link", "ip link set eth2 address 02:00:5e:00:01:01", "ip link set eth2 address $MAC2"),
    setting("link", "ip link set eth0 address 02:00:5e:00:01:01", "ip link set eth0 address $MAC0"),
    setting("link", "ip link set eth1 address 02:00:5e:00:01:01", "ip link set eth1 address $MAC1"),
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
    setting("link", "ip link set eth0 down", UP0),
    setting(
        "link",
        "ip link set eth2 mtu 1000",
        "ip link set eth2 mtu 1500; ip addr replace fd00:2::1/64 dev eth2 nodad",
    ),
    setting("link", "ip link set eth0 down; ip link set eth0 up", UP0),
    setting("link", "ip link set eth1 down; sleep 0.1; ip link set eth1 up", UP1),
    setting("link", "ip link set eth2 mtu 1400", "ip link set eth2 mtu 1500"),
    setting("link", "ip link set eth2 mtu 9000", "ip link set eth2 mtu 1500"),
    setting("link", "ip link set eth1 allmulticast on", "ip link set eth1 allmulticast off"),
    setting("link", "ip link set eth1 multicast off", "ip link set eth1 multicast on"),
    setting(
        "link",
        "ip link set eth2 address 02:00:5e:00:01:01; ip link set eth0 address 02:00:5e:00:01:01",
        "ip link set eth2 address $MAC2; ip link set eth0 address $MAC0",
    ),
    setting(
        "link",
        "ip link set eth0 address $MAC1; ip link set eth1 address $MAC0",
        "ip link set eth0 address $MAC0; ip link set eth1 address $MAC1",
    ),
    setting("link", "ip link set eth1 group 7", "ip link set eth1 group 0"),
    setting("link", "ip link set eth0 txqueuelen 3", "ip link set eth0 txqueuelen 1000"),
    setting(
        "link",
        "ip link set eth1 alias wan; ip link property add dev eth1 altname wan0",
        "ip link property del dev eth1 altname wan0",
    ),
    setting("link", "ip link set lo down", "ip link set lo up"),
];

/// Bridges, macvlans, tunnels.
pub(crate) const MASTERS: &[Setting] = &[
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
        "ip link add vx0 address 02:00:00:00:00:77 type vxlan id 9 dstport 4789 remote fd00:1::9 dev eth1 udp6zerocsumtx udp6zerocsumrx; sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1; ip link set vx0 up; ip addr add 10.9.1.1/24 dev vx0; ip neigh add 10.9.1.7 lladdr 02:77:00:00:00:09 dev vx0",
        "ip link del vx0",
    ),
    setting(
        "master",
        "ip link add vx0 address 02:00:00:00:00:77 type vxlan id 9 dstport 4789 local 10.0.1.1 dev eth1; sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1; ip link set vx0 up; ip addr add 10.9.1.1/24 dev vx0; ip neigh add 10.9.1.7 lladdr 02:77:00:00:00:09 dev vx0; bridge fdb append 02:77:00:00:00:09 dev vx0 dst 10.0.1.9",
        "ip link del vx0",
    ),
    setting(
        "master",
        "ip link add vx0 address 02:00:00:00:00:77 type vxlan id 9 dstport 4789 remote 10.0.2.9 dev eth2 ttl 3 tos 0x10; sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1; ip link set vx0 up; ip addr add 10.9.1.1/24 dev vx0; ip neigh add 10.9.1.7 lladdr 02:77:00:00:00:09 dev vx0",
        "ip link del vx0",
    ),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set red up; ip link set eth2 master red; ip link set eth1 master red",
        "ip link del red",
    )
    .on("VRF"),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set red up; ip link set eth2 master red; ip route add 10.9.1.0/24 vrf red via 10.0.2.9",
        "ip link del red",
    )
    .on("VRF"),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set red up; ip link set eth2 master red; ip -6 route add fd09:1::/32 vrf red via fd00:2::9",
        "ip link del red",
    )
    .on("VRF"),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set red up; ip link set eth2 master red; ip link set eth0 master red",
        "ip link del red",
    )
    .on("VRF"),
    setting(
        "master",
        "ip link add red type vrf table 100; ip link set eth2 master red; ip link set red up",
        "ip link del red",
    )
    .on("VRF"),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0; ip link set eth0 master br0; ip link set eth1 master br0; sysctl -qw net.ipv6.conf.br0.disable_ipv6=1; ip link set eth2 master br0; ip link set br0 up",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0; ip link set eth2 master br0",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0; ip link set eth1 master br0; ip link set eth2 master br0; ip link set br0 up; ip link set eth1 type bridge_slave isolated on; ip link set eth2 type bridge_slave isolated on",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0 vlan_filtering 1; ip link set eth0 master br0; ip link set eth2 master br0; ip link set br0 up",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add br0 type bridge mcast_snooping 0; ip link add vx0 type vxlan id 9 dstport 4789 remote 10.0.1.9 dev eth1; sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1 net.ipv6.conf.br0.disable_ipv6=1; ip link set vx0 master br0; ip link set eth2 master br0; ip link set vx0 up; ip link set br0 up",
        "ip link del br0; ip link del vx0",
    ),
    setting(
        "master",
        "ip link add br0 address 02:00:5e:00:01:01 type bridge mcast_snooping 0; ip link set br0 up; ip addr add 10.9.1.1/24 dev br0",
        "ip link del br0",
    ),
    setting(
        "master",
        "ip link add pub link eth1 address 02:00:5e:00:01:01 type macvlan mode vepa; ip link set pub up; ip addr add 10.9.1.1/24 dev pub",
        "ip link del pub",
    ),
    setting(
        "master",
        "ip link add src link eth1 address 02:00:5e:00:01:01 type macvlan mode source; ip link set src up; ip link set src type macvlan macaddr add 02:10:01:00:00:02; ip addr add 10.0.1.77/32 dev src",
        "ip link del src",
    ),
    setting(
        "master",
        "ip link add tap0 link eth2 address 02:00:5e:00:01:01 type macvtap mode bridge; ip link set tap0 up",
        "ip link del tap0",
    ),
    setting(
        "master",
        "ip link add va address 02:00:00:00:00:0a type veth peer name vb address 02:00:00:00:00:0b; ip link set va up; ip link set vb up; ip addr add 10.9.1.1/24 dev va; ip neigh add 10.9.1.7 lladdr 02:00:00:00:00:0b dev va",
        "ip link del va",
    ),
    setting(
        "master",
        "ip tuntap add dev tun0 mode tun; ip link set tun0 up; ip route add 10.9.1.0/24 dev tun0",
        "ip link del tun0",
    ),
    setting(
        "master",
        "ip link add link eth1 name ipv0 type ipvlan mode l2; ip link set ipv0 up; ip addr add 10.0.1.77/24 dev ipv0",
        "ip link del ipv0",
    ),
    setting(
        "master",
        "ip link add gre0a type gre local 10.0.1.1 remote 10.0.1.9; ip link set gre0a up; ip route add 10.9.1.0/24 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add gre0a type gre local 10.0.1.1 remote 10.0.1.9 key 7 csum; ip link set gre0a up; ip route add 10.9.1.0/24 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add gre0a type gre local 10.0.1.1 remote 10.0.1.9 ttl 9 tos 0x10; ip link set gre0a up; ip route add 10.9.1.0/24 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add gre0a type gre local 10.0.1.1 remote 10.0.1.9 nopmtudisc; ip link set gre0a up; ip -6 route add fd09:1::/32 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add gre0a address 02:00:00:00:00:0a type gretap local 10.0.1.1 remote 10.0.1.9; sysctl -qw net.ipv6.conf.gre0a.disable_ipv6=1; ip link set gre0a up; ip addr add 10.9.1.1/24 dev gre0a; ip neigh add 10.9.1.7 lladdr 02:77:00:00:00:09 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add gre0a type ip6gre local fd00:1::1 remote fd00:1::9; ip link set gre0a up; ip route add 10.9.1.0/24 dev gre0a",
        "ip link del gre0a",
    )
    .on("GRE"),
    setting(
        "master",
        "ip link add bond0 type bond; ip link set eth2 down; ip link set eth2 master bond0; ip link set bond0 up",
        "ip link del bond0",
    ),
];

const UP0: &str = "ip link set eth0 up; ip addr replace fd00:0::1/64 dev eth0 nodad";
const UP1: &str = "ip link set eth1 up; ip addr replace fd00:1::1/64 dev eth1 nodad; \
     ip route replace 10.9.0.0/16 via 10.0.1.9; ip -6 route replace fd09::/16 via fd00:1::9";
const UP2: &str = "ip link set eth2 up; ip addr replace fd00:2::1/64 dev eth2 nodad";
