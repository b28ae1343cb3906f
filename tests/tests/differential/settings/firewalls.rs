//! Firewalls: nftables, iptables before it, and policies of IPsec.

use super::{Setting, legacy, nft, setting};

/// Filters, translations, changes, connections, sets.
pub(crate) const NFTABLES: &[Setting] = &[
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
    nft(
        "nft 'table ip m { chain c { type filter hook prerouting priority -150; iifname eth0 meta mark set 7; }; }'; ip rule add fwmark 7 prohibit",
    ),
    nft(
        "nft 'table ip m { set s { type ipv4_addr; flags timeout; elements = { 10.9.1.7 timeout 60s }; }; chain c { type filter hook forward priority 0; ip daddr @s counter drop; }; }'",
    ),
    nft(
        "nft 'table ip m { map m { type ipv4_addr : ipv4_addr; elements = { 10.9.1.7 : 10.0.2.2 }; }; chain c { type nat hook prerouting priority -100; dnat to ip daddr map @m; }; }'",
    ),
    nft(
        "nft 'table ip m { map v { type inet_service : verdict; elements = { 7000 : drop }; }; chain c { type filter hook forward priority 0; udp dport vmap @v; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; policy drop; ct state established,related accept; }; }'",
    ),
    nft(
        "nft 'table inet f { chain c { type filter hook forward priority 0; ct mark set 7; ct mark 7 drop; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook prerouting priority -300; notrack; }; chain d { type filter hook forward priority 0; ct state untracked drop; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; limit rate over 1000/second drop; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; jhash ip saddr mod 2 seed 0x1 0 drop; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; ip length > 1000 reject with icmp type admin-prohibited; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; }; }'; nft add rule ip f c iifname eth0 oifname eth1 drop; nft insert rule ip f c tcp dport 7000 accept",
    ),
    nft(
        "nft 'table ip f { chain used { tcp flags syn drop; }; chain c { type filter hook forward priority 0; jump used; }; }'",
    ),
    nft("nft 'table ip f { chain unused { drop; }; }'"),
    nft(
        "nft 'table ip f { flags dormant; chain c { type filter hook forward priority 0; policy drop; }; }'",
    ),
    nft(
        "nft 'table ip f { chain c { type filter hook forward priority 0; policy drop; }; }'; nft delete chain ip f c",
    ),
    nft("nft 'table bridge f { chain c { type filter hook forward priority 0; drop; }; }'"),
    nft("nft 'table arp f { chain c { type filter hook input priority 0; drop; }; }'"),
    nft(
        "nft 'table inet f { chain c { type filter hook ingress device eth1 priority 0; drop; }; }'",
    ),
    nft("nft 'table inet n { chain c { type nat hook postrouting priority 100; masquerade; }; }'"),
    nft(
        "nft 'table ip n { chain c { type nat hook prerouting priority -100; udp dport 7000 redirect to :9; }; }'",
    ),
    nft(
        "nft 'table ip6 n { chain c { type nat hook postrouting priority 100; oifname eth1 masquerade; }; }'",
    ),
    nft(
        "nft 'table ip6 n { chain c { type nat hook prerouting priority -100; ip6 daddr fd09:1::7 dnat to fd00:2::2; }; }'",
    ),
    nft(
        "nft 'table ip6 m { chain c { type filter hook forward priority 0; ip6 hoplimit set 9; }; }'",
    ),
    nft(
        "nft 'table ip6 f { set s { type ipv6_addr; flags interval; elements = { fd09::/16 }; }; chain c { type filter hook forward priority 0; ip6 daddr @s drop; }; }'",
    ),
    nft(
        "nft 'table ip m { chain c { type filter hook forward priority 0; tcp flags syn tcp option maxseg size set 900; }; }'",
    ),
    nft("nft 'table ip m { chain c { type route hook output priority 0; ip dscp set 8; }; }'"),
    nft(
        "nft 'table netdev f { chain c { type filter hook ingress device eth0 priority 0; ip daddr 10.9.1.7 fwd to eth2; }; }'",
    ),
    nft(
        "nft 'table inet f { flowtable t { hook ingress priority 0; devices = { eth0, eth1 }; }; chain c { type filter hook forward priority 0; flow add @t; }; }'",
    ),
];

