//! The devices of wires: veth pairs whose ends are ports (`plan::wires`).
//!
//! A pair is made when the first of its ends becomes a port. The other end stays down, under a name
//! derived from the link, until it becomes a port too. So ends can be made and removed one by one.
//! If a node is killed in between, the next one finds the existing ends by their names.

use europa_plan::wires::{MTU, loose_end};
use europa_port::{
    End, Namespace, delete_device, device_index, make_quiet_veth, move_device, set_up,
};
use europa_slowpath::namespace;

use crate::{Doing, Instance, NodeError};

/// The namespace of wires; makes it if it does not exist.
pub(crate) fn place(instance: &Instance) -> Result<Namespace, NodeError> {
    let name = namespace::outside_name(instance.name());
    match Namespace::made(&name) {
        Some(there) => Ok(there),
        None => namespace::create_outside(instance.name()).doing(format!("making {name}")),
    }
}

/// Makes the device of a wire's port, if it does not exist.
pub(crate) fn make(instance: &Instance, port: &europa_api::Port) -> Result<(), NodeError> {
    let what = || format!("making the wire of port {}", port.name);
    let outside = place(instance)?;
    let (own, loose) = (&*port.device.value, loose_end(&port.name.value));
    if device_index(&outside, own).doing(what())?.is_none() {
        if device_index(&outside, &loose).doing(what())?.is_some() {
            move_device(&outside, &loose, &outside, own).doing(what())?;
        } else {
            let end = |name| End { namespace: &outside, name, mac: None };
            make_quiet_veth(end(own), end(&loose), MTU).doing(what())?;
        }
    }
    set_up(&outside, own).doing(what())
}

/// Takes the device of a wire's port away, and the pair with the last of its ports.
pub(crate) fn remove(instance: &Instance, port: &europa_api::Port) -> Result<(), NodeError> {
    let what = || format!("removing the wire of port {}", port.name);
    let Ok(outside) = Namespace::named(&namespace::outside_name(instance.name())) else {
        return Ok(());
    };
    let (own, loose) = (&*port.device.value, loose_end(&port.name.value));
    if device_index(&outside, own).doing(what())?.is_none() {
        return Ok(());
    }
    if device_index(&outside, &loose).doing(what())?.is_some() {
        return delete_device(&outside, own).doing(what());
    }
    // The other end is a port.
    move_device(&outside, own, &outside, &loose).doing(what())
}
