//! The switch of a killed node goes on.

use super::process::SwitchRecord;
use super::{Lasting, Switch, Switching, not_up};
use crate::NodeError;
use crate::context::Context;

impl Switching {
    /// Finds again what outlives a process.
    pub(crate) fn adopt_lasting(&mut self, context: &Context) -> Result<(), NodeError> {
        let wanted = context.settings.workers;
        let lasting = Lasting::open(&context.kept, wanted)?;
        let workers = lasting.workers();
        if workers != wanted {
            let message = format!(
                "the switch goes on with {workers} workers: a number of {wanted} counts after \
                 `europa down`"
            );
            context.events.warn("switch", "", "Workers", message);
        }
        self.lasting = Some(lasting);
        Ok(())
    }

    /// Takes over a switch that runs.
    pub(crate) fn adopt(&mut self, context: &Context) -> Result<(), NodeError> {
        for found in context.kept.records::<SwitchRecord>("switch.") {
            if let Some(record) = found.record {
                self.revival.was_started(record.restarts);
            }
            let workers = self.lasting.as_ref().ok_or_else(not_up)?.workers();
            match Switch::adopt(&found, &context.kept, workers)? {
                Some(switch) if self.running.is_none() => {
                    self.group = context.group("switch");
                    self.running = Some(switch);
                }
                _ => {
                    let message = "it has ended or is half-made: it is started anew";
                    context.events.warn("switch", "", "NotAdopted", message);
                }
            }
        }
        Ok(())
    }

    /// None could be adopted: the next one counts as started again.
    pub(crate) fn count(&mut self) {
        self.revival.counts();
    }
}
