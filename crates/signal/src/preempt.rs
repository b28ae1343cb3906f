//! Preempted LSPs (RFC 5711, RFC 5712).

use crate::id::{Adjacency, LspKey};
use crate::ledger::Victim;
use crate::output::Event;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::Cause;
use crate::world::World;

impl Signaller {
    /// Handles the preemption of an LSP.
    pub(crate) fn preempt(&mut self, world: &mut dyn World, via: Adjacency, victims: Vec<Victim>) {
        for Victim { lsp, is_soft } in victims {
            let interface = via.interface;
            self.event(Event::Preempted { lsp, interface, is_soft });
            if !is_soft {
                self.preempt_hard(world, lsp);
                continue;
            }
            // RFC 5712, section 5: the LSP stays for some time without a reservation, and its head
            // is asked to move it.
            if let Some(lsp) = self.lsps.get_mut(&lsp) {
                lsp.is_preempted = true;
            }
            let until = self.now + self.config.soft_preemption;
            self.timers.set(Timer::SoftPreemption(lsp), until);
            self.send_resv(lsp, false);
            self.path_fails(lsp, Cause::SOFT_PREEMPTION);
        }
    }

    /// RFC 5711: the head gets a PathErr, the tail a ResvErr; the reservation is removed.
    pub(crate) fn preempt_hard(&mut self, world: &mut dyn World, key: LspKey) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let (via, resv) = (lsp.downstream.via(), lsp.resv.clone());
        self.drop_resv(world, key, true);
        self.path_fails(key, Cause::PREEMPTED);
        if let (Some(via), Some(resv)) = (via, resv) {
            let flowspec = Some(resv.flowspec);
            self.send_resv_error(via, &key, resv.style, flowspec, Cause::SERVICE_PREEMPTED, 0);
        }
    }

    pub(crate) fn not_preempted(&mut self, key: LspKey) {
        self.timers.cancel(Timer::SoftPreemption(key));
        if let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.is_preempted = false;
        }
    }
}
