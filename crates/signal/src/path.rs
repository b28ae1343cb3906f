//! Path state: handles Path and PathTear, and forwards them downstream.

use std::time::Duration;

use crate::config::lifetime;
use crate::demand::Demand;
use crate::fields::{Fields, PathBody};
use crate::id::{Adjacency, LspKey};
use crate::lsp::{Downstream, Lsp, Side, Upstream};
use crate::receive::Arrival;
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{Cause, LabelRequest, SessionAttribute, Style, Tspec};
use crate::world::World;

/// EtherType of MPLS itself, for LSPs within LSPs.
const MPLS: u16 = 0x8847;

impl Signaller {
    pub(crate) fn path_in(
        &mut self,
        world: &mut dyn World,
        arrival: Arrival,
        ttl: u8,
        fields: &Fields,
    ) {
        let via = arrival.via;
        let (Some(lsp), Some(hop)) = (fields.lsp(), fields.hop) else {
            self.counters.useless += 1;
            return;
        };
        let about = (lsp, Side::Path);
        if self.is_overtaken(via, about, fields.id) {
            return;
        }
        let upstream = Upstream::Hop { via, handle: hop.handle };
        match self.accept_path(world, upstream, &lsp, (ttl, arrival.ttl), fields) {
            Ok(()) => {
                self.bind(via, about, fields.id);
            }
            Err(cause) => {
                // If a change fails, the former state stays in use.
                let kept = self.lsps.get(&lsp).is_some_and(|lsp| lsp.upstream.via() == Some(via));
                if kept {
                    self.unbind(via, about);
                    let period = self.told_by(via, fields.refresh);
                    self.keep_for(Timer::PathExpiry(lsp), period);
                }
                self.send_path_error(via, &lsp, fields.tspec, cause, 0);
            }
        }
    }

    /// The refresh period of a neighbour's state. Long periods are accepted only from neighbours
    /// with Hellos, which show when the state is lost (RFC 8370, section 3.1).
    pub(crate) fn told_by(&self, via: Adjacency, told: Option<Duration>) -> Duration {
        let longest = match self.config.independent_refresh {
            Some(_) if self.is_independent(via) => Duration::from_secs(86_400),
            _ => self.config.refresh.max(Duration::from_secs(600)),
        };
        told.unwrap_or(self.config.refresh).clamp(Duration::from_millis(100), longest)
    }

    /// The received refresh period of a state.
    pub(crate) fn told_period(&self, lsp: LspKey, side: Side) -> Duration {
        let told = self.lsps.get(&lsp).map(|lsp| match side {
            Side::Path => lsp.path_period,
            Side::Resv => lsp.resv_period,
        });
        told.unwrap_or(self.config.refresh)
    }

    fn check_path(
        &self,
        lsp: &LspKey,
        path: &PathBody,
        via: Option<Adjacency>,
    ) -> Result<(), Cause> {
        let LabelRequest { protocol } = path.request;
        if ![LabelRequest::IPV4, LabelRequest::IPV6, MPLS].contains(&protocol) {
            return Err(Cause::PROTOCOL);
        }
        let (setup, hold) = path.priorities();
        // RFC 3209, section 4.7.3: hold is never weaker than setup.
        if setup > 7 || hold > setup {
            return Err(Cause::POLICY);
        }
        Demand::of_tspec(&path.tspec).map_err(|_| Cause::BAD_TSPEC)?;
        if let Some(record) = &path.record
            && via.is_some()
            && record.contains(|address| self.config.is_own(address))
        {
            return Err(Cause::LOOP);
        }
        if self.lsps.len() >= self.config.limits.lsps && !self.lsps.contains_key(lsp) {
            return Err(Cause::TRAFFIC_CONTROL);
        }
        Ok(())
    }

