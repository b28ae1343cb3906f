//! A relay that comes.

use europa_substrate::{PortAttachment, Substrate};

use super::{Relay, Relays};
use crate::NodeError;
use crate::context::Context;
use crate::routers::Routers;

impl Relays {
    /// Has a relay have the frames of its port from now on.
    pub(crate) fn begin(
        &mut self,
        context: &Context,
        relay: Relay,
        substrate: Option<&Substrate>,
        attachment: Option<&PortAttachment>,
        routers: &mut Routers,
    ) -> Result<(), NodeError> {
        context.kept.note(&relay.record_name(), None, &relay.record())?;
        let port = relay.plan.port.clone();
        self.all.push(relay);
        if let (Some(attachment), Some(substrate)) = (attachment, substrate) {
            // The relay has the router's former frames.
            routers.leave(substrate, &port, attachment)?;
        }
        routers.note_matches(&context.kept, &port)
    }
}
