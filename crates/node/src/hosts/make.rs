//! Hosts that come, and their interfaces.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use europa_api::stats::HostStats;
use europa_api::{At, Host, HostAttachment, HostBind, HostInterface, HostPlace};
use europa_host::{Bind, Inside};
use europa_image::Config;
use europa_plan::hosts::{Key as Line, direct, find, interfaces, outer_name, port_mac};
use europa_port::{
    Device, End, Namespace, device_index, make_veth, move_device, name_path, set_defaults, set_mtu,
    set_up,
};

use super::configure::configure;
use super::record::{
    Moved, Record, outside, own, place_field, read_records, refused, write_records,
};
use super::show::told;
use super::{place, survey};
use crate::{Doing, Instance, NodeError, images};

/// Turns the hosts `made` into those that are `wanted`, except for their commands. `made` is
/// correct also when this fails half-way.
pub(super) fn make(
    instance: &Instance,
    made: &mut Vec<Host>,
    wanted: &[Host],
) -> Result<Vec<HostStats>, NodeError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let before = read_records(instance);
    let mut places = HashMap::new();
    let mut kept = Vec::new();
    for host in wanted {
        let path = place::path(host).map_err(|why| refused(host, place_field(host), why))?;
        let path = path.unwrap_or_else(|| name_path(&own(instance, &host.name)));
        let there = made.iter().any(|other| other.name == host.name);
        let namespace = if host.place() == HostPlace::Own && !there {
            prepare(instance, host)?
        } else {
            Namespace::named(&path.to_string_lossy()).map_err(|error| {
                refused(host, place_field(host), format!("{}: {error}", path.display()))
            })?
        };
        if !there {
            made.push(bare(host));
        }
        let known = before.iter().find(|record| record.host == *host.name.value);
        let moved = host.interfaces.0.iter().filter_map(|(name, interface)| {
            let known = known.and_then(|record| record.moved.iter().find(|m| *m.inside == ***name));
            known.cloned().or_else(|| moved(name, interface))
        });
        kept.push(Record {
            host: host.name.to_string(),
            inside: match host.place() {
                HostPlace::Own => Some(inside(instance, host, &path)?),
                _ => None,
            },
            namespace: path,
            moved: moved.collect(),
        });
        places.insert(host.name.to_string(), namespace);
    }
    // Before anything is moved: after a kill, the next node knows which devices to move back.
    write_records(instance, &kept)?;
    let outer =
        Namespace::create(&outside(instance)).doing("making the namespace of outer ends")?;
    quiet(&outer).doing("setting parameters of outer ends")?;
    let direct = direct(wanted);
    for (host, key, interface) in interfaces(wanted) {
        let Some(inside) = places.get(&key.0).filter(|_| find(made, &key).is_none()) else {
            continue;
        };
        // The first end makes both.
        let far = direct.get(&key).and_then(|far| {
            find(wanted, far).zip(places.get(&far.0)).map(|((host, _), place)| (host, place, far))
        });
        attach(host, &key.1, interface, inside, &outer, far).map_err(|error| {
            refused(host, &["interfaces", &key.1], format!("interface {}: {error}", key.1))
        })?;
        for key in std::iter::once(&key).chain(direct.get(&key)) {
            note_attached(made, wanted, key);
        }
    }
    for host in wanted {
        let Some(inside) = places.get(&*host.name.to_string()) else { continue };
        let Some(old) = made.iter_mut().find(|old| old.name == host.name) else { continue };
        if let Err(error) = configure(old, host, inside) {
            // The finished part of it is there.
            if let Ok((really, _)) = survey::really(old, host, inside) {
                *old = Host { sysctls: host.sysctls.clone(), ..really };
            }
            return Err(error);
        }
        // The commands are another matter.
        *old = Host { run: old.run.clone(), ..host.clone() };
    }
    Ok(wanted.iter().zip(&kept).map(|(host, record)| told(host, record)).collect())
}

