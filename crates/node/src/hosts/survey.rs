//! The actual hosts, including changes by other programs or by a change that failed half-way.

use std::sync::Arc;

use europa_api::{Host, HostInterface, HostPlace};
use europa_port::{Namespace, Survey};

use super::configure::{default_route, route_of};
use super::place;
use super::record::own;
use crate::Instance;

/// A host that differs from the state in which it was made.
pub(crate) struct HostDrift {
    /// Its name.
    pub(crate) host: String,
    /// The existing parts of the host as made; `None` if its namespace is gone.
    pub(crate) really: Option<Host>,
    /// The differences, for users.
    pub(crate) differs: Vec<String>,
}

/// Compares hosts with the actual ones. Takes some time for each.
pub(crate) fn look(instance: &Instance, made: &Arc<Vec<Host>>) -> Vec<HostDrift> {
    made.iter().filter_map(|host| look_at(instance, host)).collect()
}

fn look_at(instance: &Instance, host: &Host) -> Option<HostDrift> {
    let name = match host.place() {
        HostPlace::Own => own(instance, &host.name),
        _ => place::path(host).ok().flatten()?.display().to_string(),
    };
    let host_name = host.name.to_string();
    let Ok(inside) = Namespace::named(&name) else {
        let differs = vec![format!("its network namespace {name} is gone")];
        return Some(HostDrift { host: host_name, really: None, differs });
    };
    let (really, differs) = really(host, host, &inside).ok()?;
    (!differs.is_empty()).then_some(HostDrift { host: host_name, really: Some(really), differs })
}

/// The present parts, of a host that changed from `old` to `new`, of either, and the missing parts
/// of `old`.
///
/// # Errors
/// The namespace cannot be looked at.
pub(super) fn really(
    old: &Host,
    new: &Host,
    inside: &Namespace,
) -> std::io::Result<(Host, Vec<String>)> {
    let survey = Survey::of(inside)?;
    let (mut host, mut differs) = (old.clone(), Vec::new());
    host.interfaces.0.retain(|(name, _)| {
        let there = survey.devices.contains_key(&***name);
        if !there {
            differs.push(format!("interface {} is gone", name.value));
        }
        there
    });
    for (name, interface) in &mut host.interfaces.0 {
        let other = new.interfaces.0.iter().find(|(other, _)| other.value == name.value);
        addresses(
            name,
            &mut interface.value,
            other.map(|(_, new)| &new.value),
            &survey,
            &mut differs,
        );
    }
    // Routes disappear with a device that a user sets down, which may be an experiment.
    let down = |(name, _): &(europa_api::At<_>, europa_api::At<HostInterface>)| {
        let name: &europa_api::InterfaceName = &name.value;
        survey.devices.get(&**name).is_some_and(|device| !device.up)
    };
    if host.interfaces.0.iter().any(down) {
        return Ok((host, differs));
    }
    let has = |(to, via, device): &super::configure::HostWay| {
        survey.routes.iter().any(|(its, next, over)| {
            its.trunc() == to.trunc() && next == via && (device.is_none() || over == device)
        })
    };
    let mut routes = old.routes.clone();
    routes.extend(new.routes.iter().filter(|route| !old.routes.contains(route)).cloned());
    routes.retain(|route| has(&route_of(route)));
    let lost = old.routes.iter().filter(|route| !routes.contains(route));
    differs.extend(lost.map(|route| format!("its route to {} is gone", route.to.value)));
    let mut gateway = old.gateway.clone();
    gateway.extend(new.gateway.iter().filter(|one| !old.gateway.contains(one)).copied());
    gateway.retain(|gateway| has(&default_route(&gateway.value)));
    let lost = old.gateway.iter().filter(|one| !gateway.contains(one));
    differs.extend(lost.map(|one| format!("its default route by {} is gone", one.value)));
    (host.routes, host.gateway) = (routes, gateway);
    Ok((host, differs))
}

fn addresses(
    name: &str,
    interface: &mut HostInterface,
    new: Option<&HostInterface>,
    survey: &Survey,
    differs: &mut Vec<String>,
) {
    let Some(device) = survey.devices.get(name).filter(|device| device.up) else { return };
    let old = interface.addresses.clone();
    let more = new.into_iter().flat_map(|new| &new.addresses);
    interface.addresses.extend(more.filter(|address| !old.contains(address)));
    interface.addresses.retain(|address| device.addresses.contains(&address.value));
    let lost = old.iter().filter(|address| !interface.addresses.contains(address));
    differs.extend(lost.map(|address| format!("address {} of {name} is gone", address.value)));
}
