//! Hosts: their ports, and the parts that do not survive a change of documents.

use std::collections::{BTreeSet, HashMap};

use europa_api::{At, Documents, Host, HostInterface, Mac, Port, Receive, hash};

use crate::facts::PortFacts;
use crate::ids::PortId;

/// A host's interface, by both names.
pub type Key = (String, String);

/// All interfaces of hosts.
pub fn interfaces(hosts: &[Host]) -> impl Iterator<Item = (&Host, Key, &HostInterface)> {
    hosts.iter().flat_map(|host| {
        let all = host.interfaces.0.iter();
        all.map(move |(name, interface)| {
            (host, (host.name.to_string(), name.to_string()), &interface.value)
        })
    })
}

/// The interface of these names.
pub fn find<'a>(hosts: &'a [Host], key: &Key) -> Option<(&'a Host, &'a HostInterface)> {
    let found = interfaces(hosts).find(|(_, other, _)| other == key);
    found.map(|(host, _, interface)| (host, interface))
}

/// All interfaces of hosts, by both names.
fn by_names(hosts: &[Host]) -> HashMap<(&str, &str), (&Host, &HostInterface)> {
    let mut all = HashMap::new();
    for host in hosts {
        for (name, interface) in &host.interfaces.0 {
            all.entry((&**host.name, &*name.value)).or_insert((host, &interface.value));
        }
    }
    all
}

/// Links between two hosts without a router, which need no port. Maps each end to the other one.
pub fn direct(hosts: &[Host]) -> HashMap<Key, Key> {
    let mut ends: HashMap<&str, Vec<Key>> = HashMap::new();
    for (_, key, interface) in interfaces(hosts) {
        if let Some(link) = &interface.link {
            ends.entry(link).or_default().push(key);
        }
    }
    let mut pairs = HashMap::new();
    for ends in ends.into_values() {
        if let [a, b] = ends.as_slice() {
            pairs.insert(a.clone(), b.clone());
            pairs.insert(b.clone(), a.clone());
        }
    }
    pairs
}

/// Whether the namespace of `old` can become that of `new`. A parameter that is no longer set has
/// no known former value, so this prevents it.
pub fn stays(old: &Host, new: &Host) -> bool {
    let set = |name: &str| new.sysctls.0.iter().any(|(other, _)| other.value == name);
    old.name == new.name
        && old.place() == new.place()
        && old.sysctls.0.iter().all(|(name, _)| set(&name.value))
}

/// Whether the programs of `old` end, and those of `new` start.
pub fn runs_others(old: &Host, new: &Host) -> bool {
    old.run != new.run
        || old.binds != new.binds
        || old.root != new.root
        || own_command(old) != own_command(new)
        || (has_commands(new) && old.env != new.env)
}

/// The command that a document gives, and its user.
fn own_command(host: &Host) -> impl PartialEq + '_ {
    (&host.entrypoint, &host.command, &host.user)
}

/// Whether programs may run in the host: an image has a command of its own.
fn has_commands(host: &Host) -> bool {
    !host.run.is_empty()
        || !host.entrypoint.is_empty()
        || !host.command.is_empty()
        || host.root.is_some()
}

/// The interfaces of `old` that are removed, or made again, for `new`.
pub fn cut(old: &[Host], new: &[Host]) -> BTreeSet<Key> {
    let (was, will) = (direct(old), direct(new));
    let news = by_names(new);
    let same_line = |key: &Key, host: &Host, interface: &HostInterface| {
        news.get(&(&*key.0, &*key.1)).is_some_and(|(its_host, its)| {
            stays(host, its_host)
                && its.attachment() == interface.attachment()
                && its_host.mac(&key.1, its) == host.mac(&key.1, interface)
                && its.mtu == interface.mtu
                && was.get(key) == will.get(key)
        })
    };
    let all = interfaces(old).filter(|(host, key, interface)| !same_line(key, host, interface));
    let mut cut: BTreeSet<Key> = all.map(|(_, key, _)| key).collect();
    // Both ends of a pair are removed together.
    let far: Vec<Key> = cut.iter().filter_map(|key| was.get(key).cloned()).collect();
    cut.extend(far);
    cut
}

