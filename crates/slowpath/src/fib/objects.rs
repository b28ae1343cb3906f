//! Next hop objects as ways of routes.

use std::collections::HashMap;

use crate::message::{Address, Gateway, Hop, Object, Way};

/// The next hops of a next hop object; groups contain single ones.
pub(super) fn resolve<A: Address>(id: u32, objects: &HashMap<u32, Object>) -> Option<Way<A>> {
    match objects.get(&id)? {
        Object::Blackhole => Some(Way::Discard),
        Object::Encapsulated => Some(Way::Encapsulated),
        Object::Single { gateway, device } => Some(Way::Hops(vec![hop(gateway, *device, 1)?])),
        Object::Group(members) => {
            let mut hops = Vec::with_capacity(members.len());
            for (member, weight) in members {
                match objects.get(member)? {
                    Object::Single { gateway, device } => {
                        hops.push(hop(gateway, *device, *weight)?);
                    }
                    Object::Blackhole => return Some(Way::Discard),
                    Object::Encapsulated => return Some(Way::Encapsulated),
                    _ => return None,
                }
            }
            Some(Way::Hops(hops))
        }
    }
}

fn hop<A: Address>(gateway: &[u8], device: u32, weight: u16) -> Option<Hop<A>> {
    let gateway = match gateway {
        [] => Gateway::None,
        octets => Gateway::from_octets(octets)?,
    };
    Some(Hop { gateway, device, weight })
}
