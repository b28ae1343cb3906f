//! Requests of the actor of filters to the loop: orders to the switch, and writing down.

use europa_api::rest::{FilterChanged, ProblemDetails};

use super::Node;
use crate::NodeError;
use crate::control::Reply;
use crate::filters::{Fresh, Orders, OwnWrite, WayOrder};
use crate::store::Store;
use crate::switch::unless_gone;

impl Node {
    /// The actor has changed rules.
    pub(crate) fn filters_changed(&mut self, fresh: Fresh) {
        self.filters.changed(&self.change, fresh);
    }

    /// Stores rules with numbers that are in force.
    pub(crate) fn write_own(
        &mut self,
        write: OwnWrite,
        reply: Reply<Result<FilterChanged, ProblemDetails>>,
    ) {
        let OwnWrite { slice, put, removed, changed, back } = write;
        let write = {
            let slice = slice.clone();
            move |store: &mut dyn Store| store.change_filters(&slice, &put, &removed)
        };
        self.change.write(write, move |node, written| {
            let answer = written.map(|()| changed).map_err(|error| {
                node.filters.take_back(slice, back);
                ProblemDetails::failed(error.to_string())
            });
            // The caller may have ended.
            let _ = reply.send(answer);
        });
    }

    /// Connects the actor with a switch that runs without rules; none if no switch runs.
    pub(crate) fn connect_filters(&mut self) -> Result<Option<Orders>, NodeError> {
        let Some(switch) = self.switch.get() else { return Ok(None) };
        self.filters.connect(switch)
    }

    /// Sends ways to the switch, even while it gets its rules.
    pub(crate) fn tell_ways(&mut self, ways: &[WayOrder]) -> Result<(), NodeError> {
        let order = self.objects().ways(ways);
        let Some(switch) = self.switch.any() else { return Ok(()) };
        unless_gone(switch.order(&order, &[]).map(drop))
    }

    /// Informs the switch whose rules apply to the interfaces of a slice, or of all.
    pub(crate) fn name_filtered(&mut self, slice: Option<&str>) -> Result<(), NodeError> {
        let (objects, Some(switch)) = self.with_switch() else { return Ok(()) };
        unless_gone(objects.tell_filtered(switch, slice))
    }
}
