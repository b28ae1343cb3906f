//! Takes over the ways of hosts' frames over links, as far as they are wanted.

use europa_plan::RelayPlan;
use europa_substrate::Substrate;

use super::{Relay, Relays};
use crate::context::Context;

impl Relays {
    /// Takes over those of `plans`. `leads`: whether a relay leads somewhere.
    pub(crate) fn adopt(
        &mut self,
        context: &Context,
        plans: &[RelayPlan],
        substrate: &Substrate,
        leads: impl Fn(&Relay) -> bool,
    ) {
        for found in context.kept.records("relay-") {
            let adopted = found
                .record
                .as_ref()
                .and_then(|record| Relay::adopt(record, plans, substrate))
                .filter(|relay| leads(relay));
            match adopted {
                Some(relay) => self.all.push(relay),
                None => context.kept.forget(&found.name),
            }
        }
    }
}
