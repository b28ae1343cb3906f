//! Removes a port.

use europa_plan::wires::is_wire;
use europa_substrate::Substrate;
use europa_switch::orders::Order;

use super::Ports;
use crate::context::Context;
use crate::switch::Switch;
use crate::{NodeError, wires};

impl Ports {
    /// Gives a device back. The interfaces on it are disconnected.
    pub(crate) fn close(
        &mut self,
        context: &Context,
        substrate: Option<&Substrate>,
        switch: Option<&mut Switch>,
        name: &str,
    ) -> Result<(), NodeError> {
        let Some(place) = self.all.iter().position(|port| port.name == name) else {
            return Ok(());
        };
        let mut port = self.all.remove(place);
        if let (Some(substrate), Some(attachment)) = (substrate, port.attachment.take()) {
            substrate.detach_port(attachment)?;
        }
        if let Some(switch) = switch {
            // A switch that has just ended never learns of it.
            let _ = switch.order(&Order::RemovePort { port: port.id }, &[]);
        }
        if is_wire(name) {
            self.note(context)?;
            return wires::remove(&context.instance, &port.document);
        }
        if let Err(error) = port.undo.undo() {
            context.events.warn("port", name, "NotPutBack", error.to_string());
        }
        self.note(context)?;
        let message = format!("{} is Linux's again", port.device.name);
        context.events.note("port", name, "Detached", message);
        Ok(())
    }

    /// Has frames of all ports go to Linux.
    pub(crate) fn detach(&mut self, substrate: &Substrate) {
        for port in &mut self.all {
            // A machine that goes down may have unmounted the pins before; the rest must end.
            if let Some(attachment) = port.attachment.take()
                && let Err(error) = substrate.detach_port(attachment)
            {
                tracing::warn!("port {}: {error}", port.name);
            }
        }
    }
}
