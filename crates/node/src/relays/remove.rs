//! A relay that goes.

use europa_substrate::{PortAttachment, Substrate};

use super::{Relay, Relays};
use crate::NodeError;
use crate::context::Context;
use crate::routers::Routers;
use crate::switch::Switch;

impl Relays {
    /// Takes the relay of a host's link out. It is still to be ended.
    pub(crate) fn take(&mut self, context: &Context, port: &str) -> Option<Relay> {
        let place = self.all.iter().position(|relay| relay.plan.port == *port)?;
        let relay = self.all.remove(place);
        context.kept.forget(&relay.record_name());
        Some(relay)
    }
}

impl Relay {
    /// If the router stays, later frames go straight to it, and frames under way arrive before.
    pub(crate) fn hand_back(
        &mut self,
        substrate: &Substrate,
        attachment: &PortAttachment,
        routers: &mut Routers,
        mut switch: Option<&mut Switch>,
    ) -> Result<(), NodeError> {
        let again = routers.match_again(&self.plan.port, &self.spec.matches);
        let Some((id, spec)) = again else { return Ok(()) };
        // Before anything that comes later.
        self.flush(switch.as_deref_mut());
        substrate.connect(id, &spec, attachment)?;
        self.lose_port(switch.is_some(), substrate, attachment)
    }
}
