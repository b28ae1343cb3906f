//! Queueing disciplines, settings of the kernel, multicast routes.

use super::{Setting, setting, sysctl, tc};

/// Queueing disciplines and their filters.
pub(crate) const TC: &[Setting] = &[
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
    tc("tc qdisc add dev eth2 root pfifo limit 1000", "tc qdisc del dev eth2 root"),
    tc("tc qdisc add dev eth1 root pfifo_fast", "tc qdisc del dev eth1 root"),
    tc(
        "tc qdisc add dev eth0 root tbf rate 10mbit burst 3000 limit 20000",
        "tc qdisc del dev eth0 root",
    ),
    tc(
        "tc qdisc add dev eth2 root tbf rate 200kbit burst 1600 limit 3000",
        "tc qdisc del dev eth2 root",
    ),
    tc(
        "tc qdisc add dev eth2 root tbf rate 1mbit burst 2000 latency 2s",
        "tc qdisc del dev eth2 root",
    ),
    tc("tc qdisc add dev eth0 root bfifo limit 1000000", "tc qdisc del dev eth0 root"),
    tc(
        "tc qdisc add dev eth2 root handle 1: htb default 2; tc class add dev eth2 parent 1: classid 1:1 htb rate 10mbit; tc class add dev eth2 parent 1:1 classid 1:2 htb rate 1mbit ceil 10mbit",
        "tc qdisc del dev eth2 root",
    ),
    tc(
        "tc qdisc add dev eth1 root handle 1: htb; tc class add dev eth1 parent 1: classid 1:1 htb rate 10mbit; tc filter add dev eth1 parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:1",
        "tc qdisc del dev eth1 root",
    ),
    tc(
        "tc qdisc add dev eth1 ingress; tc filter add dev eth1 parent ffff: protocol ip u32 match u32 0 0 action mirred egress mirror dev eth2",
        "tc qdisc del dev eth1 ingress",
    ),
    tc(
        "tc qdisc add dev eth1 clsact; tc filter add dev eth1 egress protocol ip u32 match u32 0 0 action mirred egress redirect dev eth2",
        "tc qdisc del dev eth1 clsact",
    ),
    tc("tc qdisc add dev eth1 root netem loss 100%", "tc qdisc del dev eth1 root").on("netem"),
    tc("tc qdisc add dev eth1 root netem delay 20ms", "tc qdisc del dev eth1 root").on("netem"),
    tc("tc qdisc add dev eth1 root fq_codel", "tc qdisc del dev eth1 root").on("fq_codel"),
    tc("tc qdisc add dev eth1 root handle 1: prio", "tc qdisc del dev eth1 root").on("prio"),
    tc("tc qdisc add dev eth1 root sfq", "tc qdisc del dev eth1 root").on("sfq"),
    tc("tc qdisc add dev eth1 root fq", "tc qdisc del dev eth1 root").on("fq"),
    tc("tc qdisc add dev eth1 root codel", "tc qdisc del dev eth1 root").on("codel"),
    tc("tc qdisc add dev eth1 root pie", "tc qdisc del dev eth1 root").on("pie"),
    tc(
        "tc qdisc add dev eth2 root handle 1: htb default 3; tc class add dev eth2 parent 1: classid 1:3 htb rate 2mbit ceil 2mbit burst 15k",
        "tc qdisc del dev eth2 root",
    ),
    tc(
        "tc qdisc add dev eth1 root handle 1: htb default 1; tc class add dev eth1 parent 1: classid 1:1 htb rate 10mbit; tc qdisc add dev eth1 parent 1:1 handle 2: pfifo limit 1000",
        "tc qdisc del dev eth1 root",
    ),
];

