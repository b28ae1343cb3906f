//! Takes over the ports of a killed node.

use europa_api::Documents;
use europa_plan::Needs;
use europa_substrate::Substrate;

use super::{Port, Ports};
use crate::NodeError;
use crate::context::Context;
use crate::leftovers::Noted;

impl Ports {
    /// Takes over those of the ports `wanted` whose devices are still the same.
    pub(crate) fn adopt(
        &mut self,
        documents: &Documents,
        wanted: &[europa_api::Port],
        substrate: &Substrate,
        noted: &[Noted],
    ) -> Result<(), NodeError> {
        for document in wanted {
            for noted in noted {
                let Some(mut port) = Port::adopt(noted, document, substrate)? else { continue };
                port.adapt(Needs::of(documents, &port.name))?;
                self.all.push(port);
                break;
            }
        }
        Ok(())
    }

    /// Puts the devices back that are no ports any more.
    pub(crate) fn undo_others(&self, context: &Context, noted: &[Noted]) {
        let is_own = |noted: &&Noted| self.all.iter().any(|port| port.undo == noted.undo);
        for noted in noted.iter().filter(|noted| !is_own(noted)) {
            if let Err(error) = noted.undo.undo() {
                let message = format!("a device was not put back as it was: {error}");
                context.events.warn("node", "", "NotPutBack", message);
            }
        }
    }
}
