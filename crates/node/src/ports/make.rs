//! Makes a new port.

use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_substrate::Substrate;

use super::port::can_ask;
use super::{Port, Ports};
use crate::beside::Purpose;
use crate::context::Context;
use crate::{NodeError, wires};

impl Ports {
    /// Opens a port and attaches it, in a thread, as the kernel needs time. The switch and the
    /// interfaces on the port do not know it yet.
    pub(crate) fn open(
        &mut self,
        context: &Context,
        substrate: &mut Substrate,
        purpose: Purpose,
        document: &europa_api::Port,
    ) -> Result<(), Stop> {
        let undo = |mut port: Port| {
            if let Some(attachment) = port.attachment.take() {
                let _ = substrate.detach_port(attachment);
            }
            let _ = port.undo.undo();
        };
        let opened = match self.opening.result(&purpose, undo) {
            Ok(None) => return Err(self.begin_to_open(context, substrate, purpose, document)?),
            Ok(Some(port)) => {
                note_attached(context, &port);
                self.all.push(port);
                Ok(())
            }
            Err(Stop::NotNow(why)) => return Err(Stop::NotNow(why)),
            Err(failed) => Err(failed),
        };
        self.note(context)?;
        opened
    }

    fn begin_to_open(
        &mut self,
        context: &Context,
        substrate: &mut Substrate,
        purpose: Purpose,
        document: &europa_api::Port,
    ) -> Result<Stop, NodeError> {
        let id = free_number(self.all.iter().map(|port| port.id));
        let is_wire = is_wire(&document.name.value);
        if !is_wire {
            self.note_and(context, Some(Port::before(document)?))?;
        }
        let attacher = substrate.attacher(&Port::namespace(document)?)?;
        let (document, asks) = (document.clone(), can_ask(substrate));
        let instance = context.instance.clone();
        let work = move || {
            if is_wire {
                wires::make(&instance, &document)?;
            }
            let mut port = Port::open(id, &document, asks)?;
            match port.attach(&attacher) {
                Ok(()) => Ok(port),
                Err(error) => {
                    let _ = port.undo.undo();
                    Err(error)
                }
            }
        };
        Ok(self.opening.begin(context, purpose, |node| &mut node.ports.opening, work))
    }
}

fn note_attached(context: &Context, port: &Port) {
    for limitation in &port.limitations {
        tracing::warn!("port {}: {limitation}", port.name);
    }
    let message = format!("{} ({}), MTU {}", port.device.name, port.device.kind, port.mtu);
    context.events.note("port", &port.name, "Attached", message);
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
