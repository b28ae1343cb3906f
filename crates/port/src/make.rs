//! Namespaces and devices that Europa makes, for hosts and other users. Numbers are from
//! `linux/rtnetlink.h`, `if_link.h`, `veth.h`.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::device::identity;
use crate::namespace::{Namespace, in_namespace};
use crate::netlink::{DUMP, Netlink, Request, attribute, number, text};

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
/// Flags of a request: create, and fail if it exists.
const CREATE: u16 = 0x600;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_FLAGS: u16 = 8;
/// Flag: usable at once, because no other device has an address that Europa assigns.
const NODAD: u32 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

const LINK_BYTES: usize = 16;
const UP: u32 = libc::IFF_UP.cast_unsigned();
const NAMES: &str = "/run/netns";

/// One end of a veth pair to make.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where.
    pub namespace: &'a Namespace,
    /// The end's name there, at most 15 bytes.
    pub name: &'a str,
    /// The end's Ethernet address; `None` for a random one.
    pub mac: Option<[u8; 6]>,
}

/// A route to add.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// Destinations.
    pub to: IpNet,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// The device; default: the device that reaches the next hop.
    pub device: Option<&'a str>,
}

impl Namespace {
    /// Makes a namespace with a name for `ip netns`, or opens an existing one. Its loopback device
    /// is set up.
    ///
    /// # Errors
    /// The kernel refuses, or the name exists but is no namespace.
    pub fn create(name: &str) -> io::Result<Self> {
        if let Some(there) = Self::made(name) {
            return Ok(there);
        }
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET)?;
                Self::give_name(name, Path::new("/proc/thread-self/ns/net"))
            });
            made.join().unwrap_or_else(|_| Err(io::Error::other("a helper thread panicked")))
        })
    }

    /// The namespace that [`Namespace::create`] or [`Namespace::give_name`] gave a name.
    pub fn made(name: &str) -> Option<Self> {
        let kind = nix::sys::statfs::statfs(&Path::new(NAMES).join(name)).ok()?.filesystem_type();
        Self::named(name).ok().filter(|_| kind == nix::sys::statfs::NSFS_MAGIC)
    }

    /// Gives a namespace, like `/proc/PID/ns/net`, a name for `ip netns`, and sets its loopback
    /// device up.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn give_name(name: &str, namespace: &Path) -> io::Result<Self> {
        let path = Path::new(NAMES).join(name);
        share_names()?;
        File::create(&path)?;
        let made = mount(Some(namespace), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        if let Err(error) = made {
            let _ = fs::remove_file(&path);
            return Err(error.into());
        }
        let namespace = Self::named(name)?;
        set_up(&namespace, "lo")?;
        Ok(namespace)
    }

    /// Removes a name that [`Namespace::create`] made. The namespace ends with its last process and
    /// descriptor. Does nothing if the name does not exist.
    ///
    /// # Errors
    /// When it cannot be unmounted.
    pub fn delete(name: &str) -> io::Result<()> {
        let path = Path::new(NAMES).join(name);
        match umount2(&path, MntFlags::MNT_DETACH) {
            // Not a mount: the creation of this name was interrupted.
            Ok(()) | Err(nix::Error::EINVAL | nix::Error::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Names of `ip netns` that begin like this.
    pub fn names(prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort();
        names
    }

    /// The processes that are inside.
    pub fn processes(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            Self::named(&format!("/proc/{pid}/ns/net")).is_ok_and(|other| other == *self)
        })
        .collect()
    }

    /// Sets a kernel parameter inside, like `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// The parameter does not exist, or the value is invalid for it.
    pub fn sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        // A dot in a device's name is written as a slash, as sysctl(8) has it.
        let swapped: String = name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect();
        let path = Path::new("/proc/sys").join(swapped);
        in_namespace(self, || fs::write(path, value))?
    }
}

/// Makes the folder of names visible in mount namespaces that are made later, as `ip netns` does.
fn share_names() -> io::Result<()> {
    fs::create_dir_all(NAMES)?;
    let names = Path::new(NAMES);
    let shared = MsFlags::MS_SHARED | MsFlags::MS_REC;
    if mount(None::<&str>, names, None::<&str>, shared, None::<&str>).is_ok() {
        return Ok(());
    }
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(names), names, None::<&str>, bind, None::<&str>)?;
    mount(None::<&str>, names, None::<&str>, shared, None::<&str>)?;
    Ok(())
}

