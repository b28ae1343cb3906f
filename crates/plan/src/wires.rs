//! Wires: links with a kernel router at one end or both.
//!
//! Frames of a kernel router do not pass the switch, which carries other links. So such a link is a
//! veth pair. Each of its ends is a hidden port, and the interface owns the whole port. Apart from
//! this, they are ordinary ports and interfaces.

use std::collections::HashSet;

use europa_api::{At, Documents, InterfaceName, Mac, Name, Port, Receive, Router, Run};

use crate::facts::PortFacts;

/// The suffix of wires' ports.
const WIRE: &str = "@wire";

/// Longest packet of a device. The MTU of an interface limits its packets.
pub const MTU: u32 = 9216;

/// Links that are wires, by name: those between two routers, if at least one is a kernel router. A
/// host's end has a separate veth pair.
pub(crate) fn wires(documents: &Documents) -> HashSet<&str> {
    let hosts = documents.hosts.iter().flat_map(|host| &host.interfaces.0);
    let hosts: HashSet<&str> =
        hosts.filter_map(|(_, interface)| Some(&***interface.link.as_ref()?)).collect();
    let kernel = documents.routers.iter().filter(|router| router.run == Run::Kernel);
    let links = kernel.flat_map(|router| &router.interfaces.0);
    let links = links.filter_map(|(_, interface)| Some(&***interface.value.link.as_ref()?));
    links.filter(|link| !hosts.contains(link)).collect()
}

/// The name of the port at an end of a link.
pub fn port_name(link: &str, router: &str, interface: &str) -> String {
    format!("{link}.{router}.{interface}{WIRE}")
}

/// Whether a port is the end of a wire.
pub fn is_wire(port: &str) -> bool {
    port.ends_with(WIRE)
}

/// The name of the device at the far end of a port's wire, while that device is no port.
pub fn loose_end(port: &str) -> String {
    let link = port.split('.').next().unwrap_or(port);
    device_name('w', &format!("wire.{link}"))
}

/// The ports of all wires, in the network namespace of this name.
pub fn ports(outside: &str, documents: &Documents) -> Vec<Port> {
    let wires = wires(documents);
    let mut ports = Vec::new();
    for router in &documents.routers {
        for (name, link) in links(router).filter(|(_, link)| wires.contains(link)) {
            let port = port_name(link, &router.full_name(), name);
            ports.push(Port {
                node: None,
                device: at(device_name('v', &port)),
                name: at(Name::hidden(port)),
                namespace: Some(at(outside.to_owned())),
                rate: None,
                mtu: None,
                receive: Receive::Xdp,
            });
        }
    }
    ports
}

/// The facts about an end of a wire whose interface has this MTU.
pub(crate) fn facts(mtu: u32) -> PortFacts {
    PortFacts { mac: [0; 6], mtu, vlan: Ok(()) }
}

/// A router's interfaces on links.
fn links(router: &Router) -> impl Iterator<Item = (&InterfaceName, &str)> {
    let all = router.interfaces.0.iter();
    all.filter_map(|(name, interface)| Some((&name.value, &***interface.value.link.as_ref()?)))
}

/// The name of a device: at most 15 characters, and always the same.
fn device_name(first: char, text: &str) -> String {
    let Mac(bytes) = Mac::generated(text);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{first}{digits}")
}

fn at<T>(value: T) -> At<T> {
    At { value, place: Default::default() }
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    #[test]
    fn links_of_kernel_routers_are_wires() {
        let text = "kind: slice\nname: s\nprograms: operator\n---\nkind: link\nname: h\n---\n\
             kind: host\nname: pc\ninterfaces: {e: {link: h}}\n---\n\
             kind: router\nname: x\nslice: s\nrun: kernel\n\
             interfaces: {a: {link: h}, b: {link: l}, c: {link: open}}\n\
             fast_path: {xdp: {object: x.o}}\n---\n\
             kind: router\nname: y\nslice: s\ninterfaces: {e: {link: l}, p: {link: plain}}\n\
             fast_path: {builtin: ipv4}\n---\n\
             kind: router\nname: z\nslice: s\ninterfaces: {e: {link: plain}}\n\
             fast_path: {builtin: ipv4}\n";
        let source = Source { path: "x.yaml".into(), text: text.to_owned() };
        let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let ports = ports("ns", &documents);
        let names: Vec<&str> = ports.iter().map(|port| &*port.name.value).collect();
        assert_eq!(names, ["l.s/x.b@wire", "open.s/x.c@wire", "l.s/y.e@wire"]);
        assert!(names.iter().all(|name| is_wire(name)));
        // Both ends of a link compute the same loose end, and each device has a name of its own.
        assert_eq!(loose_end(names[0]), loose_end(names[2]));
        assert_ne!(loose_end(names[0]), loose_end(names[1]));
        let devices: HashSet<&str> = ports.iter().map(|port| &*port.device.value).collect();
        assert_eq!(devices.len(), 3);
        assert!(devices.iter().all(|device| device.len() <= 15));
    }
}
