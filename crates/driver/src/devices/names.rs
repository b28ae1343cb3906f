//! The Linux interface of an element, and its mode.

use std::fs;
use std::net::Ipv4Addr;

use europa_engine::{Arguments, Graph, GraphElement, Interface, Names, Registry, Value};
use nix::sys::socket::LinkAddr;

/// Classes whose first argument is an interface of Linux.
const USERS: &[&str] = &[
    "FromDevice",
    "FromDPDKDevice",
    "FromNetmapDevice",
    "PollDevice",
    "ToDevice",
    "ToDPDKDevice",
    "ToHost",
    "ToHostSniffers",
    "ToNetmapDevice",
];
/// Classes of drivers that take a device away from Linux.
const OWNERS: &[&str] = &["FromDPDKDevice", "FromNetmapDevice", "PollDevice"];

/// Packets that a configuration needs from an interface in addition to its own.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Frames at all.
    pub(super) receives: bool,
    /// Frames for other hosts.
    pub(super) promiscuous: bool,
    /// Frames that this machine sends.
    pub(super) outbound: bool,
    /// Linux gets none of the frames.
    pub(super) alone: bool,
    /// Linux, or programs that listen to the interface, get frames from the configuration.
    pub(super) gives: bool,
}

impl Wanted {
    pub(super) fn or(self, other: Wanted) -> Wanted {
        Wanted {
            receives: self.receives || other.receives,
            promiscuous: self.promiscuous || other.promiscuous,
            outbound: self.outbound || other.outbound,
            alone: self.alone || other.alone,
            gives: self.gives || other.gives,
        }
    }
}

/// The interface that an element names, as it is written.
pub(super) fn name_of(element: &GraphElement) -> Option<&str> {
    let keywords = ["DEVNAME ", "PORT "];
    let keyword = keywords.iter().find_map(|keyword| {
        element.arguments.iter().find_map(|argument| argument.strip_prefix(keyword))
    });
    let first = element.arguments.first().map(String::as_str);
    // If the first argument has two words, it is for a keyword.
    let name = keyword.or(first.filter(|text| !text.trim().contains(' ')))?;
    Some(name.trim().trim_matches('"')).filter(|name| !name.is_empty())
}