/// The view of a host's programs.
fn inside(instance: &Instance, host: &Host, namespace: &Path) -> Result<Inside, NodeError> {
    let root = host.root.as_ref().map(|root| root.value.as_str());
    let image = root.map_or(Ok(None), |root| images::open(instance, root));
    let image = image.map_err(|error| refused(host, &["root"], error))?;
    let folder = image.as_ref().map(|image| image.root.clone());
    let of_image = image.iter().flat_map(|image| image.config.environment.clone());
    let text = |(name, value): &(At<String>, At<String>)| (name.value.clone(), value.value.clone());
    // The document was checked: all of them can be read.
    let binds = host.binds.iter().filter_map(|bind| HostBind::parse(&bind.value).ok());
    Ok(Inside {
        host: host.name.to_string(),
        namespace: namespace.to_owned(),
        environment: of_image.chain(host.env.0.iter().map(text)).collect(),
        root: folder.or_else(|| root.map(PathBuf::from)),
        image: command(host, image.map(|image| image.config)),
        binds: binds
            .map(|bind| Bind {
                from: bind.from.into(),
                to: bind.to.into(),
                read_only: bind.read_only,
            })
            .collect(),
    })
}

/// The settings of the host's command: those of its document, then those of its image.
fn command(host: &Host, image: Option<Config>) -> Option<Config> {
    let words = |given: &[At<String>]| given.iter().map(|word| word.value.clone()).collect();
    let is_given = !host.entrypoint.is_empty() || !host.command.is_empty() || host.user.is_some();
    if !is_given {
        return image;
    }
    let mut config = image.unwrap_or_default();
    if !host.entrypoint.is_empty() {
        config.entrypoint = words(&host.entrypoint);
        config.command.clear();
    }
    if !host.command.is_empty() {
        config.command = words(&host.command);
    }
    if let Some(user) = &host.user {
        config.user.clone_from(&user.value);
    }
    Some(config)
}

/// A host without anything inside.
fn bare(host: &Host) -> Host {
    Host {
        interfaces: Default::default(),
        routes: Vec::new(),
        gateway: Vec::new(),
        sysctls: Default::default(),
        run: Vec::new(),
        ..host.clone()
    }
}

/// Adds an interface, without addresses, to a host that was made.
fn note_attached(made: &mut [Host], wanted: &[Host], key: &Line) {
    let Some(host) = wanted.iter().find(|host| *host.name.value == *key.0) else { return };
    let Some(made) = made.iter_mut().find(|made| made.name == host.name) else { return };
    let found = host.interfaces.0.iter().find(|(name, _)| *name.value == *key.1);
    if let Some((name, interface)) = found {
        let value = HostInterface { addresses: Vec::new(), ..interface.value.clone() };
        made.interfaces.0.push((name.clone(), At { value, place: interface.place }));
    }
}

fn moved(name: &str, interface: &HostInterface) -> Option<Moved> {
    let Some(HostAttachment::Device(device)) = interface.attachment() else { return None };
    let here = Namespace::current().ok()?;
    let was_up = Device::open(&here, &device.value).is_ok_and(|device| device.up);
    Some(Moved { inside: name.to_owned(), before: device.value.clone(), was_up })
}

/// Their lines carry only the hosts' frames.
fn quiet(outer: &Namespace) -> std::io::Result<()> {
    outer.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
}

/// Makes the namespace of a host.
fn prepare(instance: &Instance, host: &Host) -> Result<Namespace, NodeError> {
    let failed = |what: &str, error| refused(host, &[], format!("{what}: {error}"));
    let namespace = Namespace::create(&own(instance, &host.name))
        .map_err(|error| failed("making its namespace", error))?;
    set_defaults(&namespace).map_err(|error| failed("its settings", error))?;
    // A new namespace begins with the machine's settings; a host forwards only by its document.
    if let Err(error) = namespace.sysctl("net.ipv4.ip_forward", "0") {
        tracing::warn!("host {} forwards if the machine does: {error}", host.name.value);
    }
    // Its addresses are its own: they are usable at once.
    for (name, value) in
        [("net.ipv6.conf.all.accept_dad", "0"), ("net.ipv6.conf.default.accept_dad", "0")]
    {
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
    far: Option<(&Host, &Namespace, &Line)>,
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
    if let Some((other, place, (_, its))) = far {
        let there = other.interfaces.0.iter().find(|(key, _)| ***key == *its);
        let mac = there.map(|(_, interface)| other.mac(its, interface).0);
        return make_veth(near, End { namespace: place, name: its, mac }, interface.mtu());
    }
    let port = host.port(name, interface).map(|port| port.to_string()).unwrap_or_default();
    let outer_name = outer_name(&port);
    let mac = Some(port_mac(&port));
    make_veth(near, End { namespace: outer, name: &outer_name, mac }, interface.mtu())
}