/// Settings of the kernel.
pub(crate) const SYSCTLS: &[Setting] = &[
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
    sysctl(
        "sysctl -qw net.ipv4.conf.all.bc_forwarding=1",
        "sysctl -qw net.ipv4.conf.all.bc_forwarding=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.accept_local=1",
        "sysctl -qw net.ipv4.conf.eth0.accept_local=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.route_localnet=1",
        "sysctl -qw net.ipv4.conf.all.route_localnet=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.icmp_echo_ignore_all=1",
        "sysctl -qw net.ipv4.icmp_echo_ignore_all=0",
    ),
    sysctl("sysctl -qw net.ipv4.ip_default_ttl=9", "sysctl -qw net.ipv4.ip_default_ttl=64"),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.accept_source_route=1",
        "sysctl -qw net.ipv4.conf.all.accept_source_route=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.arp_ignore=8",
        "sysctl -qw net.ipv4.conf.eth0.arp_ignore=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.disable_policy=1",
        "sysctl -qw net.ipv4.conf.eth0.disable_policy=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth1.ignore_routes_with_linkdown=0",
        "sysctl -qw net.ipv4.conf.eth1.ignore_routes_with_linkdown=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.ip_forward_use_pmtu=1",
        "sysctl -qw net.ipv4.ip_forward_use_pmtu=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.ip_forward_update_priority=0",
        "sysctl -qw net.ipv4.ip_forward_update_priority=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.drop_unicast_in_l2_multicast=1",
        "sysctl -qw net.ipv4.conf.eth0.drop_unicast_in_l2_multicast=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.src_valid_mark=1",
        "sysctl -qw net.ipv4.conf.all.src_valid_mark=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.shared_media=0",
        "sysctl -qw net.ipv4.conf.all.shared_media=1",
    ),
    sysctl("sysctl -qw net.ipv4.ip_early_demux=0", "sysctl -qw net.ipv4.ip_early_demux=1"),
    sysctl(
        "sysctl -qw net.ipv4.icmp_errors_use_inbound_ifaddr=1",
        "sysctl -qw net.ipv4.icmp_errors_use_inbound_ifaddr=0",
    ),
    sysctl(
        "sysctl -qw net.ipv4.icmp_echo_ignore_broadcasts=0",
        "sysctl -qw net.ipv4.icmp_echo_ignore_broadcasts=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.fib_multipath_hash_policy=0",
        "sysctl -qw net.ipv4.fib_multipath_hash_policy=1",
    ),
    sysctl(
        "sysctl -qw net.ipv6.conf.eth0.forwarding=0",
        "sysctl -qw net.ipv6.conf.eth0.forwarding=1",
    ),
    sysctl("sysctl -qw net.ipv6.conf.all.proxy_ndp=1", "sysctl -qw net.ipv6.conf.all.proxy_ndp=0"),
    sysctl(
        "sysctl -qw net.ipv6.icmp.echo_ignore_all=1",
        "sysctl -qw net.ipv6.icmp.echo_ignore_all=0",
    ),
    sysctl(
        "sysctl -qw net.ipv6.conf.eth0.drop_unicast_in_l2_multicast=1",
        "sysctl -qw net.ipv6.conf.eth0.drop_unicast_in_l2_multicast=0",
    ),
    sysctl("sysctl -qw net.ipv6.conf.eth2.mtu=1280", "sysctl -qw net.ipv6.conf.eth2.mtu=1500"),
    sysctl(
        "sysctl -qw net.ipv6.conf.eth0.hop_limit=9",
        "sysctl -qw net.ipv6.conf.eth0.hop_limit=64",
    ),
    sysctl(
        "sysctl -qw net.ipv6.conf.all.seg6_enabled=1",
        "sysctl -qw net.ipv6.conf.all.seg6_enabled=0",
    ),
    sysctl(
        "sysctl -qw net.ipv6.conf.all.force_forwarding=1",
        "sysctl -qw net.ipv6.conf.all.force_forwarding=0",
    ),
    sysctl(
        "sysctl -qw net.ipv6.conf.eth0.accept_ra=2",
        "sysctl -qw net.ipv6.conf.eth0.accept_ra=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.all.forwarding=0",
        "sysctl -qw net.ipv4.conf.all.forwarding=1",
    ),
    sysctl(
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=1 net.ipv4.conf.eth1.rp_filter=2 net.ipv4.conf.eth2.rp_filter=1",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=0 net.ipv4.conf.eth1.rp_filter=0 net.ipv4.conf.eth2.rp_filter=0",
    ),
];

/// Multicast routes.
pub(crate) const MULTICAST: &[Setting] = &[
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 10.0.0.2 239.1.2.3 eth0 eth1",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 10.0.0.2 239.1.2.3 eth0 eth1 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 10.0.0.2 239.1.2.3 eth0 eth1:32 eth2:65",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 10.0.0.2 239.1.2.3 eth1 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 0.0.0.0 239.1.2.3 eth0 eth1 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX fd00::2 ff05::123 eth0 eth1 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX fd00::2 ff05::123 eth0 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX fd00::2 ff05::123 eth1 eth2",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
    Setting {
        needs: &["python3"],
        ..setting(
            "multicast",
            "python3 $MROUTE $LINUX 10.0.0.2 239.9.9.9 eth0 eth1",
            "kill $(cat /run/europa/$LINUX.mroute); rm /run/europa/$LINUX.mroute",
        )
    },
];