/// The value of a Boolean argument. The element reports an invalid one.
fn is(element: &GraphElement, keyword: &str, at: Option<usize>) -> Option<bool> {
    let words = element.arguments.iter().filter_map(|text| text.split_once(char::is_whitespace));
    let by_name = words.filter(|(name, _)| *name == keyword).map(|(_, value)| value).next();
    let value = by_name.or_else(|| element.arguments.get(at?).map(String::as_str))?;
    match value.trim() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Names of the tap devices that `FromHost` makes.
fn made_here(graph: &Graph) -> Vec<&str> {
    graph.elements.iter().filter(|e| e.class == "FromHost").filter_map(name_of).collect()
}

/// Whether an element gives frames to a device of Linux.
fn gives(element: &GraphElement, taps: &[&str]) -> bool {
    match element.class.as_str() {
        "ToHostSniffers" => true,
        "ToHost" => name_of(element).is_none_or(|name| !taps.contains(&name)),
        _ => false,
    }
}

/// Whether a graph is written for Click's kernel module: only such a graph gives a device's frames
/// to Linux, and there `FromDevice` takes them away from Linux.
fn is_of_kernel(graph: &Graph) -> bool {
    let taps = made_here(graph);
    graph.elements.iter().any(|element| element.class == "PollDevice" || gives(element, &taps))
}

/// The elements of a graph that use interfaces of Linux, each with the written name and the desired
/// mode.
pub(super) fn users(graph: &Graph) -> Vec<(&str, Wanted)> {
    let (of_kernel, taps) = (is_of_kernel(graph), made_here(graph));
    // A `ToHost` without a name gives frames to the interface where they arrived.
    let anywhere = graph.elements.iter().any(|e| gives(e, &taps) && name_of(e).is_none());
    let is_user = |element: &&GraphElement| USERS.contains(&element.class.as_str());
    let named = graph.elements.iter().filter(is_user).filter_map(|element| {
        let name = name_of(element).filter(|name| !taps.contains(name))?;
        let receives = !element.class.starts_with("To");
        let owner = OWNERS.contains(&element.class.as_str());
        let sniffer = is(element, "SNIFFER", None);
        // DPDK and netmap receive all frames by default.
        let of_click = matches!(element.class.as_str(), "FromDevice" | "PollDevice");
        let place = of_click.then_some(1);
        Some((
            name,
            Wanted {
                receives,
                promiscuous: receives
                    && is(element, "PROMISC", place).unwrap_or(owner && !of_click),
                outbound: receives && is(element, "OUTBOUND", None) == Some(true),
                alone: receives && !sniffer.unwrap_or(!(owner || of_kernel)),
                gives: gives(element, &taps) || (receives && anywhere),
            },
        ))
    });
    named.collect()
}

/// Beginnings of interface names, which are kinds of devices.
const KINDS: &[&str] = &["eth", "ath", "wlan", "wifi", "tap", "tun", "en"];

/// Names that denote interfaces: those in elements that use interfaces, and words like `eth0`.
pub(super) fn mentioned(graph: &Graph) -> Vec<String> {
    let is_device = |word: &&str| {
        let number = KINDS.iter().find_map(|kind| word.strip_prefix(kind));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let arguments = graph.elements.iter().flat_map(|element| &element.arguments);
    let words = arguments.flat_map(|text| text.split([' ', ':', '"', '\n', '\t']));
    let used = users(graph).into_iter().map(|(name, _)| name);
    let mut names: Vec<String> = words.filter(is_device).chain(used).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Names that the graph's `AddressInfo` elements give to addresses.
pub(super) fn given(graph: &Graph, registry: &Registry, known: &[Interface]) -> Names {
    let mut names = Names::default();
    for interface in known {
        names.entry(&interface.name).mac = Some(interface.mac);
    }
    for element in graph.elements.iter().filter(|element| element.class == "AddressInfo") {
        let Some(mut made) = registry.make("AddressInfo") else { continue };
        names.enter(&element.name);
        // Mistakes are reported when the router is made.
        let _ = made.configure(&mut Arguments::new(&element.arguments, &mut names, 0, 0));
    }
    names.enter("");
    names
}

/// The name of the interface for a text. The text is its name, a name that the command line maps,
/// its Ethernet address, or the address of its PCI device.
pub(super) fn resolve(
    text: &str,
    ports: &[(String, String)],
    known: &[Interface],
    names: &Names,
) -> Option<String> {
    let text = text.strip_prefix("netmap:").unwrap_or(text);
    if let Some((_, name)) = ports.iter().find(|(port, _)| port == text) {
        return Some(name.clone());
    }
    if let Some(interface) = known.iter().find(|interface| interface.name == text) {
        return Some(interface.name.clone());
    }
    if let Some(mac) = <[u8; 6]>::parse(text, names).filter(|mac| *mac != [0; 6]) {
        let named = known.iter().find(|interface| interface.mac == mac);
        return named.map(|interface| interface.name.clone());
    }
    by_pci_address(text)
}

/// The network interface of a PCI device, such as `0000:03:00.1` or `03:00.1`.
fn by_pci_address(text: &str) -> Option<String> {
    let is_address = text.contains(':')
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    let address = if text.matches(':').count() == 1 { format!("0000:{text}") } else { text.into() };
    let path = format!("/sys/bus/pci/devices/{address}/net");
    let mut found = fs::read_dir(path).ok().filter(|_| is_address)?;
    found.next()?.ok()?.file_name().into_string().ok()
}

/// All interfaces of the machine with their prefixes, for configurations that use an interface's
/// name as an address.
pub(super) fn all_interfaces() -> Vec<(Interface, Option<u8>)> {
    let mut found: Vec<(Interface, Option<u8>)> = Vec::new();
    // A process that may not see the interfaces has no names for addresses.
    for seen in nix::ifaddrs::getifaddrs().into_iter().flatten() {
        let at = found.iter().position(|(known, _)| known.name == seen.interface_name);
        let at = at.unwrap_or_else(|| {
            let name = seen.interface_name.clone();
            found.push((Interface { name, mac: [0; 6], mtu: 0, address: None }, None));
            found.len() - 1
        });
        let (Some((known, prefix)), Some(address)) = (found.get_mut(at), seen.address) else {
            continue;
        };
        if let Some(mac) = address.as_link_addr().and_then(LinkAddr::addr) {
            known.mac = mac;
        } else if let Some(address) = address.as_sockaddr_in()
            && known.address.is_none()
        {
            // The first address is the one that the system shows for the interface.
            known.address = Some(address.ip());
            let mask = seen.netmask.as_ref().and_then(|mask| mask.as_sockaddr_in());
            *prefix = mask.map(|mask| u32::from(mask.ip()).leading_ones() as u8);
        }
    }
    found
}

/// Interfaces, and the gateway of each interface's default route.
pub(super) fn gateways() -> Vec<(String, Ipv4Addr)> {
    // Without this file the gateway is unknown.
    let table = fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    gateways_of(&table)
}

/// Columns: interface, destination, gateway, ...; addresses in hexadecimal, in the machine's order.
fn gateways_of(table: &str) -> Vec<(String, Ipv4Addr)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, to, via) = (words.next()?, words.next()?, words.next()?);
        let via = u32::from_str_radix(via, 16).ok().filter(|via| *via != 0)?;
        (to == "00000000").then(|| (name.to_owned(), Ipv4Addr::from(via.to_ne_bytes())))
    };
    table.lines().skip(1).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(class: &str, arguments: &[&str]) -> Graph {
        let mut graph = Graph::default();
        graph.add("e", class, arguments);
        graph
    }

    #[test]
    fn elements_say_what_they_want() {
        let sends = Wanted::default();
        let none = Wanted { receives: true, ..sends };
        for (class, arguments, wanted) in [
            ("FromDevice", &["eth0"][..], none),
            ("FromDevice", &["eth0", "true"], Wanted { promiscuous: true, ..none }),
            ("FromDevice", &["eth0", "PROMISC 1"], Wanted { promiscuous: true, ..none }),
            ("FromDevice", &["eth0", "OUTBOUND true"], Wanted { outbound: true, ..none }),
            ("FromDevice", &["eth0", "SNIFFER false"], Wanted { alone: true, ..none }),
            ("FromDevice", &["SNIFFER true", "DEVNAME eth0"], none),
            ("PollDevice", &["eth0"], Wanted { alone: true, ..none }),
            ("FromDPDKDevice", &["eth0"], Wanted { alone: true, promiscuous: true, ..none }),
            ("ToDevice", &["eth0"], sends),
            ("ToHost", &["eth0"], Wanted { gives: true, ..sends }),
        ] {
            assert_eq!(
                users(&element(class, arguments)),
                [("eth0", wanted)],
                "{class} {arguments:?}"
            );
        }
    }

    #[test]
    fn a_graph_for_the_kernel_takes_frames_away_from_linux() {
        let mut graph = element("FromDevice", &["eth0"]);
        graph.add("h", "ToHost", &[]);
        let wanted = Wanted { receives: true, alone: true, gives: true, ..Wanted::default() };
        assert_eq!(users(&graph), [("eth0", wanted)]);
        // Any graph may make a tap itself.
        let mut graph = element("FromDevice", &["eth0"]);
        graph.add("f", "FromHost", &["fake0", "10.0.0.1/8"]);
        graph.add("h", "ToHost", &["fake0"]);
        assert_eq!(users(&graph), [("eth0", Wanted { receives: true, ..Wanted::default() })]);
    }

    #[test]
    fn interfaces_have_several_names() {
        let interface = |name: &str, n| Interface {
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 0, n],
            mtu: 1500,
            address: None,
        };
        let known = [interface("eth0", 1), interface("eth1", 2)];
        let graph = element("AddressInfo", &["extern 10.0.0.1 02:00:00:00:00:02"]);
        let names = given(&graph, &crate::registry(), &known);
        let ports = [("0".to_owned(), "eth1".to_owned())];
        for (text, expected) in [
            ("eth0", Some("eth0")),
            ("netmap:eth0", Some("eth0")),
            ("0", Some("eth1")),
            ("1", None),
            ("2:0:0:0:0:1", Some("eth0")),
            ("extern:eth", Some("eth1")),
            ("2:0:0:0:0:9", None),
            ("9999:99:99.9", None),
        ] {
            assert_eq!(resolve(text, &ports, &known, &names).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn devices_need_not_be_there() {
        let mut graph = element("EtherEncap", &["0x0800", "eth7", "eth8:eth"]);
        graph.add("f", "FromDevice", &["uplink"]);
        graph.add("p", "Print", &["ethernet"]);
        assert_eq!(mentioned(&graph), ["eth7", "eth8", "uplink"]);
    }

    #[test]
    fn gateways_are_those_of_default_routes() {
        let table = "Iface\tDestination\tGateway\n\
            eth0\t00000000\t010000C0\t0003\neth0\t000000C0\t00000000\t0001\n";
        let gateway = Ipv4Addr::from(0x0100_00c0_u32.to_ne_bytes());
        assert_eq!(gateways_of(table), [("eth0".to_owned(), gateway)]);
    }
}