    fn accept_path(
        &mut self,
        world: &mut dyn World,
        upstream: Upstream,
        lsp: &LspKey,
        (ttl, arrival_ttl): (u8, u8),
        fields: &Fields,
    ) -> Result<(), Cause> {
        let Upstream::Hop { via, .. } = upstream else { return Err(Cause::LOOP) };
        if let Some(cause) = fields.refusal {
            return Err(cause);
        }
        let Some(mut path) = fields.path_body() else {
            self.counters.useless += 1;
            return Ok(());
        };
        // RFC 2205, section 3.8: a router that forwarded the message as plain IP has decremented
        // only the IP TTL.
        if arrival_ttl != ttl {
            return Err(Cause::NON_RSVP);
        }
        let known = self.lsps.get(lsp);
        // The head's own Path has returned, or another head uses its name.
        if known.is_some_and(|known| known.upstream == Upstream::Head)
            || self.config.is_own(lsp.sender.address)
        {
            return Err(Cause::LOOP);
        }
        self.check_path(lsp, &path, Some(via))?;
        if let Some((_, route)) = self.recovery.paths.get(lsp) {
            // RFC 5063, section 4.1: the route from before the restart.
            path.route = self.recovered_route(route.as_ref()).or(path.route);
        }
        let (downstream, _) = self.resolve(world, lsp, &path, false)?;
        if downstream.via() == Some(via) {
            return Err(Cause::LOOP);
        }
        let unchanged = known.is_some_and(|known| {
            known.path == path && known.upstream == upstream && known.downstream == downstream
        });
        if !unchanged && downstream != Downstream::Tail && ttl <= 1 {
            self.counters.useless += 1;
            return Ok(());
        }
        let grows = self.lsps.get(lsp).is_none_or(|known| known.path.tspec != path.tspec);
        if grows && self.recovery.until.is_none() {
            self.check_room(world, lsp, &path, downstream)?;
        }
        let period = self.told_by(via, fields.refresh);
        self.install_path(world, *lsp, upstream, downstream, path, fields.recovery_label);
        let recovers = self.neighbour_recovers(via);
        if let Some(state) = self.lsps.get_mut(lsp) {
            state.ttl = ttl;
            state.path_period = period;
        }
        self.keep_for(Timer::PathExpiry(*lsp), period);
        if downstream == Downstream::Tail {
            self.tail_resv(world, *lsp);
        } else {
            self.send_path(world, *lsp, false);
        }
        if unchanged && recovers {
            self.send_resv(*lsp, true);
        }
        Ok(())
    }

    /// Reports a lack of resources at once, which a Resv would find later, so that the head learns
    /// of it.
    pub(crate) fn check_room(
        &mut self,
        world: &mut dyn World,
        lsp: &LspKey,
        path: &PathBody,
        downstream: Downstream,
    ) -> Result<(), Cause> {
        let Some(via) = downstream.via() else { return Ok(()) };
        let demand = Demand::of_tspec(&path.tspec).map_err(|_| Cause::BAD_TSPEC)?;
        let (setup, _) = path.priorities();
        let fits =
            self.ledger.would_fit(world, via.interface, lsp, wanted_style(path), setup, demand);
        fits.map_err(|lack| crate::errors::cause_of(&lack))
    }

    /// Stores path state, new or changed.
    pub(crate) fn install_path(
        &mut self,
        world: &mut dyn World,
        key: LspKey,
        upstream: Upstream,
        downstream: Downstream,
        path: PathBody,
        recovery_label: Option<u32>,
    ) {
        let (from, to) = (upstream.via(), downstream.via());
        for via in from.iter().chain(&to) {
            self.neighbour(world, *via);
        }
        let Some(before) = self.lsps.get_mut(&key) else {
            let mut lsp = Lsp::new(upstream, downstream, path, self.config.refresh);
            if let Some(entry) = self.claim(&key, recovery_label) {
                lsp.incoming = entry.incoming;
                lsp.is_installed = true;
            }
            self.lsps.insert(key, lsp);
            from.iter().chain(&to).for_each(|via| self.use_neighbour(*via));
            return;
        };
        before.path = path;
        let (was_from, was_to) = (before.upstream.via(), before.downstream.via());
        if was_from != from {
            if let Some(via) = was_from {
                self.unbind(via, (key, Side::Path));
                self.supersede(via, (key, Side::Resv));
                self.leave_neighbour(via);
            }
            from.iter().for_each(|via| self.use_neighbour(*via));
        }
        if was_to != to {
            // The reservation was for another link.
            self.drop_resv(world, key, true);
            self.tear_path(key);
            if let Some(via) = was_to {
                self.leave_neighbour(via);
            }
            to.iter().for_each(|via| self.use_neighbour(*via));
        }
        if let Some(lsp) = self.lsps.get_mut(&key) {
            if lsp.upstream != upstream {
                lsp.sent_resv = None;
            }
            (lsp.upstream, lsp.downstream) = (upstream, downstream);
            if was_from != from {
                self.send_resv(key, false);
            }
        }
    }

