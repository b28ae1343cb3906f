//! Other effects of a link on a host's packets.

use europa_plan::RelayPlan;

use super::Relays;
use crate::NodeError;
use crate::context::Context;
use crate::link_tunnels::LinkTunnels;
use crate::switch::{Switch, unless_gone};

impl Relays {
    /// A host's packets over a link are treated otherwise from now on.
    pub(crate) fn impair(
        &mut self,
        context: &Context,
        plan: &RelayPlan,
        tunnels: &mut LinkTunnels,
        mut switch: Option<&mut Switch>,
    ) -> Result<(), NodeError> {
        if let Some(end) = &plan.far {
            tunnels.open(end)?;
        }
        let Some(relay) = self.all.iter_mut().find(|relay| relay.plan.port == plan.port) else {
            return Ok(());
        };
        relay.plan.clone_from(plan);
        relay.impair(switch.as_deref_mut());
        if let (Some((end, ends)), Some(switch)) = (relay.far(), switch)
            && !tunnels.is_told(&end, ends)
        {
            unless_gone(tunnels.tell(switch, &end, ends))?;
        }
        context.kept.note(&relay.record_name(), None, &relay.record())
    }
}