/// Whether a host of `old` becomes `new` without making any of its devices again.
pub fn stays_whole(old: &Host, new: &Host) -> bool {
    let one = std::slice::from_ref;
    stays(old, new) && cut(one(old), one(new)).is_empty()
}

/// The device name of the outer end, in a form that Linux allows.
pub fn outer_name(port: &str) -> String {
    if port.len() <= 15 { port.to_owned() } else { format!("h{:014x}", hash(port) >> 8) }
}

/// The Ethernet address of an outer end.
pub fn port_mac(port: &str) -> [u8; 6] {
    Mac::generated(&format!("port.{port}")).0
}

/// Whether a port belongs to a host's interface on a link.
pub fn is_line(port: &str) -> bool {
    port.contains('.')
}

/// The ports that hosts make in the network namespace of this name, and the facts about their
/// devices before these exist.
pub fn ports(outside: &str, documents: &Documents) -> Vec<(Port, PortFacts)> {
    let direct = direct(&documents.hosts);
    let mut ports = Vec::new();
    for (host, key, interface) in interfaces(&documents.hosts) {
        let Some((name, _)) = host.interfaces.0.iter().find(|(name, _)| *name.value == *key.1)
        else {
            continue;
        };
        let Some(port) = host.port(name, interface) else { continue };
        if direct.contains_key(&key) {
            continue;
        }
        let at = |text: String| At { value: text, place: name.place };
        let facts = PortFacts { mac: port_mac(&port), mtu: interface.mtu(), vlan: Ok(()) };
        let document = Port {
            node: None,
            device: at(outer_name(&port)),
            name: At { value: port, place: name.place },
            namespace: Some(at(outside.to_owned())),
            rate: interface.rate,
            mtu: None,
            receive: Receive::Auto,
        };
        ports.push((document, facts));
    }
    ports
}

/// The ports of `old` whose devices are removed, or made again, for `new`.
pub fn cut_ports(old: &[Host], new: &[Host]) -> BTreeSet<PortId> {
    let olds = by_names(old);
    let port = |key: &Key| {
        let (host, interface) = olds.get(&(&*key.0, &*key.1))?;
        host.port(&key.1, interface).map(|port| PortId::new(&*port))
    };
    cut(old, new).iter().filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    const LAB: &str = "kind: host\nname: a\ninterfaces: {eth0: {port: lan, addresses: [10.0.0.2/24]}, \
         eth1: {link: ab}}\n---\n\
         kind: host\nname: b\ninterfaces: {eth0: {port: other}, eth1: {link: ab}}\n---\n\
         kind: host\nname: c\ninterfaces: {eth0: {port: third}}\nsysctls: {net.ipv4.ip_forward: 1}\n";

    fn hosts(text: &str) -> Vec<Host> {
        let source = Source { path: "x.yaml".into(), text: text.to_owned() };
        parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false))).hosts
    }

    #[test]
    fn only_what_differs_is_cut() {
        for (from, to, wanted) in [
            ("10.0.0.2/24", "10.0.0.3/24", ""),
            ("addresses: [10.0.0.2/24]", "mtu: 1400", "a.eth0"),
            ("{port: lan,", "{port: lan2,", "a.eth0"),
            ("eth0: {port: other}, ", "", "b.eth0"),
            // If one end of a pair is removed, the other is removed too.
            (
                "other}, eth1: {link: ab",
                "other}, eth1: {link: ab, mac: \"02:00:00:00:00:99\"",
                "a.eth1 b.eth1",
            ),
            ("name: b\n", "name: bb\n", "a.eth1 b.eth0 b.eth1"),
            ("sysctls: {net.ipv4.ip_forward: 1}", "run: [\"true\"]", "c.eth0"),
            ("ip_forward: 1}", "ip_forward: 0}", ""),
        ] {
            let (old, new) = (hosts(LAB), hosts(&LAB.replace(from, to)));
            let cut: Vec<_> = cut(&old, &new).iter().map(|(h, i)| format!("{h}.{i}")).collect();
            assert_eq!(cut.join(" "), wanted, "{from} becomes {to}");
        }
        assert_eq!(cut(&hosts(LAB), &[]).len(), 5);
        assert!(cut(&[], &hosts(LAB)).is_empty());
    }
}
