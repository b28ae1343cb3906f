//! Programs by tc and of type `cgroup_skb` beside XDP programs: attached to the devices and the control
//! group of the slow path. They stay there while the node restarts.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use europa_cage::hook::Hook;
use europa_port::in_namespace;
use europa_slowpath::{Spec, environment};
use europa_substrate::{Direction, HookPlace};
use nix::net::if_::if_nametoindex;

use super::Cages;
use crate::context::Context;
use crate::slow_path::SlowPaths;
use crate::{Doing, NodeError};

/// The places of a slow path that have had their programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hooked {
    /// The devices of the namespace with this inode.
    devices: Option<u64>,
    /// The control group.
    group: bool,
}

impl Cages {
    /// Has a router's programs beside its XDP program stand in its slow path. Costs little if they do.
    pub(super) fn hook(
        &mut self,
        context: &Context,
        slow_paths: &SlowPaths,
        router: &str,
    ) -> Result<(), NodeError> {
        let Some((loaded, _)) = self.in_force.get_mut(router) else { return Ok(()) };
        let Some(spec) = slow_paths.spec(router) else { return Ok(()) };
        let had = self.hooked.contains(router);
        let wanted: HashMap<Hook, BorrowedFd<'_>> =
            loaded.hooks.iter().map(|(hook, program)| (*hook, program.as_fd())).collect();
        if wanted.is_empty() && !had {
            return Ok(());
        }
        self.hooked.insert(router.to_owned());
        // A failure is reported once.
        if loaded.hooked.devices != Some(spec.namespace.inode) {
            loaded.hooked.devices = Some(spec.namespace.inode);
            on_devices(spec, &wanted).doing(format!("attaching the `tc` programs of {router}"))?;
        }
        if !loaded.hooked.group {
            let name = environment::group(router);
            let folder = context.cgroups.folder_of_sockets(context.instance.name(), &name);
            let asks = wanted.keys().any(|hook| !hook.is_by_tc());
            let what = format!("attaching the `cgroup` programs of {router}");
            let Some(folder) = folder else {
                loaded.hooked.group = true;
                let none = io::Error::other("this machine has no control groups of version 2");
                return if asks { Err(none).doing(what) } else { Ok(()) };
            };
            // The group is made with the first program of the slow path.
            if let Ok(folder) = File::open(folder) {
                loaded.hooked.group = true;
                on_group(&folder.into(), &wanted).doing(what)?;
            }
        }
        Ok(())
    }

    /// Removes such programs of routers that have no XDP program any more.
    pub(super) fn unhook(
        &mut self,
        context: &Context,
        slow_paths: &SlowPaths,
        is_wanted: impl Fn(&str) -> bool,
    ) {
        let gone: Vec<String> = self.hooked.extract_if(|router| !is_wanted(router)).collect();
        for router in gone {
            let Some(spec) = slow_paths.spec(&router) else { continue };
            let none = HashMap::new();
            let name = environment::group(&router);
            let folder = context.cgroups.folder_of_sockets(context.instance.name(), &name);
            let group = folder.and_then(|folder| File::open(folder).ok());
            let done = on_devices(spec, &none)
                .and_then(|()| group.map_or(Ok(()), |group| on_group(&group.into(), &none)));
            if let Err(error) = done {
                context.events.warn("router", &router, "Failed", error.to_string());
            }
        }
    }
}

/// Sets the programs of all devices of a slow path.
fn on_devices(spec: &Spec, wanted: &HashMap<Hook, BorrowedFd<'_>>) -> io::Result<()> {
    in_namespace(&spec.namespace, || {
        for name in &spec.interfaces {
            let index = if_nametoindex(name.as_str()).map_err(|error| {
                io::Error::new(io::Error::from(error).kind(), format!("{name}: {error}"))
            })?;
            for (hook, direction) in
                [(Hook::TcIngress, Direction::Ingress), (Hook::TcEgress, Direction::Egress)]
            {
                HookPlace::Device(index, direction).set(wanted.get(&hook).copied())?;
            }
        }
        Ok(())
    })?
}

/// Sets the programs of the control group of a slow path.
fn on_group(folder: &OwnedFd, wanted: &HashMap<Hook, BorrowedFd<'_>>) -> io::Result<()> {
    for (hook, direction) in
        [(Hook::CgroupIngress, Direction::Ingress), (Hook::CgroupEgress, Direction::Egress)]
    {
        HookPlace::Group(folder.as_fd(), direction).set(wanted.get(&hook).copied())?;
    }
    Ok(())
}
