//! Checks values of ports and routers: ranges, addresses, matches.

use std::net::IpAddr;

use europa_pool::layout::{MAX_INTERFACES, MAX_SLOTS};
use ipnet::IpNet;

use crate::documents::Documents;
use crate::fast_path::Choice;
use crate::grant::MOST_GRANTS;
use crate::interface::{Interface, Selector};
use crate::port::Port;
use crate::problem::Problem;
use crate::router::{Router, SlotBytes};
use crate::source::At;

/// RFC 791: every link can carry 68 bytes.
const LEAST_MTU: u32 = 68;
/// RFC 8200, section 5.
const LEAST_IPV6_MTU: u32 = 1280;
/// The largest size of jumbo frames that network cards have in common.
const MOST_MTU: u32 = 9216;
/// Ethernet header and one VLAN tag.
const FRAME_BYTES: u32 = 18;
/// With fewer slots, the pool could not hold a batch for receive and one for transmit.
const LEAST_SLOTS: u32 = 64;
/// RFC 3032: lower labels have fixed meanings.
const LEAST_LABEL: u32 = 16;

/// Ranges of a port.
pub(super) fn port(port: &Port, problems: &mut Vec<Problem>) {
    if let Some(mtu) = &port.mtu {
        range("an MTU", mtu, LEAST_MTU, MOST_MTU, problems);
    }
    linux_device(&port.device, problems);
    if let Some(namespace) = port.namespace.as_ref().filter(|n| n.is_empty() || n.contains('\0')) {
        problems.push(Problem::new(namespace.place, "a network namespace is a name or a path"));
    }
}

/// Checks that a device's name is valid.
pub(super) fn linux_device(device: &At<String>, problems: &mut Vec<Problem>) {
    if device.is_empty() || device.len() > 15 || device.contains(['/', ' ', '\n']) {
        problems.push(
            Problem::new(device.place, format!("{:?} cannot be a Linux device", device.value))
                .label("at most 15 characters, no '/' and no space"),
        );
    }
}

/// Checks ranges and addresses of a router.
pub(super) fn values(router: &Router, documents: &Documents, problems: &mut Vec<Problem>) {
    if let Some((name, _)) = router.interfaces.0.get(MAX_INTERFACES as usize) {
        let count = router.interfaces.0.len();
        problems.push(
            Problem::new(
                name.place,
                format!("a router has at most {MAX_INTERFACES} interfaces, not {count}"),
            )
            .label("the first too many"),
        );
    }
    let slots = &router.pool.slots;
    if range("a pool's number of slots", slots, LEAST_SLOTS, MAX_SLOTS, problems)
        && !slots.is_power_of_two()
    {
        problems.push(
            Problem::new(slots.place, format!("{slots} slots are not a power of two"))
                .label("not a power of two")
                .help(format!("the next one is {}", slots.next_power_of_two())),
        );
    }
    let mut addresses: Vec<&At<IpNet>> = Vec::new();
    for (_, interface) in &router.interfaces.0 {
        for address in &interface.addresses {
            if let Some(first) = addresses.iter().find(|a| a.addr() == address.addr()) {
                problems.push(
                    Problem::new(address.place, format!("the router has {} twice", address.addr()))
                        .label("the second")
                        .also(first.place, "the first"),
                );
            }
            addresses.push(address);
            own_address(address, problems);
        }
        for (index, prefix) in interface.bind.iter().enumerate() {
            host_bits(prefix, problems);
            if let Some(first) = interface.bind[..index].iter().find(|p| p.value == prefix.value) {
                problems.push(
                    Problem::new(prefix.place, format!("the interface is bound to {prefix} twice"))
                        .label("the second")
                        .also(first.place, "the first"),
                );
            }
        }
        mtu(router, interface, documents, problems);
        selector(interface, problems);
        unchecked(interface, problems);
    }
}