    pub(crate) fn supersede(&mut self, via: Adjacency, about: (LspKey, Side)) {
        if let Some(neighbour) = self.neighbours.get_mut(&via) {
            neighbour.supersede(about);
        }
    }

    fn use_neighbour(&mut self, via: Adjacency) {
        if let Some(neighbour) = self.neighbours.get_mut(&via) {
            neighbour.users += 1;
            self.timers.cancel(Timer::Forget(via));
        }
    }

    pub(crate) fn leave_neighbour(&mut self, via: Adjacency) {
        if let Some(neighbour) = self.neighbours.get_mut(&via) {
            neighbour.users = neighbour.users.saturating_sub(1);
            if neighbour.users == 0 {
                self.timers.set(Timer::Forget(via), self.now + lifetime(self.config.refresh));
            }
        }
    }

    pub(crate) fn path_tear_in(&mut self, world: &mut dyn World, via: Adjacency, fields: &Fields) {
        let Some(lsp) = fields.lsp() else { return };
        let about = (lsp, Side::Path);
        if self.is_overtaken(via, about, fields.id) {
            return;
        }
        if let (Some(id), Some(neighbour)) = (fields.id, self.neighbours.get_mut(&via)) {
            let until = self.now + lifetime(self.config.refresh);
            neighbour.note_removed(about, id.id, self.now, until);
        }
        // RFC 2205, section 3.1.5: only the previous hop may tear the path down.
        if self.lsps.get(&lsp).is_some_and(|lsp| lsp.upstream.via() == Some(via)) {
            self.remove_lsp(world, lsp, true);
        }
    }

    /// Removes an LSP and everything that belongs to it.
    pub(crate) fn remove_lsp(&mut self, world: &mut dyn World, key: LspKey, tears: bool) {
        self.drop_resv(world, key, false);
        if tears {
            self.tear_path(key);
        }
        // A label that was claimed after a restart may have no reservation yet.
        self.uninstall(key);
        let Some(lsp) = self.lsps.get(&key) else { return };
        let (from, to) = (lsp.upstream.via(), lsp.downstream.via());
        if let Some(via) = from {
            self.unbind(via, (key, Side::Path));
        }
        if let Some(via) = to {
            self.unbind(via, (key, Side::Resv));
        }
        self.lsps.remove(&key);
        for via in from.into_iter().chain(to) {
            self.leave_neighbour(via);
        }
        if self.rules.hold(Rule::CancelTimers) {
            Timer::of(key).into_iter().for_each(|timer| self.timers.cancel(timer));
        }
    }

    pub(crate) fn recovery_path_in(&mut self, via: Adjacency, fields: &Fields) {
        // RFC 5063, section 4.5.2: the message is useful only while this node recovers.
        let (Some(lsp), Some(_)) = (fields.lsp(), self.recovery.until) else {
            self.counters.useless += 1;
            return;
        };
        if self.recovery.paths.len() < self.config.limits.lsps {
            self.recovery.paths.insert(lsp, (via, fields.route.clone()));
        }
    }
}

/// The style of the tail's Resv (RFC 3209, section 4.7.3).
pub(crate) fn wanted_style(path: &PathBody) -> Style {
    if path.has_flag(SessionAttribute::SHARED_EXPLICIT) {
        Style::SharedExplicit
    } else {
        Style::FixedFilter
    }
}

/// A TSpec for an error about a Path without one.
pub(crate) fn tspec_or_none(tspec: Option<Tspec>) -> Tspec {
    tspec.unwrap_or_default()
}
