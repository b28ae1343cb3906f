//! End systems: namespaces that Europa makes, and others that it attaches.
//!
//! A host's interface is one end of a veth pair. The other ends are in one namespace of the node,
//! `europa.INSTANCE`, away from other programs; each is a port. Hosts that Europa makes are
//! namespaces `europa.INSTANCE.HOST`. Names contain the owner, so the next node finds everything
//! after a kill; only moved devices are recorded.
//!
//! | file        | concern                                          |
//! |-------------|--------------------------------------------------|
//! | `place`     | the namespace that a document means              |
//! | `container` | Docker's answer to where a container is          |
//! | `configure` | addresses, parameters and routes                 |
//! | `run`       | a host's commands                                |
//! | `survey`    | the actual state of hosts                        |
//! | `remove`    | hosts that go, also those of a killed node       |
//! | `show`      | descriptions of hosts                            |

mod configure;
mod container;
mod place;
mod remove;
mod run;
mod show;
mod survey;

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use europa_api::{At, Fault, Host, HostAttachment, HostBind, HostInterface, HostPlace, Key};
use europa_host::{Bind, Inside};
use europa_plan::hosts::{
    Key as Line, cut, direct, find, interfaces, outer_name, port_mac, runs_others, stays,
};
use europa_port::{
    Device, End, Namespace, delete_device, device_index, make_veth, move_device, name_path,
    set_defaults, set_mtu, set_up,
};
use serde::{Deserialize, Serialize};

use self::configure::configure;
pub(crate) use self::remove::remove;
use self::remove::{end, end_processes, move_back};
pub use self::run::note_code;
pub(crate) use self::run::{Commands, run, run_image};
use self::show::told;
pub(crate) use self::show::{exist, stats, text};
pub use self::show::{inside_of, namespace_of};
pub(crate) use self::survey::{HostDrift, look};
use crate::kept::replace;
use crate::{Doing, Instance, NodeError, images};
use europa_api::stats::HostStats;

/// The facts that the removal of a host needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Record {
    host: String,
    /// The file of its namespace.
    namespace: PathBuf,
    moved: Vec<Moved>,
    /// The view of its programs, for a host that Europa makes.
    #[serde(default)]
    inside: Option<Inside>,
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
        // A truncated file was written before any device was moved.
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// The namespace of the outer ends.
pub(crate) fn outside(instance: &Instance) -> String {
    format!("europa.{}", instance.name())
}

/// The namespace of a host that Europa makes.
fn own(instance: &Instance, host: &str) -> String {
    format!("{}.{host}", outside(instance))
}

fn records(instance: &Instance) -> PathBuf {
    instance.directory().join("hosts.json")
}

/// Removes the hosts of `made`, and their interfaces, that will not stay when `wanted` is made
/// next; `made` keeps the rest. Returns the names of the hosts whose commands have ended thereby.
pub(crate) fn trim(
    instance: &Instance,
    made: &mut Vec<Host>,
    wanted: &[Host],
) -> Result<Vec<String>, NodeError> {
    let mut kept = read_records(instance);
    for key in cut(made, wanted) {
        let (Some((host, interface)), Some(record)) =
            (find(made, &key), kept.iter_mut().find(|record| record.host == key.0))
        else {
            continue;
        };
        // A removed namespace has removed its devices.
        if let Ok(inside) = Namespace::named(&record.namespace.to_string_lossy()) {
            if let Some(HostAttachment::Device(_)) = interface.attachment() {
                let (back, stay) = record.moved.drain(..).partition(|m| m.inside == key.1);
                record.moved = stay;
                move_back(&key.0, &inside, back)?;
            } else {
                delete_device(&inside, &key.1).map_err(|error| {
                    refused(host, &["interfaces", &key.1], format!("interface {}: {error}", key.1))
                })?;
            }
        }
        if let Some(host) = made.iter_mut().find(|host| *host.name.value == *key.0) {
            host.interfaces.0.retain(|(name, _)| *name.value != *key.1);
        }
    }
    let mut ended = Vec::new();
    for host in std::mem::take(made) {
        let stay = wanted.iter().find(|other| stays(&host, other));
        if stay.is_none_or(|other| runs_others(&host, other)) && host.place() == HostPlace::Own {
            let name = own(instance, &host.name);
            match stay {
                None => end(&name)?,
                Some(_) => {
                    if let Ok(inside) = Namespace::named(&name) {
                        end_processes(&inside);
                    }
                }
            }
            // A successor of its process 1 is started by the next program.
            let _ = fs::remove_dir_all(europa_host::folder(&instance.directory(), &host.name));
            ended.push(host.name.to_string());
        }
        match stay {
            None => kept.retain(|record| record.host != *host.name.value),
            Some(other) if runs_others(&host, other) => {
                made.push(Host { run: Vec::new(), ..host });
            }
            Some(_) => made.push(host),
        }
    }
    if made.is_empty() && wanted.is_empty() {
        Namespace::delete(&outside(instance)).doing("taking the namespace of outer ends away")?;
        let _ = fs::remove_file(records(instance));
    } else {
        write_records(instance, &kept)?;
    }
    Ok(ended)
}

/// The control group of a host's programs. A group's name has no dot.
pub fn group(host: &str) -> String {
    format!("host_{host}")
}

/// Changes the hosts `made` to `wanted`, except their commands. `made` is correct also after a
/// failure half-way.
pub(crate) fn make(
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
    // Written before any device moves: after a kill, the next node knows which devices to move
    // back.
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
            // The finished part of it exists.
            if let Ok((really, _)) = survey::really(old, host, inside) {
                *old = Host { sysctls: host.sysctls.clone(), ..really };
            }
            return Err(error);
        }
        // The commands are handled separately.
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
        image: image.map(|image| image.config),
        binds: binds
            .map(|bind| Bind {
                from: bind.from.into(),
                to: bind.to.into(),
                read_only: bind.read_only,
            })
            .collect(),
    })
}

/// A host without contents.
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

/// A field of a host's document that the machine refuses.
fn refused(host: &Host, path: &[&str], why: impl std::fmt::Display) -> NodeError {
    Fault::new(Key::new("host", host.name.to_string()), path, why).into()
}

/// The field that names a host's namespace.
fn place_field(host: &Host) -> &'static [&'static str] {
    match host.place() {
        HostPlace::Own => &[],
        HostPlace::Namespace(_) => &["namespace"],
        HostPlace::Process(_) => &["pid"],
        HostPlace::Container(_) => &["container"],
    }
}

fn moved(name: &str, interface: &HostInterface) -> Option<Moved> {
    let Some(HostAttachment::Device(device)) = interface.attachment() else { return None };
    let here = Namespace::current().ok()?;
    let was_up = Device::open(&here, &device.value).is_ok_and(|device| device.up);
    Some(Moved { inside: name.to_owned(), before: device.value.clone(), was_up })
}

/// Their links carry only the hosts' frames.
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

/// Writes them down again.
fn write_records(instance: &Instance, kept: &[Record]) -> Result<(), NodeError> {
    let text = serde_json::to_vec(kept).map_err(std::io::Error::from);
    replace(&records(instance), &text.doing("writing down hosts")?).doing("writing down hosts")
}
