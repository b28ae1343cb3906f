//! Takes over the routers of a killed node.

use std::collections::HashSet;
use std::os::fd::AsFd;

use europa_api::Documents;
use europa_plan::{Desired, PortId};
use europa_router::orders::Order;
use europa_substrate::Substrate;

use super::process::Asked;
use super::router::{ANOTHER_VERSION, RouterRecord, name_of};
use super::{Process, Router, Routers};
use crate::context::Context;
use crate::ports::Ports;
use crate::slow_path::SlowPaths;
use crate::{NodeError, grants};

impl Routers {
    /// Takes over those that are as wanted.
    pub(crate) fn adopt(
        &mut self,
        context: &Context,
        substrate: &Substrate,
        ports: &Ports,
        documents: &Documents,
        target: &Desired,
    ) {
        for found in context.kept.records::<RouterRecord>("router.") {
            let name = found.record.as_ref().map(name_of).unwrap_or_default();
            let open = |port: &PortId| ports.iter().any(|other| other.name == *port);
            let plan = target.feasible(name);
            let adopted = match (&found.record, plan) {
                (None, _) => Err(ANOTHER_VERSION.to_owned()),
                (_, None) => Err("it is not wanted any more".to_owned()),
                (_, Some(plan)) if !plan.ports().all(open) => {
                    Err("a port of it is another one".to_owned())
                }
                (_, Some(plan)) => Router::adopt(&found, plan, substrate, &context.kept),
            };
            match adopted {
                Ok(mut router) => {
                    let group = |router: &Router| context.router_group(&router.plan.name);
                    router.group = (!router.plan.is_inline()).then(|| group(&router)).flatten();
                    self.all.push(router);
                }
                Err(why) => {
                    let name = if name.is_empty() { &found.name } else { name };
                    context.events.warn("router", name, "NotAdopted", why);
                }
            }
        }
        // The order is that of the documents: no record has the order of the routers' starts.
        let place = |router: &Router| {
            documents.routers.iter().position(|document| router.plan.name == document.full_name())
        };
        self.all.sort_by_key(place);
    }

    /// Numbers of the processes.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes().filter_map(Process::pid)
    }

    /// Names of the processes' records.
    pub(crate) fn record_names(&self) -> HashSet<String> {
        self.processes().map(Process::name).collect()
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.all.iter().filter_map(|router| router.process.as_ref())
    }

    /// Has adopted processes follow their Linux, and gives them what was opened for the node before.
    pub(crate) fn go_on(
        &mut self,
        context: &Context,
        slow_paths: &SlowPaths,
    ) -> Result<(), NodeError> {
        for router in &mut self.all {
            let Some(process) = &mut router.process else { continue };
            if router.plan.cage.is_none() {
                slow_paths.follow_on(&router.plan.name, process, &context.events)?;
            }
            let (names, opened) = grants::renewed(&router.plan)?;
            if !names.is_empty() {
                let descriptors: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
                process.order_with(&Order::Grant(names), &descriptors, Asked::Nobody);
            }
        }
        Ok(())
    }
}