/// Checks that a router can use its grants.
fn grants(router: &Router, problems: &mut Vec<Problem>) {
    let Some(first) = router.grants.first() else { return };
    let fast_path = &router.fast_path;
    if fast_path.builtin.is_some() || !fast_path.program.is_empty() {
        problems.push(
            Problem::new(first.place, "grants are for elements of `click:` and `click_file:`")
                .label("nobody would use it"),
        );
    }
    if let Some(more) = router.grants.get(MOST_GRANTS) {
        problems.push(
            Problem::new(more.place, format!("a router has at most {MOST_GRANTS} grants"))
                .label("the first too many"),
        );
    }
}

/// Checks the settings that a fast path needs from its router.
pub(super) fn fast_path(router: &Router, problems: &mut Vec<Problem>) {
    grants(router, problems);
    let fast_path = &router.fast_path;
    let interfaces = &router.interfaces.0;
    let place = fast_path.builtin.map_or(fast_path.place, |builtin| builtin.place);
    match fast_path.choice() {
        Some(Choice::Program(program)) => {
            if let Some(command) = program.first().filter(|command| !command.starts_with('/')) {
                let message = format!("{:?} is no path from the root", command.value);
                problems.push(
                    Problem::new(command.place, message)
                        .label("which one is meant?")
                        .help("the first word of `program:` is the file, like /opt/red/plane"),
                );
            }
            if let Some(slow_path) = &router.slow_path {
                let message = "a program has no slow path: it sees its packets only";
                problems.push(Problem::new(slow_path.place, message).label("nobody would feed it"));
            }
        }
        Some(Choice::Bridge) => {
            // The interface gets packets of other stations. With an address of its own it would
            // lose all of them.
            let own = interfaces.iter().filter(|(_, interface)| {
                let any = matches!(interface.selector(), Selector::All | Selector::Vxlan(_));
                interface.port.is_some() && !any
            });
            for (name, interface) in own {
                let at = interface.matches.as_ref().map_or(interface.place, |m| m.place);
                problems.push(
                    Problem::new(
                        at,
                        format!("interface {:?} of a bridge sends from one address only", &***name),
                    )
                    .label("others' frames could not leave")
                    .also(place, "a bridge sends on what others sent")
                    .help(
                        "say `match: {all: true}`, alone or with `vlan`: a bridge sends frames \
                         from others' Ethernet addresses",
                    ),
                );
            }
        }
        _ => {}
    }
}

/// A router of IP has an address.
pub(super) fn addressed(router: &Router, problems: &mut Vec<Problem>) {
    let fast_path = &router.fast_path;
    // Interfaces on links may get addresses later.
    let bare = |interface: &Interface| interface.addresses.is_empty() && interface.link.is_none();
    let none = router.interfaces.0.iter().all(|(_, interface)| bare(interface));
    if matches!(fast_path.choice(), Some(Choice::Ipv4 { .. })) && none {
        let place = fast_path.builtin.map_or(fast_path.place, |builtin| builtin.place);
        problems.push(
            Problem::new(place, "no interface has an address")
                .label("has nothing to route between")
                .help("give the interfaces addresses, as in `addresses: [10.0.1.1/24]`"),
        );
    }
}

/// Reports settings that would have no effect. Packets to links and into tunnels are not checked
/// when they leave, and a tunnel's outer headers carry no VLAN tag.
fn unchecked(interface: &Interface, problems: &mut Vec<Problem>) {
    let tunnel = matches!(interface.selector(), Selector::Vxlan(_));
    let way = match (tunnel, &interface.link) {
        (true, _) => "in a VXLAN",
        (_, Some(_)) => "on a link",
        _ => return,
    };
    if let Some(first) = interface.bind.first() {
        problems.push(
            Problem::new(first.place, format!("source addresses {way} are not checked"))
                .label("has no effect")
                .help("leave `bind` out; a Click configuration can drop what must not leave"),
        );
    }
    let vlan = interface.matches.as_ref().and_then(|matches| matches.vlan.as_ref());
    if let Some(vlan) = vlan.filter(|_| tunnel) {
        problems.push(
            Problem::new(vlan.place, "a VXLAN inside a VLAN is not supported")
                .label("outer headers are sent without a tag")
                .help("leave `vlan` out"),
        );
    }
}

