//! End systems: namespaces that Europa makes, and others that it attaches.
//!
//! A host's interface is one end of a veth pair. The other ends lie in one namespace of
//! the node, `europa.INSTANCE`, where nobody is disturbed by them; each is a port. Hosts
//! that Europa makes are namespaces `europa.INSTANCE.HOST`. Names say whose they are, so
//! everything is found again after a kill; only devices that were moved are written down.
//!
//! | file        | concern                                          |
//! |-------------|--------------------------------------------------|
//! | `place`     | the namespace that a document means              |
//! | `container` | Docker's answer to where a container is          |
//! | `run`       | a host's commands                                |

mod container;
mod place;
mod run;

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use europa_api::{At, Documents, Host, HostAttachment, HostInterface, HostPlace, Mac, hash};
use europa_port::{
    Device, End, Namespace, Route, add_address, add_route, delete_veths, device_index, make_veth,
    move_device, name_path, set_mtu, set_up,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

pub(crate) use self::run::run;
use crate::{Doing, Instance, NodeError};
use europa_api::stats::{HostInterfaceStats, HostStats};

/// What must be known to take a host away.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Record {
    host: String,
    /// The file of its namespace.
    namespace: PathBuf,
    moved: Vec<Moved>,
}

/// A device of the machine that is inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Moved {
    inside: String,
    before: String,
    was_up: bool,
}

fn read_records(instance: &Instance) -> Vec<Record> {
    match fs::read(records(instance)) {
        // A file cut short by a kill was written before anything was moved.
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// The namespace of the outer ends.
fn outside(instance: &Instance) -> String {
    format!("europa.{}", instance.name())
}

/// The namespace of a host that Europa makes.
fn own(instance: &Instance, host: &str) -> String {
    format!("{}.{host}", outside(instance))
}

fn records(instance: &Instance) -> PathBuf {
    instance.directory().join("hosts.json")
}

/// The outer end's name in its namespace: as Linux allows it.
fn outer_name(port: &str) -> String {
    if port.len() <= 15 { port.to_owned() } else { format!("h{:014x}", hash(port) >> 8) }
}

/// Whether a port is one that an interface on a link makes.
pub(crate) fn is_hidden(port: &str) -> bool {
    port.contains('.')
}

/// A host's interface, by both names.
type Key = (String, String);

/// Links that join two hosts without a router: nothing of them is a port. The first end,
/// which makes both, has the second; the second has none.
fn direct(documents: &Documents) -> HashMap<Key, Option<Key>> {
    let mut ends: HashMap<&str, Vec<(String, String)>> = HashMap::new();
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            if let Some(link) = &interface.link {
                let end = (host.name.to_string(), name.to_string());
                ends.entry(link).or_default().push(end);
            }
        }
    }
    let mut pairs = HashMap::new();
    for ends in ends.into_values() {
        if let [a, b] = ends.as_slice() {
            pairs.insert(a.clone(), Some(b.clone()));
            pairs.insert(b.clone(), None);
        }
    }
    pairs
}

/// The ports that hosts make.
pub(crate) fn ports(instance: &Instance, documents: &Documents) -> Vec<europa_api::Port> {
    let direct = direct(documents);
    let mut ports = Vec::new();
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            let Some(port) = host.port(name, interface) else { continue };
            if direct.contains_key(&(host.name.to_string(), name.to_string())) {
                continue;
            }
            let at = |text: String| At { value: text, place: name.place };
            ports.push(europa_api::Port {
                device: at(outer_name(&port)),
                name: At { value: port, place: name.place },
                namespace: Some(at(outside(instance))),
                rate: None,
                mtu: None,
            });
        }
    }
    ports
}

