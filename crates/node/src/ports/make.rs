//! A port that comes.

use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_substrate::Substrate;

use super::port::can_ask;
use super::{Port, Ports};
use crate::beside::Purpose;
use crate::context::Context;
use crate::{NodeError, wires};

impl Ports {
    /// Opens a port and attaches it. The switch and the interfaces on it are still to be told.
    pub(crate) fn open(
        &mut self,
        context: &Context,
        substrate: &mut Substrate,
        purpose: Purpose,
        document: &europa_api::Port,
    ) -> Result<(), Stop> {
        let undo = |port: Port| drop(port.undo.undo());
        let opened = match self.opening.result(&purpose, undo) {
            Ok(None) => return Err(self.begin_to_open(context, substrate, purpose, document)?),
            Ok(Some(port)) => {
                self.all.push(port);
                Ok(())
            }
            Err(Stop::NotNow(why)) => return Err(Stop::NotNow(why)),
            Err(failed) => Err(failed),
        };
        self.note(context)?;
        opened?;
        Ok(self.attach_last(context, substrate)?)
    }

    fn begin_to_open(
        &mut self,
        context: &Context,
        substrate: &Substrate,
        purpose: Purpose,
        document: &europa_api::Port,
    ) -> Result<Stop, NodeError> {
        let id = free_number(self.all.iter().map(|port| port.id));
        let is_wire = is_wire(&document.name.value);
        if !is_wire {
            self.note_and(context, Some(Port::before(document)?))?;
        }
        let (document, asks) = (document.clone(), can_ask(substrate));
        let instance = context.instance.clone();
        let work = move || {
            if is_wire {
                wires::make(&instance, &document)?;
            }
            Port::open(id, &document, asks)
        };
        Ok(self.opening.begin(context, purpose, |node| &mut node.ports.opening, work))
    }

    /// Attaches the port that was opened last.
    fn attach_last(
        &mut self,
        context: &Context,
        substrate: &mut Substrate,
    ) -> Result<(), NodeError> {
        let Some(port) = self.all.last_mut() else { return Ok(()) };
        if let Err(error) = port.attach(substrate) {
            if let Some(port) = self.all.pop() {
                let _ = port.undo.undo();
            }
            self.note(context)?;
            return Err(error);
        }
        for limitation in &port.limitations {
            tracing::warn!("port {}: {limitation}", port.name);
        }
        let message = format!("{} ({}), MTU {}", port.device.name, port.device.kind, port.mtu);
        context.events.note("port", &port.name, "Attached", message);
        Ok(())
    }
}

/// The smallest number from 1 on that no port has.
fn free_number(taken: impl Iterator<Item = u32> + Clone) -> u32 {
    (1..).find(|id| taken.clone().all(|other| other != *id)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_one() {
        for (taken, free) in [(&[][..], 1), (&[1, 2], 3), (&[2, 3], 1), (&[3, 1], 2)] {
            assert_eq!(free_number(taken.iter().copied()), free, "{taken:?}");
        }
    }
}
