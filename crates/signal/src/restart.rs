//! Graceful restart (RFC 3473, section 9; RFC 5063): this node learns its state again while the
//! data plane continues.

use std::collections::BTreeMap;

use crate::id::{Adjacency, Label, LspKey, Time};
use crate::output::{Entry, Output, Program};
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{ExplicitHop, ExplicitRoute};

/// The unclaimed entries after a restart.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Until this time, neighbours get their state again.
    pub(crate) until: Option<Time>,
    /// Entries of the data plane that no LSP has claimed.
    kept: BTreeMap<LspKey, Entry>,
    /// RecoveryPath: the former neighbour of the Path, and its route (RFC 5063, section 4.1).
    pub(crate) paths: BTreeMap<LspKey, (Adjacency, Option<ExplicitRoute>)>,
}

impl Signaller {
    pub(crate) fn begin_recovery(&mut self) {
        let restart = &mut self.config.restart;
        let kept = std::mem::take(&mut restart.kept);
        if restart.recovery.is_zero() || !restart.resumes {
            return;
        }
        let until = self.now + restart.recovery;
        for (lsp, entry) in kept {
            if entry.incoming.is_none_or(|label| self.labels.claim(label)) {
                self.recovery.kept.insert(lsp, entry);
            }
        }
        self.recovery.until = Some(until);
        self.timers.set(Timer::RecoveryEnds, until);
    }

    /// RFC 3473, section 9.5.2: the entry with the former label in a neighbour's message, if the
    /// data plane still has it. A neighbour that has not noticed the restart sends no label; then
    /// it is the entry of the LSP itself.
    pub(crate) fn claim(&mut self, lsp: &LspKey, label: Option<u32>) -> Option<Entry> {
        let entry = self.recovery.kept.get(lsp)?;
        if label.is_some() && entry.incoming.map(Label::get) != label {
            return None;
        }
        self.recovery.kept.remove(lsp)
    }

    /// The route in a RecoveryPath, as seen from this node: it begins with this node.
    pub(crate) fn recovered_route(&self, route: Option<&ExplicitRoute>) -> Option<ExplicitRoute> {
        let mut hops = vec![ExplicitHop::strict(self.config.router)];
        hops.extend_from_slice(&route?.0);
        Some(ExplicitRoute(hops))
    }

    /// Removes unclaimed entries.
    pub(crate) fn end_recovery(&mut self) {
        self.recovery.until = None;
        self.recovery.paths.clear();
        // LSPs that were claimed, but have no new reservation from downstream.
        let idle = self.lsps.iter().filter(|(_, lsp)| lsp.is_installed && lsp.resv.is_none());
        for lsp in idle.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.uninstall(lsp);
        }
        for (lsp, entry) in std::mem::take(&mut self.recovery.kept) {
            if let Some(label) = entry.incoming {
                self.labels.give_back(label, self.now);
            }
            // If an LSP has returned with another label, its own entry has replaced this one.
            if !self.lsps.get(&lsp).is_some_and(|lsp| lsp.is_installed) {
                let ticket = self.new_ticket();
                self.out.push(Output::Program(Program { ticket, lsp, entry: None }));
            }
        }
    }
}