/// Makes and attaches all hosts.
pub(crate) fn make(
    instance: &Instance,
    documents: &Documents,
) -> Result<Vec<HostStats>, NodeError> {
    if documents.hosts.is_empty() {
        return Ok(Vec::new());
    }
    let direct = direct(documents);
    let mut places = HashMap::new();
    let mut kept = Vec::new();
    for host in &documents.hosts {
        let path = place::path(host).map_err(|why| refused(host, why))?;
        let path = path.unwrap_or_else(|| name_path(&own(instance, &host.name)));
        let namespace = if host.place() == HostPlace::Own {
            prepare(instance, host)?
        } else {
            Namespace::named(&path.to_string_lossy())
                .map_err(|error| refused(host, format!("{}: {error}", path.display())))?
        };
        kept.push(Record {
            host: host.name.to_string(),
            namespace: path,
            moved: host.interfaces.0.iter().filter_map(|(name, i)| moved(name, i)).collect(),
        });
        places.insert(host.name.to_string(), namespace);
    }
    // Before anything is moved: whoever comes after a kill knows what to move back.
    let text = serde_json::to_vec(&kept).map_err(std::io::Error::from);
    fs::write(records(instance), text.doing("writing down hosts")?).doing("writing down hosts")?;
    let outer =
        Namespace::create(&outside(instance)).doing("making the namespace of outer ends")?;
    quiet(&outer).doing("setting parameters of outer ends")?;
    for host in &documents.hosts {
        let Some(inside) = places.get(&*host.name.to_string()) else { continue };
        for (name, interface) in &host.interfaces.0 {
            let key = (host.name.to_string(), name.to_string());
            let far = match direct.get(&key) {
                // The first end has made both.
                Some(None) => continue,
                Some(Some((other, its))) => documents
                    .hosts
                    .iter()
                    .find(|host| *host.name.value == **other)
                    .zip(places.get(other))
                    .map(|(other, place)| (other, place, its.clone())),
                None => None,
            };
            attach(host, name, interface, inside, &outer, far)
                .map_err(|error| refused(host, format!("interface {name}: {error}")))?;
        }
    }
    for host in &documents.hosts {
        let Some(inside) = places.get(&*host.name.to_string()) else { continue };
        configure(host, inside)?;
    }
    let told = documents.hosts.iter().zip(&kept).map(|(host, record)| told(host, record));
    Ok(told.collect())
}

fn refused(host: &Host, why: impl std::fmt::Display) -> NodeError {
    NodeError::Refused(format!("host {}: {why}", host.name))
}

fn moved(name: &str, interface: &HostInterface) -> Option<Moved> {
    let Some(HostAttachment::Device(device)) = interface.attachment() else { return None };
    let here = Namespace::current().ok()?;
    let was_up = Device::open(&here, &device.value).is_ok_and(|device| device.up);
    Some(Moved { inside: name.to_owned(), before: device.value.clone(), was_up })
}

/// Nothing but what hosts send is on their lines.
fn quiet(outer: &Namespace) -> std::io::Result<()> {
    outer.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
}

