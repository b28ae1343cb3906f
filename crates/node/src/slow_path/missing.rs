//! Slow paths that are made beside the node's loop: the kernel takes milliseconds for each.

use std::sync::Arc;

use europa_api::{Documents, Fault, Port};
use europa_plan::{RouterPlan, routers};
use europa_slowpath::namespace;

use super::SlowPath;
use super::make::{facts, make_one};
use crate::uplinks::Uplinks;
use crate::{Doing, Instance, NodeError};

/// Slow paths to be made.
pub(crate) struct Missing {
    pub(super) instance: Instance,
    pub(super) documents: Arc<Documents>,
    /// Ports of devices, without those of slow paths.
    pub(super) ports: Vec<Port>,
    pub(super) uplinks: Uplinks,
    /// The routers whose slow paths they are.
    pub(super) routers: Vec<String>,
}

/// The result.
pub(crate) struct Made {
    pub(super) all: Vec<SlowPath>,
    /// The reason why the next one could not be made.
    pub(super) failed: Option<NodeError>,
    /// Plans of all routers; empty if no router has a slow path.
    pub(super) plans: Vec<Result<RouterPlan, Box<Fault>>>,
    pub(super) ports: Vec<Port>,
}

impl Missing {
    /// Makes them, one after the other, and then the uplinks of all.
    pub(crate) fn make(self) -> Made {
        let mut made = Made { all: Vec::new(), failed: None, plans: Vec::new(), ports: Vec::new() };
        if self.documents.routers.iter().any(|router| router.slow_path.is_some()) {
            made.failed = self.make_into(&mut made).err();
        }
        if made.failed.is_none() {
            made.failed = self.uplinks.converge(&self.instance, &self.documents).err();
        }
        made.ports = self.ports;
        made
    }

    fn make_into(&self, made: &mut Made) -> Result<(), NodeError> {
        let ports: Vec<_> = self.ports.iter().collect();
        made.plans = routers(&self.documents, &facts(&ports)?);
        let outside_name = namespace::outside_name(self.instance.name());
        let outside = namespace::create_outside(self.instance.name())
            .doing(format!("making the namespace {outside_name}"))?;
        for (router, plan) in self.documents.routers.iter().zip(&made.plans) {
            if self.routers.contains(&router.full_name()) {
                let plan = plan.as_ref().map_err(|fault| NodeError::from(fault.clone()))?;
                let one =
                    make_one(&self.instance, &self.documents, &ports, &outside, router, plan)?;
                made.all.push(one);
            }
        }
        Ok(())
    }
}
