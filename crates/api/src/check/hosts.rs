//! Hosts: checks values of interfaces, and fields that are allowed only for hosts that Europa
//! makes.

use super::routers::linux_device;
use crate::host::{Host, HostAttachment, HostInterface, HostPlace};
use crate::host_bind::HostBind;
use crate::problem::Problem;
use crate::source::At;
use crate::values::InterfaceName;

/// RFC 791 and the largest jumbo frames, as for routers.
const MTUS: std::ops::RangeInclusive<u32> = 68..=9216;

/// Values of a host.
pub(super) fn values(host: &Host, problems: &mut Vec<Problem>) {
    own_only(host, problems);
    for (name, interface) in &host.interfaces.0 {
        let first = host.interfaces.0.iter().find(|(n, _)| n == name);
        if first.is_some_and(|(n, _)| n.place != name.place) {
            problems.push(
                Problem::new(name.place, format!("two interfaces {:?}", &***name))
                    .label("the second"),
            );
        }
        self::interface(name, interface, problems);
    }
}

/// Settings and commands in a namespace are only for hosts that Europa makes.
fn own_only(host: &Host, problems: &mut Vec<Problem>) {
    let own = host.place() == HostPlace::Own;
    for (what, place) in [
        ("sysctls", host.sysctls.0.first().map(|(name, _)| name.place)),
        ("binds", host.binds.first().map(|bind| bind.place)),
        ("root", host.root.as_ref().map(|root| root.place)),
        ("entrypoint", host.entrypoint.first().map(|word| word.place)),
        ("command", host.command.first().map(|word| word.place)),
        ("user", host.user.as_ref().map(|user| user.place)),
        ("run", host.run.first().map(|line| line.place)),
        ("env", host.env.0.first().map(|(name, _)| name.place)),
    ] {
        if let Some(place) = place.filter(|_| !own) {
            problems.push(
                Problem::new(place, format!("`{what}` is for hosts that Europa makes"))
                    .label("this one is somebody else's"),
            );
        }
    }
    for bind in &host.binds {
        if let Err(error) = HostBind::parse(&bind.value) {
            problems.push(Problem::new(bind.place, error).label("no bind"));
        }
    }
    for (name, _) in &host.sysctls.0 {
        if !name.starts_with("net.") || name.contains("..") || name.contains(char::is_whitespace) {
            let message = format!("{:?} is no parameter of a network namespace", name.value);
            problems.push(Problem::new(name.place, message).label("not below net."));
        }
    }
}

fn interface(name: &At<InterfaceName>, interface: &HostInterface, problems: &mut Vec<Problem>) {
    if &***name == "lo" {
        problems.push(Problem::new(name.place, "every host has a `lo` of its own").label("taken"));
    }
    if let Some(mtu) = interface.mtu.filter(|mtu| !MTUS.contains(mtu)) {
        problems.push(
            Problem::new(mtu.place, format!("an MTU of {mtu} is out of range: 68 to 9216"))
                .label("out of range"),
        );
    }
    if let Some(device) = &interface.device {
        linux_device(device, problems);
        if device.value == "lo" {
            problems.push(
                Problem::new(device.place, "a `lo` stays in its namespace")
                    .label("cannot be moved"),
            );
        }
    }
    if let (Some(mac), Some(HostAttachment::Device(_))) = (interface.mac, interface.attachment()) {
        problems.push(
            Problem::new(mac.place, "a device keeps its own Ethernet address")
                .label("would have to be put back"),
        );
    }
}