/// Makes the namespace of a host.
fn prepare(instance: &Instance, host: &Host) -> Result<Namespace, NodeError> {
    let failed = |what: &str, error| refused(host, format!("{what}: {error}"));
    let namespace = Namespace::create(&own(instance, &host.name))
        .map_err(|error| failed("making its namespace", error))?;
    // Its addresses are its own: they are usable at once.
    for (name, value) in [
        ("net.ipv6.conf.all.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
    ] {
        // A machine without IPv6 has none of these.
        let _ = namespace.sysctl(name, value);
    }
    Ok(namespace)
}

/// Makes one interface of a host, and its other end.
fn attach(
    host: &Host,
    name: &str,
    interface: &HostInterface,
    inside: &Namespace,
    outer: &Namespace,
    far: Option<(&Host, &Namespace, String)>,
) -> std::io::Result<()> {
    if let Some(HostAttachment::Device(device)) = interface.attachment() {
        if device_index(inside, name)?.is_none() {
            move_device(&Namespace::current()?, device, inside, name)?;
        }
        if let Some(mtu) = interface.mtu {
            set_mtu(inside, name, mtu.value)?;
        }
        return set_up(inside, name);
    }
    if device_index(inside, name)?.is_some() {
        return Err(std::io::Error::new(ErrorKind::AlreadyExists, "it has a device of that name"));
    }
    let near = End { namespace: inside, name, mac: Some(host.mac(name, interface).0) };
    if let Some((other, place, its)) = far {
        let there = other.interfaces.0.iter().find(|(key, _)| ***key == *its);
        let mac = there.map(|(_, interface)| other.mac(&its, interface).0);
        return make_veth(near, End { namespace: place, name: &its, mac }, interface.mtu());
    }
    let port = host.port(name, interface).map(|port| port.to_string()).unwrap_or_default();
    let outer_name = outer_name(&port);
    let mac = Mac::generated(&format!("port.{port}")).0;
    make_veth(near, End { namespace: outer, name: &outer_name, mac: Some(mac) }, interface.mtu())
}

/// Addresses, parameters and routes of a host.
fn configure(host: &Host, inside: &Namespace) -> Result<(), NodeError> {
    for (name, value) in &host.sysctls.0 {
        inside
            .sysctl(name, value)
            .map_err(|error| refused(host, format!("{}={}: {error}", name.value, value.value)))?;
    }
    for (name, interface) in &host.interfaces.0 {
        for address in &interface.addresses {
            add_address(inside, name, address.value)
                .map_err(|error| refused(host, format!("{name}: {}: {error}", address.value)))?;
        }
    }
    let add = |to: ipnet::IpNet, via: Option<std::net::IpAddr>, device: Option<&str>| {
        add_route(inside, Route { to, via, device })
            .map_err(|error| refused(host, format!("a route to {to}: {error}")))
    };
    for route in &host.routes {
        let device = route.interface.as_ref().map(|name| &***name);
        add(route.to.value, route.via.map(|via| via.value), device)?;
    }
    for gateway in &host.gateway {
        let all = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let Ok(all) = all.parse() else { continue };
        add(all, Some(gateway.value), None)?;
    }
    Ok(())
}

fn told(host: &Host, record: &Record) -> HostStats {
    let interfaces = host.interfaces.0.iter().map(|(name, interface)| HostInterfaceStats {
        name: name.to_string(),
        to: match interface.attachment() {
            Some(HostAttachment::Link(link)) => format!("link {}", link.value),
            Some(HostAttachment::Port(port)) => format!("port {}", port.value),
            Some(HostAttachment::Device(device)) => format!("device {}", device.value),
            None => String::new(),
        },
        mac: match interface.attachment() {
            Some(HostAttachment::Device(_)) => String::new(),
            _ => host.mac(name, interface).to_string(),
        },
        addresses: interface.addresses.iter().map(|address| address.value).collect(),
    });
    HostStats {
        name: record.host.clone(),
        namespace: record.namespace.display().to_string(),
        interfaces: interfaces.collect(),
    }
}

/// The documents of hosts as text, to tell whether they are the same.
pub(crate) fn text(hosts: &[Host]) -> String {
    serde_json::to_string(hosts).unwrap_or_default()
}

/// What is told of hosts that are there.
pub(crate) fn stats(instance: &Instance, documents: &Documents) -> Vec<HostStats> {
    let kept = read_records(instance);
    let record = |host: &Host| kept.iter().find(|record| *record.host == *host.name.to_string());
    documents.hosts.iter().filter_map(|host| Some(told(host, record(host)?))).collect()
}

/// The file of a host's network namespace; none if there is no such host.
pub fn namespace_of(instance: &Instance, host: &str) -> Option<PathBuf> {
    let text = fs::read(records(instance)).ok()?;
    let kept: Vec<Record> = serde_json::from_slice(&text).ok()?;
    kept.into_iter().find(|record| record.host == host).map(|record| record.namespace)
}

/// Whether a node of this name has, or had, hosts.
pub(crate) fn exist(instance: &Instance) -> bool {
    records(instance).exists() || name_path(&outside(instance)).exists()
}

/// Takes all hosts away: what runs inside those that Europa has made, their namespaces,
/// every pair; and moves devices back to this namespace. Also after a kill.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    let here = Namespace::current().doing("opening our network namespace")?;
    for record in &read_records(instance) {
        let Ok(inside) = Namespace::named(&record.namespace.to_string_lossy()) else { continue };
        for Moved { inside: inner, before, was_up } in &record.moved {
            let back = move_device(&inside, inner, &here, before)
                .and_then(|()| if *was_up { set_up(&here, before) } else { Ok(()) });
            if let Err(error) = back {
                tracing::warn!("host {}: moving {inner} back: {error}", record.host);
            }
        }
    }
    let mine = format!("{}.", outside(instance));
    // Further dots are in names of others: hosts have none.
    let is_host = |name: &String| name.strip_prefix(&mine).is_some_and(|rest| !rest.contains('.'));
    for name in Namespace::names(&mine).into_iter().filter(is_host) {
        let what = || format!("taking the namespace {name} away");
        if let Ok(inside) = Namespace::named(&name) {
            for pid in inside.processes() {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            delete_veths(&inside).doing(what())?;
        }
        Namespace::delete(&name).doing(what())?;
    }
    let outer = outside(instance);
    if let Ok(namespace) = Namespace::named(&outer) {
        delete_veths(&namespace).doing("taking hosts' lines away")?;
    }
    Namespace::delete(&outer).doing("taking the namespace of outer ends away")?;
    let _ = fs::remove_file(records(instance));
    Ok(())
}
