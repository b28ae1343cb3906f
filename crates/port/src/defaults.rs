//! The kernel's own settings of devices. A new namespace begins with those of the machine
//! (`net.core.devconf_inherit_init_net`), which an administrator or a distribution may have
//! changed.

use std::fs;
use std::io;
use std::path::Path;

use crate::namespace::{Namespace, in_namespace};

/// Settings of IPv4 for all devices, and their values in `net/ipv4/devinet.c`.
const IPV4: [(&str, &str); 30] = [
    ("accept_local", "0"),
    ("accept_redirects", "1"),
    ("arp_accept", "0"),
    ("arp_announce", "0"),
    ("arp_evict_nocarrier", "1"),
    ("arp_filter", "0"),
    ("arp_ignore", "0"),
    ("arp_notify", "0"),
    ("bc_forwarding", "0"),
    ("bootp_relay", "0"),
    ("disable_policy", "0"),
    ("disable_xfrm", "0"),
    ("drop_gratuitous_arp", "0"),
    ("drop_unicast_in_l2_multicast", "0"),
    ("force_igmp_version", "0"),
    ("igmpv2_unsolicited_report_interval", "10000"),
    ("igmpv3_unsolicited_report_interval", "1000"),
    ("ignore_routes_with_linkdown", "0"),
    ("log_martians", "0"),
    ("medium_id", "0"),
    ("promote_secondaries", "0"),
    ("proxy_arp", "0"),
    ("proxy_arp_pvlan", "0"),
    ("route_localnet", "0"),
    ("rp_filter", "0"),
    ("secure_redirects", "1"),
    ("send_redirects", "1"),
    ("shared_media", "1"),
    ("src_valid_mark", "0"),
    ("tag", "0"),
];

/// Settings of IPv6, with values of `net/ipv6/addrconf.c`.
const IPV6: [(&str, &str); 21] = [
    ("accept_ra", "1"),
    ("accept_ra_defrtr", "1"),
    ("accept_ra_from_local", "0"),
    ("accept_ra_mtu", "1"),
    ("accept_ra_pinfo", "1"),
    ("accept_ra_rtr_pref", "1"),
    ("accept_redirects", "1"),
    ("accept_source_route", "0"),
    ("addr_gen_mode", "0"),
    ("autoconf", "1"),
    ("dad_transmits", "1"),
    ("disable_ipv6", "0"),
    ("drop_unicast_in_l2_multicast", "0"),
    ("drop_unsolicited_na", "0"),
    ("forwarding", "0"),
    ("hop_limit", "64"),
    ("ignore_routes_with_linkdown", "0"),
    ("keep_addr_on_down", "0"),
    ("ndisc_notify", "0"),
    ("proxy_ndp", "0"),
    ("use_tempaddr", "0"),
];

/// Values that differ between `all` and `default`.
const SOURCE_ROUTE: [(&str, &str); 2] = [("all", "0"), ("default", "1")];

/// Gives a new namespace the kernel's own settings, where it has others.
///
/// # Errors
/// A setting cannot be written. Settings that this kernel lacks are skipped.
pub fn set_defaults(namespace: &Namespace) -> io::Result<()> {
    in_namespace(namespace, || {
        for (family, settings) in [("ipv4", &IPV4[..]), ("ipv6", &IPV6[..])] {
            let folder = Path::new("/proc/sys/net").join(family).join("conf");
            for all in ["all", "default"] {
                let folder = folder.join(all);
                settings.iter().try_for_each(|(name, value)| set(&folder.join(name), value))?;
            }
        }
        let folder = Path::new("/proc/sys/net/ipv4/conf");
        let source_route =
            |(all, value): (&str, &str)| set(&folder.join(all).join("accept_source_route"), value);
        SOURCE_ROUTE.into_iter().try_for_each(source_route)
    })?
}

fn set(path: &Path, value: &str) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(now) if now.trim() == value => Ok(()),
        Ok(_) => fs::write(path, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        // This kernel lacks it, or IPv6.
        Err(_) => Ok(()),
    }
}
