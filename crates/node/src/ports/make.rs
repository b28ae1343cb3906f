//! A port that comes.

use std::sync::Arc;

use europa_control::Stop;
use europa_plan::wires::is_wire;
use europa_substrate::{Attacher, Substrate};

use super::port::can_ask;
use super::{Port, Ports};
use crate::beside::Purpose;
use crate::context::Context;
use crate::{Instance, NodeError, leftovers, wires};

impl Ports {
    /// Opens a port and attaches it, in a thread: the kernel takes its time. The switch and the
    /// interfaces on it do not know it yet.
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
        match self.opening.result(&purpose, undo) {
            Ok(None) => Err(self.begin_to_open(context, substrate, purpose, document)?),
            Ok(Some(port)) => {
                note_attached(context, &port);
                self.all.push(port);
                Ok(())
            }
            Err(Stop::NotNow(why)) => Err(Stop::NotNow(why)),
            Err(failed) => {
                self.note(context)?;
                Err(failed)
            }
        }
    }

    fn begin_to_open(
        &mut self,
        context: &Context,
        substrate: &mut Substrate,
        purpose: Purpose,
        document: &europa_api::Port,
    ) -> Result<Stop, NodeError> {
        let opening = Opening {
            id: free_number(self.all.iter().map(|port| port.id)),
            document: document.clone(),
            others: self.noted(),
            attacher: substrate.attacher(&Port::namespace(document)?)?,
            asks: can_ask(substrate),
            instance: context.instance.clone(),
        };
        let work = move || opening.open();
        Ok(self.opening.begin(context, purpose, |node| &mut node.ports.opening, work))
    }
}

/// A port that a thread opens.
struct Opening {
    id: u32,
    document: europa_api::Port,
    /// The records of the other ports.
    others: Vec<Arc<str>>,
    attacher: Attacher,
    asks: bool,
    instance: Instance,
}

impl Opening {
    /// Writes down how the device is before its first change: a node that is killed meanwhile has its
    /// successor put it back. From the last record on, the successor adopts the port.
    fn open(self) -> Result<Port, NodeError> {
        if is_wire(&self.document.name.value) {
            wires::make(&self.instance, &self.document)?;
        } else {
            self.note(&Port::before(&self.document)?.text())?;
        }
        let mut port = Port::open(self.id, &self.document, self.asks)?;
        let attached = port.attach(&self.attacher).and_then(|()| self.note(&port.noted()));
        if attached.is_err() {
            // Without its pin, the attachment ends with its descriptor.
            if let Some(attachment) = port.attachment.take() {
                let _ = self.attacher.detach(attachment);
            }
            let _ = port.undo.undo();
        }
        attached.map(|()| port)
    }

    fn note(&self, own: &str) -> Result<(), NodeError> {
        let others = self.others.iter().map(|port| &**port);
        leftovers::note(&self.instance, others.chain([own]))
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
