//! Checks ranges from which links get addresses.

use ipnet::IpNet;

use super::routers::host_bits;
use crate::addressing;
use crate::documents::Documents;
use crate::problem::Problem;
use crate::slice::Slice;
use crate::source::At;

/// A range must be a subnet of addresses that interfaces can have, and have room for a link.
pub(super) fn ranges(slice: &Slice, problems: &mut Vec<Problem>) {
    for range in written(slice) {
        host_bits(&range, problems);
        let ip = range.network();
        let bits = range.max_prefix_len();
        let (message, label) = if ip.is_multicast() || ip.is_loopback() {
            (format!("links can have no addresses of {range}"), "not for interfaces")
        } else if range.prefix_len() == bits {
            (format!("{range} has no room for a link"), "one address, and a link has two ends")
        } else {
            continue;
        };
        problems.push(Problem::new(range.place, message).label(label));
    }
}

/// Every link that gets addresses must find free ones in its slice's range.
pub(super) fn room(documents: &Documents, problems: &mut Vec<Problem>) {
    // The default range has room for two million links.
    if documents.slices.iter().all(|slice| slice.links.is_none()) {
        return;
    }
    for (slice, link) in addressing::assign(&mut documents.clone()) {
        let Some(slice) = documents.slices.iter().find(|own| **own.name == *slice) else {
            continue;
        };
        let Some(range) = written(slice).into_iter().find(|range| range.addr().is_ipv4()) else {
            continue;
        };
        problems.push(
            Problem::new(range.place, format!("{range} has no room for link {link:?}"))
                .label("too small")
                .help("each link gets two addresses; give the slice a larger range"),
        );
    }
}

fn written(slice: &Slice) -> Vec<At<IpNet>> {
    let Some(ranges) = &slice.links else { return Vec::new() };
    let ipv4 = ranges.ipv4.map(|net| At { value: IpNet::V4(net.value), place: net.place });
    let ipv6 = ranges.ipv6.map(|net| At { value: IpNet::V6(net.value), place: net.place });
    ipv4.into_iter().chain(ipv6).collect()
}