/// Makes a veth pair, both ends up.
///
/// # Errors
/// The kernel's error, for example if a name is in use.
pub fn make_veth(a: End<'_>, b: End<'_>, mtu: u32) -> io::Result<()> {
    let [a_up, b_up] = [&a, &b].map(|end| (end.namespace, end.name));
    make_quiet_veth(a, b, mtu)?;
    set_up(b_up.0, b_up.1)?;
    set_up(a_up.0, a_up.1)
}

/// Makes a veth pair with both ends down, so that it carries no frames.
///
/// # Errors
/// The kernel's error, for example if a name is in use.
pub fn make_quiet_veth(a: End<'_>, b: End<'_>, mtu: u32) -> io::Result<()> {
    let attributes = |end: &End<'_>| {
        let mut list = attribute_bytes(IFLA_IFNAME, format!("{}\0", end.name).as_bytes());
        list.extend(attribute_bytes(IFLA_MTU, &mtu.to_ne_bytes()));
        if let Some(mac) = end.mac {
            list.extend(attribute_bytes(IFLA_ADDRESS, &mac));
        }
        let descriptor = end.namespace.as_fd().as_raw_fd();
        list.extend(attribute_bytes(IFLA_NET_NS_FD, &descriptor.to_ne_bytes()));
        list
    };
    let mut peer = vec![0; LINK_BYTES];
    peer.extend(attributes(&b));
    let mut info = attribute_bytes(IFLA_INFO_KIND, b"veth\0");
    info.extend(attribute_bytes(IFLA_INFO_DATA, &attribute_bytes(VETH_INFO_PEER, &peer)));
    let mut body = vec![0; LINK_BYTES];
    body.extend(attributes(&a));
    body.extend(attribute_bytes(IFLA_LINKINFO, &info));
    let mut netlink = Netlink::route(a.namespace)?;
    netlink.talk(&mut Request::new(NEWLINK, CREATE, &body), |_, _| {})
}

/// One attribute with its padding.
fn attribute_bytes(kind: u16, value: &[u8]) -> Vec<u8> {
    // Values are nested attributes of a device: a few hundred bytes.
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The number of a device; `None` if no device has that name.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn device_index(namespace: &Namespace, name: &str) -> io::Result<Option<u32>> {
    let mut netlink = Netlink::route(namespace)?;
    index(&mut netlink, name)
}

fn index(netlink: &mut Netlink, name: &str) -> io::Result<Option<u32>> {
    let request = Request::new(GETLINK, 0, &[0; LINK_BYTES])
        .with(IFLA_IFNAME, format!("{name}\0").as_bytes());
    match netlink.ask(request) {
        Ok(link) => Ok(number(&link, 4)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

fn known(netlink: &mut Netlink, name: &str) -> io::Result<u32> {
    index(netlink, name)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

/// The fixed part of a message about device `index`, with the flags to change.
fn link_body(index: u32, flags: u32, change: u32) -> [u8; LINK_BYTES] {
    let mut body = [0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&change.to_ne_bytes());
    body
}

/// Sets a device up.
///
/// # Errors
/// There is none of that name.
pub fn set_up(namespace: &Namespace, name: &str) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let body = link_body(known(&mut netlink, name)?, UP, UP);
    netlink.talk(&mut Request::new(NEWLINK, 0, &body), |_, _| {})
}

/// Sets the longest packet of a device.
///
/// # Errors
/// No device has that name, or the device does not support this size.
pub fn set_mtu(namespace: &Namespace, name: &str, mtu: u32) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let body = link_body(known(&mut netlink, name)?, 0, 0);
    let request = Request::new(NEWLINK, 0, &body).with(IFLA_MTU, &mtu.to_ne_bytes());
    netlink.talk(&mut { request }, |_, _| {})
}

/// Sets the Ethernet address of a device.
///
/// # Errors
/// No device has that name, or the device does not support this size.
pub fn set_mac(namespace: &Namespace, name: &str, mac: [u8; 6]) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let body = link_body(known(&mut netlink, name)?, 0, 0);
    let request = Request::new(NEWLINK, 0, &body).with(IFLA_ADDRESS, &mac);
    netlink.talk(&mut { request }, |_, _| {})
}

/// Moves a device into another namespace, under another name.
///
/// # Errors
/// No device has the old name, the new name is in use, or the device cannot move.
pub fn move_device(from: &Namespace, name: &str, to: &Namespace, new: &str) -> io::Result<()> {
    let mut netlink = Netlink::route(from)?;
    let index = known(&mut netlink, name)?;
    let was_up = identity(&mut netlink, index)?.up;
    let body = link_body(index, 0, UP);
    // Old kernels cannot rename a device that is up.
    netlink.talk(&mut Request::new(NEWLINK, 0, &body), |_, _| {})?;
    let descriptor = to.as_fd().as_raw_fd().to_ne_bytes();
    let request = Request::new(NEWLINK, 0, &body)
        .with(IFLA_NET_NS_FD, &descriptor)
        .with(IFLA_IFNAME, format!("{new}\0").as_bytes());
    let moved = netlink.talk(&mut { request }, |_, _| {});
    if moved.is_err() && was_up {
        let _ = set_up(from, name);
    }
    moved
}

/// Deletes a device. Does nothing if no device has that name.
///
/// # Errors
/// When it cannot be deleted.
pub fn delete_device(namespace: &Namespace, name: &str) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let Some(index) = index(&mut netlink, name)? else { return Ok(()) };
    netlink.talk(&mut Request::new(DELLINK, 0, &link_body(index, 0, 0)), |_, _| {})
}

/// Deletes every veth device of a namespace, and thereby its peer.
///
/// # Errors
/// When one cannot be deleted.
pub fn delete_veths(namespace: &Namespace) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let mut names = Vec::new();
    netlink.talk(&mut Request::new(GETLINK, DUMP, &[0; LINK_BYTES]), |_, link| {
        let kind = attribute(link, LINK_BYTES, IFLA_LINKINFO)
            .and_then(|info| attribute(info, 0, IFLA_INFO_KIND))
            .map(text);
        if kind.as_deref() == Some("veth") {
            names.extend(attribute(link, LINK_BYTES, IFLA_IFNAME).map(text));
        }
    })?;
    names.iter().try_for_each(|name| delete_device(namespace, name))
}