fn mtu(router: &Router, interface: &Interface, documents: &Documents, problems: &mut Vec<Problem>) {
    let Some(mtu) = &interface.mtu else { return };
    if !range("an MTU", mtu, LEAST_MTU, MOST_MTU, problems) {
        return;
    }
    let ipv6 = interface.addresses.iter().find(|address| address.addr().is_ipv6());
    if let Some(ipv6) = ipv6.filter(|_| mtu.value < LEAST_IPV6_MTU) {
        problems.push(
            Problem::new(mtu.place, format!("an MTU of {mtu} is too small for IPv6"))
                .label(format!("IPv6 needs {LEAST_IPV6_MTU}"))
                .also(ipv6.place, "the interface has an IPv6 address"),
        );
    }
    let port = interface.port.as_ref();
    let port = port.and_then(|name| documents.ports.iter().find(|port| port.name == *name));
    if let Some(port_mtu) = port.and_then(|port| port.mtu).filter(|most| mtu.value > most.value) {
        problems.push(
            Problem::new(mtu.place, format!("the port's MTU is only {port_mtu}"))
                .label("larger than the port's")
                .also(port_mtu.place, "the port's"),
        );
    }
    let small = europa_pool::layout::SMALL_SLOT_BYTES
        - europa_pool::layout::rx_offset(europa_pool::layout::RX_PLACES_MASK)
        - europa_pool::layout::TAIL_BYTES;
    if router.pool.slot_bytes.value == SlotBytes::Small && mtu.value + FRAME_BYTES > small {
        problems.push(
            Problem::new(
                mtu.place,
                format!("frames of this MTU do not fit into slots of {} bytes", 2048),
            )
            .label(format!("{} is the most", small - FRAME_BYTES))
            .also(router.pool.slot_bytes.place, "slots of the smaller size")
            .help("leave `slot_bytes` out, or say 16384"),
        );
    }
}

fn selector(interface: &Interface, problems: &mut Vec<Problem>) {
    if let Some(vlan) = interface.matches.as_ref().and_then(|m| m.vlan.as_ref()) {
        range("a VLAN", &At { value: u32::from(vlan.value), place: vlan.place }, 1, 4094, problems);
    }
    let shares_mac = match interface.selector() {
        Selector::Prefix(prefixes) => {
            for prefix in prefixes {
                host_bits(prefix, problems);
            }
            Some("prefix")
        }
        Selector::Udp(ports) => {
            for port in ports.iter().filter(|port| port.value == 0) {
                problems
                    .push(Problem::new(port.place, "there is no UDP port 0").label("1 to 65535"));
            }
            Some("udp")
        }
        Selector::Mpls(labels) => {
            for label in labels {
                range("an MPLS label", label, LEAST_LABEL, 0xf_ffff, problems);
            }
            Some("mpls")
        }
        Selector::Vxlan(vxlan) => {
            range("a VNI", &vxlan.vni, 0, 0xff_ffff, problems);
            tunnel_end(&vxlan.local, problems);
            tunnel_end(&vxlan.remote, problems);
            if vxlan.local.is_ipv4() != vxlan.remote.is_ipv4() {
                problems.push(
                    Problem::new(
                        vxlan.remote.place,
                        "a tunnel's two ends have addresses of one family",
                    )
                    .label(family(vxlan.remote.value))
                    .also(vxlan.local.place, family(vxlan.local.value)),
                );
            } else if vxlan.local == vxlan.remote {
                problems.push(
                    Problem::new(vxlan.remote.place, "a tunnel's two ends have two addresses")
                        .label("the same address")
                        .also(vxlan.local.place, "this end"),
                );
            }
            None
        }
        Selector::Mac | Selector::All => None,
    };
    if let (Some(kind), Some(mac)) = (shares_mac, &interface.mac) {
        problems.push(
            Problem::new(
                mac.place,
                format!("an interface with a `{kind}` match uses the port's Ethernet address"),
            )
            .label("has no effect")
            .help("remove `mac`, or match by it"),
        );
    }
    if let (Some(mac), Some(matched)) =
        (&interface.mac, interface.matches.as_ref().and_then(|m| m.mac.as_ref()))
        && matched.value != crate::interface::MacChoice::Auto
        && matched.value != crate::interface::MacChoice::Address(mac.value)
    {
        problems.push(
            Problem::new(matched.place, "an interface has one Ethernet address")
                .label("another one")
                .also(mac.place, "its address")
                .help("say `mac: auto` or leave the match out"),
        );
    }
}