/// `iptables-legacy`.
pub(crate) const LEGACY: &[Setting] = &[
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
    legacy(
        "iptables-legacy -t mangle -A PREROUTING -i eth0 -j MARK --set-mark 7; ip rule add fwmark 7 prohibit",
        "iptables-legacy -t mangle -F; ip rule del fwmark 7 prohibit",
    ),
    legacy(
        "iptables-legacy -A FORWARD -m conntrack --ctstate NEW -p tcp -j DROP",
        "iptables-legacy -F",
    ),
    legacy("iptables-legacy -A FORWARD -m length --length 1000:2000 -j DROP", "iptables-legacy -F"),
    legacy(
        "iptables-legacy -t nat -A PREROUTING -d 10.9.1.7 -j DNAT --to-destination 10.0.2.2",
        "iptables-legacy -t nat -F",
    ),
    legacy(
        "iptables-legacy -t mangle -A POSTROUTING -j DSCP --set-dscp 8",
        "iptables-legacy -t mangle -F",
    ),
    legacy(
        "iptables-legacy -t security -A FORWARD -i eth1 -j DROP",
        "iptables-legacy -t security -F",
    ),
    legacy("iptables-legacy -A INPUT -j DROP", "iptables-legacy -F"),
    legacy("ip6tables-legacy -A FORWARD -d fd09:1::7 -j DROP", "ip6tables-legacy -F"),
    legacy(
        "ip6tables-legacy -t mangle -A FORWARD -j HL --hl-set 9",
        "ip6tables-legacy -t mangle -F",
    ),
    legacy(
        "ip6tables-legacy -t nat -A POSTROUTING -o eth1 -j MASQUERADE",
        "ip6tables-legacy -t nat -F",
    ),
    Setting {
        needs: &["iptables-legacy", "ipset"],
        ..legacy(
            "ipset create s hash:ip; ipset add s 10.9.1.7; iptables-legacy -A FORWARD -m set --match-set s dst -j DROP",
            "iptables-legacy -F; sleep 0.1; ipset destroy s",
        )
    },
];

/// IPsec.
pub(crate) const XFRM: &[Setting] = &[
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
    setting(
        "xfrm",
        "ip xfrm policy add dir fwd src fd00:0::/64 dst ::/0 action block",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir fwd src 10.0.0.0/24 dst 0.0.0.0/0 action allow",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir out src 0.0.0.0/0 dst 0.0.0.0/0 proto udp dport 7000 action block",
        "ip xfrm policy flush",
    ),
    setting(
        "xfrm",
        "ip xfrm policy add dir fwd src 0.0.0.0/0 dst 0.0.0.0/0 action block; ip xfrm policy add dir fwd src 10.0.0.0/24 dst 0.0.0.0/0 priority 1 action allow; ip xfrm policy flush",
        "true",
    ),
    setting("xfrm", "ip xfrm policy setdefault out block", "ip xfrm policy setdefault out accept"),
    setting(
        "xfrm",
        "ip xfrm state add src 10.0.1.1 dst 10.0.1.9 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
    setting(
        "xfrm",
        "ip xfrm state add src 10.0.1.1 dst 10.0.1.9 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''; ip xfrm policy add dir out src 10.0.0.0/24 dst 10.9.0.0/16 tmpl src 10.0.1.1 dst 10.0.1.9 proto esp mode tunnel",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
    setting(
        "xfrm",
        "ip xfrm state add src 10.0.1.1 dst 10.0.1.9 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''; ip xfrm policy add dir out src 0.0.0.0/0 dst 10.9.1.7 tmpl src 10.0.1.1 dst 10.0.1.9 proto esp mode tunnel level required; ip xfrm policy add dir fwd src 10.0.0.0/24 dst 0.0.0.0/0 action allow",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
    setting(
        "xfrm",
        "ip xfrm state add src fd00:1::1 dst fd00:1::9 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''; ip xfrm policy add dir out src fd00:0::/64 dst fd09::/16 tmpl src fd00:1::1 dst fd00:1::9 proto esp mode tunnel",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
    setting(
        "xfrm",
        "ip xfrm state add src 10.0.1.1 dst 10.0.1.9 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''; ip xfrm policy add dir out src fd00:0::/64 dst fd09::/16 tmpl src 10.0.1.1 dst 10.0.1.9 proto esp mode tunnel",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
    setting(
        "xfrm",
        "ip xfrm state add src 10.0.0.9 dst 10.0.0.1 proto esp spi 1 mode tunnel enc 'ecb(cipher_null)' '' auth 'digest_null' ''; ip xfrm policy add dir fwd src 10.0.0.0/24 dst 0.0.0.0/0 tmpl src 10.0.0.9 dst 10.0.0.1 proto esp mode tunnel",
        "ip xfrm policy flush; ip xfrm state flush",
    )
    .on("ESP"),
];