/// Adds an address to a device. Does nothing if the device has it.
///
/// # Errors
/// The device does not exist, or the address is not valid for it.
pub fn add_address(namespace: &Namespace, device: &str, address: IpNet) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let index = known(&mut netlink, device)?;
    let mut body = [family(address.addr()), address.prefix_len(), 0, 0, 0, 0, 0, 0];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let bytes = octets(address.addr());
    let mut request = Request::new(NEWADDR, CREATE, &body)
        .with(IFA_LOCAL, &bytes)
        .with(IFA_ADDRESS, &bytes)
        .with(IFA_FLAGS, &NODAD.to_ne_bytes());
    if let IpNet::V4(net) = address
        && net.prefix_len() < 31
    {
        request = request.with(IFA_BROADCAST, &net.broadcast().octets());
    }
    match netlink.talk(&mut request, |_, _| {}) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

/// Removes an address from a device.
///
/// # Errors
/// The device does not exist, or does not have this address.
pub fn delete_address(namespace: &Namespace, device: &str, address: IpNet) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    let index = known(&mut netlink, device)?;
    let mut body = [family(address.addr()), address.prefix_len(), 0, 0, 0, 0, 0, 0];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let request = Request::new(DELADDR, 0, &body).with(IFA_LOCAL, &octets(address.addr()));
    netlink.talk(&mut { request }, |_, _| {})
}

/// Adds a route.
///
/// # Errors
/// The route already exists, or its next hop cannot be reached.
pub fn add_route(namespace: &Namespace, route: Route<'_>) -> io::Result<()> {
    change_route(namespace, route, NEWROUTE, CREATE)
}

/// Removes a route.
///
/// # Errors
/// It does not exist.
pub fn delete_route(namespace: &Namespace, route: Route<'_>) -> io::Result<()> {
    change_route(namespace, route, DELROUTE, 0)
}