/// Checks the settings that a slow path needs, and the settings that need a slow path.
pub(super) fn slow_path(router: &Router, problems: &mut Vec<Problem>) {
    if let (Some(kernel), None) = (router.fast_path.kernel_routes, &router.slow_path) {
        problems.push(
            Problem::new(kernel.place, "`routes: kernel` needs a slow path")
                .label("there is no kernel to have routes")
                .help("add `slow_path: {}` to the router"),
        );
    }
    let most = europa_pool::layout::MAX_INTERFACES as usize / 2;
    if let Some(slow_path) = router.slow_path.as_ref()
        && router.interfaces.0.len() > most
    {
        let message = format!("a router with a slow path has at most {most} interfaces");
        problems.push(Problem::new(slow_path.place, message).label("too many interfaces"));
    }
    let uplink = router.slow_path.as_ref().and_then(|slow_path| slow_path.uplink);
    if let Some(uplink) = uplink
        && let Some((name, _)) = router.interfaces.0.iter().find(|(name, _)| ***name == *"uplink")
    {
        problems.push(
            Problem::new(name.place, "the uplink's device has the name uplink")
                .label("needs another name")
                .also(uplink.place, "the uplink"),
        );
    }
}

fn own_address(address: &At<IpNet>, problems: &mut Vec<Problem>) {
    let ip = address.addr();
    let bits = address.max_prefix_len();
    let reason = if ip.is_multicast() {
        "a multicast address"
    } else if ip.is_unspecified() {
        "no address"
    } else if ip.is_loopback() {
        "a loopback address"
    } else if ip.is_ipv4() && address.prefix_len() + 1 < bits && ip == address.network() {
        "the address of the subnet itself"
    } else if ip.is_ipv4() && address.prefix_len() + 1 < bits && ip == address.broadcast() {
        "the broadcast address of the subnet"
    } else {
        return;
    };
    problems.push(
        Problem::new(address.place, format!("{ip} cannot be an interface's address"))
            .label(format!("this is {reason}")),
    );
}

fn tunnel_end(address: &At<IpAddr>, problems: &mut Vec<Problem>) {
    if address.is_multicast() || address.is_unspecified() || address.is_loopback() {
        problems.push(
            Problem::new(address.place, format!("a tunnel cannot end at {}", address.value))
                .label("not the address of one node"),
        );
    }
}

pub(super) fn host_bits(prefix: &At<IpNet>, problems: &mut Vec<Problem>) {
    if prefix.addr() != prefix.network() {
        problems.push(
            Problem::new(prefix.place, format!("{prefix} has bits after its prefix length"))
                .label("not a prefix")
                .help(format!("{} is the subnet, {} the one address", prefix.trunc(), {
                    let bits = prefix.max_prefix_len();
                    format!("{}/{bits}", prefix.addr())
                })),
        );
    }
}

fn range(what: &str, value: &At<u32>, least: u32, most: u32, problems: &mut Vec<Problem>) -> bool {
    let inside = (least..=most).contains(&value.value);
    if !inside {
        problems.push(
            Problem::new(value.place, format!("{what} is {least} to {most}, not {value}"))
                .label("out of range"),
        );
    }
    inside
}

pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
