//! Other settings of a port.

use europa_api::Name;
use europa_plan::Needs;
use europa_substrate::Substrate;
use europa_switch::orders::Order;

use super::Ports;
use crate::NodeError;
use crate::context::Context;
use crate::routers::Router;
use crate::switch::Switch;

impl Ports {
    /// Changes an open port's settings, except its device.
    pub(crate) fn change(
        &mut self,
        context: &Context,
        switch: Option<&mut Switch>,
        document: &europa_api::Port,
    ) -> Result<(), NodeError> {
        let Some(port) = self.all.iter_mut().find(|port| port.is(document)) else {
            return Ok(());
        };
        port.change(document)?;
        if let Some(switch) = switch {
            // A switch that has just ended learns of it when it starts.
            let _ = switch.order(&Order::Rate { port: port.id, rate_bits: port.rate_bits }, &[]);
        }
        context.events.note("port", &port.name, "Changed", format!("MTU {}", port.mtu));
        self.note(context)
    }

    /// Sets a port's device up for the interfaces on it.
    pub(crate) fn adapt(
        &mut self,
        context: &Context,
        name: &str,
        needs: Needs,
    ) -> Result<(), NodeError> {
        let Some(place) = self.all.iter().position(|port| port.name == *name) else {
            return Ok(());
        };
        let Some(port) = self.all.get_mut(place) else { return Ok(()) };
        let changes_device = needs.vlan && !port.needs().vlan;
        if changes_device {
            port.expect(needs)?;
            // A node that is killed meanwhile has its successor put the device back.
            self.note(context)?;
        }
        if let Some(port) = self.all.get_mut(place) {
            port.adapt(needs)?;
        }
        if changes_device { self.note(context) } else { Ok(()) }
    }

    /// Has ports of kernel routers receive in the driver.
    pub(crate) fn hold(
        &mut self,
        substrate: &mut Substrate,
        routers: &[Router],
    ) -> Result<(), NodeError> {
        for port in &mut self.all {
            let caged = routers.iter().any(|router| {
                let count = router.wanted.cage.as_ref().map_or(0, |cage| cage.interfaces);
                let mut own = router.plan.interfaces.iter().take(count);
                own.any(|interface| interface.to.is_port(&port.name))
            });
            port.hold_in_driver(substrate, caged)?;
        }
        Ok(())
    }

    /// The devices of these ports must be made again.
    pub(crate) fn lose(&mut self, names: &[Name]) {
        for port in self.all.iter_mut().filter(|port| names.iter().any(|lost| **lost == *port.name))
        {
            port.stale = true;
        }
    }
}
