//! Addresses, parameters and routes of a host: set, and changed.

use std::net::IpAddr;

use europa_api::{Host, HostRoute};
use europa_port::{Namespace, Route, add_address, add_route, delete_address, delete_route};
use ipnet::IpNet;
use nix::errno::Errno;

use super::record::refused;
use crate::NodeError;

/// A route with its next hop and its device.
pub(super) type HostWay = (IpNet, Option<IpAddr>, Option<String>);

/// Changes a host from `old` to `new`. The interfaces must exist.
pub(super) fn configure(old: &Host, new: &Host, inside: &Namespace) -> Result<(), NodeError> {
    for (name, value) in &new.sysctls.0 {
        inside.sysctl(name, value).map_err(|error| {
            let why = format!("{}={}: {error}", name.value, value.value);
            refused(new, &["sysctls", &name.value], why)
        })?;
    }
    let had = |name: &str| {
        let found = old.interfaces.0.iter().find(|(other, _)| ***other == *name);
        found.map_or(&[][..], |(_, interface)| interface.addresses.as_slice())
    };
    for (name, interface) in &new.interfaces.0 {
        for address in had(name).iter().filter(|had| !interface.addresses.contains(had)) {
            // A program inside may have removed it.
            let _ = delete_address(inside, name, address.value);
        }
        for address in &interface.addresses {
            add_address(inside, name, address.value).map_err(|error| {
                let text = address.value.to_string();
                let path = ["interfaces", &***name, "addresses", &text];
                refused(new, &path, format!("{name}: {text}: {error}"))
            })?;
        }
    }
    let (had, wanted) = (routes(old), routes(new));
    for way in had.iter().filter(|way| !wanted.contains(way)) {
        // The route may have been removed with its device.
        let _ = delete_route(inside, route(way));
    }
    for way in &wanted {
        match add_route(inside, route(way)) {
            Err(error)
                if error.raw_os_error() == Some(Errno::EEXIST as i32) && had.contains(way) => {}
            other => other.map_err(|error| {
                let to = way.0.to_string();
                let field = if way.0.prefix_len() == 0 { "gateway" } else { "routes" };
                refused(new, &[field, &to], format!("a route to {to}: {error}"))
            })?,
        }
    }
    Ok(())
}

/// All routes, default routes last.
fn routes(host: &Host) -> Vec<HostWay> {
    let gateways = host.gateway.iter().map(|gateway| default_route(&gateway.value));
    host.routes.iter().map(|route| route_of(&route.value)).chain(gateways).collect()
}

/// A route of a host's document.
pub(super) fn route_of(route: &HostRoute) -> HostWay {
    let device = route.interface.as_ref().map(|name| name.to_string());
    (route.to.value, route.via.map(|via| via.value), device)
}

/// The route that leads everywhere by a gateway.
pub(super) fn default_route(gateway: &IpAddr) -> HostWay {
    let any: IpAddr = match gateway {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    (IpNet::new(any, 0).unwrap_or_else(|_| any.into()), Some(*gateway), None)
}

fn route(way: &HostWay) -> Route<'_> {
    Route { to: way.0, via: way.1, device: way.2.as_deref() }
}