fn change_route(
    namespace: &Namespace,
    route: Route<'_>,
    message: u16,
    flags: u16,
) -> io::Result<()> {
    const MAIN: u8 = 254;
    const STATIC: u8 = 4;
    const UNICAST: u8 = 1;
    let mut netlink = Netlink::route(namespace)?;
    let scope = if route.via.is_some() || route.to.addr().is_ipv6() { 0 } else { 253 };
    let family = family(route.to.addr());
    let body = [family, route.to.prefix_len(), 0, 0, MAIN, STATIC, scope, UNICAST, 0, 0, 0, 0];
    let mut request = Request::new(message, flags, &body);
    if route.to.prefix_len() > 0 {
        request = request.with(RTA_DST, &octets(route.to.network()));
    }
    if let Some(via) = route.via {
        request = request.with(RTA_GATEWAY, &octets(via));
    }
    if let Some(device) = route.device {
        request = request.with(RTA_OIF, &known(&mut netlink, device)?.to_ne_bytes());
    }
    netlink.talk(&mut request, |_, _| {})
}

fn family(address: IpAddr) -> u8 {
    // AF_INET and AF_INET6 are 2 and 10.
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The path of a namespace's name.
pub fn name_path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_reach_each_other_and_leave_nothing() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let name = |end: &str| format!("eup{}-{end}", std::process::id());
        let (a, b) = (name("a"), name("b"));
        let inside = Namespace::create(&a).expect("a namespace");
        assert_eq!(Namespace::create(&a).expect("the same"), inside);
        let other = Namespace::create(&b).expect("a namespace");
        assert_eq!(Namespace::names(&name("")), [a.clone(), b.clone()]);
        let mac = [2, 0, 0, 0, 0, 7];
        make_veth(
            End { namespace: &inside, name: "eth0", mac: Some(mac) },
            End { namespace: &other, name: "x.eth0", mac: None },
            1400,
        )
        .expect("a pair");
        let device = crate::Device::open(&inside, "eth0").expect("it is there");
        assert_eq!((device.mac, device.mtu, device.up), (mac, 1400, true));
        for (namespace, device, end) in [(&inside, "eth0", 0), (&other, "x.eth0", 1)] {
            for net in [format!("10.9.0.{end}/31"), format!("fd09::{end}/127")] {
                let net = net.parse().expect("an address");
                add_address(namespace, device, net).expect("added");
                add_address(namespace, device, net).expect("it is there already");
            }
        }
        let to = |text: &str| text.parse::<IpNet>().expect("a prefix");
        for (net, via, device) in [
            ("0.0.0.0/0", Some("10.9.0.1"), None),
            ("10.10.0.0/16", None, Some("eth0")),
            ("::/0", Some("fd09::1"), None),
            ("fd10::/16", Some("fe80::1"), Some("eth0")),
        ] {
            let via = via.map(|via| via.parse().expect("an address"));
            add_route(&inside, Route { to: to(net), via, device }).expect(net);
        }
        let again =
            Route { to: to("0.0.0.0/0"), via: Some("10.9.0.1".parse().expect("it")), device: None };
        assert!(add_route(&inside, again).is_err(), "there is one");
        inside.sysctl("net.ipv4.conf.eth0.forwarding", "1").expect("a parameter");
        inside.sysctl("net.ipv4.conf.eth9.forwarding", "1").expect_err("no such device");
        other.sysctl("net.ipv4.conf.x/eth0.forwarding", "1").expect("a device with a dot");
        add_address(&other, "lo", to("10.20.0.1/32")).expect("added");
        let ping = in_namespace(&inside, || {
            std::process::Command::new("ping").args(["-c1", "-W2", "10.20.0.1"]).output()
        })
        .expect("entered");
        assert!(ping.is_ok_and(|ping| ping.status.success()));
        let mut sleeper =
            in_namespace(&inside, || std::process::Command::new("sleep").arg("60").spawn())
                .expect("entered")
                .expect("started");
        assert_eq!(inside.processes(), [sleeper.id().cast_signed()]);
        sleeper.kill().expect("killed");
        sleeper.wait().expect("waited");
        move_device(&inside, "eth0", &other, "moved").expect("moved");
        assert!(device_index(&inside, "eth0").expect("asked").is_none());
        delete_veths(&other).expect("deleted");
        assert!(device_index(&other, "moved").expect("asked").is_none());
        for name in [a, b] {
            Namespace::delete(&name).expect("deleted");
            Namespace::delete(&name).expect("it has gone already");
        }
        assert!(Namespace::names(&name("")).is_empty());
    }
}
