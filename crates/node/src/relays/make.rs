//! Makes a new relay.

use europa_substrate::{PortAttachment, Substrate};

use super::{Relay, Relays};
use crate::NodeError;
use crate::context::Context;
use crate::routers::Routers;

impl Relays {
    /// From now on, a relay gets the frames of its port.
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
            // The relay gets the frames that the router got before.
            routers.leave(substrate, &port, attachment)?;
        }
        routers.note_matches(&context.kept, &port)
    }
}
